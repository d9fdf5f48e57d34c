/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site_share: how many functions of the given files have a cheap place for the entry probe, and how
 * many calls in them have a cheap return site. Straight-line functions (no jump, no call: getters and
 * the like, in which no time is spent) and calls that do not return are told apart.
 *
 *   site_share [--long-nops] FILE...
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "bpf/wire.h"
#include "code/section.h"
#include "code/symtab.h"
#include "probe/insn.h"
#include "probe/site.h"

enum { FUNCTION_MAX = 1 << 16, BEFORE = 16 };

/* What a name usually reads: the first two arguments, if there are any. */
#define KEEP ((1U << WIRE_REG_RDI) | (1U << WIRE_REG_RSI))

struct tally {
	struct module *m;
	struct symtab *st;
	struct hash seen;
	struct site_rules rules;
	uint64_t n_functions, first_cheap;
	uint64_t line_cheap;
	uint64_t n_real, entry_cheap, unnamed_cheap; /* real: not straight-line */
	uint64_t n_calls, return_cheap, no_return;
	uint8_t *code; /* BEFORE + FUNCTION_MAX bytes */
};

static void tally_call(struct tally *t, size_t off, size_t n, uint64_t vaddr)
{
	struct site_return at = {.code = t->code + BEFORE + off - BEFORE,
				 .code_bytes = n - off + BEFORE,
				 .before = BEFORE,
				 .vaddr = vaddr};
	struct site s;

	t->n_calls++;
	if (site_choose_return(&at, 0, &t->rules, &s) != SITE_OK)
		t->no_return++;
	else
		t->return_cheap += s.cheap;
}

static bool tally_function(void *ctx, const struct symtab_symbol *sym)
{
	struct tally *t = ctx;
	struct site_function f = {.code = t->code + BEFORE, .vaddr = sym->vaddr};
	uint64_t start, bytes;
	struct insn i;
	struct site s;
	bool real = false;

	if (hash_get(&t->seen, sym->vaddr) || hash_set(&t->seen, sym->vaddr, 1) < 0)
		return true;
	if (!symtab_bounds(t->st, sym->vaddr, &start, &bytes) || start != sym->vaddr || bytes == 0)
		return true;
	f.function_bytes = bytes < FUNCTION_MAX ? bytes : FUNCTION_MAX;
	if (module_read_code(t->m, sym->vaddr - BEFORE, t->code, BEFORE) != BEFORE)
		return true;
	f.code_bytes = module_read_code(t->m, sym->vaddr, t->code + BEFORE, f.function_bytes);
	t->n_functions++;
	if (decode_insn(f.code, f.code_bytes, f.vaddr, &i) == 0)
		t->first_cheap += i.cheap || (i.long_nop && t->rules.long_nops);
	for (size_t off = 0; off < f.code_bytes; off += i.bytes) {
		if (decode_insn(f.code + off, f.code_bytes - off, f.vaddr + off, &i) < 0)
			break;
		real |= i.flow != INSN_PLAIN && i.flow != INSN_RET && i.flow != INSN_STOP;
		if (i.flow == INSN_CALL || i.flow == INSN_CALL_INDIRECT)
			tally_call(t, off + i.bytes, f.code_bytes, f.vaddr + off + i.bytes);
	}
	if (!real) {
		if (site_choose_entry(&f, 0, &t->rules, &s) == SITE_OK)
			t->line_cheap += s.cheap;
		return true;
	}
	t->n_real++;
	if (site_choose_entry(&f, KEEP & ~site_unused_arguments(&f), &t->rules, &s) == SITE_OK)
		t->entry_cheap += s.cheap;
	if (site_choose_entry(&f, 0, &t->rules, &s) == SITE_OK)
		t->unnamed_cheap += s.cheap;
	return true;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static int tally_file(const char *path, const struct site_rules *rules, struct tally *total)
{
	AUTO_FREE uint8_t *code = malloc(BEFORE + FUNCTION_MAX);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct tally t = {.rules = *rules, .code = code};
	struct errmsg e = {""};

	if (fd < 0 || !code || module_open_fd(&t.m, fd, path, &e) < 0) {
		fprintf(stderr, "site_share: %s: %s\n", path, e.text[0] ? e.text : "cannot open");
		return 1;
	}
	fd = -1;
	if (symtab_new(&t.st, t.m, NULL) < 0)
		return 1;
	hash_init(&t.seen);
	symtab_each(t.st, tally_function, &t);
	printf("%-40s %6" PRIu64 " functions, first byte cheap %4.1f %%; %6" PRIu64
	       " not straight-line: entry site cheap %4.1f %% with two arguments, %4.1f %% without; %6" PRIu64
	       " calls: return site cheap %4.1f %%\n",
	       path, t.n_functions, percent(t.first_cheap, t.n_functions), t.n_real,
	       percent(t.entry_cheap, t.n_real), percent(t.unnamed_cheap, t.n_real),
	       t.n_calls - t.no_return, percent(t.return_cheap, t.n_calls - t.no_return));
	total->n_functions += t.n_functions;
	total->line_cheap += t.line_cheap;
	total->n_real += t.n_real;
	total->entry_cheap += t.entry_cheap;
	total->unnamed_cheap += t.unnamed_cheap;
	total->n_calls += t.n_calls - t.no_return;
	total->return_cheap += t.return_cheap;
	hash_deinit(&t.seen);
	symtab_free(t.st);
	module_unref(t.m);
	return 0;
}

int main(int argc, char **argv)
{
	struct site_rules rules = {.long_nops = false};
	struct tally total = {0};
	int r = 0, first = 1;

	if (argc > 1 && strcmp(argv[1], "--long-nops") == 0) {
		rules.long_nops = true;
		first = 2;
	}
	for (int i = first; i < argc; i++)
		r |= tally_file(argv[i], &rules, &total);
	printf("all together: entry site cheap %.1f %% with two arguments, %.1f %% without; return site cheap %.1f %%\n",
	       percent(total.entry_cheap, total.n_real), percent(total.unnamed_cheap, total.n_real),
	       percent(total.return_cheap, total.n_calls));
	printf("straight-line functions included (%.1f %% of all; mov and ret have no cheap place): %.1f %% with two arguments, %.1f %% without\n",
	       percent(total.n_functions - total.n_real, total.n_functions),
	       percent(total.entry_cheap + total.line_cheap, total.n_functions),
	       percent(total.unnamed_cheap + total.line_cheap, total.n_functions));
	return r;
}
