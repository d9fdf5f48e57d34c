/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h: wire records in, finished spans out.
 *
 * The only place that wires decode -> assemble -> unwind -> account -> symbolize. It does no I/O of
 * its own beyond reading mapped files through src/code, reads no clock (time is an argument), and
 * needs no root: a capture file drives it the same way as the ring buffer does.
 */
#ifndef SPANPROF_PIPE_PIPELINE_H
#define SPANPROF_PIPE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/space.h"
#include "code/symbolize.h"
#include "model/profile.h"
#include "pipe/gates.h"
#include "pipe/stacks.h"
#include "probe/endpoint.h"

struct assemble;
struct open_span;
struct pipeline;

struct pipeline_options {
	struct symbolize_options symbols;
	size_t max_open_spans;    /* 0: 65536 */
	size_t max_snapshots;     /* of one span; 0: 262144 */
	size_t max_profile_bytes; /* samples beyond it are dropped, oldest spans first; 0: 64 MiB */
	bool no_symbols;          /* unwind only (record) */
	bool late_symbols;        /* all together, by pipeline_symbolize; not with on_span */
	bool live;                /* maps of unknown processes are read from /proc */
	/*
	 * Called when a span is finished and its samples are in profile->spans[span_idx]. May call
	 * profile_clear_spans() before it returns. NULL: spans stay in the profile.
	 */
	void (*on_span)(void *ctx, struct profile *profile, uint32_t span_idx);
	/* Called after a space was filled or refreshed, before the record that needed it is done. */
	void (*on_space)(void *ctx, uint32_t tgid, uint32_t as_id, struct space *space);
	void *ctx;
};

/* What the pipeline must know of an endpoint slot. */
struct pipeline_endpoint {
	const struct endpoint *spec; /* borrowed, outlives the pipeline */
	struct gate_terms terms;     /* of instances that have none of their own */
};

int pipeline_new(struct pipeline **ret, const struct pipeline_options *options);
struct pipeline *pipeline_free(struct pipeline *p);

/* Adds or changes slot ep_id (0 .. WIRE_EP_MAX - 1); profile.endpoints[ep_id + 1] is its entry. */
int pipeline_set_endpoint(struct pipeline *p, uint32_t ep_id, const struct pipeline_endpoint *e);
/* For spans of this instance that begin from now on, until pipeline_finish_gate: instead of the endpoint's. */
int pipeline_set_gate(struct pipeline *p, const struct wire_gate_key *key,
		      const struct gate_terms *terms);

/* For space_new: modules are shared by all spaces of a pipeline. Borrowed. */
struct space_cache *pipeline_space_cache(struct pipeline *p);

/*
 * The address space of a process. take_space is consumed on success and replaces an older one of the
 * same (tgid, as_id). Without a space a process's maps are read when its first record arrives, when
 * live; a space of the same as_id serves a process that is gone.
 */
int pipeline_set_space(struct pipeline *p, uint32_t tgid, uint32_t as_id, struct space *take_space);
struct space *pipeline_space(struct pipeline *p, uint32_t tgid, uint32_t as_id);
/* The process is gone: its space is dropped, unless it has open spans or relatives need it. */
void pipeline_process_gone(struct pipeline *p, uint32_t tgid);

/* One record. 0, -ENOMEM; a bad record is counted. Records that are not about spans are ignored. */
int pipeline_push(struct pipeline *p, const void *record, size_t bytes);

/* Names that only the live system knows: handed out for a capture, and given back by it. */
int pipeline_each_name(struct pipeline *p, int (*fn)(void *ctx, const struct stacks_name *name),
		       void *ctx);
int pipeline_add_name(struct pipeline *p, const struct stacks_name *name);

/* Closes the open spans of one endpoint and instance as unfinished: their gate was closed. */
int pipeline_finish_gate(struct pipeline *p, uint32_t ep_id, uint32_t instance_id, uint64_t now_ns);
/* Closes all open spans as unfinished at now_ns. */
int pipeline_finish(struct pipeline *p, uint64_t now_ns);
/*
 * late_symbols: looks up the symbols of all spans, after the last of them. Until then the stack of a
 * sample is not one of the profile's. Needs neither the processes nor the endpoints any more.
 */
int pipeline_symbolize(struct pipeline *p);

/* Gives back what look-ups of symbols hold in memory; the next one reads it again. */
void pipeline_rest(struct pipeline *p);

/* Borrowed. */
struct profile *pipeline_profile(struct pipeline *p);
size_t pipeline_open_spans(const struct pipeline *p);
/* The calls that have not ended, for hanging.h; the name that one has so far. */
const struct assemble *pipeline_open(const struct pipeline *p);
void pipeline_name(const struct pipeline *p, const struct open_span *s, char *buf, size_t bytes);
/* The profile's stack of an observation, now. -ENOTSUP: without symbols; -ENOMEM. */
int pipeline_look_up(struct pipeline *p, uint32_t tgid, uint32_t stack, uint32_t *ret_stack);

#endif
