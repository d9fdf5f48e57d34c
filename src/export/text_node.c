/* SPDX-License-Identifier: Apache-2.0 */
#include "export/text_node.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const char *text_node_where(const struct profile *p, uint32_t frame, uint32_t module, char *buf,
			    size_t n)
{
	const struct profile_frame *f = &p->frames.at[frame];
	const char *file = text_base_name(strpool_get(p->strings, f->file));

	if (f->flags & (PROFILE_FRAME_SYNTHETIC | PROFILE_FRAME_UNKNOWN))
		return "";
	if (*file && f->line)
		snprintf(buf, n, "%s:%" PRIu32, file, f->line);
	else if (*file)
		snprintf(buf, n, "%s", file);
	else
		snprintf(buf, n, "%s",
			 text_base_name(strpool_get(p->strings, p->modules.at[module].path)));
	return buf;
}

#define MORE ", ..." /* behind the parts of a state that are shown */

struct part {
	char label[32];
	uint64_t ns;
};

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : strcmp(x->label, y->label);
}

enum { PARTS_MAX = BLOCK_CAUSE_MAX + 2 };

/* The node's own time by what the thread did, largest first. */
static size_t parts_of(const struct tree_node *t, struct part parts[PARTS_MAX])
{
	uint64_t unnamed = t->self_by_kind[SAMPLE_BLOCKED];
	size_t n = 0;

	for (unsigned int c = BLOCK_NONE + 1; c < BLOCK_CAUSE_MAX; c++) {
		unnamed -= t->self_by_cause[c];
		if (!t->self_by_cause[c])
			continue;
		snprintf(parts[n].label, sizeof(parts[n].label), "blocked: %s",
			 block_cause_name(c));
		parts[n++].ns = t->self_by_cause[c];
	}
	if (unnamed)
		parts[n++] = (struct part){"blocked", unnamed};
	if (t->self_by_kind[SAMPLE_ONCPU])
		parts[n++] = (struct part){"on-CPU", t->self_by_kind[SAMPLE_ONCPU]};
	if (t->self_by_kind[SAMPLE_RUNQ])
		parts[n++] = (struct part){"run queue", t->self_by_kind[SAMPLE_RUNQ]};
	qsort(parts, n, sizeof(*parts), compare_parts);
	return n;
}

static const char *short_label(const struct part *part)
{
	const char *cause = strstr(part->label, ": ");

	return cause ? cause + 2 : part->label;
}

/* Whether so much of it is nearly all of the node's own time. */
static bool is_most(const struct tree_node *node, uint64_t ns)
{
	return ns >= node->self_ns / 20 * 19;
}

/* The first two, or the first; a reader sees that there is more, if there is room for that. */
static void print_parts(const struct tree_node *node, const struct part parts[2], unsigned int max,
			char *buf, size_t n)
{
	const bool all = is_most(node, parts[0].ns + parts[1].ns);
	int used = snprintf(buf, n, "%s %.1f, %s %.1f%s", short_label(&parts[0]), parts[0].ns / 1e6,
			    short_label(&parts[1]), parts[1].ns / 1e6, all ? "" : MORE);

	if (used > (int)max)
		used = snprintf(buf, n, "%s %.1f%s", short_label(&parts[0]), parts[0].ns / 1e6,
				MORE);
	if (used > (int)max)
		snprintf(buf, n, "%s %.1f", short_label(&parts[0]), parts[0].ns / 1e6);
}

enum line_style text_node_state(const struct tree_node *node, unsigned int max, char *buf, size_t n)
{
	struct part parts[PARTS_MAX];
	size_t n_parts = parts_of(node, parts);

	buf[0] = 0;
	if (!n_parts)
		return LINE_PLAIN;
	if (is_most(node, parts[0].ns))
		snprintf(buf, n, "%s", parts[0].label);
	else
		print_parts(node, parts, max, buf, n);
	return parts[0].label[0] == 'b'   ? LINE_RED
	       : parts[0].label[0] == 'r' ? LINE_YELLOW
					  : LINE_GREEN;
}
