/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/binary.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/vec.h"
#include "code/section.h"

enum { TEXT_BYTES = 256, INSN_BYTES_MAX = 15, RODATA_BYTES_MAX = 64 << 20 };

struct binary {
	struct binaries *table;
	struct module *module;   /* owned reference */
	struct debugfile *debug; /* owned, may be NULL */
	struct symtab *symtab;   /* owned */
	bool has_bounds;
	struct bounds bounds;
	bool has_runtimes;
	unsigned int runtimes;
};

struct binaries {
	struct debugfile_search *search;
	VEC(struct binary *) all;
	uint64_t debug_max_bytes;    /* limits.debug_info of the agent; 0: wide */
	struct variables *variables; /* owned: of the one binary that has them open */
	const struct binary *variables_of;
};

int binaries_new(struct binaries **ret, const char *debug_dirs, uint64_t debug_max_bytes)
{
	AUTO_FREE struct binaries *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	r = debugfile_search_new(&t->search, debug_dirs, false, 0);
	if (r < 0)
		return r;
	t->debug_max_bytes = debug_max_bytes;
	*ret = TAKE_PTR(t);
	return 0;
}

void binaries_close_variables(struct binaries *t)
{
	t->variables = variables_free(t->variables);
	t->variables_of = NULL;
}

static void binary_free(struct binary *b)
{
	symtab_free(b->symtab);
	debugfile_close(b->debug);
	module_unref(b->module);
	free(b);
}

struct binaries *binaries_free(struct binaries *t)
{
	if (!t)
		return NULL;
	binaries_close_variables(t);
	for (size_t i = 0; i < t->all.n; i++)
		binary_free(t->all.at[i]);
	vec_free(&t->all);
	debugfile_search_free(t->search);
	free(t);
	return NULL;
}

void binaries_use_process(struct binaries *t, pid_t pid)
{
	debugfile_search_use_process(t->search, pid);
}

int binaries_get(struct binaries *t, struct module *m, struct binary **ret)
{
	AUTO_FREE struct binary *b = NULL;
	int r;

	for (size_t i = 0; i < t->all.n; i++) {
		if (module_id(t->all.at[i]->module) == module_id(m)) {
			*ret = t->all.at[i];
			return 0;
		}
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->table = t;
	r = vec_push(&t->all, b);
	if (r < 0)
		return r;
	b->module = module_ref(m);
	*ret = TAKE_PTR(b);
	return 0;
}

struct module *binary_module(const struct binary *b)
{
	return b->module;
}

struct symtab *binary_symtab(struct binary *b)
{
	if (b->symtab)
		return b->symtab;
	if (debugfile_open(b->table->search, b->module, &b->debug) < 0)
		b->debug = NULL;
	if (symtab_new(&b->symtab, b->module, b->debug) < 0)
		b->symtab = NULL;
	return b->symtab;
}

const struct debugfile *binary_debugfile(struct binary *b)
{
	binary_symtab(b);
	return b->debug;
}

/* Rounded up, so that what exceeds a limit does not look like it. */
static unsigned long long megabytes(uint64_t bytes)
{
	return bytes / (1 << 20) + (bytes % (1 << 20) != 0);
}

/* As good as not there: the endpoints that need none go on. */
static int too_large(const struct binary *b, uint64_t bytes, struct errmsg *e)
{
	const char *file = b->debug ? debugfile_path(b->debug) : module_path(b->module);
	uint64_t max = b->table->debug_max_bytes;

	if (bytes == UINT64_MAX)
		return errmsg_set(
			e, -ENOENT,
			"the debug information of %.300s is packed in a way that does not tell its size, and is not read: give offsets instead of names",
			file);
	if (max)
		return errmsg_set(
			e, -ENOENT,
			"the debug information of %.300s takes %llu MB of memory, more than limits.debug_info (%llu MB): give offsets instead of names, or raise limits.debug_info",
			file, megabytes(bytes), (unsigned long long)(max >> 20));
	return errmsg_set(
		e, -ENOENT,
		"the debug information of %.300s takes %llu MB of memory, more than the %llu MB that are allowed: give offsets instead of names",
		file, megabytes(bytes), megabytes(VARIABLES_WIDE_BYTES));
}

int binary_variables(struct binary *b, struct variables **ret, struct errmsg *e)
{
	struct binaries *t = b->table;
	uint64_t bytes;
	int r = 0;

	if (t->variables_of != b) {
		binaries_close_variables(t);
		r = variables_new(&t->variables, b->module, binary_debugfile(b), t->debug_max_bytes,
				  &bytes);
	}
	if (r == -EFBIG)
		return too_large(b, bytes, e);
	if (r == -ENOMEM)
		return errmsg_set(e, r, "out of memory");
	if (r < 0)
		return errmsg_set(
			e, -ENOENT,
			"%.300s has no debug information (DWARF) (install its debug symbols, or use registers and offsets, such as *(arg0+56))",
			module_path(b->module));
	t->variables_of = b;
	*ret = t->variables;
	return 0;
}

static bool note_section(void *ctx, const char *name, const struct section *s)
{
	unsigned int *runtimes = ctx;

	if (strcmp(name, ".gopclntab") == 0 || strcmp(name, ".go.buildinfo") == 0 ||
	    strcmp(name, ".data.rel.ro.gopclntab") == 0)
		*runtimes |= BINARY_GO;
	return true;
}

static const struct {
	const char *symbol;
	unsigned int runtimes;
} runtime_symbols[] = {
	{"_Unwind_RaiseException", BINARY_UNWINDS},
	{"_Unwind_Resume", BINARY_UNWINDS},
	{"__cxa_throw", BINARY_CXX | BINARY_UNWINDS},
	{"__gxx_personality_v0", BINARY_CXX | BINARY_UNWINDS},
	{"rust_eh_personality", BINARY_RUST | BINARY_UNWINDS},
	{"swapcontext", BINARY_CONTEXT},
	{"setcontext", BINARY_CONTEXT},
	{"pthread_exit", BINARY_CANCEL},
	{"pthread_cancel", BINARY_CANCEL},
};

static bool note_function(void *ctx, const struct symtab_symbol *sym)
{
	unsigned int *runtimes = ctx;

	if (strstr(sym->name, "rust_begin_unwind") || strstr(sym->name, "rust_panic") ||
	    strstr(sym->name, "rust_eh_personality"))
		*runtimes |= BINARY_RUST | BINARY_UNWINDS;
	else if (strncmp(sym->name, "_Unwind_RaiseException", 22) == 0)
		*runtimes |= BINARY_UNWINDS;
	return !(*runtimes & BINARY_RUST);
}

unsigned int binary_runtimes(struct binary *b)
{
	if (b->has_runtimes)
		return b->runtimes;
	section_each(b->module, note_section, &b->runtimes);
	for (size_t i = 0; i < ARRAY_SIZE(runtime_symbols); i++)
		if (section_has_dynamic_symbol(b->module, runtime_symbols[i].symbol))
			b->runtimes |= runtime_symbols[i].runtimes;
	if (!(b->runtimes & BINARY_UNWINDS) && binary_symtab(b))
		symtab_each(b->symtab, note_function, &b->runtimes);
	b->has_runtimes = true;
	return b->runtimes;
}

/* The NUL-terminated text at p, cut at TEXT_BYTES, against the glob. */
static bool text_matches(const char *p, size_t left, const char *glob)
{
	char text[TEXT_BYTES];
	size_t n = strnlen(p, left < sizeof(text) - 1 ? left : sizeof(text) - 1);

	memcpy(text, p, n);
	text[n] = '\0';
	return glob_match(glob, text);
}

bool binary_has_text(struct binary *b, const char *glob)
{
	size_t literal = strcspn(glob, "*?[\\"), bytes, left;
	AUTO_FREE uint8_t *data = NULL;
	const char *at;

	if (literal < 3 || read_section(b->module, ".rodata", RODATA_BYTES_MAX, &data, &bytes) < 0)
		return false;
	at = (const char *)data;
	left = bytes;
	while ((at = memmem(at, left, glob, literal)) != NULL) {
		left = bytes - (size_t)(at - (const char *)data);
		if (text_matches(at, left, glob))
			return true;
		at++;
		left--;
	}
	return false;
}

bool binary_function(struct binary *b, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_bytes)
{
	struct symtab *st = binary_symtab(b);

	return st && symtab_bounds(st, vaddr, ret_start, ret_bytes);
}

bool binary_unwound_function(struct binary *b, uint64_t vaddr, struct bounds_function *ret)
{
	if (!b->has_bounds)
		bounds_init(&b->bounds, b->module);
	b->has_bounds = true;
	return bounds_find(&b->bounds, b->module, vaddr, ret);
}

int binary_decode(const struct binary *b, uint64_t vaddr, struct insn *ret)
{
	uint8_t code[INSN_BYTES_MAX];
	size_t n = module_read_code(b->module, vaddr, code, sizeof(code));

	return decode_insn(code, n, vaddr, ret);
}
