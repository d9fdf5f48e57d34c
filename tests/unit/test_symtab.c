/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <glob.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/debugfile.h"
#include "code/symtab.h"
#include "tests/unit/elf/open.h"

struct fixture {
	struct module *m;
	struct debugfile_search *search;
	struct debugfile *debug;
	struct symtab *st;
};

static void begin(struct fixture *f, struct module *m, const char *debug_dir)
{
	char dir[PATH_MAX];

	memset(f, 0, sizeof(*f));
	f->m = m;
	if (debug_dir) {
		assert_int_equal(
			debugfile_search_new(&f->search, elf_path(debug_dir, dir), false, 0), 0);
		assert_int_equal(debugfile_open(f->search, m, &f->debug), 0);
	}
	assert_int_equal(symtab_new(&f->st, m, f->debug), 0);
}

static void end(struct fixture *f)
{
	symtab_free(f->st);
	debugfile_close(f->debug);
	debugfile_search_free(f->search);
	module_unref(f->m);
}

/* The only function of this name; its name is compared, too, without a version. */
static struct symtab_symbol find_one(struct symtab *st, const char *name)
{
	struct symtab_list list = {0};
	struct symtab_symbol sym = {0};

	assert_int_equal(symtab_find_name(st, name, &list), 0);
	assert_int_equal(list.n, 1);
	sym = list.at[0];
	vec_free(&list);
	return sym;
}

static size_t count(struct symtab *st, const char *name)
{
	struct symtab_list list = {0};
	size_t n;

	assert_int_equal(symtab_find_name(st, name, &list), 0);
	n = list.n;
	vec_free(&list);
	return n;
}

static void check_addr(struct symtab *st, uint64_t vaddr, const char *want)
{
	struct symtab_symbol sym = {0};

	assert_int_equal(symtab_find_addr(st, vaddr, &sym), want != NULL);
	if (want)
		assert_string_equal(sym.name, want);
}

static void test_full(void **state)
{
	struct fixture f;
	struct symtab_symbol outer, hidden;
	uint64_t start, size;

	begin(&f, elf_open("lines"), NULL);
	outer = find_one(f.st, "outer");
	hidden = find_one(f.st, "hidden");
	assert_int_equal(outer.type, STT_FUNC);
	assert_int_equal(outer.bind, STB_GLOBAL);
	assert_int_equal(outer.source, SYMTAB_FULL);
	assert_int_equal(hidden.bind, STB_LOCAL);
	check_addr(f.st, outer.vaddr, "outer");
	check_addr(f.st, outer.vaddr + outer.size - 1, "outer");
	check_addr(f.st, hidden.vaddr + 1, "hidden");
	check_addr(f.st, 0, NULL);
	check_addr(f.st, UINT64_MAX, NULL);
	assert_true(symtab_bounds(f.st, outer.vaddr + 3, &start, &size));
	assert_int_equal(start, outer.vaddr);
	assert_int_equal(size, outer.size);
	assert_int_equal(count(f.st, "no_such_function"), 0);
	assert_int_equal(count(f.st, ""), 0);
	assert_int_equal(count(f.st, "sink"), 0);
	end(&f);
}

/* Padding between functions belongs to none; a label without size reaches to the next symbol. */
static void test_sizes(void **state)
{
	struct fixture f;
	struct symtab_symbol outer, label;

	begin(&f, elf_open("lines"), NULL);
	outer = find_one(f.st, "outer");
	label = find_one(f.st, "bare_label");
	assert_true(outer.size % 16 != 0);
	check_addr(f.st, outer.vaddr + outer.size, NULL);
	assert_int_equal(label.type, STT_NOTYPE);
	check_addr(f.st, label.vaddr, "bare_label");
	check_addr(f.st, label.vaddr + 2, "bare_label");
	end(&f);
}

static void test_aliases(void **state)
{
	struct fixture f;
	struct symtab_symbol a, b, c;

	begin(&f, elf_open("lines"), NULL);
	a = find_one(f.st, "aliased");
	b = find_one(f.st, "__aliased");
	c = find_one(f.st, "aliased_weak");
	assert_int_equal(a.vaddr, b.vaddr);
	assert_int_equal(a.vaddr, c.vaddr);
	assert_int_equal(c.bind, STB_WEAK);
	check_addr(f.st, a.vaddr + 1, "aliased");
	end(&f);
}

static void test_debug_file(void **state)
{
	struct fixture f;
	struct symtab_symbol hidden;

	begin(&f, elf_open("lines-split"), NULL);
	assert_int_equal(count(f.st, "hidden"), 0);
	end(&f);
	begin(&f, elf_open("lines-split"), "debug");
	hidden = find_one(f.st, "hidden");
	assert_int_equal(hidden.source, SYMTAB_DEBUG);
	check_addr(f.st, hidden.vaddr + 1, "hidden");
	end(&f);
}

static void test_debugdata(void **state)
{
	struct fixture f;
	struct symtab_symbol hidden;

	begin(&f, elf_open_or_skip("mini"), NULL);
	hidden = find_one(f.st, "hidden");
	assert_int_equal(hidden.source, SYMTAB_DEBUGDATA);
	check_addr(f.st, hidden.vaddr + 1, "hidden");
	end(&f);
}

/* Without any symbol the unwind table still knows where functions begin. */
static void test_bounds(void **state)
{
	struct fixture f;
	struct symtab_symbol outer, hidden;
	uint64_t start, size;

	begin(&f, elf_open("linked"), NULL);
	outer = find_one(f.st, "outer");
	hidden = find_one(f.st, "hidden");
	end(&f);
	begin(&f, elf_open("nothing"), NULL);
	check_addr(f.st, outer.vaddr, NULL);
	assert_true(symtab_bounds(f.st, outer.vaddr + outer.size - 1, &start, &size));
	assert_int_equal(start, outer.vaddr);
	assert_int_equal(size, outer.size);
	assert_true(symtab_bounds(f.st, hidden.vaddr, &start, &size));
	assert_int_equal(start, hidden.vaddr);
	assert_false(symtab_bounds(f.st, outer.vaddr + outer.size, &start, &size));
	assert_false(symtab_bounds(f.st, 0, &start, &size));
	assert_false(symtab_bounds(f.st, UINT64_MAX, &start, &size));
	end(&f);
}

static void test_versions(void **state)
{
	struct symtab_list list = {0};
	struct fixture f;

	begin(&f, elf_open("libversions.so"), NULL);
	assert_int_equal(symtab_find_name(f.st, "pick", &list), 0);
	assert_int_equal(list.n, 2);
	assert_false(list.at[0].hidden);
	assert_true(list.at[1].hidden || strcmp(list.at[1].name, "pick@V1") == 0);
	assert_int_equal(count(f.st, "pick@V1"), 1);
	vec_free(&list);
	end(&f);
}

static void test_cplusplus(void **state)
{
	char text[SYMTAB_NAME_MAX];
	struct symtab_symbol sym;
	struct fixture f;

	begin(&f, elf_open_or_skip("names-c++"), NULL);
	assert_int_equal(count(f.st, "shop::Order::bill"), 2);
	sym = find_one(f.st, "shop::Order::bill(int)");
	assert_string_equal(sym.name, "_ZN4shop5Order4billEi");
	assert_string_equal(symtab_display(sym.name, text, sizeof(text)), "shop::Order::bill");
	assert_int_equal(find_one(f.st, "_ZN4shop5Order4billEi").vaddr, sym.vaddr);
	assert_int_equal(count(f.st, "shop::Order::bill(long)"), 0);
	end(&f);
}

static void test_rust(void **state)
{
	struct fixture f;

	begin(&f, elf_open_or_skip("names-rust"), NULL);
	assert_int_equal(count(f.st, "names::work"), 1);
	end(&f);
	begin(&f, elf_open_or_skip("names-rust0"), NULL);
	assert_int_equal(count(f.st, "names::work"), 1);
	end(&f);
}

static void test_nearest(void **state)
{
	char names[SYMTAB_NEAREST_MAX][SYMTAB_NAME_MAX];
	struct fixture f;
	size_t n;

	begin(&f, elf_open("lines"), NULL);
	n = symtab_nearest(f.st, "with_blok", names, SYMTAB_NEAREST_MAX);
	assert_true(n >= 1);
	assert_string_equal(names[0], "with_block");
	assert_int_equal(symtab_nearest(f.st, "with_blok", names, 0), 0);
	end(&f);
}

struct tally {
	size_t n;
	size_t stop_at;
};

static bool tally_one(void *ctx, const struct symtab_symbol *sym)
{
	struct tally *t = ctx;

	assert_non_null(sym->name);
	return ++t->n != t->stop_at;
}

static void test_each(void **state)
{
	struct tally all = {0}, some = {.stop_at = 3};
	struct fixture f;

	begin(&f, elf_open("lines"), NULL);
	symtab_each(f.st, tally_one, &all);
	assert_true(all.n >= 8);
	symtab_each(f.st, tally_one, &some);
	assert_int_equal(some.n, 3);
	end(&f);
}

/* Every function that nm prints is found by an address inside it. */
static size_t check_against_nm(const char *path)
{
	struct errmsg e = {0};
	unsigned long long addr, size;
	char line[4096], command[256], type;
	struct symtab_symbol sym;
	struct module *m = NULL;
	struct fixture f;
	size_t n = 0;
	FILE *nm;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	snprintf(command, sizeof(command), "nm -D -S --defined-only %s 2>/dev/null", path);
	nm = popen(command, "re");
	assert_non_null(nm);
	assert_int_equal(module_open_fd(&m, fd, path, &e), 0);
	begin(&f, m, NULL);
	while (fgets(line, sizeof(line), nm)) {
		if (sscanf(line, "%llx %llx %c", &addr, &size, &type) != 3 ||
		    !strchr("TtWi", type) || size == 0)
			continue;
		assert_true(symtab_find_addr(f.st, addr + size / 2, &sym));
		assert_true(addr + size / 2 - sym.vaddr < sym.size);
		/* Another name of the same function, or one inside it. */
		assert_true(sym.vaddr >= addr);
		n++;
	}
	pclose(nm);
	end(&f);
	return n;
}

static void test_against_nm(void **state)
{
	size_t n = check_against_nm("/lib/x86_64-linux-gnu/libc.so.6");
	glob_t found = {0};

	if (n == 0)
		skip();
	assert_true(n > 1000);
	check_against_nm("/usr/sbin/mariadbd");
	if (glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) == 0)
		check_against_nm(found.gl_pathv[found.gl_pathc - 1]);
	globfree(&found);
	check_against_nm("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
}

/* Of the names of one function the one that people use. */
static void test_libc_names(void **state)
{
	static const char *const names[] = {
		"read", "write", "malloc", "nanosleep", "puts", "pthread_cond_wait", "poll"};
	struct errmsg e = {0};
	struct module *m = NULL;
	struct fixture f;
	int fd = open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		skip();
	assert_int_equal(module_open_fd(&m, fd, "libc.so.6", &e), 0);
	begin(&f, m, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct symtab_list list = {0};

		assert_int_equal(symtab_find_name(f.st, names[i], &list), 0);
		assert_true(list.n > 0);
		check_addr(f.st, list.at[0].vaddr + 1, names[i]);
		vec_free(&list);
	}
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),       cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_aliases),    cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_debugdata),  cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_versions),   cmocka_unit_test(test_cplusplus),
		cmocka_unit_test(test_rust),       cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_each),       cmocka_unit_test(test_against_nm),
		cmocka_unit_test(test_libc_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
