/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest.h: the few names that are most like a given one, for "did you mean". Pure.
 *
 * Likeness is by edit distance without regard to case, of the whole name or of its last component
 * ("ns::f" is near "f"); a name that contains the given one counts as near, too. A short
 * one must begin with the same letter.
 */
#ifndef SPANPROF_CODE_NEAREST_H
#define SPANPROF_CODE_NEAREST_H

#include <stddef.h>

enum { NEAREST_TEXT_MAX = 256, NEAREST_MAX = 8 };

struct nearest {
	char name[NEAREST_TEXT_MAX]; /* what is looked for, in lower case */
	size_t name_n;
	size_t limit; /* a distance above this is not near */
	size_t n;
	struct nearest_name {
		size_t distance;
		char text[NEAREST_TEXT_MAX];
	} best[NEAREST_MAX]; /* nearest first */
};

void nearest_init(struct nearest *near, const char *name);
void nearest_offer(struct nearest *near, const char *text);

#endif
