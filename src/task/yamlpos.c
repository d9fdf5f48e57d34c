/* SPDX-License-Identifier: Apache-2.0 */
#include "task/yamlpos.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"

enum { DEPTH_MAX = 12, ENTRIES_MAX = 20000, PATH_BYTES = 512 };

struct level {
	bool is_list;
	bool has_key; /* mapping: the next scalar is a value */
	unsigned int index;
	size_t path_bytes; /* of the container itself */
};

struct walk {
	struct yamlpos *pos;
	const char *text;
	size_t bytes;
	struct errmsg *e;
	struct level levels[DEPTH_MAX];
	int depth;
	char path[PATH_BYTES];
	int n_documents;
};

static int refuse(struct walk *w, const yaml_event_t *ev, const char *why)
{
	return errmsg_set(w->e, -EINVAL, "%zu: %s", ev->start_mark.line + 1, why);
}

static int note(struct walk *w, const yaml_event_t *ev)
{
	struct yamlpos_entry entry = {.line = ev->start_mark.line + 1};
	int r;

	if (w->pos->entries.n >= ENTRIES_MAX)
		return refuse(w, ev, "the file has too many entries");
	entry.path = strdup(w->path);
	r = entry.path ? vec_push(&w->pos->entries, entry) : -ENOMEM;
	if (r)
		free(entry.path);
	return r;
}

/* A node begins: the path of a list entry is made here, that of a mapping's value by its key. */
static int begin_node(struct walk *w, const yaml_event_t *ev)
{
	struct level *l = w->depth ? &w->levels[w->depth - 1] : NULL;

	if (!l || !l->is_list)
		return 0;
	snprintf(w->path + l->path_bytes, sizeof(w->path) - l->path_bytes, "[%u]", l->index++);
	return note(w, ev);
}

/* A node is over: its parent mapping waits for a key again. */
static void end_node(struct walk *w)
{
	struct level *l = w->depth ? &w->levels[w->depth - 1] : NULL;

	if (!l)
		return;
	l->has_key = false;
	w->path[l->path_bytes] = 0;
}

static int on_scalar(struct walk *w, const yaml_event_t *ev)
{
	struct level *l = w->depth ? &w->levels[w->depth - 1] : NULL;
	int r;

	if (l && !l->is_list && !l->has_key) {
		l->has_key = true;
		snprintf(w->path + l->path_bytes, sizeof(w->path) - l->path_bytes, "%s%.64s",
			 l->path_bytes ? "." : "", (const char *)ev->data.scalar.value);
		return note(w, ev);
	}
	r = begin_node(w, ev);
	end_node(w);
	return r;
}

static int on_container(struct walk *w, const yaml_event_t *ev, bool is_list)
{
	int r = begin_node(w, ev);

	if (r)
		return r;
	if (w->depth >= DEPTH_MAX)
		return refuse(w, ev, "nested too deep");
	if (w->depth && !w->levels[w->depth - 1].is_list && !w->levels[w->depth - 1].has_key)
		return refuse(w, ev, "a key must be plain text");
	w->levels[w->depth++] = (struct level){.is_list = is_list, .path_bytes = strlen(w->path)};
	return 0;
}

static int on_event(struct walk *w, const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		return ++w->n_documents > 1 ? refuse(w, ev, "only one document is allowed") : 0;
	case YAML_ALIAS_EVENT:
		return refuse(w, ev, "aliases (*name) are not allowed here; write the value out");
	case YAML_SCALAR_EVENT:
		return on_scalar(w, ev);
	case YAML_SEQUENCE_START_EVENT:
		return on_container(w, ev, true);
	case YAML_MAPPING_START_EVENT:
		return on_container(w, ev, false);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		w->depth--;
		end_node(w);
		return 0;
	default:
		return 0;
	}
}

static bool is_indented_by_tab(const struct walk *w, size_t line)
{
	const char *at = w->text, *end = w->text + w->bytes;

	while (at < end && line--) {
		const char *newline = memchr(at, '\n', end - at);

		at = newline ? newline + 1 : end;
	}
	while (at < end && (*at == ' ' || *at == '-'))
		at++;
	return at < end && *at == '\t';
}

static int bad_yaml(struct walk *w, const yaml_parser_t *parser)
{
	size_t line = parser->problem_mark.line;
	const char *why = parser->problem ? parser->problem : "not valid YAML";

	if (is_indented_by_tab(w, line))
		why = "YAML takes no tabs for indentation; use spaces";
	return errmsg_set(w->e, -EINVAL, "%zu: %s", line + 1, why);
}

static int walk_events(struct walk *w, yaml_parser_t *parser)
{
	bool more = true;
	int r = 0;

	while (more && !r) {
		yaml_event_t ev;

		if (!yaml_parser_parse(parser, &ev))
			return bad_yaml(w, parser);
		more = ev.type != YAML_STREAM_END_EVENT;
		r = on_event(w, &ev);
		yaml_event_delete(&ev);
	}
	return r;
}

int parse_yamlpos(const char *text, size_t bytes, struct yamlpos *ret, struct errmsg *e)
{
	struct yamlpos pos = {};
	struct walk w = {.pos = &pos, .text = text, .bytes = bytes, .e = e};
	yaml_parser_t parser;
	int r;

	if (!yaml_parser_initialize(&parser))
		return errmsg_set(e, -ENOMEM, "out of memory");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	r = walk_events(&w, &parser);
	yaml_parser_delete(&parser);
	if (r) {
		yamlpos_deinit(&pos);
		return r;
	}
	*ret = pos;
	return 0;
}

void yamlpos_deinit(struct yamlpos *p)
{
	for (size_t i = 0; i < p->entries.n; i++)
		free(p->entries.at[i].path);
	vec_free(&p->entries);
}

unsigned int yamlpos_line(const struct yamlpos *p, const char *path)
{
	size_t best = 0;
	unsigned int line = 0;

	for (size_t i = 0; i < p->entries.n; i++) {
		const char *have = p->entries.at[i].path;
		size_t n = strlen(have);

		if (n > best && !strncmp(have, path, n) && (!path[n] || strchr(".[", path[n]))) {
			best = n;
			line = p->entries.at[i].line;
		}
	}
	return line;
}

unsigned int yamlpos_find_key(const struct yamlpos *p, const char *key, unsigned int from)
{
	for (size_t i = 0; i < p->entries.n; i++) {
		const char *dot = strrchr(p->entries.at[i].path, '.');
		const char *last = dot ? dot + 1 : p->entries.at[i].path;

		if (p->entries.at[i].line >= from && !strcmp(last, key))
			return p->entries.at[i].line;
	}
	return 0;
}
