/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "task/facts.h"
#include "tests/unit/unit.h"

static void test_parse_stat(void **state)
{
	const char *tail = " 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 10";
	char text[256], s;
	uint64_t start;
	pid_t parent;

	snprintf(text, sizeof(text), "42 (a) R 9) S 7%s", tail);
	assert_int_equal(parse_facts_stat(text, &parent, &s, &start), 0);
	assert_int_equal(parent, 7);
	assert_int_equal(s, 'S');
	assert_int_equal(start, 987654);
	assert_int_equal(parse_facts_stat("42 (a", &parent, &s, &start), -EINVAL);
	assert_int_equal(parse_facts_stat("42 (a) S 7 1", &parent, &s, &start), -EINVAL);
	assert_int_equal(parse_facts_stat("", &parent, &s, &start), -EINVAL);
}

static void test_reads_itself(void **state)
{
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct facts f;

	assert_int_equal(facts_read(proc, getpid(), &f), 0);
	assert_int_equal(f.parent, getppid());
	assert_int_equal(f.uid, getuid());
	facts_need(proc, &f, FACTS_EXE | FACTS_CMDLINE | FACTS_CGROUP | FACTS_ENVIRON);
	assert_string_equal(facts_exe_base(&f), "test_facts");
	assert_non_null(strstr(f.cmdline, "test_facts"));
	assert_non_null(facts_env(&f, "PATH"));
	assert_null(facts_env(&f, "PAT"));
	facts_deinit(&f);
	assert_int_equal(facts_read(proc, 0x7fffffff, &f), -ESRCH);
	close(proc);
}

static const char *cgroup_id(char *path)
{
	static char buf[128];
	const struct facts f = {.cgroup = path};

	facts_cgroup_id(&f, buf, sizeof(buf));
	return buf;
}

#define ID64 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void test_cgroup_id(void **state)
{
	assert_string_equal(cgroup_id(NULL), "");
	assert_string_equal(cgroup_id("/"), "");
	assert_string_equal(cgroup_id("/system.slice/ssh.service"), "ssh.service");
	assert_string_equal(cgroup_id("/docker/" ID64), "fedcba987654");
	assert_string_equal(cgroup_id("/kubepods/pod1/cri-containerd-" ID64 ".scope/init"),
			    "fedcba987654");
	assert_string_equal(cgroup_id("/x/" ID64 "00"), ID64 "00");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_stat),
		cmocka_unit_test(test_reads_itself),
		cmocka_unit_test(test_cgroup_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
