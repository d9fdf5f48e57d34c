/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "code/symbolize.h"
#include "code/symtab.h"
#include "tests/unit/elf/open.h"

struct fixture {
	struct profile *p;
	struct symbolizer *s;
};

static void begin(struct fixture *f, const char *debug_dir, bool lines)
{
	char dir[PATH_MAX];
	struct symbolize_options o = {.debug_dirs = elf_path(debug_dir, dir), .lines = lines};

	memset(f, 0, sizeof(*f));
	assert_int_equal(profile_new(&f->p), 0);
	assert_int_equal(symbolizer_new(&f->s, f->p, &o), 0);
}

static void end(struct fixture *f)
{
	symbolizer_free(f->s);
	profile_free(f->p);
}

static const char *text(const struct fixture *f, uint32_t id)
{
	return strpool_get(f->p->strings, id);
}

static const struct profile_frame *frame(const struct fixture *f, uint32_t location, uint32_t i)
{
	const struct profile_location *l = &f->p->locations.at[location];

	assert_true(i < l->n_frames);
	return &f->p->frames.at[f->p->frame_runs.at[l->first_frame + i]];
}

static struct symtab_symbol find_one(struct module *m, const char *name)
{
	struct symtab_list list = {0};
	struct symtab_symbol sym;
	struct symtab *st = NULL;

	assert_int_equal(symtab_new(&st, m, NULL), 0);
	assert_int_equal(symtab_find_name(st, name, &list), 0);
	assert_true(list.n > 0);
	sym = list.at[0];
	sym.name = NULL;
	vec_free(&list);
	symtab_free(st);
	return sym;
}

static uint32_t look(struct fixture *f, struct module *m, uint64_t vaddr, bool return_address)
{
	uint32_t location = 0;

	assert_int_equal(symbolize_module(f->s, m, vaddr, return_address, 0, vaddr + 0x555500000000,
					  &location),
			 0);
	assert_true(location > 0 && location < f->p->locations.n);
	return location;
}

static void test_function(void **state)
{
	struct module *m = elf_open("lines");
	struct symtab_symbol outer = find_one(m, "outer");
	const struct profile_module *pm;
	struct fixture f;
	uint32_t l;

	begin(&f, "debug", false);
	l = look(&f, m, outer.vaddr, false);
	assert_int_equal(f.p->locations.at[l].n_frames, 1);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "outer");
	assert_string_equal(text(&f, frame(&f, l, 0)->system_name), "outer");
	assert_string_equal(text(&f, frame(&f, l, 0)->file), "");
	assert_int_equal(frame(&f, l, 0)->flags, 0);
	assert_int_equal(f.p->locations.at[l].module_off, outer.vaddr);
	assert_int_equal(f.p->locations.at[l].address, outer.vaddr + 0x555500000000);
	pm = &f.p->modules.at[f.p->locations.at[l].module];
	assert_string_equal(text(&f, pm->path), module_path(m));
	assert_int_equal(pm->build_id_bytes, 20);
	assert_true(pm->start <= outer.vaddr + 0x555500000000);
	assert_true(pm->limit > outer.vaddr + 0x555500000000);
	assert_int_equal(pm->start - pm->offset, 0x555500000000);
	end(&f);
	module_unref(m);
}

static void test_once(void **state)
{
	struct module *m = elf_open("lines");
	struct symtab_symbol outer = find_one(m, "outer");
	struct fixture f;
	uint32_t l;
	size_t n;

	begin(&f, "debug", true);
	l = look(&f, m, outer.vaddr + 4, false);
	n = f.p->locations.n;
	assert_int_equal(look(&f, m, outer.vaddr + 4, false), l);
	/* A return address stands for the call before it. */
	assert_int_equal(look(&f, m, outer.vaddr + 5, true), l);
	assert_int_equal(f.p->locations.n, n);
	end(&f);
	module_unref(m);
}

/* Behind a function's last call comes the next function, or nothing. */
static void test_return_address(void **state)
{
	struct module *m = elf_open("lines");
	struct symtab_symbol outer = find_one(m, "outer");
	struct fixture f;
	uint32_t l;

	begin(&f, "debug", false);
	l = look(&f, m, outer.vaddr + outer.size, true);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "outer");
	end(&f);
	module_unref(m);
}

static void test_inlined(void **state)
{
	struct module *m = elf_open("lines");
	struct symtab_symbol outer = find_one(m, "outer");
	struct fixture f;
	bool seen = false;

	begin(&f, "debug", true);
	for (uint64_t a = outer.vaddr; a < outer.vaddr + outer.size; a++) {
		uint32_t l = look(&f, m, a, false);

		if (f.p->locations.at[l].n_frames != 3 || frame(&f, l, 0)->line != 102)
			continue;
		assert_string_equal(text(&f, frame(&f, l, 0)->function), "innermost");
		assert_string_equal(text(&f, frame(&f, l, 1)->function), "middle");
		assert_string_equal(text(&f, frame(&f, l, 2)->function), "outer");
		assert_int_equal(frame(&f, l, 0)->flags, PROFILE_FRAME_INLINED);
		assert_int_equal(frame(&f, l, 1)->flags, PROFILE_FRAME_INLINED);
		assert_int_equal(frame(&f, l, 2)->flags, 0);
		assert_int_equal(frame(&f, l, 2)->line, 302);
		assert_int_equal(frame(&f, l, 2)->start_line, 300);
		/* The function as a whole is not in what is inlined there. */
		assert_int_equal(symbolize_module(f.s, m, a, false, PROFILE_LOCATION_FUNCTION,
						  0x7f0000000000 + a, &l),
				 0);
		assert_int_equal(f.p->locations.at[l].n_frames, 1);
		assert_string_equal(text(&f, frame(&f, l, 0)->function), "outer");
		assert_int_equal(frame(&f, l, 0)->flags, 0);
		seen = true;
	}
	assert_true(seen);
	end(&f);
	module_unref(m);
}

static void test_debug_file(void **state)
{
	struct module *full = elf_open("lines"), *m = elf_open("lines-split");
	struct symtab_symbol hidden = find_one(full, "hidden");
	struct fixture f;
	uint32_t l;

	begin(&f, "debug", true);
	l = look(&f, m, hidden.vaddr, false);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "hidden");
	assert_true(frame(&f, l, 0)->line >= 401 && frame(&f, l, 0)->line <= 402);
	assert_int_equal(frame(&f, l, 0)->start_line, 400);
	end(&f);
	module_unref(m);
	module_unref(full);
}

static void count_left_out(void *ctx, const char *path)
{
	assert_true(strstr(path, "packed/lines"));
	++*(int *)ctx;
}

/* Debug information over its limit: the symbol table's names, said and counted once. */
static void test_debug_too_large(void **state)
{
	struct module *m = elf_open("packed/lines");
	uint64_t vaddr = find_one(m, "outer").vaddr;
	int n_told = 0;
	struct symbolize_options o = {.lines = true,
				      .debug_max_bytes = 1,
				      .on_debug_left_out = count_left_out,
				      .ctx = &n_told};
	struct fixture f = {};
	uint32_t l;

	assert_int_equal(profile_new(&f.p), 0);
	assert_int_equal(symbolizer_new(&f.s, f.p, &o), 0);
	for (int i = 0; i < 3; i++) {
		l = look(&f, m, vaddr + i, false);
		assert_string_equal(text(&f, frame(&f, l, 0)->function), "outer");
		assert_int_equal(frame(&f, l, 0)->line, 0);
		symbolizer_rest(f.s);
	}
	assert_int_equal(n_told, 1);
	assert_int_equal(f.p->counters.v[COUNTER_DEBUG_LEFT_OUT], 1);
	end(&f);
	module_unref(m);
}

/* Without a symbol: module and start of the function, the same for all of its addresses. */
static void test_unknown(void **state)
{
	struct module *full = elf_open("linked"), *m = elf_open("nothing");
	struct symtab_symbol outer = find_one(full, "outer");
	char want[64];
	struct fixture f;
	uint32_t l;

	begin(&f, "beside", true);
	l = look(&f, m, outer.vaddr + 7, false);
	snprintf(want, sizeof(want), "nothing+0x%" PRIx64, outer.vaddr);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), want);
	assert_int_equal(frame(&f, l, 0)->flags, PROFILE_FRAME_UNKNOWN);
	assert_string_equal(text(&f, frame(&f, look(&f, m, outer.vaddr + 9, false), 0)->function),
			    want);
	snprintf(want, sizeof(want), "nothing+0x%" PRIx64, outer.vaddr + outer.size);
	l = look(&f, m, outer.vaddr + outer.size, false);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), want);
	end(&f);
	module_unref(m);
	module_unref(full);
}

static void test_cplusplus(void **state)
{
	struct module *m = elf_open_or_skip("names-c++");
	struct symtab_symbol bill = find_one(m, "shop::Order::bill(int)");
	struct fixture f;
	uint32_t l;

	begin(&f, "debug", true);
	l = look(&f, m, bill.vaddr, false);
	assert_int_equal(f.p->locations.at[l].n_frames, 2);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "shop::Order::price");
	assert_string_equal(text(&f, frame(&f, l, 0)->system_name), "_ZNK4shop5Order5priceEi");
	assert_string_equal(text(&f, frame(&f, l, 1)->function), "shop::Order::bill");
	assert_string_equal(text(&f, frame(&f, l, 1)->system_name), "_ZN4shop5Order4billEi");
	end(&f);
	module_unref(m);
}

/* The linkage stub of a libc function in a real program. */
static void test_plt(void **state)
{
	struct errmsg e = {0};
	struct module *m = NULL;
	unsigned long long addr = 0, size = 0;
	char line[512];
	struct fixture f;
	bool seen = false;
	int fd = open("/lib/x86_64-linux-gnu/libdw.so.1", O_RDONLY | O_CLOEXEC);
	FILE *in;

	if (fd < 0)
		skip();
	in = popen("readelf -SW /lib/x86_64-linux-gnu/libdw.so.1 2>/dev/null", "re");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		const char *p = strstr(line, " .plt.sec ");

		p = p ? p : strstr(line, " .plt ");
		if (p)
			sscanf(p, " %*s %*s %llx %*x %llx", &addr, &size);
	}
	pclose(in);
	if (!addr) {
		close(fd);
		skip();
	}
	assert_int_equal(module_open_fd(&m, fd, "/lib/x86_64-linux-gnu/libdw.so.1", &e), 0);
	begin(&f, "debug", false);
	for (uint64_t a = addr; a < addr + size; a += 16) {
		uint32_t l = look(&f, m, a + 4, false);

		if (strcmp(text(&f, frame(&f, l, 0)->function), "strcmp@plt") == 0)
			seen = true;
	}
	assert_true(seen);
	end(&f);
	module_unref(m);
}

static void test_vdso(void **state)
{
	struct errmsg e = {0};
	struct module *m = NULL;
	struct symtab_symbol sym;
	struct fixture f;
	uint32_t l;

	assert_int_equal(module_open_own_vdso(&m, &e), 0);
	sym = find_one(m, "__vdso_clock_gettime");
	begin(&f, "debug", true);
	l = look(&f, m, sym.vaddr + 1, false);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "clock_gettime");
	end(&f);
	module_unref(m);
}

static void test_kernel(void **state)
{
	struct fixture f;
	uint32_t a = 0, b = 0;

	begin(&f, "debug", false);
	assert_int_equal(symbolize_kernel(f.s, 0x1000, &a), 0);
	assert_string_equal(text(&f, frame(&f, a, 0)->function), "[kernel]");
	assert_int_equal(frame(&f, a, 0)->flags, PROFILE_FRAME_KERNEL | PROFILE_FRAME_UNKNOWN);
	assert_int_equal(symbolize_kernel(f.s, 0x2000, &b), 0);
	assert_int_equal(a, b);
	assert_int_equal(f.p->locations.at[a].address, 0);
	end(&f);
}

static void test_kernel_together(void **state)
{
	uint64_t pcs[] = {0x1000, 0x2000};
	struct fixture f;
	uint32_t found[2] = {}, a = 0;

	begin(&f, "debug", false);
	assert_int_equal(symbolize_kernel_all(f.s, pcs, 2, found), 0);
	assert_int_equal(symbolize_kernel(f.s, 0x1000, &a), 0);
	assert_int_equal(found[0], a);
	assert_int_equal(found[1], a);
	assert_int_equal(symbolize_kernel_all(f.s, pcs, 0, found), 0);
	end(&f);
}

static uint32_t look_anonymous(struct fixture *f, pid_t pid, uint64_t pc)
{
	uint32_t l = 0;

	assert_int_equal(symbolize_anonymous(f->s, pid, pc, false, 0, &l), 0);
	return l;
}

static void test_jit(void **state)
{
	char path[64];
	struct fixture f;
	FILE *map;
	uint32_t l;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "wxe");
	assert_non_null(map);
	fputs("10000 100 LazyCompile:\033[2J~main\n", map);
	fclose(map);
	begin(&f, "debug", false);
	l = look_anonymous(&f, getpid(), 0x10010);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "LazyCompile:?[2J~main");
	l = look_anonymous(&f, getpid(), 0x20010);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "[unknown]");
	assert_int_equal(look_anonymous(&f, getpid(), 0x30010), l);
	unlink(path);
	/* A process that is gone. */
	assert_int_equal(look_anonymous(&f, 0x7ffffff0, 0x30010), l);
	end(&f);
}

/* The init process of a pid namespace with a file system of its own at `dir`; never returns. */
static void run_container(const char *dir, const char *script, int ready)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("none", dir, "tmpfs", 0, NULL) == 0 && system(script) == 0 &&
	    write(ready, "", 1) == 1)
		for (;;)
			pause();
	_exit(1);
}

/*
 * A process as in a container; in `dir` is what `script` made there, which nobody else sees. Its pid as we
 * see it, or 0 when that cannot be had. ret_outer: to be waited for.
 */
static pid_t start_container(const char *dir, const char *script, pid_t *ret_outer)
{
	int ready[2], pids[2];
	pid_t pid = 0;
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(pids), 0);
	*ret_outer = fork();
	if (*ret_outer == 0) {
		if (unshare(CLONE_NEWNS | CLONE_NEWPID) == 0)
			pid = fork();
		else
			pid = -1;
		if (pid == 0)
			run_container(dir, script, ready[1]);
		if (write(pids[1], &pid, sizeof(pid)) > 0 && pid > 0)
			waitpid(pid, NULL, 0);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(pids[0], &pid, sizeof(pid)), sizeof(pid));
	if (pid < 0 || read(ready[0], &byte, 1) != 1)
		pid = 0;
	close(ready[0]);
	close(pids[0]);
	close(pids[1]);
	return pid;
}

static void stop_container(pid_t pid, pid_t outer)
{
	if (pid)
		kill(pid, SIGKILL);
	waitpid(outer, NULL, 0);
}

static void test_jit_in_container(void **state)
{
	pid_t outer,
		pid = start_container("/tmp", "echo '10000 100 inside' >/tmp/perf-1.map", &outer);
	struct fixture f;
	uint32_t l;

	if (!pid) {
		stop_container(pid, outer);
		skip();
	}
	begin(&f, "debug", false);
	l = look_anonymous(&f, pid, 0x10010);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "inside");
	end(&f);
	stop_container(pid, outer);
}

/* The debug file is where only the process sees it, and is still found after the process has gone. */
static void test_debug_file_in_container(void **state)
{
	char dir[] = "/var/tmp/test_symbolize.XXXXXX", from[PATH_MAX], script[PATH_MAX + 100];
	struct symbolize_options o = {.debug_dirs = dir};
	struct module *full = elf_open("lines"), *m = elf_open("lines-split");
	struct symtab_symbol hidden = find_one(full, "hidden");
	struct fixture f = {0};
	pid_t outer, pid;
	uint32_t l;

	module_unref(full);
	assert_non_null(mkdtemp(dir));
	snprintf(script, sizeof(script), "cp -r %s/.build-id %s", elf_path("debug", from), dir);
	pid = start_container(dir, script, &outer);
	if (pid) {
		assert_int_equal(profile_new(&f.p), 0);
		assert_int_equal(symbolizer_new(&f.s, f.p, &o), 0);
		assert_int_equal(symbolizer_use_process(f.s, pid), 0);
		stop_container(pid, outer);
		assert_int_equal(symbolizer_use_process(f.s, getpid()), 0);
		assert_int_equal(symbolizer_use_process(f.s, pid), 0);
		l = look(&f, m, hidden.vaddr, false);
		assert_string_equal(text(&f, frame(&f, l, 0)->function), "hidden");
		/* What was noted is held, whichever process is looked at later. */
		symbolizer_close_module(f.s, m);
		assert_int_equal(symbolizer_note_module(f.s, m, hidden.vaddr, 0), 0);
		assert_int_equal(symbolizer_use_process(f.s, getpid()), 0);
		l = look(&f, m, hidden.vaddr + 1, false);
		assert_string_equal(text(&f, frame(&f, l, 0)->function), "hidden");
		symbolizer_rest(f.s); /* the same, of all modules */
		l = look(&f, m, hidden.vaddr + 2, false);
		assert_true(frame(&f, l, 0)->flags & PROFILE_FRAME_UNKNOWN);
		end(&f);
	} else {
		stop_container(pid, outer);
	}
	module_unref(m);
	assert_int_equal(rmdir(dir), 0);
	if (!pid)
		skip();
}

/* The pool is full: names are replaced and counted, nothing fails. */
static void test_strings_full(void **state)
{
	struct module *m = elf_open("lines");
	struct symtab_symbol outer = find_one(m, "outer");
	struct symbolize_options o = {.lines = true};
	struct fixture f = {0};
	uint32_t l, id;
	char fill[4096];

	assert_int_equal(profile_new(&f.p), 0);
	strpool_free(f.p->strings);
	assert_int_equal(strpool_new(&f.p->strings, 64 << 10), 0);
	assert_int_equal(symbolizer_new(&f.s, f.p, &o), 0);
	for (int i = 0; i < 100000; i++) {
		snprintf(fill, sizeof(fill), "%0*d", 1000, i);
		if (strpool_add(f.p->strings, fill, &id))
			break;
	}
	while (snprintf(fill, sizeof(fill), "%u", strpool_count(f.p->strings)) > 0 &&
	       strpool_add(f.p->strings, fill, &id) == 0)
		;
	l = look(&f, m, outer.vaddr, false);
	assert_string_equal(text(&f, frame(&f, l, 0)->function), "[strings full]");
	assert_true(f.p->counters.v[COUNTER_STRINGS_FULL] > 0);
	end(&f);
	module_unref(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_function),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_return_address),
		cmocka_unit_test(test_inlined),
		cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_debug_too_large),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_cplusplus),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_kernel_together),
		cmocka_unit_test(test_jit),
		cmocka_unit_test(test_jit_in_container),
		cmocka_unit_test(test_debug_file_in_container),
		cmocka_unit_test(test_strings_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
