/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab.c: reads the symbol tables in place.
 *
 * Up to four tables, each a checked view of a symbol section and its strings. The index by address
 * holds, sorted, (address - lowest code address, table and symbol number); a symbol that is outside
 * of the first 4 GiB of code cannot be in it. The rest of each symbol is read where it lies.
 */
#include "code/symtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "code/bounds.h"
#include "code/debugdata.h"
#include "code/debugfile_priv.h"
#include "code/demangle.h"
#include "code/elffile.h"
#include "code/nearest.h"
#include "code/symtab_priv.h"

enum {
	SEGMENTS_MAX = 16,
	NAME_MAX_BYTES = 16384, /* a longer name is not one; it would be read again and again */
	ALIAS_BYTES = 256,      /* of a name, where aliases are compared */
	WALK_MAX = 64,          /* symbols looked at for one address where they overlap */
	DEBUGDATA_MAX_BYTES = 64 << 20,
	TABLE_SHIFT = 30, /* of a code: table << 30 | symbol number */
	DEMANGLED_MAX = DEMANGLE_TEXT_MAX,
};

struct table {
	const Elf64_Sym *syms; /* borrowed from the section's data */
	size_t n;
	const char *strs; /* ends in NUL */
	size_t str_bytes;
	const Elf64_Versym *versions; /* NULL: none */
	size_t n_versions;
	Elf *elf; /* borrowed: to look at sections */
};

struct entry {
	uint32_t rel;
	uint32_t code;
};

struct segment {
	uint64_t start;
	uint64_t end;
};

struct symtab {
	struct module *m;              /* borrowed */
	const struct debugfile *debug; /* borrowed, may be NULL */
	Elf *own;            /* of the module's file, owned; NULL: the module's handle is used */
	Elf *mini;           /* .gnu_debugdata, owned */
	uint8_t *mini_bytes; /* owned, under `mini` */
	struct segment segments[SEGMENTS_MAX]; /* executable ones */
	size_t n_segments;
	struct table tables[SYMTAB_SOURCE_MAX]; /* n 0: absent */
	struct entry *index;                    /* owned, built on first use */
	size_t n_index;
	bool indexed;
	struct bounds bounds;
	bool bounded;
};

DEFINE_CLEANUP(struct symtab *, symtab_free)

/* A table is used only when its section, its strings and their sizes agree with the file. */
static void open_table(struct table *t, Elf *elf, uint32_t type)
{
	Elf64_Shdr sh, ver;
	Elf_Scn *scn = elffile_section_of_type(elf, type, &sh), *strs;
	size_t bytes, str_bytes;
	const char *text, *last;
	const void *syms;

	if (!scn || !(syms = elffile_data(scn, &bytes)) || (uintptr_t)syms % 8 != 0)
		return;
	strs = elf_getscn(elf, sh.sh_link);
	text = strs ? elffile_data(strs, &str_bytes) : NULL;
	last = text ? memrchr(text, '\0', str_bytes) : NULL;
	if (!last)
		return;
	*t = (struct table){
		.syms = syms,
		.n = bytes / sizeof(Elf64_Sym),
		.strs = text,
		.str_bytes = (size_t)(last - text) + 1,
		.elf = elf,
	};
	if (t->n >= 1u << TABLE_SHIFT)
		t->n = (1u << TABLE_SHIFT) - 1;
	if (type != SHT_DYNSYM || !(scn = elffile_section_of_type(elf, SHT_GNU_versym, &ver)))
		return;
	t->versions = elffile_data(scn, &bytes);
	t->n_versions = t->versions ? bytes / sizeof(Elf64_Versym) : 0;
}

static void open_debugdata(struct symtab *st, Elf *elf)
{
	Elf64_Shdr sh;
	Elf_Scn *scn = elffile_section(elf, ".gnu_debugdata", &sh);
	size_t xz_bytes, bytes;
	const void *xz = scn ? elffile_data(scn, &xz_bytes) : NULL;

	if (!xz || decode_debugdata(xz, xz_bytes, DEBUGDATA_MAX_BYTES, &st->mini_bytes, &bytes))
		return;
	st->mini = elf_memory((char *)st->mini_bytes, bytes);
	if (st->mini && elf_kind(st->mini) == ELF_K_ELF && elf64_getehdr(st->mini))
		open_table(&st->tables[SYMTAB_DEBUGDATA], st->mini, SHT_SYMTAB);
}

static void find_segments(struct symtab *st, Elf *elf)
{
	Elf64_Phdr *ph = elf64_getphdr(elf);
	size_t n;

	if (!ph || elf_getphdrnum(elf, &n))
		return;
	for (size_t i = 0; i < n && st->n_segments < SEGMENTS_MAX; i++) {
		struct segment s = {ph[i].p_vaddr, ph[i].p_vaddr + ph[i].p_memsz};

		if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_X) && s.end > s.start)
			st->segments[st->n_segments++] = s;
	}
}

int symtab_new(struct symtab **ret, struct module *m, const struct debugfile *debug)
{
	CLEANUP(symtab_freep) struct symtab *st = calloc(1, sizeof(*st));
	Elf *elf;

	if (!st)
		return -ENOMEM;
	st->m = m;
	st->debug = debug;
	if (module_fd(m) >= 0 && elffile_begin(module_fd(m), &st->own))
		st->own = NULL;
	elf = st->own ? st->own : module_elf(m);
	if (elf) {
		find_segments(st, elf);
		open_table(&st->tables[SYMTAB_FULL], elf, SHT_SYMTAB);
		open_table(&st->tables[SYMTAB_DYNAMIC], elf, SHT_DYNSYM);
		open_debugdata(st, elf);
	}
	if (debug)
		open_table(&st->tables[SYMTAB_DEBUG], debugfile_elf(debug), SHT_SYMTAB);
	*ret = TAKE_PTR(st);
	return 0;
}

Elf *symtab_elf(const struct symtab *st)
{
	return st->own ? st->own : module_elf(st->m);
}

/* After a walk over everything: whole tables were touched, of which little is needed again. */
static void release_pages(struct symtab *st)
{
	if (st->own)
		elffile_release(st->own, module_fd(st->m));
	if (st->debug)
		elffile_release(debugfile_elf(st->debug), debugfile_fd(st->debug));
}

struct symtab *symtab_free(struct symtab *st)
{
	if (!st)
		return NULL;
	if (st->mini)
		elf_end(st->mini);
	if (st->own)
		elf_end(st->own);
	free(st->mini_bytes);
	free(st->index);
	free(st);
	return NULL;
}

static bool is_code(const struct symtab *st, uint64_t vaddr)
{
	for (size_t i = 0; i < st->n_segments; i++)
		if (vaddr >= st->segments[i].start && vaddr < st->segments[i].end)
			return true;
	return false;
}

/* A label without type counts only inside a section of code. */
static bool is_code_label(const struct table *t, const Elf64_Sym *s)
{
	Elf_Scn *scn = elf_getscn(t->elf, s->st_shndx);
	Elf64_Shdr *sh = scn ? elf64_getshdr(scn) : NULL;

	return sh && (sh->sh_flags & SHF_EXECINSTR) && s->st_value - sh->sh_addr < sh->sh_size;
}

/* The symbol number i of a table when it is a function with a name. */
static bool get_symbol(const struct symtab *st, enum symtab_source source, size_t i,
		       struct symtab_symbol *ret)
{
	const struct table *t = &st->tables[source];
	const Elf64_Sym *s = &t->syms[i];
	unsigned int type = ELF64_ST_TYPE(s->st_info);

	if (s->st_shndx == SHN_UNDEF || s->st_name == 0 || s->st_name >= t->str_bytes)
		return false;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	if (!is_code(st, s->st_value) || t->strs[s->st_name] == '\0')
		return false;
	if (type == STT_NOTYPE && !is_code_label(t, s))
		return false;
	if (strnlen(t->strs + s->st_name, NAME_MAX_BYTES + 1) > NAME_MAX_BYTES)
		return false;
	*ret = (struct symtab_symbol){
		.name = t->strs + s->st_name,
		.vaddr = s->st_value,
		.size = s->st_size,
		.type = (uint8_t)type,
		.bind = ELF64_ST_BIND(s->st_info),
		.source = (uint8_t)source,
		.hidden = i < t->n_versions && (t->versions[i] & 0x8000),
	};
	return true;
}

static void walk_all(struct symtab *st, symtab_fn fn, void *ctx)
{
	struct symtab_symbol sym;

	for (int source = 0; source < SYMTAB_SOURCE_MAX; source++)
		for (size_t i = 0; i < st->tables[source].n; i++)
			if (get_symbol(st, source, i, &sym) && !fn(ctx, &sym))
				return;
}

void symtab_each(struct symtab *st, symtab_fn fn, void *ctx)
{
	walk_all(st, fn, ctx);
	release_pages(st);
}

static unsigned int underscores(const char *s)
{
	unsigned int n = 0;

	while (s[n] == '_' && n < 4)
		n++;
	return n;
}

/* Which of two names of one address people know it by: < 0 when it is a's. */
static int compare_alias(const struct symtab_symbol *a, const struct symtab_symbol *b)
{
	int r = (a->type == STT_NOTYPE) - (b->type == STT_NOTYPE);

	if (!r)
		r = (a->size == 0) - (b->size == 0);
	if (!r)
		r = (a->bind == STB_LOCAL) - (b->bind == STB_LOCAL);
	if (!r)
		r = a->hidden - b->hidden;
	if (!r)
		r = (int)underscores(a->name) - (int)underscores(b->name);
	if (!r)
		r = (a->bind == STB_WEAK) - (b->bind == STB_WEAK);
	if (!r)
		r = (int)strnlen(a->name, ALIAS_BYTES) - (int)strnlen(b->name, ALIAS_BYTES);
	if (!r)
		r = strncmp(a->name, b->name, ALIAS_BYTES);
	return r ? r : (int)a->source - (int)b->source;
}

static void get_by_code(const struct symtab *st, uint32_t code, struct symtab_symbol *ret)
{
	get_symbol(st, code >> TABLE_SHIFT, code & ((1u << TABLE_SHIFT) - 1), ret);
}

static int compare_entries(const void *a, const void *b, void *ctx)
{
	const struct entry *x = a, *y = b;
	struct symtab_symbol sx = {0}, sy = {0};

	if (x->rel != y->rel)
		return x->rel < y->rel ? -1 : 1;
	get_by_code(ctx, x->code, &sx);
	get_by_code(ctx, y->code, &sy);
	return compare_alias(&sx, &sy);
}

static uint64_t code_base(const struct symtab *st)
{
	uint64_t base = UINT64_MAX;

	for (size_t i = 0; i < st->n_segments; i++)
		if (st->segments[i].start < base)
			base = st->segments[i].start;
	return base;
}

/* First pass counts, second fills: the index is as large as it must be. */
static size_t fill_index(struct symtab *st, struct entry *to)
{
	uint64_t base = code_base(st);
	struct symtab_symbol sym;
	size_t n = 0;

	for (uint32_t source = 0; source < SYMTAB_SOURCE_MAX; source++) {
		for (size_t i = 0; i < st->tables[source].n; i++) {
			if (!get_symbol(st, source, i, &sym) || sym.vaddr - base > UINT32_MAX)
				continue;
			if (to)
				to[n] = (struct entry){(uint32_t)(sym.vaddr - base),
						       source << TABLE_SHIFT | (uint32_t)i};
			n++;
		}
	}
	return n;
}

static int build_index(struct symtab *st)
{
	size_t n = fill_index(st, NULL), kept = 0;
	struct entry *shrunk;

	st->indexed = true;
	if (n == 0)
		return 0;
	st->index = malloc(n * sizeof(*st->index));
	if (!st->index)
		return -ENOMEM;
	fill_index(st, st->index);
	qsort_r(st->index, n, sizeof(*st->index), compare_entries, st);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || st->index[kept - 1].rel != st->index[i].rel)
			st->index[kept++] = st->index[i];
	shrunk = realloc(st->index, kept * sizeof(*st->index));
	st->index = shrunk ? shrunk : st->index;
	st->n_index = kept;
	release_pages(st);
	return 0;
}

static bool find_unwind_bounds(struct symtab *st, uint64_t vaddr, uint64_t *start, uint64_t *size)
{
	struct bounds_function f;

	if (!st->bounded)
		bounds_init(&st->bounds, st->m);
	st->bounded = true;
	if (!bounds_find(&st->bounds, st->m, vaddr, &f))
		return false;
	*start = f.start;
	*size = f.bytes;
	return true;
}

/* A label without size reaches to the next symbol, unless vaddr is in a function that begins after it. */
static bool label_reaches(struct symtab *st, const struct symtab_symbol *label, uint64_t vaddr)
{
	uint64_t start, size;

	return !find_unwind_bounds(st, vaddr, &start, &size) || start <= label->vaddr;
}

/* Number of entries at or below rel. */
static size_t entries_up_to(const struct symtab *st, uint32_t rel)
{
	return search_first(st->index, st->n_index, e, e->rel <= rel);
}

bool symtab_find_addr(struct symtab *st, uint64_t vaddr, struct symtab_symbol *ret)
{
	struct symtab_symbol sym = {0}, label = {0};
	bool has_label = false;
	size_t at;

	if (!is_code(st, vaddr) || (!st->indexed && build_index(st)) || st->n_index == 0 ||
	    vaddr - code_base(st) > UINT32_MAX)
		return false;
	at = entries_up_to(st, (uint32_t)(vaddr - code_base(st)));
	for (size_t i = at; i > 0 && at - i < WALK_MAX; i--) {
		get_by_code(st, st->index[i - 1].code, &sym);
		if (vaddr - sym.vaddr < sym.size) {
			*ret = sym;
			return true;
		}
		if (i == at && sym.size == 0) {
			label = sym;
			has_label = true;
		}
	}
	if (!has_label || !label_reaches(st, &label, vaddr))
		return false;
	*ret = label;
	return true;
}

bool symtab_bounds(struct symtab *st, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_size)
{
	struct symtab_symbol sym;

	if (symtab_find_addr(st, vaddr, &sym) && sym.size > 0) {
		*ret_start = sym.vaddr;
		*ret_size = sym.size;
		return true;
	}
	return find_unwind_bounds(st, vaddr, ret_start, ret_size);
}

/* What symtab_find_name looks for, in the forms that a symbol may match. */
struct wanted {
	const char *name;
	size_t n;
	const char *word; /* the last identifier in name: occurs in a mangled name, too */
	size_t word_n;
};

static bool is_word_char(char c)
{
	return c == '_' || c == '$' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static void wanted_init(struct wanted *w, const char *name)
{
	size_t end = strcspn(name, "(<");

	while (end > 0 && !is_word_char(name[end - 1]))
		end--;
	w->name = name;
	w->n = strlen(name);
	w->word_n = 0;
	while (w->word_n < end && is_word_char(name[end - w->word_n - 1]))
		w->word_n++;
	w->word = name + end - w->word_n;
	/* An operator's name is mangled into letters of its own. */
	if (w->word_n >= 8 && strncmp(w->word, "operator", 8) == 0)
		w->word_n = 0;
}

static bool matches_demangled(const struct wanted *w, const char *name)
{
	char text[DEMANGLED_MAX];

	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
		return false;
	if (w->word_n && !memmem(name, strlen(name), w->word, w->word_n))
		return false;
	if (demangle_name(name, false, text, sizeof(text)) && strcmp(text, w->name) == 0)
		return true;
	return strchr(w->name, '(') && demangle_name(name, true, text, sizeof(text)) &&
	       strcmp(text, w->name) == 0;
}

static bool matches_name(const struct wanted *w, const char *name)
{
	if (strncmp(name, w->name, w->n) == 0 && (name[w->n] == '\0' || name[w->n] == '@'))
		return true;
	return matches_demangled(w, name);
}

struct finder {
	struct wanted wanted;
	struct symtab_list *list;
	size_t first; /* matches of this search begin here */
	int error;
};

static bool add_match(void *ctx, const struct symtab_symbol *sym)
{
	struct finder *f = ctx;

	if (!matches_name(&f->wanted, sym->name))
		return true;
	for (size_t i = f->first; i < f->list->n; i++) {
		if (f->list->at[i].vaddr != sym->vaddr)
			continue;
		if (compare_alias(sym, &f->list->at[i]) < 0)
			f->list->at[i] = *sym;
		return true;
	}
	f->error = vec_push(f->list, *sym);
	return f->error == 0;
}

static int compare_matches(const void *a, const void *b)
{
	const struct symtab_symbol *x = a, *y = b;
	int r = compare_alias(x, y);

	return r ? r : x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

int symtab_find_name(struct symtab *st, const char *name, struct symtab_list *list)
{
	struct finder f = {.list = list, .first = list->n};

	if (name[0] == '\0')
		return 0;
	wanted_init(&f.wanted, name);
	symtab_each(st, add_match, &f);
	if (list->n - f.first > 1)
		qsort(list->at + f.first, list->n - f.first, sizeof(list->at[0]), compare_matches);
	return f.error;
}

const char *symtab_display(const char *name, char *buf, size_t n)
{
	demangle_name(name, false, buf, n);
	return buf;
}

static bool offer_name(void *ctx, const struct symtab_symbol *sym)
{
	char text[SYMTAB_NAME_MAX];

	nearest_offer(ctx, symtab_display(sym->name, text, sizeof(text)));
	return true;
}

size_t symtab_nearest(struct symtab *st, const char *name, char (*ret)[SYMTAB_NAME_MAX], size_t max)
{
	struct nearest near;
	size_t n;

	nearest_init(&near, name);
	symtab_each(st, offer_name, &near);
	for (n = 0; n < near.n && n < max; n++)
		memcpy(ret[n], near.best[n].text, SYMTAB_NAME_MAX);
	return n;
}
