/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h: the answer of a backend to a task poll, decoded. Pure; hostile input.
 *
 * Knows the argument keys of the command ProfileTaskQuery and how their numbers are written; does
 * not know which values are allowed (task_from_raw does). Commands of other names and arguments of
 * other keys are ignored. Memory is bounded by COMMANDS_BYTES_MAX for the answer and
 * COMMANDS_MEMORY_MAX for what it unpacks to.
 */
#ifndef SPANPROF_NET_COMMANDS_H
#define SPANPROF_NET_COMMANDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "base/vec.h"
#include "task/task.h"

enum {
	COMMANDS_BYTES_MAX = 256 << 10,
	COMMANDS_MEMORY_MAX = 4 << 20,
};

/* One ProfileTaskQuery. Texts live as long as the struct commands. */
struct profile_command {
	struct task_raw raw; /* what could be read; create_ms -1 when CreateTime is not a number */
	char *why;           /* owned; NULL: well-formed, else why it is refused */
};

struct commands {
	VEC(struct profile_command) tasks; /* oldest CreateTime first */
	size_t n_other;                    /* commands of other names */
	char *arena;                       /* owned; what the texts live in */
};

enum commands_result {
	COMMANDS_OK,
	COMMANDS_E_FORM = 1, /* not a Commands message */
	COMMANDS_E_LIMIT,    /* too large */
};

/* COMMANDS_*, or -ENOMEM. ret needs commands_deinit() only after COMMANDS_OK. */
int decode_commands(const void *data, size_t bytes, struct commands *ret);
void commands_deinit(struct commands *c);

#endif
