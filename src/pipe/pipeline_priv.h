/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline_priv.h: what the parts of the pipeline share: pipeline.c, records and their stacks;
 * pipeline_rows.c, spans that have ended.
 */
#ifndef SPANPROF_PIPE_PIPELINE_PRIV_H
#define SPANPROF_PIPE_PIPELINE_PRIV_H

#include "pipe/account.h"
#include "pipe/assemble.h"
#include "pipe/ending.h"
#include "pipe/pipeline.h"
#include "pipe/spaces.h"
#include "pipe/stack_builder.h"
#include "pipe/stacks.h"

struct pipeline {
	struct pipeline_options options;
	struct pipeline_endpoint endpoints[WIRE_EP_MAX];
	uint64_t slots_set; /* bit per slot of endpoints */
	struct gates gates;
	struct profile *profile;
	struct symbolizer *symbolizer;
	pid_t symbols_pid; /* its root is opened when a stack of the span is not known yet */
	struct spaces *spaces;
	struct assemble *assemble;
	struct stacks *stacks;
	struct account account;
	struct stack_builder builder;
	struct unwind_stack walk; /* scratch: large */
};

void pipeline_count(struct pipeline *p, enum counter id, uint64_t n);
/* The string's id; 0 (the empty string) when the pool is full, which is counted. */
uint32_t pipeline_intern(struct pipeline *p, const char *text, size_t n);
/* The endpoint as the root of the stack that is being built: its function, or its name when that has no frame. */
int pipeline_endpoint_frame(struct pipeline *p, const struct open_span *s);

/* Turns a span that was taken out of the table into a row of the profile and its samples. 0 or -ENOMEM. */
int pipeline_finish_span(struct pipeline *p, const struct open_span *s, const struct ending *e);

#endif
