/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_tree.h: the merged tree of one endpoint as lines of text.
 *
 * Shown is what holds most of the time: nodes below half a percent of the endpoint's time, and
 * those for which there are no rows left, are summed up in one line at the end. Runs of frames
 * that only call each other are folded into one line. What is shown never changes the numbers. When much
 * of the time is not shown, the functions follow that it was spent in.
 */
#ifndef SPANPROF_EXPORT_TEXT_TREE_H
#define SPANPROF_EXPORT_TEXT_TREE_H

#include "export/export.h"
#include "export/line.h"
#include "model/tree.h"

/* tree: by function; it is rearranged. rows: 0: no limit. 0 or -ENOMEM. */
int text_tree_print(const struct profile *p, struct tree *tree, const char *endpoint_name,
		    unsigned int rows, struct line *l);

#endif
