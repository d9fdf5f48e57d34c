/* SPDX-License-Identifier: Apache-2.0 */
#include "task/store.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "task/spanblob.h"
#include "task/store_priv.h"

enum {
	CLOCK_STEP_MS = 60000,
	SPANS_PER_COMMIT = 256,
	REMOVE_STEP = 256, /* spans removed at a time when the file is too large */
	LOG_KEPT = 20000,  /* log entries */
	VACUUM_PAGES = 512,
};

#define NS_PER_MS       1000000ULL
#define COMMIT_AFTER_NS (500 * NS_PER_MS)
#define CLEAN_EVERY_NS  (10000 * NS_PER_MS)
#define RETRY_AFTER_NS  (10000 * NS_PER_MS)
#define CLOCK_WAIT_NS   (3600000 * NS_PER_MS)

#define LIST                                                                                   \
	"SELECT serial, source, task, service, instance, endpoint, name, tgid, tid, start_ms," \
	" duration_ns, oncpu_ns, runq_ns, blocked_ns, n_due, n_kept, end_reason FROM spans"    \
	" WHERE (?1 = '' OR task = ?1) AND (?2 = '' OR service = ?2)"                          \
	" AND (?3 = '' OR instance = ?3) AND duration_ns >= ?4"

static const char *const sql[] = {
	[STORE_BEGIN] = "BEGIN IMMEDIATE",
	[STORE_COMMIT] = "COMMIT",
	[STORE_ROLLBACK] = "ROLLBACK",
	[STORE_SAVE_TASK] = "INSERT OR REPLACE INTO tasks VALUES"
			    "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[STORE_SAVE_RUN] = "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,?,?,?)",
	[STORE_COUNT_TASK] = "UPDATE tasks SET n_spans = ?3 WHERE source = ?1 AND id = ?2",
	[STORE_COUNT_RUN] = "UPDATE runs SET n_spans = ?4"
			    " WHERE source = ?1 AND id = ?2 AND instance = ?3",
	[STORE_FORGET_TASK] = "DELETE FROM tasks WHERE source = ? AND id = ?",
	[STORE_FORGET_RUNS] = "DELETE FROM runs WHERE source = ? AND id = ?",
	[STORE_SAVE_WATERMARK] = "INSERT OR REPLACE INTO watermarks VALUES(?,?,?)",
	[STORE_LOG] = "INSERT INTO log(ms, source, id, instance, event, why) VALUES(?,?,?,?,?,?)",
	[STORE_TRIM_LOG] = "DELETE FROM log WHERE n <= (SELECT max(n) FROM log) - ?",
	[STORE_ADD_SPAN] = "INSERT INTO spans VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[STORE_MAX_SERIAL] = "SELECT seq FROM sqlite_sequence WHERE name = 'spans'",
	[STORE_REMOVE_OLD] = "DELETE FROM spans WHERE start_ms < ?",
	[STORE_REMOVE_FIRST] = "DELETE FROM spans WHERE serial IN"
			       " (SELECT serial FROM spans ORDER BY serial LIMIT ?)",
	[STORE_LOAD_TASKS] = "SELECT * FROM tasks ORDER BY received_ms",
	[STORE_LOAD_RUNS] = "SELECT * FROM runs",
	[STORE_LOAD_WATERMARKS] = "SELECT key, create_ms, used_ms FROM watermarks",
	[STORE_LOAD_LOG] = "SELECT ms, source, id, instance, event, why FROM log"
			   " WHERE (?1 = '' OR source = ?1) AND (?2 = '' OR id = ?2)"
			   " ORDER BY n DESC LIMIT ?3",
	[STORE_LIST_NEWEST] = LIST " ORDER BY serial DESC LIMIT ?5",
	[STORE_LIST_SLOWEST] = LIST " ORDER BY duration_ns DESC, serial DESC LIMIT ?5",
	[STORE_READ_SPAN] = "SELECT profile FROM spans WHERE serial = ?",
};
_Static_assert(ARRAY_SIZE(sql) == STORE_STATEMENT_MAX, "a statement has no text");

/* ---- statements ---- */

sqlite3_stmt *store_statement(struct store *s, enum store_statement which)
{
	if (!s->statements[which] &&
	    sqlite3_prepare_v3(s->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT,
			       &s->statements[which], NULL) != SQLITE_OK) {
		s->stats.n_errors++;
		return NULL;
	}
	sqlite3_reset(s->statements[which]);
	sqlite3_clear_bindings(s->statements[which]);
	return s->statements[which];
}

void store_bind(sqlite3_stmt *st, const char *types, ...)
{
	va_list ap;

	va_start(ap, types);
	for (int i = 1; *types; types++, i++) {
		if (*types == 's') {
			const char *text = va_arg(ap, const char *);

			sqlite3_bind_text(st, i, text ? text : "", -1, SQLITE_TRANSIENT);
		} else if (*types == 'i') {
			sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
		} else {
			const void *data = va_arg(ap, const void *);

			sqlite3_bind_blob64(st, i, data, va_arg(ap, size_t), SQLITE_TRANSIENT);
		}
	}
	va_end(ap);
}

/* After an error (disk full above all) everything of the open transaction is given up. */
static void fail(struct store *s)
{
	s->stats.n_errors++;
	s->stats.is_failing = true;
	errmsg_set(&s->why, 0, "%s", sqlite3_errstr(sqlite3_extended_errcode(s->db)));
	s->stats.n_dropped += s->n_open;
	s->n_open = 0;
	s->commit_at = UINT64_MAX;
	s->retry_at = s->now_ns + RETRY_AFTER_NS;
	if (!sqlite3_get_autocommit(s->db)) {
		sqlite3_stmt *st = store_statement(s, STORE_ROLLBACK);

		if (st)
			sqlite3_step(st);
	}
}

bool store_run(struct store *s, sqlite3_stmt *st)
{
	int r = st ? sqlite3_step(st) : SQLITE_ERROR;

	if (st)
		sqlite3_reset(st);
	if (r == SQLITE_DONE || r == SQLITE_ROW)
		return true;
	fail(s);
	return false;
}

bool store_begin(struct store *s)
{
	if (s->is_shut)
		return false;
	if (s->commit_at != UINT64_MAX)
		return true;
	if (s->now_ns < s->retry_at)
		return false;
	if (!store_run(s, store_statement(s, STORE_BEGIN)))
		return false;
	s->commit_at = s->now_ns + COMMIT_AFTER_NS;
	return true;
}

void store_flush(struct store *s)
{
	if (s->commit_at == UINT64_MAX)
		return;
	if (!store_run(s, store_statement(s, STORE_COMMIT)))
		return;
	s->commit_at = UINT64_MAX;
	s->stats.n_spans += s->n_open;
	s->n_open = 0;
	s->stats.is_failing = false;
}

/* ---- the sink ---- */

static void on_span(struct span_sink *sink, const struct sink_span *in)
{
	struct store *s = (struct store *)sink;
	const struct profile *p = in->profile;
	const struct profile_span *span = &p->spans.at[in->span];
	AUTO_FREE uint8_t *blob = NULL;
	sqlite3_stmt *st;
	size_t bytes;

	/* First whether it can be written at all: to encode it is the dear part. */
	if (!store_begin(s) || encode_spanblob(p, in->span, in->task, &blob, &bytes) ||
	    !(st = store_statement(s, STORE_ADD_SPAN))) {
		s->stats.n_dropped++;
		return;
	}
	store_bind(st, "issssssiiiiiiiiiib", (int64_t)in->serial, in->task->source, in->task->id,
		   in->instance->service, in->instance->name,
		   strpool_get(p->strings, p->endpoints.at[span->endpoint].name),
		   strpool_get(p->strings, span->name), (int64_t)span->tgid, (int64_t)span->tid,
		   sink_epoch_ms(p, span->start_ns), (int64_t)(span->end_ns - span->start_ns),
		   (int64_t)span->oncpu_ns, (int64_t)span->runq_ns, (int64_t)span->blocked_ns,
		   (int64_t)span->n_due, (int64_t)span->n_kept, (int64_t)span->end_reason, blob,
		   bytes);
	s->n_open++; /* before: a failure counts it as dropped */
	if (store_run(s, st) && s->n_open >= SPANS_PER_COMMIT)
		store_flush(s);
}

static void on_task_finished(struct span_sink *sink, const struct task *t, const struct instance *i,
			     enum task_event how)
{
	store_flush((struct store *)sink);
}

static uint64_t sink_deadline(const struct span_sink *sink)
{
	return store_deadline((const struct store *)sink);
}

static void on_shutdown(struct span_sink *sink, uint64_t deadline_mono_ns)
{
	store_flush((struct store *)sink);
}

static void sink_status(const struct span_sink *sink, struct link_status *ret)
{
	const struct store *s = (const struct store *)sink;

	*ret = (struct link_status){.state = s->stats.is_failing ? "failing" : "ready",
				    .n_sent = s->stats.n_spans,
				    .n_dropped = s->stats.n_dropped,
				    .n_errors = s->stats.n_errors};
}

static struct span_sink *sink_free(struct span_sink *sink)
{
	return NULL;
}

const struct span_sink_ops store_sink_ops = {
	.kind = "store",
	.deadline_ns = sink_deadline,
	.span = on_span,
	.task_finished = on_task_finished,
	.shutdown = on_shutdown,
	.status = sink_status,
	.free = sink_free,
};

struct span_sink *store_sink(struct store *s)
{
	return &s->sink;
}

uint64_t store_next_serial(struct store *s)
{
	sqlite3_stmt *st = store_statement(s, STORE_MAX_SERIAL);
	uint64_t v = 1;

	if (st && sqlite3_step(st) == SQLITE_ROW)
		v = sqlite3_column_int64(st, 0) + 1;
	if (st)
		sqlite3_reset(st);
	return v;
}

void store_set_limits(struct store *s, uint64_t max_bytes, uint64_t max_age_ms)
{
	s->max_bytes = max_bytes;
	s->max_age_ms = max_age_ms;
}

/* ---- time ---- */

static uint64_t used_bytes(struct store *s)
{
	uint64_t page = store_pragma(s->db, "PRAGMA page_size");
	uint64_t n = store_pragma(s->db, "PRAGMA page_count");
	uint64_t n_free = store_pragma(s->db, "PRAGMA freelist_count");

	s->stats.bytes = n * page;
	return (n - n_free) * page;
}

static void remove_spans(struct store *s, enum store_statement which, int64_t arg)
{
	sqlite3_stmt *st = store_statement(s, which);

	if (!st)
		return;
	store_bind(st, "i", arg);
	if (store_run(s, st))
		s->stats.n_removed += sqlite3_changes(s->db);
}

/* What is removed on one call is bounded, so that the loop is not held up; more goes next time. */
static void clean(struct store *s, int64_t real_ms)
{
	char text[64];
	bool too_large;

	store_flush(s);
	if (s->max_age_ms && s->now_ns >= s->age_at)
		remove_spans(s, STORE_REMOVE_OLD, real_ms - (int64_t)s->max_age_ms);
	too_large = s->max_bytes && used_bytes(s) > s->max_bytes;
	for (int i = 0; too_large && i < 8; i++) {
		remove_spans(s, STORE_REMOVE_FIRST, REMOVE_STEP);
		too_large = used_bytes(s) > s->max_bytes / 10 * 9;
	}
	remove_spans(s, STORE_TRIM_LOG, LOG_KEPT);
	snprintf(text, sizeof(text), "PRAGMA incremental_vacuum(%d)", VACUUM_PAGES);
	sqlite3_exec(s->db, text, NULL, NULL, NULL);
	used_bytes(s);
}

/*
 * A clock that was set wrong for a while must not make all spans too old: after a step, nothing is
 * removed for its age for an hour.
 */
static void watch_clock(struct store *s, int64_t real_ms)
{
	int64_t off_ms = real_ms - (int64_t)(s->now_ns / NS_PER_MS);
	int64_t step_ms = off_ms - s->off_ms;

	if (s->off_ms && (step_ms > CLOCK_STEP_MS || step_ms < -CLOCK_STEP_MS))
		s->age_at = s->now_ns + CLOCK_WAIT_NS;
	s->off_ms = off_ms;
}

void store_tick(struct store *s, uint64_t mono_ns, int64_t real_ms)
{
	s->now_ns = mono_ns;
	watch_clock(s, real_ms);
	if (mono_ns >= s->commit_at)
		store_flush(s);
	if (mono_ns < s->clean_at || mono_ns < s->retry_at)
		return;
	if (s->is_shut && !store_reopen(s)) {
		s->retry_at = mono_ns + RETRY_AFTER_NS;
		return;
	}
	s->clean_at = mono_ns + CLEAN_EVERY_NS;
	clean(s, real_ms);
}

uint64_t store_deadline(const struct store *s)
{
	uint64_t clean_at = s->clean_at > s->retry_at ? s->clean_at : s->retry_at;

	return s->commit_at < clean_at ? s->commit_at : clean_at;
}

void store_stats(const struct store *s, struct store_stats *ret)
{
	*ret = s->stats;
	ret->error = s->why.text;
}
