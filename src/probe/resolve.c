/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/resolve.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/text.h"
#include "code/demangle.h"
#include "code/section.h"
#include "probe/insn.h"

enum { MODULES_MAX = 512, MATCHES_SHOWN = 8, LONGER_MAX = 3 };

/* libfoo matches libfoo.so.3, libfoo-2.31.so: the name without its version. */
static bool is_library_name(const char *wanted, const char *base)
{
	size_t n = strlen(wanted);

	return strncmp(wanted, base, n) == 0 && strstr(base, ".so") != NULL &&
	       (strncmp(base + n, ".so", 3) == 0 || base[n] == '-');
}

static bool same_file(const char *path, int fd)
{
	struct stat a, b;

	return stat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* A path, or a program's name in the usual folders, of the process, that leads to the module. */
static bool leads_to(const struct module *m, pid_t pid, const char *wanted)
{
	static const char *const dirs[] = {"/usr/bin",        "/usr/sbin", "/usr/local/bin",
					   "/usr/local/sbin", "/bin",      "/sbin"};
	char path[4200];

	if (module_fd(m) < 0)
		return false;
	if (strchr(wanted, '/')) {
		snprintf(path, sizeof(path), "/proc/%d/root%s%s", pid, wanted[0] == '/' ? "" : "/",
			 wanted);
		return same_file(path, module_fd(m)) || same_file(wanted, module_fd(m));
	}
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "/proc/%d/root%s/%s", pid, dirs[i], wanted);
		if (same_file(path, module_fd(m)))
			return true;
	}
	return false;
}

static bool binary_matches(const struct module *m, pid_t pid, const char *wanted)
{
	const char *path = module_path(m);
	const char *base = text_base_name(path);

	if (!wanted)
		return true;
	if (strcmp(wanted, path) == 0 || strcmp(wanted, base) == 0)
		return true;
	if (glob_is_pattern(wanted))
		return glob_match(wanted, path) || glob_match(wanted, base);
	return is_library_name(wanted, base) || leads_to(m, pid, wanted);
}

static bool is_executable(const struct module *m, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return module_fd(m) >= 0 && same_file(path, module_fd(m));
}

static bool has_module(const struct resolve_module *list, size_t n, const struct module *m)
{
	for (size_t i = 0; i < n; i++)
		if (module_id(list[i].module) == module_id(m))
			return true;
	return false;
}

size_t resolve_modules(const struct resolve_input *in, const char *binary,
		       struct resolve_module *ret, size_t max)
{
	const struct space_range *ranges;
	size_t n_ranges = space_ranges(in->space, &ranges);
	size_t n = 0;

	for (size_t i = 0; i < n_ranges && n < max; i++) {
		const struct space_range *r;

		if (ranges[i].kind != SPACE_FILE)
			continue;
		r = space_find(in->space, ranges[i].start);
		n_ranges = space_ranges(in->space, &ranges);
		if (!r || !r->module || has_module(ret, n, r->module))
			continue;
		if (!binary_matches(r->module, in->pid, binary))
			continue;
		ret[n++] = (struct resolve_module){.module = r->module, .bias = r->bias};
	}
	for (size_t i = 1; i < n; i++) {
		if (is_executable(ret[i].module, in->pid)) {
			struct resolve_module exe = ret[i];

			memmove(ret + 1, ret, i * sizeof(*ret));
			ret[0] = exe;
			break;
		}
	}
	return n;
}

/* Symbols of one module that match a glob, one for each address. */
struct collect {
	const char *pattern;
	struct symtab_list *list;
	int error;
};

static bool collect_glob(void *ctx, const struct symtab_symbol *sym)
{
	struct collect *c = ctx;
	char shown[DEMANGLE_TEXT_MAX];

	/* As in the file, demangled, or demangled with its parameters. */
	if (!glob_match(c->pattern, sym->name) &&
	    !(demangle_name(sym->name, false, shown, sizeof(shown)) &&
	      glob_match(c->pattern, shown)) &&
	    !(demangle_name(sym->name, true, shown, sizeof(shown)) &&
	      glob_match(c->pattern, shown)))
		return true;
	for (size_t i = 0; i < c->list->n; i++)
		if (c->list->at[i].vaddr == sym->vaddr)
			return true;
	c->error = vec_push(c->list, *sym);
	return c->error == 0 && c->list->n < 4096;
}

/* Clones of a function whose own symbol is gone: NAME.isra.0, NAME.constprop.0, ... */
static bool collect_clone(void *ctx, const struct symtab_symbol *sym)
{
	struct collect *c = ctx;
	size_t n = strlen(c->pattern);

	if (strncmp(sym->name, c->pattern, n) != 0 || sym->name[n] != '.')
		return true;
	c->error = vec_push(c->list, *sym);
	return c->error == 0 && c->list->n < 64;
}

static int find_in(struct binary *b, const char *name, struct symtab_list *list)
{
	struct symtab *st = binary_symtab(b);
	struct collect c = {.pattern = name, .list = list};
	int r;

	if (!st)
		return -ENOMEM;
	if (glob_is_pattern(name)) {
		symtab_each(st, collect_glob, &c);
		if (c.error || list->n)
			return c.error;
	}
	r = symtab_find_name(st, name, list);
	if (r == 0 && list->n == 0) {
		symtab_each(st, collect_clone, &c);
		r = c.error;
	}
	return r;
}

/* Parts that are no functions of their own, and old versions that nothing new links against. */
static bool is_second_choice(const struct symtab_symbol *sym)
{
	const char *version = strchr(sym->name, '@');

	return sym->hidden || (version && version[1] != '@') || strstr(sym->name, ".cold");
}

/* Drops second choices when something better is there. */
static void drop_second_choices(struct symtab_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++)
		kept += !is_second_choice(&list->at[i]);
	if (kept == 0)
		return;
	kept = 0;
	for (size_t i = 0; i < list->n; i++)
		if (!is_second_choice(&list->at[i]))
			list->at[kept++] = list->at[i];
	list->n = kept;
}

static int too_many(const char *name, const struct binary *b, const struct symtab_list *list,
		    struct errmsg *e)
{
	char text[512] = "";
	size_t n = 0;

	for (size_t i = 0; i < list->n && i < MATCHES_SHOWN; i++) {
		char shown[DEMANGLE_TEXT_MAX];

		demangle_name(list->at[i].name, true, shown, sizeof(shown));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s %.120s (0x%" PRIx64 ")",
				      i ? "," : "", shown, list->at[i].vaddr);
		if (n >= sizeof(text))
			break;
	}
	return errmsg_set(
		e, -EINVAL,
		"endpoint '%s': %zu functions of %s match:%s%s; name one of them with its parameters in quotes of their own (--endpoint \"'f(long)'\"), mangled, or as FILE:0xOFFSET",
		name, list->n, text_base_name(module_path(binary_module(b))), text,
		list->n > MATCHES_SHOWN ? ", ..." : "");
}

/* "shop::serve.isra.0": the name as people write it, and what the compiler appended. */
static void name_copy(const char *symbol, char *buf, size_t n)
{
	size_t used;

	demangle_name(symbol, false, buf, n);
	used = strlen(buf);
	snprintf(buf + used, n - used, "%s", symbol + demangle_base_length(symbol));
}

static int check_symbol(const char *wanted, const struct symtab_symbol *sym, struct resolved *ret,
			struct errmsg *e)
{
	char shown[DEMANGLE_TEXT_MAX];

	if (sym->type == STT_GNU_IFUNC)
		return errmsg_set(
			e, -EINVAL,
			"endpoint '%s': this symbol is an indirect function: the loader replaces it by one made for this CPU; probe that one (spanprof probes lists them)",
			wanted);
	if (strstr(sym->name, ".cold"))
		return errmsg_set(
			e, -EINVAL,
			"endpoint '%s': a .cold part is not a function: it is jumped to, not called, so calls cannot be timed there; probe the function itself",
			wanted);
	name_copy(sym->name, shown, sizeof(shown));
	if (strstr(sym->name, ".part."))
		snprintf(
			ret->note, sizeof(ret->note),
			"%.120s is a part that the compiler split off: calls that do not reach it are not seen",
			shown);
	else if (strstr(sym->name, ".isra.") || strstr(sym->name, ".constprop."))
		snprintf(
			ret->note, sizeof(ret->note),
			"%.120s is a copy that the compiler made: arg0, arg1 and so on may differ from the source, and other copies are not probed",
			shown);
	return 0;
}

/* True when decoding from the function's start meets vaddr. */
static bool is_boundary(const struct module *m, uint64_t start, uint64_t vaddr)
{
	uint8_t code[4096];
	struct insn i;

	while (start < vaddr) {
		size_t n = module_read_code(m, start, code, sizeof(code));
		size_t off = 0;

		while (off + 16 <= n && start + off < vaddr) {
			if (decode_insn(code + off, n - off, start + off, &i) < 0)
				return false;
			off += i.bytes;
		}
		if (off == 0)
			return false;
		start += off;
	}
	return start == vaddr;
}

/* Whether the unwind rules show that no instruction begins at the symbol, which is wrong then. */
static int check_boundary(const struct resolved *f, const char *wanted, struct errmsg *e)
{
	struct bounds_function around;

	if (!binary_unwound_function(f->binary, f->vaddr, &around) ||
	    is_boundary(binary_module(f->binary), around.start, f->vaddr))
		return 0;
	return errmsg_set(
		e, -EINVAL,
		"endpoint '%s': by the unwind rules of %s its symbol is in the middle of an instruction, and a probe there breaks the program",
		wanted, module_path(binary_module(f->binary)));
}

static int use_symbol(struct binary *b, const struct resolve_module *m,
		      const struct endpoint_target *t, struct symtab_list *list,
		      struct resolved *ret, struct errmsg *e)
{
	const struct symtab_symbol *sym = &list->at[0];
	uint64_t start, bytes;
	int r;

	drop_second_choices(list);
	if (list->n > 1)
		return too_many(t->symbol, b, list, e);
	*ret = (struct resolved){
		.binary = b, .bias = m->bias, .vaddr = sym->vaddr, .bytes = sym->size};
	snprintf(ret->symbol, sizeof(ret->symbol), "%s", sym->name);
	symtab_display(sym->name, ret->name, sizeof(ret->name));
	r = check_symbol(t->symbol, sym, ret, e);
	r = r < 0 ? r : check_boundary(ret, t->symbol, e);
	if (r < 0)
		return r;
	if (ret->bytes == 0 && binary_function(b, sym->vaddr, &start, &bytes) &&
	    start == sym->vaddr)
		ret->bytes = bytes;
	return 0;
}

/* max_bytes: of a name; what only contains the wanted one is longer. */
static void list_near(struct binary *b, const char *name, size_t max_bytes, char *text, size_t max)
{
	char near[SYMTAB_NEAREST_MAX][SYMTAB_NAME_MAX];
	struct symtab *st = binary_symtab(b);
	size_t n = st ? symtab_nearest(st, name, near, 4) : 0;
	size_t used = strlen(text);

	for (size_t i = 0; i < n && used < max; i++) {
		if (strlen(near[i]) > max_bytes)
			continue;
		used += (size_t)snprintf(text + used, max - used, "%s%.60s", used ? ", " : "",
					 near[i]);
	}
}

static bool note_source(void *ctx, const struct symtab_symbol *sym)
{
	unsigned int *sources = ctx;

	*sources |= 1U << sym->source;
	return true;
}

static bool is_go(const struct resolve_input *in, struct module *m)
{
	struct binary *b;

	return binaries_get(in->binaries, m, &b) == 0 && (binary_runtimes(b) & BINARY_GO);
}

/* What names the file lacks; "": none that it has. */
static const char *which_names(const struct resolve_input *in, struct module *m)
{
	unsigned int sources = 0;
	struct binary *b;

	if (is_go(in, m))
		return "; it is a Go program, whose own functions cannot be endpoints: its stacks move";
	if (binaries_get(in->binaries, m, &b) == 0 && binary_symtab(b))
		symtab_each(binary_symtab(b), note_source, &sources);
	if (!sources)
		return "; it has no symbols: give FILE:0xOFFSET or install its debug symbols";
	if (sources == 1U << SYMTAB_DYNAMIC)
		return "; it has the symbols of exported functions only: install its debug symbols for the others, or give FILE:0xOFFSET";
	return "";
}

/* The message when no module has the symbol: elsewhere in the process, or nearest names. */
static int not_found(const struct resolve_input *in, const struct endpoint_target *t,
		     const struct resolve_module *mods, size_t n, struct errmsg *e)
{
	struct resolve_module all[MODULES_MAX];
	char near[400] = "";
	const char *lacks;
	struct binary *b;
	size_t n_all = t->binary ? resolve_modules(in, NULL, all, MODULES_MAX) : 0;

	if (n == 0)
		return errmsg_set(
			e, -ENOENT,
			"endpoint '%s': process %d has no file '%s' mapped (executable: %s)",
			t->symbol, in->pid, t->binary ? t->binary : "?",
			n_all ? module_path(all[0].module) : "unreadable");
	for (size_t i = 0; i < n_all; i++) {
		struct symtab_list list = {0};

		if (binaries_get(in->binaries, all[i].module, &b) < 0)
			continue;
		find_in(b, t->symbol, &list);
		if (list.n) {
			vec_free(&list);
			return errmsg_set(e, -ENOENT,
					  "endpoint '%s': not in '%s', but in %s: write '%s:%s'",
					  t->symbol, t->binary, module_path(all[i].module),
					  text_base_name(module_path(all[i].module)), t->symbol);
		}
		vec_free(&list);
	}
	for (size_t i = 0; i < n && i < 2 && !is_go(in, mods[0].module); i++)
		if (binaries_get(in->binaries, mods[i].module, &b) == 0)
			list_near(b, t->symbol, i ? strlen(t->symbol) + LONGER_MAX : SIZE_MAX, near,
				  sizeof(near));
	lacks = which_names(in, mods[0].module);
	if (!lacks[0] && !near[0])
		lacks = "; no name is near ('spanprof probes' finds functions by a part of their names)";
	return errmsg_set(e, -ENOENT, "endpoint '%s': no such function in %s%s (process %d)%s%s%s",
			  t->symbol, module_path(mods[0].module), n > 1 ? " and its libraries" : "",
			  in->pid, lacks, near[0] ? "; nearest names: " : "", near);
}

static int resolve_symbol(const struct resolve_input *in, const struct endpoint_target *t,
			  struct resolved *ret, struct errmsg *e)
{
	struct resolve_module mods[MODULES_MAX];
	size_t n = resolve_modules(in, t->binary, mods, MODULES_MAX);

	for (size_t i = 0; i < n; i++) {
		struct symtab_list list = {0};
		struct binary *b;
		int r = binaries_get(in->binaries, mods[i].module, &b);

		r = r < 0 ? r : find_in(b, t->symbol, &list);
		if (r == 0 && list.n)
			r = use_symbol(b, &mods[i], t, &list, ret, e);
		else if (r == 0)
			r = -ENOENT;
		vec_free(&list);
		if (r != -ENOENT)
			return r;
	}
	return not_found(in, t, mods, n, e);
}

struct find_code {
	uint64_t vaddr;
	bool any; /* the file has executable sections at all */
	bool found;
};

static bool match_code(void *ctx, const char *name, const struct section *s)
{
	struct find_code *f = ctx;

	f->any |= s->executable;
	f->found |= s->executable && f->vaddr - s->vaddr < s->bytes;
	return !f->found;
}

/* Whether an executable section has the address; a file without section headers is believed. */
static bool is_code(struct module *m, uint64_t vaddr)
{
	struct find_code f = {.vaddr = vaddr};

	section_each(m, match_code, &f);
	return f.found || !f.any;
}

/* A mark of functions that compilers and linkers keep from occurring inside other instructions. */
static bool begins_with_endbr(struct binary *b, uint64_t vaddr)
{
	struct insn i;

	return binary_decode(b, vaddr, &i) == 0 && i.endbr;
}

/* Gives it the name of the symbol that is exactly there; false: none is. */
static bool name_after_symbol(struct resolved *f)
{
	struct symtab *st = binary_symtab(f->binary);
	struct symtab_symbol sym;

	if (!st || !symtab_find_addr(st, f->vaddr, &sym) || sym.vaddr != f->vaddr)
		return false;
	snprintf(f->symbol, sizeof(f->symbol), "%s", sym.name);
	symtab_display(sym.name, f->name, sizeof(f->name));
	return true;
}

static int resolve_offset(const struct resolve_input *in, const struct endpoint_target *t,
			  struct resolved *ret, struct errmsg *e)
{
	struct resolve_module mod;
	uint64_t vaddr, start, bytes;
	struct binary *b;
	int r;

	if (resolve_modules(in, t->binary, &mod, 1) == 0)
		return errmsg_set(e, -ENOENT,
				  "endpoint '%s:%s': process %d has no such file mapped", t->binary,
				  t->symbol, in->pid);
	r = binaries_get(in->binaries, mod.module, &b);
	if (r < 0)
		return r;
	if (!module_vaddr_of_offset(mod.module, t->offset, &vaddr) || !is_code(mod.module, vaddr))
		return errmsg_set(e, -EINVAL,
				  "endpoint '%s:%s': the offset is not in the code of %s",
				  t->binary, t->symbol, module_path(mod.module));
	*ret = (struct resolved){.binary = b, .bias = mod.bias, .vaddr = vaddr};
	snprintf(ret->name, sizeof(ret->name), "%s+0x%" PRIx64,
		 text_base_name(module_path(mod.module)), t->offset);
	if (!binary_function(b, vaddr, &start, &bytes)) {
		if (name_after_symbol(ret))
			return check_boundary(ret, ret->symbol, e);
		ret->unchecked = !begins_with_endbr(b, vaddr);
		return 0;
	}
	if (start != vaddr)
		return errmsg_set(
			e, -EINVAL,
			"endpoint '%s:%s': the offset is %" PRIu64
			" byte%s inside a function%s; calls can only be timed from its first byte, offset 0x%" PRIx64,
			t->binary, t->symbol, vaddr - start, vaddr - start == 1 ? "" : "s",
			is_boundary(mod.module, start, vaddr)
				? ""
				: " and in the middle of an instruction",
			t->offset - (vaddr - start));
	ret->bytes = bytes;
	name_after_symbol(ret);
	return 0;
}

int resolve_function(const struct resolve_input *in, const struct endpoint_target *t,
		     struct resolved *ret, struct errmsg *e)
{
	if (t->kind == ENDPOINT_OFFSET)
		return resolve_offset(in, t, ret, e);
	return resolve_symbol(in, t, ret, e);
}
