/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/turns.h"

#define MS_NS 1000000ULL
#define PPM   1000000

/*
 * A turn's length is drawn anew each time, so that turns do not keep step with what the processes do each
 * so many seconds. It need not be longer than a slow call, which is followed to its end.
 */
#define TURN_MIN_NS    (750 * MS_NS)
#define TURN_SPREAD_NS (500 * MS_NS)

/* A turn ends before its time when it takes longer than this to pay for it. */
#define REST_MAX_NS (20000 * MS_NS)

/* So many times the cost that ends a turn ends the draining behind it, too. */
enum { DRAIN_LIMITS = 4 };

/* Whoever uses less than this fraction of one CPU has CPU time to spare. */
#define IDLE_DIVISOR 10

/* Not more than the share of so much CPU time can be paid ahead: a burst after calm hours is limited. */
#define AHEAD_NS (5000 * MS_NS)

static int64_t share_of(const struct turns *t, uint64_t cpu_ns)
{
	return (int64_t)(cpu_ns / PPM * t->share_ppm + cpu_ns % PPM * t->share_ppm / PPM);
}

/* CPU time that counts as used in a time. */
static uint64_t at_least_idle(uint64_t cpu_ns, uint64_t wall_ns)
{
	return cpu_ns > wall_ns / IDLE_DIVISOR ? cpu_ns : wall_ns / IDLE_DIVISOR;
}

static uint64_t draw(struct turns *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

void turns_init(struct turns *t, uint32_t share_ppm, uint64_t now_ns)
{
	*t = (struct turns){.share_ppm = share_ppm, .now_ns = now_ns, .random = now_ns | 1};
	turns_begin(t, now_ns);
}

void turns_begin(struct turns *t, uint64_t now_ns)
{
	t->state = TURNS_ON;
	t->since_ns = now_ns;
	t->begin_cpu_ns = t->cpu_ns;
	t->begin_cost_ns = t->cost_ns;
	t->length_ns = TURN_MIN_NS + draw(t) % TURN_SPREAD_NS;
	t->n_turns++;
}

void turns_fail(struct turns *t, uint64_t now_ns)
{
	t->state = TURNS_OFF;
	t->since_ns = now_ns;
}

void turns_hold(struct turns *t, uint64_t now_ns)
{
	t->since_ns = now_ns;
	if (t->state == TURNS_OFF) {
		t->state = TURNS_DRAIN;
		return;
	}
	t->state = TURNS_ON;
	t->begin_cpu_ns = t->cpu_ns;
	t->begin_cost_ns = t->cost_ns;
}

static int64_t most_ahead(const struct turns *t)
{
	return t->ahead_ns + share_of(t, AHEAD_NS);
}

static void pay(struct turns *t, const struct turns_look *look)
{
	uint64_t wall_ns = look->now_ns - t->now_ns;

	t->debt_ns += (int64_t)(look->cost_ns - t->cost_ns);
	t->debt_ns -= share_of(t, at_least_idle(look->cpu_ns - t->cpu_ns, wall_ns));
	if (t->debt_ns < -most_ahead(t))
		t->debt_ns = -most_ahead(t);
	t->now_ns = look->now_ns;
	t->cost_ns = look->cost_ns;
	t->cpu_ns = look->cpu_ns;
}

/* By how much CPU time is used in this turn. */
static int64_t limit_of(const struct turns *t)
{
	uint64_t wall_ns = t->now_ns - t->since_ns;
	uint64_t cpu_ns = at_least_idle(t->cpu_ns - t->begin_cpu_ns, wall_ns);

	return share_of(t, (uint64_t)((double)cpu_ns / (double)wall_ns * REST_MAX_NS));
}

/* What this turn has cost, its draining included, beyond what was paid meanwhile. */
static int64_t spent(const struct turns *t)
{
	return (int64_t)(t->cost_ns - t->begin_cost_ns) - share_of(t, t->cpu_ns - t->begin_cpu_ns);
}

static bool is_over(struct turns *t, const struct turns_look *look)
{
	uint64_t wall_ns = t->now_ns - t->since_ns;

	switch (t->state) {
	case TURNS_ON:
		if (t->debt_ns <= -t->ahead_ns || !wall_ns)
			return false;
		t->limit_ns = limit_of(t);
		return wall_ns >= t->length_ns || spent(t) > t->limit_ns;
	case TURNS_DRAIN:
		if (wall_ns >= TURNS_DRAIN_MAX_NS || spent(t) > DRAIN_LIMITS * t->limit_ns)
			return true;
		return look->is_gone && look->is_calm;
	case TURNS_OFF:
		return look->is_gone && t->debt_ns <= -t->ahead_ns && wall_ns >= TURNS_REST_MIN_NS;
	}
	return false;
}

bool turns_update(struct turns *t, const struct turns_look *look)
{
	static const enum turns_state next[] = {
		[TURNS_ON] = TURNS_DRAIN, [TURNS_DRAIN] = TURNS_OFF, [TURNS_OFF] = TURNS_ON};

	if (!t->share_ppm || look->now_ns < t->now_ns)
		return false;
	pay(t, look);
	if (!is_over(t, look))
		return false;
	t->on_ns = turns_probed_ns(t, look->now_ns);
	if (t->state == TURNS_DRAIN)
		t->ahead_ns = spent(t) < t->limit_ns ? spent(t) : t->limit_ns;
	t->state = next[t->state];
	t->since_ns = look->now_ns;
	return true;
}

uint64_t turns_probed_ns(const struct turns *t, uint64_t now_ns)
{
	return t->on_ns + (t->state == TURNS_ON && now_ns > t->since_ns ? now_ns - t->since_ns : 0);
}
