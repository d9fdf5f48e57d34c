/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h: what scripted targets share: functions that stay what they are, and waiting for the test. */
#ifndef SPANPROF_TESTS_STAGE_H
#define SPANPROF_TESTS_STAGE_H

#include <stdio.h>
#include <stdlib.h>

/* A function that stays what the source says: not inlined, not cloned, not split. */
#if defined(__clang__) || defined(__cplusplus)
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noipa))
#endif

/* Says where the target is and waits for a line; at the end of input it ends with this status. */
static inline void wait_for_line(const char *say, int status)
{
	char line[16];

	printf("%s\n", say);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(status);
}

#endif
