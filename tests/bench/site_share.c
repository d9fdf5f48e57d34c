/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site_share: how many functions of the given files have a cheap place for the entry probe, how many
 * calls in them have a cheap return site, and why the others have none. Straight-line functions (no
 * jump, no call: getters and the like, in which no time is spent) and calls that do not return are told
 * apart. A name that reads memory through two arguments is the hard case; one that is just their values
 * is easier; without arguments it is easiest.
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

/* What a name reads. */
enum need { TEXTS, VALUES, NOTHING, NEED_MAX };
static const char *const need_names[] = {"texts by two arguments", "values of two arguments",
					 "no argument"};
static const uint32_t keeps[] = {
	[TEXTS] = SITE_KEEP_MEMORY | 1U << WIRE_REG_RDI | 1U << WIRE_REG_RSI,
	[VALUES] = 1U << WIRE_REG_RDI | 1U << WIRE_REG_RSI,
	[NOTHING] = 0,
};

static const char *const stop_names[] = {
	[SITE_STOP_NONE] = "cheap",
	[SITE_STOP_RETURN] = "returns",
	[SITE_STOP_INDIRECT] = "goes on through a pointer",
	[SITE_STOP_SYSCALL] = "system call",
	[SITE_STOP_LOOP] = "loop",
	[SITE_STOP_ARGUMENT] = "argument gone",
	[SITE_STOP_STORE] = "memory written",
	[SITE_STOP_STACK] = "stack pointer unknown",
	[SITE_STOP_OTHER] = "none near, or refused",
};

/* Functions by what their entry has. */
struct entries {
	uint64_t stops[SITE_STOP_MAX];
};

struct sums {
	uint64_t n_functions, first_cheap;
	struct entries line[NEED_MAX], real[NEED_MAX]; /* real: not straight-line */
	uint64_t n_calls, return_cheap;                /* calls that return */
};

struct tally {
	struct module *m;
	struct symtab *st;
	struct hash seen;
	struct site_rules rules;
	struct sums sums;
	uint8_t *code; /* BEFORE + FUNCTION_MAX bytes */
};

static void tally_call(struct tally *t, size_t off, size_t n, uint64_t vaddr)
{
	struct site_return at = {.code = t->code + BEFORE + off - BEFORE,
				 .code_bytes = n - off + BEFORE,
				 .before = BEFORE,
				 .vaddr = vaddr};
	struct site s;

	if (site_choose_return(&at, 0, &t->rules, &s) != SITE_OK)
		return;
	t->sums.n_calls++;
	t->sums.return_cheap += s.cheap;
}

static void tally_entry(struct tally *t, const struct site_function *f, bool real)
{
	for (int need = 0; need < NEED_MAX; need++) {
		struct entries *to = real ? &t->sums.real[need] : &t->sums.line[need];
		uint32_t registers = keeps[need] & ~SITE_KEEP_MEMORY & ~site_unused_arguments(f);
		uint32_t keep = registers ? registers | (keeps[need] & SITE_KEEP_MEMORY) : 0;
		struct site s;

		if (site_choose_entry(f, keep, &t->rules, &s) != SITE_OK)
			s.stop = SITE_STOP_OTHER;
		to->stops[s.cheap ? SITE_STOP_NONE : s.stop]++;
	}
}

static bool tally_function(void *ctx, const struct symtab_symbol *sym)
{
	struct tally *t = ctx;
	struct site_function f = {.code = t->code + BEFORE, .vaddr = sym->vaddr};
	uint64_t start, bytes;
	struct insn i;
	bool real = false;

	if (hash_get(&t->seen, sym->vaddr) || hash_set(&t->seen, sym->vaddr, 1) < 0)
		return true;
	if (!symtab_bounds(t->st, sym->vaddr, &start, &bytes) || start != sym->vaddr || bytes == 0)
		return true;
	f.function_bytes = bytes < FUNCTION_MAX ? bytes : FUNCTION_MAX;
	if (module_read_code(t->m, sym->vaddr - BEFORE, t->code, BEFORE) != BEFORE)
		return true;
	f.code_bytes = module_read_code(t->m, sym->vaddr, t->code + BEFORE, f.function_bytes);
	t->sums.n_functions++;
	if (decode_insn(f.code, f.code_bytes, f.vaddr, &i) == 0)
		t->sums.first_cheap += i.cheap || (i.long_nop && t->rules.long_nops);
	for (size_t off = 0; off < f.code_bytes; off += i.bytes) {
		if (decode_insn(f.code + off, f.code_bytes - off, f.vaddr + off, &i) < 0)
			break;
		real |= i.flow != INSN_PLAIN && i.flow != INSN_RET && i.flow != INSN_STOP;
		if (i.flow == INSN_CALL || i.flow == INSN_CALL_INDIRECT)
			tally_call(t, off + i.bytes, f.code_bytes, f.vaddr + off + i.bytes);
	}
	tally_entry(t, &f, real);
	return true;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static uint64_t sum_of(const struct entries *e)
{
	uint64_t sum = 0;

	for (int i = 0; i < SITE_STOP_MAX; i++)
		sum += e->stops[i];
	return sum;
}

static void add(struct sums *to, const struct sums *s)
{
	to->n_functions += s->n_functions;
	to->first_cheap += s->first_cheap;
	to->n_calls += s->n_calls;
	to->return_cheap += s->return_cheap;
	for (int need = 0; need < NEED_MAX; need++) {
		for (int i = 0; i < SITE_STOP_MAX; i++) {
			to->line[need].stops[i] += s->line[need].stops[i];
			to->real[need].stops[i] += s->real[need].stops[i];
		}
	}
}

static void print_file(const char *path, const struct sums *s)
{
	uint64_t n = sum_of(&s->real[TEXTS]);

	printf("%-40s %6" PRIu64 " functions, first byte cheap %4.1f %%; %6" PRIu64
	       " not straight-line: entry site cheap %4.1f %% with texts, %4.1f %% with values, %4.1f %% without; %6" PRIu64
	       " calls: return site cheap %4.1f %%\n",
	       path, s->n_functions, percent(s->first_cheap, s->n_functions), n,
	       percent(s->real[TEXTS].stops[SITE_STOP_NONE], n),
	       percent(s->real[VALUES].stops[SITE_STOP_NONE], n),
	       percent(s->real[NOTHING].stops[SITE_STOP_NONE], n), s->n_calls,
	       percent(s->return_cheap, s->n_calls));
}

/* Why not, as shares of the functions of this kind. */
static void print_stops(const struct entries *e)
{
	for (int i = SITE_STOP_NONE + 1; i < SITE_STOP_MAX; i++)
		if (e->stops[i])
			printf("  %s %.1f %%", stop_names[i], percent(e->stops[i], sum_of(e)));
	printf("\n");
}

static void print_all(const struct sums *s)
{
	uint64_t n_line = sum_of(&s->line[TEXTS]), n_real = s->n_functions - n_line;
	uint64_t n_both = s->n_functions + s->n_calls;

	printf("all together: return site cheap %.1f %% of %" PRIu64 " calls\n",
	       percent(s->return_cheap, s->n_calls), s->n_calls);
	printf("straight-line are %.1f %% of all functions; cheap %.1f %%, and why not:",
	       percent(n_line, s->n_functions),
	       percent(s->line[NOTHING].stops[SITE_STOP_NONE], n_line));
	print_stops(&s->line[NOTHING]);
	for (int need = 0; need < NEED_MAX; need++) {
		uint64_t real = s->real[need].stops[SITE_STOP_NONE];
		uint64_t all = real + s->line[need].stops[SITE_STOP_NONE];

		printf("%s: entry site cheap %.1f %% of those not straight-line, %.1f %% of all functions; entry and return sites together %.1f %%, %.1f %%; why not:",
		       need_names[need], percent(real, n_real), percent(all, s->n_functions),
		       percent(real + s->return_cheap, n_real + s->n_calls),
		       percent(all + s->return_cheap, n_both));
		print_stops(&s->real[need]);
	}
}

static int tally_file(const char *path, const struct site_rules *rules, struct sums *total)
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
	print_file(path, &t.sums);
	add(total, &t.sums);
	hash_deinit(&t.seen);
	symtab_free(t.st);
	module_unref(t.m);
	return 0;
}

int main(int argc, char **argv)
{
	struct site_rules rules = {.long_nops = false};
	struct sums total = {0};
	int r = 0, first = 1;

	if (argc > 1 && strcmp(argv[1], "--long-nops") == 0) {
		rules.long_nops = true;
		first = 2;
	}
	for (int i = first; i < argc; i++)
		r |= tally_file(argv[i], &rules, &total);
	print_all(&total);
	return r;
}
