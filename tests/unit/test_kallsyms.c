/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "code/kallsyms.h"
#include "tests/unit/unit.h"

static const char sample[] = "0000000000000000 A fixed_percpu_data\n"
			     "ffffffff81000000 T _stext\n"
			     "ffffffff81000100 T do_one\n"
			     "ffffffff810001f0 t __pfx_do_two\n"
			     "ffffffff81000200 t do_two\n"
			     "ffffffff81000200 T do_two_alias\n"
			     "ffffffff82000000 D some_data\n"
			     "ffffffffa0000000 t mod_init\t[mod]\n"
			     "junk\n"
			     "ffffffff81000180 W do_weak\n";

static void says(const char *text, bool hidden)
{
	AUTO_CLOSE int fd = memfd_create("test", MFD_CLOEXEC);
	char path[64];

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(kallsyms_is_hidden(path), hidden);
}

static void test_is_hidden(void **state)
{
	says(sample, false);
	says("0000000000000000 T _stext\n0000000000000000 T do_one\n", true);
	says("", false);
	assert_false(kallsyms_is_hidden("/nonexistent"));
}

static void test_find(void **state)
{
	struct kallsyms *k = NULL;
	uint64_t off = 0;

	assert_int_equal(parse_kallsyms(sample, strlen(sample), &k), 0);
	assert_int_equal(kallsyms_count(k), 6);
	assert_string_equal(kallsyms_find(k, 0xffffffff81000100, &off), "do_one");
	assert_int_equal(off, 0x100);
	assert_string_equal(kallsyms_find(k, 0xffffffff8100017f, &off), "do_one");
	assert_string_equal(kallsyms_find(k, 0xffffffff81000180, &off), "do_weak");
	assert_string_equal(kallsyms_find(k, 0xffffffff810001f8, &off), "do_weak");
	assert_string_equal(kallsyms_find(k, 0xffffffff81000240, &off), "do_two");
	assert_string_equal(kallsyms_find(k, 0xffffffffa0000010, &off), "mod_init");
	assert_null(kallsyms_find(k, 0xffffffff80ffffff, &off));
	assert_null(kallsyms_find(k, 0xffffffff90000000, &off));
	assert_null(kallsyms_find(k, 0x81000100, &off));
	kallsyms_free(k);
}

static void test_hidden(void **state)
{
	static const char zero[] = "0000000000000000 T _stext\n0000000000000000 t do_one\n";
	static const char data[] = "ffffffff82000000 D some_data\n";
	struct kallsyms *k = NULL;

	assert_int_equal(parse_kallsyms(zero, strlen(zero), &k), -EACCES);
	assert_int_equal(parse_kallsyms("", 0, &k), -EACCES);
	assert_int_equal(parse_kallsyms(data, strlen(data), &k), -ENOENT);
	assert_null(k);
}

static void test_file(void **state)
{
	struct kallsyms *k = NULL;
	int r = read_kallsyms("/proc/kallsyms", &k);

	assert_true(r == 0 || r == -EACCES || r == -ENOENT);
	assert_int_equal(read_kallsyms("/nonexistent", &k), -ENOENT);
	/* A file without lines ends, too. */
	if (r == 0)
		assert_true(kallsyms_count(k) > 1000);
	kallsyms_free(k);
}

/* The names are those of the whole table, whatever order the file has. */
static void test_only_wanted(void **state)
{
	static const uint64_t pcs[] = {0x1000,
				       0xffffffff80ffffff,
				       0xffffffff81000000,
				       0xffffffff8100017f,
				       0xffffffff81000180,
				       0xffffffff810001f8,
				       0xffffffff81000240,
				       0xffffffff81000250,
				       0xffffffff90000000,
				       0xffffffffa0000010};
	struct kallsyms *all = NULL, *k = NULL;
	char path[] = "/tmp/spanprof-kallsyms-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, sample, strlen(sample)), strlen(sample));
	assert_int_equal(close(fd), 0);
	assert_int_equal(parse_kallsyms(sample, strlen(sample), &all), 0);
	assert_int_equal(read_kallsyms_of(path, pcs, ARRAY_SIZE(pcs), &k), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pcs); i++) {
		uint64_t off = 0, want_off = 0;
		const char *want = kallsyms_find(all, pcs[i], &want_off);
		const char *name = kallsyms_find(k, pcs[i], &off);

		assert_int_equal(!name, !want);
		if (want)
			assert_string_equal(name, want);
		assert_int_equal(off, want_off);
	}
	assert_true(kallsyms_count(k) < kallsyms_count(all));
	kallsyms_free(all);
	k = kallsyms_free(k);
	assert_int_equal(read_kallsyms_of(path, NULL, 0, &k), 0);
	assert_int_equal(kallsyms_count(k), 1);
	kallsyms_free(k);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_wanted), cmocka_unit_test(test_find),
		cmocka_unit_test(test_is_hidden),   cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
