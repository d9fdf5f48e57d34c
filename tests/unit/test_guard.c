/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include "app/guard.h"
#include "tests/unit/child.h"

static bool has(cap_value_t cap, cap_flag_t set)
{
	cap_flag_value_t v = CAP_CLEAR;
	cap_t now = cap_get_proc();
	bool is_set = now && !cap_get_flag(now, cap, set, &v) && v == CAP_SET;

	cap_free(now);
	return is_set;
}

static void drop(void)
{
	bool had = has(CAP_SYS_PTRACE, CAP_PERMITTED);
	struct errmsg e = {};
	char kept[256];

	CHILD_CHECK(guard_drop_capabilities(kept, sizeof(kept), &e) == 0);
	CHILD_CHECK(has(CAP_SYS_PTRACE, CAP_EFFECTIVE) == had);
	CHILD_CHECK(!strstr(kept, "cap_sys_ptrace") == !had);
	CHILD_CHECK(!has(CAP_CHOWN, CAP_PERMITTED) && !has(CAP_SETUID, CAP_PERMITTED));
	CHILD_CHECK(!has(CAP_SYS_PTRACE, CAP_INHERITABLE));
	CHILD_CHECK(!strstr(kept, "cap_net") && !strstr(kept, "cap_set"));
	CHILD_CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	if (!geteuid())
		CHILD_CHECK(prctl(PR_CAPBSET_READ, CAP_SETUID, 0, 0, 0) == 0);
	/* A second time finds nothing more to drop. */
	CHILD_CHECK(guard_drop_capabilities(kept, sizeof(kept), &e) == 0);
}

static void drop_nothing(void)
{
	cap_t none = cap_init();
	struct errmsg e = {};
	char kept[256] = "?";

	CHILD_CHECK(none && cap_set_proc(none) == 0);
	CHILD_CHECK(guard_drop_capabilities(kept, sizeof(kept), &e) == 0);
	CHILD_CHECK(!strcmp(kept, ""));
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
