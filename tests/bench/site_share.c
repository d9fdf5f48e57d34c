/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site_share: how many functions of the given files have a cheap place for the entry probe, how many
 * calls in them have a cheap return site, and how many functions have both (a cheap entry, and a
 * cheap return site after most of the calls to functions like it: reported as the product).
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

/* What a name usually reads: the first three arguments. */
#define KEEP ((1U << WIRE_REG_RDI) | (1U << WIRE_REG_RSI) | (1U << WIRE_REG_RDX))

struct tally {
	struct module *m;
	struct symtab *st;
	struct hash seen;
	struct site_rules rules;
	uint64_t n_functions, first_cheap, entry_cheap, n_calls, return_cheap, refused;
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
		t->refused++;
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
	if (site_choose_entry(&f, KEEP, &t->rules, &s) == SITE_OK)
		t->entry_cheap += s.cheap;
	for (size_t off = 0; off < f.code_bytes; off += i.bytes) {
		if (decode_insn(f.code + off, f.code_bytes - off, f.vaddr + off, &i) < 0)
			break;
		if (i.flow == INSN_CALL || i.flow == INSN_CALL_INDIRECT)
			tally_call(t, off + i.bytes, f.code_bytes, f.vaddr + off + i.bytes);
	}
	return true;
}

static int tally_file(const char *path, const struct site_rules *rules)
{
	AUTO_FREE uint8_t *code = malloc(BEFORE + FUNCTION_MAX);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct tally t = {.rules = *rules, .code = code};
	struct errmsg e = {""};
	double entry, leave;

	if (fd < 0 || !code || module_open_fd(&t.m, fd, path, &e) < 0) {
		fprintf(stderr, "site_share: %s: %s\n", path, e.text[0] ? e.text : "cannot open");
		return 1;
	}
	fd = -1;
	if (symtab_new(&t.st, t.m, NULL) < 0)
		return 1;
	hash_init(&t.seen);
	symtab_each(t.st, tally_function, &t);
	entry = t.n_functions ? 100.0 * (double)t.entry_cheap / (double)t.n_functions : 0;
	leave = t.n_calls ? 100.0 * (double)t.return_cheap / (double)t.n_calls : 0;
	printf("%-46s %6" PRIu64
	       " functions: first byte cheap %5.1f %%, entry site cheap %5.1f %%; %7" PRIu64
	       " calls: return site cheap %5.1f %%, none %" PRIu64 "\n",
	       path, t.n_functions,
	       t.n_functions ? 100.0 * (double)t.first_cheap / (double)t.n_functions : 0, entry,
	       t.n_calls, leave, t.refused);
	hash_deinit(&t.seen);
	symtab_free(t.st);
	module_unref(t.m);
	return 0;
}

int main(int argc, char **argv)
{
	struct site_rules rules = {.long_nops = false};
	int r = 0, first = 1;

	if (argc > 1 && strcmp(argv[1], "--long-nops") == 0) {
		rules.long_nops = true;
		first = 2;
	}
	for (int i = first; i < argc; i++)
		r |= tally_file(argv[i], &rules);
	return r;
}
