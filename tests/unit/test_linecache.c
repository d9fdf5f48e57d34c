/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "code/linecache.h"
#include "code/symtab.h"
#include "tests/unit/elf/open.h"

enum { FILES = 2 };

/* The same file twice, as two modules; it is packed, so its DWARF takes memory whoever owns it. */
struct fixture {
	struct linecache c;
	struct linecache_file files[FILES];
	uint64_t vaddr; /* of a function with lines */
	uint64_t bytes; /* that one of them needs */
	unsigned int n_told;
};

static void on_left_out(void *ctx, const struct linecache_file *file)
{
	struct fixture *f = ctx;

	assert_true(file->is_left_out);
	f->n_told++;
}

static uint64_t address_of(struct module *m, const char *name)
{
	struct symtab_list list = {0};
	struct symtab *st = NULL;
	uint64_t vaddr;

	assert_int_equal(symtab_new(&st, m, NULL), 0);
	assert_int_equal(symtab_find_name(st, name, &list), 0);
	assert_true(list.n > 0);
	vaddr = list.at[0].vaddr;
	vec_free(&list);
	symtab_free(st);
	return vaddr;
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;

	*f = (struct fixture){.c = {.on_left_out = on_left_out, .ctx = f}};
	for (int i = 0; i < FILES; i++)
		f->files[i].module = elf_open("packed/lines");
	f->vaddr = address_of(f->files[0].module, "outer");
	assert_int_equal(linecache_open(&f->c, &f->files[0]), 0);
	f->bytes = srcline_bytes(f->files[0].lines);
	assert_true(f->bytes > 100);
	linecache_close(&f->c, &f->files[0]);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	linecache_deinit(&f->c);
	for (int i = 0; i < FILES; i++) {
		assert_null(f->files[i].lines);
		module_unref(f->files[i].module);
	}
	return 0;
}

static int find(struct fixture *f, int i)
{
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	int n = linecache_find(&f->c, &f->files[i], f->vaddr, frames);

	if (n)
		assert_true(frames[0].file && frames[0].line);
	return n;
}

static void test_without_limit_all_stay_open(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < FILES; i++)
		assert_true(find(f, i) > 0);
	assert_non_null(f->files[0].lines);
	assert_non_null(f->files[1].lines);
	assert_int_equal(f->n_told, 0);
}

static void test_too_large_is_left_out_and_told_once(void **state)
{
	struct fixture *f = *state;

	f->c.max_bytes = f->bytes;
	assert_int_equal(find(f, 0), 0);
	assert_int_equal(find(f, 0), 0);
	linecache_rest(&f->c, &f->files[0]);
	assert_int_equal(find(f, 0), 0);
	assert_int_equal(f->n_told, 1);
	assert_null(f->files[0].lines);
}

/* Both do not fit together: each makes room for the other, and what is held stays near the limit. */
static void test_the_oldest_makes_room(void **state)
{
	struct fixture *f = *state;

	f->c.max_bytes = f->bytes + f->bytes / 2;
	for (int i = 0; i < 10; i++) {
		assert_true(find(f, i % FILES) > 0);
		assert_non_null(f->files[i % FILES].lines);
		assert_null(f->files[!(i % FILES)].lines);
	}
	assert_int_equal(f->n_told, 0);
}

/* What a file may hold is not what was left when it was opened: the other one has gone since. */
static void test_room_grows_when_another_goes(void **state)
{
	struct fixture *f = *state;
	uint64_t with_unit;

	assert_true(find(f, 1) > 0);
	with_unit = srcline_bytes(f->files[1].lines);
	assert_true(with_unit > 3 * f->bytes);
	linecache_close(&f->c, &f->files[1]);
	f->c.max_bytes = with_unit + f->bytes / 2;
	assert_int_equal(linecache_open(&f->c, &f->files[0]), 0);
	for (int i = 0; i < 1000; i++)
		assert_true(find(f, 1) > 0);
	assert_null(f->files[0].lines);
	assert_int_equal(f->n_told, 0);
}

/* Without end, that would be nothing but unpacking. */
static void test_no_file_is_opened_again_and_again(void **state)
{
	struct fixture *f = *state;
	unsigned int n = 0;

	f->c.max_bytes = f->bytes + f->bytes / 2;
	while (!f->n_told && n < 1000)
		find(f, n++ % FILES);
	assert_in_range(n, 40, 80);
	assert_int_equal(f->n_told, 1);
	/* The other one has the memory for itself now. */
	for (unsigned int i = 0; i < 100; i++)
		assert_true(find(f, f->files[0].is_left_out) > 0);
	assert_int_equal(f->n_told, 1);
}

static void test_after_a_rest_it_counts_anew(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 200; i++) {
		assert_true(find(f, 0) > 0);
		linecache_rest(&f->c, &f->files[0]);
		assert_null(f->files[0].lines);
	}
	assert_int_equal(f->n_told, 0);
}

static void test_file_without_lines(void **state)
{
	struct fixture *f = *state;
	struct linecache_file file = {.module = elf_open("nothing")};
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];

	f->c.max_bytes = 1;
	assert_int_equal(linecache_find(&f->c, &file, f->vaddr, frames), 0);
	assert_int_equal(f->n_told, 0);
	linecache_close(&f->c, &file);
	module_unref(file.module);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_without_limit_all_stay_open),
		TEST(test_too_large_is_left_out_and_told_once),
		TEST(test_the_oldest_makes_room),
		TEST(test_room_grows_when_another_goes),
		TEST(test_no_file_is_opened_again_and_again),
		TEST(test_after_a_rest_it_counts_anew),
		TEST(test_file_without_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
