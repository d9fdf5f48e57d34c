/* SPDX-License-Identifier: Apache-2.0 */
/*
 * specs.h: the endpoints that the options of `run` or `record` ask for, those of a preset included,
 * and the servers that a preset is for when the options name no process.
 */
#ifndef SPANPROF_APP_SPECS_H
#define SPANPROF_APP_SPECS_H

#include "app/run_options.h"
#include "probe/preset.h"
#include "probe/servers.h"

/* All zero: empty. */
struct specs {
	struct presets *presets;          /* NULL: none asked for */
	const struct preset *preset;      /* in presets */
	struct servers servers;           /* that the preset is for, when nothing else is named */
	VEC(struct endpoint *) endpoints; /* owned; NULL: taken */
};

/* 0, or an exit status after a message. */
int specs_read(struct specs *s, const struct run_options *o);
void specs_deinit(struct specs *s);
/* What the programs of all endpoints have to be able to do: ENDPOINT_NEEDS_*. */
unsigned int specs_needs(const struct specs *s);

#endif
