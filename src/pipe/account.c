/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/account.h"

#include <stdbool.h>
#include <stdlib.h>

/* What is still to be given away, by kind of time. Items can only take what is there. */
struct budget {
	uint64_t left[SAMPLE_KIND_MAX];
};

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct wire_wall normalized_total(const struct account_input *in)
{
	uint64_t duration = minus(in->end_ns, in->start_ns);
	struct wire_wall t;

	t.blocked_ns = least(in->total.blocked_ns, duration);
	t.runq_ns = least(in->total.runq_ns, duration - t.blocked_ns);
	t.oncpu_ns = duration - t.blocked_ns - t.runq_ns;
	return t;
}

static int give(struct account *a, struct budget *b, struct account_item item)
{
	item.wall_ns = least(item.wall_ns, b->left[item.kind]);
	if (!item.wall_ns && !item.count)
		return 0;
	b->left[item.kind] -= item.wall_ns;
	return vec_push(&a->items, item);
}

static int give_synthetic(struct account *a, struct budget *b, uint32_t stack,
			  enum sample_kind kind, uint64_t wall_ns, uint64_t at_ns)
{
	return give(a, b,
		    (struct account_item){
			    .stack = stack,
			    .obs = UINT32_MAX,
			    .kind = kind,
			    .wall_ns = wall_ns,
			    .start_ns = at_ns,
			    .end_ns = at_ns,
		    });
}

/*
 * The thread's wall clock from which snapshots account for the time. With a sampling threshold of
 * zero a span is promoted by its first tick, which stands for the time since its start.
 */
static struct wire_wall accounted_from(const struct account_input *in)
{
	return in->sample_after_ns ? in->promoted : in->start;
}

static int account_before(const struct account_input *in, struct account *a, struct budget *b)
{
	struct wire_wall from = accounted_from(in);
	int r;

	r = give_synthetic(a, b, ACCOUNT_BEFORE, SAMPLE_ONCPU,
			   minus(from.oncpu_ns, in->start.oncpu_ns), in->start_ns);
	if (!r)
		r = give_synthetic(a, b, ACCOUNT_BEFORE, SAMPLE_RUNQ,
				   minus(from.runq_ns, in->start.runq_ns), in->start_ns);
	if (!r)
		r = give_synthetic(a, b, ACCOUNT_BEFORE, SAMPLE_BLOCKED,
				   minus(from.blocked_ns, in->start.blocked_ns), in->start_ns);
	return r;
}

struct split {
	uint64_t blocked_ns;
	uint64_t runq_ns;
};

static struct split own_interval(const struct observation *o)
{
	uint64_t length = minus(o->mono_ns, o->out_ns);
	struct split s = {.blocked_ns = length};

	if (o->flags & WIRE_SNAP_F_PREEMPTED)
		s.blocked_ns = 0;
	else if (o->wake_ns >= o->out_ns && o->wake_ns <= o->mono_ns)
		s.blocked_ns = o->wake_ns - o->out_ns;
	s.runq_ns = length - s.blocked_ns;
	return s;
}

static int give_interval(const struct account_input *in, size_t i, struct split s, uint16_t count,
			 struct account *a, struct budget *b)
{
	const struct observation *o = &in->obs[i];
	bool preempted = o->flags & WIRE_SNAP_F_PREEMPTED;
	uint64_t end_ns = o->mono_ns;
	int r;

	if (o->kind == WIRE_SNAP_STUCK)
		end_ns = o->out_ns + s.blocked_ns + s.runq_ns;

	r = give(a, b,
		 (struct account_item){
			 .stack = o->stack,
			 .obs = i,
			 .kind = SAMPLE_BLOCKED,
			 .count = preempted ? 0 : count,
			 .wall_ns = s.blocked_ns,
			 .start_ns = o->out_ns,
			 .end_ns = end_ns,
		 });
	if (r)
		return r;
	return give(a, b,
		    (struct account_item){
			    .stack = o->stack,
			    .obs = i,
			    .kind = SAMPLE_RUNQ,
			    .count = preempted ? count : 0,
			    .wall_ns = s.runq_ns,
			    .start_ns = o->out_ns,
			    .end_ns = end_ns,
		    });
}

/* State of the walk over the off-CPU snapshots. */
struct off_walk {
	uint64_t blocked_ns; /* of the thread, at the last off-CPU record */
	uint64_t runq_ns;
	uint32_t next_seq;
	bool gap;         /* snapshots are missing since the last off-CPU record */
	size_t stuck;     /* a stuck snapshot whose interval has no end yet; SIZE_MAX: none */
	uint16_t n_stuck; /* snapshots that found that interval open */
};

static int account_off_record(const struct account_input *in, size_t i, struct off_walk *w,
			      struct account *a, struct budget *b)
{
	const struct observation *o = &in->obs[i];
	uint64_t blocked_ns = minus(o->wall.blocked_ns, w->blocked_ns);
	uint64_t runq_ns = minus(o->wall.runq_ns, w->runq_ns);
	struct split own = own_interval(o);
	struct split earlier;
	uint16_t count = 1;
	int r = 0;

	own.blocked_ns = least(own.blocked_ns, blocked_ns);
	own.runq_ns = least(own.runq_ns, runq_ns);
	earlier = (struct split){blocked_ns - own.blocked_ns, runq_ns - own.runq_ns};
	if (w->stuck != SIZE_MAX && in->obs[w->stuck].out_ns == o->out_ns) {
		/* this is the end of the interval that was found open */
		count = w->n_stuck < UINT16_MAX ? w->n_stuck + 1 : UINT16_MAX;
		w->stuck = SIZE_MAX;
	}
	if (w->stuck != SIZE_MAX) {
		r = give_interval(in, w->stuck, earlier, w->n_stuck, a, b);
	} else if (w->gap) {
		r = give_synthetic(a, b, ACCOUNT_LOST, SAMPLE_BLOCKED, earlier.blocked_ns,
				   o->out_ns);
		if (!r)
			r = give_synthetic(a, b, ACCOUNT_LOST, SAMPLE_RUNQ, earlier.runq_ns,
					   o->out_ns);
	} else {
		own = (struct split){blocked_ns, runq_ns};
	}
	if (!r)
		r = give_interval(in, i, own, count, a, b);
	w->blocked_ns += blocked_ns;
	w->runq_ns += runq_ns;
	w->gap = false;
	w->stuck = SIZE_MAX;
	return r;
}

/*
 * An interval that was found open before, and whose end has no record (it was lost, or not due), gets
 * the time up to the beginning of this one: the thread's clock stands still while an interval is open.
 */
static int found_open(const struct account_input *in, size_t i, struct off_walk *w,
		      struct account *a, struct budget *b)
{
	const struct observation *o = &in->obs[i];
	int r = 0;

	if (w->stuck != SIZE_MAX && in->obs[w->stuck].out_ns == o->out_ns) {
		w->n_stuck += w->n_stuck < UINT16_MAX;
		return 0;
	}
	if (w->stuck != SIZE_MAX) {
		struct split s = {minus(o->wall.blocked_ns, w->blocked_ns),
				  minus(o->wall.runq_ns, w->runq_ns)};

		r = give_interval(in, w->stuck, s, w->n_stuck, a, b);
		w->blocked_ns += s.blocked_ns;
		w->runq_ns += s.runq_ns;
		w->gap = false;
	}
	w->stuck = i;
	w->n_stuck = 1;
	return r;
}

static int account_off_cpu(const struct account_input *in, struct account *a, struct budget *b)
{
	struct wire_wall from = accounted_from(in);
	struct off_walk w = {
		.blocked_ns = from.blocked_ns,
		.runq_ns = from.runq_ns,
		.stuck = SIZE_MAX,
	};
	enum account_stack rest = ACCOUNT_SHORT;
	int r = 0;

	for (size_t i = 0; i < in->n_obs && !r; i++) {
		const struct observation *o = &in->obs[i];

		if (o->seq != w.next_seq) {
			w.gap = true;
			a->n_missing += o->seq - w.next_seq;
		}
		w.next_seq = o->seq + 1;
		if (o->kind == WIRE_SNAP_OFFCPU)
			r = account_off_record(in, i, &w, a, b);
		else if (o->kind == WIRE_SNAP_STUCK)
			r = found_open(in, i, &w, a, b);
	}
	if (!r && w.stuck != SIZE_MAX)
		r = give_interval(in, w.stuck,
				  (struct split){b->left[SAMPLE_BLOCKED], b->left[SAMPLE_RUNQ]},
				  w.n_stuck, a, b);
	if (w.gap)
		rest = ACCOUNT_LOST;
	if (!r)
		r = give_synthetic(a, b, rest, SAMPLE_BLOCKED, b->left[SAMPLE_BLOCKED], in->end_ns);
	if (!r)
		r = give_synthetic(a, b, rest, SAMPLE_RUNQ, b->left[SAMPLE_RUNQ], in->end_ns);
	return r;
}

static size_t next_tick(const struct account_input *in, size_t i)
{
	while (i < in->n_obs && in->obs[i].kind != WIRE_SNAP_ONCPU)
		i++;
	return i;
}

/* True when snapshots are missing between obs[i] and obs[j]. */
static bool gap_between(const struct account_input *in, size_t i, size_t j)
{
	return in->obs[j].seq - in->obs[i].seq != j - i;
}

/* How far from a tick its time reaches, at most, on a side where the thread has waited or has not. */
static uint64_t reach(const struct account_input *in, bool waited)
{
	return waited && in->period_ns ? in->period_ns / 2 : UINT64_MAX;
}

/* CPU time, by the thread's clock, that is in no tick's reach, and the snapshots before and after it. */
struct stretch {
	uint64_t from_ns;
	uint64_t to_ns;
	size_t first; /* in obs */
	size_t last;
};

static uint32_t shared(const struct account_input *in, size_t i)
{
	if (!in->shared || gap_between(in, i, i + 1))
		return ACCOUNT_NO_TICK;
	return in->shared(in->ctx, in->obs[i].stack, in->obs[i + 1].stack);
}

/*
 * What ran between two snapshots next to each other was called by the frames that both have. So the time in a
 * part of a call that waits is known to be in that part, whether ticks meet it or not.
 */
static int give_stretch(const struct account_input *in, const struct stretch *s, struct account *a,
			struct budget *b)
{
	uint32_t stack = ACCOUNT_NO_TICK;
	uint64_t sum = 0, at_ns = in->end_ns;
	int r = 0;

	for (size_t i = s->first; i < s->last && !r; i++) {
		const struct observation *o = &in->obs[i], *next = &in->obs[i + 1];
		uint64_t ns = minus(least(s->to_ns, next->wall.oncpu_ns),
				    s->from_ns > o->wall.oncpu_ns ? s->from_ns : o->wall.oncpu_ns);
		uint32_t here = ns ? shared(in, i) : stack;

		if (here != stack && stack != ACCOUNT_NO_TICK)
			r = give_synthetic(a, b, stack, SAMPLE_ONCPU, sum, at_ns);
		if (here != stack)
			sum = 0;
		stack = here;
		sum += ns;
		at_ns = next->kind == WIRE_SNAP_ONCPU ? next->mono_ns : next->out_ns;
	}
	if (!r && stack != ACCOUNT_NO_TICK)
		r = give_synthetic(a, b, stack, SAMPLE_ONCPU, sum, at_ns);
	return r;
}

static int give_tick(const struct account_input *in, size_t i, uint64_t wall_ns, struct account *a,
		     struct budget *b)
{
	const struct observation *o = &in->obs[i];

	return give(a, b,
		    (struct account_item){
			    .stack = o->stack,
			    .obs = i,
			    .kind = SAMPLE_ONCPU,
			    .count = 1,
			    .wall_ns = wall_ns,
			    .start_ns = o->mono_ns,
			    .end_ns = o->mono_ns,
		    });
}

/*
 * A tick stands for the time that is nearer to it than to another tick. Where a tick falls does not depend
 * on what runs, so parts of a call get what is theirs on the average, however short they are. Beyond a
 * wait, a tick stands for half a period at most, and the rest has no stack of its own: what ran there is
 * hardly what was met here. A tick that meets a moment between two waits would else get all CPU time up to
 * the ticks around, more than a period of it if those were late or are not there. So no part of a
 * call is off by more than a period: one that computes has ticks, and one that waits has its waits.
 *
 * Switch-outs are not used as if they were ticks, although their stacks are there: they come at certain
 * places (a wait; the end of a time slice that began at a wake-up), and what runs between these would
 * hardly ever get its share.
 */
static int account_on_cpu(const struct account_input *in, struct account *a, struct budget *b)
{
	struct wire_wall at = accounted_from(in); /* up to which time on CPU is given */
	uint64_t end = in->start.oncpu_ns + a->total.oncpu_ns;
	uint64_t end_blocked = in->start.blocked_ns + a->total.blocked_ns;
	struct stretch s = {.from_ns = at.oncpu_ns};
	bool was_lost = false;
	uint64_t lost = 0;
	int r = 0;

	for (size_t i = next_tick(in, 0), next; i < in->n_obs && !r; i = next) {
		const struct observation *o = &in->obs[i];
		uint64_t left = minus(o->wall.oncpu_ns, at.oncpu_ns), right, gap = 0;

		left = least(left, reach(in, o->wall.blocked_ns > at.blocked_ns));
		s.to_ns = o->wall.oncpu_ns - left;
		s.last = i;
		if (!was_lost)
			r = give_stretch(in, &s, a, b);
		next = next_tick(in, i + 1);
		was_lost = next < in->n_obs && gap_between(in, i, next);
		if (next < in->n_obs) {
			const struct wire_wall *to = &in->obs[next].wall;

			gap = minus(to->oncpu_ns, o->wall.oncpu_ns);
			right = least(gap / 2,
				      reach(in, was_lost || to->blocked_ns > o->wall.blocked_ns));
			if (was_lost)
				lost += gap - 2 * right;
			at = (struct wire_wall){.oncpu_ns = minus(to->oncpu_ns, right),
						.blocked_ns = o->wall.blocked_ns};
		} else {
			right = least(minus(end, o->wall.oncpu_ns),
				      reach(in, end_blocked > o->wall.blocked_ns));
		}
		s = (struct stretch){.from_ns = o->wall.oncpu_ns + right, .first = i};
		if (!r)
			r = give_tick(in, i, left + right, a, b);
	}
	s.to_ns = end;
	s.last = in->n_obs ? in->n_obs - 1 : 0;
	if (!r)
		r = give_stretch(in, &s, a, b);
	if (!r)
		r = give_synthetic(a, b, ACCOUNT_LOST, SAMPLE_ONCPU, lost, in->end_ns);
	if (!r)
		r = give_synthetic(a, b, ACCOUNT_NO_TICK, SAMPLE_ONCPU, b->left[SAMPLE_ONCPU],
				   in->end_ns);
	return r;
}

static int by_time(const void *a, const void *b)
{
	const struct account_item *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->obs < y->obs ? -1 : x->obs > y->obs;
}

/* In the order of time; a tick can fall between the end of the call and the end of its probe. */
static void put_in_order(const struct account_input *in, struct account *a)
{
	for (size_t i = 0; i < a->items.n; i++) {
		struct account_item *item = &a->items.at[i];

		item->start_ns = least(item->start_ns, in->end_ns);
		item->end_ns = least(item->end_ns, in->end_ns);
	}
	if (a->items.n)
		qsort(a->items.at, a->items.n, sizeof(*a->items.at), by_time);
}

int account_span(const struct account_input *in, struct account *ret)
{
	struct budget b;
	int r;

	ret->items.n = 0;
	ret->n_missing = 0;
	ret->total = normalized_total(in);
	b.left[SAMPLE_ONCPU] = ret->total.oncpu_ns;
	b.left[SAMPLE_RUNQ] = ret->total.runq_ns;
	b.left[SAMPLE_BLOCKED] = ret->total.blocked_ns;
	r = account_before(in, ret, &b);
	if (!r)
		r = account_off_cpu(in, ret, &b);
	if (!r)
		r = account_on_cpu(in, ret, &b);
	put_in_order(in, ret);
	return r;
}

void account_deinit(struct account *a)
{
	vec_free(&a->items);
}
