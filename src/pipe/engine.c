/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "pipe/gates.h"
#include "pipe/kern.h"
#include "pipe/limits.h"
#include "pipe/members.h"
#include "probe/rules.h"
#include "proc/process.h"

enum {
	/* between two looks for endpoints that are not there yet: soon while a command is young */
	RETRY_MAX_NS = 1000000000,
	RETRY_MIN_NS = 10000000,
	RETRY_AGE_DIVISOR = 16,
	WALK_MIN_NS = 10000000, /* between two walks over the open spans that are off CPU */
	WALK_MAX_NS = 100000000,
};

struct watch {
	struct wire_file_key file;
	uint32_t instance_id;
	/*
	 * Since then the file's probes await its programs; UINT64_MAX: not yet. Read from the clock when
	 * they are in: attaching takes many times as long as it is since the caller's time.
	 */
	uint64_t met_ns;
};

struct engine {
	struct engine_options options;
	struct kern *kern;
	struct probes *probes;
	struct pipeline *pipeline;
	struct members members;
	VEC(struct watch) watches;
	struct gates gates;
	struct limits limits;
	uint32_t next_as_id;
	uint64_t period_ns; /* of the ticks; 0: none */
	uint64_t next_walk_ns;
	uint64_t next_retry_ns;
	size_t next_retry;        /* index into members */
	uint64_t awaits_since_ns; /* a file of the last command; 0: none */
	pid_t held;               /* 0: none; see engine_hold() */
};

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
	};
	struct probe_programs programs;
	int r = options->is_measured ? 0 : attach_source_read(&probes->source, e);

	if (r)
		return r;
	if (!options->is_measured)
		rules_measure(&probes->source, &probes->rules);
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

size_t engine_n_processes(const struct engine *e)
{
	return e->members.all.n;
}

static struct counters *user_counters(struct engine *e)
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

/* Reads the maps of a process and makes them the pipeline's. */
static int open_space(struct engine *e, pid_t pid, uint32_t as_id, struct errmsg *msg)
{
	struct space *space = NULL;
	int r = space_new(&space, pipeline_space_cache(e->pipeline), pid);

	if (!r)
		r = space_refresh(space);
	if (!r)
		r = pipeline_set_space(e->pipeline, pid, as_id, space);
	if (!r)
		return 0;
	space_free(space);
	return errmsg_set(msg, r, "cannot read the memory map of process %d: %s", pid,
			  r == -ESRCH ? "it has exited" : strerror(-r));
}

/* ret_awaits, may be NULL: whether it has none of the endpoints now, but may yet map a file with one. */
static int probe_member(struct engine *e, const struct member *m, struct space *space,
			bool *ret_awaits, struct errmsg *msg)
{
	const struct probes_process process = {
		.pid = m->process.pid,
		.as_id = m->as_id,
		.space = space,
		.forks = e->watches.n > 0 || process_forks(&m->process),
		.endpoints = limits_get(&e->limits, m->instance_id),
	};
	int r = probes_add_process(e->probes, &process, msg);

	if (r != -ENOENT || !ret_awaits || !probes_may_come(e->probes, &process))
		return r;
	*ret_awaits = true;
	return 0;
}

/* From now on its calls are looked at; again when more of its endpoints are probed. */
static int enrol(struct engine *e, const struct member *m, struct errmsg *msg)
{
	struct wire_member wire = {
		.instance_id = m->instance_id,
		.as_id = m->as_id,
		.flags = e->options.follow_forks ? WIRE_MEMBER_F_FOLLOW_FORK : 0,
		.own_eps = probes_own_endpoints(e->probes, m->process.pid),
	};
	int r = kern_ring_map(e->kern);

	if (!r)
		r = kern_member_set(e->kern, m->process.pid, &wire);
	if (r)
		errmsg_set(msg, r, "cannot follow process %d: %s", m->process.pid, strerror(-r));
	return r;
}

static int attach_member(struct engine *e, const struct member *m, bool *ret_awaits,
			 struct errmsg *msg)
{
	pid_t pid = m->process.pid;
	int r = open_space(e, pid, m->as_id, msg);

	if (r)
		return r;
	r = probe_member(e, m, pipeline_space(e->pipeline, pid, m->as_id), ret_awaits, msg);
	return r ? r : enrol(e, m, msg);
}

/* Looks again for endpoints in a process that is attached: a library may have been loaded since. */
static int retry_member(struct engine *e, const struct member *m, struct errmsg *msg)
{
	struct space *space = pipeline_space(e->pipeline, m->process.pid, m->as_id);
	struct wire_member now;
	uint32_t generation;
	int r;

	if (!space)
		return 0;
	generation = space_generation(space);
	if (space_refresh(space) || space_generation(space) == generation)
		return 0;
	r = probe_member(e, m, space, NULL, msg);
	if (r || kern_member_get(e->kern, m->process.pid, &now) || now.as_id != m->as_id ||
	    now.own_eps == probes_own_endpoints(e->probes, m->process.pid))
		return r;
	return enrol(e, m, msg);
}

static int attach_new(struct engine *e, pid_t pid, uint32_t instance_id, uint32_t as_id,
		      bool *ret_awaits, struct errmsg *msg)
{
	struct member m = {.instance_id = instance_id, .as_id = as_id};
	int r = process_read(pid, &m.process, msg);

	if (!r)
		r = process_check_supported(&m.process, msg);
	if (!r)
		r = members_add(&e->members, &m);
	if (r)
		return r;
	r = attach_member(e, &m, ret_awaits, msg);
	if (r) {
		members_drop(&e->members, pid);
		probes_remove_process(e->probes, pid);
	}
	return r;
}

static int add_process(struct engine *e, pid_t pid, uint32_t instance_id, bool *ret_awaits,
		       struct errmsg *msg)
{
	const struct member *m = members_get(&e->members, pid);

	if (m && process_is_alive(&m->process))
		return retry_member(e, m, msg);
	if (m)
		engine_remove_process(e, pid);
	return attach_new(e, pid, instance_id, e->next_as_id++, ret_awaits, msg);
}

int engine_add_process(struct engine *e, pid_t pid, uint32_t instance_id, struct errmsg *msg)
{
	return add_process(e, pid, instance_id, NULL, msg);
}

int engine_add_command(struct engine *e, pid_t pid, uint32_t instance_id, bool *ret_awaits,
		       struct errmsg *msg)
{
	int r;

	*ret_awaits = false;
	r = add_process(e, pid, instance_id, ret_awaits, msg);
	if (*ret_awaits)
		e->awaits_since_ns = e->next_retry_ns = clock_mono_ns();
	return r;
}

void engine_hold(struct engine *e, pid_t pid)
{
	e->held = pid;
}

/* A zombie has no executable any more. */
static bool has_ended(pid_t pid)
{
	struct process p;

	return process_read(pid, &p, NULL) || !p.exe_ino;
}

int engine_add_instance(struct engine *e, pid_t pid, uint32_t instance_id, struct errmsg *msg)
{
	CLEANUP(process_list_deinit) struct process_list all = {}, workers = {};
	int r = engine_add_process(e, pid, instance_id, msg);

	if (r)
		return r;
	r = process_scan(&all);
	if (r)
		return errmsg_set(msg, r, "cannot list processes in /proc: %s", strerror(-r));
	r = process_workers(&all, pid, &workers);
	for (size_t i = 0; i < workers.n && !r; i++) {
		r = engine_add_process(e, workers.at[i].pid, instance_id, msg);
		if (r == -ESRCH || (r == -ENOEXEC && has_ended(workers.at[i].pid)))
			r = 0;
	}
	return r;
}

void engine_remove_process(struct engine *e, pid_t pid)
{
	if (!members_get(&e->members, pid))
		return;
	kern_member_remove(e->kern, pid);
	probes_remove_process(e->probes, pid);
	pipeline_process_gone(e->pipeline, pid);
	members_drop(&e->members, pid);
}

static int attach_running(struct engine *e, const struct process_list *all, const struct stat *st,
			  uint32_t instance_id, size_t *ret_n, struct errmsg *msg)
{
	int r, first_error = 0;

	for (size_t i = 0; i < all->n; i++) {
		struct errmsg why = {};

		if (all->at[i].exe_dev != st->st_dev || all->at[i].exe_ino != st->st_ino)
			continue;
		r = engine_add_process(e, all->at[i].pid, instance_id, &why);
		if (!r)
			(*ret_n)++;
		else if (r != -ESRCH && !first_error)
			first_error = errmsg_set(msg, r, "%s", why.text);
	}
	return *ret_n ? 0 : first_error;
}

int engine_watch_exe(struct engine *e, int fd, const char *path, uint32_t instance_id,
		     size_t *ret_n, struct errmsg *msg)
{
	CLEANUP(process_list_deinit) struct process_list all = {};
	struct wire_member wire = {
		.instance_id = instance_id,
		.flags = e->options.follow_forks ? WIRE_MEMBER_F_FOLLOW_FORK : 0,
	};
	struct watch w = {.instance_id = instance_id};
	struct stat st;
	int r;

	*ret_n = 0;
	if (fstat(fd, &st))
		return errmsg_set(msg, -errno, "cannot look at executable '%s': %s", path,
				  strerror(errno));
	if (!S_ISREG(st.st_mode))
		return errmsg_set(msg, -EINVAL, "'%s' is not an executable file", path);
	r = kern_file_key(fd, &w.file);
	if (!r)
		r = vec_push(&e->watches, w);
	if (!r)
		r = kern_watch_exe(e->kern, &w.file, &wire);
	if (!r)
		r = process_scan(&all);
	if (r)
		return errmsg_set(msg, r, "cannot watch executable '%s': %s", path, strerror(-r));
	r = attach_running(e, &all, &st, instance_id, ret_n, msg);
	e->watches.at[e->watches.n - 1].met_ns = *ret_n ? clock_mono_ns() : UINT64_MAX;
	return r;
}

static int apply_sampling(struct engine *e, struct errmsg *msg)
{
	uint64_t period_ns = gates_period(&e->gates);

	if (period_ns == e->period_ns)
		return 0;
	e->period_ns = period_ns;
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

static void tell(struct engine *e, const struct engine_event *event)
{
	if (e->options.on_event)
		e->options.on_event(e->options.ctx, event);
}

static void handle_fork(struct engine *e, const struct wire_proc *w)
{
	struct member child = {.instance_id = w->instance_id, .as_id = w->as_id, .forked = true};
	bool is_first;

	child.process.pid = w->child_tgid;
	child.process.parent = w->h.tgid;
	process_read(w->child_tgid, &child.process, NULL);
	if (members_get(&e->members, w->child_tgid))
		engine_remove_process(e, w->child_tgid);
	if (members_add(&e->members, &child))
		return;
	if (probes_widen(e->probes, w->h.tgid, &is_first))
		user_counters(e)->v[COUNTER_ATTACH_FAILED]++;
	user_counters(e)->v[COUNTER_FORK_LATE] += is_first;
	tell(e, &(struct engine_event){
			.kind = ENGINE_EVENT_FORK,
			.pid = w->child_tgid,
			.parent = w->h.tgid,
			.instance_id = w->instance_id,
		});
}

static struct watch *find_watch(const struct engine *e, const struct wire_proc *w)
{
	for (size_t i = 0; i < e->watches.n; i++)
		if (e->watches.at[i].file.dev == w->exe_dev &&
		    e->watches.at[i].file.ino == w->exe_ino)
			return &e->watches.at[i];
	return NULL;
}

static void handle_exec(struct engine *e, const struct wire_proc *w)
{
	struct watch *watch = find_watch(e, w);
	struct engine_event event = {
		.kind = ENGINE_EVENT_EXEC,
		.pid = w->h.tgid,
		.instance_id = w->instance_id,
		.exe_dev = w->exe_dev,
		.exe_ino = w->exe_ino,
	};

	if (members_get(&e->members, w->h.tgid)) {
		pipeline_process_gone(e->pipeline, w->h.tgid);
		probes_remove_process(e->probes, w->h.tgid);
		members_drop(&e->members, w->h.tgid);
	}
	if (w->h.tgid == (uint32_t)e->held) {
		kern_member_remove(e->kern, w->h.tgid);
		return;
	}
	user_counters(e)->v[COUNTER_EXEC_LATE] += watch && w->h.mono_ns < watch->met_ns;
	if (watch && !attach_new(e, w->h.tgid, watch->instance_id, w->as_id, NULL, NULL)) {
		watch->met_ns = watch->met_ns < UINT64_MAX ? watch->met_ns : clock_mono_ns();
		event.kind = ENGINE_EVENT_ATTACH;
		event.instance_id = watch->instance_id;
	} else {
		kern_member_remove(e->kern, w->h.tgid);
	}
	tell(e, &event);
}

static void handle_exit(struct engine *e, const struct wire_proc *w)
{
	const struct member *m = members_get(&e->members, w->h.tgid);

	if (!m)
		return;
	probes_remove_process(e->probes, w->h.tgid);
	pipeline_process_gone(e->pipeline, w->h.tgid);
	members_drop(&e->members, w->h.tgid);
	tell(e, &(struct engine_event){
			.kind = ENGINE_EVENT_EXIT,
			.pid = w->h.tgid,
			.instance_id = w->instance_id,
			.exit_code = w->exit_code,
		});
}

static void handle_retsite(struct engine *e, const struct wire_retsite *w)
{
	struct space *space = pipeline_space(e->pipeline, w->h.tgid, w->as_id);

	if (space)
		probes_on_retsite(e->probes, w, space, user_counters(e));
	else
		user_counters(e)->v[COUNTER_MAPS_UNREADABLE]++;
}

static int on_record(void *ctx, const void *data, size_t bytes)
{
	struct engine *e = ctx;
	const struct wire_header *h = data;
	int r = 0;

	/* From our own programs: sizes are what bpf/wire.h says. The pipeline checks the others. */
	switch (h->kind) {
	case WIRE_K_FORK:
		handle_fork(e, data);
		break;
	case WIRE_K_EXEC:
		handle_exec(e, data);
		break;
	case WIRE_K_EXIT:
		handle_exit(e, data);
		break;
	case WIRE_K_RETSITE:
		handle_retsite(e, data);
		break;
	default:
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

static bool all_attached(const struct engine *e)
{
	struct probe_info info;
	uint64_t attached = 0;

	for (size_t i = 0; probes_info(e->probes, i, &info); i++)
		attached |= 1ULL << (info.ep_id % WIRE_EP_MAX);
	for (uint32_t i = 0; i < WIRE_EP_MAX && probes_endpoint(e->probes, i); i++)
		if (!(attached & 1ULL << i))
			return false;
	return true;
}

/* One process a time, so that the cost does not grow with their number. */
static void retry_next(struct engine *e)
{
	if (!e->members.all.n || all_attached(e))
		return;
	e->next_retry = (e->next_retry + 1) % e->members.all.n;
	if (!e->members.all.at[e->next_retry].forked)
		retry_member(e, &e->members.all.at[e->next_retry], NULL);
}

static uint64_t retry_interval(const struct engine *e, uint64_t now_ns)
{
	uint64_t since_ns = e->awaits_since_ns;
	uint64_t ns = now_ns > since_ns ? (now_ns - since_ns) / RETRY_AGE_DIVISOR : 0;

	if (ns < RETRY_MIN_NS)
		return RETRY_MIN_NS;
	return ns < RETRY_MAX_NS ? ns : RETRY_MAX_NS;
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
	if (now_ns >= e->next_retry_ns) {
		e->next_retry_ns = now_ns + retry_interval(e, now_ns);
		retry_next(e);
	}
	r = kern_poll(e->kern, 0, on_record, e);
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
	r = kern_poll(e->kern, 0, on_record, e);
	while (e->gates.all.n) {
		const struct wire_gate_key key = e->gates.all.at[0].key;

		engine_clear_gate(e, key.ep_id, key.instance_id);
	}
	if (r >= 0)
		r = kern_poll(e->kern, 0, on_record, e);
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
	*ret = *user_counters(e);
	return kern_counters(e->kern, ret);
}
