/* SPDX-License-Identifier: Apache-2.0 */
#include "code/linecache.h"

#include <errno.h>

enum {
	PUSHED_MAX = 32,
	ASK_EVERY = 64, /* look-ups */
};

static void shut(struct linecache *c, struct linecache_file *f)
{
	for (size_t i = 0; i < c->open.n; i++)
		if (c->open.at[i] == f)
			c->open.at[i--] = c->open.at[--c->open.n];
	if (f->lines)
		f->n_steps += srcline_steps(f->lines);
	f->lines = srcline_free(f->lines);
}

void linecache_close(struct linecache *c, struct linecache_file *f)
{
	shut(c, f);
	f->is_known = false;
}

void linecache_rest(struct linecache *c, struct linecache_file *f)
{
	linecache_close(c, f);
	f->n_pushed = 0;
	f->n_steps = 0;
}

void linecache_deinit(struct linecache *c)
{
	while (c->open.n)
		linecache_close(c, c->open.at[0]);
	vec_free(&c->open);
}

static void leave_out(struct linecache *c, struct linecache_file *f)
{
	shut(c, f);
	f->is_left_out = true;
	c->on_left_out(c->ctx, f);
}

/* Closes the file used longest ago, but not f; false when there is no other. */
static bool close_another(struct linecache *c, const struct linecache_file *f)
{
	struct linecache_file *oldest = NULL;

	for (size_t i = 0; i < c->open.n; i++)
		if (c->open.at[i] != f && (!oldest || c->open.at[i]->used < oldest->used))
			oldest = c->open.at[i];
	if (!oldest)
		return false;
	oldest->n_pushed++;
	linecache_close(c, oldest);
	return true;
}

static uint64_t held_bytes(const struct linecache *c)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < c->open.n; i++)
		sum += srcline_bytes(c->open.at[i]->lines);
	return sum;
}

/* What the others leave for f; 1: nothing, as 0 means no limit. */
static uint64_t room_for(const struct linecache *c, const struct linecache_file *f)
{
	uint64_t others = held_bytes(c) - (f->lines ? srcline_bytes(f->lines) : 0);

	if (!c->max_bytes)
		return 0;
	return others < c->max_bytes ? c->max_bytes - others : 1;
}

static int open_lines(struct linecache *c, struct linecache_file *f)
{
	struct srcline_options o = {.search = c->search,
				    .max_steps = c->max_steps,
				    .n_spent = f->n_steps,
				    .n_cut = c->n_cut,
				    .shall_stop = c->shall_stop,
				    .ctx = c->stop_ctx};
	int r;

	do {
		o.max_bytes = room_for(c, f);
		r = srcline_new(&f->lines, f->module, f->debug, &o);
	} while (r == -EFBIG && close_another(c, f));
	return r;
}

int linecache_open(struct linecache *c, struct linecache_file *f)
{
	int r;

	if (f->is_known || f->is_left_out)
		return 0;
	f->is_known = true;
	if (c->shall_stop && c->shall_stop(c->stop_ctx)) {
		leave_out(c, f);
		return 0;
	}
	if (vec_reserve(&c->open, c->open.n + 1))
		return -ENOMEM;
	r = f->n_pushed < PUSHED_MAX ? open_lines(c, f) : -EFBIG;
	if (r == -EFBIG) {
		leave_out(c, f);
		return 0;
	}
	if (r)
		return r == -ENOMEM ? r : 0;
	c->open.at[c->open.n++] = f;
	return 0;
}

static bool shall_stop(const struct linecache *c)
{
	return c->shall_stop && c->clock % ASK_EVERY == 0 && c->shall_stop(c->stop_ctx);
}

int linecache_find(struct linecache *c, struct linecache_file *f, uint64_t vaddr,
		   struct srcline_frame *ret)
{
	int n = linecache_open(c, f);

	if (n || !f->lines)
		return n;
	f->used = ++c->clock;
	if (shall_stop(c)) {
		leave_out(c, f);
		return 0;
	}
	srcline_limit(f->lines, room_for(c, f));
	n = srcline_find(f->lines, vaddr, ret);
	if (srcline_is_worn_out(f->lines)) {
		leave_out(c, f);
		return 0;
	}
	while (c->max_bytes && held_bytes(c) > c->max_bytes && close_another(c, f))
		;
	return n;
}
