/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/decode.h"
#include "unit.h"

/* Room for any record, aligned as the ring aligns them. */
union record {
	struct wire_header h;
	struct wire_promoted promoted;
	struct wire_snapshot snapshot;
	struct wire_end end;
	struct wire_retsite retsite;
	struct wire_proc proc;
	uint64_t words[1024];
};

static void begin(union record *r, enum wire_kind kind, size_t bytes)
{
	memset(r, 0, sizeof(*r));
	r->h.kind = kind;
	r->h.size = (uint32_t)bytes;
}

static void begin_snapshot(union record *r, unsigned int frames, unsigned int window)
{
	begin(r, WIRE_K_SNAPSHOT, sizeof(r->snapshot) + frames * 8 + window);
	r->snapshot.snap_kind = WIRE_SNAP_ONCPU;
	r->snapshot.n_spans = 1;
	r->snapshot.kernel_frames = (uint16_t)frames;
	r->snapshot.window_bytes = window;
}

static enum decode_result decode(const union record *r)
{
	struct event e;

	return decode_record(r, r->h.size, &e);
}

static void snapshot_has_its_parts(void **state)
{
	union record r;
	struct event e;

	begin_snapshot(&r, 2, 64);
	assert_int_equal(decode_record(&r, sizeof(r), &e), DECODE_OK);
	assert_ptr_equal(e.snapshot, &r);
	assert_ptr_equal(e.kernel, (char *)&r + sizeof(r.snapshot));
	assert_ptr_equal(e.window, (char *)&r + sizeof(r.snapshot) + 16);
}

static void snapshot_parts_must_fit(void **state)
{
	union record r;

	begin_snapshot(&r, 2, 64);
	r.snapshot.window_bytes += 8;
	assert_int_equal(decode(&r), DECODE_E_SHORT);
	r.snapshot.window_bytes = 64;
	r.snapshot.kernel_frames = 3;
	assert_int_equal(decode(&r), DECODE_E_SHORT);
}

static void snapshot_fields_are_checked(void **state)
{
	union record r;

	begin_snapshot(&r, 0, 64);
	r.snapshot.n_spans = 0;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.snapshot.n_spans = WIRE_NAMED_MAX + 1;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.snapshot.n_spans = 1;
	r.snapshot.snap_kind = WIRE_SNAP_STUCK + 1;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.snapshot.snap_kind = WIRE_SNAP_STUCK;
	assert_int_equal(decode(&r), DECODE_OK);
	r.snapshot.window_bytes = UINT32_MAX;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
}

static void holes_are_pages_of_the_window(void **state)
{
	union record r;

	begin_snapshot(&r, 0, 64);
	r.snapshot.regs.r[WIRE_REG_RSP] = 0x7000 - 8 + WIRE_REDZONE;
	r.snapshot.holes = 3;
	assert_int_equal(decode(&r), DECODE_OK);
	r.snapshot.holes = 4;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.snapshot.regs.r[WIRE_REG_RSP] += 8;
	r.snapshot.holes = 1;
	assert_int_equal(decode(&r), DECODE_OK);
	r.snapshot.holes = 2;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	begin_snapshot(&r, 0, 0);
	r.snapshot.holes = 1;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
}

static void record_must_be_whole(void **state)
{
	union record r;
	struct event e;

	begin(&r, WIRE_K_RETSITE, sizeof(r.retsite));
	assert_int_equal(decode(&r), DECODE_OK);
	assert_int_equal(decode_record(&r, sizeof(r.retsite) - 8, &e), DECODE_E_SHORT);
	assert_int_equal(decode_record(&r, 7, &e), DECODE_E_SHORT);
	r.h.size -= 8;
	assert_int_equal(decode(&r), DECODE_E_SHORT);
	r.h.size = sizeof(r.retsite) + 4;
	assert_int_equal(decode_record(&r, sizeof(r), &e), DECODE_E_FIELD);
	r.h.size = 0;
	assert_int_equal(decode_record(&r, sizeof(r), &e), DECODE_E_SHORT);
}

static void unknown_kinds_are_refused(void **state)
{
	union record r;

	begin(&r, WIRE_K_MAX, 512);
	assert_int_equal(decode(&r), DECODE_E_KIND);
	r.h.kind = 0;
	assert_int_equal(decode(&r), DECODE_E_KIND);
}

static void ends_are_checked(void **state)
{
	union record r;

	begin(&r, WIRE_K_END, sizeof(r.end));
	r.end.span_id = 1;
	r.end.reason = WIRE_END_RETURN;
	assert_int_equal(decode(&r), DECODE_OK);
	r.end.n_lost = 1;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.end.n_due = 1;
	assert_int_equal(decode(&r), DECODE_OK);
	r.end.reason = WIRE_END_MAX;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.end.reason = WIRE_END_EXEC;
	r.end.name_bytes = WIRE_NAME_MAX + 1;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.end.name_bytes = WIRE_NAME_MAX;
	r.h.kind = WIRE_K_SLOW;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.end.span_id = 0;
	assert_int_equal(decode(&r), DECODE_OK);
	r.end.start_ns = 1;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
}

static void promoted_is_checked(void **state)
{
	union record r;

	begin(&r, WIRE_K_PROMOTED, sizeof(r.promoted));
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.promoted.span_id = 1;
	assert_int_equal(decode(&r), DECODE_OK);
	r.promoted.ep_id = WIRE_EP_MAX;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
	r.promoted.ep_id = 0;
	r.promoted.start_ns = 2;
	assert_int_equal(decode(&r), DECODE_E_FIELD);
}

/* Appends a field as the programs do; the next offset. */
static size_t put(uint8_t *name, size_t off, uint8_t type, const void *data, uint16_t bytes)
{
	struct wire_field f = {.type = type, .bytes = bytes};

	memcpy(name + off, &f, sizeof(f));
	memcpy(name + off + sizeof(f), data, bytes);
	return off + sizeof(f) + ((bytes + 7U) & ~7U);
}

static void fields_come_in_order(void **state)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	int64_t number = -5;
	struct name_field f;
	size_t n, off = 0;

	n = put(name, 0, WIRE_FIELD_STR, "hello", 5);
	n = put(name, n, WIRE_FIELD_INT, &number, sizeof(number));
	n = put(name, n, WIRE_FIELD_FAULT, "", 0);
	assert_true(decode_field(name, n, &off, &f));
	assert_int_equal(f.text_bytes, 5);
	assert_memory_equal(f.text, "hello", 5);
	assert_true(decode_field(name, n, &off, &f));
	assert_int_equal(f.type, WIRE_FIELD_INT);
	assert_int_equal(f.number, -5);
	assert_true(decode_field(name, n, &off, &f));
	assert_int_equal(f.type, WIRE_FIELD_FAULT);
	assert_false(decode_field(name, n, &off, &f));
}

static void bad_fields_end_the_name(void **state)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	struct name_field f;
	size_t off = 0, n = put(name, 0, WIRE_FIELD_STR, "hello", 5);

	assert_false(decode_field(name, 12, &off, &f));
	assert_false(decode_field(name, 7, &off, &f));
	off = n + 1;
	assert_false(decode_field(name, n, &off, &f));
	off = 0;
	put(name, 0, 99, "hello", 5);
	assert_false(decode_field(name, n, &off, &f));
	put(name, 0, WIRE_FIELD_INT, "hello", 5);
	assert_false(decode_field(name, n, &off, &f));
	assert_int_equal(off, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(snapshot_has_its_parts),
		cmocka_unit_test(snapshot_parts_must_fit),
		cmocka_unit_test(snapshot_fields_are_checked),
		cmocka_unit_test(holes_are_pages_of_the_window),
		cmocka_unit_test(record_must_be_whole),
		cmocka_unit_test(unknown_kinds_are_refused),
		cmocka_unit_test(ends_are_checked),
		cmocka_unit_test(promoted_is_checked),
		cmocka_unit_test(fields_come_in_order),
		cmocka_unit_test(bad_fields_end_the_name),
	};

	return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
