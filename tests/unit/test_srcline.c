/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/srcline.h"
#include "code/symtab.h"
#include "tests/unit/elf/open.h"

struct fixture {
	struct module *m;
	struct debugfile_search *search;
	struct debugfile *debug;
	struct symtab *st;
	struct srcline *lines;
};

static int begin(struct fixture *f, struct module *m, const char *debug_dir)
{
	char dir[PATH_MAX];

	memset(f, 0, sizeof(*f));
	f->m = m;
	assert_int_equal(debugfile_search_new(&f->search, elf_path(debug_dir, dir), false, 0), 0);
	if (debugfile_open(f->search, m, &f->debug))
		f->debug = NULL;
	assert_int_equal(symtab_new(&f->st, m, f->debug), 0);
	return srcline_new(&f->lines, m, f->debug, &(struct srcline_options){.search = f->search});
}

static void end(struct fixture *f)
{
	srcline_free(f->lines);
	symtab_free(f->st);
	debugfile_close(f->debug);
	debugfile_search_free(f->search);
	module_unref(f->m);
}

static struct symtab_symbol find_one(struct symtab *st, const char *name)
{
	struct symtab_list list = {0};
	struct symtab_symbol sym = {0};

	assert_int_equal(symtab_find_name(st, name, &list), 0);
	assert_true(list.n > 0);
	sym = list.at[0];
	vec_free(&list);
	return sym;
}

static bool ends_with(const char *s, const char *end)
{
	return s && strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

static void check_frame(const struct srcline_frame *f, const char *name, uint32_t line,
			uint32_t start_line)
{
	assert_string_equal(f->name, name);
	assert_true(ends_with(f->file, "/lines.c"));
	assert_int_equal(f->line, line);
	assert_int_equal(f->start_line, start_line);
}

/* The division is inlined twice: innermost in middle in outer. */
static void check_chain(struct fixture *f)
{
	struct symtab_symbol outer = find_one(f->st, "outer");
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	bool seen = false;

	for (uint64_t a = outer.vaddr; a < outer.vaddr + outer.size; a++) {
		if (srcline_find(f->lines, a, frames) != 3 || frames[0].line != 102)
			continue;
		check_frame(&frames[0], "innermost", 102, 100);
		check_frame(&frames[1], "middle", 202, 200);
		check_frame(&frames[2], "outer", 302, 300);
		seen = true;
	}
	assert_true(seen);
	assert_false(srcline_find(f->lines, outer.vaddr - 1, frames) &&
		     strcmp(frames[0].name, "outer") == 0);
}

/* Inside a block inside a loop. */
static void check_block(struct fixture *f)
{
	struct symtab_symbol sym = find_one(f->st, "with_block");
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	bool seen = false;

	for (uint64_t a = sym.vaddr; a < sym.vaddr + sym.size; a++) {
		if (srcline_find(f->lines, a, frames) != 3 || frames[0].line != 102)
			continue;
		check_frame(&frames[2], "with_block", 506, 500);
		seen = true;
	}
	assert_true(seen);
}

static void check_file(struct module *m, const char *debug_dir)
{
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	struct fixture f;

	assert_int_equal(begin(&f, m, debug_dir), 0);
	check_chain(&f);
	check_block(&f);
	assert_int_equal(srcline_find(f.lines, 0, frames), 0);
	assert_int_equal(srcline_find(f.lines, UINT64_MAX, frames), 0);
	end(&f);
}

static void test_own(void **state)
{
	check_file(elf_open("lines"), "beside");
}

static void test_dwarf4(void **state)
{
	check_file(elf_open("lines-dwarf4"), "beside");
}

static void test_debug_file(void **state)
{
	check_file(elf_open("lines-split"), "debug");
	check_file(elf_open("beside/linked"), "debug");
}

static void test_compressed(void **state)
{
	check_file(elf_open("packed/lines"), "beside");
}

/* clang writes no .debug_aranges. */
static void test_clang(void **state)
{
	check_file(elf_open_or_skip("lines-clang"), "beside");
	check_file(elf_open("lines-clang4"), "beside");
}

static void test_supplement(void **state)
{
	struct fixture f;

	check_file(elf_open_or_skip("dwz1"), "beside");
	assert_int_equal(begin(&f, elf_open("dwz-lost"), "beside"), -ENOENT);
	end(&f);
}

static void test_no_dwarf(void **state)
{
	struct fixture f;

	assert_int_equal(begin(&f, elf_open("nothing"), "beside"), -ENOENT);
	end(&f);
}

static void test_cplusplus(void **state)
{
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	struct symtab_symbol bill;
	bool seen = false;
	struct fixture f;

	assert_int_equal(begin(&f, elf_open_or_skip("names-c++"), "beside"), 0);
	bill = find_one(f.st, "shop::Order::bill(int)");
	for (uint64_t a = bill.vaddr; a < bill.vaddr + bill.size; a++) {
		if (srcline_find(f.lines, a, frames) != 2)
			continue;
		assert_string_equal(frames[0].linkage, "_ZNK4shop5Order5priceEi");
		assert_string_equal(frames[1].linkage, "_ZN4shop5Order4billEi");
		seen = true;
	}
	assert_true(seen);
	end(&f);
}

/* Reads one line of addr2line without its end and its discriminator. */
static bool read_line(FILE *in, char *buf, size_t n)
{
	char *cut;

	if (!fgets(buf, (int)n, in))
		return false;
	buf[strcspn(buf, "\n")] = '\0';
	cut = strstr(buf, " (discriminator");
	if (cut)
		*cut = '\0';
	return true;
}

/* One address's answer, "0x..." to "0x...": names and places of all its frames. */
static size_t compare_frames(const struct srcline_frame *mine, size_t n, FILE *in, char *line,
			     size_t line_bytes)
{
	char place[4200];
	size_t i = 0, wrong = 0;

	while (read_line(in, line, line_bytes) && strncmp(line, "0x", 2) != 0) {
		const char *name = line;

		if (i < n && mine[i].linkage && strcmp(mine[i].linkage, name) != 0)
			wrong++;
		if (i < n && !mine[i].linkage && mine[i].name && strcmp(mine[i].name, name) != 0)
			wrong++;
		assert_true(read_line(in, line, line_bytes));
		if (i < n && mine[i].file)
			snprintf(place, sizeof(place), "%s:%u", mine[i].file, mine[i].line);
		else
			snprintf(place, sizeof(place), "??:0");
		if (strcmp(place, line) != 0 && !strstr(line, ":?"))
			wrong++;
		i++;
	}
	return wrong + (n > i);
}

/* Every address of every function: the same chain as binutils finds. */
static void test_against_addr2line(void **state)
{
	static const char *const files[] = {"lines", "lines-dwarf4", "lines-clang", "names-c++"};
	static const char *const functions[] = {
		"outer",         "with_block", "main", "aliased", "shop::Order::bill(int)",
		"shop::add<int>"};
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	char path[PATH_MAX], command[PATH_MAX + 200], line[4200];
	size_t n = 0, wrong = 0;

	if (system("addr2line --version >/dev/null 2>&1") != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct module *m = elf_open(files[i]);
		struct fixture f;

		if (!m)
			continue;
		assert_int_equal(begin(&f, m, "beside"), 0);
		for (size_t j = 0; j < ARRAY_SIZE(functions); j++) {
			struct symtab_list list = {0};
			FILE *in;

			assert_int_equal(symtab_find_name(f.st, functions[j], &list), 0);
			if (list.n == 0)
				continue;
			snprintf(command, sizeof(command),
				 "seq %llu %llu | xargs printf '%%x\\n' | addr2line -a -i -f -e %s",
				 (unsigned long long)list.at[0].vaddr,
				 (unsigned long long)(list.at[0].vaddr + list.at[0].size - 1),
				 elf_path(files[i], path));
			in = popen(command, "re");
			assert_non_null(in);
			assert_true(read_line(in, line, sizeof(line)));
			for (uint64_t k = 0; k < list.at[0].size; k++, n++)
				wrong += compare_frames(
					frames, srcline_find(f.lines, list.at[0].vaddr + k, frames),
					in, line, sizeof(line));
			pclose(in);
			vec_free(&list);
		}
		end(&f);
	}
	assert_true(n > 300);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_dwarf4),
		cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_clang),
		cmocka_unit_test(test_supplement),
		cmocka_unit_test(test_no_dwarf),
		cmocka_unit_test(test_cplusplus),
		cmocka_unit_test(test_against_addr2line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
