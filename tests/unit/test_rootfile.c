/* SPDX-License-Identifier: Apache-2.0 */
/* test_rootfile.c: files below a root that somebody else has filled. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code/rootfile.h"
#include "tests/unit/unit.h"

struct root {
	char path[32];
	int fd;
};

static int setup(void **state)
{
	static struct root r;
	int fd;

	strcpy(r.path, "/tmp/spanprof-XXXXXX");
	assert_non_null(mkdtemp(r.path));
	r.fd = open(r.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(r.fd >= 0);
	fd = openat(r.fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "inside", 6), 6);
	close(fd);
	assert_int_equal(symlinkat("/file", r.fd, "absolute"), 0);
	assert_int_equal(symlinkat("../../../../file", r.fd, "upwards"), 0);
	assert_int_equal(symlinkat("/etc/passwd", r.fd, "out"), 0);
	assert_int_equal(symlinkat("loop", r.fd, "loop"), 0);
	assert_int_equal(mkfifoat(r.fd, "pipe", 0644), 0);
	assert_int_equal(mkdirat(r.fd, "folder", 0755), 0);
	*state = &r;
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = {"file", "absolute", "upwards", "out", "loop", "pipe"};
	struct root *r = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(unlinkat(r->fd, names[i], 0), 0);
	assert_int_equal(unlinkat(r->fd, "folder", AT_REMOVEDIR), 0);
	close(r->fd);
	return rmdir(r->path);
}

static int open_in(const struct root *r, const char *path)
{
	struct stat st = {};
	int fd = -1, result = rootfile_open(r->fd, path, &fd, &st);

	if (result == 0) {
		char text[6] = "";

		assert_int_equal(st.st_size, 6);
		assert_int_equal(read(fd, text, 6), 6);
		assert_memory_equal(text, "inside", 6);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
	}
	assert_int_equal(result == 0, fd >= 0);
	return result;
}

static void links_stay_inside(void **state)
{
	assert_int_equal(open_in(*state, "file"), 0);
	assert_int_equal(open_in(*state, "/file"), 0);
	assert_int_equal(open_in(*state, "/../../file"), 0);
	assert_int_equal(open_in(*state, "absolute"), 0);
	assert_int_equal(open_in(*state, "upwards"), 0);
	assert_int_equal(open_in(*state, "out"), -ENOENT);
	assert_int_equal(open_in(*state, "/etc/passwd"), -ENOENT);
	assert_int_equal(open_in(*state, "loop"), -ELOOP);
}

/* And none of them is waited for. */
static void what_is_no_regular_file(void **state)
{
	const struct root proc = {.fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};

	assert_int_equal(open_in(*state, "pipe"), -ENOENT);
	assert_int_equal(open_in(*state, "folder"), -ENOENT);
	assert_int_equal(open_in(*state, "file/x"), -ENOTDIR);
	/* Links that lead out of any root. */
	assert_int_equal(open_in(&proc, "self/exe"), -ELOOP);
	close(proc.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_stay_inside),
		cmocka_unit_test(what_is_no_regular_file),
	};

	return cmocka_run_group_tests_name("rootfile", tests, setup, teardown);
}
