/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/capture.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/arch.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "bpf/wire.h"
#include "pipe/capture_format.h"

struct capture_writer {
	FILE *out;            /* borrowed */
	VEC(uint8_t) payload; /* of the block under construction */
	uint64_t n_blocks;
	uint32_t crc; /* of what was written so far */
	int error;
};

static void put(struct capture_writer *w, const void *data, size_t n)
{
	int r = w->error ? w->error : vec_reserve(&w->payload, w->payload.n + n);

	if (r) {
		w->error = r;
		return;
	}
	if (n)
		memcpy(w->payload.at + w->payload.n, data, n);
	w->payload.n += n;
}

/* A length and the bytes, without NUL; the rest of a text that is too long is left out. */
static void put_text(struct capture_writer *w, const char *text)
{
	uint32_t n = strnlen(text, CAPTURE_TEXT_MAX - 1);

	put(w, &n, sizeof(n));
	put(w, text, n);
}

static int emit(struct capture_writer *w, const void *data, size_t n)
{
	if (!w->error && fwrite(data, 1, n, w->out) != n)
		w->error = errno ? -errno : -EIO;
	if (n)
		w->crc = crc32_z(w->crc, data, n);
	return w->error;
}

static int finish_block(struct capture_writer *w, enum capture_type type)
{
	static const uint8_t zeros[8];
	struct capture_block_header h = {.type = type, .bytes = w->payload.n};

	emit(w, &h, sizeof(h));
	emit(w, w->payload.at, w->payload.n);
	emit(w, zeros, -w->payload.n & 7);
	w->payload.n = 0;
	w->n_blocks++;
	return w->error;
}

int capture_writer_new(struct capture_writer **ret, FILE *out, const struct capture_info *info)
{
	struct capture_writer *w = calloc(1, sizeof(*w));
	struct capture_file_header h = {
		.version = CAPTURE_VERSION,
		.wire_version = WIRE_VERSION,
		.machine = ARCH_ELF_MACHINE,
		.start_mono_ns = info->start_mono_ns,
		.start_real_ns = info->start_real_ns,
	};
	int r;

	if (!w)
		return -ENOMEM;
	w->out = out;
	memcpy(h.magic, CAPTURE_MAGIC, sizeof(h.magic));
	memcpy(h.hostname, info->hostname, sizeof(h.hostname) - 1);
	memcpy(h.kernel_release, info->kernel_release, sizeof(h.kernel_release) - 1);
	r = emit(w, &h, sizeof(h));
	if (r) {
		capture_writer_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct capture_writer *capture_writer_free(struct capture_writer *w)
{
	if (!w)
		return NULL;
	vec_free(&w->payload);
	free(w);
	return NULL;
}

int capture_write_endpoint(struct capture_writer *w, const struct capture_endpoint *e)
{
	struct capture_endpoint_head head = {
		.ep_id = e->ep_id,
		.threshold_ns = e->threshold_ns,
		.sample_after_ns = e->sample_after_ns,
		.period_ns = e->period_ns,
	};

	put(w, &head, sizeof(head));
	put_text(w, e->spec);
	put_text(w, e->display);
	return finish_block(w, CAPTURE_ENDPOINT);
}

int capture_write_space(struct capture_writer *w, uint32_t tgid, uint32_t as_id,
			const struct capture_range *ranges, size_t n)
{
	struct capture_space_head head = {.tgid = tgid, .as_id = as_id, .n_ranges = n};

	put(w, &head, sizeof(head));
	for (size_t i = 0; i < n; i++) {
		const struct capture_range *r = &ranges[i];
		struct capture_range_head range = {
			.start = r->start,
			.end = r->end,
			.file_off = r->file_off,
			.dev = r->dev,
			.ino = r->ino,
			.kind = r->kind,
			.build_id_bytes = r->build_id_bytes,
		};

		memcpy(range.build_id, r->build_id, sizeof(range.build_id));
		put(w, &range, sizeof(range));
		put_text(w, r->path ? r->path : "");
	}
	return finish_block(w, CAPTURE_SPACE);
}

int capture_write_record(struct capture_writer *w, const void *record, size_t bytes)
{
	put(w, record, bytes);
	return finish_block(w, CAPTURE_RECORD);
}

int capture_write_symbol(struct capture_writer *w, const struct capture_symbol *s)
{
	struct capture_symbol_head head = {
		.kernel = s->kernel,
		.tgid = s->tgid,
		.address = s->address,
		.frame_flags = s->frame_flags,
	};

	put(w, &head, sizeof(head));
	put_text(w, s->module);
	put_text(w, s->function);
	put_text(w, s->system_name);
	return finish_block(w, CAPTURE_SYMBOL);
}

int capture_write_latency(struct capture_writer *w, uint32_t ep_id, const struct latency *l)
{
	struct capture_latency_head head = {.ep_id = ep_id, .n_buckets = WIRE_HIST_BUCKETS};

	put(w, &head, sizeof(head));
	put(w, l, sizeof(*l));
	return finish_block(w, CAPTURE_LATENCY);
}

int capture_write_turns(struct capture_writer *w, const struct profile_turns *t)
{
	const struct capture_turns_head head = {
		.share_ppm = t->share_ppm,
		.n_turns = t->n_turns,
		.probed_ns = t->probed_ns,
		.cost_ns = t->cost_ns,
		.cpu_ns = t->cpu_ns,
	};

	put(w, &head, sizeof(head));
	return finish_block(w, CAPTURE_TURNS);
}

static void put_counter(struct capture_writer *w, unsigned int id, uint64_t value)
{
	const char *name = counter_name(id);

	if (!value || !name)
		return;
	put(w, &value, sizeof(value));
	put_text(w, name);
}

int capture_write_totals(struct capture_writer *w, uint64_t duration_ns, const struct counters *c)
{
	struct capture_totals_head head = {.duration_ns = duration_ns};
	struct capture_end_head end = {};

	for (unsigned int id = 0; id < COUNTER_MAX; id++)
		head.n_counters += c->v[id] && counter_name(id);
	put(w, &head, sizeof(head));
	for (unsigned int id = 0; id < COUNTER_MAX; id++)
		put_counter(w, id, c->v[id]);
	finish_block(w, CAPTURE_TOTALS);
	end.n_blocks = w->n_blocks;
	end.crc = w->crc;
	put(w, &end, sizeof(end));
	return finish_block(w, CAPTURE_END);
}
