/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kern.c: what of it needs no kernel's consent: how a file is told from others. The loaded programs
 * are tested in tests/bpf.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipe/kern.h"
#include "tests/unit/unit.h"

static struct wire_file_key key_of(int fd)
{
	struct wire_file_key key = {};

	assert_true(fd >= 0);
	assert_int_equal(kern_file_key(fd, &key), 0);
	return key;
}

static void a_file_by_any_descriptor(void **state)
{
	int one = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int again = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int other = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	struct wire_file_key a = key_of(one), b = key_of(again), c = key_of(other);
	struct stat st;

	assert_int_equal(fstat(one, &st), 0);
	assert_int_equal(a.ino, st.st_ino);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_not_equal(&a, &c, sizeof(a));
	close(one);
	close(again);
	close(other);
}

/* As /proc/PID/maps shows the program that runs, which is how BPF sees it. */
static void as_the_mapping_has_it(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct wire_file_key key = key_of(fd);
	unsigned long start, end, ino, here = (uintptr_t)key_of;
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int major, minor;
	bool found = false;
	char line[4096];

	assert_non_null(maps);
	while (!found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx %*s %*s %x:%x %lu", &start, &end, &major, &minor,
			       &ino) == 5 &&
			here >= start && here < end;
	fclose(maps);
	assert_true(found);
	assert_int_equal(key.dev, (uint64_t)major << 20 | minor);
	assert_int_equal(key.ino, ino);
	close(fd);
}

/* The key is set on success only. */
static void what_cannot_be_mapped(void **state)
{
	struct wire_file_key key = {.ino = 1};
	int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int empty = memfd_create("empty", MFD_CLOEXEC);
	struct wire_file_key of_empty = key_of(empty);

	assert_int_equal(kern_file_key(-1, &key), -EBADF);
	assert_int_equal(kern_file_key(folder, &key), -ENODEV);
	assert_int_equal(key.ino, 1);
	assert_int_not_equal(of_empty.ino, 0);
	close(folder);
	close(empty);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_by_any_descriptor),
		cmocka_unit_test(as_the_mapping_has_it),
		cmocka_unit_test(what_cannot_be_mapped),
	};

	return cmocka_run_group_tests_name("kern", tests, NULL, NULL);
}
