/* SPDX-License-Identifier: Apache-2.0 */
/* text_node.h: what a line of text says of a frame beside its name: the place, and the state of its own time. */
#ifndef SPANPROF_EXPORT_TEXT_NODE_H
#define SPANPROF_EXPORT_TEXT_NODE_H

#include "export/line.h"
#include "model/tree.h"

/* "orders.c:88", or the module's name, or "". In buf, or a constant. */
const char *text_node_where(const struct profile *p, uint32_t frame, uint32_t module, char *buf,
			    size_t n);

/*
 * What the node's own time went into: the state that holds nearly all of it, or the first two, or
 * only the first when two do not fit into max columns, and "..." for others. Returns the style of the first one.
 */
enum line_style text_node_state(const struct tree_node *node, unsigned int max, char *buf,
				size_t n);

#endif
