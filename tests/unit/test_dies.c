/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF made here, as no compiler does: DIEs deep inside each other, siblings that lie. Counts, not times. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "code/dies.h"
#include "code/elffile.h"
#include "code/linecache.h"
#include "code/variable.h"
#include "tests/unit/unit.h"

enum {
	CODE_LO = 0x1000,
	CODE_BYTES = 0x1000,
	UNIT_DIE_BYTES = 1 + 8 + 8,
	UNIT_HEADER_BYTES = 11,
	INFO_MAX = 2 << 20,
};

/* Codes of the abbreviations. */
enum { UNIT = 1, BLOCK, LEAF, FUNCTION, INLINED, WITH_SIBLING, WIDE };

static const uint8_t plain_abbrevs[] = {
	UNIT,         0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, /* low_pc, high_pc */
	BLOCK,        0x0b, 1, 0,    0,                      /* lexical block */
	LEAF,         0x34, 0, 0,    0,                      /* variable */
	FUNCTION,     0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, /* */
	INLINED,      0x1d, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, /* */
	WITH_SIBLING, 0x0b, 1, 0x01, 0x13, 0,    0,          /* DW_AT_sibling, ref4 */
};
enum { WIDE_ATTRIBUTES = 4000 };

struct bytes {
	uint8_t *at;
	size_t n;
};

static void put(struct bytes *b, const void *data, size_t n)
{
	assert_true(b->n + n <= INFO_MAX);
	memcpy(b->at + b->n, data, n);
	b->n += n;
}

static void put_times(struct bytes *b, uint8_t byte, size_t n)
{
	assert_true(b->n + n <= INFO_MAX);
	memset(b->at + b->n, byte, n);
	b->n += n;
}

static void put_u64(struct bytes *b, uint64_t v)
{
	put(b, &v, sizeof(v));
}

static void put_u32(struct bytes *b, uint32_t v)
{
	put(b, &v, sizeof(v));
}

/* A function or an inlined call, from lo on. */
static void put_code(struct bytes *b, uint8_t code, uint64_t lo, uint64_t bytes)
{
	put(b, &code, 1);
	put_u64(b, lo);
	put_u64(b, bytes);
}

/* The header and the DIE of one unit; end_unit closes it. */
static struct bytes begin_unit(void)
{
	struct bytes b = {.at = calloc(1, INFO_MAX)};

	assert_non_null(b.at);
	put_u32(&b, 0);
	put(&b, &(uint16_t){4}, 2);
	put_u32(&b, 0);
	put_times(&b, 8, 1);
	put_code(&b, UNIT, CODE_LO, CODE_BYTES);
	return b;
}

static void end_unit(struct bytes *b)
{
	uint32_t length;

	put_times(b, 0, 1);
	length = (uint32_t)b->n - 4;
	memcpy(b->at, &length, sizeof(length));
}

static struct bytes make_abbrevs(void)
{
	struct bytes b = {.at = calloc(1, INFO_MAX)};

	assert_non_null(b.at);
	put(&b, plain_abbrevs, sizeof(plain_abbrevs));
	put(&b, (const uint8_t[]){WIDE, 0x34, 0}, 3);
	for (int i = 0; i < WIDE_ATTRIBUTES; i++)
		put(&b, (const uint8_t[]){0x3f, 0x19}, 2); /* external, flag_present: no bytes */
	put_times(&b, 0, 3);
	return b;
}

/* An ELF file with these two sections; it is nobody's in particular. Takes both. */
static int write_elf(struct bytes *info, struct bytes *abbrevs)
{
	static const char names[] = "\0.debug_info\0.debug_abbrev\0.shstrtab";
	Elf64_Ehdr h = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(h),
		.e_ehsize = sizeof(h),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 4,
		.e_shstrndx = 3,
	};
	Elf64_Phdr load = {.p_type = PT_LOAD,
			   .p_flags = PF_R | PF_X,
			   .p_filesz = 64,
			   .p_memsz = 0x4000,
			   .p_align = 0x1000};
	size_t at = sizeof(h) + sizeof(load);
	Elf64_Shdr sections[4] = {
		{},
		{.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = at, .sh_size = info->n},
		{.sh_name = 13,
		 .sh_type = SHT_PROGBITS,
		 .sh_offset = at + info->n,
		 .sh_size = abbrevs->n},
		{.sh_name = 27,
		 .sh_type = SHT_STRTAB,
		 .sh_offset = at + info->n + abbrevs->n,
		 .sh_size = sizeof(names)},
	};
	int fd = memfd_create("dies", MFD_CLOEXEC);
	FILE *f = fdopen(dup(fd), "w");

	assert_non_null(f);
	h.e_shoff = sections[3].sh_offset + sizeof(names);
	fwrite(&h, sizeof(h), 1, f);
	fwrite(&load, sizeof(load), 1, f);
	fwrite(info->at, info->n, 1, f);
	fwrite(abbrevs->at, abbrevs->n, 1, f);
	fwrite(names, sizeof(names), 1, f);
	fwrite(sections, sizeof(sections), 1, f);
	assert_int_equal(fclose(f), 0);
	free(info->at);
	free(abbrevs->at);
	return fd;
}

static int finish(struct bytes *unit)
{
	struct bytes abbrevs = make_abbrevs();

	end_unit(unit);
	return write_elf(unit, &abbrevs);
}

/* ---- the walk itself ---- */

struct fixture {
	int fd;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_Die unit;
	struct dies_budget budget;
	struct dies w;
};

static void begin(struct fixture *f, struct bytes *unit, uint64_t budget)
{
	*f = (struct fixture){.budget = {.left = budget}};
	f->fd = finish(unit);
	assert_int_equal(elffile_begin_dwarf(f->fd, &f->elf), 0);
	f->dwarf = dwarf_begin_elf(f->elf, DWARF_C_READ, NULL);
	assert_non_null(f->dwarf);
	assert_non_null(dwarf_offdie(f->dwarf, UNIT_HEADER_BYTES, &f->unit));
	dies_begin(&f->w, &f->unit, &f->budget, 0);
}

static void end(struct fixture *f)
{
	assert_false(dies_next(&f->w));
	dwarf_end(f->dwarf);
	elf_end(f->elf);
	close(f->fd);
}

static void expect(struct fixture *f, int tag, unsigned int depth)
{
	assert_true(dies_next(&f->w));
	assert_int_equal(dwarf_tag(&f->w.die), tag);
	assert_int_equal(f->w.depth, depth);
}

enum { TAG_BLOCK = 0x0b, TAG_LEAF = 0x34 };

static struct bytes small_tree(void)
{
	struct bytes b = begin_unit();

	put(&b, (const uint8_t[]){BLOCK, BLOCK, LEAF, LEAF, 0, 0, LEAF, BLOCK, 0, LEAF}, 10);
	return b;
}

static void test_in_the_order_of_the_file(void **state)
{
	struct bytes b = small_tree();
	struct fixture f;

	begin(&f, &b, 100);
	expect(&f, TAG_BLOCK, 1);
	expect(&f, TAG_BLOCK, 2);
	expect(&f, TAG_LEAF, 3);
	expect(&f, TAG_LEAF, 3);
	expect(&f, TAG_LEAF, 1);
	expect(&f, TAG_BLOCK, 1);
	expect(&f, TAG_LEAF, 1);
	end(&f);
}

static void test_what_is_skipped_does_not_come(void **state)
{
	struct bytes b = small_tree();
	struct fixture f;

	begin(&f, &b, 100);
	expect(&f, TAG_BLOCK, 1);
	dies_skip(&f.w);
	expect(&f, TAG_LEAF, 1);
	dies_skip(&f.w);
	expect(&f, TAG_BLOCK, 1);
	dies_skip(&f.w);
	expect(&f, TAG_LEAF, 1);
	end(&f);
}

static void test_a_subtree_ends_where_it_ends(void **state)
{
	struct bytes b = small_tree();
	struct fixture f;
	Dwarf_Die inner;

	begin(&f, &b, 100);
	expect(&f, TAG_BLOCK, 1);
	expect(&f, TAG_BLOCK, 2);
	inner = f.w.die;
	dies_begin(&f.w, &inner, &f.budget, 0);
	expect(&f, TAG_LEAF, 1);
	expect(&f, TAG_LEAF, 1);
	assert_false(dies_next(&f.w));
	end(&f);
}

/* Without DW_AT_sibling all that is below has to be stepped over: once, and for its price. */
static void test_to_skip_is_paid_for(void **state)
{
	enum { N = 5000 };
	struct bytes b = begin_unit();
	struct fixture f;

	put_times(&b, BLOCK, N);
	put_times(&b, 0, N);
	put_times(&b, LEAF, 1);
	begin(&f, &b, 10 * N);
	expect(&f, TAG_BLOCK, 1);
	dies_skip(&f.w);
	expect(&f, TAG_LEAF, 1);
	assert_in_range(f.budget.n_spent, N, N + N / 10);
	end(&f);
}

static void test_a_sibling_saves_the_way(void **state)
{
	enum { N = 5000 };
	struct bytes b = begin_unit();
	struct fixture f;

	put_times(&b, WITH_SIBLING, 1);
	put_u32(&b, (uint32_t)b.n + 4 + N + 1);
	put_times(&b, LEAF, N);
	put_times(&b, 0, 1);
	put_times(&b, LEAF, 1);
	begin(&f, &b, 100);
	expect(&f, TAG_BLOCK, 1);
	dies_skip(&f.w);
	expect(&f, TAG_LEAF, 1);
	assert_true(f.budget.n_spent < 10);
	end(&f);
}

/* libdw alone would go round in it for ever. */
static void test_siblings_that_lead_back_end_the_walk(void **state)
{
	for (int below = 0; below < 2; below++) {
		struct bytes b = begin_unit();
		struct fixture f;

		put_times(&b, BLOCK, below);
		put_times(&b, WITH_SIBLING, 1);
		put_u32(&b, (uint32_t)b.n - 1);
		put_times(&b, LEAF, 1);
		put_times(&b, 0, 1 + below);
		begin(&f, &b, 1000);
		expect(&f, TAG_BLOCK, 1);
		dies_skip(&f.w);
		while (dies_next(&f.w))
			dies_skip(&f.w);
		assert_true(f.budget.n_spent < 20);
		end(&f);
	}
}

static void test_the_budget_ends_the_walk(void **state)
{
	struct bytes b = begin_unit();
	struct fixture f;
	size_t n = 0;

	put_times(&b, LEAF, 1000);
	begin(&f, &b, 100);
	while (dies_next(&f.w))
		n++;
	assert_in_range(n, 90, 100);
	assert_int_equal(f.budget.left, 0);
	end(&f);
}

static void test_a_walk_may_have_less(void **state)
{
	struct bytes b = begin_unit();
	struct fixture f;
	size_t n = 0;

	put_times(&b, LEAF, 1000);
	begin(&f, &b, 1000);
	dies_begin(&f.w, &f.unit, &f.budget, 50);
	while (dies_next(&f.w))
		n++;
	assert_in_range(n, 40, 50);
	assert_true(f.budget.left >= 950);
	end(&f);
}

static void test_attributes_without_bytes_are_paid_for(void **state)
{
	struct bytes b = begin_unit();
	struct fixture f;

	put_times(&b, WIDE, 100);
	begin(&f, &b, UINT32_MAX);
	while (dies_next(&f.w))
		;
	assert_true(f.budget.n_spent > 100 * WIDE_ATTRIBUTES / 20);
	end(&f);
}

static bool stop_at_second(void *ctx)
{
	return ++*(unsigned int *)ctx >= 2;
}

static void test_who_asked_for_it_can_stop_it(void **state)
{
	struct bytes b = begin_unit();
	unsigned int n_asked = 0;
	struct fixture f;

	put_times(&b, LEAF, 1000000);
	begin(&f, &b, UINT32_MAX);
	f.budget.shall_stop = stop_at_second;
	f.budget.ctx = &n_asked;
	while (dies_next(&f.w))
		;
	assert_int_equal(n_asked, 2);
	assert_true(f.budget.n_spent < 200000);
	end(&f);
}

static void test_a_unit_that_is_cut_off(void **state)
{
	struct bytes b = begin_unit(), abbrevs = make_abbrevs();
	struct fixture f = {.budget = {.left = 100}};
	uint32_t length;

	put_times(&b, LEAF, 10);
	length = (uint32_t)b.n + 100;
	memcpy(b.at, &length, sizeof(length));
	f.fd = write_elf(&b, &abbrevs);
	assert_int_equal(elffile_begin_dwarf(f.fd, &f.elf), 0);
	f.dwarf = dwarf_begin_elf(f.elf, DWARF_C_READ, NULL);
	if (f.dwarf && dwarf_offdie(f.dwarf, UNIT_HEADER_BYTES, &f.unit)) {
		dies_begin(&f.w, &f.unit, &f.budget, 0);
		while (dies_next(&f.w))
			assert_int_equal(dwarf_tag(&f.w.die), TAG_LEAF);
	}
	dwarf_end(f.dwarf);
	elf_end(f.elf);
	close(f.fd);
}

/* ---- what look-ups of such files cost ---- */

static struct module *open_module(struct bytes *unit)
{
	struct errmsg e = {};
	struct module *m = NULL;

	if (module_open_fd(&m, finish(unit), "made", &e))
		fail_msg("%s", e.text);
	return m;
}

enum { NESTED = 20000 };

/* A function with so many blocks or inlined calls inside each other. */
static struct bytes nested_function(uint8_t code)
{
	struct bytes b = begin_unit();

	put_code(&b, FUNCTION, CODE_LO, CODE_BYTES);
	for (int i = 0; i < NESTED; i++)
		if (code == INLINED)
			put_code(&b, code, CODE_LO, CODE_BYTES);
		else
			put_times(&b, code, 1);
	put_times(&b, 0, NESTED + 1);
	return b;
}

static void check_steps(uint8_t code, size_t n_frames)
{
	struct bytes b = nested_function(code);
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	struct module *m = open_module(&b);
	struct srcline *s = NULL;
	uint64_t once;

	assert_int_equal(srcline_new(&s, m, NULL, &(struct srcline_options){}), 0);
	assert_int_equal(srcline_find(s, CODE_LO, frames), n_frames);
	once = srcline_steps(s);
	assert_in_range(once, NESTED, 4 * NESTED);
	/* One function: the next ones cost nothing but a search. */
	for (int i = 1; i < 1000; i++)
		assert_int_equal(srcline_find(s, CODE_LO + i, frames), n_frames);
	assert_true(srcline_steps(s) < once + 1000 * 10);
	assert_false(srcline_is_worn_out(s));
	srcline_free(s);
	module_unref(m);
}

static void test_nested_blocks_cost_once(void **state)
{
	check_steps(BLOCK, 1);
}

static void test_nested_inlined_calls_cost_once(void **state)
{
	check_steps(INLINED, SRCLINE_FRAMES_MAX);
}

/* 64 levels of them are read, which is counted once, and 32 inlined calls told of an address. */
static void test_what_is_cut_is_counted(void **state)
{
	struct bytes b = nested_function(INLINED);
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	struct module *m = open_module(&b);
	struct srcline *s = NULL;
	uint64_t n_cut = 0;

	assert_int_equal(srcline_new(&s, m, NULL, &(struct srcline_options){.n_cut = &n_cut}), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(srcline_find(s, CODE_LO + i, frames), SRCLINE_FRAMES_MAX);
	assert_int_equal(n_cut, 1 + 10);
	srcline_free(s);
	module_unref(m);
}

static void count_told(void *ctx, const struct linecache_file *file)
{
	++*(unsigned int *)ctx;
}

/* However often it is closed and opened: then its addresses have no lines, which is told once. */
static void test_too_much_work_is_left_out(void **state)
{
	struct bytes b = nested_function(BLOCK);
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	struct module *m = open_module(&b);
	unsigned int n_told = 0, n_found = 0;
	struct linecache c = {.max_steps = 10 * NESTED, .on_left_out = count_told, .ctx = &n_told};
	struct linecache_file f = {.module = m};

	for (int i = 0; i < 100; i++) {
		n_found += linecache_find(&c, &f, CODE_LO, frames) > 0;
		linecache_close(&c, &f);
	}
	assert_in_range(n_found, 1, 10);
	assert_true(f.is_left_out);
	assert_int_equal(n_told, 1);
	linecache_deinit(&c);
	module_unref(m);
}

static bool always(void *ctx)
{
	return true;
}

static void test_stopped_before_it_begins(void **state)
{
	struct bytes b = nested_function(BLOCK);
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	struct module *m = open_module(&b);
	unsigned int n_told = 0;
	struct linecache c = {.shall_stop = always, .on_left_out = count_told, .ctx = &n_told};
	struct linecache_file f = {.module = m};

	assert_int_equal(linecache_find(&c, &f, CODE_LO, frames), 0);
	assert_int_equal(n_told, 1);
	linecache_deinit(&c);
	module_unref(m);
}

/* It has neither parameters nor variables: to know that takes a walk that ends. */
static void test_variables_of_nested_blocks(void **state)
{
	struct bytes b = nested_function(BLOCK);
	struct module *m = open_module(&b);
	struct variables *v = NULL;
	struct errmsg why = {};
	struct variable var;
	uint64_t bytes;

	assert_int_equal(variables_new(&v, m, NULL, 0, &bytes), 0);
	assert_int_equal(variables_find(v, CODE_LO, "none", &var, &why), -ENOENT);
	variables_free(v);
	module_unref(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_the_order_of_the_file),
		cmocka_unit_test(test_what_is_skipped_does_not_come),
		cmocka_unit_test(test_a_subtree_ends_where_it_ends),
		cmocka_unit_test(test_to_skip_is_paid_for),
		cmocka_unit_test(test_a_sibling_saves_the_way),
		cmocka_unit_test(test_siblings_that_lead_back_end_the_walk),
		cmocka_unit_test(test_the_budget_ends_the_walk),
		cmocka_unit_test(test_a_walk_may_have_less),
		cmocka_unit_test(test_attributes_without_bytes_are_paid_for),
		cmocka_unit_test(test_who_asked_for_it_can_stop_it),
		cmocka_unit_test(test_a_unit_that_is_cut_off),
		cmocka_unit_test(test_nested_blocks_cost_once),
		cmocka_unit_test(test_nested_inlined_calls_cost_once),
		cmocka_unit_test(test_what_is_cut_is_counted),
		cmocka_unit_test(test_too_much_work_is_left_out),
		cmocka_unit_test(test_stopped_before_it_begins),
		cmocka_unit_test(test_variables_of_nested_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
