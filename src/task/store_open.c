/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_open.c: the file of the store is opened, locked, made, set aside and closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "task/store_priv.h"

enum {
	STORE_VERSION = 1,
	BUSY_MS = 200,
	LOCK_TRIES = 20,
	LOCK_WAIT_NS = 50000000,
};

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

int store_pragma(sqlite3 *db, const char *text)
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
	switch (store_pragma(db, "PRAGMA user_version")) {
	case 0:
		return sqlite3_exec(db, schema, NULL, NULL, NULL);
	case STORE_VERSION:
		return store_pragma(db, "SELECT count(*) FROM tasks") < 0 ? SQLITE_CORRUPT
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

/* -ENOSPC, without a message: not now; s->why says why. */
static int open_file(struct store *s, sqlite3 **ret, struct errmsg *e)
{
	mode_t mask = umask(0077); /* profiles tell what programs do: for their owner only */
	sqlite3 *db = NULL;
	int r = sqlite3_open_v2(s->path, &db,
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				NULL);
	const char *not_now;

	umask(mask);
	if (r == SQLITE_OK)
		r = prepare_file(db);
	if (r == SQLITE_OK) {
		*ret = db;
		return 0;
	}
	not_now = db ? why_not_now(db, r) : NULL;
	r = not_now ? errmsg_set(&s->why, -ENOSPC, "%s", not_now) : complain(s, db, r, e);
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
	    store_pragma(db, "PRAGMA user_version") == STORE_VERSION &&
	    store_pragma(db, "SELECT count(*) FROM tasks") >= 0)
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

bool store_reopen(struct store *s)
{
	sqlite3 *db = NULL;

	if (lock_file(s, &s->why) || open_file(s, &db, &s->why)) {
		s->stats.n_errors++;
		return false;
	}
	close_db(s);
	s->db = db;
	s->is_shut = s->stats.is_failing = false;
	s->retry_at = 0;
	return true;
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
	s->sink = (struct span_sink){.ops = &store_sink_ops, .name = "store"};
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
	if (r != SQLITE_OK || store_pragma(s->db, "PRAGMA user_version") != STORE_VERSION) {
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
