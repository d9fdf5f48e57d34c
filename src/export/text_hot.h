/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_hot.h: the functions with the most time of their own, wherever they were called from: what a tree
 * cannot show whose time is scattered over many ways to the same work.
 */
#ifndef SPANPROF_EXPORT_TEXT_HOT_H
#define SPANPROF_EXPORT_TEXT_HOT_H

#include "export/line.h"
#include "model/tree.h"

/* modules: of each frame, 0: none. 0 or -ENOMEM. */
int text_hot_print(const struct profile *p, const struct tree *tree, const uint32_t *modules,
		   struct line *l);

#endif
