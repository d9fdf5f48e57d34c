/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h: whether the backend is there, and when to try again when it is not. Pure; time is an argument.
 *
 * One link for all calls. While the backend is away only one call at a time goes out, after a wait
 * that doubles; its outcome decides for all. A call that failed for reasons of its own leaves the
 * link alone.
 */
#ifndef SPANPROF_NET_LINK_H
#define SPANPROF_NET_LINK_H

#include <stdbool.h>
#include <stdint.h>

enum link_state {
	LINK_NEW, /* nothing is known yet: as LINK_AWAY with its wait over */
	LINK_READY,
	LINK_AWAY,
	LINK_UNAUTHORISED, /* it is there, but refuses our token */
	LINK_STATE_MAX
};

struct link {
	enum link_state state;
	uint32_t n_failures;   /* in a row */
	uint64_t retry_ns;     /* not before; while not ready */
	bool probing;          /* a call is out that will tell */
	uint64_t last_good_ns; /* start of the latest call that was answered */
	uint32_t n_running;    /* calls out */
	uint64_t seed;
};

enum { LINK_RUNNING_MAX = 64 };

void link_init(struct link *l, uint64_t seed);

/* A short text for people: "ready", "away", ... */
const char *link_state_text(const struct link *l);

/* True: the call may go now, and link_ended() must follow. */
bool link_may_start(struct link *l, uint64_t now_ns);

/* Instead of link_ended(): the call did not start after all. */
void link_cancelled(struct link *l);

/* Earliest time at which link_may_start() can say yes; UINT64_MAX: when a call has ended. */
uint64_t link_free_ns(const struct link *l);

enum link_verdict {
	LINK_V_ANSWERED,  /* the outcome is the call's own affair */
	LINK_V_LOST,      /* the backend was not reached: the call may be repeated as it is */
	LINK_V_UNCERTAIN, /* no answer in time, but others had one: it may have been carried out */
	LINK_V_REFUSED,   /* not authorised */
};

/* How a call ended; status as in net/rpc.h. *ret_reconnect: a new connection should be made. */
enum link_verdict link_ended(struct link *l, int status, uint64_t start_ns, uint64_t now_ns,
			     bool *ret_reconnect);

#endif
