/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h: finished spans, tasks and their logs in one SQLite file.
 *
 * One writer (the agent), any number of readers at the same time (WAL). Writes are gathered into
 * transactions of at most half a second; state of tasks is written at once. A killed agent loses the
 * open transaction and nothing else. A full disk loses spans, counted, and never stops the agent;
 * writing is tried again after a while. Old spans go by age and by size.
 */
#ifndef SPANPROF_TASK_STORE_H
#define SPANPROF_TASK_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "task/schedule.h"
#include "task/sink.h"
#include "task/watermark.h"

struct store;

struct store_options {
	const char *path;
	uint64_t max_bytes;  /* of the file; 0: no limit */
	uint64_t max_age_ms; /* of a span; 0: no limit */
};

struct store_stats {
	uint64_t n_spans;   /* written */
	uint64_t n_dropped; /* not written: disk full, errors */
	uint64_t n_removed; /* by age or size */
	uint64_t n_errors;  /* failed or refused writes, of tasks and logs too */
	uint64_t bytes;     /* of the file */
	bool is_failing;    /* the last write failed */
	const char *error;  /* why; "": none has; valid until the store is called again */
};

/*
 * Opens or makes the file. On a full disk it is opened later, and is failing until then; what the file
 * holds can be read. -EBUSY: another agent has it. A file that is damaged is set aside as PATH.broken and a new one is made;
 * then ret_warning says so, else it is empty.
 */
int store_open(struct store **ret, const struct store_options *options, struct errmsg *ret_warning,
	       struct errmsg *e);
/* For reading only, while an agent may be writing. */
int store_open_read(struct store **ret, const char *path, struct errmsg *e);
struct store *store_close(struct store *s);

/* The store as a sink named "store". Owned by the store: its free function does nothing. */
struct span_sink *store_sink(struct store *s);
/* First serial that was never used. */
uint64_t store_next_serial(struct store *s);
void store_set_limits(struct store *s, uint64_t max_bytes, uint64_t max_age_ms);
/* Commits what is due, removes what is old. real_ms: wall clock. */
void store_tick(struct store *s, uint64_t mono_ns, int64_t real_ms);
uint64_t store_deadline(const struct store *s);
/* Commits now. */
void store_flush(struct store *s);
void store_stats(const struct store *s, struct store_stats *ret);

/* State of tasks: written at once; failures are counted. */
void store_save_task(struct store *s, const struct schedule_task *t);
void store_save_run(struct store *s, const struct schedule_task *t, const struct schedule_run *r);
/* After a span of the run: with the span, so that after a kill both are there or neither is. */
void store_count_spans(struct store *s, const struct schedule_task *t,
		       const struct schedule_run *r);
void store_forget_task(struct store *s, const char *source, const char *id);
void store_save_watermark(struct store *s, uint64_t key, int64_t create_ms, int64_t used_ms);
/* All at once, after a time in which single ones may not have been written. */
void store_save_watermarks(struct store *s, const struct watermarks *w);

struct store_log_entry {
	int64_t ms;
	const char *source;
	const char *id;
	const char *instance; /* "" for none */
	const char *event;    /* task_event_name() */
	const char *why;
};
void store_log(struct store *s, const struct store_log_entry *entry);

/* Calls back for each; texts are valid during the call. 0 or a negative errno. */
int store_load_tasks(struct store *s, void (*fn)(void *ctx, const struct schedule_task *t),
		     void *ctx);
int store_load_runs(struct store *s,
		    void (*fn)(void *ctx, const char *source, const char *id,
			       const struct schedule_run *r),
		    void *ctx);
int store_load_watermarks(struct store *s,
			  void (*fn)(void *ctx, uint64_t key, int64_t create_ms, int64_t used_ms),
			  void *ctx);
/* Newest first. source or id NULL or "": any. */
int store_load_log(struct store *s, const char *source, const char *id, uint32_t limit,
		   void (*fn)(void *ctx, const struct store_log_entry *entry), void *ctx);

/* A span without its samples. */
struct store_span {
	uint64_t serial;
	const char *source;
	const char *task_id;
	const char *service;
	const char *instance;
	const char *endpoint;
	const char *name;
	uint32_t tgid;
	uint32_t tid;
	int64_t start_ms;
	uint64_t duration_ns;
	uint64_t oncpu_ns;
	uint64_t runq_ns;
	uint64_t blocked_ns;
	uint32_t n_due;
	uint32_t n_kept;
	unsigned int end_reason;
};

struct store_filter {
	const char *task_id; /* NULL or "": any; of all texts */
	const char *service;
	const char *instance;
	uint64_t min_ns;
	uint32_t limit;
	bool slowest; /* first; else newest first */
};

int store_list_spans(struct store *s, const struct store_filter *f,
		     void (*fn)(void *ctx, const struct store_span *span), void *ctx);
/* Adds the span with its samples to the profile. -ENOENT, -EINVAL: damaged, -ENOMEM. */
int store_read_span(struct store *s, uint64_t serial, struct profile *p, uint32_t *ret_span,
		    struct errmsg *e);

#endif
