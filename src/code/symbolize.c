/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize.c: asks the sources in turn and puts what they say into the profile's tables.
 *
 * The profile's own table of locations is the cache: an address that is in it is not looked up again.
 * Every text passes text_copy_printable on its way into the profile. At most OPEN_MAX modules have
 * their symbol tables open at a time; the one that was used longest ago is closed first.
 */
#include "code/symbolize.h"

#include <errno.h>
#include <inttypes.h>
#include <libelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/vec.h"
#include "code/debugfile_priv.h"
#include "code/demangle.h"
#include "code/jitmaps.h"
#include "code/kallsyms.h"
#include "code/linecache.h"
#include "code/plt.h"
#include "code/symtab.h"

enum {
	OPEN_MAX = 64,
	TEXT_MAX = DEMANGLE_TEXT_MAX,
	LOCATIONS_MAX = 1 << 20,
};

/* A module that has been seen; the part from `debug` on is closed and opened again as needed. */
struct known_module {
	struct module *module; /* a reference */
	uint32_t idx;          /* in the profile */
	uint64_t used;
	bool open;               /* the debug file was looked for */
	bool ready;              /* the rest, too */
	struct debugfile *debug; /* owned */
	struct symtab *symtab;   /* owned */
	struct linecache_file lines;
};

struct symbolizer {
	struct profile *profile; /* borrowed */
	struct symbolize_options options;
	struct debugfile_search *search; /* owned */
	struct linecache lines;
	VEC(struct known_module *) modules; /* owned */
	struct hash module_of_id;           /* module_id -> index */
	size_t n_open;
	uint64_t clock;            /* counts look-ups: the order of use */
	struct jitmaps *jitmaps;   /* owned */
	struct kallsyms *kallsyms; /* owned; NULL: not read, or not readable */
	bool kallsyms_read;
	uint32_t kernel_idx;
	uint32_t anonymous_idx;
	uint32_t full_text; /* string: stands for those that no longer fit */
};

DEFINE_CLEANUP(struct symbolizer *, symbolizer_free)

/* A file's DWARF does not fit into its limit of memory or of work. */
static void on_left_out(void *ctx, const struct linecache_file *file)
{
	struct symbolizer *s = ctx;

	s->profile->counters.v[COUNTER_DEBUG_LEFT_OUT]++;
	if (s->options.on_debug_left_out)
		s->options.on_debug_left_out(s->options.ctx, module_path(file->module));
}

/* Interns a text from outside; one that does not fit any more is counted and replaced. */
static int add_text(struct symbolizer *s, const char *text, uint32_t *ret)
{
	char buf[TEXT_MAX];
	int r;

	text_show(buf, sizeof(buf), text);
	r = strpool_add(s->profile->strings, buf, ret);
	if (r != -ENOSPC)
		return r;
	s->profile->counters.v[COUNTER_STRINGS_FULL]++;
	*ret = s->full_text;
	return 0;
}

static int add_plain_module(struct symbolizer *s, const char *path, uint32_t *ret_idx)
{
	struct profile_module m = {0};
	int r = add_text(s, path, &m.path);

	return r ? r : profile_add_module(s->profile, &m, ret_idx);
}

int symbolizer_new(struct symbolizer **ret, struct profile *profile,
		   const struct symbolize_options *options)
{
	CLEANUP(symbolizer_freep) struct symbolizer *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->profile = profile;
	s->options = *options;
	hash_init(&s->module_of_id);
	r = strpool_add(profile->strings, "[strings full]", &s->full_text);
	if (!r)
		r = debugfile_search_new(&s->search, options->debug_dirs, options->debuginfod,
					 options->debuginfod_budget_ns);
	if (!r)
		r = jitmaps_new(&s->jitmaps, s->search);
	if (r)
		return r;
	s->lines = (struct linecache){.search = s->search,
				      .max_bytes = options->debug_max_bytes,
				      .max_steps = options->debug_max_steps,
				      .shall_stop = options->shall_stop,
				      .stop_ctx = options->ctx,
				      .n_cut = &profile->counters.v[COUNTER_DEBUG_CUT],
				      .on_left_out = on_left_out,
				      .ctx = s};
	*ret = TAKE_PTR(s);
	return 0;
}

static void close_module(struct symbolizer *s, struct known_module *k)
{
	if (!k->open)
		return;
	linecache_close(&s->lines, &k->lines);
	k->symtab = symtab_free(k->symtab);
	k->debug = debugfile_close(k->debug);
	k->open = k->ready = false;
	s->n_open--;
}

struct symbolizer *symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->modules.n; i++) {
		close_module(s, s->modules.at[i]);
		module_unref(s->modules.at[i]->module);
		free(s->modules.at[i]);
	}
	vec_free(&s->modules);
	jitmaps_free(s->jitmaps);
	linecache_deinit(&s->lines);
	hash_deinit(&s->module_of_id);
	kallsyms_free(s->kallsyms);
	debugfile_search_free(s->search);
	free(s);
	return NULL;
}

int symbolizer_use_process(struct symbolizer *s, pid_t pid)
{
	return debugfile_search_use_process(s->search, pid);
}

/* The run-time range and file offset of the segment that holds vaddr. */
static void set_mapping(struct profile_module *pm, struct module *m, uint64_t vaddr,
			uint64_t runtime_pc)
{
	Elf *elf = module_elf(m);
	Elf64_Phdr *ph = elf ? elf64_getphdr(elf) : NULL;
	size_t n;

	if (!ph || elf_getphdrnum(elf, &n))
		return;
	for (size_t i = 0; i < n; i++) {
		uint64_t page = ph[i].p_vaddr & 0xfff;

		if (ph[i].p_type != PT_LOAD || vaddr < ph[i].p_vaddr ||
		    vaddr - ph[i].p_vaddr >= ph[i].p_memsz)
			continue;
		pm->start = runtime_pc - vaddr + ph[i].p_vaddr - page;
		pm->limit = pm->start + ((page + ph[i].p_memsz + 0xfff) & ~(uint64_t)0xfff);
		pm->offset = ph[i].p_offset - page;
		return;
	}
}

static int add_module(struct symbolizer *s, struct module *m, uint64_t vaddr, uint64_t runtime_pc,
		      uint32_t *ret_idx)
{
	struct profile_module pm = {0};
	const uint8_t *id;
	size_t n = module_build_id(m, &id);
	int r = add_text(s, module_path(m), &pm.path);

	if (r)
		return r;
	pm.build_id_bytes = (uint8_t)(n < BUILD_ID_MAX ? n : BUILD_ID_MAX);
	if (n)
		memcpy(pm.build_id, id, pm.build_id_bytes);
	set_mapping(&pm, m, vaddr, runtime_pc);
	return profile_add_module(s->profile, &pm, ret_idx);
}

static int get_module(struct symbolizer *s, struct module *m, uint64_t vaddr, uint64_t runtime_pc,
		      struct known_module **ret)
{
	uint64_t *at = hash_get(&s->module_of_id, module_id(m));
	AUTO_FREE struct known_module *k = NULL;
	int r;

	if (at) {
		*ret = s->modules.at[*at];
		return 0;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	r = add_module(s, m, vaddr, runtime_pc, &k->idx);
	if (!r)
		r = vec_reserve(&s->modules, s->modules.n + 1);
	if (!r)
		r = hash_set(&s->module_of_id, module_id(m), s->modules.n);
	if (r)
		return r;
	k->module = module_ref(m);
	*ret = s->modules.at[s->modules.n++] = TAKE_PTR(k);
	return 0;
}

static void close_oldest(struct symbolizer *s)
{
	struct known_module *oldest = NULL;

	for (size_t i = 0; i < s->modules.n; i++) {
		struct known_module *k = s->modules.at[i];

		if (k->open && (!oldest || k->used < oldest->used))
			oldest = k;
	}
	if (oldest)
		close_module(s, oldest);
}

/* Looks for the debug file; that a module has none is no error. */
static int open_debug(struct symbolizer *s, struct known_module *k)
{
	int r;

	k->used = ++s->clock;
	if (k->open)
		return 0;
	if (s->n_open >= OPEN_MAX)
		close_oldest(s);
	k->open = true;
	s->n_open++;
	r = debugfile_open(s->search, k->module, &k->debug);
	if (r == -ENOMEM)
		close_module(s, k);
	return r == -ENOMEM ? r : 0;
}

/* Opens symbols and DWARF; that a module has none is no error, either. */
static int open_module(struct symbolizer *s, struct known_module *k)
{
	int r = open_debug(s, k);

	if (r || k->ready)
		return r;
	k->ready = true;
	r = symtab_new(&k->symtab, k->module, k->debug);
	if (!r && s->options.lines) {
		k->lines.module = k->module;
		k->lines.debug = k->debug;
		r = linecache_open(&s->lines, &k->lines);
	}
	if (r == -ENOMEM)
		close_module(s, k);
	return r == -ENOMEM ? r : 0;
}

int symbolizer_note_module(struct symbolizer *s, struct module *m, uint64_t vaddr,
			   uint64_t runtime_pc)
{
	struct known_module *k;
	int r = get_module(s, m, vaddr, runtime_pc, &k);

	return r ? r : open_debug(s, k);
}

void symbolizer_close_module(struct symbolizer *s, const struct module *m)
{
	uint64_t *at = hash_get(&s->module_of_id, module_id(m));

	if (at)
		close_module(s, s->modules.at[*at]);
}

void symbolizer_rest(struct symbolizer *s)
{
	for (size_t i = 0; i < s->modules.n; i++) {
		linecache_rest(&s->lines, &s->modules.at[i]->lines);
		close_module(s, s->modules.at[i]);
	}
}

/* What is known of one source-level frame, before its texts are interned. */
struct description {
	const char *name;        /* as people know it */
	const char *system_name; /* as in the file */
	const char *file;
	uint32_t line;
	uint32_t start_line;
	uint32_t flags;
};

static int add_frame(struct symbolizer *s, const struct description *d, uint32_t *ret_idx)
{
	struct profile_frame f = {.line = d->line, .start_line = d->start_line, .flags = d->flags};
	int r = add_text(s, d->name, &f.function);

	if (!r)
		r = add_text(s, d->system_name, &f.system_name);
	if (!r)
		r = add_text(s, d->file ? d->file : "", &f.file);
	return r ? r : profile_add_frame(s->profile, &f, ret_idx);
}

/* Two buffers for names that have no home of their own. */
struct names {
	char function[TEXT_MAX];
	char system[TEXT_MAX];
};

static void describe_symbol(const char *symbol, struct names *n, struct description *d)
{
	demangle_name(symbol, false, n->function, sizeof(n->function));
	d->name = n->function;
	d->system_name = symbol;
}

/* No symbol and no DWARF: a linkage stub, or "module+0x1234" with the function's start if known. */
static void describe_unnamed(struct known_module *k, uint64_t vaddr, struct names *n,
			     struct description *d)
{
	char module[128], symbol[TEXT_MAX - sizeof("@plt")], text[TEXT_MAX - sizeof("@plt")];
	uint64_t start, size;

	if (plt_find(k->symtab, k->module, vaddr, symbol, sizeof(symbol))) {
		demangle_name(symbol, false, text, sizeof(text));
		snprintf(n->function, sizeof(n->function), "%s@plt", text);
		snprintf(n->system, sizeof(n->system), "%s@plt", symbol);
		d->name = n->function;
		d->system_name = n->system;
		return;
	}
	if (!symtab_bounds(k->symtab, vaddr, &start, &size))
		start = vaddr;
	text_show(module, sizeof(module), text_base_name(module_path(k->module)));
	snprintf(n->function, sizeof(n->function), "%s+0x%" PRIx64, module, start);
	d->name = d->system_name = n->function;
	d->flags |= PROFILE_FRAME_UNKNOWN;
}

/* The function itself (not what is inlined in it): the symbol's name goes before DWARF's. */
static void describe_function(struct known_module *k, uint64_t vaddr, const struct srcline_frame *f,
			      struct names *n, struct description *d)
{
	struct symtab_symbol sym;

	if (symtab_find_addr(k->symtab, vaddr, &sym))
		describe_symbol(sym.name, n, d);
	else if (f && (f->linkage || f->name))
		describe_symbol(f->linkage ? f->linkage : f->name, n, d);
	else
		describe_unnamed(k, vaddr, n, d);
}

static void describe_inlined(const struct srcline_frame *f, struct names *n, struct description *d)
{
	d->flags |= PROFILE_FRAME_INLINED;
	if (f->linkage || f->name)
		describe_symbol(f->linkage ? f->linkage : f->name, n, d);
	else
		d->name = d->system_name = "[inlined]";
}

/*
 * gcc splits functions and inlines the parts into each other: then a function is "called" by itself on
 * the line where it is declared. Such pairs are one frame, with the inner one's place.
 */
static size_t join_split_parts(struct srcline_frame *f, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		const struct srcline_frame *in = kept ? &f[kept - 1] : NULL;

		if (in && in->name && f[i].name && strcmp(in->name, f[i].name) == 0 &&
		    f[i].start_line && f[i].start_line == in->start_line &&
		    f[i].line == f[i].start_line)
			continue;
		f[kept++] = f[i];
	}
	return kept;
}

/* Frames of one location; ret has room for SRCLINE_FRAMES_MAX. */
static int add_frames(struct symbolizer *s, struct known_module *k,
		      const struct profile_location *l, uint32_t *ret, size_t *ret_n)
{
	struct srcline_frame lines[SRCLINE_FRAMES_MAX];
	uint64_t vaddr = l->module_off;
	int r = s->options.lines ? linecache_find(&s->lines, &k->lines, vaddr, lines) : 0;
	struct names names;
	size_t n;

	if (r < 0)
		return r;
	n = join_split_parts(lines, (size_t)r);
	r = 0;
	if (n > 1 && l->flags & PROFILE_LOCATION_FUNCTION) {
		lines[0] = lines[n - 1];
		n = 1;
	}
	*ret_n = n ? n : 1;
	for (size_t i = 0; i < *ret_n && !r; i++) {
		struct description d = {0};

		if (i + 1 < n)
			describe_inlined(&lines[i], &names, &d);
		else
			describe_function(k, vaddr, n ? &lines[i] : NULL, &names, &d);
		if (n) {
			d.file = lines[i].file;
			d.line = lines[i].line;
			d.start_line = lines[i].start_line;
		}
		r = add_frame(s, &d, &ret[i]);
	}
	return r;
}

/* A location of one frame that has nothing but a name. */
static int add_named(struct symbolizer *s, const struct profile_location *l, const char *name,
		     const char *system_name, uint32_t flags, uint32_t *ret_location)
{
	struct description d = {.name = name, .system_name = system_name, .flags = flags};
	uint32_t frame;
	int r = add_frame(s, &d, &frame);

	return r ? r : profile_add_location(s->profile, l, &frame, 1, ret_location);
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters, each a fact of its own */
int symbolize_module(struct symbolizer *s, struct module *m, uint64_t vaddr, bool return_address,
		     uint32_t location_flags, uint64_t runtime_pc, uint32_t *ret_location)
{
	uint32_t frames[SRCLINE_FRAMES_MAX], found;
	struct profile_location l = {.flags = location_flags, .address = runtime_pc};
	struct known_module *k;
	size_t n;
	int r = get_module(s, m, vaddr, runtime_pc, &k);

	if (r)
		return r;
	/* The call, not what follows it: that may be another line, or another function. */
	l.module = k->idx;
	l.module_off = vaddr - return_address;
	found = profile_find_location(s->profile, l.module, l.module_off, l.flags);
	if (found) {
		*ret_location = found;
		return 0;
	}
	if (s->profile->locations.n >= LOCATIONS_MAX) {
		s->profile->counters.v[COUNTER_STRINGS_FULL]++;
		l.module_off = l.address = 0;
		return add_named(s, &l, "[symbols full]", "[symbols full]", PROFILE_FRAME_UNKNOWN,
				 ret_location);
	}
	r = open_module(s, k);
	if (!r)
		r = add_frames(s, k, &l, frames, &n);
	return r ? r : profile_add_location(s->profile, &l, frames, n, ret_location);
}

/* The module "[jit:PID]", too. */
static int get_map(struct symbolizer *s, pid_t pid, struct jitmap **ret)
{
	char path[32];
	int r = jitmaps_get(s->jitmaps, pid, ret);

	if (r || (*ret)->module_idx)
		return r;
	snprintf(path, sizeof(path), "[jit:%d]", (int)pid);
	return add_plain_module(s, path, &(*ret)->module_idx);
}

int symbolize_anonymous(struct symbolizer *s, pid_t pid, uint64_t pc, bool return_address,
			uint32_t location_flags, uint32_t *ret_location)
{
	struct profile_location l = {.flags = location_flags, .address = pc};
	char name[TEXT_MAX];
	struct jitmap *m;
	const char *text;
	bool full;
	int r = get_map(s, pid, &m);

	if (r)
		return r;
	l.module = m->module_idx;
	l.module_off = pc - return_address;
	*ret_location = profile_find_location(s->profile, l.module, l.module_off, l.flags);
	if (*ret_location)
		return 0;
	text = jitmaps_find(s->jitmaps, m, l.module_off, &full);
	s->profile->counters.v[COUNTER_STRINGS_FULL] += full;
	if (text && s->profile->locations.n < LOCATIONS_MAX) {
		demangle_name(text, false, name, sizeof(name));
		return add_named(s, &l, name, text, 0, ret_location);
	}
	/* One location for all: there is nothing to tell them apart by. */
	if (!s->anonymous_idx)
		r = add_plain_module(s, "[anonymous]", &s->anonymous_idx);
	l.module = s->anonymous_idx;
	l.module_off = l.address = 0;
	return r ? r
		 : add_named(s, &l, "[unknown]", "[unknown]", PROFILE_FRAME_UNKNOWN, ret_location);
}

/* k NULL: no names. */
static int add_kernel(struct symbolizer *s, const struct kallsyms *k, uint64_t pc,
		      uint32_t *ret_location)
{
	struct profile_location l = {0};
	const char *name = NULL;
	uint32_t flags = PROFILE_FRAME_KERNEL;
	int r = 0;

	if (!s->kernel_idx)
		r = add_plain_module(s, "[kernel]", &s->kernel_idx);
	if (r)
		return r;
	l.module = s->kernel_idx;
	if (k)
		name = kallsyms_find(k, pc, &l.module_off);
	/* Offset 0 is the kernel's first function; what has no name goes where no function is. */
	if (!name) {
		l.module_off = UINT64_MAX;
		flags |= PROFILE_FRAME_UNKNOWN;
	}
	*ret_location = profile_find_location(s->profile, l.module, l.module_off, 0);
	if (*ret_location)
		return 0;
	name = name ? name : "[kernel]";
	return add_named(s, &l, name, name, flags, ret_location);
}

int symbolize_kernel(struct symbolizer *s, uint64_t pc, uint32_t *ret_location)
{
	if (!s->kallsyms_read && read_kallsyms("/proc/kallsyms", &s->kallsyms) == -ENOMEM)
		return -ENOMEM;
	s->kallsyms_read = true;
	return add_kernel(s, s->kallsyms, pc, ret_location);
}

int symbolize_kernel_all(struct symbolizer *s, const uint64_t *pcs, size_t n,
			 uint32_t *ret_locations)
{
	struct kallsyms *k = NULL;
	int r = 0;

	if (n && read_kallsyms_of("/proc/kallsyms", pcs, n, &k) == -ENOMEM)
		return -ENOMEM;
	for (size_t i = 0; i < n && !r; i++)
		r = add_kernel(s, k, pcs[i], &ret_locations[i]);
	kallsyms_free(k);
	return r;
}
