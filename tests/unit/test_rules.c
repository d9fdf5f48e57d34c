/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "task/rules.h"
#include "tests/unit/unit.h"

#define SERVICE "services:\n- name: shop\n  match:\n  - exe: \"*/shopd\"\n"

static struct rules *load(const char *text)
{
	struct rules *r = NULL;
	struct errmsg e = {};

	if (parse_rules(text, strlen(text), "f.yaml", &r, &e))
		fail_msg("refused: %s", e.text);
	return r;
}

static void expect_error(const char *text, const char *want)
{
	struct rules *r = NULL;
	struct errmsg e = {};

	if (!parse_rules(text, strlen(text), "f.yaml", &r, &e))
		fail_msg("accepted, but wanted '%s'", want);
	if (!strstr(e.text, want))
		fail_msg("'%s' is not in '%s'", want, e.text);
	assert_null(r);
}

static void test_defaults(void **state)
{
	struct rules *r = load(SERVICE);

	assert_int_equal(r->n_services, 1);
	assert_string_equal(r->services[0].instance, "{pid}@{hostname}");
	assert_int_equal(r->services[0].group, RULES_GROUP_TREE);
	assert_int_equal(r->agent.mode, 0600);
	assert_int_equal(r->limits.max_running, 16);
	assert_int_equal(r->limits.cpu_permille, 0);
	assert_int_equal(r->limits.overhead_ppm, 0);
	assert_int_equal(r->limits.debug_bytes, 4 << 20);
	assert_int_equal(r->facts, FACTS_EXE);
	rules_free(r);
}

static void test_everything(void **state)
{
	struct rules *r = load(
		"agent:\n"
		"  socket: /run/s.sock\n"
		"  socket_mode: \"0660\"\n"
		"  socket_users: [\"1000\", root]\n"
		"  store: /tmp/x.db\n"
		"  store_size: 64M\n"
		"  store_age: 2d\n"
		"  scan_interval: 500ms\n"
		"  bpf_stats: true\n"
		"limits: {tasks: 4, parallel: 7, cpu: 0.5%, overhead: 2.5%, memory: 32M, debug_info: 2M}\n"
		"services:\n"
		"- name: \"{env:SW_AGENT_NAME:shop}\"\n"
		"  match:\n"
		"  - {exe: /usr/bin/x, user: root, env: [SW_AGENT_NAME, \"A=b*\"]}\n"
		"  - {cgroup: \"*docker*\", cmdline: \"* -D *\", pid: 17}\n"
		"  instance: \"{cgroup}\"\n"
		"  group: process\n"
		"  layer: OS_LINUX\n"
		"  properties: [{key: zone, value: b}]\n"
		"  endpoints: [{spec: \"f(str(arg1))\", name: main}, {preset: postgres}]\n"
		"  allow: [\"web-*\"]\n"
		"  deny: [web-9]\n"
		"tasks:\n"
		"- {name: slow, service: shop, threshold: 1s, period: 1ms, spans: 3, end_by_count: true,\n"
		"   start: 2026-01-31T12:00:00Z}\n"
		"backends:\n"
		"- {name: oap, kind: skywalking, addresses: [\"a:1\", \"b:2\"], tls: true, ca_file: /ca,\n"
		"   poll: 5s, timeout: 9s, token: secret}\n");
	const struct backend_config *b = &r->backends[0].config;

	assert_int_equal(r->agent.mode, 0660);
	assert_int_equal(r->agent.uids[0], 1000);
	assert_int_equal(r->agent.uids[1], 0);
	assert_int_equal(r->agent.store_bytes, 64 << 20);
	assert_int_equal(r->agent.store_age_ms, 2 * 86400000);
	assert_int_equal(r->limits.cpu_permille, 5);
	assert_int_equal(r->limits.overhead_ppm, 25000);
	assert_int_equal(r->limits.debug_bytes, 2 << 20);
	assert_int_equal(r->limits.max_parallel, 7);
	assert_int_equal(r->facts, FACTS_EXE | FACTS_CMDLINE | FACTS_CGROUP | FACTS_ENVIRON);
	assert_int_equal(r->services[0].group, RULES_GROUP_PROCESS);
	assert_int_equal(r->services[0].matches[1].pid, 17);
	assert_string_equal(r->services[0].endpoints[1].preset, "postgres");
	assert_int_equal(r->tasks[0].task.threshold_ns, 1000000000);
	assert_int_equal(r->tasks[0].task.start_ms, 1769860800000);
	assert_string_equal(r->tasks[0].task.endpoint, "*");
	assert_int_equal(b->n_addresses, 2);
	assert_string_equal(b->addresses[1], "b:2");
	assert_int_equal(b->poll_ns, 5000000000);
	assert_int_equal(b->heartbeat_ns, 30000000000);
	assert_int_equal(b->timeout_ns, 9000000000);
	assert_true(r->agent.bpf_stats);
	assert_string_equal(b->token, "secret");
	assert_null(b->cert_file);
	rules_free(r);
}

static void test_errors_name_file_line_key_and_what_is_allowed(void **state)
{
	expect_error("", "f.yaml: the file is empty");
	expect_error("services: [", "f.yaml:2: did not find");
	expect_error("x", "f.yaml:1: the file: expected a MAPPING");
	expect_error(
		"serviecs: []",
		"f.yaml:1: unknown key 'serviecs'; allowed here: agent, limits, services, tasks, backends");
	expect_error(SERVICE "  group: thread\n",
		     "f.yaml:5: group: 'thread' is not allowed; allowed: tree, process");
	expect_error(SERVICE "  endpoints:\n  - spec: a\n    nam: b\n",
		     "f.yaml:7: unknown key 'nam'; allowed here: spec, preset, name");
	expect_error("services:\n- match: [{exe: a}]\n", "'name' is missing");
	expect_error("services:\n- name: x\n  name: y\n", "'name' is given twice");
	expect_error("services:\n- name: x\n  match: [{}]\n",
		     "f.yaml:3: services[0].match[0].exe: an entry of 'match' needs at least one");
	expect_error("services:\n- name: x\n  match: [{user: no-such-user}]\n",
		     "f.yaml:3: services[0].match[0].user: there is no user");
	expect_error(
		SERVICE "  instance: \"{pdi}\"\n",
		"f.yaml:5: services[0].instance: '{pdi}' in '{pdi}' is not known; there are {hostname}");
	expect_error("services:\n- name: \"a{pid}\"\n  match: [{exe: a}]\n",
		     "cannot contain {pid}");
	expect_error(SERVICE "  layer: general\n", "is not a SkyWalking layer");
	expect_error(SERVICE "  endpoints:\n  - name: only\n",
		     "f.yaml:6: services[0].endpoints[0].spec: an endpoint needs either");
	expect_error("limits: {cpu: 2}\n", "f.yaml:1: limits.cpu: '2' is not a share");
	expect_error("limits: {overhead: 1}\n", "f.yaml:1: limits.overhead: '1' is not a share");
	expect_error("limits: {overhead: 0%}\n", "f.yaml:1: limits.overhead: '0%' is not a share");
	expect_error("limits: {memory: 1M}\n", "limits.memory: at least 16M");
	expect_error("limits: {debug_info: 1K}\n", "limits.debug_info: from 1M");
	expect_error("limits: {debug_info: 1G}\n", "limits.debug_info: from 1M");
	expect_error("limits: {tasks: 12x}\n", "limits.tasks: '12x' is not a count");
	expect_error("agent:\n  socket_mode: \"0999\"\n", "f.yaml:2: agent.socket_mode");
	expect_error("agent:\n  store_age: 7\n",
		     "f.yaml:2: agent.store_age: '7' is not a duration");
	expect_error("a: &x 1\nb: *x\n", "f.yaml:2: aliases");
	expect_error("a:\n\tb: 1\n", "f.yaml:2: YAML takes no tabs for indentation; use spaces");
	expect_error("a:\n- \tb: 1\n  c: {\n", "f.yaml:");
	expect_error("a: 1\n---\nb: 1\n", "only one document");
	expect_error("[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]", "nested too deep");
	expect_error("? [a]\n: b\n", "a key must be plain text");
}

static void test_errors_of_tasks_and_backends(void **state)
{
	expect_error(
		SERVICE "tasks:\n- {name: a, service: shpo}\n",
		"f.yaml:6: tasks[0].service: there is no service 'shpo' in this file; there are: shop");
	expect_error(SERVICE "tasks:\n- {name: a, service: shop}\n- {name: a, service: shop}\n",
		     "f.yaml:7: tasks[1].name: another task");
	expect_error(SERVICE "tasks:\n- name: a\n  service: shop\n  period: 100us\n",
		     "dump period of 100 us is too short: at least 1 ms");
	expect_error(SERVICE "tasks:\n- {name: a, service: shop, start: tomorrow}\n",
		     "is not a time");
	expect_error("backends:\n- {name: control, kind: skywalking, addresses: [\"a:1\"]}\n",
		     "is the name of a part of the agent");
	expect_error("backends:\n- {name: o, kind: zipkin, addresses: [\"a:1\"]}\n",
		     "'zipkin' is not known; there is: skywalking");
	expect_error("backends:\n- {name: o, kind: skywalking}\n", "at least one host:port");
	expect_error("backends:\n- {name: o, kind: skywalking, addresses: [oap]}\n",
		     "'oap' is not host:port");
	expect_error("backends:\n- {name: o, kind: skywalking, addresses: [\"a:1\"], ca_file: x}\n",
		     "need 'tls: true'");
}

static void test_id_of_a_task_follows_its_values(void **state)
{
	struct rules *a = load(SERVICE "tasks: [{name: t, service: shop, threshold: 1s}]\n");
	struct rules *b =
		load("# moved\n" SERVICE "tasks: [{name: t, service: shop, threshold: 1000ms}]\n");
	struct rules *c = load(SERVICE "tasks: [{name: t, service: shop, threshold: 2s}]\n");

	assert_string_equal(a->tasks[0].task.id, b->tasks[0].task.id);
	assert_string_not_equal(a->tasks[0].task.id, c->tasks[0].task.id);
	rules_free(a);
	rules_free(b);
	rules_free(c);
}

/* A process made up by the test: nothing is read from /proc. */
static struct facts process(char *exe, char *cmdline, char *cgroup)
{
	return (struct facts){.pid = 42,
			      .uid = 33,
			      .have = ~0u,
			      .exe = exe,
			      .cmdline = cmdline,
			      .cgroup = cgroup,
			      .environ = "A=1\0SW_AGENT_NAME=shop",
			      .environ_bytes = sizeof("A=1\0SW_AGENT_NAME=shop")};
}

static bool does_match(const char *match)
{
	char text[512];
	struct rules *r;
	struct facts f = process(
		"/usr/lib/pg/15/bin/postgres", "postgres -D /data",
		"/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope");
	bool found;

	snprintf(text, sizeof(text), "services: [{name: s, match: [%s]}]\n", match);
	r = load(text);
	found = rules_match_process(r, -1, &f) != NULL;
	rules_free(r);
	return found;
}

static void test_matching(void **state)
{
	assert_true(does_match("{exe: \"*/postgres\"}"));
	assert_true(does_match("{exe: \"/usr/lib/pg/*/bin/postgres\", cmdline: \"*-D /data*\"}"));
	assert_false(does_match("{exe: \"*/postgres\", cmdline: \"*-D /other*\"}"));
	assert_true(does_match("{exe: nope}, {user: \"33\"}"));
	assert_false(does_match("{user: \"34\"}"));
	assert_true(does_match("{pid: 42}"));
	assert_true(does_match("{env: [SW_AGENT_NAME]}"));
	assert_true(does_match("{env: [\"SW_AGENT_NAME=sh*\", A]}"));
	assert_false(does_match("{env: [\"SW_AGENT_NAME=x*\"]}"));
	assert_false(does_match("{env: [SW_AGENT]}"));
	assert_true(does_match("{cgroup: \"*docker*\"}"));
	assert_true(does_match("{cgroup: 0123456789ab}"));
	assert_true(does_match("{cgroup: 0123456789abcdef}"));
	assert_false(does_match("{cgroup: 012}"));
	assert_false(does_match("{cgroup: 1123456789ab}"));
}

static void test_kernel_threads_never_match(void **state)
{
	struct rules *r = load("services: [{name: s, match: [{user: root}]}]\n");
	struct facts f = {.pid = 2, .have = ~0u};

	assert_null(rules_match_process(r, -1, &f));
	rules_free(r);
}

static void test_what_can_be_ruled_out(void **state)
{
	char names[2][RULES_ENV_MAX];
	struct rules *r =
		load(SERVICE "  - env: [\"A=x\", B]\n  - {exe: \"/bin/*\", env: [C]}\n"
			     "- {name: t, match: [{env: [A]}, {env: [D], user: root}]}\n");

	assert_true(rules_rule_out_exe(r, "/usr/bin/true"));
	assert_false(rules_rule_out_exe(r, "/bin/true"));
	assert_false(rules_rule_out_exe(r, "/opt/shopd"));
	assert_int_equal(rules_env_names(r, names, 2), 2);
	assert_string_equal(names[0], "A");
	assert_string_equal(names[1], "D");
	assert_int_equal(rules_env_names(r, names, 1), -E2BIG);
	rules_free(r);
	r = load(SERVICE);
	assert_int_equal(rules_env_names(r, names, 2), 0);
	rules_free(r);
	r = load(SERVICE "  - cmdline: x\n- {name: t, match: [{env: [A]}]}\n");
	assert_int_equal(rules_env_names(r, names, 2), -ENOENT);
	assert_true(rules_rule_out_exe(r, "/usr/bin/true"));
	rules_free(r);
}

static void test_allow_and_deny(void **state)
{
	struct rules *r = load(SERVICE "  allow: [\"web-*\", db]\n  deny: [\"web-9*\"]\n");

	assert_true(rules_accepts(&r->services[0], "web-1"));
	assert_true(rules_accepts(&r->services[0], "db"));
	assert_false(rules_accepts(&r->services[0], "web-91"));
	assert_false(rules_accepts(&r->services[0], "cache"));
	rules_free(r);
	r = load(SERVICE);
	assert_true(rules_accepts(&r->services[0], "anything"));
	rules_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_errors_name_file_line_key_and_what_is_allowed),
		cmocka_unit_test(test_errors_of_tasks_and_backends),
		cmocka_unit_test(test_id_of_a_task_follows_its_values),
		cmocka_unit_test(test_matching),
		cmocka_unit_test(test_kernel_threads_never_match),
		cmocka_unit_test(test_what_can_be_ruled_out),
		cmocka_unit_test(test_allow_and_deny),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
