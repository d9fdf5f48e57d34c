/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static char *write_html(struct profile *take_p)
{
	const struct export_options o = {};
	size_t n = 0;
	char *text = export_text("html", take_p, &o, &n);

	profile_free(take_p);
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* Two script elements, whatever the names: the data and the script of the page. */
static void names_cannot_leave_the_data(void **state)
{
	char *text = write_html(sample_profile_hostile());

	assert_int_equal(count(text, "<script"), 2);
	assert_int_equal(count(text, "</script"), 2);
	assert_int_equal(count(text, "<!--"), 1);
	assert_non_null(strstr(text, "\\u003c/script\\u003e\\u003cscript\\u003ealert(1)"));
	free(text);
}

static void nothing_is_fetched(void **state)
{
	char *text = write_html(sample_profile_orders());

	assert_non_null(strstr(text, "default-src 'none'"));
	assert_null(strstr(text, "http:"));
	assert_null(strstr(text, "https:"));
	assert_null(strstr(text, " src="));
	assert_null(strstr(text, "@import"));
	assert_null(strstr(text, "url("));
	free(text);
}

/* The script puts text into the page as text only. */
static void the_script_makes_no_markup(void **state)
{
	char *text = write_html(sample_profile_orders());

	assert_null(strstr(text, "innerHTML"));
	assert_null(strstr(text, "outerHTML"));
	assert_null(strstr(text, "insertAdjacentHTML"));
	assert_null(strstr(text, "document.write"));
	assert_null(strstr(text, "eval("));
	free(text);
}

static void the_data_is_the_json_document(void **state)
{
	struct profile *p = sample_profile_hostile();
	const struct export_options o = {};
	size_t n = 0;
	char *html = export_text("html", p, &o, &n), *plain = export_text("json", p, &o, &n);
	const char *begin = strstr(html, "id=\"data\">") + strlen("id=\"data\">");
	const char *end = strstr(begin, "</script>");
	json_t *in_html = json_loadb(begin, end - begin, 0, NULL);
	json_t *alone = json_loads(plain, 0, NULL);

	assert_non_null(in_html);
	assert_true(json_equal(in_html, alone));
	json_decref(in_html);
	json_decref(alone);
	free(html);
	free(plain);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_cannot_leave_the_data),
		cmocka_unit_test(nothing_is_fetched),
		cmocka_unit_test(the_script_makes_no_markup),
		cmocka_unit_test(the_data_is_the_json_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
