/* SPDX-License-Identifier: Apache-2.0 */
/* test_process_file.c: what the kernel's own names of mappings (map_files) do not give. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "code/process_file.h"
#include "tests/unit/unit.h"

struct fixture {
	int proc_fd;
	char folder[64];
	char path[96];
	struct process_file file; /* at an address where nothing is mapped */
};

static int setup(void **state)
{
	static struct fixture f;
	AUTO_FREE char *data = NULL;
	AUTO_CLOSE int fd = -1;
	struct stat st;
	size_t n;

	f = (struct fixture){.folder = "/tmp/test_process_file-XXXXXX"};
	if (!mkdtemp(f.folder))
		return -1;
	snprintf(f.path, sizeof(f.path), "%s/program", f.folder);
	fd = open(f.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	if (fd < 0 || read_file(AT_FDCWD, "/proc/self/exe", 1 << 28, &data, &n) ||
	    write(fd, data, n) != (ssize_t)n || fstat(fd, &st))
		return -1;
	f.proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f.file = (struct process_file){
		.start = 0x1000, .end = 0x2000, .dev = st.st_dev, .ino = st.st_ino, .path = f.path};
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close(f->proc_fd);
	unlink(f->path);
	return rmdir(f->folder);
}

static void test_by_path(void **state)
{
	struct fixture *f = *state;
	struct module *m;

	assert_int_equal(process_file_open(f->proc_fd, &f->file, &m, NULL), 0);
	assert_string_equal(module_path(m), f->path);
	module_unref(m);
}

/* A path that leads nowhere, but it is the program itself. */
static void test_by_exe(void **state)
{
	struct fixture *f = *state;
	struct module *m;
	struct stat st;

	assert_int_equal(stat("/proc/self/exe", &st), 0);
	f->file.dev = st.st_dev;
	f->file.ino = st.st_ino;
	f->file.path = "/nowhere";
	assert_int_equal(process_file_open(f->proc_fd, &f->file, &m, NULL), 0);
	module_unref(m);
}

static void test_other_file(void **state)
{
	struct fixture *f = *state;
	struct module *m;
	struct errmsg e;

	f->file.ino++;
	assert_int_equal(process_file_open(f->proc_fd, &f->file, &m, &e), -ESTALE);
	assert_non_null(strstr(e.text, "another file is there now"));
	assert_non_null(strstr(e.text, f->path));
}

static void test_no_file(void **state)
{
	struct fixture *f = *state;
	struct module *m;
	struct errmsg e;

	f->file.path = "/nowhere";
	assert_int_equal(process_file_open(f->proc_fd, &f->file, &m, &e), -ENOENT);
	assert_non_null(strstr(e.text, "'/nowhere'"));
	f->file.path = "relative";
	assert_int_equal(process_file_open(f->proc_fd, &f->file, &m, &e), -ENOENT);
}

/* Opening a pipe would block, opening a device may do things. */
static void test_not_a_file(void **state)
{
	struct fixture *f = *state;
	struct module *m;
	struct stat st;

	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	assert_int_equal(stat(f->path, &st), 0);
	f->file.ino = st.st_ino;
	assert_int_equal(process_file_open(f->proc_fd, &f->file, &m, NULL), -ESTALE);
}

static void test_vdso_elsewhere(void **state)
{
	struct fixture *f = *state;
	struct module *m;
	struct errmsg e;

	assert_true(process_file_open_vdso(f->proc_fd, 0x1000, 0x2000, &m, &e) < 0);
	assert_non_null(strstr(e.text, "vDSO"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_by_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_by_exe, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_a_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_vdso_elsewhere, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
