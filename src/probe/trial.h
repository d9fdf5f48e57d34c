/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial.h: functions of spanprof's own, in a file in memory, on which probes are tried.
 */
#ifndef SPANPROF_PROBE_TRIAL_H
#define SPANPROF_PROBE_TRIAL_H

#include <stddef.h>
#include <stdint.h>

#include "probe/attach.h"

/* The functions, by their offset in the file: each in a slot of 64 bytes. The second has its nop behind a push. */
enum { TRIAL_PUSH_AT = 0, TRIAL_NOP_AT = 64, TRIAL_MOV_AT = 128 };

struct trial {
	int fd;
	uint8_t *code;
};

/* 0, or -1: they cannot be had here. */
int trial_open(struct trial *ret);
void trial_close(struct trial *t);
void trial_call(const struct trial *t, size_t at);

/* A program that counts its calls in the first element of an array, or with map_fd -1 does nothing. */
int trial_program(const struct attach_source *source, int map_fd);

#endif
