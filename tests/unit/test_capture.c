/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpf/wire.h"
#include "pipe/capture.h"
#include "tests/unit/unit.h"

/* What came back, as text, one line a block. */
struct seen {
	char text[4096];
	size_t n;
	uint64_t n_enter;
};

static void note(struct seen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct seen *s, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	s->n += vsnprintf(s->text + s->n, sizeof(s->text) - s->n, format, ap);
	va_end(ap);
}

static int on_info(void *ctx, const struct capture_info *i)
{
	note(ctx, "info %s %s %d\n", i->hostname, i->kernel_release, (int)i->start_mono_ns);
	return 0;
}

static int on_endpoint(void *ctx, const struct capture_endpoint *e)
{
	note(ctx, "endpoint %u '%s' '%s' %d\n", e->ep_id, e->spec, e->display, (int)e->period_ns);
	return 0;
}

static int on_space(void *ctx, uint32_t tgid, uint32_t as_id, const struct capture_range *r,
		    size_t n)
{
	note(ctx, "space %u %u", tgid, as_id);
	for (size_t i = 0; i < n; i++)
		note(ctx, " %x-%x '%s' id %u", (int)r[i].start, (int)r[i].end, r[i].path,
		     r[i].build_id_bytes);
	note(ctx, "\n");
	return 0;
}

static int on_record(void *ctx, const void *record, size_t bytes)
{
	assert_int_equal((uintptr_t)record % 8, 0);
	note(ctx, "record %zu %.*s\n", bytes, (int)bytes, (const char *)record);
	return 0;
}

static int on_symbol(void *ctx, const struct capture_symbol *s)
{
	note(ctx, "symbol %u %u %x %s %s\n", s->kernel, s->tgid, (int)s->address, s->module,
	     s->function);
	return 0;
}

static int on_latency(void *ctx, uint32_t ep_id, const struct latency *l)
{
	note(ctx, "latency %u\n", ep_id);
	((struct seen *)ctx)->n_enter = l->n_enter;
	return 0;
}

static int on_turns(void *ctx, const struct profile_turns *t)
{
	note(ctx, "turns %u %d %d %d %d\n", t->share_ppm, (int)t->n_turns, (int)t->probed_ns,
	     (int)t->cost_ns, (int)t->cpu_ns);
	return 0;
}

static int on_totals(void *ctx, uint64_t duration_ns, const struct counters *c)
{
	note(ctx, "totals %d unwound %d\n", (int)duration_ns, (int)c->v[WIRE_C_UNWOUND]);
	return 0;
}

static int read_back(char *data, size_t n, struct seen *seen, struct errmsg *e)
{
	AUTO_FILE FILE *in = fmemopen(data, n, "r");
	struct capture_reader reader = {
		.info = on_info,
		.endpoint = on_endpoint,
		.space = on_space,
		.record = on_record,
		.symbol = on_symbol,
		.latency = on_latency,
		.turns = on_turns,
		.totals = on_totals,
		.ctx = seen,
	};

	*seen = (struct seen){};
	return capture_read(in, "test.capture", &reader, e);
}

static size_t write_sample(char **data)
{
	struct capture_info info = {1000, 2000, "host", "6.1"};
	struct capture_range ranges[] = {
		{0x1000, 0x2000, 0, 1, 2, 0, 2, {0xab, 0xcd}, "/bin/a b"},
		{0x3000, 0x4000, 0, 0, 0, 0, 0, {}, ""},
	};
	struct latency l = {.n_enter = 42};
	struct counters c = {};
	struct capture_writer *w = NULL;
	size_t n;
	FILE *out = open_memstream(data, &n);

	c.v[WIRE_C_UNWOUND] = 3;
	assert_int_equal(capture_writer_new(&w, out, &info), 0);
	assert_int_equal(capture_write_endpoint(w, &(struct capture_endpoint){1, 0, 5, 5, 10,
									      "f(str(arg1))", "f"}),
			 0);
	assert_int_equal(capture_write_space(w, 7, 8, ranges, 2), 0);
	assert_int_equal(capture_write_record(w, "hello", 5), 0);
	assert_int_equal(capture_write_symbol(w, &(struct capture_symbol){1, 0, 0x99, 0, "[kernel]",
									  "do_it", "do_it"}),
			 0);
	assert_int_equal(capture_write_latency(w, 1, &l), 0);
	assert_int_equal(capture_write_turns(w, &(struct profile_turns){10000, 2, 3, 4, 5}), 0);
	assert_int_equal(capture_write_totals(w, 500, &c), 0);
	capture_writer_free(w);
	fclose(out);
	return n;
}

static void test_what_is_written_is_read(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n = write_sample(&data);
	struct errmsg e = {};
	struct seen seen;

	assert_int_equal(read_back(data, n, &seen, &e), 0);
	assert_string_equal(seen.text, "info host 6.1 1000\n"
				       "endpoint 1 'f(str(arg1))' 'f' 10\n"
				       "space 7 8 1000-2000 '/bin/a b' id 2 3000-4000 '' id 0\n"
				       "record 5 hello\n"
				       "symbol 1 0 99 [kernel] do_it\n"
				       "latency 1\n"
				       "turns 10000 2 3 4 5\n"
				       "totals 500 unwound 3\n");
	assert_int_equal(seen.n_enter, 42);
}

static void test_every_cut_is_noticed(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n = write_sample(&data);
	struct errmsg e = {};
	struct seen seen;

	for (size_t cut = 0; cut < n; cut++)
		assert_int_equal(read_back(data, cut, &seen, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "cut off"));
}

static void test_bytes_after_the_end_are_refused(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n = write_sample(&data);
	AUTO_FREE char *twice = malloc(2 * n);
	struct errmsg e = {};
	struct seen seen;

	assert_non_null(twice);
	memcpy(twice, data, n);
	memcpy(twice + n, data, n);
	assert_int_equal(read_back(twice, n, &seen, &e), 0);
	assert_int_equal(read_back(twice, n + 1, &seen, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "more bytes after the end"));
	assert_int_equal(read_back(twice, 2 * n, &seen, &e), -EBADMSG);
}

static void test_foreign_files_are_refused(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n = write_sample(&data);
	struct errmsg e = {};
	struct seen seen;

	data[8]++; /* version */
	assert_int_equal(read_back(data, n, &seen, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "format"));
	data[8]--;
	data[0] = 'X';
	assert_int_equal(read_back(data, n, &seen, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "not a spanprof capture file"));
}

/* No single wrong byte crashes the reader, and none passes. */
static void test_wrong_bytes_are_noticed(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n = write_sample(&data);
	struct errmsg e = {};
	struct seen seen;

	for (size_t i = 0; i < n; i++) {
		data[i] ^= 0xff;
		assert_int_equal(read_back(data, n, &seen, &e), -EBADMSG);
		data[i] ^= 0xff;
	}
	assert_int_equal(read_back(data, n, &seen, &e), 0);
}

static int count_record(void *ctx, const void *record, size_t bytes)
{
	++*(int *)ctx;
	return 0;
}

static void test_callbacks_are_optional(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n = write_sample(&data);
	int n_records = 0;
	struct capture_reader one = {.record = count_record, .ctx = &n_records}, none = {};
	AUTO_FILE FILE *in = fmemopen(data, n, "r");
	struct errmsg e = {};

	assert_non_null(in);
	assert_int_equal(capture_read(in, "test.capture", &none, &e), 0);
	rewind(in);
	assert_int_equal(capture_read(in, "test.capture", &one, &e), 0);
	assert_int_equal(n_records, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_every_cut_is_noticed),
		cmocka_unit_test(test_bytes_after_the_end_are_refused),
		cmocka_unit_test(test_foreign_files_are_refused),
		cmocka_unit_test(test_wrong_bytes_are_noticed),
		cmocka_unit_test(test_callbacks_are_optional),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
