/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_tree.c: choosing, folding and printing the nodes of a tree.
 *
 * Nodes are chosen by total, largest first, a parent always before its children, until the rows
 * are used up. A line is one chosen node, or a run of chosen nodes without own time of which each
 * has one chosen child. The root is the endpoint's function, when there is one function only.
 */
#include "export/text_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/escape.h"
#include "export/text_hot.h"
#include "export/text_node.h"
#include "model/chain.h"

enum {
	NUMBERS_WIDTH = 10 + 10 + 7 + 2, /* total, self, count, gap */
	FOLD_MIN = 3,                    /* nodes without own time in a row that are folded */
	HIDE_BELOW_PERMILLE = 5,
	HOT_ABOVE = 25, /* percent of the time: if more is not shown, functions are */
	NAME_MIN = 16,
	NAME_ALIGN_MAX = 64,
	INDENT = 2,
	GAP = 2,
	NARROW = 100, /* columns below which place and state share one */
	NARROW_TAIL = 20,
	STATE_MIN = 16,
};

#define CUT_KERNEL "... > " /* stands for the kernel frames before the last one */

struct view_line {
	uint32_t first; /* node; the line stands for the run first..node, mostly one */
	uint32_t node;
	unsigned int depth;
};

struct view {
	const struct profile *p;
	struct tree *tree;
	struct line *line;
	const char *endpoint_name;
	uint32_t *frame_modules; /* owned; frame -> module, 0: none */
	bool *shown;             /* owned; node is chosen */
	uint32_t root;           /* node that is printed as the root */
	VEC(struct view_line) lines;
	VEC(struct view_line) todo; /* of fill_lines */
	uint32_t n_hidden;
	uint64_t hidden_ns;
	unsigned int name_width, where_width;
	bool narrow;
};

static void view_deinit(struct view *v)
{
	free(v->frame_modules);
	free(v->shown);
	vec_free(&v->lines);
	vec_free(&v->todo);
}

static struct tree_node *node_at(const struct view *v, uint32_t i)
{
	return &v->tree->nodes.at[i];
}

static int fill_frame_modules(struct view *v)
{
	const struct profile *p = v->p;

	v->frame_modules = calloc(p->frames.n, sizeof(*v->frame_modules));
	if (!v->frame_modules)
		return -ENOMEM;
	for (size_t i = 1; i < p->locations.n; i++) {
		const struct profile_location *l = &p->locations.at[i];

		for (uint32_t j = 0; j < l->n_frames; j++)
			v->frame_modules[p->frame_runs.at[l->first_frame + j]] = l->module;
	}
	return 0;
}

/* The only chosen child, or 0 when there are none or several. */
static uint32_t only_child(const struct view *v, uint32_t node)
{
	uint32_t found = 0;

	for (uint32_t c = node_at(v, node)->first_child; c; c = node_at(v, c)->next_sibling) {
		if (!v->shown[c])
			continue;
		if (found)
			return 0;
		found = c;
	}
	return found;
}

static bool negligible(const struct view *v, uint64_t ns)
{
	return ns < node_at(v, v->root)->total_ns / 1000 * HIDE_BELOW_PERMILLE;
}

static bool is_kernel(const struct view *v, uint32_t node)
{
	return v->p->frames.at[node_at(v, node)->frame].flags & PROFILE_FRAME_KERNEL;
}

/* The node has nothing to say but that it calls the one chosen child. */
static bool only_calls(const struct view *v, uint32_t node, uint32_t child)
{
	const struct tree_node *t = node_at(v, node);

	return child && negligible(v, t->self_ns) &&
	       negligible(v, t->total_ns - node_at(v, child)->total_ns);
}

/*
 * The line that starts at the node. A run of user frames that only call each other is one line when
 * it is long; it ends where the kernel begins. A run of kernel frames is one line with its last one,
 * which is what is interesting.
 */
static struct view_line line_from(const struct view *v, uint32_t node, unsigned int depth)
{
	struct view_line line = {node, node, depth};
	bool kernel = is_kernel(v, node);
	uint32_t n = 0, next = only_child(v, node), last = node;

	if (node == v->root)
		return line;
	for (uint32_t c = node; only_calls(v, c, next); c = next, next = only_child(v, c)) {
		n++;
		last = c;
		if (is_kernel(v, next) != kernel)
			break;
		if (kernel)
			last = next;
	}
	if (kernel ? n > 0 : n >= FOLD_MIN)
		line.node = last;
	return line;
}

/* Pushes the chosen children of the node so that the first one is popped first. */
static int push_children(struct view *v, uint32_t node, unsigned int depth)
{
	size_t from = v->todo.n, to;
	int r = 0;

	for (uint32_t c = node_at(v, node)->first_child; c && !r; c = node_at(v, c)->next_sibling)
		if (v->shown[c])
			r = vec_push(&v->todo, (struct view_line){c, c, depth});
	for (to = v->todo.n; !r && to > from + 1; from++, to--) {
		struct view_line swap = v->todo.at[from];

		v->todo.at[from] = v->todo.at[to - 1];
		v->todo.at[to - 1] = swap;
	}
	return r;
}

/* Lays out the chosen nodes, depth first. */
static int fill_lines(struct view *v)
{
	struct view_line next = {v->root, v->root, 0};
	int r;

	v->lines.n = v->todo.n = 0;
	for (;;) {
		next = line_from(v, next.first, next.depth);
		r = vec_push(&v->lines, next);
		if (!r)
			r = push_children(v, next.node, next.depth + 1);
		if (r || !v->todo.n)
			return r;
		next = v->todo.at[--v->todo.n];
	}
}

/* Largest total first, a parent before its children (they are added after it and never larger). */
static int compare_totals(const void *a, const void *b, void *ctx)
{
	const struct tree_node *nodes = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (nodes[x].total_ns != nodes[y].total_ns)
		return nodes[x].total_ns > nodes[y].total_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Chooses nodes until `rows` lines are full; what is left is counted. */
static int choose(struct view *v, unsigned int rows)
{
	AUTO_FREE uint32_t *order = calloc(v->tree->nodes.n, sizeof(*order));
	size_t n = 0, i = 0;
	int r = 0;

	v->shown = calloc(v->tree->nodes.n, sizeof(*v->shown));
	if (!order || !v->shown)
		return -ENOMEM;
	for (uint32_t k = 1; k < v->tree->nodes.n; k++)
		if (k != v->root)
			order[n++] = k;
	qsort_r(order, n, sizeof(*order), compare_totals, v->tree->nodes.at);
	v->shown[v->root] = true;
	/* Folding makes room for more: go on until the lines, not the nodes, are used up. */
	do {
		size_t used = v->lines.n ? v->lines.n : 1; /* the root's line */
		size_t room = !rows ? n : rows > used ? rows - used : 0;

		for (; i < n && room && !negligible(v, node_at(v, order[i])->total_ns); i++, room--)
			v->shown[order[i]] = true;
		r = fill_lines(v);
	} while (!r && rows && v->lines.n < rows && i < n &&
		 !negligible(v, node_at(v, order[i])->total_ns));
	for (; i < n; i++) {
		v->n_hidden++;
		v->hidden_ns += node_at(v, order[i])->self_ns;
	}
	return r;
}

static uint32_t frame_of(const struct view *v, uint32_t node)
{
	return node < v->tree->hot_line.n ? v->tree->hot_line.at[node] : node_at(v, node)->frame;
}

static const char *name_of(const struct view *v, uint32_t node)
{
	uint32_t frame = frame_of(v, node);

	return frame ? strpool_get(v->p->strings, v->p->frames.at[frame].function)
		     : v->endpoint_name;
}

static const char *where_of(const struct view *v, uint32_t node, char *buf, size_t n)
{
	uint32_t frame = frame_of(v, node);

	return text_node_where(v->p, frame, v->frame_modules[frame], buf, n);
}

/* What the node's own time went into, if that is worth a word. */
static enum line_style state_of(const struct view *v, const struct view_line *vl, unsigned int max,
				char *buf, size_t n)
{
	const struct tree_node *t = node_at(v, vl->node);

	buf[0] = 0;
	return negligible(v, t->self_ns) ? LINE_PLAIN : text_node_state(t, max, buf, n);
}

static bool is_user_run(const struct view *v, const struct view_line *vl)
{
	return vl->first != vl->node && !is_kernel(v, vl->first);
}

/* "(orders.c:134)" behind the name of a run's first frame. */
static const char *run_place(const struct view *v, uint32_t node, char *buf, size_t n)
{
	return v->p->frames.at[frame_of(v, node)].line ? where_of(v, node, buf, n) : "";
}

static void fill_chain(const struct view *v, const struct view_line *vl, struct chain_frame *frames,
		       size_t n)
{
	for (uint32_t node = vl->node; n; node = node_at(v, node)->parent) {
		uint32_t module = v->frame_modules[frame_of(v, node)];
		const char *path = strpool_get(v->p->strings, v->p->modules.at[module].path);
		uint32_t flags = v->p->frames.at[frame_of(v, node)].flags;

		frames[--n] = (struct chain_frame){
			.width = escape_width(name_of(v, node), LINE_UNLIMITED),
			.runtime = chain_is_runtime(path, name_of(v, node)),
			.unnamed = flags & PROFILE_FRAME_UNKNOWN,
		};
	}
}

static void print_chain(struct view *v, const struct view_line *vl, const char *place,
			const struct chain_frame *frames, size_t n)
{
	struct line *l = v->line;
	uint32_t node = vl->first;

	for (size_t i = 0; i < n; i++, node = only_child(v, node)) {
		if (!frames[i].shown && i && !frames[i - 1].shown)
			continue;
		if (i)
			line_text(l, LINE_DIM, CHAIN_GAP);
		line_text(l, frames[i].shown ? LINE_PLAIN : LINE_DIM,
			  frames[i].shown ? name_of(v, node) : CHAIN_CUT);
		if (!i && frames[i].shown && *place)
			line_printf(l, LINE_DIM, " (%s)", place);
	}
}

/* A folded run of user frames: "a (a.c:7) > b > c"; where there is no room, frames are left out. */
static int print_run(struct view *v, const struct view_line *vl)
{
	AUTO_FREE struct chain_frame *frames = NULL;
	unsigned int room = line_room(v->line), extra;
	char buf[512];
	const char *place = run_place(v, vl->first, buf, sizeof(buf));
	size_t n = 1;

	for (uint32_t node = vl->node; node != vl->first; node = node_at(v, node)->parent)
		n++;
	frames = calloc(n, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	fill_chain(v, vl, frames, n);
	extra = *place ? escape_width(place, LINE_UNLIMITED) + strlen(" ()") : 0;
	frames[0].width += extra;
	chain_choose(frames, n, room);
	if (extra && !frames[0].shown) {
		frames[0].width -= extra;
		chain_choose(frames, n, room);
		place = "";
	}
	print_chain(v, vl, place, frames, n);
	return 0;
}

static void print_tail(struct view *v, const struct view_line *vl)
{
	enum line_style style;
	char buf[512];

	line_cell(v->line, LINE_DIM, where_of(v, vl->node, buf, sizeof(buf)), v->where_width);
	line_pad(v->line, GAP);
	style = state_of(v, vl, line_room(v->line), buf, sizeof(buf));
	line_text(v->line, style, buf);
}

/*
 * Place and state share what is left of the line, beside a name of at least NAME_MIN. The place is only
 * there when the name is whole, and the state goes without its second part, or without the word before
 * its cause, at need.
 */
static void print_narrow(struct view *v, const struct view_line *vl)
{
	struct line *l = v->line;
	const char *name = name_of(v, vl->node);
	char where_buf[512], state[512], text[1024];
	const char *where = where_of(v, vl->node, where_buf, sizeof(where_buf));
	unsigned int room = line_room(l), max = room > NAME_MIN + GAP ? room - NAME_MIN - GAP : 0;
	unsigned int width = escape_width(name, LINE_UNLIMITED) + GAP;
	unsigned int beside = room > width ? room - width : max;
	enum line_style style = state_of(v, vl, beside, state, sizeof(state));
	const char *cause = strstr(state, ": ");

	max = beside > max ? beside : max;
	if (cause && escape_width(state, LINE_UNLIMITED) > max)
		memmove(state, cause + 2, strlen(cause + 2) + 1);
	snprintf(text, sizeof(text), "%s%s%s", where, *where && *state ? " " : "", state);
	width = escape_width(text, LINE_UNLIMITED);
	if (width > max || escape_width(name, LINE_UNLIMITED) + GAP + width > room) {
		where = "";
		width = escape_width(state, LINE_UNLIMITED);
	}
	width = width < max ? width : max;
	room -= width ? width + GAP : 0;
	if (NUMBERS_WIDTH + v->name_width > l->used &&
	    NUMBERS_WIDTH + v->name_width - l->used < room &&
	    escape_width(name, LINE_UNLIMITED) <= NUMBERS_WIDTH + v->name_width - l->used)
		room = NUMBERS_WIDTH + v->name_width - l->used;
	line_cell(l, LINE_PLAIN, name, room);
	line_pad(l, GAP);
	line_text(l, LINE_DIM, where);
	line_pad(l, *where ? 1 : 0);
	line_text(l, style, state);
}

static int print_view_line(struct view *v, const struct view_line *vl)
{
	const struct tree_node *t = node_at(v, vl->node);
	struct line *l = v->line;
	unsigned int indent = vl->depth * INDENT, max_indent = line_room(l) / 3;
	char buf[64];
	int r = 0;

	snprintf(buf, sizeof(buf), "%.1f", t->total_ns / 1e6);
	line_right(l, LINE_BOLD, buf, 10);
	snprintf(buf, sizeof(buf), "%.1f", t->self_ns / 1e6);
	line_right(l, LINE_PLAIN, buf, 10);
	snprintf(buf, sizeof(buf), "%" PRIu64, t->count);
	line_right(l, LINE_DIM, buf, 7);
	line_pad(l, 2 + (indent < max_indent ? indent : max_indent));
	if (is_user_run(v, vl)) {
		r = print_run(v, vl);
		line_end(l);
		return r;
	}
	if (vl->first != vl->node)
		line_text(l, LINE_DIM, CUT_KERNEL);
	if (v->narrow) {
		print_narrow(v, vl);
		line_end(l);
		return 0;
	}
	line_cell(l, LINE_PLAIN, name_of(v, vl->node),
		  NUMBERS_WIDTH + v->name_width > l->used ? NUMBERS_WIDTH + v->name_width - l->used
							  : NAME_MIN);
	line_pad(l, GAP);
	print_tail(v, vl);
	line_end(l);
	return 0;
}

static void widen(unsigned int *width, const char *s, unsigned int indent)
{
	unsigned int w = indent + escape_width(s, LINE_UNLIMITED);

	*width = w > *width ? w : *width;
}

/* Divides the columns right of the numbers between name, place and state; the name yields last. */
static void fill_widths(struct view *v)
{
	unsigned int room = v->line->limit > NUMBERS_WIDTH ? v->line->limit - NUMBERS_WIDTH : 0;
	unsigned int name = NAME_MIN, where = 0, state = 0, indent, rest;
	char buf[512];

	for (size_t i = 0; i < v->lines.n; i++) {
		const struct view_line *vl = &v->lines.at[i];

		if (is_user_run(v, vl))
			continue;
		indent = vl->depth * INDENT;
		if (vl->first != vl->node)
			indent += strlen(CUT_KERNEL);
		widen(&name, name_of(v, vl->node), indent);
		widen(&where, where_of(v, vl->node, buf, sizeof(buf)), 0);
		state_of(v, vl, LINE_UNLIMITED, buf, sizeof(buf));
		widen(&state, buf, 0);
	}
	if (v->line->limit == LINE_UNLIMITED) {
		v->name_width = name < NAME_ALIGN_MAX ? name : NAME_ALIGN_MAX;
		v->where_width = where < NAME_ALIGN_MAX ? where : NAME_ALIGN_MAX;
		return;
	}
	rest = room > 2 * GAP ? room - 2 * GAP : 0;
	v->narrow = name + where + state > rest && v->line->limit < NARROW;
	if (v->narrow) {
		state = state > where ? state : where;
		where = 0;
		state = state < NARROW_TAIL ? state : NARROW_TAIL;
	} else if (name + where + state > rest) {
		state = state > STATE_MIN ? STATE_MIN : state;
		where = where > rest / 4 ? rest / 4 : where;
	}
	if (name + where + state > rest)
		name = rest > where + state + NAME_MIN ? rest - where - state : NAME_MIN;
	v->name_width = name;
	v->where_width = where;
}

int text_tree_print(const struct profile *p, struct tree *tree, const char *endpoint_name,
		    unsigned int rows, struct line *l)
{
	CLEANUP(view_deinit)
	struct view v = {.p = p, .tree = tree, .line = l, .endpoint_name = endpoint_name};
	int r;

	v.root = node_at(&v, 0)->first_child;
	if (v.root && node_at(&v, v.root)->next_sibling)
		v.root = 0;
	r = fill_frame_modules(&v);
	if (!r)
		r = choose(&v, rows);
	if (r)
		return r;
	fill_widths(&v);
	line_text(l, LINE_DIM, "  total ms   self ms  count  frame");
	line_end(l);
	for (size_t i = 0; i < v.lines.n && !r; i++)
		r = print_view_line(&v, &v.lines.at[i]);
	if (v.n_hidden) {
		line_printf(l, LINE_DIM,
			    "  not shown: %" PRIu32 " frame%s with %.1f ms of self time (%.1f %%)",
			    v.n_hidden, v.n_hidden == 1 ? "" : "s", v.hidden_ns / 1e6,
			    100.0 * v.hidden_ns / node_at(&v, v.root)->total_ns);
		line_end(l);
	}
	if (!r && v.hidden_ns / HOT_ABOVE > node_at(&v, v.root)->total_ns / 100) {
		line_end(l);
		r = text_hot_print(p, tree, v.frame_modules, l);
	}
	return r;
}
