/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h: everything we send to a SkyWalking backend, as bytes. Pure.
 *
 * Whole messages go through protobuf-c, the many snapshots of a span through nanopb's stream encoder.
 * All texts are made fit for the wire (net/label.h) here and nowhere else.
 */
#ifndef SPANPROF_NET_MESSAGES_H
#define SPANPROF_NET_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "model/profile.h"
#include "model/task.h"
#include "net/snapshots.h"
#include "net/tracecontext.h"

/* Bytes of one or several messages. */
struct bytes {
	uint8_t *at; /* owned */
	size_t n;
	size_t cap;
};

void bytes_deinit(struct bytes *b);

/* SpanLayer on the wire. */
enum segment_layer {
	SEGMENT_LAYER_UNKNOWN,
	SEGMENT_LAYER_DATABASE,
	SEGMENT_LAYER_RPC,
	SEGMENT_LAYER_HTTP,
	SEGMENT_LAYER_MQ,
	SEGMENT_LAYER_CACHE,
	SEGMENT_LAYER_FAAS,
	SEGMENT_LAYER_MAX
};

/* What a segment says beside what the span itself does. Texts are borrowed. */
struct segment_info {
	const struct instance *instance;
	const char *segment_id;
	const char *trace_id;               /* used when there is no context */
	const char *endpoint;               /* operation name */
	const struct tracecontext *context; /* NULL: the trace begins here */
};

/*
 * The layer and component of an instance's spans: its properties "span_layer" ("Http", "Database",
 * "RPCFramework", "MQ", "Cache", "FAAS", "Unknown") and "component_id" if given; else by the
 * instance's layer and the look of the endpoint's name.
 */
enum segment_layer segment_layer_of(const struct instance *i, const char *endpoint);
int32_t segment_component_of(const struct instance *i);

/* All of these append to `to`; 0 or -ENOMEM, and then `to` is as it was. */
int encode_keep_alive(const struct instance *i, struct bytes *to);
int encode_properties(const struct instance *i, const char *hostname, struct bytes *to);
int encode_task_query(const struct instance *i, int64_t last_command_ms, struct bytes *to);
int encode_task_finish(const struct instance *i, const char *task_id, struct bytes *to);
/* A line of text for the server's log. */
int encode_log(const struct instance *i, int64_t time_ms, const char *text, struct bytes *to);
int encode_segment(const struct profile *p, uint32_t span, const struct snapshots *s,
		   const struct segment_info *info, struct bytes *to);

/* One frame stack, for use by all snapshots with that path. */
int encode_stack(const struct snapshots *s, uint32_t path, struct bytes *to);
/* The rest of a ThreadSnapshot. */
struct snapshot_head {
	const char *task_id; /* both fit for the wire already */
	const char *segment_id;
	int64_t time_ms;
	int32_t sequence;
};

/* One ThreadSnapshot; stack: from encode_stack(). */
int encode_snapshot(const struct snapshot_head *h, const uint8_t *stack, size_t stack_bytes,
		    struct bytes *to);

#endif
