/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_channel.h: the connection of rpc.c: addresses in turn, credentials, limits. gRPC's types stay
 * between rpc.c and rpc_channel.c.
 */
#ifndef SPANPROF_NET_RPC_CHANNEL_H
#define SPANPROF_NET_RPC_CHANNEL_H

#include <grpc/grpc.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "net/rpc.h"

struct rpc_channel;

/* Reads the files. */
int rpc_channel_new(struct rpc_channel **ret, const struct rpc_options *o, size_t max_answer_bytes,
		    struct errmsg *e);
/* Before the first call; after grpc_init(). 0, or -EINVAL when the TLS files cannot be used. */
int rpc_channel_open(struct rpc_channel *c);
struct rpc_channel *rpc_channel_free(struct rpc_channel *c);

grpc_call *rpc_channel_call(struct rpc_channel *c, grpc_completion_queue *queue, const char *path,
			    uint64_t timeout_ns);
void rpc_channel_next(struct rpc_channel *c);
const char *rpc_channel_address(const struct rpc_channel *c);

#endif
