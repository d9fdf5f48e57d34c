/* SPDX-License-Identifier: Apache-2.0 */
/* test_gzip.c: what is written is unpacked again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "export/gzip.h"
#include "tests/unit/unit.h"

enum { GZIP_WINDOW_BITS = 15 + 16, GZIP_TIME_AT = 4, CHUNK = 65536 };

static char *pack(const uint8_t *data, size_t n, size_t *ret_bytes)
{
	char *packed = NULL;
	FILE *out = open_memstream(&packed, ret_bytes);

	assert_non_null(out);
	assert_int_equal(gzip_write(out, data, n), 0);
	fclose(out);
	return packed;
}

/* One member that holds these bytes and nothing else. */
static void assert_unpacks_to(char *packed, size_t packed_n, const uint8_t *want, size_t n)
{
	uint8_t *data = malloc(n + 1);
	z_stream z = {.next_in = (Bytef *)packed,
		      .avail_in = (uInt)packed_n,
		      .next_out = data,
		      .avail_out = (uInt)n + 1};

	assert_non_null(data);
	assert_int_equal(inflateInit2(&z, GZIP_WINDOW_BITS), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	assert_int_equal(z.total_out, n);
	assert_memory_equal(data, want, n);
	inflateEnd(&z);
	free(data);
}

/* Bytes that do not pack, and such that do; around the size of what is taken at a time. */
static void each_size_comes_back(void **state)
{
	static const size_t sizes[] = {0,         1,         CHUNK - 1,     CHUNK,
				       CHUNK + 1, 5 * CHUNK, 5 * CHUNK + 77};
	const size_t most = 6 * CHUNK;
	uint8_t *noise = malloc(most), *even = calloc(1, most);
	uint32_t x = 1;

	assert_true(noise && even);
	for (size_t i = 0; i < most; i++)
		noise[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n;
		char *packed = pack(noise, sizes[i], &n);

		assert_unpacks_to(packed, n, noise, sizes[i]);
		free(packed);
		packed = pack(even, sizes[i], &n);
		assert_unpacks_to(packed, n, even, sizes[i]);
		assert_true(sizes[i] < 1000 || n < sizes[i] / 100);
		free(packed);
	}
	free(noise);
	free(even);
}

/* The same profile gives the same file. */
static void no_time_is_in_it(void **state)
{
	size_t n;
	char *packed = pack((const uint8_t *)"text", 4, &n);

	assert_true(n > GZIP_TIME_AT + 4);
	assert_memory_equal(packed + GZIP_TIME_AT, "\0\0\0\0", 4);
	free(packed);
}

static void a_full_disk_is_told(void **state)
{
	FILE *out = fopen("/dev/full", "w");

	assert_non_null(out);
	setvbuf(out, NULL, _IONBF, 0);
	assert_int_equal(gzip_write(out, (const uint8_t *)"text", 4), -EIO);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size_comes_back),
		cmocka_unit_test(no_time_is_in_it),
		cmocka_unit_test(a_full_disk_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
