/* SPDX-License-Identifier: Apache-2.0 */
/* test_targets.c: the endpoints of rules, parsed: presets expanded, mistakes with their place. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "app/targets.h"
#include "tests/unit/caught.h"

#define SHOP "services:\n- name: shop\n  match:\n  - exe: \"*/shop\"\n  endpoints:\n"

static struct rules *load(const char *text)
{
	struct rules *r = NULL;
	struct errmsg e = {};

	if (parse_rules(text, strlen(text), "f.yaml", &r, &e))
		fail_msg("refused: %s", e.text);
	return r;
}

static void each_endpoint_of_each_service(void **state)
{
	static const char text[] = SHOP "  - spec: order(str(arg0))\n"
					"    name: Order\n"
					"  - spec: pay\n"
					"- name: mail\n"
					"  match:\n"
					"  - exe: \"*/mail\"\n"
					"  endpoints:\n"
					"  - spec: send\n";
	struct rules *r = load(text);
	struct target_list list = {};
	struct errmsg e = {};

	if (targets_of_rules(r, &list, &e))
		fail_msg("%s", e.text);
	assert_int_equal(list.n, 3);
	assert_string_equal(list.at[0].names.display, "Order");
	assert_string_equal(list.at[0].names.spec, "order(str(arg0))");
	assert_true(list.at[0].names.has_name);
	assert_string_equal(list.at[1].names.display, "pay");
	assert_false(list.at[1].names.has_name);
	assert_ptr_equal(list.at[1].rule, &r->services[0]);
	assert_ptr_equal(list.at[2].rule, &r->services[1]);
	assert_ptr_equal(list.at[2].from, &r->services[1].endpoints[0]);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.at[i].slot, SLOT_NONE);
	targets_free(list.at, list.n);
	rules_free(r);
}

/* All of its endpoints are from the one line. */
static void presets_are_expanded(void **state)
{
	struct rules *r = load(SHOP "  - preset: postgres\n");
	struct target_list list = {};
	struct errmsg e = {};

	if (targets_of_rules(r, &list, &e)) {
		assert_has(e.text, "no presets: ");
		rules_free(r);
		print_message("the presets are not beside this test\n");
		skip();
	}
	assert_true(list.n >= 2);
	for (size_t i = 0; i < list.n; i++)
		assert_ptr_equal(list.at[i].from, &r->services[0].endpoints[0]);
	targets_free(list.at, list.n);
	rules_free(r);
}

/* One line, and nothing is left of those before. */
static void refused(const char *endpoints, const char *begin, const char *words)
{
	struct target_list list = {};
	struct errmsg e = {};
	char text[512];
	struct rules *r;

	snprintf(text, sizeof(text), SHOP "  - spec: good\n%s", endpoints);
	r = load(text);
	assert_true(targets_of_rules(r, &list, &e) < 0);
	assert_int_equal(strncmp(e.text, begin, strlen(begin)), 0);
	assert_has(e.text, words);
	assert_null(strchr(e.text, '\n'));
	assert_null(list.at);
	assert_int_equal(list.n, 0);
	rules_free(r);
}

static void mistakes_have_a_place(void **state)
{
	refused("  - spec: \"bad(str(arg0)\"\n",
		"f.yaml:7: services[0].endpoints[1].spec: ", "bad(str(arg0)");
	refused("  - preset: no-such-preset\n", "f.yaml:7: services[0].endpoints[1].preset: ", "");
}

static bool knows(const struct target_list *list, const char *service, const char *endpoint,
		  struct errmsg *e)
{
	struct task t = {};

	e->text[0] = '\0';
	snprintf(t.service, sizeof(t.service), "%s", service);
	snprintf(t.endpoint, sizeof(t.endpoint), "%s", endpoint);
	return targets_know(list, &t, e);
}

static void tasks_for_what_is_not_there(void **state)
{
	static const char text[] = SHOP "  - spec: order\n"
					"  - spec: handle(str(arg0))\n"
					"- name: \"{exe}\"\n"
					"  match:\n"
					"  - exe: \"*/any*\"\n"
					"  endpoints:\n"
					"  - spec: serve\n";
	struct rules *r = load(text);
	struct target_list list = {};
	struct errmsg e = {};

	if (targets_of_rules(r, &list, &e))
		fail_msg("%s", e.text);
	assert_true(knows(&list, "shop", "order", &e));
	assert_true(knows(&list, "shop", "ord*", &e));
	/* Its spans have names that nobody knows before. */
	assert_true(knows(&list, "shop", "GET /a", &e));
	/* The service's name may be any. */
	assert_true(knows(&list, "other", "serve", &e));
	assert_false(knows(&list, "other", "order", &e));
	assert_string_equal(
		e.text, "service 'other' has no endpoint 'order' in the rules; there are: serve");
	list.n = 0;
	assert_false(knows(&list, "shop", "x", &e));
	assert_has(e.text, "there are: none");
	targets_free(list.at, 3);
	rules_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_endpoint_of_each_service),
		cmocka_unit_test(presets_are_expanded),
		cmocka_unit_test(mistakes_have_a_place),
		cmocka_unit_test(tasks_for_what_is_not_there),
	};

	return cmocka_run_group_tests_name("targets", tests, NULL, NULL);
}
