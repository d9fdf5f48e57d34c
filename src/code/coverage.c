/* SPDX-License-Identifier: Apache-2.0 */
#include "code/coverage.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vec.h"
#include "code/section.h"

enum { ALIGNMENT_MAX = 64 };

struct range {
	uint64_t start;
	uint64_t end;
};

struct ranges {
	struct range *at;
	size_t n;
	size_t cap;
};

struct search {
	const struct ranges *covered; /* sorted, apart */
	struct range text;
	struct ranges without;
	struct symtab *st;
	int error;
};

static int add_range(void *ctx, uint64_t start, uint64_t end)
{
	struct ranges *all = ctx;

	return vec_push(all, (struct range){start, end});
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorts them and joins those that meet. */
static void join(struct ranges *all)
{
	size_t n = 0;

	if (all->n)
		qsort(all->at, all->n, sizeof(*all->at), by_start);
	for (size_t i = 0; i < all->n; i++) {
		if (n && all->at[i].start <= all->at[n - 1].end) {
			if (all->at[n - 1].end < all->at[i].end)
				all->at[n - 1].end = all->at[i].end;
		} else {
			all->at[n++] = all->at[i];
		}
	}
	all->n = n;
}

/* What lies between two functions because the second begins at a multiple of some power of two. */
static bool is_filling(uint64_t from, uint64_t to)
{
	uint64_t alignment = to & -to;

	return to - from < (alignment < ALIGNMENT_MAX ? alignment : ALIGNMENT_MAX);
}

static void count_bytes(const struct ranges *covered, struct range text, struct coverage *c)
{
	uint64_t at = text.start;

	c->code_bytes = text.end - text.start;
	for (size_t i = 0; i < covered->n && at < text.end; i++) {
		struct range r = covered->at[i];

		if (r.end <= at)
			continue;
		if (r.start > text.end)
			r.start = text.end;
		if (r.start > at && is_filling(at, r.start))
			c->code_bytes -= r.start - at;
		if (r.start < at)
			r.start = at;
		if (r.end > text.end)
			r.end = text.end;
		c->covered_bytes += r.end - r.start;
		at = r.end;
	}
	if (at < text.end && text.end - at < ALIGNMENT_MAX)
		c->code_bytes -= text.end - at;
}

static bool is_covered(const struct ranges *covered, uint64_t addr)
{
	size_t n = search_first(covered->at, covered->n, r, r->start <= addr);

	return n && addr < covered->at[n - 1].end;
}

static bool look_at(void *ctx, const struct symtab_symbol *sym)
{
	struct search *s = ctx;

	if (sym->size && (sym->type == STT_FUNC || sym->type == STT_GNU_IFUNC) &&
	    sym->vaddr >= s->text.start && sym->vaddr < s->text.end &&
	    !is_covered(s->covered, sym->vaddr))
		s->error = vec_push(&s->without, (struct range){sym->vaddr, sym->vaddr});
	return s->error == 0;
}

/* Aliases are one function. */
static void name_them(struct search *s, struct coverage *ret)
{
	uint64_t last = 0;

	if (s->without.n)
		qsort(s->without.at, s->without.n, sizeof(*s->without.at), by_start);
	for (size_t i = 0; i < s->without.n; i++) {
		uint64_t addr = s->without.at[i].start;
		struct symtab_symbol sym;

		if (i && addr == last)
			continue;
		last = addr;
		if (ret->n_without < COVERAGE_NAMES && symtab_find_addr(s->st, addr, &sym))
			symtab_display(sym.name, ret->without[ret->n_without],
				       sizeof(ret->without[0]));
		ret->n_without++;
	}
}

int coverage_read(struct module *m, struct symtab *st, struct coverage *ret)
{
	struct ranges covered = {0};
	struct search search = {.covered = &covered, .st = st};
	struct coverage c = {0};
	struct section text;
	uint64_t n;
	int r;

	if (!section_find(m, ".text", &text) || !(n = module_code_bytes(m, text.vaddr)))
		return -ENOENT;
	c.lies = text.bytes > n;
	search.text = (struct range){text.vaddr, text.vaddr + (c.lies ? n : text.bytes)};
	r = module_each_cfi(m, add_range, &covered);
	if (r >= 0) {
		c.is_cut = r;
		join(&covered);
		count_bytes(&covered, search.text, &c);
		if (st)
			symtab_each(st, look_at, &search);
		r = search.error;
		name_them(&search, &c);
	}
	vec_free(&covered);
	vec_free(&search.without);
	if (r == 0)
		*ret = c;
	return r;
}
