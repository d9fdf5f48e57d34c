/* SPDX-License-Identifier: Apache-2.0 */
#include "app/session.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "app/absent.h"
#include "app/child.h"
#include "app/command.h"
#include "app/files_limit.h"
#include "app/hints.h"
#include "app/specs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "pipe/limits.h"
#include "pipe/replay.h"
#include "proc/process.h"

enum {
	POLL_MS = 50,
	SILENCE_NS = 3000000000ULL,
	HANGING_NS =
		3000000000ULL, /* a call that is told of while it hangs; or twice --min-duration */
	HANGING_EVERY_NS = 1000000000ULL,
	HANGING_MAX = 10, /* calls told of in one run */
};

struct session {
	const struct run_options *o;
	struct engine *engine;
	struct capture_writer *writer; /* NULL: not recording */
	int write_error;
	struct specs specs;
	size_t n_endpoints;
	sigset_t old_mask;
	struct rlimit old_files;
	int signal_fd;
	pid_t child;
	int child_status; /* -1: none, or not ended */
	bool child_gone;
	bool watching; /* processes may still come */
	uint64_t start_ns;
	uint64_t end_ns;
	bool hurried; /* the user does not want to wait for the rest of the end, either */
	bool silence_told;
	uint64_t hanging_told_ns; /* when the last call that was told of began */
	uint64_t next_hanging_ns;
	size_t n_hanging;
};

static int fail(const char *doing, int error, const struct errmsg *e)
{
	if (e && e->text[0])
		log_error("%s", e->text);
	else
		log_error("%s: %s", doing, strerror(-error));
	return EXIT_FAILED;
}

static int fail_capture(const struct session *s, int error)
{
	log_error("cannot write capture file '%s': %s", s->o->outputs.at[0].path, strerror(-error));
	return EXIT_FAILED;
}

static void on_space(void *ctx, uint32_t tgid, uint32_t as_id, struct space *space)
{
	struct session *s = ctx;

	if (s->writer && !s->write_error)
		s->write_error = replay_record_space(s->writer, tgid, as_id, space);
}

static void on_record(void *ctx, const void *record, size_t bytes)
{
	struct session *s = ctx;

	if (s->writer && !s->write_error)
		s->write_error = capture_write_record(s->writer, record, bytes);
}

/* A terminal sends its signals to the command, too; a process that sends one to spanprof does not. */
static void pass_on(const struct session *s, const struct signalfd_siginfo *info)
{
	if (s->child && !s->child_gone && info->ssi_code <= 0 && info->ssi_signo != SIGCHLD)
		kill(s->child, (int)info->ssi_signo);
}

/* True when the user wants the run to end. SIGINT ends that alone, the others what was started, too. */
static bool read_signals(struct session *s)
{
	struct signalfd_siginfo info;
	bool end = false;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		end |= info.ssi_signo != SIGCHLD;
		if (info.ssi_signo != SIGINT)
			pass_on(s, &info);
	}
	if (s->child && !s->child_gone && child_ended(s->child, &s->child_status))
		s->child_gone = true;
	return end;
}

/* Only asked while symbols are looked up, which may be at the end, after the signal that began it. */
static bool shall_stop(void *ctx)
{
	struct session *s = ctx;

	if (s->end_ns && !s->hurried && read_signals(s)) {
		s->hurried = true;
		log_warning(
			"the end is cut short: names come from symbol tables from here on, without lines and inlined functions");
	}
	return s->hurried;
}

static int new_engine(struct session *s, bool recording)
{
	const struct run_options *o = s->o;
	const unsigned int need = specs_needs(&s->specs);
	struct engine_options options = {
		.probes =
			{
				.leave = o->leave,
				.force = o->force,
				.preset_callers = true,
				.debug_dirs = o->debug_dirs,
			},
		.pipeline =
			{
				.symbols =
					{
						.debug_dirs = o->debug_dirs,
						.debuginfod = o->debuginfod,
						.debuginfod_budget_ns = 10000000000ULL,
						.lines = !o->no_lines,
						.shall_stop = shall_stop,
						.ctx = s,
					},
				.no_symbols = recording,
				.late_symbols = !recording,
				.on_space = on_space,
				.ctx = s,
			},
		.ring_bytes = o->ring_bytes,
		.max_window = o->window_bytes,
		.kernel_stacks = !o->no_kernel,
		.follow_forks = !o->no_fork,
		.without_end = !(need & ENDPOINT_NEEDS_END),
		.without_uret = o->leave != LEAVE_URETPROBE && !(need & ENDPOINT_NEEDS_URETPROBE),
		.without_names = !(need & ENDPOINT_NEEDS_NAMES),
		.without_nameless = need & ENDPOINT_NEEDS_NAMES,
		.end_sleeps = need & ENDPOINT_NEEDS_END_READS,
		.on_record = on_record,
		.ctx = s,
	};
	struct errmsg e = {};
	int r = engine_new(&s->engine, &options, &e);

	return r ? fail("cannot start profiling", r, &e) : 0;
}

static int add_endpoints(struct session *s)
{
	uint32_t ep_id;

	for (size_t i = 0; i < s->specs.endpoints.n; i++) {
		int r = engine_add_endpoint(s->engine, s->specs.endpoints.at[i], &ep_id);

		if (r)
			return fail("--endpoint", r, NULL);
		s->specs.endpoints.at[i] = NULL;
		s->n_endpoints = ep_id + 1;
	}
	return 0;
}

static int set_limits(struct session *s)
{
	int r = 0;

	for (uint32_t k = SPECS_ANY + 1; k < SPECS_ANY + specs_n_instances(&s->specs) && !r; k++)
		r = limits_set(engine_limits(s->engine), k, specs_limit(&s->specs, k));
	return r ? fail("--preset", r, NULL) : 0;
}

static int open_gates(struct session *s)
{
	struct wire_gate gate = {
		.threshold_ns = s->o->min_duration_ns,
		.sample_after_ns = s->o->from_start ? 0 : s->o->min_duration_ns,
		.period_ns = s->o->period_ns,
		/* from the start, only the end of a call tells whether it counts: see all_sampled() */
		.max_spans = s->o->from_start ? 0 : s->o->max_samples,
		.max_parallel = s->o->max_parallel,
		.enabled = 1,
	};
	struct errmsg e = {};
	int r = 0;

	for (uint32_t i = 0; i < s->n_endpoints && !r; i++) {
		const struct endpoint *spec = engine_endpoint(s->engine, i);
		const struct capture_endpoint c = {
			.ep_id = i,
			.threshold_ns = gate.threshold_ns,
			.sample_after_ns = gate.sample_after_ns,
			.period_ns = gate.period_ns,
			.spec = endpoint_text(spec),
			.display = endpoint_display(spec),
		};

		for (uint32_t k = SPECS_ANY; k < SPECS_ANY + specs_n_instances(&s->specs) && !r;
		     k++)
			if (specs_limit(&s->specs, k) & 1ULL << i)
				r = engine_set_gate(s->engine, i, k, &gate, &e);
		if (!r && s->writer)
			r = capture_write_endpoint(s->writer, &c);
	}
	return r ? fail("cannot start profiling", r, &e) : 0;
}

static int add_pid(struct session *s, pid_t pid)
{
	struct errmsg e = {};
	char path[PROCESS_PATH_MAX];
	uint32_t instance_id;
	int r;

	process_exe_path(pid, path, sizeof(path));
	instance_id = specs_instance_of(&s->specs, path);
	r = s->o->no_fork ? engine_add_process(s->engine, pid, instance_id, &e)
			  : engine_add_instance(s->engine, pid, instance_id, &e);

	if (r)
		return fail("cannot attach", r, &e);
	hints_traced_at_start(pid);
	return 0;
}

static int watch_exe(struct session *s, int fd, const char *path, uint32_t instance_id)
{
	struct errmsg e = {};
	size_t n;
	int r = engine_watch_exe(s->engine, fd, path, instance_id, &n, &e);

	if (r)
		return fail("cannot attach", r, &e);
	s->watching = true;
	if (!n)
		log_info("no process runs '%s' yet; waiting for one", path);
	return 0;
}

static int watch_path(struct session *s, const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	AUTO_FREE char *real = realpath(path, NULL);
	char who[PROCESS_PATH_MAX];
	struct errmsg e = {};
	struct stat st;

	if (fd < 0) {
		log_error("cannot open executable '%s': %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	snprintf(who, sizeof(who), "'%s'", path);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && process_check_program(fd, who, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILED;
	}
	return watch_exe(s, fd, path, specs_instance_of(&s->specs, real ? real : path));
}

static int watch_servers(struct session *s, size_t group)
{
	const struct servers *found = &s->specs.groups.at[group].servers;
	int r = 0;

	for (size_t i = 0; i < found->n && !r; i++)
		r = watch_exe(s, found->at[i].fd, found->at[i].path,
			      specs_group_instance(&s->specs, group));
	return r;
}

static int add_processes(struct session *s)
{
	int r = 0;

	for (size_t i = 0; i < s->specs.groups.n && !r; i++)
		r = watch_servers(s, i);
	for (size_t i = 0; i < s->o->exes.n && !r; i++)
		r = watch_path(s, s->o->exes.at[i]);
	for (size_t i = 0; i < s->o->pids.n && !r; i++)
		r = add_pid(s, s->o->pids.at[i]);
	if (r && s->specs.groups.n == 1)
		hints_strangers(s->o, s->specs.groups.at[0].preset);
	else if (r && s->o->pids.n)
		hints_presets(s->o->pids.at[0]);
	return r;
}

/* With --exe the command may be a script that starts the program; else it is the program. */
static bool is_wanted(const struct session *s, const char *path)
{
	struct stat file, wanted;

	if (stat(path, &file))
		return true;
	for (size_t i = 0; i < s->o->exes.n; i++)
		if (!stat(s->o->exes.at[i], &wanted) && wanted.st_dev == file.st_dev &&
		    wanted.st_ino == file.st_ino)
			return true;
	return !s->o->exes.n;
}

static int add_command(struct session *s, struct errmsg *e)
{
	char path[PROCESS_PATH_MAX];
	size_t n;
	int r;

	process_exe_path(s->child, path, sizeof(path));
	if (!is_wanted(s, path))
		return 0;
	r = engine_add_process(s->engine, s->child, specs_instance_of(&s->specs, path), e);
	n = strlen(e->text);
	if (r == -ENOENT && n && !s->o->exes.n && !strchr(e->text, '\n'))
		snprintf(e->text + n, sizeof(e->text) - n,
			 "; when the command is a script or a wrapper: --exe PROGRAM -- COMMAND");
	return r;
}

static int start_command(struct session *s)
{
	struct errmsg e = {};
	int r;

	if (!s->o->command)
		return 0;
	r = child_start(s->o->command, &s->old_mask, &s->child, &e);
	if (r)
		return fail("cannot start the command", r, &e);
	files_limit_restore(s->child, &s->old_files);
	r = add_command(s, &e);
	if (!r)
		r = child_continue(s->child);
	if (r) {
		kill(s->child, SIGKILL);
		return fail("cannot profile the command", r, &e);
	}
	return 0;
}

static int catch_signals(struct session *s)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &mask, &s->old_mask))
		return fail("cannot block signals", -errno, NULL);
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0)
		return fail("cannot wait for signals", -errno, NULL);
	return 0;
}

static int raise_files_limit(struct session *s)
{
	struct errmsg e = {};
	int r = files_limit_raise(&s->old_files, &e);

	return r ? fail("cannot open files", r, &e) : 0;
}

static void describe_run(struct profile *p, const struct utsname *u)
{
	p->start_mono_ns = clock_mono_ns();
	p->start_real_ns = clock_real_ns();
	if (strpool_add(p->strings, u->nodename, &p->hostname) ||
	    strpool_add(p->strings, u->release, &p->kernel_release))
		p->counters.v[COUNTER_STRINGS_FULL]++;
}

static int new_writer(struct session *s, FILE *capture)
{
	struct profile *p = session_profile(s);
	struct capture_info info = {};
	struct utsname u = {};
	int r;

	uname(&u);
	describe_run(p, &u);
	if (!capture)
		return 0;
	info.start_mono_ns = p->start_mono_ns;
	info.start_real_ns = p->start_real_ns;
	snprintf(info.hostname, sizeof(info.hostname), "%s", u.nodename);
	snprintf(info.kernel_release, sizeof(info.kernel_release), "%s", u.release);
	r = capture_writer_new(&s->writer, capture, &info);
	return r ? fail_capture(s, r) : 0;
}

int session_new(struct session **ret, const struct run_options *o, FILE *capture)
{
	uint64_t begin_ns = clock_mono_ns();
	struct session *s = calloc(1, sizeof(*s));
	char took[32];
	int r;

	if (!s)
		return fail("cannot start profiling", -ENOMEM, NULL);
	s->o = o;
	s->signal_fd = -1;
	s->child_status = -1;
	r = catch_signals(s);
	if (!r)
		r = raise_files_limit(s);
	if (!r)
		r = specs_read(&s->specs, s->o);
	if (!r)
		r = new_engine(s, capture != NULL);
	if (!r)
		r = new_writer(s, capture);
	if (!r)
		r = add_endpoints(s);
	if (!r)
		r = set_limits(s);
	if (!r)
		r = open_gates(s);
	if (!r)
		r = add_processes(s);
	if (!r)
		r = start_command(s);
	if (r) {
		session_free(s);
		return r;
	}
	s->start_ns = clock_mono_ns();
	hints_warnings(s->engine);
	format_duration(took, sizeof(took), s->start_ns - begin_ns);
	log_info("attached to %zu process%s in %s; Ctrl-C ends the run",
		 engine_n_processes(s->engine), engine_n_processes(s->engine) == 1 ? "" : "es",
		 took);
	*ret = s;
	return 0;
}

struct session *session_free(struct session *s)
{
	if (!s)
		return NULL;
	if (s->engine)
		engine_free(s->engine);
	specs_deinit(&s->specs);
	capture_writer_free(s->writer);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	/* The signals stay blocked: one that is pending must not kill a program that is done. */
	free(s);
	return NULL;
}

struct profile *session_profile(struct session *s)
{
	return pipeline_profile(engine_pipeline(s->engine));
}

int session_command_status(struct session *s)
{
	struct pollfd fd = {.fd = s->signal_fd, .events = POLLIN};
	struct signalfd_siginfo info;

	s->engine = engine_free(s->engine); /* the command goes on unprobed */
	if (s->child && !s->child_gone)
		log_info("the run is over; waiting for the command, which still runs");
	while (s->child && !s->child_gone) {
		if (child_ended(s->child, &s->child_status)) {
			s->child_gone = true;
			break;
		}
		if (poll(&fd, 1, 1000) > 0 &&
		    read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
			pass_on(s, &info);
	}
	return s->child_status;
}

/* A probe that is never hit is a wrong probe: say so while there is time to do something about it. */
static void tell_silence(struct session *s, uint64_t now_ns)
{
	bool absent[WIRE_EP_MAX];

	if (s->silence_told || now_ns - s->start_ns < SILENCE_NS || !engine_n_processes(s->engine))
		return;
	s->silence_told = true;
	absent_find(s->engine, s->n_endpoints, absent);
	hints_silence(s->engine, &s->specs, s->n_endpoints, absent);
}

/* A request that hangs is worth a word while it does, not only when the run is over. */
static void tell_hanging(struct session *s, uint64_t now_ns)
{
	uint64_t age_ns = 2 * s->o->min_duration_ns, told_ns = s->hanging_told_ns;

	if (now_ns < s->next_hanging_ns || s->n_hanging >= HANGING_MAX)
		return;
	s->next_hanging_ns = now_ns + HANGING_EVERY_NS;
	if (age_ns < HANGING_NS)
		age_ns = HANGING_NS;
	hints_hanging(s->engine, now_ns - age_ns, &s->hanging_told_ns);
	s->n_hanging += s->hanging_told_ns != told_ns;
}

/* An endpoint's gates have let in as many spans as they may, and those have ended. */
static bool is_sampled(struct session *s, uint32_t ep_id)
{
	struct wire_gate gate;
	uint64_t n = 0;

	for (uint32_t k = SPECS_ANY; k < SPECS_ANY + specs_n_instances(&s->specs); k++) {
		if (!(specs_limit(&s->specs, k) & 1ULL << ep_id))
			continue;
		if (engine_get_gate(s->engine, ep_id, k, &gate) || gate.n_active)
			return false;
		n += gate.n_started;
	}
	return n >= s->o->max_samples;
}

static bool all_sampled(struct session *s)
{
	if (!s->o->max_samples)
		return false;
	if (s->o->from_start)
		return session_profile(s)->spans.n - 1 >= s->o->max_samples * s->n_endpoints;
	for (uint32_t i = 0; i < s->n_endpoints; i++)
		if (!is_sampled(s, i))
			return false;
	return true;
}

static bool is_over(struct session *s, uint64_t now_ns)
{
	if (s->o->for_ns && now_ns - s->start_ns >= s->o->for_ns)
		return true;
	/* Whose end is told of by what is still in the buffer. */
	if (s->child && s->child_gone && !engine_dispatch(s->engine, now_ns))
		child_tell_left(engine_n_processes(s->engine));
	if (s->child)
		return s->child_gone || all_sampled(s);
	if (!s->watching && !engine_n_processes(s->engine)) {
		hints_gone(s->o);
		return true;
	}
	return all_sampled(s);
}

static int loop(struct session *s)
{
	struct pollfd fds[] = {
		{.fd = engine_fd(s->engine), .events = POLLIN},
		{.fd = s->signal_fd, .events = POLLIN},
	};
	uint64_t now_ns;
	int r;

	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), POLL_MS) < 0 && errno != EINTR)
			return fail("cannot wait for events", -errno, NULL);
		now_ns = clock_mono_ns();
		r = engine_dispatch(s->engine, now_ns);
		if (r)
			return fail("cannot read from the kernel", r, NULL);
		if (s->write_error)
			return fail_capture(s, s->write_error);
		hints_warnings(s->engine);
		tell_silence(s, now_ns);
		tell_hanging(s, now_ns);
		if (read_signals(s) || is_over(s, now_ns))
			return 0;
	}
}

static int write_name(void *ctx, const struct stacks_name *n)
{
	return capture_write_symbol(ctx, &(struct capture_symbol){
						 .kernel = n->kind == RAW_KERNEL,
						 .tgid = n->pid,
						 .address = n->address,
						 .frame_flags = n->frame_flags,
						 .module = n->module,
						 .function = n->function,
						 .system_name = n->system_name,
					 });
}

static int write_totals(struct session *s)
{
	struct profile *p = session_profile(s);
	int r = pipeline_each_name(engine_pipeline(s->engine), write_name, s->writer);

	for (uint32_t i = 0; i < s->n_endpoints && !r; i++)
		r = capture_write_latency(s->writer, i, &p->endpoints.at[i + 1].latency);
	if (!r)
		r = capture_write_totals(s->writer, p->duration_ns, &p->counters);
	return r;
}

static int read_latencies(struct session *s, struct profile *p)
{
	int r = 0;

	for (uint32_t i = 0; i < s->n_endpoints && !r; i++) {
		struct profile_endpoint *ep = &p->endpoints.at[i + 1];

		/* An offset has got its function's name when it was attached. */
		r = strpool_add(p->strings, endpoint_display(engine_endpoint(s->engine, i)),
				&ep->name);
		r = r ? r : engine_latency(s->engine, i, &ep->latency);
	}
	return r;
}

/* What the kernel and the target know, before the probes are taken off. */
static int finish(struct session *s, struct profile *p)
{
	int r;

	hints_traced_at_end(s->o);
	r = engine_finish(s->engine, s->end_ns);

	p->duration_ns = s->end_ns - p->start_mono_ns;
	if (!r)
		r = read_latencies(s, p);
	if (r)
		return r;
	absent_mark(s->engine, &s->specs, p);
	hints_nameless(s->engine, s->n_endpoints, p);
	return engine_counters(s->engine, &p->counters);
}

int session_run(struct session *s)
{
	struct profile *p = session_profile(s);
	int r = loop(s);

	if (r)
		return r;
	s->end_ns = clock_mono_ns();
	r = finish(s, p);
	/* Debug information is large: by then nothing else is in memory, and nothing on the target. */
	engine_stop(s->engine);
	malloc_trim(0);
	if (!r && !s->writer)
		r = pipeline_symbolize(engine_pipeline(s->engine));
	if (r)
		return fail("cannot finish the run", r, NULL);
	if (s->writer)
		r = s->write_error ? s->write_error : write_totals(s);
	return r ? fail_capture(s, r) : 0;
}
