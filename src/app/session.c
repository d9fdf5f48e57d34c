/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "app/absent.h"
#include "app/child.h"
#include "app/command.h"
#include "app/files_limit.h"
#include "app/hints.h"
#include "app/session_priv.h"
#include "app/specs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "pipe/limits.h"
#include "proc/process.h"

enum {
	POLL_MS = 50,
	SILENCE_NS = 3000000000ULL,
	HANGING_NS =
		3000000000ULL, /* a call that is told of while it hangs; or twice --min-duration */
	HANGING_EVERY_NS = 1000000000ULL,
	HANGING_MAX = 10, /* calls told of in one run */
	LEAVE_TRIES = 100,
	LEAVE_US = 1000,
};

int session_fail(const char *doing, int error, const struct errmsg *e)
{
	if (e && e->text[0])
		log_error("%s", e->text);
	else
		log_error("%s: %s", doing, strerror(-error));
	return EXIT_FAILED;
}

/* A terminal sends its signals to the command, too; a process that sends one to spanprof does not. */
static void pass_on(const struct session *s, const struct signalfd_siginfo *info)
{
	if (s->child.pid && !s->child_gone && info->ssi_code <= 0 && info->ssi_signo != SIGCHLD)
		kill(s->child.pid, (int)info->ssi_signo);
}

static void look_at_child(struct session *s)
{
	enum child_state state = CHILD_RUNS;

	if (s->child.pid && !s->child_gone && !s->child_entered)
		state = child_look(&s->child, &s->child_status);
	s->child_gone |= state == CHILD_ENDED;
	s->child_entered |= state == CHILD_ENTERS;
}

/* What is left of the run may take long, and must not hold the command up. */
static void let_child_go(struct session *s)
{
	if (s->child_entered)
		child_continue(&s->child);
	s->child_entered = false;
	child_leave(&s->child);
	for (size_t i = 0; i < LEAVE_TRIES && !s->child_gone && child_is_followed(&s->child); i++) {
		look_at_child(s);
		usleep(LEAVE_US);
	}
}

/* SIGINT ends the run alone, the others what was started, too. */
bool session_read_signals(struct session *s)
{
	struct signalfd_siginfo info;
	bool end = false;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		end |= info.ssi_signo != SIGCHLD;
		if (info.ssi_signo != SIGINT)
			pass_on(s, &info);
	}
	look_at_child(s);
	return end;
}

/* Only asked while symbols are looked up, which may be at the end, after the signal that began it. */
static bool shall_stop(void *ctx)
{
	struct session *s = ctx;

	if (s->end_ns && !s->hurried && session_read_signals(s)) {
		s->hurried = true;
		log_warning(
			"the end is cut short: names come from symbol tables from here on, without lines and inlined functions");
	}
	return s->hurried;
}

/* A child of a process that runs something else is no matter; a process that was asked for is. */
static void on_event(void *ctx, const struct engine_event *event)
{
	struct session *s = ctx;

	if (event->kind != ENGINE_EVENT_EXEC)
		return;
	s->child_left |= event->pid == s->child.pid;
	for (size_t i = 0; i < s->o->pids.n; i++)
		if (s->o->pids.at[i] == event->pid)
			hints_left(event->pid);
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
				.on_space = session_on_space,
				.ctx = s,
			},
		.ring_bytes = o->ring_bytes,
		.max_window = o->window_bytes,
		.kernel_stacks = !o->no_kernel,
		.max_overhead_ppm = o->max_overhead_ppm,
		.follow_forks = !o->no_fork,
		.without_end = !(need & ENDPOINT_NEEDS_END),
		.without_uret = o->leave != LEAVE_URETPROBE && !(need & ENDPOINT_NEEDS_URETPROBE),
		.without_names = !(need & ENDPOINT_NEEDS_NAMES),
		.without_nameless = need & ENDPOINT_NEEDS_NAMES,
		.end_sleeps = need & ENDPOINT_NEEDS_END_READS,
		.on_event = on_event,
		.on_record = session_on_record,
		.ctx = s,
	};
	struct errmsg e = {};
	int r = engine_new(&s->engine, &options, &e);

	if (r == 0)
		hints_kernel_symbols(o);
	return r ? session_fail("cannot start profiling", r, &e) : 0;
}

static int add_endpoints(struct session *s)
{
	uint32_t ep_id;

	for (size_t i = 0; i < s->specs.endpoints.n; i++) {
		int r = engine_add_endpoint(s->engine, s->specs.endpoints.at[i], &ep_id);

		if (r)
			return session_fail("--endpoint", r, NULL);
		s->specs.endpoints.at[i] = NULL;
		s->n_endpoints = ep_id + 1;
	}
	return 0;
}

/* The processes of an instance are looked at for its endpoints. */
int session_open_instance(struct session *s, uint32_t instance_id, struct errmsg *e)
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
	uint64_t limit = specs_limit(&s->specs, instance_id);
	int r = limits_set(engine_limits(s->engine), instance_id, limit);

	for (uint32_t i = 0; i < s->n_endpoints && !r; i++)
		if (limit & 1ULL << i)
			r = engine_set_gate(s->engine, i, instance_id, &gate, e);
	return r;
}

static int open_gates(struct session *s)
{
	struct errmsg e = {};
	int r = session_open_instance(s, SPECS_ANY, &e);

	return r ? session_fail("cannot start profiling", r, &e) : 0;
}

static int write_endpoints(struct session *s)
{
	int r = 0;

	for (uint32_t i = 0; i < s->n_endpoints && s->writer && !r; i++) {
		const struct endpoint *spec = engine_endpoint(s->engine, i);
		const struct capture_endpoint c = {
			.ep_id = i,
			.threshold_ns = s->o->min_duration_ns,
			.sample_after_ns = s->o->from_start ? 0 : s->o->min_duration_ns,
			.period_ns = s->o->period_ns,
			.spec = endpoint_text(spec),
			.display = endpoint_display(spec),
		};

		r = capture_write_endpoint(s->writer, &c);
	}
	return r ? session_fail("cannot start profiling", r, NULL) : 0;
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
		return session_fail("cannot block signals", -errno, NULL);
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0)
		return session_fail("cannot wait for signals", -errno, NULL);
	return 0;
}

static int raise_files_limit(struct session *s)
{
	struct errmsg e = {};
	int r = files_limit_raise(&s->old_files, &e);

	return r ? session_fail("cannot open files", r, &e) : 0;
}

int session_new(struct session **ret, const struct run_options *o, FILE *capture)
{
	uint64_t begin_ns = clock_mono_ns();
	struct session *s = calloc(1, sizeof(*s));
	char took[32];
	int r;

	if (!s)
		return session_fail("cannot start profiling", -ENOMEM, NULL);
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
		r = session_new_writer(s, capture);
	if (!r)
		r = add_endpoints(s);
	if (!r)
		r = open_gates(s);
	if (!r)
		r = write_endpoints(s);
	if (!r)
		r = session_add_processes(s);
	if (!r)
		r = session_start_command(s);
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
	if (s->child.pid && !s->child_gone)
		log_info("the run is over; waiting for the command, which still runs");
	while (s->child.pid && !s->child_gone) {
		look_at_child(s);
		let_child_go(s);
		if (!s->child_gone && poll(&fd, 1, 1000) > 0 &&
		    read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
			pass_on(s, &info);
	}
	return s->child_status;
}

static uint64_t probed_ns(const struct session *s, uint64_t now_ns)
{
	struct profile_turns turns;

	engine_turns(s->engine, now_ns, &turns);
	return turns.probed_ns;
}

/* A probe that is never hit is a wrong probe: say so while there is time to do something about it. */
static void tell_silence(struct session *s, uint64_t now_ns)
{
	bool absent[WIRE_EP_MAX];

	if (s->silence_told || now_ns - s->start_ns < SILENCE_NS || !engine_n_processes(s->engine))
		return;
	if (s->o->max_overhead_ppm && probed_ns(s, now_ns) < SILENCE_NS)
		return;
	s->silence_told = true;
	absent_find(s->engine, s->n_endpoints, absent);
	hints_silence(s->engine, &s->specs, s->n_endpoints, absent);
}

static void tell_costly(struct session *s, uint64_t now_ns)
{
	if (!s->o->max_overhead_ppm && costly_look(&s->costly, s->engine, now_ns))
		log_warning("%s: --max-overhead 1%% limits that to 1 %%, by probing in turns",
			    s->costly.text);
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

	for (uint32_t k = SPECS_ANY; k <= specs_n_instances(&s->specs); k++) {
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

/* Whose end is told of by what is still in the buffer; those of --exe may be none of the command's. */
static void tell_left(struct session *s, uint64_t now_ns)
{
	size_t n = 0;

	if (engine_dispatch(s->engine, now_ns))
		return;
	for (size_t i = 0; i < engine_n_processes(s->engine); i++)
		n += process_is_left(engine_process(s->engine, i), s->child.start_ticks);
	child_tell_left(n);
}

static bool is_over(struct session *s, uint64_t now_ns)
{
	if (s->o->for_ns && now_ns - s->start_ns >= s->o->for_ns)
		return true;
	if (s->child.pid && s->child_gone)
		tell_left(s, now_ns);
	if (s->child.pid)
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
			return session_fail("cannot wait for events", -errno, NULL);
		now_ns = clock_mono_ns();
		r = engine_dispatch(s->engine, now_ns);
		if (r)
			return session_fail("cannot read from the kernel", r, NULL);
		if (s->write_error)
			return session_fail_capture(s, s->write_error);
		hints_warnings(s->engine);
		tell_silence(s, now_ns);
		tell_costly(s, now_ns);
		tell_hanging(s, now_ns);
		if (session_read_signals(s))
			return 0;
		r = session_follow_command(s);
		if (r)
			return r;
		if (is_over(s, now_ns))
			return 0;
	}
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
	if (s->o->max_overhead_ppm)
		engine_turns(s->engine, s->end_ns, &p->turns);
	hints_turns(p);
	if (!r)
		r = read_latencies(s, p);
	if (r)
		return r;
	absent_mark(s->engine, &s->specs, p);
	hints_strays(&s->specs, p);
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
	let_child_go(s);
	r = finish(s, p);
	if (!r && session_check_command(s))
		return EXIT_FAILED;
	/* Debug information is large: by then nothing else is in memory, and nothing on the target. */
	engine_stop(s->engine);
	malloc_trim(0);
	if (!r && !s->writer)
		r = pipeline_symbolize(engine_pipeline(s->engine));
	if (r)
		return session_fail("cannot finish the run", r, NULL);
	if (s->writer)
		r = s->write_error ? s->write_error : session_write_totals(s);
	return r ? session_fail_capture(s, r) : 0;
}
