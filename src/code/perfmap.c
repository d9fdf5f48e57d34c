/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfmap.c: see perfmap.h. Entries are kept sorted by start, names back to back in one block.
 *
 * The invariant: after sorting, no two entries have the same start (the later one has replaced the
 * earlier one); among overlapping entries the order of arrival decides at look-up.
 */
#include "code/perfmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vec.h"
#include "code/rootfile.h"

enum {
	NAME_MAX_BYTES = 1024,
	CHUNK_BYTES = 256 * 1024,
	SCAN_MAX = 256, /* entries looked at for one address where definitions overlap */
};

struct entry {
	uint64_t start;
	uint32_t size;
	uint32_t name; /* offset in names */
	uint32_t order;
};

struct perfmap {
	VEC(struct entry) entries;
	VEC(char) names;
	uint32_t n_added;
	uint32_t max_size; /* of all entries: ends the scan for overlaps */
	bool sorted;
	size_t max_bytes;
	uint64_t file_off; /* how far the file has been read */
	dev_t dev;
	ino_t ino;
};

int perfmap_new(struct perfmap **ret, size_t max_bytes)
{
	struct perfmap *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->max_bytes = max_bytes < UINT32_MAX ? max_bytes : UINT32_MAX;
	*ret = m;
	return 0;
}

static void clear(struct perfmap *m)
{
	vec_free(&m->entries);
	vec_free(&m->names);
	m->n_added = m->max_size = 0;
	m->file_off = 0;
	m->sorted = true;
}

struct perfmap *perfmap_free(struct perfmap *m)
{
	if (!m)
		return NULL;
	clear(m);
	free(m);
	return NULL;
}

/* One hexadecimal number of at most 16 digits, with or without 0x; the place behind it, or NULL. */
static const char *parse_hex(const char *p, const char *end, uint64_t *ret)
{
	const char *first;
	uint64_t v = 0;

	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	for (first = p; p < end && p - first <= 16; p++) {
		int c = (unsigned char)*p | 0x20;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	if (p == first || p - first > 16)
		return NULL;
	*ret = v;
	return p;
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

/* False for a line that makes no sense. */
static bool parse_line(const char *p, const char *end, uint64_t *start, uint64_t *size,
		       const char **ret_name)
{
	p = parse_hex(skip_blanks(p, end), end, start);
	if (!p || p == end || (*p != ' ' && *p != '\t'))
		return false;
	p = parse_hex(skip_blanks(p, end), end, size);
	if (!p || p == end || (*p != ' ' && *p != '\t'))
		return false;
	*ret_name = skip_blanks(p, end);
	return *ret_name<end && * size> 0 && *start + *size > *start;
}

static int add_entry(struct perfmap *m, uint64_t start, uint64_t size, const char *name, size_t n)
{
	struct entry e = {.start = start, .name = (uint32_t)m->names.n, .order = m->n_added};

	if (n > NAME_MAX_BYTES)
		n = NAME_MAX_BYTES;
	if ((m->entries.n + 1) * sizeof(e) + m->names.n + n + 1 > m->max_bytes)
		return -ENOSPC;
	if (vec_reserve(&m->names, m->names.n + n + 1))
		return -ENOMEM;
	e.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
	if (vec_push(&m->entries, e))
		return -ENOMEM;
	memcpy(m->names.at + m->names.n, name, n);
	m->names.at[m->names.n + n] = '\0';
	m->names.n += n + 1;
	m->n_added++;
	m->sorted = false;
	if (e.size > m->max_size)
		m->max_size = e.size;
	return 0;
}

int perfmap_add_text(struct perfmap *m, const char *text, size_t bytes, size_t *ret_used)
{
	const char *p = text, *end = text + bytes, *eol;

	*ret_used = 0;
	while (p < end && (eol = memchr(p, '\n', (size_t)(end - p)))) {
		uint64_t start, size;
		const char *name;
		int r;

		if (parse_line(p, eol, &start, &size, &name)) {
			r = add_entry(m, start, size, name, strnlen(name, (size_t)(eol - name)));
			if (r)
				return r;
		}
		p = eol + 1;
		*ret_used = (size_t)(p - text);
	}
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_entries(struct perfmap *m)
{
	size_t n = 0;

	if (m->sorted || m->entries.n == 0)
		return;
	qsort(m->entries.at, m->entries.n, sizeof(m->entries.at[0]), compare_entries);
	for (size_t i = 0; i < m->entries.n; i++) {
		if (n > 0 && m->entries.at[n - 1].start == m->entries.at[i].start)
			n--;
		m->entries.at[n++] = m->entries.at[i];
	}
	m->entries.n = n;
	m->sorted = true;
}

const char *perfmap_find(struct perfmap *m, uint64_t pc, uint64_t *ret_start)
{
	const struct entry *best = NULL;
	size_t n;

	sort_entries(m);
	n = search_first(m->entries.at, m->entries.n, e, e->start <= pc);
	for (size_t i = n, seen = 0; i > 0 && seen < SCAN_MAX; i--, seen++) {
		const struct entry *e = &m->entries.at[i - 1];

		if (pc - e->start >= m->max_size)
			break;
		if (pc - e->start < e->size && (!best || e->order > best->order))
			best = e;
	}
	if (!best)
		return NULL;
	*ret_start = best->start;
	return m->names.at + best->name;
}

static int read_tail(struct perfmap *m, int fd)
{
	AUTO_FREE char *buf = malloc(CHUNK_BYTES);

	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t got = pread(fd, buf, CHUNK_BYTES, (off_t)m->file_off);
		size_t used;
		int r;

		if (got < 0)
			return -errno;
		r = perfmap_add_text(m, buf, (size_t)got, &used);
		if (r)
			return r;
		/* A line longer than the buffer: skipped, not looked at for ever. */
		if (used == 0 && got == CHUNK_BYTES)
			used = CHUNK_BYTES;
		if (used == 0)
			return 0;
		m->file_off += used;
	}
}

int perfmap_read(struct perfmap *m, int root_fd, pid_t ns_pid, uid_t uid)
{
	AUTO_CLOSE int fd = -1;
	char path[64];
	struct stat st;
	int r;

	snprintf(path, sizeof(path), "tmp/perf-%d.map", (int)ns_pid);
	r = rootfile_open(root_fd, path, &fd, &st);
	if (r)
		return r;
	if (st.st_uid != 0 && st.st_uid != uid)
		return -EPERM;
	if (st.st_dev != m->dev || st.st_ino != m->ino || (uint64_t)st.st_size < m->file_off)
		clear(m);
	m->dev = st.st_dev;
	m->ino = st.st_ino;
	return (uint64_t)st.st_size > m->file_off ? read_tail(m, fd) : 0;
}
