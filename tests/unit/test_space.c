/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "code/space.h"
#include "tests/unit/unit.h"

enum { MAP_BYTES = 8192 };

/* A program file of this very test, mapped executable at `at`; the test's own mappings are looked at. */
struct fixture {
	struct space_cache *cache;
	struct space *space;
	char path[64];
	uint8_t *at;
};

static void copy_self(const char *path)
{
	AUTO_FREE char *data = NULL;
	AUTO_CLOSE int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700);
	size_t n;

	assert_true(fd >= 0);
	assert_int_equal(read_file(AT_FDCWD, "/proc/self/exe", 1 << 28, &data, &n), 0);
	assert_int_equal(write(fd, data, n), n);
}

static uint8_t *map_file(const char *path, uint8_t *at)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(at, MAP_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd,
		       0);

	assert_true(p != MAP_FAILED);
	return p;
}

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){.path = "/tmp/test_space-XXXXXX"};
	if (!mkdtemp(f.path))
		return -1;
	strcat(f.path, "/a b");
	copy_self(f.path);
	f.at = map_file(f.path, NULL);
	*state = &f;
	if (space_cache_new(&f.cache) || space_new(&f.space, f.cache, getpid()))
		return -1;
	return space_refresh(f.space);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	munmap(f->at, MAP_BYTES);
	unlink(f->path);
	*strrchr(f->path, '/') = 0;
	rmdir(f->path);
	assert_null(space_free(f->space));
	assert_null(space_cache_free(f->cache));
	return 0;
}

static void test_find(void **state)
{
	struct fixture *f = *state;
	const struct space_range *r = space_find(f->space, (uint64_t)f->at + 100);
	struct module *m;
	struct stat st;
	uint64_t vaddr;

	assert_non_null(r);
	assert_int_equal(r->kind, SPACE_FILE);
	assert_int_equal(r->start, (uint64_t)f->at);
	assert_int_equal(r->end, (uint64_t)f->at + MAP_BYTES);
	assert_string_equal(r->path, f->path);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(r->ino, st.st_ino);
	assert_non_null(r->module);
	assert_int_equal(module_bytes(r->module), st.st_size);
	assert_true(space_resolve(f->space, (uint64_t)f->at + 100, &m, &vaddr));
	assert_ptr_equal(m, r->module);
	assert_int_equal(vaddr, 100);
	assert_null(space_find(f->space, 16));
	assert_false(space_resolve(f->space, 16, &m, &vaddr));
}

static void test_ranges_are_sorted(void **state)
{
	struct fixture *f = *state;
	const struct space_range *r;
	size_t n = space_ranges(f->space, &r), n_vdso = 0;

	assert_true(n >= 4);
	for (size_t i = 0; i < n; i++) {
		assert_true(!i || r[i - 1].end <= r[i].start);
		n_vdso += r[i].kind == SPACE_VDSO;
	}
	assert_int_equal(n_vdso, 1);
}

static void test_vdso(void **state)
{
	struct fixture *f = *state;
	const struct space_range *r;
	size_t n = space_ranges(f->space, &r);

	for (size_t i = 0; i < n; i++) {
		if (r[i].kind != SPACE_VDSO)
			continue;
		assert_ptr_equal(space_find(f->space, r[i].start + 64), &r[i]);
		assert_non_null(r[i].module);
		assert_int_equal(module_kind(r[i].module), MODULE_VDSO);
	}
}

/* The file is replaced after it was mapped: what is mapped is used. */
static void test_replaced_file(void **state)
{
	struct fixture *f = *state;
	const struct space_range *r;

	if (geteuid()) {
		print_message("a replaced file can be opened only by root\n");
		skip();
	}
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(symlink("/etc/passwd", f->path), 0);
	assert_int_equal(space_refresh(f->space), 0);
	r = space_find(f->space, (uint64_t)f->at);
	assert_non_null(r);
	assert_string_equal(r->path, f->path);
	assert_non_null(r->module);
	assert_true(module_bytes(r->module) > MAP_BYTES);
}

static void test_modules_are_shared(void **state)
{
	struct fixture *f = *state;
	struct space *other;
	const struct space_range *a, *b;

	assert_int_equal(space_new(&other, f->cache, getpid()), 0);
	assert_int_equal(space_refresh(other), 0);
	a = space_find(f->space, (uint64_t)f->at);
	b = space_find(other, (uint64_t)f->at);
	assert_true(a && b && a->module);
	assert_ptr_equal(a->module, b->module);
	space_free(other);
	assert_non_null(module_path(a->module));
}

/* Executable memory of a file that is not ELF is like memory of no file. */
static void test_not_elf(void **state)
{
	struct fixture *f = *state;
	AUTO_CLOSE int fd = memfd_create("jit code", MFD_CLOEXEC);
	const struct space_range *r;
	void *p;

	assert_int_equal(ftruncate(fd, MAP_BYTES), 0);
	p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(space_refresh(f->space), 0);
	r = space_find(f->space, (uint64_t)p);
	assert_non_null(r);
	assert_int_equal(r->kind, SPACE_ANONYMOUS);
	assert_null(r->module);
	assert_string_equal(r->path, "/memfd:jit code");
	munmap(p, MAP_BYTES);
}

/* A walk that starts at pc, with nothing on the stack. */
static enum stack_stop walk(struct fixture *f, uint64_t pc, uint64_t mono_ns, struct counters *c)
{
	static struct unwind_stack stack;
	struct wire_regs regs = {.r = {[WIRE_REG_RSP] = 0x1000, [WIRE_REG_RIP] = pc}};
	struct wire_snap_span span = {.entry_sp = 0x2000};
	struct unwind_input in = {
		.regs = &regs, .window_start = 0x1000, .spans = &span, .n_spans = 1};

	space_unwind(f->space, &in, mono_ns, &stack, c);
	return stack.stop;
}

/* New mappings are found when a PC is in none; not more often than the interval says. */
static void test_refresh(void **state)
{
	struct fixture *f = *state;
	struct counters c = {};
	void *p, *q;

	assert_int_equal(walk(f, 16, 1000, &c), STACK_STOP_NO_MODULE);
	p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(walk(f, (uint64_t)p, 1000 + SPACE_REFRESH_NS - 1, &c),
			 STACK_STOP_NO_MODULE);
	assert_int_equal(walk(f, (uint64_t)p, 1000 + SPACE_REFRESH_NS, &c), STACK_STOP_NO_CFI);
	assert_int_equal(c.v[COUNTER_UNWIND_NO_MODULE], 2);
	assert_int_equal(c.v[COUNTER_UNWIND_NO_CFI], 1);
	/* another file at the same place: dlclose() and dlopen() */
	q = map_file(f->path, p);
	assert_ptr_equal(p, q);
	assert_int_equal(walk(f, (uint64_t)p, 1001 + 2 * SPACE_REFRESH_NS, &c), STACK_STOP_NO_CFI);
	assert_non_null(space_find(f->space, (uint64_t)p)->module);
	munmap(p, MAP_BYTES);
	assert_int_equal(walk(f, (uint64_t)p, 1002 + 3 * SPACE_REFRESH_NS, &c),
			 STACK_STOP_NO_MODULE);
	assert_int_equal(c.v[COUNTER_MAPS_UNREADABLE], 0);
}

/* A file that is mapped but cannot be read: where in it is known, how to unwind is not. */
static void test_file_not_there(void **state)
{
	struct fixture *f = *state;
	const struct space_range r = {.start = 0x7000,
				      .end = 0x9000,
				      .file_off = 0x3000,
				      .kind = SPACE_FILE,
				      .path = "/srv/gone"};
	const struct space_range jit = {.start = 0xa000, .end = 0xb000, .kind = SPACE_ANONYMOUS};
	struct counters c = {};
	struct module *m;
	const char *path;
	uint64_t at;
	struct space *s;

	assert_int_equal(space_new(&s, f->cache, 0), 0);
	assert_int_equal(space_add_range(s, &r), 0);
	assert_int_equal(space_add_range(s, &jit), 0);
	assert_int_equal(walk(&(struct fixture){.space = s}, 0x8010, 1, &c), STACK_STOP_NO_FILE);
	assert_int_equal(c.v[COUNTER_UNWIND_NO_FILE], 1);
	assert_false(space_resolve(s, 0x8010, &m, &at));
	assert_true(space_locate(s, 0x8010, &path, &at));
	assert_string_equal(path, "/srv/gone");
	assert_int_equal(at, 0x4010);
	assert_false(space_locate(s, 0xa010, &path, &at));
	assert_false(space_locate(s, 0x10, &path, &at));
	space_free(s);
}

static void test_process_gone(void **state)
{
	struct fixture *f = *state;
	const struct space_range *r;
	struct counters c = {};
	struct space *s;
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_int_equal(space_new(&s, f->cache, pid), 0);
	assert_int_equal(space_refresh(s), 0);
	assert_non_null(space_find(s, (uint64_t)f->at)->module);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(space_refresh(s), -ESRCH);
	r = space_find(s, (uint64_t)f->at + 1);
	assert_non_null(r);
	assert_non_null(r->module);
	assert_int_equal(walk(&(struct fixture){.space = s}, 16, 1, &c), STACK_STOP_NO_MODULE);
	assert_int_equal(c.v[COUNTER_MAPS_UNREADABLE], 1);
	space_free(s);
	assert_int_equal(space_new(&s, f->cache, pid), -ESRCH);
}

static void test_replay(void **state)
{
	struct fixture *f = *state;
	struct space_range r = {.start = 0x5000, .end = 0x7000, .path = "/x"};
	const struct space_range *all;
	struct module *m;
	struct space *s;
	uint64_t vaddr;

	assert_int_equal(module_open_fd(&m, open(f->path, O_RDONLY | O_CLOEXEC), "/x", NULL), 0);
	assert_int_equal(space_new(&s, f->cache, 0), 0);
	assert_int_equal(space_refresh(s), -ESRCH);
	r.module = m;
	assert_int_equal(space_add_range(s, &r), 0);
	assert_int_equal(space_add_range(s, &r), -EINVAL);
	r.module = NULL;
	r.start = 0x1000;
	r.end = 0x5001;
	assert_int_equal(space_add_range(s, &r), -EINVAL);
	r.end = 0x5000;
	assert_int_equal(space_add_range(s, &r), 0);
	r.start = 0x8000;
	r.end = 0x7000;
	assert_int_equal(space_add_range(s, &r), -EINVAL);
	assert_int_equal(space_ranges(s, &all), 2);
	assert_int_equal(all[0].start, 0x1000);
	assert_true(space_resolve(s, 0x5010, &m, &vaddr));
	assert_int_equal(vaddr, 0x10);
	assert_false(space_resolve(s, 0x1010, &m, &vaddr));
	module_unref(m);
	space_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_find, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ranges_are_sorted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_vdso, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replaced_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modules_are_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_elf, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refresh, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_process_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replay, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
