/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "proc/maps.h"
#include "tests/unit/unit.h"

static enum maps_result parse_one(const char *text, struct maps_entry *e)
{
	size_t off = 0;
	enum maps_result r = parse_maps_line(text, strlen(text), &off, e);

	if (r != MAPS_E_PARTIAL)
		assert_int_equal(off, strlen(text));
	return r;
}

static void test_file(void **state)
{
	struct maps_entry e;

	assert_int_equal(parse_one("55d0c0a00000-55d0c0b00000 r-xp 00001000 fe:01 131 "
				   "                  /usr/bin/my prog\n",
				   &e),
			 MAPS_OK);
	assert_int_equal(e.start, 0x55d0c0a00000);
	assert_int_equal(e.end, 0x55d0c0b00000);
	assert_int_equal(e.file_off, 0x1000);
	assert_int_equal(e.dev_major, 0xfe);
	assert_int_equal(e.dev_minor, 1);
	assert_int_equal(e.ino, 131);
	assert_true(e.readable);
	assert_false(e.writable);
	assert_true(e.executable);
	assert_false(e.shared);
	assert_false(e.deleted);
	assert_int_equal(e.kind, MAPS_FILE);
	assert_string_equal(e.path, "/usr/bin/my prog");
}

static void test_deleted(void **state)
{
	struct maps_entry e;

	assert_int_equal(parse_one("1000-2000 rwxs 0 00:00 7 /tmp/a b (deleted)\n", &e), MAPS_OK);
	assert_true(e.deleted);
	assert_true(e.shared);
	assert_string_equal(e.path, "/tmp/a b");
	assert_int_equal(parse_one("1000-2000 rwxs 0 00:00 7 /tmp/(deleted)\n", &e), MAPS_OK);
	assert_false(e.deleted);
	assert_string_equal(e.path, "/tmp/(deleted)");
}

static void test_newline_in_name(void **state)
{
	struct maps_entry e;

	assert_int_equal(parse_one("1000-2000 r-xp 0 8:1 7 /x\\012y\\01\n", &e), MAPS_OK);
	assert_string_equal(e.path, "/x\ny\\01");
}

static void test_kinds(void **state)
{
	static const struct {
		const char *name;
		enum maps_kind kind;
	} cases[] = {
		{"", MAPS_ANONYMOUS},
		{" [heap]", MAPS_ANONYMOUS},
		{" [stack]", MAPS_ANONYMOUS},
		{" [anon:jit code]", MAPS_ANONYMOUS},
		{" [vdso]", MAPS_VDSO},
		{" [uprobes]", MAPS_UPROBES},
		{" [vsyscall]", MAPS_SPECIAL},
		{" /memfd:x (deleted)", MAPS_FILE},
		{" anon_inode:[io_uring]", MAPS_FILE},
		{" [vdso] ", MAPS_SPECIAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct maps_entry e;
		char line[256];

		snprintf(line, sizeof(line), "7ff000-7ff100 r-xp 00000000 00:00 0%s\n",
			 cases[i].name);
		assert_int_equal(parse_one(line, &e), MAPS_OK);
		assert_int_equal(e.kind, cases[i].kind);
	}
}

static void test_bad(void **state)
{
	static const char *const lines[] = {
		"\n",
		"1000-1000 r-xp 0 8:1 7 /x\n",
		"2000-1000 r-xp 0 8:1 7 /x\n",
		"1000-2000 qwxp 0 8:1 7 /x\n",
		"1000-2000 r-xp 0 8 7 /x\n",
		"1000-2000 r-xp 0 8:1\n",
		"1000-11112222333344445 r-xp 0 8:1 7 /x\n",
		"1000-3000 r-xp fffffffffffff000 8:1 7 /x\n",
		"Name: x\n",
	};
	char too_long[MAPS_PATH_MAX + 64] = "1000-2000 r-xp 0 8:1 7 ";
	struct maps_entry e;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_int_equal(parse_one(lines[i], &e), MAPS_E_BAD);
	memset(too_long + strlen(too_long), 'x', MAPS_PATH_MAX);
	too_long[strlen(too_long)] = '\n';
	assert_int_equal(parse_one(too_long, &e), MAPS_E_BAD);
}

static void test_pieces(void **state)
{
	static const char text[] = "1000-2000 r-xp 0 8:1 7 /x\nbad\n3000-4000 r--p 0 8:1 7";
	struct maps_entry e;
	size_t off = 0;

	assert_int_equal(parse_maps_line(text, strlen(text), &off, &e), MAPS_OK);
	assert_int_equal(parse_maps_line(text, strlen(text), &off, &e), MAPS_E_BAD);
	assert_int_equal(parse_maps_line(text, strlen(text), &off, &e), MAPS_E_PARTIAL);
	assert_int_equal(off, strchr(text, '3') - text);
	off = strlen(text);
	assert_int_equal(parse_maps_line(text, strlen(text), &off, &e), MAPS_END);
}

/* What this kernel really writes. */
static void test_own(void **state)
{
	AUTO_FREE char *text = NULL;
	enum maps_result r;
	size_t bytes, off = 0, n = 0;
	struct maps_entry e;

	assert_int_equal(read_file(AT_FDCWD, "/proc/self/maps", 1 << 24, &text, &bytes), 0);
	while ((r = parse_maps_line(text, bytes, &off, &e)) == MAPS_OK)
		n++;
	assert_int_equal(r, MAPS_END);
	assert_true(n > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_deleted),
		cmocka_unit_test(test_newline_in_name),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
