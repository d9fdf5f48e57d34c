/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "model/profile.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

/* The cause of a futex wait below these functions, leaf first; "k:" marks one of the kernel. */
static enum block_cause cause_below(enum block_cause cause, const char *const *names, size_t n)
{
	struct profile *p = sample_profile_bare();
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x1000), run[64], stack = 0;
	enum block_cause got;

	for (size_t i = 0; i < n; i++) {
		bool kernel = names[i][0] == 'k' && names[i][1] == ':';

		run[i] = sample_location(p, exe, names[i] + (kernel ? 2 : 0), "", i,
					 kernel ? PROFILE_FRAME_KERNEL : 0);
	}
	assert_int_equal(profile_add_stack(p, run, n, STACK_STOP_ENDPOINT, &stack), 0);
	got = profile_wait_cause(p, cause, stack);
	profile_free(p);
	return got;
}

#define CAUSE(cause, ...)                                       \
	({                                                      \
		const char *const names_[] = {__VA_ARGS__};     \
		cause_below(cause, names_, ARRAY_SIZE(names_)); \
	})

static void a_condition_variable_is_no_lock(void **state)
{
	assert_int_equal(CAUSE(BLOCK_LOCK, "k:futex_do_wait", "__futex_abstimed_wait_common64",
			       "__pthread_cond_wait_common", "___pthread_cond_timedwait", "pause",
			       "handle"),
			 BLOCK_CONDITION);
	assert_int_equal(CAUSE(BLOCK_LOCK, "k:futex_do_wait", "syscall",
			       "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout",
			       "handle"),
			 BLOCK_CONDITION);
	assert_string_equal(block_cause_name(BLOCK_CONDITION), "condition");
}

static void the_innermost_function_decides(void **state)
{
	assert_int_equal(CAUSE(BLOCK_LOCK, "k:futex_do_wait", "__lll_lock_wait",
			       "__pthread_mutex_cond_lock", "pthread_cond_wait", "handle"),
			 BLOCK_LOCK);
	assert_int_equal(CAUSE(BLOCK_LOCK, "k:futex_do_wait", "pthread_mutex_lock", "handle"),
			 BLOCK_LOCK);
}

static void other_waits_stay_what_they_are(void **state)
{
	assert_int_equal(CAUSE(BLOCK_LOCK, "k:futex_do_wait", "syscall", "handle"), BLOCK_LOCK);
	assert_int_equal(CAUSE(BLOCK_POLL, "poll", "pthread_cond_wait", "handle"), BLOCK_POLL);
	assert_int_equal(CAUSE(BLOCK_NONE, "pthread_cond_wait", "handle"), BLOCK_NONE);
}

/* Only what is near the system call says what it waits for. */
static void far_frames_say_nothing(void **state)
{
	const char *names[32];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		names[i] = i == 30 ? "pthread_cond_wait" : "f";
	assert_int_equal(cause_below(BLOCK_LOCK, names, ARRAY_SIZE(names)), BLOCK_LOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_condition_variable_is_no_lock),
		cmocka_unit_test(the_innermost_function_decides),
		cmocka_unit_test(other_waits_stay_what_they_are),
		cmocka_unit_test(far_frames_say_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
