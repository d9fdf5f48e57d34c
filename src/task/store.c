/* SPDX-License-Identifier: Apache-2.0 */
#include "task/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "task/spanblob.h"
#include "task/store_priv.h"

enum {
	STORE_VERSION = 1,
	CLOCK_STEP_MS = 60000,
	BUSY_MS = 200,
	LOCK_TRIES = 20,
	LOCK_WAIT_NS = 50000000,
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

/* All or nothing: a disk that is full now must not leave half of it for ever. */
static const char schema[] =
	"BEGIN;"
	"CREATE TABLE tasks(source TEXT, id TEXT, service TEXT, instance TEXT, endpoint TEXT,"
	" create_ms INT, start_ms INT, duration_ns INT, threshold_ns INT, period_ns INT, max_spans INT,"
	" max_parallel INT, flags INT, local INT, state INT, received_ms INT, started_ms INT,"
	" finished_ms INT, n_spans INT, why TEXT, PRIMARY KEY(source, id)) WITHOUT ROWID;"
	"CREATE TABLE runs(source TEXT, id TEXT, instance TEXT, state INT, how INT, started_ms INT,"
	" finished_ms INT, n_spans INT, PRIMARY KEY(source, id, instance)) WITHOUT ROWID;"
	"CREATE TABLE watermarks(key INTEGER PRIMARY KEY, create_ms INT, used_ms INT);"
	"CREATE TABLE log(n INTEGER PRIMARY KEY AUTOINCREMENT, ms INT, source TEXT, id TEXT,"
	" instance TEXT, event TEXT, why TEXT);"
	"CREATE INDEX log_by_task ON log(id, source);"
	"CREATE TABLE spans(serial INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT, task TEXT,"
	" service TEXT, instance TEXT, endpoint TEXT, name TEXT, tgid INT, tid INT, start_ms INT,"
	" duration_ns INT, oncpu_ns INT, runq_ns INT, blocked_ns INT, n_due INT, n_kept INT,"
	" end_reason INT, profile BLOB);"
	"CREATE INDEX spans_by_start ON spans(start_ms);"
	"CREATE INDEX spans_by_task ON spans(task);"
	"PRAGMA user_version = 1;"
	"COMMIT;";

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
	s->stats.error = sqlite3_errstr(sqlite3_extended_errcode(s->db));
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

	if (encode_spanblob(p, in->span, in->task, &blob, &bytes) || !store_begin(s) ||
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

static const struct span_sink_ops sink_ops = {
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

/* ---- opening ---- */

static int pragma_int(sqlite3 *db, const char *text)
{
	sqlite3_stmt *st = NULL;
	int v = -1;

	if (sqlite3_prepare_v2(db, text, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		v = sqlite3_column_int(st, 0);
	sqlite3_finalize(st);
	return v;
}

/* SQLITE_OK, or what is wrong with the file. */
static int prepare_file(sqlite3 *db)
{
	static const char *const pragmas[] = {
		"PRAGMA auto_vacuum = INCREMENTAL", /* before the first table */
		"PRAGMA journal_mode = WAL",           "PRAGMA synchronous = NORMAL",
		"PRAGMA journal_size_limit = 4194304", "PRAGMA cache_size = -1024",
		"PRAGMA temp_store = MEMORY",
	};
	int r = SQLITE_OK;

	sqlite3_busy_timeout(db, BUSY_MS);
	for (size_t i = 0; r == SQLITE_OK && i < ARRAY_SIZE(pragmas); i++)
		r = sqlite3_exec(db, pragmas[i], NULL, NULL, NULL);
	if (r != SQLITE_OK)
		return r;
	switch (pragma_int(db, "PRAGMA user_version")) {
	case 0:
		return sqlite3_exec(db, schema, NULL, NULL, NULL);
	case STORE_VERSION:
		return pragma_int(db, "SELECT count(*) FROM tasks") < 0 ? SQLITE_CORRUPT
									: SQLITE_OK;
	default:
		return SQLITE_MISMATCH;
	}
}

static void unlock_file(struct store *s)
{
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->lock_fd = -1;
}

/*
 * One agent at a time. Not the locks of SQLite, which are for the time of a transaction; the file may be
 * closed only after SQLite has closed it, whose locks go with any descriptor of the process.
 */
static int lock_file(struct store *s, struct errmsg *e)
{
	const struct timespec moment = {.tv_nsec = LOCK_WAIT_NS};

	if (s->lock_fd >= 0)
		return 0;
	s->lock_fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock_fd < 0) /* SQLite says why */
		return 0;
	/* One that was just killed may have left a child that has not closed its files yet. */
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(s->lock_fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
			return 0;
		nanosleep(&moment, NULL);
	}
	unlock_file(s); /* an open one counts as locked */
	return errmsg_set(
		e, -EBUSY,
		"the store '%s' is in use by another agent: stop that one, or give this one a store of its own (agent.store, or --store)",
		s->path);
}

/* Why the file cannot be written now although nothing is wrong with it: a fixed text; NULL: something is. */
static const char *why_not_now(sqlite3 *db, int r)
{
	int extended = sqlite3_extended_errcode(db), error = sqlite3_system_errno(db);

	r &= 0xff;
	if (r == SQLITE_FULL || extended == SQLITE_IOERR_SHMSIZE ||
	    ((r == SQLITE_IOERR || r == SQLITE_CANTOPEN) &&
	     (error == ENOSPC || error == EDQUOT || error == EFBIG)))
		return sqlite3_errstr(SQLITE_FULL);
	return extended == SQLITE_IOERR_WRITE ? sqlite3_errstr(SQLITE_IOERR) : NULL;
}

static int complain(const struct store *s, sqlite3 *db, int r, struct errmsg *e)
{
	if (r == SQLITE_MISMATCH)
		return errmsg_set(
			e, -EPROTO,
			"the store '%s' was written by another version of spanprof; move it away or set agent.store to another path",
			s->path);
	if ((r & 0xff) == SQLITE_BUSY)
		return errmsg_set(
			e, -EBUSY,
			"cannot open the store '%s': another program is writing it; end that one",
			s->path);
	errmsg_set(
		e, -EIO,
		"cannot open the store '%s': %s; agent.store must name a file in a folder that exists and is writable",
		s->path, db ? sqlite3_errmsg(db) : sqlite3_errstr(r));
	return r == SQLITE_CORRUPT || r == SQLITE_NOTADB ? -EBADMSG : -EIO;
}

/* -ENOSPC, without a message: not now; stats.error says why. */
static int open_file(struct store *s, sqlite3 **ret, struct errmsg *e)
{
	mode_t mask = umask(0077); /* profiles tell what programs do: for their owner only */
	sqlite3 *db = NULL;
	int r = sqlite3_open_v2(s->path, &db,
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				NULL);

	umask(mask);
	if (r == SQLITE_OK)
		r = prepare_file(db);
	if (r == SQLITE_OK) {
		*ret = db;
		return 0;
	}
	s->stats.error = db ? why_not_now(db, r) : NULL;
	r = s->stats.error ? -ENOSPC : complain(s, db, r, e);
	sqlite3_close(db);
	return r;
}

/* The file as it was left, read without a lock or a file beside it, for which there is no room. */
static sqlite3 *open_left(const char *path)
{
	static const char hex[] = "0123456789abcdef";
	AUTO_FREE char *uri = malloc(3 * strlen(path) + 64);
	sqlite3 *db = NULL;
	char *to;

	if (!uri)
		return NULL;
	to = stpcpy(uri, "file:");
	for (const unsigned char *c = (const unsigned char *)path; *c; c++) {
		*to++ = '%';
		*to++ = hex[*c >> 4];
		*to++ = hex[*c & 15];
	}
	strcpy(to, "?immutable=1");
	if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
			    NULL) == SQLITE_OK &&
	    pragma_int(db, "PRAGMA user_version") == STORE_VERSION &&
	    pragma_int(db, "SELECT count(*) FROM tasks") >= 0)
		return db;
	sqlite3_close(db);
	return NULL;
}

/* No room to write, not even to begin with: what is there can be read, until there is room again. */
static int open_shut(struct store *s, struct errmsg *e)
{
	s->db = open_left(s->path);
	if (!s->db && (sqlite3_open(":memory:", &s->db) != SQLITE_OK ||
		       sqlite3_exec(s->db, schema, NULL, NULL, NULL) != SQLITE_OK))
		return errmsg_set(e, -ENOMEM, "out of memory");
	s->is_shut = true;
	s->stats.is_failing = true;
	s->stats.n_errors++;
	return 0;
}

static void close_db(struct store *s)
{
	for (int i = 0; i < STORE_STATEMENT_MAX; i++) {
		sqlite3_finalize(s->statements[i]);
		s->statements[i] = NULL;
	}
	sqlite3_close(s->db);
	s->db = NULL;
}

static void try_again(struct store *s)
{
	struct errmsg e = {};
	sqlite3 *db = NULL;

	s->retry_at = s->now_ns + RETRY_AFTER_NS;
	if (lock_file(s, &e) || open_file(s, &db, &e)) {
		s->stats.n_errors++;
		return;
	}
	close_db(s);
	s->db = db;
	s->is_shut = s->stats.is_failing = false;
	s->retry_at = 0;
}

static int set_aside(const char *path, struct errmsg *ret_warning, struct errmsg *e)
{
	static const char *const suffixes[] = {"", "-wal", "-shm"};
	char from[4200], to[4200];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		snprintf(from, sizeof(from), "%s%s", path, suffixes[i]);
		snprintf(to, sizeof(to), "%s.broken%s", path, suffixes[i]);
		if (rename(from, to) && errno != ENOENT)
			return errmsg_set(e, -errno,
					  "the store '%s' is damaged and cannot be renamed: %s",
					  path, strerror(errno));
	}
	errmsg_set(ret_warning, 0,
		   "the store '%s' was damaged; it is '%s.broken' now and a new one was made", path,
		   path);
	return 0;
}

static struct store *new_store(void)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->sink = (struct span_sink){.ops = &sink_ops, .name = "store"};
	s->commit_at = UINT64_MAX;
	s->lock_fd = -1;
	return s;
}

int store_open(struct store **ret, const struct store_options *options, struct errmsg *ret_warning,
	       struct errmsg *e)
{
	struct store *s = new_store();
	int r;

	if (!s)
		return errmsg_set(e, -ENOMEM, "out of memory");
	ret_warning->text[0] = 0;
	s->max_bytes = options->max_bytes;
	s->max_age_ms = options->max_age_ms;
	s->path = strdup(options->path);
	if (!s->path) {
		store_close(s);
		return errmsg_set(e, -ENOMEM, "out of memory");
	}
	r = lock_file(s, e);
	if (!r)
		r = open_file(s, &s->db, e);
	if (r == -EBADMSG) {
		unlock_file(s);
		r = set_aside(options->path, ret_warning, e);
		r = r ? r : lock_file(s, e);
		r = r ? r : open_file(s, &s->db, e);
	}
	if (r == -ENOSPC)
		r = open_shut(s, e);
	if (r) {
		store_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

int store_open_read(struct store **ret, const char *path, struct errmsg *e)
{
	struct store *s = new_store();
	int r;

	if (!s)
		return errmsg_set(e, -ENOMEM, "out of memory");
	r = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
	if (r == SQLITE_OK)
		sqlite3_busy_timeout(s->db, BUSY_MS * 10);
	if (r != SQLITE_OK || pragma_int(s->db, "PRAGMA user_version") != STORE_VERSION) {
		errmsg_set(
			e, -ENOENT,
			"cannot read the store '%s': %s; is it the agent.store of the rules file, and may you read it?",
			path,
			r != SQLITE_OK || sqlite3_errcode(s->db) != SQLITE_OK
				? sqlite3_errmsg(s->db)
				: "it is no store of this version");
		store_close(s);
		return -ENOENT;
	}
	*ret = s;
	return 0;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	if (s->db)
		store_flush(s);
	close_db(s);
	unlock_file(s);
	free(s->path);
	free(s);
	return NULL;
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
	uint64_t page = pragma_int(s->db, "PRAGMA page_size");
	uint64_t n = pragma_int(s->db, "PRAGMA page_count");
	uint64_t n_free = pragma_int(s->db, "PRAGMA freelist_count");

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
	if (s->is_shut)
		try_again(s);
	if (s->is_shut)
		return;
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
}
