/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kallsyms.c: see kallsyms.h. Only text symbols (t, T, w, W) in the kernel's half are kept: 8 bytes of
 * index each (the upper 32 bits of kernel text are all ones on x86-64) and the name.
 *
 * When the addresses to be looked up are known, each symbol is offered to the first of them at or above
 * it, which keeps the nearest. What is nearest to an address is then its own or one of those before it.
 */
#include "code/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vec.h"

enum {
	CHUNK_BYTES = 64 * 1024,
	LINE_MAX_BYTES = 1024,
	ADDRESS_DIGITS = 16,
	SYMBOLS_MAX = 1 << 20,
	FUNCTION_MAX_BYTES = 1 << 20, /* further from the nearest symbol is not its code */
};

static const uint64_t TEXT_BASE = 0xffffffff00000000;

struct symbol {
	uint32_t low;  /* address - TEXT_BASE */
	uint32_t name; /* offset in names */
};

/* The nearest symbol at or below an address so far. */
struct nearest_symbol {
	uint64_t address; /* 0: none */
	char *name;       /* owned */
};

struct filter {
	const uint64_t *pcs; /* borrowed, sorted */
	size_t n;
	struct nearest_symbol *best;  /* one for each; owned */
	struct nearest_symbol lowest; /* of all symbols */
};

struct kallsyms {
	VEC(struct symbol) symbols;
	VEC(char) names;
	bool seen_address; /* any that is not zero */
	bool sorted;
	struct filter *filter; /* borrowed while reading; NULL: all symbols are kept */
};

DEFINE_CLEANUP(struct kallsyms *, kallsyms_free)

struct kallsyms *kallsyms_free(struct kallsyms *k)
{
	if (!k)
		return NULL;
	vec_free(&k->symbols);
	vec_free(&k->names);
	free(k);
	return NULL;
}

static int add_symbol(struct kallsyms *k, uint64_t address, const char *name, size_t n)
{
	struct symbol s = {.low = (uint32_t)address, .name = (uint32_t)k->names.n};

	if (k->symbols.n >= SYMBOLS_MAX)
		return 0;
	if (k->symbols.n > 0 && k->symbols.at[k->symbols.n - 1].low > s.low)
		k->sorted = false;
	if (vec_reserve(&k->names, k->names.n + n + 1) || vec_push(&k->symbols, s))
		return -ENOMEM;
	memcpy(k->names.at + k->names.n, name, n);
	k->names.at[k->names.n + n] = '\0';
	k->names.n += n + 1;
	return 0;
}

static int keep(struct nearest_symbol *s, uint64_t address, const char *name, size_t n)
{
	char *copy = strndup(name, n);

	if (!copy)
		return -ENOMEM;
	free(s->name);
	s->name = copy;
	s->address = address;
	return 0;
}

/* Of several names of one address the first is kept. */
static int offer_symbol(struct filter *f, uint64_t address, const char *name, size_t n)
{
	size_t at = search_first(f->pcs, f->n, pc, *pc < address);
	int r = 0;

	if (!f->lowest.address || address < f->lowest.address)
		r = keep(&f->lowest, address, name, n);
	if (!r && at < f->n && address > f->best[at].address)
		r = keep(&f->best[at], address, name, n);
	return r;
}

static int add_nearest(struct kallsyms *k, struct filter *f)
{
	const struct nearest_symbol *last = &f->lowest;
	int r = 0;

	if (last->name)
		r = add_symbol(k, last->address, last->name, strlen(last->name));
	for (size_t i = 0; i < f->n && !r; i++) {
		if (f->best[i].address <= last->address)
			continue;
		last = &f->best[i];
		r = add_symbol(k, last->address, last->name, strlen(last->name));
	}
	return r;
}

static void filter_deinit(struct filter *f)
{
	for (size_t i = 0; f->best && i < f->n; i++)
		free(f->best[i].name);
	free(f->best);
	free(f->lowest.name);
}

/* "ffffffff81000000 T _stext" or, for a module's, "... t name\t[module]"; line is NUL-terminated. */
static int add_line(struct kallsyms *k, const char *line)
{
	char *end;
	uint64_t address;
	size_t n;

	errno = 0;
	address = strtoull(line, &end, 16);
	if (errno || end == line || end[0] != ' ' || end[1] == '\0' || end[2] != ' ')
		return 0;
	if (address)
		k->seen_address = true;
	if (address < TEXT_BASE || !strchr("tTwW", end[1]))
		return 0;
	n = strcspn(end + 3, "\t ");
	/* "__pfx_": the padding before each function; half of the file. */
	if (n == 0 || strncmp(end + 3, "__pfx_", 6) == 0)
		return 0;
	return k->filter ? offer_symbol(k->filter, address, end + 3, n)
			 : add_symbol(k, address, end + 3, n);
}

/* Takes the whole lines of text; *ret_used is where the last of them ends. */
static int add_text(struct kallsyms *k, const char *text, size_t bytes, size_t *ret_used)
{
	const char *p = text, *end = text + bytes, *eol;
	char line[LINE_MAX_BYTES];
	int r = 0;

	while (!r && p < end && (eol = memchr(p, '\n', (size_t)(end - p)))) {
		size_t n = (size_t)(eol - p);

		if (n < sizeof(line)) {
			memcpy(line, p, n);
			line[n] = '\0';
			r = add_line(k, line);
		}
		p = eol + 1;
	}
	*ret_used = (size_t)(p - text);
	return r;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* Gives back what the vectors have to spare. */
static void shrink(struct kallsyms *k)
{
	void *names = realloc(k->names.at, k->names.n);
	void *symbols = realloc(k->symbols.at, k->symbols.n * sizeof(k->symbols.at[0]));

	if (names) {
		k->names.at = names;
		k->names.cap = k->names.n;
	}
	if (symbols) {
		k->symbols.at = symbols;
		k->symbols.cap = k->symbols.n;
	}
}

static int finish(struct kallsyms *k)
{
	if (k->symbols.n == 0)
		return k->seen_address ? -ENOENT : -EACCES;
	if (!k->sorted)
		qsort(k->symbols.at, k->symbols.n, sizeof(k->symbols.at[0]), compare_symbols);
	shrink(k);
	return 0;
}

static int kallsyms_new(struct kallsyms **ret)
{
	struct kallsyms *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->sorted = true;
	*ret = k;
	return 0;
}

int parse_kallsyms(const char *text, size_t bytes, struct kallsyms **ret)
{
	CLEANUP(kallsyms_freep) struct kallsyms *k = NULL;
	size_t used;
	int r;

	r = kallsyms_new(&k);
	if (!r)
		r = add_text(k, text, bytes, &used);
	if (!r)
		r = finish(k);
	if (r)
		return r;
	*ret = TAKE_PTR(k);
	return 0;
}

static int read_pieces(struct kallsyms *k, int fd)
{
	AUTO_FREE char *buf = malloc(CHUNK_BYTES);
	size_t have = 0, used;

	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t got = read(fd, buf + have, CHUNK_BYTES - have);
		int r;

		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		have += (size_t)got;
		r = add_text(k, buf, have, &used);
		if (r)
			return r;
		if (used == 0 && have == CHUNK_BYTES)
			return -ENOENT; /* not the text of kallsyms */
		memmove(buf, buf + used, have - used);
		have -= used;
	}
}

static int read_filtered(const char *path, struct filter *filter, struct kallsyms **ret)
{
	CLEANUP(kallsyms_freep) struct kallsyms *k = NULL;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = kallsyms_new(&k);
	if (r)
		return r;
	k->filter = filter;
	r = read_pieces(k, fd);
	k->filter = NULL;
	if (!r && filter)
		r = add_nearest(k, filter);
	if (!r)
		r = finish(k);
	if (r)
		return r;
	*ret = TAKE_PTR(k);
	return 0;
}

int read_kallsyms(const char *path, struct kallsyms **ret)
{
	return read_filtered(path, NULL, ret);
}

int read_kallsyms_of(const char *path, const uint64_t *pcs, size_t n, struct kallsyms **ret)
{
	CLEANUP(filter_deinit) struct filter f = {.pcs = pcs, .n = n};

	f.best = calloc(n + 1, sizeof(*f.best));
	return f.best ? read_filtered(path, &f, ret) : -ENOMEM;
}

bool kallsyms_is_hidden(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[4096 + 1];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (n <= 0)
		return false;
	buf[n] = '\0';
	for (const char *line = buf; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strspn(line, "0") < ADDRESS_DIGITS && strchr(line, '\n'))
			return false;
	}
	return true;
}

const char *kallsyms_find(const struct kallsyms *k, uint64_t pc, uint64_t *ret_off)
{
	uint32_t low = (uint32_t)pc;
	size_t lo = search_first(k->symbols.at, k->symbols.n, s, s->low <= low);

	if (pc < TEXT_BASE)
		return NULL;
	if (lo == 0 || low - k->symbols.at[lo - 1].low >= FUNCTION_MAX_BYTES)
		return NULL;
	/* Of several names of one address the first is the function's; the rest are labels and aliases. */
	for (lo--; lo > 0 && k->symbols.at[lo - 1].low == k->symbols.at[lo].low;)
		lo--;
	*ret_off = k->symbols.at[lo].low - k->symbols.at[0].low;
	return k->names.at + k->symbols.at[lo].name;
}

size_t kallsyms_count(const struct kallsyms *k)
{
	return k->symbols.n;
}
