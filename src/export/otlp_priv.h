/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp_priv.h: an OTLP message under construction. For otlp*.c only.
 */
#ifndef SPANPROF_EXPORT_OTLP_PRIV_H
#define SPANPROF_EXPORT_OTLP_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/strpool.h"
#include "base/vec.h"
#include "export/arena.h"
#include "export/dict.h"
#include "export/group.h"
#include "model/profile.h"
#include "otlp.pb-c.h"

struct otlp_process {
	uint32_t tgid; /* 0: no process was seen */
	size_t n_groups;
};

struct otlp {
	const struct profile *p;
	struct arena arena;
	struct dict dict;
	struct strpool *values; /* owned; texts of attributes */
	struct groups groups;
	VEC(struct otlp_process) processes;
	VEC(Otlp__KeyValueAndUnit *) attributes;
	VEC(int32_t) profile_attributes;
	struct hash attribute_ids;
	uint32_t *stack_ids; /* owned; stack of the profile -> index, 0: not yet */
	VEC(Otlp__Stack *) stacks;
	Otlp__ValueType wall;
	Otlp__InstrumentationScope scope;
	Otlp__ProfilesDictionary tables;
	Otlp__ProfilesData message;
};

/* An attribute under construction; text is copied. */
struct otlp_value {
	const char *text; /* NULL: it is a number */
	int64_t number;
	double real;
	bool is_real;
};

/* Row 0 of each table. 0, -ENOMEM or -ENOSPC, as of all below. */
int otlp_init_tables(struct otlp *b);
int otlp_set_value(struct otlp *b, Otlp__AnyValue *out, const struct otlp_value *v);
/* The index of the attribute in the table, where it is added when it is new. */
int otlp_attribute(struct otlp *b, const char *key, const struct otlp_value *v, int32_t *ret);
/* The same of a stack of the profile. */
int otlp_stack(struct otlp *b, uint32_t stack, int32_t *ret);
/* When all else is there: the tables as the message wants them. */
int otlp_fill_tables(struct otlp *b);

#endif
