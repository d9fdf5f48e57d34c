/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/cleanup.h"
#include "task/rules_fixed.h"
#include "tests/unit/unit.h"

#define HEAD "agent: {socket: /run/s, store: /tmp/x.db}\n"

static char *note(const char *text)
{
	struct rules *r = NULL;
	struct errmsg e = {};
	char *noted = NULL;

	if (parse_rules(text, strlen(text), "f.yaml", &r, &e))
		fail_msg("refused: %s", e.text);
	assert_int_equal(rules_fixed_note(r, &noted), 0);
	rules_free(r);
	return noted;
}

static void expect(const char *before, const char *after, const char *want)
{
	AUTO_FREE char *a = note(before), *b = note(after);
	char text[256];

	rules_fixed_compare(a, b, text, sizeof(text));
	assert_string_equal(text, want);
}

#define ONE \
	"backends:\n- {name: oap, kind: skywalking, addresses: [\"a:1\", \"b:2\"], token: secret}\n"

static void test_same(void **state)
{
	expect(HEAD, HEAD, "");
	expect(HEAD ONE, HEAD ONE, "");
	/* Written in another way, and what a reload does put in force. */
	expect(HEAD "limits: {debug_info: 4M}\n", HEAD "limits: {debug_info: 4096K}\n", "");
	expect(HEAD, HEAD "limits: {cpu: 1%, memory: 32M, tasks: 3}\n", "");
}

static void test_each_kind_is_named(void **state)
{
	expect(HEAD, "agent: {socket: /run/t}\n", "agent.socket, agent.store");
	expect(HEAD, HEAD "limits: {snapshots: 9, debug_info: 8M}\n",
	       "limits.snapshots, limits.debug_info");
	expect(HEAD ONE,
	       HEAD
	       "backends:\n- {name: oap, kind: skywalking, addresses: [\"a:1\", \"b:2\"], token: other, tls: true}\n",
	       "backends[0].tls, backends[0].token");
	expect(HEAD ONE,
	       HEAD
	       "backends:\n- {name: oap, kind: skywalking, addresses: [\"a:1\"], token: secret, spool: 1M}\n",
	       "backends[0].spool, backends[0].addresses[1]");
}

static void test_backend_more_or_less(void **state)
{
	AUTO_FREE char *with = note(HEAD ONE), *without = note(HEAD);
	char text[1024], little[8];

	rules_fixed_compare(with, without, text, sizeof(text));
	assert_string_equal(text, "backends[0]");
	rules_fixed_compare(without, with, text, sizeof(text));
	assert_string_equal(text, "backends[0]");
	rules_fixed_compare(without, with, little, sizeof(little));
	assert_string_equal(little, "backend");
}

/* A value cannot pass for another key. */
static void test_line_breaks(void **state)
{
	expect("agent: {store: \"/x\\nlimits.snapshots=9\"}\n", "agent: {store: /x}\n",
	       "agent.store");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_each_kind_is_named),
		cmocka_unit_test(test_backend_more_or_less),
		cmocka_unit_test(test_line_breaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
