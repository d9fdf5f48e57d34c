/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srcline.c: DWARF look-ups through libdw.
 *
 * Three steps, each cached: address -> compilation unit (.debug_aranges, else the ranges of all
 * units), unit -> functions with their ranges, function -> the calls that are inlined in it (inlined). So each DIE
 * is read once, and all that depends on what the file says is paid for out of one budget.
 * libdw caches abbreviations, lines and units by itself and cannot be told to forget them, so
 * the whole handle is closed when the work done through it passes a limit.
 */
#include "code/srcline.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"
#include "code/debugfile_priv.h"
#include "code/dies.h"
#include "code/dwarffile.h"
#include "code/elffile.h"
#include "code/inlined.h"
#include "code/pcranges.h"

enum {
	DEPTH_MAX = 64,
	UNIT_STEPS_MAX = 4 << 20,   /* while the functions of one unit are listed */
	TOTAL_STEPS_MAX = 64 << 20, /* of all together, as often as they are listed */
	LINE_BYTES_OF_STEP = 2,
	OPENED_BYTES_OF_STEP = 256,
	UNITS_MAX = 1 << 17,
	LINE_PROGRAM_MAX_BYTES = 8 << 20, /* of one unit; a row in memory is many times its bytes */
	UNIT_HELD_BYTES = 4096, /* estimate: what libdw keeps of a unit once it was used */
	LINE_HELD_FACTOR = 16,  /* estimate: bytes of rows for a byte of line program */
	HELD_MIN_BYTES = 6 << 20,
	HELD_SHARE = 4, /* one part in so many of a file's limit stays for what look-ups add */
	REOPEN_MAX = 256,
	DEBUG_MAX_BYTES = 768 << 20,   /* unpacked */
	FOREIGN_MAX_BYTES = 256 << 20, /* of a file that is not root's */
};

struct unit {
	uint64_t die;
	struct pcranges functions; /* sorted */
	bool deep;                 /* functions inside functions are listed, too */
	bool no_lines;             /* the line program is not one that can be read */
	bool lines_counted;
};

struct srcline {
	int fd;     /* borrowed */
	int alt_fd; /* borrowed, or owned as `own_alt_fd`; -1: none */
	int own_alt_fd;
	struct dwarffile file; /* closed, or could not be opened: dwarf is NULL */
	struct pcranges units; /* of units that .debug_aranges does not have; sorted */
	bool units_listed;
	VEC(struct unit *) open_units; /* owned */
	struct hash unit_of_die;
	VEC(struct inlined *) functions; /* owned */
	struct hash function_of_die;
	struct dies_budget budget;
	uint64_t *n_cut;     /* borrowed: counts what is read in part only; may be NULL */
	uint64_t max_bytes;  /* for all of it; 0: the limits above */
	uint64_t held_bytes; /* estimate of what look-ups have added to it */
	unsigned int n_opened;
};

DEFINE_CLEANUP(struct srcline *, srcline_free)

static void close_dwarf(struct srcline *s)
{
	for (size_t i = 0; i < s->functions.n; i++)
		inlined_free(s->functions.at[i]);
	vec_free(&s->functions);
	hash_deinit(&s->function_of_die);
	for (size_t i = 0; i < s->open_units.n; i++) {
		vec_free(&s->open_units.at[i]->functions.v);
		free(s->open_units.at[i]);
	}
	vec_free(&s->open_units);
	hash_deinit(&s->unit_of_die);
	vec_free(&s->units.v);
	s->units_listed = false;
	dwarffile_close(&s->file);
	s->held_bytes = 0;
}

static int open_dwarf(struct srcline *s)
{
	uint64_t most = elffile_is_mapped(s->fd) ? DEBUG_MAX_BYTES : FOREIGN_MAX_BYTES;
	int r;

	if (s->max_bytes && s->max_bytes - s->max_bytes / HELD_SHARE < most)
		most = s->max_bytes - s->max_bytes / HELD_SHARE;
	if (s->n_opened++ >= REOPEN_MAX)
		return -EFBIG;
	hash_init(&s->unit_of_die);
	hash_init(&s->function_of_die);
	r = dwarffile_open(&s->file, s->fd, s->alt_fd, most);
	if (r) {
		close_dwarf(s);
		return r;
	}
	dies_spend(&s->budget, s->file.bytes / OPENED_BYTES_OF_STEP);
	return 0;
}

/*
 * libdw would look for a missing supplement by itself, by a path that the file chooses. So without
 * the supplement the DWARF is not used at all.
 */
static int choose_file(struct srcline *s, struct module *m, const struct debugfile *debug,
		       struct debugfile_search *search)
{
	Elf *elf = module_elf(m);
	bool missing = false;
	int r;

	if (debug && elffile_has_dwarf(debugfile_elf(debug))) {
		s->fd = debugfile_fd(debug);
		s->alt_fd = debugfile_alt_fd(debug);
		return debugfile_alt_missing(debug) ? -ENOENT : 0;
	}
	if (!elf || module_fd(m) < 0 || !elffile_has_dwarf(elf))
		return -ENOENT;
	s->fd = module_fd(m);
	if (!search)
		return 0;
	r = debugfile_find_alt(search, elf, module_path(m), &s->own_alt_fd, &missing);
	s->alt_fd = s->own_alt_fd;
	return r ? r : missing ? -ENOENT : 0;
}

int srcline_new(struct srcline **ret, struct module *m, const struct debugfile *debug,
		const struct srcline_options *options)
{
	CLEANUP(srcline_freep) struct srcline *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->fd = s->alt_fd = s->own_alt_fd = -1;
	s->max_bytes = options->max_bytes;
	s->n_cut = options->n_cut;
	r = choose_file(s, m, debug, options->search);
	s->budget = (struct dies_budget){
		.left = TOTAL_STEPS_MAX, .shall_stop = options->shall_stop, .ctx = options->ctx};
	if (options->max_steps && s->fd >= 0 && !elffile_is_mapped(s->fd) &&
	    options->max_steps < s->budget.left)
		s->budget.left = options->max_steps;
	s->budget.left -= options->n_spent < s->budget.left ? options->n_spent : s->budget.left;
	if (!r)
		r = open_dwarf(s);
	if (r)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct srcline *srcline_free(struct srcline *s)
{
	if (!s)
		return NULL;
	close_dwarf(s);
	cleanup_fd(&s->own_alt_fd);
	free(s);
	return NULL;
}

void srcline_limit(struct srcline *s, uint64_t max_bytes)
{
	s->max_bytes = max_bytes;
}

uint64_t srcline_bytes(const struct srcline *s)
{
	return s->file.dwarf ? s->file.bytes + s->held_bytes : 0;
}

uint64_t srcline_steps(const struct srcline *s)
{
	return s->budget.n_spent;
}

bool srcline_is_worn_out(const struct srcline *s)
{
	return s->budget.left == 0 || (!s->file.dwarf && s->n_opened >= REOPEN_MAX);
}

/* Not all of a unit or a function was read, because of a limit of its own. */
static void note_cut(struct srcline *s)
{
	if (s->n_cut)
		++*s->n_cut;
}

static int add_ranges(struct srcline *s, struct pcranges *r, Dwarf_Die *die)
{
	bool is_cut = false;
	int n = pcranges_add_die(r, die, &s->budget, &is_cut);

	if (is_cut)
		note_cut(s);
	return n;
}

static int list_units(struct srcline *s)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;

	for (size_t n = 0; dies_spend(&s->budget, 1) &&
			   dwarf_get_units(s->file.dwarf, cu, &cu, NULL, &type, &die, NULL) == 0;
	     n++) {
		if (n == UNITS_MAX) {
			note_cut(s);
			break;
		}
		s->held_bytes += 256;
		if (type == DW_UT_compile && add_ranges(s, &s->units, &die) < 0)
			return -ENOMEM;
	}
	pcranges_sort(&s->units);
	s->units_listed = true;
	return 0;
}

/* Offset of the unit's DIE, 0 for none (0 is inside the first header). */
static int find_unit_die(struct srcline *s, uint64_t addr, uint64_t *ret)
{
	const struct pcrange *r;
	Dwarf_Aranges *all;
	Dwarf_Arange *one;
	Dwarf_Off off;
	size_t n;

	if (dwarf_getaranges(s->file.dwarf, &all, &n) == 0 &&
	    (one = dwarf_getarange_addr(all, addr)) &&
	    dwarf_getarangeinfo(one, NULL, NULL, &off) == 0) {
		*ret = off;
		return 0;
	}
	if (!s->units_listed && list_units(s))
		return -ENOMEM;
	r = pcranges_find(&s->units, addr);
	*ret = r ? r->die : 0;
	return 0;
}

static bool may_hold_functions(int tag, bool deep)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return true;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_enumeration_type:
		return deep;
	default:
		return false;
	}
}

static int list_functions(struct srcline *s, struct unit *u, Dwarf_Die *cu)
{
	bool too_deep = false;
	struct dies w;

	dies_begin(&w, cu, &s->budget, UNIT_STEPS_MAX);
	while (dies_next(&w)) {
		int tag = dwarf_tag(&w.die);

		if (tag == DW_TAG_subprogram && add_ranges(s, &u->functions, &w.die) < 0)
			return -ENOMEM;
		if (w.depth > DEPTH_MAX || !may_hold_functions(tag, u->deep))
			dies_skip(&w);
		too_deep |= w.depth > DEPTH_MAX;
	}
	if (too_deep || dies_are_cut(&w))
		note_cut(s);
	return 0;
}

static int fill_unit(struct srcline *s, struct unit *u)
{
	Dwarf_Die die;
	int r;

	vec_free(&u->functions.v);
	if (!dwarf_offdie(s->file.dwarf, u->die, &die))
		return 0;
	r = list_functions(s, u, &die);
	s->held_bytes += UNIT_HELD_BYTES + u->functions.v.cap * sizeof(u->functions.v.at[0]);
	pcranges_sort(&u->functions);
	return r;
}

static int get_unit(struct srcline *s, uint64_t die, struct unit **ret)
{
	uint64_t *known = hash_get(&s->unit_of_die, die);
	struct unit *u;

	if (known) {
		*ret = s->open_units.at[*known];
		return 0;
	}
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->die = die;
	if (fill_unit(s, u) || hash_set(&s->unit_of_die, die, s->open_units.n) ||
	    vec_push(&s->open_units, u)) {
		hash_remove(&s->unit_of_die, die);
		vec_free(&u->functions.v);
		free(u);
		return -ENOMEM;
	}
	*ret = u;
	return 0;
}

/*
 * The DIE of the function that holds addr: 1, or 0 when there is none. Functions inside functions are
 * listed when they are needed.
 */
static int find_function(struct srcline *s, struct unit *u, uint64_t addr, Dwarf_Die *ret)
{
	const struct pcrange *r = pcranges_find(&u->functions, addr);

	if (!r && !u->deep) {
		u->deep = true;
		if (fill_unit(s, u))
			return -ENOMEM;
		r = pcranges_find(&u->functions, addr);
	}
	return r && dwarf_offdie(s->file.dwarf, r->die, ret);
}

static int get_function(struct srcline *s, Dwarf_Die *die, struct inlined **ret)
{
	uint64_t off = dwarf_dieoffset(die), *known = hash_get(&s->function_of_die, off);
	struct inlined *f;

	if (known) {
		*ret = s->functions.at[*known];
		return 0;
	}
	if (inlined_read(&f, die, &s->budget, s->n_cut))
		return -ENOMEM;
	s->held_bytes += inlined_bytes(f);
	if (hash_set(&s->function_of_die, off, s->functions.n) || vec_push(&s->functions, f)) {
		hash_remove(&s->function_of_die, off);
		inlined_free(f);
		return -ENOMEM;
	}
	*ret = f;
	return 0;
}

struct chain {
	Dwarf_Die dies[SRCLINE_FRAMES_MAX]; /* outermost first: the function itself */
	size_t n;
};

static void find_inlined(struct srcline *s, const struct inlined *f, uint64_t addr, struct chain *c)
{
	uint64_t dies[SRCLINE_FRAMES_MAX];
	size_t n = inlined_find(f, addr, &s->budget, s->n_cut, dies, SRCLINE_FRAMES_MAX - c->n);

	for (size_t i = 0; i < n; i++)
		if (dwarf_offdie(s->file.dwarf, dies[i], &c->dies[c->n]))
			c->n++;
}

static const char *string_attr(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attr));
}

static uint32_t number_attr(Dwarf_Die *die, unsigned int name, bool integrate)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	if (dwarf_formudata(integrate ? dwarf_attr_integrate(die, name, &attr)
				      : dwarf_attr(die, name, &attr),
			    &value) ||
	    value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

static void name_frame(Dwarf_Die *die, struct srcline_frame *f)
{
	f->name = string_attr(die, DW_AT_name);
	f->linkage = string_attr(die, DW_AT_linkage_name);
	if (!f->linkage)
		f->linkage = string_attr(die, DW_AT_MIPS_linkage_name);
	f->start_line = number_attr(die, DW_AT_decl_line, true);
}

/* The length that the unit's line program states, before libdw unpacks it into rows. */
static bool line_program_is_sane(struct srcline *s, struct unit *u, Dwarf_Die *cu)
{
	Dwarf_Attribute attr;
	Dwarf_Word off;
	Elf64_Shdr sh;
	Elf_Scn *scn = elffile_section(s->file.elf, ".debug_line", &sh);
	size_t bytes;
	const uint8_t *data = scn ? elffile_data(scn, &bytes) : NULL;
	uint32_t length;

	if (u->lines_counted || u->no_lines)
		return !u->no_lines;
	u->no_lines = true;
	if (!data || dwarf_formudata(dwarf_attr(cu, DW_AT_stmt_list, &attr), &off) || off > bytes ||
	    bytes - off < sizeof(length))
		return false;
	memcpy(&length, data + off, sizeof(length));
	if (length > LINE_PROGRAM_MAX_BYTES) {
		note_cut(s);
		return false;
	}
	if (!dies_spend(&s->budget, length / LINE_BYTES_OF_STEP))
		return false;
	s->held_bytes += (uint64_t)length * LINE_HELD_FACTOR;
	u->lines_counted = true;
	u->no_lines = false;
	return true;
}

static void find_line(Dwarf_Die *cu, uint64_t addr, struct srcline_frame *f)
{
	Dwarf_Line *line = dwarf_getsrc_die(cu, addr);
	int n;

	if (!line)
		return;
	f->file = dwarf_linesrc(line, NULL, NULL);
	if (dwarf_lineno(line, &n) == 0 && n > 0)
		f->line = (uint32_t)n;
}

/* Where an inlined function was called: that is the place in the frame around it. */
static void find_call_line(Dwarf_Die *cu, Dwarf_Die *inlined, struct srcline_frame *f)
{
	uint32_t idx = number_attr(inlined, DW_AT_call_file, false);
	Dwarf_Files *files;
	size_t n;

	f->line = number_attr(inlined, DW_AT_call_line, false);
	if (dwarf_getsrcfiles(cu, &files, &n) == 0 && idx < n)
		f->file = dwarf_filesrc(files, idx, NULL, NULL);
}

static int fill_frames(struct srcline *s, struct unit *u, uint64_t addr, struct srcline_frame *ret)
{
	struct inlined *f;
	struct chain c = {};
	bool lines;
	Dwarf_Die cu;
	int r;

	if (!dwarf_offdie(s->file.dwarf, u->die, &cu))
		return 0;
	lines = line_program_is_sane(s, u, &cu);
	memset(ret, 0, SRCLINE_FRAMES_MAX * sizeof(*ret));
	if (lines)
		find_line(&cu, addr, &ret[0]);
	r = find_function(s, u, addr, &c.dies[0]);
	if (r <= 0)
		return r < 0 ? r : ret[0].file != NULL;
	c.n = 1;
	r = get_function(s, &c.dies[0], &f);
	if (r < 0)
		return r;
	find_inlined(s, f, addr, &c);
	for (size_t i = 0; i < c.n; i++) {
		name_frame(&c.dies[c.n - 1 - i], &ret[i]);
		if (i > 0 && lines)
			find_call_line(&cu, &c.dies[c.n - i], &ret[i]);
	}
	return (int)c.n;
}

/* Opening again costs as much as was unpacked: the larger that is, the more may be added. */
static bool holds_too_much(const struct srcline *s)
{
	return s->held_bytes > HELD_MIN_BYTES + s->file.bytes / 2 ||
	       (s->max_bytes && s->held_bytes > s->max_bytes - s->file.bytes);
}

int srcline_find(struct srcline *s, uint64_t vaddr, struct srcline_frame *ret)
{
	struct unit *u;
	uint64_t die;
	int r = 0;

	if (holds_too_much(s))
		close_dwarf(s);
	if (!s->file.dwarf)
		r = open_dwarf(s);
	if (r)
		return r == -ENOMEM ? r : 0;
	r = find_unit_die(s, vaddr, &die);
	if (r || !die)
		return r;
	r = get_unit(s, die, &u);
	return r ? r : fill_frames(s, u, vaddr, ret);
}
