/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/syscall.h>

#include "model/profile.h"
#include "tests/unit/unit.h"

enum { RUNNING = 0, INTERRUPTIBLE = 1, UNINTERRUPTIBLE = 2 };

static void names_agree_with_the_headers(void **state)
{
	assert_string_equal(syscall_name(SYS_read), "read");
	assert_string_equal(syscall_name(SYS_futex), "futex");
	assert_string_equal(syscall_name(SYS_clock_nanosleep), "clock_nanosleep");
	assert_string_equal(syscall_name(SYS_epoll_pwait2), "epoll_pwait2");
	assert_string_equal(syscall_name(SYS_exit_group), "exit_group");
	assert_null(syscall_name(-1));
	assert_null(syscall_name(400));
	assert_null(syscall_name(100000));
}

static void a_runnable_thread_waits_for_nothing(void **state)
{
	assert_int_equal(block_cause_of(SYS_futex, RUNNING, 0), BLOCK_NONE);
	assert_int_equal(block_cause_of(SYS_futex, INTERRUPTIBLE, WIRE_SNAP_F_PREEMPTED),
			 BLOCK_NONE);
	assert_int_equal(block_cause_of(-1, RUNNING, 0), BLOCK_NONE);
}

static void the_system_call_says_the_cause(void **state)
{
	assert_int_equal(block_cause_of(SYS_futex, INTERRUPTIBLE, 0), BLOCK_LOCK);
	assert_int_equal(block_cause_of(SYS_nanosleep, INTERRUPTIBLE, 0), BLOCK_SLEEP);
	assert_int_equal(block_cause_of(SYS_epoll_wait, INTERRUPTIBLE, 0), BLOCK_POLL);
	assert_int_equal(block_cause_of(SYS_recvfrom, INTERRUPTIBLE, 0), BLOCK_NET);
	assert_int_equal(block_cause_of(SYS_accept4, INTERRUPTIBLE, 0), BLOCK_NET);
	assert_int_equal(block_cause_of(SYS_read, INTERRUPTIBLE, 0), BLOCK_FILE);
	assert_int_equal(block_cause_of(SYS_wait4, INTERRUPTIBLE, 0), BLOCK_CHILD);
	assert_int_equal(block_cause_of(SYS_ioctl, INTERRUPTIBLE, 0), BLOCK_OTHER);
	assert_int_equal(block_cause_of(99999, INTERRUPTIBLE, 0), BLOCK_OTHER);
}

static void uninterruptible_means_disk_or_fault(void **state)
{
	assert_int_equal(block_cause_of(SYS_fsync, UNINTERRUPTIBLE, 0), BLOCK_DISK);
	assert_int_equal(block_cause_of(SYS_pread64, UNINTERRUPTIBLE, 0), BLOCK_DISK);
	assert_int_equal(block_cause_of(SYS_ioctl, UNINTERRUPTIBLE, WIRE_SNAP_F_IOWAIT),
			 BLOCK_DISK);
	assert_int_equal(block_cause_of(-1, UNINTERRUPTIBLE, 0), BLOCK_FAULT);
	assert_int_equal(block_cause_of(-1, UNINTERRUPTIBLE, WIRE_SNAP_F_IOWAIT), BLOCK_DISK);
	assert_int_equal(block_cause_of(-1, INTERRUPTIBLE, 0), BLOCK_OTHER);
	assert_int_equal(block_cause_of(SYS_vfork, UNINTERRUPTIBLE, 0), BLOCK_CHILD);
}

static void every_cause_has_a_name(void **state)
{
	assert_string_equal(block_cause_name(BLOCK_NONE), "");
	for (unsigned int i = 1; i < BLOCK_CAUSE_MAX; i++)
		assert_true(strlen(block_cause_name(i)) > 1);
	assert_string_equal(block_cause_name(BLOCK_CAUSE_MAX), "other");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_agree_with_the_headers),
		cmocka_unit_test(a_runnable_thread_waits_for_nothing),
		cmocka_unit_test(the_system_call_says_the_cause),
		cmocka_unit_test(uninterruptible_means_disk_or_fault),
		cmocka_unit_test(every_cause_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
