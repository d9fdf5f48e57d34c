/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice.h: tells the backend's log that spans were lost, so that who looks there knows that the
 * pages show less than there was. One line at most a minute; a backend without logs is asked once.
 */
#ifndef SPANPROF_NET_NOTICE_H
#define SPANPROF_NET_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"
#include "net/rpc.h"

struct notice {
	struct rpc *rpc;   /* borrowed */
	struct link *link; /* borrowed */
	struct bytes
		who; /* service and instance to speak for, each with its NUL; empty: none yet */
	uint64_t n_told;
	uint64_t n_telling; /* what the call under way says */
	uint64_t next_ns;
	bool call_out;
	bool unwanted; /* the backend takes no logs */
};

void notice_init(struct notice *n, struct rpc *rpc, struct link *link);
void notice_deinit(struct notice *n);

/* The instance in whose name the next line goes. */
void notice_speak_for(struct notice *n, const struct instance *i);

/* n_lost: all spans lost so far. */
void notice_dispatch(struct notice *n, uint64_t n_lost, uint64_t now_ns);
uint64_t notice_deadline_ns(const struct notice *n, uint64_t n_lost);

#endif
