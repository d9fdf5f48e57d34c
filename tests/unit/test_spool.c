/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/spool.h"
#include "net/spoolfile.h"
#include "tests/unit/unit.h"

enum { ITEM = 1000, FILE_BYTES = 20 * 1024 };

struct fixture {
	char folder[32];
	char path[64];
	uint64_t dropped[64]; /* owners */
	size_t n_dropped;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->folder, "/tmp/test-spool-XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/spool", f->folder);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	unlink(f->path);
	rmdir(f->folder);
	free(f);
	return 0;
}

static void dropped(void *ctx, uint64_t owner)
{
	struct fixture *f = ctx;

	f->dropped[f->n_dropped++] = owner;
}

static struct spool *open_spool(struct fixture *f, size_t memory, bool disk)
{
	struct spool_options o = {.max_memory_bytes = memory, .dropped = dropped, .ctx = f};
	struct errmsg e = {};
	struct spool *s;

	o.file = disk ? f->path : NULL;
	o.max_file_bytes = FILE_BYTES;
	assert_int_equal(spool_new(&s, &o, &e), 0);
	return s;
}

static int push(struct spool *s, uint64_t owner)
{
	char *data = malloc(ITEM);

	memset(data, (int)owner, ITEM);
	return spool_push(s, owner, data, ITEM);
}

static void assert_item(const struct spool_item *i, int value)
{
	assert_non_null(i);
	assert_int_equal(i->bytes, ITEM);
	assert_int_equal(((char *)i->data)[0], value);
	assert_int_equal(((char *)i->data)[ITEM - 1], value);
}

static void test_first_in_first_out(void **state)
{
	struct spool *s = open_spool(*state, 10 * ITEM, false);
	struct spool_item *a, *b;

	assert_null(spool_take(s));
	assert_int_equal(push(s, 1), 0);
	assert_int_equal(push(s, 2), 0);
	a = spool_take(s);
	b = spool_take(s);
	assert_item(a, 1);
	assert_item(b, 2);
	assert_null(spool_take(s));
	spool_return(s, a);
	assert_ptr_equal(spool_take(s), a);
	spool_done(s, b);
	spool_done(s, a);
	assert_null(spool_take(s));
	spool_free(s);
}

static void test_oldest_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 3 * ITEM, false);
	struct spool_status status;

	for (uint64_t i = 1; i <= 5; i++)
		assert_int_equal(push(s, i), 0);
	assert_int_equal(f->n_dropped, 2);
	assert_int_equal(f->dropped[0], 1);
	assert_int_equal(f->dropped[1], 2);
	spool_status(s, &status);
	assert_int_equal(status.n_items, 3);
	assert_int_equal(status.n_dropped, 2);
	assert_int_equal(status.memory_bytes, 3 * ITEM);
	assert_item(spool_take(s), 3);
	spool_free(s);
}

static void test_what_is_out_stays(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 2 * ITEM, false);
	struct spool_item *a, *b;
	struct spool_status status;

	push(s, 1);
	push(s, 2);
	a = spool_take(s);
	assert_int_equal(push(s, 3), 0);
	assert_int_equal(f->dropped[0], 2);
	assert_item(a, 1);
	b = spool_take(s);
	assert_int_equal(push(s, 4), -ENOSPC);
	spool_status(s, &status);
	assert_int_equal(status.n_dropped, 2);
	assert_int_equal(f->n_dropped, 1);
	spool_return(s, a);
	spool_return(s, b);
	spool_free(s);
}

static void test_too_large_is_dropped_itself(void **state)
{
	struct spool *s = open_spool(*state, ITEM - 1, false);

	assert_int_equal(push(s, 1), -ENOSPC);
	spool_free(s);
}

static void test_disk_comes_after_memory(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 3 * ITEM, true);
	struct spool_status status;

	for (uint64_t i = 1; i <= 8; i++)
		assert_int_equal(push(s, i), 0);
	spool_status(s, &status);
	assert_int_equal(status.n_dropped, 0);
	assert_int_equal(status.n_items, 8);
	assert_true(status.disk_bytes >= 5 * ITEM);
	for (int i = 1; i <= 8; i++) {
		struct spool_item *item = spool_take(s);

		assert_item(item, i);
		spool_done(s, item);
	}
	spool_status(s, &status);
	assert_int_equal(status.disk_bytes, 0);
	assert_int_equal(status.memory_bytes, 0);
	spool_free(s);
}

static void test_full_disk_drops_the_oldest(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 3 * ITEM, true);
	struct stat st;
	int first;

	for (uint64_t i = 1; i <= 40; i++)
		assert_int_equal(push(s, i), 0);
	assert_int_equal(stat(f->path, &st), 0);
	assert_true(st.st_size <= FILE_BYTES);
	assert_true(f->n_dropped > 0);
	for (size_t i = 0; i < f->n_dropped; i++)
		assert_int_equal(f->dropped[i], i + 1);
	first = (int)f->n_dropped + 1;
	for (int i = first; i <= 40; i++) {
		struct spool_item *item = spool_take(s);

		assert_item(item, i);
		spool_done(s, item);
	}
	assert_null(spool_take(s));
	spool_free(s);
}

static void test_restart_keeps_what_is_not_done(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 3 * ITEM, true);
	struct spool_status status;

	for (uint64_t i = 1; i <= 6; i++)
		push(s, i);
	for (int i = 1; i <= 2; i++)
		spool_done(s, spool_take(s));
	spool_take(s); /* out: nobody knows whether it arrived */
	spool_free(s);
	s = open_spool(f, 3 * ITEM, true);
	spool_status(s, &status);
	assert_int_equal(status.n_recovered, 4);
	assert_int_equal(push(s, 7), 0);
	for (int i = 3; i <= 7; i++) {
		struct spool_item *item = spool_take(s);

		assert_item(item, i);
		assert_int_equal(item->owner, i == 7 ? 7 : 0);
		spool_done(s, item);
	}
	spool_free(s);
	s = open_spool(f, 3 * ITEM, true);
	assert_null(spool_take(s));
	spool_free(s);
}

static void test_damaged_record_is_left_out_and_counted(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 3 * ITEM, true);
	struct spool_status status;
	int fd;

	push(s, 1);
	push(s, 2);
	spool_free(s);
	fd = open(f->path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 512 + 100), 1);
	close(fd);
	s = open_spool(f, 3 * ITEM, true);
	spool_status(s, &status);
	assert_int_equal(status.n_damaged, 1);
	assert_int_equal(status.n_recovered, 1);
	assert_item(spool_take(s), 2);
	spool_free(s);
}

static void test_one_agent_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 3 * ITEM, true), *second;
	struct spool_options o = {.file = f->path};
	struct errmsg e = {};

	assert_int_equal(spool_new(&second, &o, &e), -EBUSY);
	assert_non_null(strstr(e.text, "another agent"));
	spool_free(s);
}

static void test_other_files_are_left_alone(void **state)
{
	struct fixture *f = *state;
	struct spool_options o = {.file = f->path};
	struct errmsg e = {};
	struct spool *s;
	int fd = open(f->path, O_RDWR | O_CREAT, 0600);

	assert_int_equal(write(fd, "precious", 8), 8);
	close(fd);
	assert_int_equal(spool_new(&s, &o, &e), -EEXIST);
	assert_non_null(strstr(e.text, f->path));
	o.file = f->folder;
	assert_true(spool_new(&s, &o, &e) < 0);
}

/* Any order of calls, against a model: nothing is lost but what is counted, and order is kept. */
static void test_random_calls(void **state)
{
	struct fixture *f = *state;
	struct spool *s = open_spool(f, 4 * ITEM, true);
	struct spool_status status;
	struct spool_item *out = NULL;
	uint32_t seed = 3;
	uint64_t next = 1, n_done = 0, last = 0;

	f->n_dropped = 0;
	for (int i = 0; i < 3000; i++) {
		seed = seed * 1664525 + 1013904223;
		if ((seed >> 16) % 3 == 0) {
			push(s, next++ % 100);
			f->n_dropped = 0;
		} else if (!out) {
			out = spool_take(s);
			if (out)
				assert_item(out, (int)(out->id % 100));
		} else if ((seed >> 16) % 2) {
			spool_return(s, out);
			out = NULL;
		} else {
			assert_true(out->id > last || !last);
			last = out->id;
			spool_done(s, out);
			n_done++;
			out = NULL;
		}
	}
	spool_status(s, &status);
	assert_int_equal(next - 1, n_done + status.n_dropped + status.n_items);
	assert_int_equal(status.n_damaged, 0);
	assert_int_equal(status.n_disk_errors, 0);
	spool_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_in_first_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_oldest_is_dropped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_out_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_large_is_dropped_itself, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_disk_comes_after_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full_disk_drops_the_oldest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_restart_keeps_what_is_not_done, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_damaged_record_is_left_out_and_counted, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_one_agent_at_a_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_files_are_left_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_random_calls, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
