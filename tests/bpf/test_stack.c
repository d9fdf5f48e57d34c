/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose stack the programs of uprobes have. They sleep and are preempted, so one that the kernel gives them
 * for each CPU would be written to by two threads at a time. That kills threads, if not the machine: it is
 * not tried here, but looked for in the machine code.
 */
#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "tests/unit/unit.h"

/* "add %gs:..., %r9", as the kernel's compiler for x86-64 finds a stack of its CPU's (Linux 6.13 and later). */
static const uint8_t of_the_cpu[] = {0x65, 0x4c, 0x03, 0x0c, 0x25};

/* The machine code of a program and of all that it calls. */
static uint8_t *read_code(int fd, size_t *ret_n)
{
	struct bpf_prog_info info = {};
	uint32_t bytes = sizeof(info);
	uint8_t *code;

	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &bytes), 0);
	if (!info.jited_prog_len)
		skip(); /* interpreted, or not to be seen */
	*ret_n = info.jited_prog_len;
	code = calloc(1, *ret_n);
	assert_non_null(code);
	info = (struct bpf_prog_info){.jited_prog_len = (uint32_t)*ret_n,
				      .jited_prog_insns = (uintptr_t)code};
	bytes = sizeof(info);
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &bytes), 0);
	if (!info.jited_prog_insns) {
		free(code);
		skip();
	}
	return code;
}

static void check_program(int fd)
{
	size_t n = 0;
	uint8_t *code = fd >= 0 ? read_code(fd, &n) : NULL;

	if (code)
		assert_null(memmem(code, n, of_the_cpu, sizeof(of_the_cpu)));
	free(code);
}

static void check_all(const struct kern_options *options)
{
	struct rig rig;

	rig_open(&rig, options);
	check_program(rig.programs.enter_fd);
	check_program(rig.programs.enter_sleepable_fd);
	check_program(rig.programs.leave_fd);
	check_program(rig.programs.end_fd);
	check_program(rig.programs.ret_fd);
	check_program(rig.programs.uret_fd);
	rig_close(&rig);
}

static void is_the_threads_own(void **state)
{
	check_all(NULL);
}

/* Other programs are loaded for these. */
static void is_the_threads_own_when_ends_read(void **state)
{
	struct kern_options options = {.end_sleeps = true};

	check_all(&options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_the_threads_own),
		cmocka_unit_test(is_the_threads_own_when_ends_read),
	};

	return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
