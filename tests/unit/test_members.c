/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/members.h"
#include "tests/unit/unit.h"

static void add(struct members *m, pid_t pid)
{
	struct member one = {.process.pid = pid, .as_id = (uint32_t)pid * 10};

	assert_int_equal(members_add(m, &one), 0);
}

static void test_each_under_its_pid(void **state)
{
	struct members m;

	members_init(&m);
	assert_null(members_get(&m, 7));
	for (pid_t pid = 1; pid <= 100; pid++)
		add(&m, pid);
	for (pid_t pid = 1; pid <= 100; pid++)
		assert_int_equal(members_get(&m, pid)->as_id, pid * 10);
	members_deinit(&m);
}

/* The last one takes the place of one that is dropped: it must still be found, others too. */
static void test_drop_keeps_the_others(void **state)
{
	struct members m;

	members_init(&m);
	for (pid_t pid = 1; pid <= 10; pid++)
		add(&m, pid);
	members_drop(&m, 10);
	members_drop(&m, 3);
	members_drop(&m, 3);
	members_drop(&m, 77);
	assert_int_equal(m.all.n, 8);
	for (pid_t pid = 1; pid <= 10; pid++) {
		const struct member *one = members_get(&m, pid);

		if (pid == 3 || pid == 10)
			assert_null(one);
		else
			assert_int_equal(one->process.pid, pid);
	}
	members_deinit(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_under_its_pid),
		cmocka_unit_test(test_drop_keeps_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
