/* SPDX-License-Identifier: Apache-2.0 */
/* test_loaderror.c: what a refusal of the BPF programs is said to come from, with and without capabilities. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/utsname.h>

#include "pipe/loaderror.h"
#include "tests/unit/child.h"

static void the_reason_is_the_last_line(void **state)
{
	char log[] = "0: R1=ctx()\n1: (85) call foo#7\nunknown func foo#7\n"
		     "processed 2 insns (limit 1000000)\nverification time 9 usec\n";

	assert_string_equal(loaderror_reason(log), "unknown func foo#7");
}

/* A log that was too small for its end: not its first line, which says nothing. */
static void a_log_without_an_end(void **state)
{
	char log[] = "func#0 @0\n0: R1=ctx()\n1: (85) call foo#7\n";

	assert_string_equal(loaderror_reason(log), "1: (85) call foo#7");
}

static void no_log(void **state)
{
	char none[] = "", empty[] = "\n\n";

	assert_string_equal(loaderror_reason(none), "no reason given");
	assert_string_equal(loaderror_reason(empty), "no reason given");
}

/* In a child: only these capabilities are left. */
static void keep(const cap_value_t *caps, int n)
{
	cap_t now = cap_init();

	if (n)
		CHILD_CHECK(cap_set_flag(now, CAP_PERMITTED, n, caps, CAP_SET) == 0 &&
			    cap_set_flag(now, CAP_EFFECTIVE, n, caps, CAP_SET) == 0);
	CHILD_CHECK(cap_set_proc(now) == 0);
	cap_free(now);
}

static bool explains(int r, const char *log, const char *words)
{
	struct errmsg e = {};
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", log);
	return loaderror_explain(r, copy, &e) == r &&
	       !strncmp(e.text, "cannot load the BPF programs: ", 30) && strstr(e.text, words);
}

static void without_any(void)
{
	keep(NULL, 0);
	CHILD_CHECK(explains(-EPERM, "", "this needs CAP_BPF and CAP_PERFMON; run as root"));
	/* Whatever the kernel said: without the capability nothing else can be told. */
	CHILD_CHECK(explains(-ENOMEM, "a verifier's log", "this needs CAP_BPF and CAP_PERFMON"));
}

static void with_one(void)
{
	keep((const cap_value_t[]){CAP_BPF}, 1);
	CHILD_CHECK(explains(-EPERM, "", "this needs CAP_PERFMON; run as root"));
}

static void with_the_other(void)
{
	keep((const cap_value_t[]){CAP_PERFMON}, 1);
	CHILD_CHECK(explains(-EPERM, "", "this needs CAP_BPF; run as root"));
}

static void with_both(void)
{
	struct utsname u;

	keep((const cap_value_t[]){CAP_PERFMON, CAP_BPF}, 2);
	if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		CHILD_CHECK(explains(-EINVAL, "", "CONFIG_DEBUG_INFO_BTF"));
		return;
	}
	CHILD_CHECK(explains(-EPERM, "", "not permitted, although the capabilities are there"));
	CHILD_CHECK(explains(-ENOMEM, "", "memory limit of the control group"));
	CHILD_CHECK(uname(&u) == 0 && explains(-EINVAL, "", u.release));
	CHILD_CHECK(explains(-EINVAL, "", "(Invalid argument): no reason given; spanprof needs"));
	CHILD_CHECK(explains(-EACCES, "only line", "refuses them (Permission denied): only line;"));
	CHILD_CHECK(explains(-EACCES, "1: r0 = 1\nR1 invalid mem access\nprocessed 9 insns\n",
			     "refuses them (Permission denied): R1 invalid mem access; "));
	CHILD_CHECK(explains(-EACCES, "unreachable insn 3\nprocessed 0 insns",
			     "(Permission denied): unreachable insn 3;"));
}

/* This one stands for all others. */
static void with_sys_admin(void)
{
	keep((const cap_value_t[]){CAP_SYS_ADMIN}, 1);
	CHILD_CHECK(!explains(-EPERM, "", "this needs"));
}

static void by_capabilities(void **state)
{
	cap_t now = cap_get_proc();
	cap_flag_value_t has = CAP_CLEAR;

	in_child(without_any);
	assert_non_null(now);
	cap_get_flag(now, CAP_SYS_ADMIN, CAP_PERMITTED, &has);
	cap_free(now);
	if (has != CAP_SET) {
		print_message("needs root\n");
		skip();
	}
	in_child(with_one);
	in_child(with_the_other);
	in_child(with_both);
	in_child(with_sys_admin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reason_is_the_last_line),
		cmocka_unit_test(a_log_without_an_end),
		cmocka_unit_test(no_log),
		cmocka_unit_test(by_capabilities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
