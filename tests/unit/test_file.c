/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "tests/unit/unit.h"

/* Each test has a folder of its own, and is in it. */
static int enter_folder(void **state)
{
	static char path[PATH_MAX];

	strcpy(path, "/tmp/test_file-XXXXXX");
	*state = path;
	return mkdtemp(path) && !chdir(path) ? 0 : -1;
}

static int leave_folder(void **state)
{
	AUTO_FREE char *command = NULL;

	return !chdir("/") && asprintf(&command, "rm -rf '%s'", (char *)*state) > 0
		       ? system(command)
		       : -1;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void assert_content(const char *path, const char *want)
{
	AUTO_FREE char *text = NULL;
	size_t n;

	assert_int_equal(read_file(AT_FDCWD, path, 4096, &text, &n), 0);
	assert_string_equal(text, want);
}

static void assert_links_to(const char *path, const char *want)
{
	char to[PATH_MAX] = "";

	assert_true(readlink(path, to, sizeof(to) - 1) > 0);
	assert_string_equal(to, want);
}

static int n_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = -2; /* . and .. */

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void write_new(const char *path)
{
	struct file_out f = {};
	struct errmsg e = {};

	assert_int_equal(file_out_open(&f, path, &e), 0);
	fputs("new", f.stream);
	assert_int_equal(file_out_commit(&f, &e), 0);
	file_out_deinit(&f);
}

static void test_whole_or_not_at_all(void **state)
{
	struct file_out f = {};

	put("file", "old");
	assert_int_equal(file_out_open(&f, "file", NULL), 0);
	fputs("half", f.stream);
	fflush(f.stream);
	assert_content("file", "old");
	file_out_deinit(&f);
	assert_content("file", "old");
	assert_int_equal(n_entries("."), 1);
	write_new("file");
	assert_content("file", "new");
	assert_int_equal(n_entries("."), 1);
}

/* Names may tell what was asked for: who is let read is the caller's choice. */
static void test_mode_is_that_of_the_umask(void **state)
{
	mode_t mask = umask(0027);
	struct stat st;

	write_new("file");
	umask(mask);
	assert_int_equal(stat("file", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
}

static void test_through_links(void **state)
{
	struct file_out f = {};

	assert_int_equal(mkdir("data", 0700), 0);
	assert_int_equal(mkdir("links", 0700), 0);
	put("data/file", "old");
	assert_int_equal(symlink("../data/file", "links/one"), 0);
	assert_int_equal(symlink("links/one", "two"), 0);
	assert_int_equal(file_out_open(&f, "two", NULL), 0);
	fputs("half", f.stream);
	fflush(f.stream);
	assert_content("data/file", "old");
	file_out_deinit(&f);
	assert_content("data/file", "old");
	write_new("two");
	assert_content("data/file", "new");
	assert_links_to("two", "links/one");
	assert_links_to("links/one", "../data/file");
	assert_int_equal(n_entries("data"), 1);
	assert_int_equal(n_entries("links"), 1);
}

static void test_link_to_nothing(void **state)
{
	assert_int_equal(mkdir("data", 0700), 0);
	assert_int_equal(symlink("data/file", "link"), 0);
	write_new("link");
	assert_content("data/file", "new");
	assert_links_to("link", "data/file");
}

static void test_links_that_cannot_be_followed(void **state)
{
	struct file_out f = {};
	struct errmsg e = {};

	assert_int_equal(symlink("b", "a"), 0);
	assert_int_equal(symlink("a", "b"), 0);
	assert_int_equal(file_out_open(&f, "a", &e), -ELOOP);
	assert_non_null(strstr(e.text, "'a'"));
	assert_int_equal(symlink(".", "folder"), 0);
	assert_int_equal(file_out_open(&f, "folder", &e), -EISDIR);
	assert_int_equal(symlink("missing/file", "nowhere"), 0);
	assert_int_equal(file_out_open(&f, "nowhere", &e), -ENOENT);
	assert_int_equal(n_entries("."), 4);
}

static bool links_are_protected(void)
{
	AUTO_FREE char *text = NULL;
	size_t n;

	return !read_file(AT_FDCWD, "/proc/sys/fs/protected_symlinks", 16, &text, &n) &&
	       *text == '1';
}

/* Root's output must not go where somebody else's link in /tmp leads to. */
static void test_foreign_link_in_a_shared_folder(void **state)
{
	struct file_out f = {};

	if (geteuid() || !links_are_protected())
		skip();
	put("precious", "old");
	assert_int_equal(mkdir("shared", 0700), 0);
	assert_int_equal(chmod("shared", 01777), 0);
	assert_int_equal(symlink("../precious", "shared/link"), 0);
	assert_int_equal(symlink("../absent", "shared/dangling"), 0);
	assert_int_equal(lchown("shared/link", 65534, 65534), 0);
	assert_int_equal(lchown("shared/dangling", 65534, 65534), 0);
	assert_int_equal(file_out_open(&f, "shared/link", NULL), -EACCES);
	assert_int_equal(file_out_open(&f, "shared/dangling", NULL), -EACCES);
	assert_content("precious", "old");
	assert_int_equal(n_entries("."), 2);
}

static void test_pipe(void **state)
{
	char got[8] = "";
	int fd;

	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_int_equal(symlink("pipe", "link"), 0);
	fd = open("pipe", O_RDONLY | O_NONBLOCK);
	assert_true(fd >= 0);
	write_new("link");
	assert_int_equal(read(fd, got, sizeof(got)), 3);
	assert_string_equal(got, "new");
	close(fd);
	assert_links_to("link", "pipe");
	assert_int_equal(n_entries("."), 2);
}

/* As with -o /dev/fd/3 3>file: the shell's file, which may have lost its name. */
static void test_open_file(void **state)
{
	char link[32], got[8] = "";
	int fd = open("file", O_RDWR | O_CREAT, 0600);

	assert_true(fd >= 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	write_new(link);
	assert_content("file", "new");
	assert_int_equal(unlink("file"), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	write_new(link);
	assert_int_equal(pread(fd, got, sizeof(got), 0), 3);
	assert_int_equal(n_entries("."), 0);
	close(fd);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, enter_folder, leave_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_whole_or_not_at_all),
		IN_FOLDER(test_mode_is_that_of_the_umask),
		IN_FOLDER(test_through_links),
		IN_FOLDER(test_link_to_nothing),
		IN_FOLDER(test_links_that_cannot_be_followed),
		IN_FOLDER(test_foreign_link_in_a_shared_folder),
		IN_FOLDER(test_pipe),
		IN_FOLDER(test_open_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
