/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice.c: one line in the backend's log about lost spans.
 */
#include "net/notice.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "net/label.h"

#define PAUSE_NS 60000000000ULL

void notice_init(struct notice *n, struct rpc *rpc, struct link *link)
{
	*n = (struct notice){.rpc = rpc, .link = link};
}

void notice_deinit(struct notice *n)
{
	bytes_deinit(&n->who);
}

void notice_speak_for(struct notice *n, const struct instance *i)
{
	size_t service = strlen(i->service) + 1, name = strlen(i->name) + 1;

	n->who.n = 0;
	if (vec_reserve(&n->who, service + name))
		return;
	memcpy(n->who.at, i->service, service);
	memcpy(n->who.at + service, i->name, name);
	n->who.n = service + name;
}

static bool has_news(const struct notice *n, uint64_t n_lost)
{
	return n_lost > n->n_told && !n->call_out && !n->unwanted && n->who.n;
}

static void told(void *ctx, struct rpc_call *c)
{
	struct notice *n = ctx;
	uint64_t now_ns = clock_mono_ns();
	bool reconnect;

	/* Nobody heard it: again as soon as the backend is back. */
	if (link_ended(n->link, c->status, c->start_ns, now_ns, &reconnect) == LINK_V_LOST)
		n->next_ns = 0;
	if (reconnect)
		rpc_next_address(n->rpc);
	n->call_out = false;
	n->unwanted = c->status == RPC_UNIMPLEMENTED;
	if (c->status == RPC_OK)
		n->n_told = n->n_telling;
	rpc_call_free(c);
}

static struct rpc_call *make_call(const struct notice *n, uint64_t n_lost)
{
	struct rpc_call *c = rpc_call_new("/skywalking.v3.LogReportService/collect");
	const char *service = (const char *)n->who.at;
	const struct instance speaker = {.service = (char *)service,
					 .name = (char *)service + strlen(service) + 1};
	char text[160];

	snprintf(
		text, sizeof(text),
		"spanprof lost %llu profiled spans on their way to this backend (no room in the spool, or refused)",
		(unsigned long long)(n_lost - n->n_told));
	if (c && !encode_log(&speaker, (int64_t)(clock_real_ns() / 1000000), text, &c->body) &&
	    !vec_push(&c->messages, (struct rpc_message){c->body.at, c->body.n}))
		return c;
	return rpc_call_free(c);
}

void notice_dispatch(struct notice *n, uint64_t n_lost, uint64_t now_ns)
{
	struct rpc_call *c;

	/* It is no call to find out with whether the backend is there. */
	if (!has_news(n, n_lost) || n->next_ns > now_ns || n->link->state != LINK_READY)
		return;
	c = make_call(n, n_lost);
	n->next_ns = now_ns + PAUSE_NS;
	if (!c || !link_may_start(n->link, now_ns)) {
		rpc_call_free(c);
		return;
	}
	c->done = told;
	c->ctx = n;
	if (rpc_start(n->rpc, c, now_ns)) {
		link_cancelled(n->link);
		return;
	}
	n->n_telling = n_lost;
	n->call_out = true;
}

uint64_t notice_deadline_ns(const struct notice *n, uint64_t n_lost)
{
	return has_news(n, n_lost) && n->link->state == LINK_READY ? n->next_ns : UINT64_MAX;
}
