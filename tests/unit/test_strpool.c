/* SPDX-License-Identifier: Apache-2.0 */
/* test_strpool.c: one id for each text, as long as there is room. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strpool.h"
#include "tests/unit/unit.h"

enum { N_TEXTS = 20000 };

static uint32_t add(struct strpool *p, const char *text)
{
	uint32_t id = UINT32_MAX;

	assert_int_equal(strpool_add(p, text, &id), 0);
	return id;
}

static struct strpool *pool(size_t max_bytes)
{
	struct strpool *p = NULL;

	assert_int_equal(strpool_new(&p, max_bytes), 0);
	return p;
}

static void one_id_for_one_text(void **state)
{
	struct strpool *p = pool(1 << 20);
	uint32_t a = add(p, "one"), b = add(p, "on"), c;

	assert_int_equal(add(p, ""), 0);
	assert_true(a && b && a != b);
	assert_int_equal(add(p, "one"), a);
	assert_int_equal(strpool_count(p), 3);
	/* Of a longer text, and cut at the first NUL. */
	assert_int_equal(strpool_add_n(p, "one more", 3, &c), 0);
	assert_int_equal(c, a);
	assert_int_equal(strpool_add_n(p, "on\0e", 4, &c), 0);
	assert_int_equal(c, b);
	assert_int_equal(strpool_add_n(p, "one", 0, &c), 0);
	assert_int_equal(c, 0);
	assert_int_equal(strpool_count(p), 3);
	assert_string_equal(strpool_get(p, a), "one");
	assert_string_equal(strpool_get(p, 0), "");
	assert_string_equal(strpool_get(p, 3), "");
	assert_string_equal(strpool_get(p, UINT32_MAX), "");
	assert_null(strpool_free(p));
	assert_null(strpool_free(NULL));
}

/* More than one block of texts; pointers stay as good as they were. */
static void many_texts(void **state)
{
	struct strpool *p = pool(64 << 20);
	char text[32], *huge = calloc(1, 100001);
	const char *first;
	uint32_t id;

	assert_non_null(huge);
	memset(huge, 'x', 100000);
	id = add(p, "first of all");
	first = strpool_get(p, id);
	for (unsigned int i = 0; i < N_TEXTS; i++) {
		snprintf(text, sizeof(text), "text %u", i);
		assert_int_equal(add(p, text), i + 2);
	}
	assert_string_equal(strpool_get(p, add(p, huge)), huge);
	for (unsigned int i = 0; i < N_TEXTS; i++) {
		snprintf(text, sizeof(text), "text %u", i);
		assert_string_equal(strpool_get(p, i + 2), text);
		assert_int_equal(add(p, text), i + 2);
	}
	assert_ptr_equal(strpool_get(p, id), first);
	assert_string_equal(first, "first of all");
	assert_true(strpool_bytes(p) > 100000 + N_TEXTS * strlen("text 1"));
	strpool_free(p);
	free(huge);
}

/* What is full still finds what it has, and takes what still fits. */
static void the_limit_is_kept(void **state)
{
	struct strpool *p = pool(12); /* "" is 1 byte */
	uint32_t id = 4711, ten = add(p, "1234567");

	assert_int_equal(strpool_add(p, "123", &id), -ENOSPC);
	assert_int_equal(strpool_add(p, "a text longer than all", &id), -ENOSPC);
	assert_int_equal(id, 4711);
	assert_int_equal(strpool_count(p), 2);
	assert_int_equal(add(p, "1234567"), ten);
	assert_string_equal(strpool_get(p, add(p, "12")), "12");
	assert_int_equal(strpool_add(p, "x", &id), -ENOSPC);
	strpool_free(p);
	p = NULL;
	assert_int_equal(strpool_new(&p, 0), -ENOSPC);
	assert_null(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_id_for_one_text),
		cmocka_unit_test(many_texts),
		cmocka_unit_test(the_limit_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
