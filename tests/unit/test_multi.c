/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_multi.c: links of uprobes in this very process and in a child. As root, on kernels that have them.
 *
 * The program keeps the cookie of the probe that it was called for.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>

#include "base/cleanup.h"
#include "child.h"
#include "code/module.h"
#include "probe/multi.h"
#include "self.h"

/* clang-format off */
__asm__(
	".text\n"
	".globl multi_one, multi_two, multi_around\n"
	".type multi_one, @function\n"
	"multi_one:\n"
	"	push %rbp\n"
	"	mov $1, %eax\n"
	"	pop %rbp\n"
	"	ret\n"
	".size multi_one, . - multi_one\n"
	".type multi_two, @function\n"
	"multi_two:\n"
	"	push %rbp\n"
	"	mov $2, %eax\n"
	"	pop %rbp\n"
	"	ret\n"
	".size multi_two, . - multi_two\n"
	".type multi_around, @function\n"
	"multi_around:\n"
	"	push %rbp\n"
	"	call *%rdi\n"
	"	pop %rbp\n"
	"	ret\n"
	".size multi_around, . - multi_around\n");
/* clang-format on */

int multi_one(void);
int multi_two(void);
void multi_around(void (*fn)(void));

enum { PUSH = 0x55, TRAP = 0xcc };

struct world {
	struct self *self;
	int map_fd;
	int program_fd;
	int file_fd;
	uint64_t one_off, two_off, around_off; /* in the file */
};

static int load_program(int map_fd)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie},
		{.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 10, .src_reg = 0, .off = -16},
		{.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 10, .off = -4},
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = 1,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = map_fd},
		{},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 3, .src_reg = 10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 3, .imm = -16},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 4},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_update_elem},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)MULTI_ATTACH_TYPE);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", insns, ARRAY_SIZE(insns), &opts);
}

static uint64_t offset_of(const struct self *self, const void *at)
{
	struct module *m;
	uint64_t off;
	struct errmsg e;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(module_open_fd(&m, fd, "/self", &e), 0);
	assert_true(module_offset_of_vaddr(m, (uintptr_t)at - self->bias, &off));
	module_unref(m);
	return off;
}

static int setup(void **state)
{
	static struct world w;
	void *self;

	if (self_setup(&self))
		return -1;
	w.self = self;
	*state = &w;
	w.program_fd = -1;
	w.file_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	w.one_off = offset_of(w.self, multi_one);
	w.two_off = offset_of(w.self, multi_two);
	w.around_off = offset_of(w.self, multi_around);
	w.map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "cookie", 4, 8, 1, NULL);
	w.program_fd = load_program(w.map_fd);
	return w.file_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	void *self = w->self;

	close(w->file_fd);
	cleanup_fd(&w->map_fd);
	cleanup_fd(&w->program_fd);
	return self_teardown(&self);
}

static struct world *world(void **state)
{
	struct world *w = *state;

	if (w->program_fd < 0) {
		print_message("needs root, and Linux 6.6\n");
		skip();
	}
	return w;
}

static struct attach_point at(const struct world *w, uint64_t off)
{
	return (struct attach_point){.file_fd = w->file_fd,
				     .file_off = off,
				     .pid = getpid(),
				     .program_fd = w->program_fd};
}

static uint8_t byte_of(pid_t pid, const void *address)
{
	char path[32];
	uint8_t byte = 0;
	AUTO_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, (off_t)(uintptr_t)address), 1);
	return byte;
}

static uint64_t last_cookie(const struct world *w)
{
	uint32_t zero = 0;
	uint64_t cookie = 0;

	assert_int_equal(bpf_map_lookup_elem(w->map_fd, &zero, &cookie), 0);
	return cookie;
}

static void one_place(void **state)
{
	struct world *w = world(state);
	struct attach_point point = at(w, w->one_off);
	int fd;

	point.cookie = 0x1122334455667788;
	fd = multi_attach(&point);
	assert_true(fd >= 0);
	assert_int_equal(byte_of(getpid(), multi_one), TRAP);
	assert_int_equal(byte_of(getpid(), multi_two), PUSH);
	assert_int_equal(multi_one(), 1);
	assert_int_equal(last_cookie(w), point.cookie);
	close(fd);
	assert_int_equal(byte_of(getpid(), multi_one), PUSH);
}

static const struct world *inside;
static uint64_t cookie_inside;

static void look_inside(void)
{
	cookie_inside = last_cookie(inside);
}

/* The program is called as the function returns, and not before. */
static void a_return(void **state)
{
	struct world *w = world(state);
	struct attach_point point = at(w, w->around_off);
	int fd;

	point.retprobe = true;
	point.cookie = 77;
	inside = w;
	fd = multi_attach(&point);
	assert_true(fd >= 0);
	multi_around(look_inside);
	assert_int_not_equal(cookie_inside, 77);
	assert_int_equal(last_cookie(w), 77);
	close(fd);
}

static void many_places_are_one_link(void **state)
{
	struct world *w = world(state);
	const uint64_t offs[] = {w->two_off, w->one_off}, cookies[] = {22, 11};
	struct attach_batch batch = {.file_fd = w->file_fd,
				     .pid = getpid(),
				     .program_fd = w->program_fd,
				     .file_offs = offs,
				     .cookies = cookies,
				     .n = 2};
	int fd = multi_attach_batch(&batch);

	assert_true(fd >= 0);
	assert_int_equal(multi_one(), 1);
	assert_int_equal(last_cookie(w), 11);
	assert_int_equal(multi_two(), 2);
	assert_int_equal(last_cookie(w), 22);
	close(fd);
	assert_int_equal(byte_of(getpid(), multi_one), PUSH);
	assert_int_equal(byte_of(getpid(), multi_two), PUSH);
}

/* Of one process, or of every one that maps the file. */
static void whose_calls(void **state)
{
	struct world *w = world(state);
	struct attach_point point = at(w, w->one_off);
	pid_t child = fork();
	int fd;

	if (!child)
		for (;;)
			pause();
	assert_true(child > 0);
	point.pid = child;
	fd = multi_attach(&point);
	assert_true(fd >= 0);
	assert_int_equal(byte_of(child, multi_one), TRAP);
	assert_int_equal(byte_of(getpid(), multi_one), PUSH);
	close(fd);
	point.pid = -1;
	fd = multi_attach(&point);
	assert_true(fd >= 0);
	assert_int_equal(byte_of(child, multi_one), TRAP);
	assert_int_equal(byte_of(getpid(), multi_one), TRAP);
	close(fd);
	assert_int_equal(byte_of(child, multi_one), PUSH);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void refusals_are_those_of_the_kernel(void **state)
{
	struct world *w = world(state);
	struct attach_point point = at(w, w->one_off);
	AUTO_CLOSE int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	point.program_fd = -1;
	assert_int_equal(multi_attach(&point), -EBADF);
	point = at(w, w->one_off);
	point.file_fd = folder;
	assert_int_equal(multi_attach(&point), -EBADF);
	point = at(w, w->one_off);
	point.pid = 0x7ffffff0;
	assert_int_equal(multi_attach(&point), -ESRCH);
	assert_int_equal(byte_of(getpid(), multi_one), PUSH);
}

static void without_rights(void)
{
	cap_t none = cap_init();

	CHILD_CHECK(none && cap_set_proc(none) == 0);
	CHILD_CHECK(!multi_is_there());
	if (!access("/sys/bus/event_source/devices/uprobe/type", R_OK))
		CHILD_CHECK(!multi_is_any_allowed());
	cap_free(none);
}

static void what_is_allowed(void **state)
{
	const struct world *w = *state;

	if (w->program_fd >= 0) {
		assert_true(multi_is_there());
		assert_true(multi_is_any_allowed());
	}
	in_child(without_rights);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_place),
		cmocka_unit_test(a_return),
		cmocka_unit_test(many_places_are_one_link),
		cmocka_unit_test(whose_calls),
		cmocka_unit_test(refusals_are_those_of_the_kernel),
		cmocka_unit_test(what_is_allowed),
	};

	return cmocka_run_group_tests_name("multi", tests, setup, teardown);
}
