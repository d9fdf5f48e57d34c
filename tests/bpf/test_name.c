/* SPDX-License-Identifier: Apache-2.0 */
/* The expression machine: captured fields and conditions, on arguments of real calls. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone))

struct request {
	int32_t number;
	uint8_t byte;
	char uri[64];
	char *pointer;
	uint64_t bytes;
	long (*inner)(void *);
};

static ENDPOINT long serve(void *arg)
{
	rig_sleep(3 * MS);
	return -7;
}

/* All calls are slow ones; the name of the i-th. */
static const struct event *call(struct rig *rig, long (*fn)(void *), void *arg, size_t i)
{
	const struct event *promoted;

	rig_call(fn, arg);
	rig_drain(rig);
	promoted = rig_event(rig, WIRE_K_PROMOTED, i);
	assert_non_null(promoted);
	return promoted;
}

static void open_with(struct rig *rig, const struct wire_op *ops, uint32_t n)
{
	struct wire_endpoint config = {.flags = WIRE_EP_F_HAS_OPS, .n_entry_ops = n};

	memcpy(config.entry_ops, ops, n * sizeof(*ops));
	memcpy(config.match, "GET /POST", 9);
	rig_open(rig, NULL);
	rig_gate(rig, 0, MS, 10 * MS);
	rig_endpoint(rig, 0, serve, &config);
}

#define OP(c, a, i)                                         \
	{                                                   \
		.code = WIRE_OP_##c, .arg = (a), .imm = (i) \
	}
#define LOAD(c, s)                               \
	{                                        \
		.code = WIRE_OP_##c, .size = (s) \
	}
#define OPEN(rig, ...)                                        \
	open_with(rig, (const struct wire_op[]){__VA_ARGS__}, \
		  ARRAY_SIZE(((const struct wire_op[]){__VA_ARGS__})))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define FIELD(name)   ((int64_t)offsetof(struct request, name))

static void assert_text(const struct event *e, size_t *off, enum wire_field_type type,
			const char *text)
{
	struct name_field f;

	assert_true(decode_field(e->promoted->name, e->promoted->name_bytes, off, &f));
	assert_int_equal(f.type, type);
	assert_int_equal(f.text_bytes, strlen(text));
	assert_memory_equal(f.text, text, f.text_bytes);
}

static void assert_number(const struct event *e, size_t *off, enum wire_field_type type,
			  int64_t number)
{
	struct name_field f;

	assert_true(decode_field(e->promoted->name, e->promoted->name_bytes, off, &f));
	assert_int_equal(f.type, type);
	assert_int_equal(f.number, number);
}

static void assert_end(const struct event *e, size_t off)
{
	struct name_field f;

	assert_false(decode_field(e->promoted->name, e->promoted->name_bytes, &off, &f));
	assert_int_equal(off, e->promoted->name_bytes);
}

static void strings_and_numbers(void **state)
{
	struct request r = {.number = -5, .byte = 200, .uri = "/orders/7", .bytes = 3};
	const struct event *e;
	struct rig rig;
	size_t off = 0;

	r.pointer = r.uri + 1;
	OPEN(&rig, OP(REG, WIRE_REG_RDI, 0), OP(SAVE, 0, 0), OP(ADD_IMM, 0, FIELD(uri)),
	     OP(STR, 0, 64), OP(LOAD, 0, 0), LOAD(DEREF_S, 4), OP(INT, 0, 0), OP(LOAD, 0, 0),
	     OP(ADD_IMM, 0, FIELD(byte)), LOAD(DEREF, 1), OP(UINT, 0, 0), OP(LOAD, 0, 0),
	     OP(ADD_IMM, 0, FIELD(bytes)), LOAD(DEREF, 8), OP(SAVE, 1, 0), OP(LOAD, 0, 0),
	     OP(ADD_IMM, 0, FIELD(pointer)), LOAD(DEREF, 8), OP(STRN, 1, 64));
	e = call(&rig, serve, &r, 0);
	assert_text(e, &off, WIRE_FIELD_STR, "/orders/7");
	assert_number(e, &off, WIRE_FIELD_INT, -5);
	assert_number(e, &off, WIRE_FIELD_UINT, 200);
	assert_text(e, &off, WIRE_FIELD_STR, "ord");
	assert_end(e, off);
	rig_close(&rig);
}

static void arithmetic(void **state)
{
	const struct event *e;
	struct rig rig;
	size_t off = 0;

	OPEN(&rig, OP(IMM, 0, 100), OP(SAVE, 2, 0), OP(IMM, 0, 30), OP(SUB, 2, 0), OP(UINT, 0, 0),
	     OP(ADD, 2, 0), OP(UINT, 0, 0), OP(MUL_IMM, 0, 3), OP(AND_IMM, 0, 0xf0), OP(UINT, 0, 0),
	     OP(SHR_IMM, 0, 4), OP(UINT, 0, 0), OP(ENTRY_IP, 0, 4), OP(UINT, 0, 0));
	e = call(&rig, serve, NULL, 0);
	assert_number(e, &off, WIRE_FIELD_UINT, 70);
	assert_number(e, &off, WIRE_FIELD_UINT, 170);
	assert_number(e, &off, WIRE_FIELD_UINT, 510 & 0xf0);
	assert_number(e, &off, WIRE_FIELD_UINT, (510 & 0xf0) >> 4);
	assert_number(e, &off, WIRE_FIELD_UINT, (int64_t)(uintptr_t)serve + 4);
	assert_end(e, off);
	rig_close(&rig);
}

static void long_text_is_cut(void **state)
{
	struct request r = {.uri = "/a/long/path/that/goes/on"};
	const struct event *e;
	struct rig rig;
	size_t off = 0;

	OPEN(&rig, OP(REG, WIRE_REG_RDI, 0), OP(ADD_IMM, 0, FIELD(uri)), OP(STR, 0, 7),
	     OP(IMM, 0, 20), OP(SAVE, 0, 0), OP(REG, WIRE_REG_RDI, 0), OP(ADD_IMM, 0, FIELD(uri)),
	     OP(STRN, 0, 4), OP(STR, 0, 25));
	e = call(&rig, serve, &r, 0);
	assert_text(e, &off, WIRE_FIELD_CUT, "/a/long");
	assert_text(e, &off, WIRE_FIELD_CUT, "/a/l");
	assert_text(e, &off, WIRE_FIELD_STR, "/a/long/path/that/goes/on");
	assert_end(e, off);
	assert_int_equal(rig_counter(&rig, WIRE_C_NAME_TRUNCATED), 2);
	rig_close(&rig);
}

static void full_name_is_counted(void **state)
{
	char text[400];
	const struct event *e;
	struct rig rig;
	size_t off = 0;

	memset(text, 'x', sizeof(text));
	text[399] = '\0';
	OPEN(&rig, OP(REG, WIRE_REG_RDI, 0), OP(STR, 0, 399), OP(STR, 0, 399), OP(UINT, 0, 0));
	e = call(&rig, serve, text, 0);
	text[WIRE_NAME_MAX - 8 - 1] = '\0';
	assert_text(e, &off, WIRE_FIELD_CUT, text);
	assert_end(e, off);
	assert_int_equal(rig_counter(&rig, WIRE_C_NAME_TRUNCATED), 3);
	rig_close(&rig);
}

static void faults_are_fields(void **state)
{
	const struct event *e;
	struct rig rig;
	size_t off = 0;

	OPEN(&rig, OP(REG, WIRE_REG_RDI, 0), OP(STR, 0, 64), LOAD(DEREF, 8), OP(STR, 0, 64),
	     OP(IMM, 0, 5), OP(UINT, 0, 0));
	e = call(&rig, serve, (void *)16, 0);
	assert_text(e, &off, WIRE_FIELD_FAULT, "");
	assert_text(e, &off, WIRE_FIELD_FAULT, "");
	assert_number(e, &off, WIRE_FIELD_UINT, 5);
	assert_end(e, off);
	assert_int_equal(rig_counter(&rig, WIRE_C_NAME_FAULT), 2);
	rig_close(&rig);
}

/* "across pages" in two pages that nobody has touched: only a sleepable program can read it. */
struct untouched {
	FILE *file;
	char *pages;
	size_t bytes;
	char *text;
};

static void untouched_init(struct untouched *u)
{
	long page = sysconf(_SC_PAGESIZE);

	u->file = tmpfile();
	assert_non_null(u->file);
	u->bytes = 2 * (size_t)page;
	assert_int_equal(ftruncate(fileno(u->file), (off_t)u->bytes), 0);
	assert_int_equal(pwrite(fileno(u->file), "across pages", 13, page - 6), 13);
	u->pages = mmap(NULL, u->bytes, PROT_READ, MAP_PRIVATE, fileno(u->file), 0);
	assert_true(u->pages != MAP_FAILED);
	u->text = u->pages + page - 6;
}

static void untouched_deinit(struct untouched *u)
{
	munmap(u->pages, u->bytes);
	fclose(u->file);
}

static void sleepable_reads_unmapped_pages(void **state)
{
	const struct wire_endpoint config = {
		.flags = WIRE_EP_F_HAS_OPS,
		.n_entry_ops = 2,
		.entry_ops = {OP(REG, WIRE_REG_RDI, 0), OP(STR, 0, 64)},
	};
	const struct event *e;
	struct untouched u;
	struct name_field f;
	struct rig rig;
	size_t off = 0;

	untouched_init(&u);
	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, 10 * MS);
	rig.programs.enter_fd = rig.programs.enter_sleepable_fd;
	rig_endpoint(&rig, 0, serve, &config);
	e = call(&rig, serve, u.text, 0);
	assert_true(decode_field(e->promoted->name, e->promoted->name_bytes, &off, &f));
	assert_int_equal(f.type, WIRE_FIELD_STR);
	assert_int_equal(f.text_bytes, 12);
	assert_memory_equal(f.text, "across pages", 12);
	assert_int_equal(rig_counter(&rig, WIRE_C_NAME_FAULT), 0);
	untouched_deinit(&u);
	rig_close(&rig);
}

static ENDPOINT long quick(void *arg)
{
	__asm__ volatile("");
	return 0;
}

static void assert_condition(const struct wire_op *ops, uint32_t n, void *arg, bool is_kept)
{
	struct wire_endpoint config = {.flags = WIRE_EP_F_HAS_OPS, .n_entry_ops = n};
	struct rig rig;

	memcpy(config.entry_ops, ops, n * sizeof(*ops));
	memcpy(config.match, "GET /POST", 9);
	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, quick, &config);
	rig_call(quick, arg);
	assert_int_equal(rig_latency(&rig, 0).n_enter, is_kept);
	assert_int_equal(rig_latency(&rig, 0).n_leave, is_kept);
	assert_int_equal(rig_counter(&rig, WIRE_C_CONDITION_SKIP), !is_kept);
	rig_close(&rig);
}

#define CONDITION(arg, is_kept, ...)                                                         \
	assert_condition((const struct wire_op[]){__VA_ARGS__},                              \
			 ARRAY_SIZE(((const struct wire_op[]){__VA_ARGS__})), (void *)(arg), \
			 is_kept)

static void conditions(void **state)
{
	CONDITION(5L, true, OP(REG, WIRE_REG_RDI, 0), OP(IF_EQ, 0, 5));
	CONDITION(5L, false, OP(REG, WIRE_REG_RDI, 0), OP(IF_NE, 0, 5));
	CONDITION(6L, false, OP(REG, WIRE_REG_RDI, 0), OP(IF_EQ, 0, 5));
	CONDITION(6L, true, OP(REG, WIRE_REG_RDI, 0), OP(IF_NE, 0, 5));
	CONDITION(0x105L, true, OP(REG, WIRE_REG_RDI, 0), OP(AND_IMM, 0, 0xff), OP(IF_EQ, 0, 5));
	CONDITION(0x106L, false, OP(REG, WIRE_REG_RDI, 0), OP(AND_IMM, 0, 0xff), OP(IF_EQ, 0, 5));
	CONDITION(0x105L, false, OP(REG, WIRE_REG_RDI, 0), OP(AND_IMM, 0, 0xff), OP(IF_NE, 0, 5));
	CONDITION(5L, false, OP(REG, WIRE_REG_RDI, 0), OP(IF_EQ, 0, 5), OP(REG, WIRE_REG_RDI, 0),
		  OP(IF_NE, 0, 5));
	CONDITION(5L, true, OP(REG, WIRE_REG_RDI, 0), OP(IF_EQ, 0, 5), OP(REG, WIRE_REG_RDI, 0),
		  OP(IF_LT, 0, 6));
	CONDITION(-5L, true, OP(REG, WIRE_REG_RDI, 0), OP(IF_LT, 0, 0));
	CONDITION(-5L, false, OP(REG, WIRE_REG_RDI, 0), OP(IF_GE, 0, 0));
	CONDITION("GET /x", true, OP(REG, WIRE_REG_RDI, 0), OP(IF_PREFIX, 0, 5));
	CONDITION("POST /x", true, OP(REG, WIRE_REG_RDI, 0), OP(IF_PREFIX, 5, 4));
	CONDITION("PUT /x", false, OP(REG, WIRE_REG_RDI, 0), OP(IF_PREFIX, 5, 4));
	CONDITION(8L, false, OP(REG, WIRE_REG_RDI, 0), LOAD(DEREF, 8), OP(IF_EQ, 0, 0));
	CONDITION(0L, true, OP(REG, WIRE_REG_RDI, 0), OP(SKIP_Z, 1, 0), OP(IF_EQ, 0, 9));
	CONDITION(1L, false, OP(REG, WIRE_REG_RDI, 0), OP(SKIP_Z, 1, 0), OP(IF_EQ, 0, 9));
}

/* Kept at entry, read at leave together with the return value. */
static void names_at_leave(void **state)
{
	const struct wire_endpoint config = {
		.flags = WIRE_EP_F_HAS_OPS | WIRE_EP_F_NAME_AT_LEAVE,
		.n_entry_ops = 2,
		.entry_ops = {OP(REG, WIRE_REG_RDI, 0), OP(KEEP, 1, 0)},
		.n_leave_ops = 4,
		.leave_ops = {OP(REG, WIRE_REG_RAX, 0), OP(INT, 0, 0), OP(KEPT, 1, 0),
			      OP(UINT, 0, 0)},
	};
	const struct event *end;
	struct name_field f;
	struct rig rig;
	size_t off = 0;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, 10 * MS);
	rig_endpoint(&rig, 0, serve, &config);
	assert_int_equal(call(&rig, serve, (void *)1234L, 0)->promoted->name_bytes, 0);
	end = rig_event(&rig, WIRE_K_END, 0);
	assert_non_null(end);
	assert_true(decode_field(end->end->name, end->end->name_bytes, &off, &f));
	assert_int_equal(f.number, -7);
	assert_true(decode_field(end->end->name, end->end->name_bytes, &off, &f));
	assert_int_equal(f.number, 1234);
	rig_close(&rig);
}

static void pages_at_leave(bool end_sleeps)
{
	const struct kern_options options = {.end_sleeps = end_sleeps};
	const struct wire_endpoint config = {
		.flags = WIRE_EP_F_HAS_OPS | WIRE_EP_F_NAME_AT_LEAVE,
		.n_entry_ops = 2,
		.entry_ops = {OP(REG, WIRE_REG_RDI, 0), OP(KEEP, 1, 0)},
		.n_leave_ops = 2,
		.leave_ops = {OP(KEPT, 1, 0), OP(STR, 0, 64)},
	};
	const struct event *end;
	struct untouched u;
	struct name_field f;
	struct rig rig;
	size_t off = 0;

	untouched_init(&u);
	rig_open(&rig, &options);
	rig_gate(&rig, 0, MS, 10 * MS);
	rig_endpoint(&rig, 0, serve, &config);
	call(&rig, serve, u.text, 0);
	end = rig_event(&rig, WIRE_K_END, 0);
	assert_non_null(end);
	assert_true(decode_field(end->end->name, end->end->name_bytes, &off, &f));
	assert_int_equal(f.type, end_sleeps ? WIRE_FIELD_STR : WIRE_FIELD_FAULT);
	assert_int_equal(rig_counter(&rig, WIRE_C_NAME_FAULT), !end_sleeps);
	if (end_sleeps)
		assert_memory_equal(f.text, "across pages", 12);
	untouched_deinit(&u);
	rig_close(&rig);
}

/* Only programs that may sleep bring such pages in: those that see ends may where that is wanted. */
static void unmapped_pages_at_leave(void **state)
{
	pages_at_leave(false);
	pages_at_leave(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_and_numbers),
		cmocka_unit_test(arithmetic),
		cmocka_unit_test(long_text_is_cut),
		cmocka_unit_test(full_name_is_counted),
		cmocka_unit_test(faults_are_fields),
		cmocka_unit_test(sleepable_reads_unmapped_pages),
		cmocka_unit_test(conditions),
		cmocka_unit_test(names_at_leave),
		cmocka_unit_test(unmapped_pages_at_leave),
	};

	return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
