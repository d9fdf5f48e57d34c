/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c: whether the backend is there.
 */
#include "net/link.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "net/rpc.h"

#define SECOND_NS 1000000000ULL

enum { WAIT_MAX_S = 60 };

void link_init(struct link *l, uint64_t seed)
{
	*l = (struct link){.seed = seed};
}

const char *link_state_text(const struct link *l)
{
	static const char *const texts[] = {
		[LINK_NEW] = "connecting",
		[LINK_READY] = "ready",
		[LINK_AWAY] = "away",
		[LINK_UNAUTHORISED] =
			"refused: the backend does not accept the token; check token or token_file",
	};
	_Static_assert(ARRAY_SIZE(texts) == LINK_STATE_MAX, "a text for each");

	return texts[l->state];
}

bool link_may_start(struct link *l, uint64_t now_ns)
{
	if (l->state == LINK_READY) {
		if (l->n_running >= LINK_RUNNING_MAX)
			return false;
	} else {
		if (l->probing || now_ns < l->retry_ns)
			return false;
		l->probing = true;
	}
	l->n_running++;
	return true;
}

void link_cancelled(struct link *l)
{
	l->n_running--;
	l->probing = false;
}

uint64_t link_free_ns(const struct link *l)
{
	if (l->state == LINK_READY)
		return l->n_running < LINK_RUNNING_MAX ? 0 : UINT64_MAX;
	return l->probing ? UINT64_MAX : l->retry_ns;
}

/* 1 s, 2 s, 4 s ... 60 s, each up to a quarter shorter, so that agents do not come back together. */
static void fail(struct link *l, enum link_state state, uint64_t now_ns)
{
	uint32_t shift = l->n_failures < 6 ? l->n_failures : 6;
	uint64_t wait_ns = (WAIT_MAX_S < 1U << shift ? WAIT_MAX_S : 1U << shift) * SECOND_NS;

	l->state = state;
	l->n_failures++;
	l->seed = hash_mix(l->seed + l->n_failures);
	l->retry_ns = now_ns + wait_ns - l->seed % (wait_ns / 4);
}

enum link_verdict link_ended(struct link *l, int status, uint64_t start_ns, uint64_t now_ns,
			     bool *ret_reconnect)
{
	bool was_away = l->state == LINK_AWAY;

	*ret_reconnect = false;
	l->n_running--;
	if (status == RPC_UNAVAILABLE ||
	    (status == RPC_DEADLINE_EXCEEDED && start_ns >= l->last_good_ns)) {
		/* The other calls of a lost connection end with it: one failure, not many. */
		if (!was_away || l->probing) {
			*ret_reconnect = true;
			fail(l, LINK_AWAY, now_ns);
		}
		l->probing = false;
		return LINK_V_LOST;
	}
	if (status == RPC_DEADLINE_EXCEEDED || status == RPC_CANCELLED) {
		l->probing = false;
		return LINK_V_UNCERTAIN;
	}
	if (status == RPC_PERMISSION_DENIED || status == RPC_UNAUTHENTICATED) {
		if (l->state != LINK_UNAUTHORISED || l->probing)
			fail(l, LINK_UNAUTHORISED, now_ns);
		l->probing = false;
		return LINK_V_REFUSED;
	}
	l->probing = false;
	l->state = LINK_READY;
	l->n_failures = 0;
	if (start_ns > l->last_good_ns)
		l->last_good_ns = start_ns;
	return LINK_V_ANSWERED;
}
