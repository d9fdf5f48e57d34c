/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/arch.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "bpf/wire.h"
#include "pipe/capture.h"
#include "pipe/capture_format.h"

/* A bounded view into a block's payload; `bad` is set by the first read beyond its end. */
struct cursor {
	const uint8_t *at;
	size_t left;
	bool bad;
};

struct reading {
	FILE *in;
	const char *name;
	const struct capture_reader *to;
	struct errmsg *e;
	uint8_t *payload; /* owned, grows */
	size_t payload_cap;
	uint64_t n_blocks;
	uint32_t crc;    /* of what was read so far */
	bool has_totals; /* nothing but the end comes after them */
	bool ended;
	char text[3][CAPTURE_TEXT_MAX];
};

static void get(struct cursor *c, void *to, size_t n)
{
	if (c->bad || c->left < n) {
		c->bad = true;
		memset(to, 0, n);
		return;
	}
	memcpy(to, c->at, n);
	c->at += n;
	c->left -= n;
}

static void get_text(struct cursor *c, char *to)
{
	uint32_t n;

	get(c, &n, sizeof(n));
	if (n >= CAPTURE_TEXT_MAX)
		c->bad = true;
	if (c->bad)
		n = 0;
	get(c, to, n);
	to[n] = 0;
}

static int malformed(struct reading *rd, const char *what)
{
	return errmsg_set(rd->e, -EBADMSG,
			  "'%s' is not a usable capture file: block %llu has %s; record it again",
			  rd->name, (unsigned long long)rd->n_blocks, what);
}

static int read_endpoint(struct reading *rd, struct cursor *c)
{
	struct capture_endpoint_head h;
	struct capture_endpoint e;

	get(c, &h, sizeof(h));
	get_text(c, rd->text[0]);
	get_text(c, rd->text[1]);
	if (c->bad || h.ep_id >= WIRE_EP_MAX)
		return malformed(rd, "a bad endpoint");
	e = (struct capture_endpoint){
		.ep_id = h.ep_id,
		.threshold_ns = h.threshold_ns,
		.sample_after_ns = h.sample_after_ns,
		.period_ns = h.period_ns,
		.spec = rd->text[0],
		.display = rd->text[1],
	};
	return rd->to->endpoint ? rd->to->endpoint(rd->to->ctx, &e) : 0;
}

static int fill_range(struct cursor *c, struct capture_range *r, char *path)
{
	struct capture_range_head h;

	get(c, &h, sizeof(h));
	get_text(c, path);
	if (c->bad || h.start >= h.end || h.build_id_bytes > CAPTURE_BUILD_ID_MAX)
		return -EBADMSG;
	*r = (struct capture_range){
		.start = h.start,
		.end = h.end,
		.file_off = h.file_off,
		.dev = h.dev,
		.ino = h.ino,
		.kind = h.kind,
		.build_id_bytes = h.build_id_bytes,
		.path = path,
	};
	memcpy(r->build_id, h.build_id, sizeof(h.build_id));
	return 0;
}

static int read_space(struct reading *rd, struct cursor *c)
{
	struct capture_space_head h;
	AUTO_FREE struct capture_range *ranges = NULL;
	AUTO_FREE char *paths = NULL;
	char *path;

	get(c, &h, sizeof(h));
	if (c->bad || h.n_ranges > c->left / sizeof(struct capture_range_head))
		return malformed(rd, "a bad address space");
	ranges = calloc(h.n_ranges + 1, sizeof(*ranges));
	/* each text is shorter than its length word plus bytes, so all of them fit into what is left */
	paths = malloc(c->left + h.n_ranges + 1);
	if (!ranges || !paths)
		return -ENOMEM;
	path = paths;
	for (uint32_t i = 0; i < h.n_ranges; i++) {
		if (fill_range(c, &ranges[i], rd->text[0]))
			return malformed(rd, "a bad address range");
		ranges[i].path = path;
		path = stpcpy(path, rd->text[0]) + 1;
	}
	return rd->to->space ? rd->to->space(rd->to->ctx, h.tgid, h.as_id, ranges, h.n_ranges) : 0;
}

static int read_symbol(struct reading *rd, struct cursor *c)
{
	struct capture_symbol_head h;
	struct capture_symbol s;

	get(c, &h, sizeof(h));
	for (int i = 0; i < 3; i++)
		get_text(c, rd->text[i]);
	if (c->bad)
		return malformed(rd, "a bad symbol");
	s = (struct capture_symbol){
		.kernel = h.kernel,
		.tgid = h.tgid,
		.address = h.address,
		.frame_flags = h.frame_flags,
		.module = rd->text[0],
		.function = rd->text[1],
		.system_name = rd->text[2],
	};
	return rd->to->symbol ? rd->to->symbol(rd->to->ctx, &s) : 0;
}

static int read_latency(struct reading *rd, struct cursor *c)
{
	struct capture_latency_head h;
	struct latency l;

	get(c, &h, sizeof(h));
	get(c, &l, sizeof(l));
	if (c->bad || h.n_buckets != WIRE_HIST_BUCKETS || h.ep_id >= WIRE_EP_MAX)
		return malformed(rd, "a bad histogram");
	return rd->to->latency ? rd->to->latency(rd->to->ctx, h.ep_id, &l) : 0;
}

static int read_turns(struct reading *rd, struct cursor *c)
{
	struct capture_turns_head h;

	get(c, &h, sizeof(h));
	if (c->bad || !h.share_ppm || h.share_ppm > 1000000)
		return malformed(rd, "bad turns");
	if (!rd->to->turns)
		return 0;
	return rd->to->turns(rd->to->ctx, &(struct profile_turns){
						  .share_ppm = h.share_ppm,
						  .n_turns = h.n_turns,
						  .probed_ns = h.probed_ns,
						  .cost_ns = h.cost_ns,
						  .cpu_ns = h.cpu_ns,
					  });
}

static void set_counter(struct counters *c, const char *name, uint64_t value)
{
	for (unsigned int id = 0; id < COUNTER_MAX; id++)
		if (counter_name(id) && !strcmp(counter_name(id), name))
			c->v[id] = value;
}

static int read_totals(struct reading *rd, struct cursor *c)
{
	struct capture_totals_head h;
	struct counters counters = {};

	get(c, &h, sizeof(h));
	for (uint32_t i = 0; i < h.n_counters && !c->bad; i++) {
		uint64_t value;

		get(c, &value, sizeof(value));
		get_text(c, rd->text[0]);
		if (!c->bad)
			set_counter(&counters, rd->text[0], value);
	}
	if (c->bad)
		return malformed(rd, "bad totals");
	rd->has_totals = true;
	return rd->to->totals ? rd->to->totals(rd->to->ctx, h.duration_ns, &counters) : 0;
}

static int read_end(struct reading *rd, struct cursor *c)
{
	struct capture_end_head h;

	get(c, &h, sizeof(h));
	if (c->bad || h.n_blocks != rd->n_blocks)
		return malformed(rd, "a wrong number of blocks before it");
	/* The checksum does not cover what is behind it. */
	if (h.crc != rd->crc || h.pad)
		return errmsg_set(
			rd->e, -EBADMSG,
			"'%s' is damaged: its checksum is not that of its bytes; record it again",
			rd->name);
	rd->ended = true;
	return 0;
}

static int read_payload(struct reading *rd, const struct capture_block_header *h)
{
	struct cursor c = {.at = rd->payload, .left = h->bytes};

	if (rd->has_totals && h->type != CAPTURE_END)
		return malformed(rd, "a place after the totals");
	switch ((enum capture_type)h->type) {
	case CAPTURE_ENDPOINT:
		return read_endpoint(rd, &c);
	case CAPTURE_SPACE:
		return read_space(rd, &c);
	case CAPTURE_RECORD:
		return rd->to->record ? rd->to->record(rd->to->ctx, rd->payload, h->bytes) : 0;
	case CAPTURE_SYMBOL:
		return read_symbol(rd, &c);
	case CAPTURE_LATENCY:
		return read_latency(rd, &c);
	case CAPTURE_TURNS:
		return read_turns(rd, &c);
	case CAPTURE_TOTALS:
		return read_totals(rd, &c);
	case CAPTURE_END:
		return read_end(rd, &c);
	case CAPTURE_TYPE_MAX:
		break;
	}
	return malformed(rd, "an unknown type");
}

static int cut_off(struct reading *rd)
{
	if (ferror(rd->in))
		return errmsg_set(rd->e, -EIO, "cannot read '%s': %s", rd->name, strerror(errno));
	return errmsg_set(
		rd->e, -EBADMSG,
		"'%s' is cut off after %llu block%s: the recording did not end properly; record it again",
		rd->name, (unsigned long long)rd->n_blocks, rd->n_blocks == 1 ? "" : "s");
}

static int read_block(struct reading *rd)
{
	struct capture_block_header h;
	size_t padded;
	int r;

	if (fread(&h, sizeof(h), 1, rd->in) != 1)
		return cut_off(rd);
	if (h.bytes > CAPTURE_BLOCK_MAX)
		return malformed(rd, "an impossible size");
	padded = (h.bytes + 7) & ~7ULL;
	r = vec_reserve_bytes((void **)&rd->payload, &rd->payload_cap, padded + 8, 1);
	if (r)
		return r;
	if (padded && fread(rd->payload, padded, 1, rd->in) != 1)
		return cut_off(rd);
	r = read_payload(rd, &h);
	rd->crc = crc32_z(rd->crc, (const uint8_t *)&h, sizeof(h));
	rd->crc = crc32_z(rd->crc, rd->payload, padded);
	rd->n_blocks++;
	return r;
}

/* What follows the END block, or two files made one, would be left out of the profile unnoticed. */
static int check_nothing_left(struct reading *rd)
{
	if (fgetc(rd->in) == EOF)
		return ferror(rd->in) ? cut_off(rd) : 0;
	return errmsg_set(
		rd->e, -EBADMSG,
		"'%s' has more bytes after the end of its recording: read each capture file alone",
		rd->name);
}

static int read_header(struct reading *rd)
{
	struct capture_file_header h;
	struct capture_info info = {};

	if (fread(&h, sizeof(h), 1, rd->in) != 1 || memcmp(h.magic, CAPTURE_MAGIC, sizeof(h.magic)))
		return errmsg_set(
			rd->e, -EBADMSG,
			"'%s' is not a spanprof capture file; make one with 'spanprof record -o FILE'",
			rd->name);
	rd->crc = crc32_z(0, (const uint8_t *)&h, sizeof(h));
	if (h.version != CAPTURE_VERSION || h.wire_version != WIRE_VERSION)
		return errmsg_set(
			rd->e, -EBADMSG,
			"'%s' has capture format %u.%u, this program reads %u.%u; use the spanprof that recorded it",
			rd->name, h.version, h.wire_version, CAPTURE_VERSION, WIRE_VERSION);
	if (h.machine != ARCH_ELF_MACHINE)
		return errmsg_set(rd->e, -EBADMSG,
				  "'%s' was recorded on %s (ELF machine %u); only " ARCH_NAME
				  " is supported",
				  rd->name, arch_machine_name(h.machine), h.machine);
	info.start_mono_ns = h.start_mono_ns;
	info.start_real_ns = h.start_real_ns;
	memcpy(info.hostname, h.hostname, sizeof(info.hostname) - 1);
	memcpy(info.kernel_release, h.kernel_release, sizeof(info.kernel_release) - 1);
	return rd->to->info ? rd->to->info(rd->to->ctx, &info) : 0;
}

int capture_read(FILE *in, const char *name, const struct capture_reader *reader, struct errmsg *e)
{
	AUTO_FREE struct reading *rd = calloc(1, sizeof(*rd));
	int r;

	if (!rd)
		return -ENOMEM;
	rd->in = in;
	rd->name = name;
	rd->to = reader;
	rd->e = e;
	r = read_header(rd);
	while (!r && !rd->ended)
		r = read_block(rd);
	if (!r)
		r = check_nothing_left(rd);
	free(rd->payload);
	return r;
}
