/* SPDX-License-Identifier: Apache-2.0 */
#include "task/template.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { NAME_BYTES = 128 };

struct placeholder {
	const char *name;
	unsigned int needs;
};

static const struct placeholder placeholders[] = {
	{"hostname", 0},
	{"pid", TEMPLATE_NEEDS_PID},
	{"cgroup", TEMPLATE_NEEDS_CGROUP},
	{"exe", TEMPLATE_NEEDS_EXE},
	{"user", 0},
	{"service", 0},
};

struct out {
	char *buf;
	size_t n;
	size_t used;
	size_t characters;
	bool full;
};

static void put(struct out *o, char c)
{
	bool starts = ((unsigned char)c & 0xc0) != 0x80;

	if (starts && o->characters >= TEMPLATE_CHARACTERS_MAX)
		o->full = true;
	/* A character of up to four bytes must fit as a whole. */
	if (starts && o->used + 4 >= o->n)
		o->full = true;
	if (o->full || o->used + 1 >= o->n)
		return;
	o->characters += starts;
	o->buf[o->used++] = (unsigned char)c < 0x20 || c == 0x7f ? '_' : c;
}

static void put_text(struct out *o, const char *s)
{
	for (; s && *s; s++)
		put(o, *s);
}

static void put_value(struct out *o, const char *name, const struct template_values *v)
{
	char number[24];
	char env_name[NAME_BYTES], *fallback;
	const char *value;

	if (!strncmp(name, "env:", 4)) {
		snprintf(env_name, sizeof(env_name), "%s", name + 4);
		fallback = strchr(env_name, ':');
		if (fallback)
			*fallback++ = 0;
		value = v->env ? v->env(v->ctx, env_name) : NULL;
		put_text(o, value && *value ? value : fallback);
	} else if (!strcmp(name, "pid")) {
		snprintf(number, sizeof(number), "%d", v->pid);
		put_text(o, number);
	} else if (!strcmp(name, "hostname")) {
		put_text(o, v->hostname);
	} else if (!strcmp(name, "cgroup")) {
		put_text(o, v->cgroup);
	} else if (!strcmp(name, "exe")) {
		put_text(o, v->exe);
	} else if (!strcmp(name, "user")) {
		put_text(o, v->user);
	} else {
		put_text(o, v->service);
	}
}

/* The text between braces at *p ('{') into name; *p moves behind '}'. False: no '}' or too long. */
static bool take_name(const char **p, char name[NAME_BYTES])
{
	const char *end = strchr(*p, '}');
	size_t n = end ? end - *p - 1 : 0;

	if (!end || n >= NAME_BYTES)
		return false;
	memcpy(name, *p + 1, n);
	name[n] = 0;
	*p = end + 1;
	return true;
}

static int check_name(const char *text, const char *name, unsigned int *needs, struct errmsg *e)
{
	if (!strncmp(name, "env:", 4) && name[4] && name[4] != ':') {
		*needs |= TEMPLATE_NEEDS_ENV;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(placeholders); i++) {
		if (strcmp(name, placeholders[i].name))
			continue;
		*needs |= placeholders[i].needs;
		return 0;
	}
	return errmsg_set(
		e, -EINVAL,
		"'{%.64s}' in '%.128s' is not known; there are {hostname}, {pid}, {cgroup}, {exe}, {user}, {service}, {env:NAME} and {env:NAME:default}",
		name, text);
}

int template_check(const char *text, unsigned int *ret_needs, struct errmsg *e)
{
	unsigned int needs = 0;
	char name[NAME_BYTES];

	for (const char *p = text; *p;) {
		int r;

		if ((*p == '{' || *p == '}') && p[1] == *p) {
			p += 2;
			continue;
		}
		if (*p == '}')
			return errmsg_set(e, -EINVAL,
					  "'}' without '{' in '%.128s'; write '}}' for a brace",
					  text);
		if (*p != '{') {
			p++;
			continue;
		}
		if (!take_name(&p, name))
			return errmsg_set(e, -EINVAL,
					  "'{' without '}' in '%.128s'; write '{{' for a brace",
					  text);
		r = check_name(text, name, &needs, e);
		if (r)
			return r;
	}
	*ret_needs = needs;
	return 0;
}

void template_expand(const char *text, const struct template_values *v, char *buf, size_t n)
{
	struct out o = {.buf = buf, .n = n};
	char name[NAME_BYTES];

	for (const char *p = text; *p;) {
		if ((*p == '{' || *p == '}') && p[1] == *p) {
			put(&o, *p);
			p += 2;
		} else if (*p == '{' && take_name(&p, name)) {
			put_value(&o, name, v);
		} else {
			put(&o, *p++);
		}
	}
	buf[o.used] = 0;
}
