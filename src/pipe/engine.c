/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/engine.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "pipe/engine_priv.h"
#include "pipe/kern.h"
#include "probe/rules.h"

/* Between two walks over the open spans that are off CPU. */
enum { WALK_MIN_NS = 10000000, WALK_MAX_NS = 100000000 };

/* What is loaded depends on the kind of probes that this kernel has. */
static int load(struct engine *en, struct errmsg *e)
{
	const struct engine_options *options = &en->options;
	struct probes_options *probes = &en->options.probes;
	struct pipeline_options pipeline = options->pipeline;
	struct kern_options kern = {
		.ring_bytes = options->ring_bytes,
		.lazy_ring = options->lazy_ring,
		.max_window = options->max_window,
		.want_kernel_stacks = options->kernel_stacks,
		.without_end = options->without_end,
		.without_uret = options->without_uret,
		.without_sleepable = options->without_names,
		.without_plain = options->without_nameless,
		.end_sleeps = options->end_sleeps,
		.may_rest = options->max_overhead_ppm > 0,
		.count_threads = options->count_threads,
	};
	struct probe_programs programs;
	int r = options->is_measured ? 0 : attach_source_read(&probes->source, e);

	if (r)
		return r;
	if (!options->is_measured)
		rules_measure(&probes->source, &probes->rules);
	if (options->max_overhead_ppm)
		engine_trapcost(en);
	kern.multi_uprobes = probes->source.multi;
	pipeline.live = true;
	r = kern_new(&en->kern, &kern, e);
	if (r)
		return r;
	kern_programs(en->kern, &programs);
	r = probes_new(&en->probes, &programs, probes);
	if (!r)
		r = pipeline_new(&en->pipeline, &pipeline);
	return r ? errmsg_set(e, r, "cannot start profiling: %s", strerror(-r)) : 0;
}

int engine_new(struct engine **ret, const struct engine_options *options, struct errmsg *e)
{
	struct engine *en = calloc(1, sizeof(*en));
	int r;

	if (!en)
		return errmsg_set(e, -ENOMEM, "cannot start profiling: out of memory");
	en->options = *options;
	en->next_as_id = 1;
	members_init(&en->members);
	r = load(en, e);
	if (r) {
		engine_free(en);
		return r;
	}
	*ret = en;
	return 0;
}

void engine_stop(struct engine *e)
{
	if (e->probes)
		probes_free(e->probes);
	if (e->kern)
		kern_free(e->kern);
	e->probes = NULL;
	e->kern = NULL;
}

struct engine *engine_free(struct engine *e)
{
	if (!e)
		return NULL;
	engine_stop(e);
	if (e->pipeline)
		pipeline_free(e->pipeline);
	members_deinit(&e->members);
	vec_free(&e->watches);
	gates_deinit(&e->gates);
	limits_deinit(&e->limits);
	free(e);
	return NULL;
}

const struct probes_options *engine_measured(const struct engine *e)
{
	return &e->options.probes;
}

const struct trapcost *engine_trapcost(struct engine *e)
{
	if (!e->options.cost.hit_ns)
		trapcost_measure(&e->options.probes.source, &e->options.cost);
	return &e->options.cost;
}

struct limits *engine_limits(struct engine *e)
{
	return &e->limits;
}

struct pipeline *engine_pipeline(struct engine *e)
{
	return e->pipeline;
}

struct probes *engine_probes(struct engine *e)
{
	return e->probes;
}

int engine_fd(const struct engine *e)
{
	return kern_ring_fd(e->kern);
}

struct counters *engine_user_counters(struct engine *e)
{
	return &pipeline_profile(e->pipeline)->counters;
}

int engine_add_endpoint(struct engine *e, struct endpoint *take_ep, uint32_t *ret_ep_id)
{
	return probes_add_endpoint(e->probes, take_ep, ret_ep_id);
}

const struct endpoint *engine_endpoint(const struct engine *e, uint32_t ep_id)
{
	return probes_endpoint(e->probes, ep_id);
}

static int apply_sampling(struct engine *e, struct errmsg *msg)
{
	uint64_t period_ns = gates_period(&e->gates);

	if (period_ns == e->period_ns)
		return 0;
	e->period_ns = period_ns;
	if (e->rests)
		return 0;
	return kern_sampling(e->kern, gates_tick(period_ns), msg);
}

int engine_set_gate(struct engine *e, uint32_t ep_id, uint32_t instance_id,
		    const struct wire_gate *gate, struct errmsg *msg)
{
	const struct wire_gate_key key = {ep_id, instance_id};
	const struct pipeline_endpoint ep = {
		.spec = engine_endpoint(e, ep_id),
		.terms = {.threshold_ns = gate->threshold_ns,
			  .sample_after_ns = gate->sample_after_ns,
			  .period_ns = gate->period_ns},
	};
	int r;

	assert(gate->enabled);
	if (!ep.spec || !gate->period_ns)
		return errmsg_set(msg, -EINVAL,
				  "cannot profile endpoint slot %u: it does not exist", ep_id);
	r = pipeline_set_endpoint(e->pipeline, ep_id, &ep);
	if (!r)
		r = pipeline_set_gate(e->pipeline, &key, &ep.terms);
	if (!r)
		r = gates_set(&e->gates, &key, &ep.terms);
	if (r)
		return errmsg_set(msg, r, "cannot profile '%s': %s", endpoint_display(ep.spec),
				  strerror(-r));
	r = kern_gate_set(e->kern, &key, gate, msg);
	return r ? r : apply_sampling(e, msg);
}

int engine_get_gate(struct engine *e, uint32_t ep_id, uint32_t instance_id, struct wire_gate *ret)
{
	return kern_gate_get(e->kern, &(struct wire_gate_key){ep_id, instance_id}, ret);
}

void engine_clear_gate(struct engine *e, uint32_t ep_id, uint32_t instance_id)
{
	const struct wire_gate_key key = {ep_id, instance_id};

	if (!gates_remove(&e->gates, &key))
		return;
	kern_gate_clear(e->kern, &key);
	apply_sampling(e, NULL);
}

static void handle_retsite(struct engine *e, const struct wire_retsite *w)
{
	struct space *space = pipeline_space(e->pipeline, w->h.tgid, w->as_id);

	if (space)
		probes_on_retsite(e->probes, w, space, engine_user_counters(e));
	else
		engine_user_counters(e)->v[COUNTER_MAPS_UNREADABLE]++;
}

int engine_on_record(void *ctx, const void *data, size_t bytes)
{
	struct engine *e = ctx;
	const struct wire_header *h = data;
	int r = 0;

	/* From our own programs: sizes are what bpf/wire.h says. The pipeline checks the others. */
	switch (h->kind) {
	case WIRE_K_FORK:
		engine_on_fork(e, data);
		break;
	case WIRE_K_EXEC:
		engine_on_exec(e, data);
		break;
	case WIRE_K_EXIT:
		r = pipeline_push(e->pipeline, data, bytes);
		engine_on_exit(e, data);
		break;
	case WIRE_K_RETSITE:
		handle_retsite(e, data);
		break;
	default:
		e->n_snapshots += h->kind == WIRE_K_SNAPSHOT;
		r = pipeline_push(e->pipeline, data, bytes);
	}
	if (!r && e->options.on_record)
		e->options.on_record(e->options.ctx, data, bytes);
	return r;
}

static uint64_t walk_interval(const struct engine *e)
{
	uint64_t min_ns = e->options.walk_min_ns ? e->options.walk_min_ns : WALK_MIN_NS;

	if (e->period_ns < min_ns)
		return min_ns;
	return e->period_ns > WALK_MAX_NS ? WALK_MAX_NS : e->period_ns;
}

int engine_dispatch(struct engine *e, uint64_t now_ns)
{
	int r;

	if (e->period_ns && now_ns >= e->next_walk_ns) {
		e->next_walk_ns = now_ns + walk_interval(e);
		r = kern_walk_stuck(e->kern);
		if (r < 0)
			return r;
	}
	engine_retry(e, now_ns);
	r = kern_poll(e->kern, 0, engine_on_record, e);
	if (r >= 0)
		r = engine_end_untold(e, now_ns);
	if (r >= 0)
		r = engine_turn(e, now_ns);
	if (e->options.lazy_ring && !e->members.all.n && !e->watches.n && !e->gates.all.n)
		kern_ring_unmap(e->kern);
	probes_tidy(e->probes, now_ns);
	return r < 0 ? r : 0;
}

int engine_finish(struct engine *e, uint64_t now_ns)
{
	int r = 0;

	if (e->period_ns)
		kern_walk_stuck(e->kern);
	r = kern_poll(e->kern, 0, engine_on_record, e);
	while (e->gates.all.n) {
		const struct wire_gate_key key = e->gates.all.at[0].key;

		engine_clear_gate(e, key.ep_id, key.instance_id);
	}
	if (r >= 0)
		r = kern_poll(e->kern, 0, engine_on_record, e);
	if (r >= 0)
		r = pipeline_finish(e->pipeline, now_ns);
	return r < 0 ? r : 0;
}

int engine_latency(struct engine *e, uint32_t ep_id, struct latency *ret)
{
	return kern_latency(e->kern, ep_id, ret);
}

int engine_n_threads(struct engine *e, uint32_t ep_id, uint64_t *ret)
{
	return kern_n_threads(e->kern, ep_id, ret);
}

int engine_runtime(const struct engine *e, struct bpftime *ret)
{
	return kern_bpf_runtime(e->kern, NULL, ret);
}

int engine_counters(struct engine *e, struct counters *ret)
{
	*ret = *engine_user_counters(e);
	return kern_counters(e->kern, ret);
}
