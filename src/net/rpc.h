/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.h: calls to one backend over HTTP/2: a thin layer over gRPC's C core, its only user.
 *
 * Why a second thread: the core only makes progress inside its blocking completion queue, and the
 * daemon's one loop must not block. So a thread of ours waits in that queue and does nothing else
 * than to go on with the calls. A call belongs to the caller until rpc_start, to the thread until
 * rpc_take_done hands it back; they never share one. The thread makes rpc_fd() readable when there
 * is something to take. All signals are blocked in it and in the core's own threads.
 */
#ifndef SPANPROF_NET_RPC_H
#define SPANPROF_NET_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "base/vec.h"
#include "net/messages.h"

struct rpc;

/* gRPC's status codes, of which only those are named that are treated differently. */
enum rpc_status {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_PERMISSION_DENIED = 7,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_UNIMPLEMENTED = 12,
	RPC_UNAVAILABLE = 14,
	RPC_UNAUTHENTICATED = 16,
};

/* "UNAVAILABLE"; "status 99" for what no server should send. */
const char *rpc_status_name(int status);

struct rpc_options {
	const char *const *addresses; /* "host:port"; copied */
	size_t n_addresses;
	bool tls;
	const char *ca_file; /* PEM; NULL: the system's roots */
	const char *cert_file;
	const char *key_file;
	const char
		*server_name; /* expected in the certificate instead of the host; NULL: the host */
	const char *token;    /* sent as "authentication"; NULL: none */
	uint64_t timeout_ns;  /* of each call; 0: 30 s */
	size_t max_answer_bytes; /* 0: 256 KiB */
};

struct rpc_message {
	const uint8_t *at;
	size_t n;
};

/* One call: unary with one message, else a client stream. Heap; owned by one side at a time. */
struct rpc_call {
	const char *path;                 /* static: "/skywalking.v3.ProfileTask/collectSnapshot" */
	VEC(struct rpc_message) messages; /* at least one; what they point to must stay in place */
	struct bytes body;                /* for the caller: a place for a message's bytes */
	void (*done)(void *ctx, struct rpc_call *call); /* for the caller */
	void *ctx;
	uint64_t arg;
	/* The outcome */
	int status;       /* enum rpc_status, or another code of gRPC's */
	char detail[200]; /* printable */
	struct bytes answer;
	uint64_t start_ns; /* CLOCK_MONOTONIC */
};

struct rpc_call *rpc_call_new(const char *path);
struct rpc_call *rpc_call_free(struct rpc_call *c);

/*
 * Reads the files. The core and its threads start with the first call, and so with the privileges
 * that the caller has then.
 */
int rpc_new(struct rpc **ret, const struct rpc_options *o, struct errmsg *e);
/* Cancels what is under way and frees it without calling done. */
struct rpc *rpc_free(struct rpc *r);

int rpc_fd(const struct rpc *r);

/* Consumes the call, always: 0, or a negative errno and it is freed without having been started. */
int rpc_start(struct rpc *r, struct rpc_call *take_call, uint64_t mono_ns);

/* The next finished call, or NULL. */
struct rpc_call *rpc_take_done(struct rpc *r);

/* Calls started from now on go over a new connection to the next address (or the only one again). */
void rpc_next_address(struct rpc *r);
const char *rpc_address(const struct rpc *r);

/* Replaces the token for calls started from now on. 0, -ENOMEM or -EINVAL with the reason. */
int rpc_set_token(struct rpc *r, const char *token, struct errmsg *e);

#endif
