/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "task/store.h"
#include "tests/unit/unit.h"

#define SECOND 1000000000ULL

struct world {
	struct store *s;
	struct profile *p;
	char dir[64];
	char path[96];
	uint64_t serial;
};

static struct profile *make_profile(void)
{
	struct profile *p;
	uint32_t stack, name;

	assert_int_equal(profile_new(&p), 0);
	p->start_real_ns = 1700000000 * SECOND;
	assert_int_equal(profile_synthetic_stack(p, "f", &stack), 0);
	assert_int_equal(strpool_add(p->strings, "GET /a", &name), 0);
	vec_push(&p->endpoints, (struct profile_endpoint){.name = name});
	vec_push(&p->spans, (struct profile_span){.endpoint = 1,
						  .name = name,
						  .tgid = 7,
						  .tid = 8,
						  .start_ns = SECOND,
						  .end_ns = 2 * SECOND,
						  .oncpu_ns = SECOND,
						  .first_sample = 1,
						  .n_samples = 1,
						  .n_due = 1,
						  .n_kept = 1});
	vec_push(&p->samples,
		 (struct profile_sample){.span = 1, .stack = stack, .wall_ns = SECOND});
	return p;
}

static struct store *reopen(struct world *w, uint64_t max_bytes, uint64_t max_age_ms)
{
	const struct store_options o = {
		.path = w->path, .max_bytes = max_bytes, .max_age_ms = max_age_ms};
	struct errmsg warning = {}, e = {};

	store_close(w->s);
	w->s = NULL;
	if (store_open(&w->s, &o, &warning, &e))
		fail_msg("%s", e.text);
	return w->s;
}

static void setup(struct world *w)
{
	memset(w, 0, sizeof(*w));
	strcpy(w->dir, "/tmp/spanprof-unit-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/db", w->dir);
	w->p = make_profile();
	reopen(w, 0, 0);
}

static void teardown(struct world *w)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", ".broken"};
	char path[128];

	store_close(w->s);
	profile_free(w->p);
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", w->path, suffixes[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(w->dir), 0);
}

static void add(struct world *w, const char *service)
{
	const struct task t = {.id = "t1", .source = "oap"};
	const struct instance i = {.id = 1, .service = (char *)service, .name = "i1"};
	const struct sink_span span = {
		.profile = w->p, .span = 1, .task = &t, .instance = &i, .serial = ++w->serial};
	struct span_sink *sink = store_sink(w->s);

	sink->ops->span(sink, &span);
}

static void count_span(void *ctx, const struct store_span *s)
{
	(*(int *)ctx)++;
	assert_string_equal(s->task_id, "t1");
	assert_string_equal(s->name, "GET /a");
	assert_int_equal(s->start_ms, 1700000001000);
	assert_int_equal(s->duration_ns, SECOND);
}

static int n_spans(struct store *s, const char *service)
{
	const struct store_filter f = {.service = service, .limit = 100000};
	int n = 0;

	assert_int_equal(store_list_spans(s, &f, count_span, &n), 0);
	return n;
}

static void test_spans(void **state)
{
	struct errmsg e = {};
	struct profile *p;
	struct world w;
	uint32_t span;

	setup(&w);
	assert_int_equal(store_next_serial(w.s), 1);
	add(&w, "a");
	add(&w, "b");
	add(&w, "b");
	assert_int_equal(n_spans(w.s, NULL), 3);
	assert_int_equal(n_spans(w.s, "b"), 2);
	profile_new(&p);
	assert_int_equal(store_read_span(w.s, 2, p, &span, &e), 0);
	assert_int_equal(p->samples.at[p->spans.at[span].first_sample].wall_ns, SECOND);
	assert_int_equal(store_read_span(w.s, 99, p, &span, &e), -ENOENT);
	profile_free(p);
	reopen(&w, 0, 0);
	assert_int_equal(n_spans(w.s, NULL), 3);
	assert_int_equal(store_next_serial(w.s), 4);
	teardown(&w);
}

static void test_reader_beside_the_writer(void **state)
{
	struct store *reader = NULL;
	struct errmsg e = {};
	struct world w;

	setup(&w);
	add(&w, "a");
	store_tick(w.s, SECOND, 0);
	assert_int_equal(store_open_read(&reader, w.path, &e), 0);
	assert_int_equal(n_spans(reader, NULL), 1);
	add(&w, "a");
	assert_int_equal(n_spans(reader, NULL), 1); /* not committed yet */
	store_flush(w.s);
	assert_int_equal(n_spans(reader, NULL), 2);
	store_close(reader);
	assert_int_equal(store_open_read(&reader, "/nonexistent/x", &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/x"));
	teardown(&w);
}

static void test_killed_writer(void **state)
{
	struct world w;
	int fds[2];
	char byte = 0;
	pid_t pid;

	setup(&w);
	store_close(w.s);
	w.s = NULL;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		reopen(&w, 0, 0);
		for (int i = 0; i < 100; i++)
			add(&w, "a");
		store_flush(w.s);
		add(&w, "a");
		if (write(fds[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	reopen(&w, 0, 0);
	assert_int_equal(n_spans(w.s, NULL), 100);
	teardown(&w);
}

static void test_retention(void **state)
{
	struct store_stats stats;
	struct world w;

	setup(&w);
	reopen(&w, 0, 1000);
	add(&w, "a");
	store_tick(w.s, SECOND, 1700000001999);
	assert_int_equal(n_spans(w.s, NULL), 1);
	store_tick(w.s, 20 * SECOND, 1700000020999);
	assert_int_equal(n_spans(w.s, NULL), 0);

	reopen(&w, 300000, 0);
	for (int i = 0; i < 2000; i++)
		add(&w, "a");
	for (uint64_t i = 1; i < 20; i++)
		store_tick(w.s, i * 20 * SECOND, 0);
	store_stats(w.s, &stats);
	assert_true(stats.bytes <= 400000);
	assert_true(stats.n_removed > 0);
	assert_in_range(n_spans(w.s, NULL), 100, 1900);
	teardown(&w);
}

/* The wall clock is set a year ahead and back: what is kept for a week is still there. */
static void test_retention_when_the_clock_is_set(void **state)
{
	const int64_t now_ms = 1700000000000, year_ms = 365LL * 86400 * 1000;
	struct world w;

	setup(&w);
	reopen(&w, 0, 7LL * 86400 * 1000);
	add(&w, "a");
	store_tick(w.s, 20 * SECOND, now_ms + 20000);
	store_tick(w.s, 40 * SECOND, now_ms + year_ms + 40000);
	store_tick(w.s, 3000 * SECOND, now_ms + year_ms + 3000000);
	assert_int_equal(n_spans(w.s, NULL), 1);
	store_tick(w.s, 3020 * SECOND, now_ms + 3020000);
	store_tick(w.s, 9000 * SECOND, now_ms + 9000000);
	assert_int_equal(n_spans(w.s, NULL), 1);
	/* A clock that stays where it was put is believed after an hour. */
	store_tick(w.s, 9020 * SECOND, now_ms + year_ms + 9020000);
	store_tick(w.s, 12600 * SECOND, now_ms + year_ms + 12600000);
	assert_int_equal(n_spans(w.s, NULL), 1);
	store_tick(w.s, 12640 * SECOND, now_ms + year_ms + 12640000);
	assert_int_equal(n_spans(w.s, NULL), 0);
	/* Back is no reason to keep or to remove anything. */
	add(&w, "b");
	store_tick(w.s, 12660 * SECOND, now_ms - year_ms);
	store_tick(w.s, 30000 * SECOND, now_ms - year_ms + 30000000);
	assert_int_equal(n_spans(w.s, NULL), 1);
	teardown(&w);
}

static void test_damaged_file(void **state)
{
	struct errmsg warning = {}, e = {};
	struct store_options o;
	struct world w;
	FILE *f;

	setup(&w);
	o = (struct store_options){.path = w.path};
	store_close(w.s);
	w.s = NULL;
	f = fopen(w.path, "w");
	for (int i = 0; i < 10000; i++)
		fputs("this is no database ", f);
	fclose(f);
	assert_int_equal(store_open(&w.s, &o, &warning, &e), 0);
	assert_non_null(strstr(warning.text, ".broken"));
	add(&w, "a");
	assert_int_equal(n_spans(w.s, NULL), 1);
	store_close(w.s);
	w.s = NULL;
	o.path = "/nonexistent/db";
	assert_int_equal(store_open(&w.s, &o, &warning, &e), -EIO);
	assert_non_null(strstr(e.text, "/nonexistent/db"));
	teardown(&w);
}

/* A file size limit stands for a full disk: writes fail in the middle. */
static void test_full_disk(void **state)
{
	struct rlimit old, small;
	struct store_stats stats;
	struct world w;

	setup(&w);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){.rlim_cur = 100000, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	for (uint64_t i = 0; i < 3000; i++)
		add(&w, "a");
	store_tick(w.s, SECOND, 0);
	store_stats(w.s, &stats);
	assert_true(stats.is_failing);
	assert_int_equal(stats.n_spans + stats.n_dropped, 3000);
	assert_true(stats.n_dropped > 0);
	assert_true(store_deadline(w.s) >= 10 * SECOND); /* nothing to do until then */
	setrlimit(RLIMIT_FSIZE, &old);
	store_tick(w.s, 20 * SECOND, 0); /* there is room again */
	add(&w, "b");
	store_flush(w.s);
	store_stats(w.s, &stats);
	assert_false(stats.is_failing);
	assert_int_equal(n_spans(w.s, "b"), 1);
	teardown(&w);
}

/* Nothing can be written any more; what is there can be read. */
static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* Something else is in the way by then: it is said, and the store goes on when it is gone. */
static void test_why_it_is_not_opened_later(void **state)
{
	struct store_stats stats;
	struct world w;

	setup(&w);
	store_close(w.s);
	w.s = NULL;
	limit_files(0);
	reopen(&w, 0, 0);
	limit_files(RLIM_INFINITY);
	assert_int_equal(unlink(w.path), 0);
	write_file(w.path, "a file of another program that is longer than a header of SQLite\n"
			   "would be, so that it is looked at and refused for what it holds.\n");
	store_tick(w.s, 20 * SECOND, 0);
	store_stats(w.s, &stats);
	assert_true(stats.is_failing);
	assert_non_null(strstr(stats.error, "not a database"));
	assert_true(store_deadline(w.s) >= 30 * SECOND);
	assert_int_equal(unlink(w.path), 0);
	store_tick(w.s, 40 * SECOND, 0);
	store_stats(w.s, &stats);
	assert_false(stats.is_failing);
	add(&w, "a");
	assert_int_equal(n_spans(w.s, "a"), 1);
	teardown(&w);
}

static void test_start_on_a_full_disk(void **state)
{
	struct store_stats stats;
	struct world w;

	setup(&w);
	add(&w, "a");
	store_close(w.s);
	w.s = NULL;
	limit_files(0);
	reopen(&w, 0, 0);
	store_stats(w.s, &stats);
	assert_true(stats.is_failing);
	assert_non_null(strstr(stats.error, "full"));
	assert_int_equal(n_spans(w.s, "a"), 1);
	assert_int_equal(store_next_serial(w.s), 2);
	add(&w, "b");
	store_tick(w.s, SECOND, 0);
	store_stats(w.s, &stats);
	assert_true(stats.is_failing);
	assert_int_equal(stats.n_dropped, 1);
	assert_true(store_deadline(w.s) > 5 * SECOND);
	limit_files(RLIM_INFINITY);
	store_tick(w.s, 20 * SECOND, 0); /* there is room again */
	store_stats(w.s, &stats);
	assert_false(stats.is_failing);
	add(&w, "c");
	store_flush(w.s);
	assert_int_equal(n_spans(w.s, NULL), 2);
	teardown(&w);
}

/* The first start ever: half of the tables would be in the way of every later one. */
static void test_first_start_on_a_full_disk(void **state)
{
	struct store_stats stats;
	struct world w;

	for (rlim_t bytes = 0; bytes < 60000; bytes += 3000) {
		memset(&w, 0, sizeof(w));
		strcpy(w.dir, "/tmp/spanprof-unit-XXXXXX");
		assert_non_null(mkdtemp(w.dir));
		snprintf(w.path, sizeof(w.path), "%s/d%%b ?", w.dir);
		w.p = make_profile();
		limit_files(bytes);
		reopen(&w, 0, 0);
		add(&w, "a");
		assert_true(n_spans(w.s, NULL) <= 1);
		limit_files(RLIM_INFINITY);
		store_tick(w.s, 20 * SECOND, 0);
		add(&w, "b");
		store_flush(w.s);
		store_stats(w.s, &stats);
		assert_false(stats.is_failing);
		assert_int_equal(n_spans(w.s, "b"), 1);
		teardown(&w);
	}
}

static void test_other_agent(void **state)
{
	struct errmsg warning = {}, e = {};
	struct store *other = NULL;
	struct store_options o;
	struct world w;

	setup(&w);
	o = (struct store_options){.path = w.path};
	assert_int_equal(store_open(&other, &o, &warning, &e), -EBUSY);
	assert_non_null(strstr(e.text, "another agent"));
	assert_int_equal(store_open_read(&other, w.path, &e), 0);
	store_close(other);
	add(&w, "a");
	assert_int_equal(n_spans(w.s, NULL), 1);
	teardown(&w);
}

static void take_task(void *ctx, const struct schedule_task *t)
{
	assert_string_equal(t->task.id, "t1");
	assert_string_equal(t->task.endpoint, "GET /a");
	assert_int_equal(t->task.duration_ns, 60 * SECOND);
	assert_true(t->task.end_by_count);
	assert_false(t->task.from_start);
	assert_true(t->local);
	assert_true(t->cancelled);
	assert_int_equal(t->state, TASK_STATE_RUNNING);
	assert_string_equal(t->why, "because");
	assert_int_equal(t->n_spans, 7);
	(*(int *)ctx)++;
}

static void take_run(void *ctx, const char *source, const char *id, const struct schedule_run *r)
{
	assert_string_equal(source, "oap");
	assert_string_equal(r->instance, "i1");
	assert_int_equal(r->state, TASK_STATE_FLUSHING);
	assert_int_equal(r->started_ms, 123);
	assert_int_equal(r->n_spans, 6);
	(*(int *)ctx)++;
}

static void take_mark(void *ctx, uint64_t key, int64_t create_ms, int64_t used_ms)
{
	assert_int_equal(key, 0xfedcba9876543210);
	assert_int_equal(create_ms, 5);
	(*(int *)ctx)++;
}

static void take_log(void *ctx, const struct store_log_entry *entry)
{
	char *text = ctx;

	snprintf(text + strlen(text), 200, "%s:%s ", entry->event, entry->why);
}

static void test_state_of_tasks(void **state)
{
	struct schedule_task t = {
		.local = true, .cancelled = true, .state = TASK_STATE_RUNNING, .why = "because"};
	const struct schedule_run r = {
		.instance = "i1", .state = TASK_STATE_FLUSHING, .started_ms = 123};
	const struct schedule_run counted = {.instance = "i1", .n_spans = 6};
	char text[512] = "";
	struct world w;
	int n = 0;

	setup(&w);
	t.task = (struct task){.id = "t1",
			       .source = "oap",
			       .service = "s",
			       .endpoint = "GET /a",
			       .duration_ns = 60 * SECOND,
			       .period_ns = 10000000,
			       .max_spans = 1,
			       .end_by_count = true};
	store_save_task(w.s, &t);
	store_save_task(w.s, &t);
	store_save_run(w.s, &t, &r);
	t.n_spans = 7;
	store_count_spans(w.s, &t, &counted);
	store_save_watermark(w.s, 0xfedcba9876543210, 4, 1);
	store_save_watermark(w.s, 0xfedcba9876543210, 5, 2);
	store_log(w.s, &(struct store_log_entry){1, "oap", "t1", "", "received", "x"});
	store_log(w.s, &(struct store_log_entry){2, "oap", "t1", "i1", "started", "y"});
	store_log(w.s, &(struct store_log_entry){3, "oap", "t2", "i1", "started", "z"});
	reopen(&w, 0, 0);
	assert_int_equal(store_load_tasks(w.s, take_task, &n), 0);
	assert_int_equal(store_load_runs(w.s, take_run, &n), 0);
	assert_int_equal(store_load_watermarks(w.s, take_mark, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(store_load_log(w.s, NULL, "t1", 10, take_log, text), 0);
	assert_string_equal(text, "started:y received:x ");
	store_forget_task(w.s, "oap", "t1");
	n = 0;
	assert_int_equal(store_load_tasks(w.s, take_task, &n), 0);
	assert_int_equal(n, 0);
	teardown(&w);
}

static void sum_marks(void *ctx, uint64_t key, int64_t create_ms, int64_t used_ms)
{
	*(int64_t *)ctx += (int64_t)key * create_ms;
}

/* Those that moved while nothing could be written are written together when there is room. */
static void test_watermarks_of_a_full_disk(void **state)
{
	struct watermarks marks = {};
	struct world w;
	int64_t sum = 0;

	setup(&w);
	limit_files(0);
	for (uint64_t key = 1; key <= 3; key++) {
		assert_true(watermarks_move(&marks, key, 10 * key, 1));
		store_save_watermark(w.s, key, 10 * key, 1);
	}
	limit_files(RLIM_INFINITY);
	assert_int_equal(store_load_watermarks(w.s, sum_marks, &sum), 0);
	assert_int_equal(sum, 0);
	store_tick(w.s, 20 * SECOND, 0);
	store_save_watermarks(w.s, &marks);
	reopen(&w, 0, 0);
	assert_int_equal(store_load_watermarks(w.s, sum_marks, &sum), 0);
	assert_int_equal(sum, 10 + 40 + 90);
	watermarks_deinit(&marks);
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_reader_beside_the_writer),
		cmocka_unit_test(test_killed_writer),
		cmocka_unit_test(test_retention),
		cmocka_unit_test(test_retention_when_the_clock_is_set),
		cmocka_unit_test(test_damaged_file),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_start_on_a_full_disk),
		cmocka_unit_test(test_why_it_is_not_opened_later),
		cmocka_unit_test(test_first_start_on_a_full_disk),
		cmocka_unit_test(test_other_agent),
		cmocka_unit_test(test_state_of_tasks),
		cmocka_unit_test(test_watermarks_of_a_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
