/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine does with processes that come and go, and what it refuses; with a child that does as it is told. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pipe/engine.h"
#include "tests/unit/unit.h"

enum { INSTANCE = 3, CALL_MS = 30, THRESHOLD_NS = 5000000, DEADLINE_S = 20, EVENTS_MAX = 16 };

struct world {
	struct engine *e;
	uint32_t ep_id;
	pid_t child;
	int to_child;
	int from_child;
	struct engine_event events[EVENTS_MAX];
	size_t n_events;
	size_t n_records;
};

__attribute__((noinline)) void engine_request(long ms);

void engine_request(long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* The compiler knows none of the lengths: it would make a copy of the function for one. */
static volatile long call_ms = CALL_MS, hang_ms = 1000L * DEADLINE_S;

/* Does what each byte says, and answers with one. */
static void obey(int in, int out)
{
	char *const again[] = {(char *)"engine", (char *)"child", NULL};
	char c;

	while (read(in, &c, 1) == 1) {
		if (c == 'c')
			engine_request(call_ms);
		if (c == 'f' && fork() == 0)
			_exit(5);
		if (c == 'f')
			wait(NULL);
		if (c == 'e')
			execv("/proc/self/exe", again);
		if (write(out, &c, 1) != 1 || c == 'q')
			break;
		if (c == 'h') /* answered before it hangs */
			engine_request(hang_ms);
	}
	_exit(0);
}

static void start_child(struct world *w)
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, 0) | pipe2(out, 0), 0);
	w->child = fork();
	if (!w->child) {
		/* As exec finds them, too. */
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDERR_FILENO);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		obey(STDIN_FILENO, STDERR_FILENO);
	}
	assert_true(w->child > 0);
	close(in[0]);
	close(out[1]);
	w->to_child = in[1];
	w->from_child = out[0];
}

static void tell(const struct world *w, char c)
{
	char answer = 0;

	assert_int_equal(write(w->to_child, &c, 1), 1);
	if (c == 'e')
		return;
	assert_int_equal(read(w->from_child, &answer, 1), 1);
	assert_int_equal(answer, c);
}

static void on_event(void *ctx, const struct engine_event *event)
{
	struct world *w = ctx;

	if (w->n_events < EVENTS_MAX)
		w->events[w->n_events++] = *event;
}

static void on_record(void *ctx, const void *record, size_t bytes)
{
	((struct world *)ctx)->n_records++;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct engine_options o = {
		.follow_forks = true, .on_event = on_event, .on_record = on_record, .ctx = w};
	struct endpoint *ep;
	struct errmsg e = {};

	assert_non_null(w);
	*state = w;
	if (geteuid())
		return 0;
	start_child(w);
	if (engine_new(&w->e, &o, &e))
		fail_msg("%s", e.text);
	assert_int_equal(parse_endpoint("engine_request", &ep, NULL), 0);
	assert_int_equal(engine_add_endpoint(w->e, ep, &w->ep_id), 0);
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	engine_free(w->e);
	if (w->child > 0) {
		kill(w->child, SIGKILL);
		waitpid(w->child, NULL, 0);
		close(w->to_child);
		close(w->from_child);
	}
	free(w);
	return 0;
}

static struct world *world(void **state)
{
	struct world *w = *state;

	if (!w->e) {
		print_message("needs root\n");
		skip();
	}
	return w;
}

static void add(struct world *w, pid_t pid)
{
	struct errmsg e = {};

	if (engine_add_process(w->e, pid, INSTANCE, &e))
		fail_msg("%s", e.text);
}

static void open_gate(struct world *w)
{
	const struct wire_gate gate = {.enabled = 1,
				       .threshold_ns = THRESHOLD_NS,
				       .period_ns = 5000000,
				       .max_spans = 100,
				       .max_parallel = 10};
	struct errmsg e = {};

	if (engine_set_gate(w->e, w->ep_id, INSTANCE, &gate, &e))
		fail_msg("%s", e.text);
}

static const struct engine_event *event_of(const struct world *w, enum engine_event_kind kind)
{
	for (size_t i = 0; i < w->n_events; i++)
		if (w->events[i].kind == kind)
			return &w->events[i];
	return NULL;
}

/* Dispatches until there is such an event. */
static const struct engine_event *await(struct world *w, enum engine_event_kind kind)
{
	uint64_t until = clock_mono_ns() + DEADLINE_S * 1000000000ULL;

	while (!event_of(w, kind) && clock_mono_ns() < until) {
		assert_int_equal(engine_dispatch(w->e, clock_mono_ns()), 0);
		usleep(2000);
	}
	assert_non_null(event_of(w, kind));
	return event_of(w, kind);
}

static struct profile *profile(const struct world *w)
{
	return pipeline_profile(engine_pipeline(w->e));
}

static void await_spans(struct world *w, size_t n)
{
	uint64_t until = clock_mono_ns() + DEADLINE_S * 1000000000ULL;

	while (profile(w)->spans.n - 1 < n && clock_mono_ns() < until) {
		assert_int_equal(engine_dispatch(w->e, clock_mono_ns()), 0);
		usleep(2000);
	}
	assert_int_equal(profile(w)->spans.n - 1, n);
}

/* A call that sleeps is looked at, before its threshold or after, and is slow once it has passed that. */
static void await_slow(struct world *w)
{
	uint64_t until = clock_mono_ns() + DEADLINE_S * 1000000000ULL, begun_ns;
	struct wire_gate got = {};

	while (!got.n_active && clock_mono_ns() < until) {
		assert_int_equal(engine_dispatch(w->e, clock_mono_ns()), 0);
		assert_int_equal(engine_get_gate(w->e, w->ep_id, INSTANCE, &got), 0);
		usleep(2000);
	}
	assert_int_equal(got.n_active, 1);
	for (begun_ns = clock_mono_ns(); clock_mono_ns() < begun_ns + THRESHOLD_NS; usleep(1000))
		assert_int_equal(engine_dispatch(w->e, clock_mono_ns()), 0);
}

static void says(const struct errmsg *e, const char *words)
{
	if (!strstr(e->text, words))
		fail_msg("no '%s' in '%s'", words, e->text);
}

static void refusals(void **state)
{
	struct world *w = world(state);
	const struct wire_gate gate = {.enabled = 1, .period_ns = 1000000};
	AUTO_CLOSE int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct wire_gate got;
	struct errmsg e = {};
	size_t n;

	assert_int_equal(engine_add_process(w->e, 0x7ffffff0, INSTANCE, &e), -ESRCH);
	says(&e, "2147483632");
	assert_int_equal(engine_set_gate(w->e, 9, INSTANCE, &gate, &e), -EINVAL);
	says(&e, "cannot profile endpoint slot 9: it does not exist");
	assert_int_equal(engine_get_gate(w->e, w->ep_id, INSTANCE, &got), -ENOENT);
	assert_int_equal(engine_watch_exe(w->e, folder, "/", INSTANCE, &n, &e), -EINVAL);
	says(&e, "'/' is not an executable file");
	assert_int_equal(engine_n_processes(w->e), 0);
}

/* A process that has none of the endpoints is not kept, and does no harm to one that has. */
static void without_the_endpoint(void **state)
{
	struct world *w = world(state);
	struct errmsg e = {};
	pid_t other = fork();

	if (!other) {
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		_exit(1);
	}
	add(w, w->child);
	/* It is this program until it has called exec. */
	for (int i = 0; i < 1000 && !engine_add_process(w->e, other, INSTANCE, &e); i++) {
		engine_remove_process(w->e, other);
		usleep(2000);
	}
	assert_int_equal(engine_add_process(w->e, other, INSTANCE, &e), -ENOENT);
	says(&e, "engine_request");
	assert_int_equal(engine_n_processes(w->e), 1);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

static void a_slow_call(void **state)
{
	struct world *w = world(state);
	const struct profile_span *span;
	struct latency l;

	add(w, w->child);
	add(w, w->child);
	assert_int_equal(engine_n_processes(w->e), 1);
	open_gate(w);
	tell(w, 'c');
	await_spans(w, 1);
	span = &profile(w)->spans.at[1];
	assert_int_equal(span->tgid, w->child);
	assert_int_equal(span->instance_id, INSTANCE);
	assert_true(span->end_ns - span->start_ns >= CALL_MS * 1000000ULL);
	assert_int_equal(engine_latency(w->e, w->ep_id, &l), 0);
	assert_int_equal(l.n_enter, 1);
	assert_true(w->n_records >= 2);

	/* Without the process its calls are not looked at. */
	engine_remove_process(w->e, w->child);
	engine_remove_process(w->e, w->child);
	assert_int_equal(engine_n_processes(w->e), 0);
	tell(w, 'c');
	assert_int_equal(engine_finish(w->e, clock_mono_ns()), 0);
	assert_int_equal(engine_latency(w->e, w->ep_id, &l), 0);
	assert_int_equal(l.n_enter, 1);
}

/* The result outlives what the kernel holds. */
static void what_is_open_at_the_end(void **state)
{
	struct world *w = world(state);
	struct wire_gate got;

	add(w, w->child);
	open_gate(w);
	tell(w, 'h');
	await_slow(w);
	assert_int_equal(engine_finish(w->e, clock_mono_ns()), 0);
	assert_int_equal(engine_get_gate(w->e, w->ep_id, INSTANCE, &got), -ENOENT);
	engine_stop(w->e);
	assert_int_equal(profile(w)->spans.n - 1, 1);
	assert_int_equal(profile(w)->spans.at[1].end_reason, WIRE_END_TASK_END);
}

static void processes_that_fork_and_end(void **state)
{
	struct world *w = world(state);
	const struct engine_event *event;

	add(w, w->child);
	tell(w, 'f');
	event = await(w, ENGINE_EVENT_FORK);
	assert_int_equal(event->parent, w->child);
	assert_int_equal(event->instance_id, INSTANCE);
	assert_int_not_equal(event->pid, w->child);
	assert_int_equal(await(w, ENGINE_EVENT_EXIT)->pid, event->pid);
	assert_int_equal(event_of(w, ENGINE_EVENT_EXIT)->exit_code >> 8, 5);
	assert_int_equal(engine_n_processes(w->e), 1);
	w->n_events = 0;
	tell(w, 'q');
	assert_int_equal(await(w, ENGINE_EVENT_EXIT)->pid, w->child);
	assert_int_equal(engine_n_processes(w->e), 0);
}

/* Not attached any more, since it may be any program then ... */
static void processes_that_call_exec(void **state)
{
	struct world *w = world(state);

	add(w, w->child);
	tell(w, 'e');
	assert_int_equal(await(w, ENGINE_EVENT_EXEC)->pid, w->child);
	assert_int_equal(engine_n_processes(w->e), 0);
}

/* ... unless that one is watched: then its calls are seen at once. */
static void programs_that_are_watched(void **state)
{
	struct world *w = world(state);
	AUTO_CLOSE int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct errmsg e = {};
	struct latency l;
	size_t n = 0;

	if (engine_watch_exe(w->e, fd, "self", INSTANCE, &n, &e))
		fail_msg("%s", e.text);
	assert_int_equal(n, 2); /* this process is one */
	tell(w, 'e');
	assert_int_equal(await(w, ENGINE_EVENT_ATTACH)->pid, w->child);
	assert_int_equal(event_of(w, ENGINE_EVENT_ATTACH)->instance_id, INSTANCE);
	assert_int_equal(engine_n_processes(w->e), 2);
	tell(w, 'c');
	assert_int_equal(engine_latency(w->e, w->ep_id, &l), 0);
	assert_int_equal(l.n_enter, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(without_the_endpoint, setup, teardown),
		cmocka_unit_test_setup_teardown(a_slow_call, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_open_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_that_fork_and_end, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_that_call_exec, setup, teardown),
		cmocka_unit_test_setup_teardown(programs_that_are_watched, setup, teardown),
	};

	if (argc > 1)
		obey(STDIN_FILENO, STDERR_FILENO);
	return cmocka_run_group_tests_name("bpf engine", tests, NULL, NULL);
}
