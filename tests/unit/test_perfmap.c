/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "code/perfmap.h"
#include "tests/unit/unit.h"

static struct perfmap *map;

static int setup(void **state)
{
	return perfmap_new(&map, 1 << 20);
}

static int teardown(void **state)
{
	map = perfmap_free(map);
	return 0;
}

static int add(const char *text)
{
	size_t used;

	return perfmap_add_text(map, text, strlen(text), &used);
}

static const char *find(uint64_t pc)
{
	uint64_t start;

	return perfmap_find(map, pc, &start);
}

static void test_lines(void **state)
{
	add("7f0000001000 20 LazyCompile:~main /app/index.js:1\n0x7f0000002000 0x10 stub\n");
	assert_string_equal(find(0x7f0000001000), "LazyCompile:~main /app/index.js:1");
	assert_string_equal(find(0x7f000000101f), "LazyCompile:~main /app/index.js:1");
	assert_null(find(0x7f0000001020));
	assert_null(find(0x7f0000000fff));
	assert_string_equal(find(0x7f0000002008), "stub");
}

static void test_last_wins(void **state)
{
	add("1000 100 old\n1000 100 new\n");
	assert_string_equal(find(0x1010), "new");
	add("1080 10 inner\n");
	assert_string_equal(find(0x1088), "inner");
	assert_string_equal(find(0x1098), "new");
	add("f00 300 whole\n");
	assert_string_equal(find(0x1088), "whole");
	assert_string_equal(find(0xf00), "whole");
}

static void test_bad_lines(void **state)
{
	assert_int_equal(add("\n\n \nxyz\n1000\n1000 10\n1000 10 \n1000 0 empty\n"
			     "ffffffffffffffff 10 wraps\n11112222333344445 1 long\n-1 1 neg\n"),
			 0);
	assert_null(find(0x1000));
	assert_null(find(UINT64_MAX));
	add("  2000\t10\tname with blanks\n");
	assert_string_equal(find(0x2000), "name with blanks");
}

static void test_pieces(void **state)
{
	static const char text[] = "1000 10 first\n2000 10 sec";
	size_t used;

	assert_int_equal(perfmap_add_text(map, text, strlen(text), &used), 0);
	assert_int_equal(used, 14);
	assert_null(find(0x2000));
}

static void test_limit(void **state)
{
	struct perfmap *small = NULL;
	uint64_t start;
	size_t used;

	assert_int_equal(perfmap_new(&small, 40), 0);
	assert_int_equal(perfmap_add_text(small, "1000 10 a\n2000 10 b\n", 20, &used), -ENOSPC);
	assert_int_equal(used, 10);
	assert_string_equal(perfmap_find(small, 0x1000, &start), "a");
	perfmap_free(small);
}

static void write_file(const char *path, const char *mode, const char *text)
{
	AUTO_FILE FILE *f = fopen(path, mode);

	assert_non_null(f);
	fputs(text, f);
}

static void test_file_grows(void **state)
{
	char dir[] = "/tmp/test_perfmap.XXXXXX", path[128];
	AUTO_CLOSE int root = -1;

	assert_non_null(mkdtemp(dir));
	root = open(dir, O_PATH | O_DIRECTORY);
	snprintf(path, sizeof(path), "%s/tmp", dir);
	mkdir(path, 0700);
	assert_int_equal(perfmap_read(map, root, 42, getuid()), -ENOENT);
	snprintf(path, sizeof(path), "%s/tmp/perf-42.map", dir);
	write_file(path, "w", "1000 10 one\n2000 10 tw");
	assert_int_equal(perfmap_read(map, root, 42, getuid()), 0);
	assert_string_equal(find(0x1000), "one");
	assert_null(find(0x2000));
	write_file(path, "a", "o\n3000 10 three\n");
	assert_int_equal(perfmap_read(map, root, 42, getuid()), 0);
	assert_string_equal(find(0x2000), "two");
	assert_string_equal(find(0x3000), "three");
	write_file(path, "w", "4000 10 four\n");
	assert_int_equal(perfmap_read(map, root, 42, getuid()), 0);
	assert_null(find(0x1000));
	assert_string_equal(find(0x4000), "four");
	unlink(path);
	/* A pipe must not block, and a link must not lead out of the root. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(perfmap_read(map, root, 42, getuid()), -ENOENT);
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(perfmap_read(map, root, 42, getuid()), -ENOENT);
	unlink(path);
	snprintf(path, sizeof(path), "%s/tmp", dir);
	rmdir(path);
	rmdir(dir);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_lines),  T(test_last_wins), T(test_bad_lines),
		T(test_pieces), T(test_limit),     T(test_file_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
