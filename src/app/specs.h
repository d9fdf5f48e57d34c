/* SPDX-License-Identifier: Apache-2.0 */
/*
 * specs.h: the endpoints that the options of `run` or `record` ask for, those of presets included,
 * and the servers that a preset is for when the options name no process.
 *
 * With several presets the processes that the same of them are for are an instance, in which only their
 * endpoints are looked for: PostgreSQL is not searched for the functions of Redis.
 */
#ifndef SPANPROF_APP_SPECS_H
#define SPANPROF_APP_SPECS_H

#include "app/run_options.h"
#include "probe/preset.h"
#include "probe/servers.h"

enum { SPECS_ANY = 1 }; /* the instance of processes in which all endpoints are looked for */

struct spec_group {
	const struct preset *preset;
	struct servers servers; /* that the preset is for, when nothing else is named */
	uint64_t endpoints;     /* a bit for each of the preset's in specs.endpoints */
};

/* All zero: empty. */
struct specs {
	struct presets *presets;          /* NULL: none asked for */
	VEC(struct spec_group) groups;    /* one for each preset */
	VEC(struct endpoint *) endpoints; /* owned; NULL: taken; at most WIRE_EP_MAX */
	uint64_t others;                  /* bits of endpoints that are no preset's */
	VEC(uint64_t) limits;             /* of the instances after SPECS_ANY, as they came up */
};

/* 0, or an exit status after a message. */
int specs_read(struct specs *s, const struct run_options *o);
void specs_deinit(struct specs *s);
/* What the programs of all endpoints have to be able to do: ENDPOINT_NEEDS_*. */
unsigned int specs_needs(const struct specs *s);

/* Instances are SPECS_ANY and the numbers after it, without a gap. */
uint32_t specs_n_instances(const struct specs *s);
/* Of a process that runs this file; it may be a new one. 0, -ENOMEM. */
int specs_instance_of(struct specs *s, const char *exe_path, uint32_t *ret);
/* Bits of the endpoints that are looked for in an instance. */
uint64_t specs_limit(const struct specs *s, uint32_t instance_id);

#endif
