/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/guard.h"
#include "tests/unit/unit.h"

#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 200 + 1); \
	} while (0)

static bool has(cap_value_t cap, cap_flag_t set)
{
	cap_flag_value_t v = CAP_CLEAR;
	cap_t now = cap_get_proc();
	bool is_set = now && !cap_get_flag(now, cap, set, &v) && v == CAP_SET;

	cap_free(now);
	return is_set;
}

/* For good, so in a child; its exit status says which line failed. */
static void in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		fn();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void drop(void)
{
	bool had = has(CAP_SYS_PTRACE, CAP_PERMITTED);
	struct errmsg e = {};
	char kept[256];

	CHECK(guard_drop_capabilities(kept, sizeof(kept), &e) == 0);
	CHECK(has(CAP_SYS_PTRACE, CAP_EFFECTIVE) == had);
	CHECK(!strstr(kept, "cap_sys_ptrace") == !had);
	CHECK(!has(CAP_CHOWN, CAP_PERMITTED) && !has(CAP_SETUID, CAP_PERMITTED));
	CHECK(!has(CAP_SYS_PTRACE, CAP_INHERITABLE));
	CHECK(!strstr(kept, "cap_net") && !strstr(kept, "cap_set"));
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	if (!geteuid())
		CHECK(prctl(PR_CAPBSET_READ, CAP_SETUID, 0, 0, 0) == 0);
	/* A second time finds nothing more to drop. */
	CHECK(guard_drop_capabilities(kept, sizeof(kept), &e) == 0);
}

static void drop_nothing(void)
{
	cap_t none = cap_init();
	struct errmsg e = {};
	char kept[256] = "?";

	CHECK(none && cap_set_proc(none) == 0);
	CHECK(guard_drop_capabilities(kept, sizeof(kept), &e) == 0);
	CHECK(!strcmp(kept, ""));
}

static void what_is_not_needed_is_dropped(void **state)
{
	in_child(drop);
}

static void whoever_has_nothing_keeps_nothing(void **state)
{
	in_child(drop_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_needed_is_dropped),
		cmocka_unit_test(whoever_has_nothing_keeps_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
