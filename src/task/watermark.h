/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watermark.h: the last command time of every (source, service, instance): the greatest creation
 * time of a command that was seen on its behalf. Pure.
 *
 * It only moves forward, and it moves for commands that are refused or not meant for the instance,
 * too. A time too far in the future does not move it: a server with a wrong clock would otherwise
 * silence itself for ever.
 */
#ifndef SPANPROF_TASK_WATERMARK_H
#define SPANPROF_TASK_WATERMARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

struct watermark {
	uint64_t key; /* watermark_key() */
	int64_t create_ms;
	int64_t used_ms; /* wall clock of the last move: the oldest one makes room */
};

struct watermarks {
	VEC(struct watermark) marks; /* sorted by key */
	size_t max;                  /* set by the owner; 0: 4096 */
};

uint64_t watermark_key(const char *source, const char *service, const char *instance);

/* -1: none. */
int64_t watermarks_get(const struct watermarks *w, uint64_t key);

/* True when it moved: the owner should write it down. */
bool watermarks_move(struct watermarks *w, uint64_t key, int64_t create_ms, int64_t now_ms);

void watermarks_deinit(struct watermarks *w);

#endif
