/* SPDX-License-Identifier: Apache-2.0 */
/* phases.h: ways to spend a known time, each a function of its own name on the stack. */
#ifndef SPANPROF_TESTS_PHASES_H
#define SPANPROF_TESTS_PHASES_H

#include "stage.h"

struct phase {
	const char *name;
	/* Takes about ms milliseconds. The result is there to be used, so that no call is a jump. */
	int (*run)(int ms);
};

/* NULL when there is none. */
const struct phase *phase_find(const char *name);
/* Starts the helpers that phases wait for. */
void phases_init(void);

FRAME int request(const char *name, void *script);
FRAME int phase_spin(int ms);
FRAME int phase_sleep(int ms);
FRAME int phase_mutex(int ms);
FRAME int phase_pipe(int ms);
FRAME int phase_socket(int ms);
FRAME int phase_disk(int ms);
FRAME int phase_nested(int ms);
FRAME int phase_recursive(int ms);
FRAME int phase_deep(int ms);
FRAME int phase_inner(const char *name, int ms);

#endif
