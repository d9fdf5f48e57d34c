/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folded.c: one line per distinct stack, root first, frames joined by ';', then the wall time in
 * whole microseconds: the input of flame graph tools.
 *
 *   GET:/orders;handle_request;lock_order;pthread_mutex_lock;[blocked: lock] 300100
 *
 * The first frame is the span's endpoint name, so that several endpoints fit into one file; the
 * last one says why the thread did not run, when it did not. Kernel frames end in "_[k]", inlined
 * ones in "_[i]", as the tools expect; a ';' in a name becomes ':'. Rounding is carried from line
 * to line: the sum of the file is off by at most the number of lines that are under a microsecond.
 * Completeness and losses are in lines that begin with '#', which the tools skip.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "export/escape.h"
#include "export/formats.h"
#include "export/summary.h"

enum { TEXT_MAX_BYTES = 512 << 20 };

/* What a line is made from: when all of it is the same, so is the line. */
struct seen {
	uint32_t name;
	uint32_t stack;
	uint32_t kind_cause;
	uint32_t line; /* id */
};

struct folded {
	struct strpool *lines; /* owned; distinct stacks, ids from 1 on */
	VEC(uint64_t) wall_ns; /* by id of the line */
	struct hash line_ids;  /* hash of name, stack and state -> index into seen */
	VEC(struct seen) seen;
	char *buf; /* owned: the line under construction */
	size_t buf_bytes;
	FILE *line; /* owned: writes to buf */
};

static void folded_deinit(struct folded *f)
{
	strpool_free(f->lines);
	vec_free(&f->wall_ns);
	hash_deinit(&f->line_ids);
	vec_free(&f->seen);
	if (f->line)
		fclose(f->line);
	free(f->buf);
}

static int folded_init(struct folded *f)
{
	int r = strpool_new(&f->lines, TEXT_MAX_BYTES);

	hash_init(&f->line_ids);
	if (!r)
		r = vec_push(&f->wall_ns, 0);
	if (r)
		return r;
	f->line = open_memstream(&f->buf, &f->buf_bytes);
	return f->line ? 0 : -ENOMEM;
}

static void put_frame(FILE *out, const char *name, const char *suffix)
{
	struct escape_unit u;
	size_t n = 0;

	if (!*name)
		name = "[unnamed]";
	while (escape_next(&name, &u) && n < ESCAPE_MAX_BYTES) {
		if (u.bytes == 1 && u.text[0] == ';')
			u.text[0] = ':';
		fwrite_unlocked(u.text, 1, u.bytes, out);
		n += u.bytes;
	}
	fputs(suffix, out);
}

static void put_location(FILE *out, const struct profile *p, uint32_t location)
{
	const struct profile_location *l = &p->locations.at[location];

	for (uint32_t i = l->n_frames; i-- > 0;) {
		const struct profile_frame *f = &p->frames.at[p->frame_runs.at[l->first_frame + i]];

		fputc(';', out);
		put_frame(out, strpool_get(p->strings, f->function),
			  f->flags & PROFILE_FRAME_KERNEL    ? "_[k]"
			  : f->flags & PROFILE_FRAME_INLINED ? "_[i]"
							     : "");
	}
}

/* Why the thread did not run; nothing when it did. */
static void put_state(FILE *out, const struct profile_sample *s)
{
	if (s->kind == SAMPLE_RUNQ)
		fputs(";[run queue]", out);
	else if (s->kind == SAMPLE_BLOCKED && s->cause == BLOCK_NONE)
		fputs(";[blocked]", out);
	else if (s->kind == SAMPLE_BLOCKED)
		fprintf(out, ";[blocked: %s]", block_cause_name(s->cause));
}

/* The id of the line of the sample; lines that read the same are one. */
static int make_line(struct folded *f, const struct profile *p, const struct profile_sample *s,
		     uint32_t *ret)
{
	const struct profile_stack *stack = &p->stacks.at[s->stack];
	int r;

	rewind(f->line);
	put_frame(f->line, strpool_get(p->strings, p->spans.at[s->span].name), "");
	for (uint32_t i = stack->n; i-- > 0;)
		put_location(f->line, p, p->stack_runs.at[stack->first + i]);
	put_state(f->line, s);
	fputc(0, f->line);
	if (fflush(f->line))
		return -ENOMEM;
	r = strpool_add(f->lines, f->buf, ret);
	return r || *ret < f->wall_ns.n ? r : vec_push(&f->wall_ns, 0);
}

static bool same(const struct seen *a, const struct seen *b)
{
	return a->name == b->name && a->stack == b->stack && a->kind_cause == b->kind_cause;
}

static int put_sample(struct folded *f, const struct profile *p, const struct profile_sample *s)
{
	struct seen key = {p->spans.at[s->span].name, s->stack, (uint32_t)s->kind << 8 | s->cause};
	uint64_t h = hash_bytes(&key, sizeof(key), f->line_ids.seed), *found;
	int r;

	for (; (found = hash_get(&f->line_ids, h)); h++) {
		if (same(&f->seen.at[*found], &key)) {
			f->wall_ns.at[f->seen.at[*found].line] += s->wall_ns;
			return 0;
		}
	}
	r = make_line(f, p, s, &key.line);
	if (!r)
		r = vec_push(&f->seen, key);
	if (!r)
		r = hash_set(&f->line_ids, h, f->seen.n - 1);
	if (!r)
		f->wall_ns.at[key.line] += s->wall_ns;
	return r;
}

static void put_head(const struct profile *p, FILE *out)
{
	struct summary s;

	summary_totals(&s, p);
	fprintf(out,
		"# spanprof: wall time in us; %" PRIu64 " of %" PRIu64
		" snapshots kept (completeness %.4f), %" PRIu64 " of them with incomplete stacks\n",
		s.n_kept, s.n_due, summary_completeness(&s), s.n_incomplete);
	if (p->turns.share_ppm)
		fprintf(out,
			"# probed for %.3f of %.3f s, in %" PRIu64
			" turns, to stay below %.4g %% of the CPU time; cost %.3f of %.3f s\n",
			p->turns.probed_ns / 1e9, p->duration_ns / 1e9, p->turns.n_turns,
			p->turns.share_ppm / 1e4, p->turns.cost_ns / 1e9, p->turns.cpu_ns / 1e9);
	for (unsigned int i = 0; i < COUNTER_MAX; i++)
		if (p->counters.v[i] && counter_is_loss(i))
			fprintf(out, "# lost: %" PRIu64 " %s\n", p->counters.v[i], counter_name(i));
}

int folded_write(const struct profile *p, const struct export_options *o, FILE *out,
		 struct errmsg *e)
{
	CLEANUP(folded_deinit) struct folded f = {};
	int64_t carry_ns = 0;
	int r = folded_init(&f);

	for (size_t i = 1; i < p->samples.n && !r; i++)
		r = put_sample(&f, p, &p->samples.at[i]);
	if (r)
		return errmsg_set(e, r, "cannot fold the stacks: %s",
				  r == -ENOSPC ? "they take more than 512 MiB of text"
					       : "out of memory");
	put_head(p, out);
	for (size_t id = 1; id < f.wall_ns.n; id++) {
		int64_t exact_ns = f.wall_ns.at[id] + carry_ns;
		int64_t us = (exact_ns + 500) / 1000;

		if (!f.wall_ns.at[id])
			continue;
		if (us < 1)
			us = 1;
		carry_ns = exact_ns - us * 1000;
		fprintf(out, "%s %" PRId64 "\n", strpool_get(f.lines, id), us);
	}
	return 0;
}
