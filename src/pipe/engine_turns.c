/* SPDX-License-Identifier: Apache-2.0 */
/* engine_turns.c: probes in turns: what they have cost the processes, and what is done when a turn is over. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipe/engine_priv.h"
#include "pipe/kern.h"
#include "probe/detach.h"

enum { LOOK_NS = 50000000 };

/* What a snapshot costs its program, at most: tests/bench/snapshot. */
enum { SNAPSHOT_NS = 2100 };

/* Of processes that end or come between two looks less is seen: never too much. */
static void add_cpu_time(struct engine *e)
{
	for (size_t i = 0; i < e->members.all.n; i++) {
		struct member *m = &e->members.all.at[i];
		uint64_t ns;

		if (process_cpu_ns(m->process.pid, &ns))
			continue;
		if (m->cpu_ns && ns > m->cpu_ns)
			e->cpu_ns += ns - m->cpu_ns;
		m->cpu_ns = ns;
	}
}

static uint64_t counted(const struct engine *e, enum wire_counter id)
{
	uint64_t n;

	return kern_counter(e->kern, id, &n) ? 0 : n;
}

/* By the price of a hit where caches are cold. */
static uint64_t dearest_ns(const struct engine *e)
{
	uint64_t n_dear = counted(e, WIRE_C_PROBE_HIT_DEAR);
	uint64_t n_shots = e->n_snapshots + counted(e, WIRE_C_SHORT_WAIT);

	return counted(e, WIRE_C_PROBE_HIT) * e->options.cost.hit_ns +
	       n_dear * (e->options.cost.dear_ns - e->options.cost.hit_ns) + n_shots * SNAPSHOT_NS +
	       e->switch_ns;
}

/* What probing takes of the CPU time is part of it: in a loop, whose caches are hot, hits cost less. */
static void add_cost(struct engine *e, uint64_t used_ns)
{
	uint64_t dearest = dearest_ns(e), more = dearest - e->dearest_ns;

	e->dearest_ns = dearest;
	e->cost_ns += used_ns && more > used_ns ? used_ns : more;
}

/* While entries rest: each call that ends is counted once. */
static bool is_calm(const struct engine *e)
{
	struct latency l;

	for (uint32_t i = 0; probes_endpoint(e->probes, i); i++)
		if (!kern_latency(e->kern, i, &l) && l.n_enter > l.n_leave + l.n_unknown)
			return false;
	return true;
}

static uint64_t time_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_usec * 1000;
}

/* With that of the children that attach for us. */
static uint64_t own_cpu_ns(void)
{
	struct rusage self, children;

	if (getrusage(RUSAGE_SELF, &self) || getrusage(RUSAGE_CHILDREN, &children))
		return 0;
	return time_ns(self.ru_utime) + time_ns(self.ru_stime) + time_ns(children.ru_utime) +
	       time_ns(children.ru_stime);
}

/* Nothing is probed any more. The calls that are open will not be seen to end. */
static int cut(struct engine *e)
{
	struct wire_header h = {.size = sizeof(h), .kind = WIRE_K_CUT};
	int r;

	kern_rest(e->kern);
	r = kern_cut(e->kern);
	if (!r)
		r = kern_poll(e->kern, 0, engine_on_record, e);
	h.mono_ns = clock_mono_ns();
	if (r >= 0)
		r = engine_on_record(e, &h, sizeof(h));
	e->rests = true;
	return r < 0 ? r : 0;
}

static int resume_kern(struct engine *e)
{
	int r = kern_resume(e->kern, NULL);

	e->rests = false;
	return !r && e->period_ns ? kern_sampling(e->kern, gates_tick(e->period_ns), NULL) : r;
}

/* While it attaches, the kernel holds up the processes for as long at most; to detach costs no more. */
static void resume(struct engine *e)
{
	uint64_t before_ns = own_cpu_ns();
	size_t n_failed = 0;
	int r = resume_kern(e);

	if (!r)
		r = probes_resume(e->probes, &n_failed);
	engine_user_counters(e)->v[COUNTER_ATTACH_FAILED] += n_failed;
	e->switch_ns += 2 * (own_cpu_ns() - before_ns);
	if (!r) {
		turns_begin(&e->turns, clock_mono_ns());
		return;
	}
	kern_rest(e->kern);
	e->rests = true;
	turns_fail(&e->turns, clock_mono_ns());
}

/*
 * A debugger takes a probe's trap for what is under a breakpoint of its own, and puts it back when it deletes
 * that. When the probe is gone then, the next call kills the process.
 */
static bool is_traced(const struct engine *e)
{
	pid_t tracer;

	for (size_t i = 0; i < e->members.all.n; i++) {
		tracer = process_tracer(e->members.all.at[i].process.pid);
		if (tracer && tracer != getpid())
			return true;
	}
	return false;
}

static int change(struct engine *e)
{
	if (e->turns.state != TURNS_ON && is_traced(e)) {
		turns_hold(&e->turns, e->turns.now_ns);
		return 0;
	}
	switch (e->turns.state) {
	case TURNS_DRAIN:
		return probes_drain(e->probes);
	case TURNS_OFF:
		probes_rest(e->probes);
		return 0;
	case TURNS_ON:
		resume(e);
	}
	return 0;
}

int engine_turn(struct engine *e, uint64_t now_ns)
{
	struct turns_look look = {.now_ns = now_ns};
	uint64_t cpu_ns;
	int r = 0;

	if (!e->options.max_overhead_ppm || now_ns < e->next_turn_ns || !e->members.all.n)
		return 0;
	e->next_turn_ns = now_ns + LOOK_NS;
	cpu_ns = e->cpu_ns;
	add_cpu_time(e);
	add_cost(e, e->cpu_ns - cpu_ns);
	if (!e->turns.n_turns)
		turns_init(&e->turns, e->options.max_overhead_ppm, now_ns);
	look.is_gone = e->turns.state != TURNS_ON && probe_detach_is_done();
	if (e->turns.state == TURNS_OFF && look.is_gone && !e->rests)
		r = cut(e);
	look.is_calm = e->turns.state == TURNS_DRAIN && is_calm(e);
	look.cost_ns = e->cost_ns;
	look.cpu_ns = e->cpu_ns;
	if (!r && turns_update(&e->turns, &look))
		r = change(e);
	return r;
}

void engine_turns(const struct engine *e, uint64_t now_ns, struct profile_turns *ret)
{
	*ret = (struct profile_turns){
		.share_ppm = e->options.max_overhead_ppm,
		.n_turns = e->turns.n_turns,
		.probed_ns = turns_probed_ns(&e->turns, now_ns),
		.cost_ns = e->cost_ns,
		.cpu_ns = e->cpu_ns,
	};
}
