/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/maps.h"

#include <string.h>

#include "base/cleanup.h"

/* What is left of one line. */
struct line {
	const char *at;
	const char *end;
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static bool take_number(struct line *l, unsigned int base, uint64_t max, uint64_t *ret)
{
	const char *first = l->at;
	uint64_t v = 0;

	for (; l->at < l->end; l->at++) {
		int digit = digit_of(*l->at);

		if (digit < 0 || (unsigned int)digit >= base)
			break;
		if (v > (max - digit) / base)
			return false;
		v = v * base + digit;
	}
	*ret = v;
	return l->at > first;
}

static bool take_char(struct line *l, char c)
{
	if (l->at >= l->end || *l->at != c)
		return false;
	l->at++;
	return true;
}

static bool take_flag(struct line *l, char set, bool *ret)
{
	char c;

	if (l->at >= l->end)
		return false;
	c = *l->at++;
	*ret = c == set;
	return c == set || c == '-' || c == 'p';
}

/* start-end perms offset major:minor inode */
static bool take_fields(struct line *l, struct maps_entry *ret)
{
	uint64_t major, minor;

	if (!take_number(l, 16, UINT64_MAX, &ret->start) || !take_char(l, '-') ||
	    !take_number(l, 16, UINT64_MAX, &ret->end) || !take_char(l, ' ') ||
	    ret->end <= ret->start)
		return false;
	if (!take_flag(l, 'r', &ret->readable) || !take_flag(l, 'w', &ret->writable) ||
	    !take_flag(l, 'x', &ret->executable) || !take_flag(l, 's', &ret->shared) ||
	    !take_char(l, ' '))
		return false;
	if (!take_number(l, 16, UINT64_MAX, &ret->file_off) || !take_char(l, ' ') ||
	    !take_number(l, 16, UINT32_MAX, &major) || !take_char(l, ':') ||
	    !take_number(l, 16, UINT32_MAX, &minor) || !take_char(l, ' ') ||
	    !take_number(l, 10, UINT64_MAX, &ret->ino))
		return false;
	ret->dev_major = major;
	ret->dev_minor = minor;
	return ret->file_off <= UINT64_MAX - (ret->end - ret->start);
}

static bool take_path(struct line *l, struct maps_entry *ret)
{
	size_t n = 0;

	while (take_char(l, ' '))
		;
	while (l->at < l->end) {
		char c = *l->at++;

		if (c == '\\' && l->end - l->at >= 3 && !memcmp(l->at, "012", 3)) {
			c = '\n';
			l->at += 3;
		}
		if (!c || n >= MAPS_PATH_MAX - 1)
			return false;
		ret->path[n++] = c;
	}
	ret->path[n] = 0;
	ret->path_bytes = n;
	return true;
}

static void cut_deleted(struct maps_entry *ret)
{
	static const char mark[] = " (deleted)";
	size_t mark_bytes = sizeof(mark) - 1;

	if (ret->path_bytes <= mark_bytes ||
	    strcmp(ret->path + ret->path_bytes - mark_bytes, mark) != 0)
		return;
	ret->deleted = true;
	ret->path_bytes -= mark_bytes;
	ret->path[ret->path_bytes] = 0;
}

static enum maps_kind kind_of(const struct maps_entry *e)
{
	static const char *const memory[] = {"[heap]", "[stack", "[anon"};

	if (e->path[0] == 0)
		return MAPS_ANONYMOUS;
	if (e->path[0] != '[' || e->ino)
		return MAPS_FILE;
	if (!strcmp(e->path, "[vdso]"))
		return MAPS_VDSO;
	if (!strcmp(e->path, "[uprobes]"))
		return MAPS_UPROBES;
	for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
		if (!strncmp(e->path, memory[i], strlen(memory[i])))
			return MAPS_ANONYMOUS;
	return MAPS_SPECIAL;
}

enum maps_result parse_maps_line(const char *text, size_t bytes, size_t *off,
				 struct maps_entry *ret)
{
	const char *newline;
	struct line l;

	if (*off >= bytes)
		return MAPS_END;
	newline = memchr(text + *off, '\n', bytes - *off);
	if (!newline)
		return MAPS_E_PARTIAL;
	l = (struct line){.at = text + *off, .end = newline};
	*off = newline + 1 - text;
	ret->deleted = false;
	if (!take_fields(&l, ret) || !take_path(&l, ret))
		return MAPS_E_BAD;
	cut_deleted(ret);
	ret->kind = kind_of(ret);
	return MAPS_OK;
}
