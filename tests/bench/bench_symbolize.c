/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_symbolize.c: what symbols cost.
 *
 * usage: bench_symbolize [BINARY [DEBUG-DIRS [ADDRESSES]]]
 * For one binary (mariadbd by default): time and memory of the first symbol, cost of each further
 * distinct address with and without DWARF, of an address that was seen before, and of a look-up by
 * name. Prints figures; judges nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "code/symbolize.h"
#include "code/symtab.h"

enum { ADDRESSES_MAX = 20000 };

struct bench {
	const char *path;
	size_t max; /* addresses */
	struct module *m;
	struct {
		uint64_t *at;
		size_t n;
		size_t cap;
	} addresses;
};

static double peak_mib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_maxrss / 1024;
}

static double resident_mib(void)
{
	AUTO_FILE FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!f || fscanf(f, "%*u %lu", &pages) != 1)
		return 0;
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static bool add_address(void *ctx, const struct symtab_symbol *sym)
{
	struct bench *b = ctx;

	return sym->size < 8 || b->addresses.n >= b->max ||
	       vec_push(&b->addresses, sym->vaddr + sym->size / 2) == 0;
}

static int list_addresses(struct bench *b)
{
	struct symtab *st = NULL;
	int r = symtab_new(&st, b->m, NULL);

	if (r)
		return r;
	symtab_each(st, add_address, b);
	symtab_free(st);
	return 0;
}

static uint64_t run(struct symbolizer *s, struct bench *b, size_t first, size_t n)
{
	uint64_t start = clock_mono_ns();
	uint32_t location;

	for (size_t i = first; i < first + n && i < b->addresses.n; i++)
		if (symbolize_module(s, b->m, b->addresses.at[i], false, 0, 0, &location))
			exit(1);
	return clock_mono_ns() - start;
}

static void bench_addresses(struct bench *b, const struct symbolize_options *o, const char *what)
{
	struct profile *p = NULL;
	struct symbolizer *s = NULL;
	double before = resident_mib();
	size_t n = b->addresses.n - 1;
	uint64_t first, rest, again;

	if (profile_new(&p) || symbolizer_new(&s, p, o))
		exit(1);
	first = run(s, b, 0, 1);
	rest = run(s, b, 1, n);
	again = run(s, b, 1, n);
	printf("%-22s first %8.2f ms, then %8.2f us a distinct address, %6.1f ns one seen before\n",
	       what, (double)first / 1e6, (double)rest / 1e3 / (double)n,
	       (double)again / (double)n);
	printf("%-22s resident %+.1f MiB after %zu addresses (peak of the process %.1f MiB)\n", "",
	       resident_mib() - before, n + 1, peak_mib());
	symbolizer_free(s);
	profile_free(p);
}

static void bench_name(struct bench *b, const char *name)
{
	char names[SYMTAB_NEAREST_MAX][SYMTAB_NAME_MAX];
	struct symtab_list list = {0};
	struct symtab *st = NULL;
	uint64_t start = clock_mono_ns(), found, near;

	if (symtab_new(&st, b->m, NULL) || symtab_find_name(st, name, &list))
		exit(1);
	found = clock_mono_ns();
	symtab_nearest(st, "dispach_comand", names, SYMTAB_NEAREST_MAX);
	near = clock_mono_ns();
	printf("%-22s opened and found %zu in %.2f ms; nearest names %.2f ms\n", "by name", list.n,
	       (double)(found - start) / 1e6, (double)(near - found) / 1e6);
	vec_free(&list);
	symtab_free(st);
}

static void bench_kernel(void)
{
	struct symbolize_options o = {0};
	struct profile *p = NULL;
	struct symbolizer *s = NULL;
	double before = resident_mib();
	uint32_t location;
	uint64_t start = clock_mono_ns();

	if (profile_new(&p) || symbolizer_new(&s, p, &o) ||
	    symbolize_kernel(s, 0xffffffff81000000, &location))
		exit(1);
	printf("%-22s first %8.2f ms, resident %+.1f MiB\n", "kernel",
	       (double)(clock_mono_ns() - start) / 1e6, resident_mib() - before);
	symbolizer_free(s);
	profile_free(p);
}

int main(int argc, char **argv)
{
	struct symbolize_options plain = {0}, lines = {.lines = true};
	struct bench b = {.path = argc > 1 ? argv[1] : "/usr/sbin/mariadbd"};
	struct errmsg e = {0};
	int fd = open(b.path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || module_open_fd(&b.m, fd, b.path, &e)) {
		printf("bench_symbolize: skipped: cannot use '%s'\n", b.path);
		return 77;
	}
	b.max = argc > 3 ? strtoul(argv[3], NULL, 10) : ADDRESSES_MAX;
	plain.debug_dirs = lines.debug_dirs = argc > 2 ? argv[2] : NULL;
	printf("%s, resident before: %.1f MiB\n", b.path, resident_mib());
	bench_name(&b, "dispatch_command");
	if (list_addresses(&b) || b.addresses.n < 2) {
		printf("bench_symbolize: skipped: no functions in '%s'\n", b.path);
		return 77;
	}
	bench_addresses(&b, &plain, "symbols only");
	bench_addresses(&b, &lines, "with DWARF if any");
	bench_kernel();
	vec_free(&b.addresses);
	module_unref(b.m);
	return 0;
}
