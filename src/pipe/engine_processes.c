/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pipe/assemble.h"
#include "pipe/engine_priv.h"
#include "pipe/kern.h"
#include "proc/process.h"

/* Between two looks for endpoints that are not there yet: soon while a command is young. */
enum { RETRY_MAX_NS = 1000000000, RETRY_MIN_NS = 10000000, RETRY_AGE_DIVISOR = 16 };

size_t engine_n_processes(const struct engine *e)
{
	return e->members.all.n;
}

pid_t engine_process(const struct engine *e, size_t i)
{
	return e->members.all.at[i].process.pid;
}

enum { UNTOLD_NS = 1000000000 };

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
	if (!r && e->options.max_overhead_ppm)
		process_cpu_ns(pid, &m.cpu_ns);
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
	if (r && !kern_ring_map(e->kern))
		kern_member_set(e->kern, pid, &(struct wire_member){});
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

static void tell(struct engine *e, const struct engine_event *event)
{
	if (e->options.on_event)
		e->options.on_event(e->options.ctx, event);
}

void engine_on_fork(struct engine *e, const struct wire_proc *w)
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
		engine_user_counters(e)->v[COUNTER_ATTACH_FAILED]++;
	engine_user_counters(e)->v[COUNTER_FORK_LATE] += is_first;
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

void engine_on_exec(struct engine *e, const struct wire_proc *w)
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
		tell(e, &event);
		return;
	}
	engine_user_counters(e)->v[COUNTER_EXEC_LATE] += watch && w->h.mono_ns < watch->met_ns;
	if (watch && !attach_new(e, w->h.tgid, watch->instance_id, w->as_id, NULL, NULL)) {
		watch->met_ns = watch->met_ns < UINT64_MAX ? watch->met_ns : clock_mono_ns();
		event.kind = ENGINE_EVENT_ATTACH;
		event.instance_id = watch->instance_id;
	} else {
		kern_member_remove(e->kern, w->h.tgid);
	}
	tell(e, &event);
}

void engine_on_exit(struct engine *e, const struct wire_proc *w)
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

/* As the kernel would have told of it. */
static int end_process(struct engine *e, pid_t pid, uint32_t instance_id, uint64_t now_ns)
{
	const struct wire_proc w = {
		.h = {.size = sizeof(w),
		      .kind = WIRE_K_EXIT,
		      .mono_ns = now_ns,
		      .tgid = (uint32_t)pid,
		      .tid = (uint32_t)pid},
		.instance_id = instance_id,
	};

	kern_member_remove(e->kern, pid);
	return engine_on_record(e, &w, sizeof(w));
}

static int end_members(struct engine *e, uint64_t now_ns)
{
	int r = 0;

	for (size_t i = e->members.all.n; i-- > 0 && !r;) {
		const struct member *m = &e->members.all.at[i];
		bool is_same = !m->process.start_ticks || process_is_alive(&m->process);

		if (!is_same || has_ended(m->process.pid))
			r = end_process(e, m->process.pid, m->instance_id, now_ns);
	}
	return r;
}

/* Of processes that are no members: that they were forked was not told, either. */
static int end_calls(struct engine *e, uint64_t now_ns)
{
	const struct assemble *open = pipeline_open(e->pipeline);
	const struct open_span *s;
	uint64_t after_ns = 0;
	int r = 0;

	while (!r && (s = assemble_first(open, after_ns, now_ns))) {
		after_ns = s->begin.start_ns;
		if (has_ended((pid_t)s->begin.h.tgid))
			r = end_process(e, (pid_t)s->begin.h.tgid, s->begin.instance_id, now_ns);
	}
	return r;
}

int engine_end_untold(struct engine *e, uint64_t now_ns)
{
	uint64_t n;
	int r;

	if (now_ns < e->next_untold_ns)
		return 0;
	e->next_untold_ns = now_ns + UNTOLD_NS;
	r = kern_counter(e->kern, WIRE_C_RING_FULL_PROC, &n);
	if (r || n == e->n_untold)
		return r;
	e->n_untold = n;
	r = end_members(e, now_ns);
	return r ? r : end_calls(e, now_ns);
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

void engine_retry(struct engine *e, uint64_t now_ns)
{
	if (now_ns < e->next_retry_ns)
		return;
	e->next_retry_ns = now_ns + retry_interval(e, now_ns);
	retry_next(e);
}
