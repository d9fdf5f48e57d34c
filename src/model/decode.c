/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.c: see decode.h. Records come from the ring, or from a capture file that anybody may have
 * written. Invariant: nothing past h->size is looked at, and h->size is at most the bytes given.
 */
#include "model/decode.h"

#include <string.h>

#include "base/arch.h"

static size_t round_up_8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* A hole is a page that the window reaches into. */
static bool holes_ok(const struct wire_snapshot *s)
{
	uint64_t start = s->regs.r[ARCH_SP] - WIRE_REDZONE;
	uint64_t n_pages = (start % WIRE_PAGE + s->window_bytes + WIRE_PAGE - 1) / WIRE_PAGE;

	return !(s->holes >> (s->window_bytes ? n_pages : 0));
}

static enum decode_result decode_snapshot(const struct wire_header *h, struct event *ret)
{
	const struct wire_snapshot *s = (const void *)h;
	size_t rest;

	if (h->size < sizeof(*s))
		return DECODE_E_SHORT;
	if (s->snap_kind < WIRE_SNAP_ONCPU || s->snap_kind > WIRE_SNAP_STUCK)
		return DECODE_E_FIELD;
	if (!s->n_spans || s->n_spans > WIRE_NAMED_MAX || s->kernel_frames > WIRE_KSTACK_MAX)
		return DECODE_E_FIELD;
	if (s->window_bytes > WIRE_WINDOW_MAX)
		return DECODE_E_FIELD;
	if (!holes_ok(s))
		return DECODE_E_FIELD;
	rest = h->size - sizeof(*s);
	if (rest < s->kernel_frames * sizeof(uint64_t) + s->window_bytes)
		return DECODE_E_SHORT;
	ret->snapshot = s;
	ret->kernel = (const uint64_t *)(s + 1);
	ret->window = (const uint8_t *)(ret->kernel + s->kernel_frames);
	return DECODE_OK;
}

static enum decode_result decode_promoted(const struct wire_header *h, struct event *ret)
{
	const struct wire_promoted *p = (const void *)h;

	if (h->size < sizeof(*p))
		return DECODE_E_SHORT;
	if (!p->span_id || p->name_bytes > WIRE_NAME_MAX || p->ep_id >= WIRE_EP_MAX)
		return DECODE_E_FIELD;
	if (p->promoted_ns < p->start_ns)
		return DECODE_E_FIELD;
	ret->promoted = p;
	return DECODE_OK;
}

static enum decode_result decode_end(const struct wire_header *h, struct event *ret)
{
	const struct wire_end *e = (const void *)h;

	if (h->size < sizeof(*e))
		return DECODE_E_SHORT;
	if (e->name_bytes > WIRE_NAME_MAX || e->ep_id >= WIRE_EP_MAX)
		return DECODE_E_FIELD;
	if (!e->reason || e->reason >= WIRE_END_MAX || e->n_lost > e->n_due ||
	    h->mono_ns < e->start_ns)
		return DECODE_E_FIELD;
	if (!e->span_id != (h->kind == WIRE_K_SLOW))
		return DECODE_E_FIELD;
	ret->end = e;
	return DECODE_OK;
}

static enum decode_result decode_kind(const struct wire_header *h, struct event *ret)
{
	switch (h->kind) {
	case WIRE_K_PROMOTED:
		return decode_promoted(h, ret);
	case WIRE_K_SNAPSHOT:
		return decode_snapshot(h, ret);
	case WIRE_K_END:
	case WIRE_K_SLOW:
		return decode_end(h, ret);
	case WIRE_K_RETSITE:
		ret->retsite = (const void *)h;
		return h->size < sizeof(struct wire_retsite) ? DECODE_E_SHORT : DECODE_OK;
	case WIRE_K_FORK:
	case WIRE_K_EXEC:
	case WIRE_K_EXIT:
		ret->proc = (const void *)h;
		return h->size < sizeof(struct wire_proc) ? DECODE_E_SHORT : DECODE_OK;
	case WIRE_K_CUT:
		return DECODE_OK;
	}
	return DECODE_E_KIND;
}

enum decode_result decode_record(const void *data, size_t bytes, struct event *ret)
{
	const struct wire_header *h = data;
	struct event event = {.h = h};
	enum decode_result r;

	if (bytes < sizeof(*h) || h->size < sizeof(*h) || h->size > bytes)
		return DECODE_E_SHORT;
	if (h->size % 8)
		return DECODE_E_FIELD;
	r = decode_kind(h, &event);
	if (r == DECODE_OK)
		*ret = event;
	return r;
}

bool decode_field(const uint8_t *name, size_t name_bytes, size_t *off, struct name_field *ret)
{
	struct wire_field f;
	const uint8_t *data;

	if (*off > name_bytes || name_bytes - *off < sizeof(f))
		return false;
	memcpy(&f, name + *off, sizeof(f));
	data = name + *off + sizeof(f);
	if (f.bytes > name_bytes - *off - sizeof(f))
		return false;
	*ret = (struct name_field){.type = f.type};
	switch (f.type) {
	case WIRE_FIELD_STR:
	case WIRE_FIELD_CUT:
		ret->text = (const char *)data;
		ret->text_bytes = f.bytes;
		break;
	case WIRE_FIELD_INT:
	case WIRE_FIELD_UINT:
		if (f.bytes != sizeof(ret->number))
			return false;
		memcpy(&ret->number, data, sizeof(ret->number));
		break;
	case WIRE_FIELD_FAULT:
		break;
	default:
		return false;
	}
	*off += sizeof(f) + round_up_8(f.bytes);
	return true;
}
