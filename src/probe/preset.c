/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/preset.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/glob.h"
#include "base/vec.h"
#include "code/nearest.h"
#include "probe/endpoint.h"

#ifndef SPANPROF_PRESET_DIR
#error "the build must define SPANPROF_PRESET_DIR"
#endif

struct presets {
	VEC(struct preset *) all; /* owned; ordered by name */
	unsigned int n_texts;     /* that were parsed */
};

enum { PARTS_MAX = 64 };

/* Where the bytes of a value from an offset on stand in the file. */
struct part {
	size_t at;
	unsigned int number, column;
};

/* One value under construction, and where it is. */
struct line {
	const char *file;
	unsigned int number;
	unsigned int key_column;
	unsigned int value_column;
	char *key;   /* owned */
	char *value; /* owned */
	size_t n_parts;
	struct part parts[PARTS_MAX]; /* a line each */
};

struct reader {
	struct presets *p;
	struct preset *current; /* owned until its section ends */
	struct line line;       /* pending: continuation lines may follow */
	struct errmsg *e;
};

static void preset_values_deinit(struct preset_values *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->at[i]);
	*v = (struct preset_values){0};
}

static void preset_free(struct preset *p)
{
	if (!p)
		return;
	free(p->name);
	free(p->summary);
	free(p->file);
	preset_values_deinit(&p->aliases);
	preset_values_deinit(&p->exes);
	preset_values_deinit(&p->libraries);
	preset_values_deinit(&p->endpoints);
	preset_values_deinit(&p->notes);
	free(p);
}

int presets_new(struct presets **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct presets *presets_free(struct presets *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->all.n; i++)
		preset_free(p->all.at[i]);
	vec_free(&p->all);
	free(p);
	return NULL;
}

static int fail(const struct reader *r, unsigned int column, const char *why)
{
	return errmsg_set(r->e, -EINVAL, "%s:%u:%u: %s", r->line.file, r->line.number, column, why);
}

static bool is_name(const char *s)
{
	if (!*s || strlen(s) > 64)
		return false;
	for (; *s; s++)
		if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '-' &&
		    *s != '_')
			return false;
	return true;
}

/* Adds a preset; one of the same name, which another text has, is replaced. */
static int keep_preset(struct presets *p, struct preset *take)
{
	size_t at = 0;
	int r;

	while (at < p->all.n && strcmp(p->all.at[at]->name, take->name) < 0)
		at++;
	if (at < p->all.n && strcmp(p->all.at[at]->name, take->name) == 0) {
		preset_free(p->all.at[at]);
		p->all.at[at] = take;
		return 0;
	}
	r = vec_push(&p->all, take);
	if (r < 0)
		return r;
	for (size_t i = p->all.n - 1; i > at; i--)
		p->all.at[i] = p->all.at[i - 1];
	p->all.at[at] = take;
	return 0;
}

/* The section at hand is complete. */
static int end_section(struct reader *r)
{
	struct preset *p = r->current;
	struct errmsg *e = r->e;

	if (!p)
		return 0;
	if (!p->summary || p->endpoints.n == 0 || p->exes.n + p->libraries.n == 0)
		return errmsg_set(
			e, -EINVAL,
			"%s:%u:1: preset '%s' needs a summary, an endpoint, and an exe or a library",
			p->file, p->line, p->name);
	r->current = NULL;
	return keep_preset(r->p, p);
}

static int add_value(const struct reader *r, struct preset_values *v, char **take_value)
{
	if (v->n == PRESET_VALUES_MAX)
		return fail(r, r->line.key_column, "too many values of this key");
	v->at[v->n++] = TAKE_PTR(*take_value);
	return 0;
}

/* Several words in one value. */
static int add_words(const struct reader *r, struct preset_values *v, char *text)
{
	char *save = NULL;

	for (char *w = strtok_r(text, " ,\t", &save); w; w = strtok_r(NULL, " ,\t", &save)) {
		char *copy = strdup(w);
		int error = copy ? add_value(r, v, &copy) : -ENOMEM;

		free(copy);
		if (error < 0)
			return error;
	}
	return 0;
}

/* The line and column of an offset in the value. */
static void find_place(const struct line *l, size_t at, unsigned int *ret_number,
		       unsigned int *ret_column)
{
	const struct part *p = &l->parts[0];

	for (size_t i = 1; i < l->n_parts && l->parts[i].at <= at; i++)
		p = &l->parts[i];
	*ret_number = p->number;
	*ret_column = p->column + (unsigned int)(at - p->at);
}

/* The offset that a message about an endpoint names: its first line ends in "at column N". */
static size_t offset_of(const char *message)
{
	size_t n = strcspn(message, "\n");

	while (n && isdigit((unsigned char)message[n - 1]))
		n--;
	if (n < 10 || strncmp(message + n - 10, "at column ", 10) != 0)
		return 0;
	return strtoul(message + n, NULL, 10) - 1;
}

static int check_endpoint(const struct reader *r, const char *text)
{
	struct endpoint *ep = NULL;
	struct errmsg why = {""};
	int error = parse_endpoint(text, &ep, &why);
	unsigned int number, column;

	endpoint_free(ep);
	if (error == 0)
		return 0;
	find_place(&r->line, offset_of(why.text), &number, &column);
	return errmsg_set(r->e, error, "%s:%u:%u: %s", r->line.file, number, column, why.text);
}

static int end_line(struct reader *r)
{
	AUTO_FREE char *key = TAKE_PTR(r->line.key);
	AUTO_FREE char *value = TAKE_PTR(r->line.value);
	struct preset *p = r->current;

	if (!key)
		return 0;
	if (!*value)
		return fail(r, r->line.value_column, "the value is missing");
	if (strcmp(key, "summary") == 0) {
		if (p->summary)
			return fail(r, r->line.key_column, "a preset has one summary");
		p->summary = TAKE_PTR(value);
		return 0;
	}
	if (strcmp(key, "alias") == 0)
		return add_words(r, &p->aliases, value);
	if (strcmp(key, "exe") == 0)
		return add_words(r, &p->exes, value);
	if (strcmp(key, "library") == 0)
		return add_words(r, &p->libraries, value);
	if (strcmp(key, "note") == 0)
		return add_value(r, &p->notes, &value);
	if (strcmp(key, "endpoint") == 0) {
		int error = check_endpoint(r, value);

		return error < 0 ? error : add_value(r, &p->endpoints, &value);
	}
	return fail(r, r->line.key_column,
		    "unknown key (alias, summary, exe, library, endpoint, note)");
}

/* The second of a name in a file is a mistake; in another file it is meant to replace the first. */
static int check_twice(const struct reader *r, const struct preset *p)
{
	char why[192];

	for (size_t i = 0; i < r->p->all.n; i++) {
		const struct preset *other = r->p->all.at[i];

		if (other->text_number != p->text_number || strcmp(other->name, p->name) != 0)
			continue;
		snprintf(
			why, sizeof(why),
			"preset '%.64s' is in line %u already: rename one of them, or make them one",
			p->name, other->line);
		return fail(r, 2, why);
	}
	return 0;
}

static int begin_section(struct reader *r, const char *s, size_t n)
{
	struct preset *p;

	if (n < 3 || s[n - 1] != ']')
		return fail(r, (unsigned int)n, "expected [name]");
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	r->current = p;
	p->line = r->line.number;
	p->text_number = r->p->n_texts;
	p->file = strdup(r->line.file);
	p->name = strndup(s + 1, n - 2);
	if (!p->file || !p->name)
		return -ENOMEM;
	if (!is_name(p->name))
		return fail(r, 2, "a preset's name has lower-case letters, digits, - and _");
	return check_twice(r, p);
}

/* "key = value" */
static int begin_value(struct reader *r, const char *s, size_t n)
{
	const char *eq = memchr(s, '=', n);
	size_t key = eq ? (size_t)(eq - s) : 0;
	size_t value = key + 1;

	r->line.key_column = 1;
	if (!eq)
		return fail(r, 1, "expected key = value");
	if (!r->current)
		return fail(r, 1, "a [name] must come first");
	while (key && isspace((unsigned char)s[key - 1]))
		key--;
	while (value < n && isspace((unsigned char)s[value]))
		value++;
	r->line.value_column = (unsigned int)value + 1;
	r->line.n_parts = 1;
	r->line.parts[0] =
		(struct part){.number = r->line.number, .column = (unsigned int)value + 1};
	r->line.key = strndup(s, key);
	r->line.value = strndup(s + value, n - value);
	return r->line.key && r->line.value ? 0 : -ENOMEM;
}

static int continue_value(struct reader *r, const char *s, size_t n, unsigned int number)
{
	unsigned int column = 1;
	char *longer;
	size_t have;

	for (; n && isspace((unsigned char)*s); column++) {
		s++;
		n--;
	}
	if (!r->line.key || r->line.n_parts == PARTS_MAX) {
		r->line.number = number;
		return fail(r, column,
			    r->line.key ? "a value has too many lines"
					: "there is no value to continue here");
	}
	have = strlen(r->line.value);
	r->line.parts[r->line.n_parts++] =
		(struct part){.at = have + 1, .number = number, .column = column};
	longer = realloc(r->line.value, have + n + 2);
	if (!longer)
		return -ENOMEM;
	snprintf(longer + have, n + 2, " %.*s", (int)n, s);
	r->line.value = longer;
	return 0;
}

static int read_line(struct reader *r, const char *s, size_t n, unsigned int number)
{
	bool continues = n && (s[0] == ' ' || s[0] == '\t');
	int error;

	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	if (n == 0 || s[0] == '#')
		return 0;
	if (continues)
		return continue_value(r, s, n, number);
	error = end_line(r);
	r->line.number = number;
	if (error < 0)
		return error;
	if (s[0] == '[') {
		error = end_section(r);
		return error < 0 ? error : begin_section(r, s, n);
	}
	return begin_value(r, s, n);
}

static int not_a_text(const char *text, const char *file, struct errmsg *e)
{
	unsigned int number = 1, column = 1;

	for (; *text; text++, column++) {
		if (*text != '\n')
			continue;
		number++;
		column = 0;
	}
	return errmsg_set(e, -EINVAL, "%s:%u:%u: not a text file", file, number, column);
}

int parse_presets(struct presets *p, const char *text, size_t bytes, const char *file,
		  struct errmsg *e)
{
	struct reader r = {.p = p, .e = e, .line = {.file = file}};
	unsigned int number = 0;
	size_t at = 0;
	int error = 0;

	p->n_texts++;
	if (memchr(text, '\0', bytes))
		return not_a_text(text, file, e);
	while (at < bytes && error == 0) {
		const char *end = memchr(text + at, '\n', bytes - at);
		size_t n = end ? (size_t)(end - (text + at)) : bytes - at;

		error = read_line(&r, text + at, n, ++number);
		at += n + 1;
	}
	error = error < 0 ? error : end_line(&r);
	error = error < 0 ? error : end_section(&r);
	preset_free(r.current);
	free(r.line.key);
	free(r.line.value);
	return error;
}

static int load_file(struct presets *p, const char *path, struct errmsg *e)
{
	AUTO_FREE char *text = NULL;
	size_t bytes;
	int r = read_file(AT_FDCWD, path, PRESET_FILE_MAX, &text, &bytes);

	if (r < 0)
		return errmsg_set(e, r, "cannot read the presets in '%s': %s", path, strerror(-r));
	return parse_presets(p, text, bytes, path, e);
}

/* All *.preset of a folder. -ENOENT when there is no such folder. */
static int load_folder(struct presets *p, const char *dir, struct errmsg *e)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, NULL, alphasort);
	int r = n < 0 ? -errno : 0;

	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		if (r == 0 && glob_match("*.preset", names[i]->d_name) &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name) <
			    sizeof(path))
			r = load_file(p, path, e);
		free(names[i]);
	}
	free(names);
	return r;
}

/*
 * The build folder's copy, when the program (or a test) runs from there; or where they are installed
 * with it, if that was moved as a whole.
 */
static int load_beside(struct presets *p, struct errmsg *e)
{
	static const char *const ups[] = {"/../presets", "/../../presets",
					  "/../share/spanprof/presets"};
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	int r = -ENOENT;
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = '\0';
	slash = strrchr(path, '/');
	for (size_t i = 0; slash && r == -ENOENT && i < ARRAY_SIZE(ups); i++) {
		AUTO_FREE char *real = NULL;

		snprintf(slash, 32, "%s", ups[i]);
		real = realpath(path, NULL);
		r = real ? load_folder(p, real, e) : -errno;
	}
	return r;
}

DEFINE_CLEANUP(struct presets *, presets_free)

int presets_open(struct presets **ret, const char *user_file, struct errmsg *e)
{
	CLEANUP(presets_freep) struct presets *p = NULL;
	int r = presets_new(&p);

	if (r < 0)
		return r;
	r = load_beside(p, e);
	if (r == -ENOENT || r == -ENOTDIR)
		r = load_folder(p, SPANPROF_PRESET_DIR, e);
	if (r == -ENOENT && !user_file)
		return errmsg_set(
			e, r,
			"no presets: '%s' is not there; install spanprof whole ('meson install -C BUILD'), run it from its build folder, or give a file with --preset-file",
			SPANPROF_PRESET_DIR);
	if (r < 0 && r != -ENOENT)
		return r;
	r = user_file ? load_file(p, user_file, e) : 0;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}

const struct preset *presets_at(const struct presets *p, size_t idx)
{
	return idx < p->all.n ? p->all.at[idx] : NULL;
}

static bool has_alias(const struct preset *p, const char *name)
{
	for (size_t i = 0; i < p->aliases.n; i++)
		if (strcmp(p->aliases.at[i], name) == 0)
			return true;
	return false;
}

static int tell_unknown(const struct presets *p, const char *name, struct errmsg *e)
{
	char list[400] = "";
	struct nearest near;
	size_t n = 0;

	nearest_init(&near, name);
	for (size_t i = 0; i < p->all.n; i++) {
		const struct preset *one = p->all.at[i];

		nearest_offer(&near, one->name);
		for (size_t k = 0; k < one->aliases.n; k++)
			nearest_offer(&near, one->aliases.at[k]);
		if (n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
					      one->name);
	}
	return errmsg_set(e, -ENOENT, "no preset '%s'%s%s%s there are: %s", name,
			  near.n ? "; did you mean '" : "", near.n ? near.best[0].text : "",
			  near.n ? "'?" : ";", list);
}

int presets_find(const struct presets *p, const char *name, const struct preset **ret,
		 struct errmsg *e)
{
	const struct preset *found = NULL;

	/* A name comes before what is only an alias of another. */
	for (size_t i = 0; i < p->all.n; i++)
		if (strcmp(p->all.at[i]->name, name) == 0)
			found = p->all.at[i];
	for (size_t i = 0; i < p->all.n && !found; i++)
		if (has_alias(p->all.at[i], name))
			found = p->all.at[i];
	if (!found)
		return tell_unknown(p, name, e);
	*ret = found;
	return 0;
}
