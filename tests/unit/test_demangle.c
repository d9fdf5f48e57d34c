/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "code/demangle.h"
#include "tests/unit/unit.h"

static void check(const char *name, bool parameters, bool mangled, const char *want)
{
	char buf[DEMANGLE_TEXT_MAX];

	assert_int_equal(demangle_name(name, parameters, buf, sizeof(buf)), mangled);
	assert_string_equal(buf, want);
}

static void test_cplusplus(void **state)
{
	check("_ZN3foo3barEv", false, true, "foo::bar");
	check("_ZN3foo3barEv", true, true, "foo::bar()");
	check("_Z16dispatch_command19enum_server_commandP3THDPcjb", true, true,
	      "dispatch_command(enum_server_command, THD*, char*, unsigned int, bool)");
	check("_ZZ4mainENKUlvE_clEv", false, true, "main::{lambda()#1}::operator()");
}

static void test_rust(void **state)
{
	check("_RNvCs1234_7mycrate3foo", false, true, "mycrate::foo");
	check("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", false, true,
	      "core::fmt::Formatter::pad");
}

static void test_not_mangled(void **state)
{
	check("main", false, false, "main");
	check("_start", false, false, "_start");
	check("_Znope", false, false, "_Znope");
	check("", false, false, "");
	check("main.main.func1.2", false, false, "main.main.func1.2");
	check("a\033[2J\xff", false, false, "a?[2J?");
}

static void test_marks(void **state)
{
	check("handle.cold", false, false, "handle");
	check("handle.part.0.cold", false, false, "handle");
	check("handle.constprop.0.isra.17", false, false, "handle");
	check("_ZN3foo3barEv.cold", false, true, "foo::bar");
	check("_ZN3foo3barEv.llvm.1234567", false, true, "foo::bar");
	check("read@@GLIBC_2.2.5", false, false, "read");
	check("memcpy@GLIBC_2.2.5", false, false, "memcpy");
	check(".cold", false, false, ".cold");
	check("@", false, false, "@");
	check("a.b", false, false, "a.b");
}

static void test_cut(void **state)
{
	char buf[8];

	assert_true(demangle_name("_ZN9namespace8functionEv", false, buf, sizeof(buf)));
	assert_string_equal(buf, "name...");
}

/* Each level names the one before twice: the text would be 2^60 names long. */
static void test_expansion(void **state)
{
	char name[1024] = "_Z1fSt4pairIiiE", text[DEMANGLE_TEXT_MAX];
	size_t n;

	for (int i = 0; i < 60; i++) {
		n = strlen(name);
		if (i < 2)
			snprintf(name + n, sizeof(name) - n, "S_IS%sS%sE", i ? "0_" : "_",
				 i ? "0_" : "_");
		else
			snprintf(name + n, sizeof(name) - n, "S_IS%c_S%c_E",
				 i % 36 < 10 ? '0' + i % 36 : 'A' + i % 36 - 10,
				 i % 36 < 10 ? '0' + i % 36 : 'A' + i % 36 - 10);
	}
	demangle_name(name, true, text, sizeof(text));
	assert_true(strlen(text) < sizeof(text));
}

static void test_long(void **state)
{
	static char name[20000];
	char text[DEMANGLE_TEXT_MAX];

	memset(name, 'P', sizeof(name) - 1);
	memcpy(name, "_Z1f", 4);
	assert_false(demangle_name(name, true, text, sizeof(text)));
	assert_int_equal(strlen(text), sizeof(text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cplusplus),   cmocka_unit_test(test_rust),
		cmocka_unit_test(test_not_mangled), cmocka_unit_test(test_marks),
		cmocka_unit_test(test_cut),         cmocka_unit_test(test_expansion),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
