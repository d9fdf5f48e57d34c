/* SPDX-License-Identifier: Apache-2.0 */
/* test_usdt.c: notes and the assembler's text of arguments. */
#include <errno.h>
#include <string.h>

#include "probe/usdt.h"
#include "unit.h"

static size_t add_note(uint8_t *at, const char *owner, const char *strings, size_t string_bytes)
{
	uint32_t head[3] = {(uint32_t)strlen(owner) + 1, (uint32_t)(24 + string_bytes), 3};
	uint64_t numbers[3] = {0x1000, 0x2000, 0x3000};
	size_t name = (head[0] + 3) & ~3U;

	memset(at, 0, 12 + name + 24 + ((string_bytes + 3) & ~3UL));
	memcpy(at, head, sizeof(head));
	memcpy(at + 12, owner, head[0]);
	memcpy(at + 12 + name, numbers, sizeof(numbers));
	memcpy(at + 12 + name + 24, strings, string_bytes);
	return 12 + name + 24 + ((string_bytes + 3) & ~3UL);
}

static void notes(void **state)
{
	static const char strings[] = "php\0request__startup\0-4@%edi 8@%rsi";
	uint8_t data[256] __attribute__((aligned(8)));
	struct usdt_note note;
	size_t off = 0, n = add_note(data, "GNU", "x", 2);

	n += add_note(data + n, "stapsdt", strings, sizeof(strings));
	assert_true(parse_usdt_note(data, n, &off, &note));
	assert_int_equal(note.vaddr, 0x1000);
	assert_int_equal(note.base, 0x2000);
	assert_int_equal(note.semaphore, 0x3000);
	assert_string_equal(note.provider, "php");
	assert_string_equal(note.name, "request__startup");
	assert_int_equal(usdt_n_arguments(note.arguments), 2);
	assert_false(parse_usdt_note(data, n, &off, &note));
	off = 0;
	assert_false(parse_usdt_note(data, n - 30, &off, &note));
}

static void strings_must_end(void **state)
{
	uint8_t data[128] __attribute__((aligned(8)));
	struct usdt_note note;
	size_t off = 0, n = add_note(data, "stapsdt", "php\0request", 11);

	data[n - 1] = 'x';
	assert_false(parse_usdt_note(data, n, &off, &note));
}

static void check_place(const char *text, unsigned int number, struct place want)
{
	struct place got;

	assert_int_equal(parse_usdt_argument(text, number, &got), 0);
	assert_int_equal(got.kind, want.kind);
	assert_int_equal(got.reg, want.reg);
	assert_int_equal(got.offset, want.offset);
	assert_int_equal(got.size, want.size);
	assert_int_equal(got.is_signed, want.is_signed);
}

static void arguments(void **state)
{
	static const char text[] = "-4@%edi 8@-24(%rbp) 8@$-5 1@(%rax) 2@%r8w 8@%r15";
	struct place p;

	check_place(text, 0, (struct place){PLACE_REGISTER, WIRE_REG_RDI, 0, 4, true, {0}});
	check_place(text, 1, (struct place){PLACE_MEMORY, WIRE_REG_RBP, -24, 8, false, {0}});
	check_place(text, 2, (struct place){PLACE_CONSTANT, WIRE_REG_RAX, -5, 8, false, {0}});
	check_place(text, 3, (struct place){PLACE_MEMORY, WIRE_REG_RAX, 0, 1, false, {0}});
	check_place(text, 4, (struct place){PLACE_REGISTER, WIRE_REG_R8, 0, 2, false, {0}});
	check_place(text, 5, (struct place){PLACE_REGISTER, WIRE_REG_R15, 0, 8, false, {0}});
	assert_int_equal(parse_usdt_argument(text, 6, &p), -ENOENT);
	assert_int_equal(parse_usdt_argument("", 0, &p), -ENOENT);
}

static void forms_that_are_not_read(void **state)
{
	static const char *const bad[] = {"8@sym(%rip)", "8@(%rax,%rbx,8)", "3@%edi",   "8@%xmm0",
					  "8@",          "8@-4(%eax)",      "8@4(%rax", "8@$"};
	struct place p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_usdt_argument(bad[i], 0, &p), -ENOTSUP);
}

static void partners(void **state)
{
	char buf[32];

	assert_true(usdt_partner("query__start", 0, buf, sizeof(buf)));
	assert_string_equal(buf, "query__done");
	assert_true(usdt_partner("query__start", 1, buf, sizeof(buf)));
	assert_string_equal(buf, "query__end");
	assert_false(usdt_partner("query__start", 4, buf, sizeof(buf)));
	assert_true(usdt_partner("function_entry", 0, buf, sizeof(buf)));
	assert_string_equal(buf, "function_return");
	assert_true(usdt_partner("request__startup", 0, buf, sizeof(buf)));
	assert_string_equal(buf, "request__shutdown");
	assert_false(usdt_partner("start", 0, buf, sizeof(buf)));
	assert_false(usdt_partner("query__done", 0, buf, sizeof(buf)));
	assert_false(usdt_partner("a_name_that_does_not_fit_into_it__start", 0, buf, sizeof(buf)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(notes),
		cmocka_unit_test(strings_must_end),
		cmocka_unit_test(arguments),
		cmocka_unit_test(partners),
		cmocka_unit_test(forms_that_are_not_read),
	};

	return cmocka_run_group_tests_name("usdt", tests, NULL, NULL);
}
