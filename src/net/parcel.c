/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parcel.c: one span ready to be sent: a head, two ids, the segment, the stacks, the snapshots.
 * Numbers are in the machine's order: a spool file stays on its machine.
 */
#include "net/parcel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/label.h"

#define PARCEL_MAGIC 0x504b4353U /* "SCKP" */

#define START_MS_MAX (1LL << 53)

struct parcel_head {
	uint32_t magic;
	uint32_t task_bytes; /* with their NUL */
	uint32_t id_bytes;
	uint32_t segment_bytes;
	uint32_t n_stacks;
	uint32_t stacks_bytes;
	uint32_t n_snapshots;
	uint32_t zero;
	int64_t start_ms;
};
_Static_assert(sizeof(struct parcel_head) == 40, "parcel_head");

static int append(struct bytes *to, const void *data, size_t n)
{
	int r = vec_reserve(to, to->n + n);

	if (r || !n)
		return r;
	memcpy(to->at + to->n, data, n);
	to->n += n;
	return 0;
}

static int append_number(struct bytes *to, size_t v)
{
	uint32_t v32 = (uint32_t)v;

	return append(to, &v32, sizeof(v32));
}

static uint32_t number_at(const uint8_t *at, size_t idx)
{
	uint32_t v;

	memcpy(&v, at + idx * sizeof(v), sizeof(v));
	return v;
}

static int pack_stacks(const struct snapshots *s, size_t max_bytes, struct bytes *to,
		       uint32_t *ret_bytes)
{
	CLEANUP(bytes_deinit) struct bytes stacks = {};
	int r = append_number(to, 0);

	for (uint32_t i = 0; i < s->paths.n && !r; i++) {
		r = encode_stack(s, i, &stacks);
		if (!r && stacks.n > max_bytes)
			r = -EFBIG;
		if (!r)
			r = append_number(to, stacks.n);
	}
	*ret_bytes = (uint32_t)stacks.n;
	return r ? r : append(to, stacks.at, stacks.n);
}

static int pack_snapshots(const struct snapshots *s, struct bytes *to)
{
	int r = 0;

	for (size_t i = 0; i < s->list.n && !r; i++) {
		r = append_number(to, (size_t)(s->list.at[i].time_ms - s->start_ms));
		if (!r)
			r = append_number(to, s->list.at[i].path);
	}
	return r;
}

static int pack_text(const char *text, size_t max_units, struct bytes *to, uint32_t *ret_bytes)
{
	char clean[1024];

	*ret_bytes = (uint32_t)label_copy(clean, sizeof(clean), text, max_units) + 1;
	return append(to, clean, *ret_bytes);
}

/* All behind the head, whose numbers are filled in. */
static int pack_parts(const struct parcel_input *in, struct parcel_head *head, struct bytes *b)
{
	size_t before;
	int r;

	r = pack_text(in->task_id, TASK_ID_MAX, b, &head->task_bytes);
	if (!r)
		r = pack_text(in->info->segment_id, LABEL_ID_MAX, b, &head->id_bytes);
	if (r)
		return r;
	before = b->n;
	r = encode_segment(in->profile, in->span, in->snapshots, in->info, b);
	head->segment_bytes = (uint32_t)(b->n - before);
	if (!r)
		r = pack_stacks(in->snapshots, in->max_bytes, b, &head->stacks_bytes);
	if (!r)
		r = pack_snapshots(in->snapshots, b);
	return r || b->n <= in->max_bytes ? r : -EFBIG;
}

int pack_parcel(const struct parcel_input *in, void **ret_data, size_t *ret_bytes)
{
	struct parcel_head head = {.magic = PARCEL_MAGIC,
				   .n_stacks = (uint32_t)in->snapshots->paths.n,
				   .n_snapshots = (uint32_t)in->snapshots->list.n,
				   .start_ms = in->snapshots->start_ms};
	CLEANUP(bytes_deinit) struct bytes b = {};
	int r = append(&b, &head, sizeof(head));

	if (!r)
		r = pack_parts(in, &head, &b);
	if (r)
		return r;
	memcpy(b.at, &head, sizeof(head));
	*ret_bytes = b.n;
	*ret_data = b.at;
	b = (struct bytes){};
	return 0;
}

/* Takes n bytes from the front of what is left; NULL when there are not so many. */
static const uint8_t *take(const uint8_t **at, size_t *left, size_t n)
{
	const uint8_t *taken = *at;

	if (n > *left)
		return NULL;
	*at += n;
	*left -= n;
	return taken;
}

static bool is_text(const uint8_t *text, size_t bytes)
{
	return text && bytes && strnlen((const char *)text, bytes) == bytes - 1 &&
	       label_is_clean((const char *)text);
}

static bool check_numbers(const struct parcel *p, uint32_t stacks_bytes)
{
	if (number_at(p->stack_offs, 0) != 0 ||
	    number_at(p->stack_offs, p->n_stacks) != stacks_bytes)
		return false;
	for (uint32_t i = 0; i < p->n_stacks; i++)
		if (number_at(p->stack_offs, i) > number_at(p->stack_offs, i + 1))
			return false;
	for (uint32_t i = 0; i < p->n_snapshots; i++)
		if (number_at(p->snapshots, 2 * (size_t)i + 1) >= p->n_stacks)
			return false;
	return true;
}

enum parcel_result decode_parcel(const void *data, size_t bytes, struct parcel *ret)
{
	const uint8_t *at = data, *task, *id;
	struct parcel_head head;
	struct parcel p = {};

	if (bytes < sizeof(head))
		return PARCEL_E_FORM;
	memcpy(&head, data, sizeof(head));
	if (head.start_ms < 0 || head.start_ms > START_MS_MAX)
		return PARCEL_E_FORM;
	/* Divide, then compare: no product of what was read. */
	if (head.magic != PARCEL_MAGIC || head.n_stacks >= bytes / sizeof(uint32_t) ||
	    head.n_snapshots > bytes / (2 * sizeof(uint32_t)))
		return PARCEL_E_FORM;
	at += sizeof(head);
	bytes -= sizeof(head);
	task = take(&at, &bytes, head.task_bytes);
	id = take(&at, &bytes, head.id_bytes);
	p.segment = take(&at, &bytes, head.segment_bytes);
	p.stack_offs = take(&at, &bytes, ((size_t)head.n_stacks + 1) * sizeof(uint32_t));
	p.stacks = take(&at, &bytes, head.stacks_bytes);
	p.snapshots = take(&at, &bytes, (size_t)head.n_snapshots * 2 * sizeof(uint32_t));
	if (!is_text(task, head.task_bytes) || !is_text(id, head.id_bytes) || !p.segment ||
	    !p.stack_offs || !p.stacks || !p.snapshots || bytes)
		return PARCEL_E_FORM;
	p.task_id = (const char *)task;
	p.segment_id = (const char *)id;
	p.segment_bytes = head.segment_bytes;
	p.start_ms = head.start_ms;
	p.n_snapshots = head.n_snapshots;
	p.n_stacks = head.n_stacks;
	if (!check_numbers(&p, head.stacks_bytes))
		return PARCEL_E_FORM;
	*ret = p;
	return PARCEL_OK;
}

int encode_parcel_snapshot(const struct parcel *p, uint32_t i, struct bytes *to)
{
	uint32_t stack = number_at(p->snapshots, 2 * (size_t)i + 1);
	uint32_t from = number_at(p->stack_offs, stack), end = number_at(p->stack_offs, stack + 1);
	const struct snapshot_head head = {
		.task_id = p->task_id,
		.segment_id = p->segment_id,
		.time_ms = p->start_ms + number_at(p->snapshots, 2 * (size_t)i),
		.sequence = (int32_t)i,
	};

	return encode_snapshot(&head, p->stacks + from, end - from, to);
}
