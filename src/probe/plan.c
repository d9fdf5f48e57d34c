/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/section.h"
#include "probe/endpoint_priv.h"
#include "probe/insn.h"
#include "probe/lookup.h"
#include "probe/rets.h"
#include "probe/usdt.h"

enum { MODULES_MAX = 512, NOTES_BYTES_MAX = 4 << 20, CODE_MAX = 64 << 10 };

/* Registers that arguments are passed in, RSP for those in memory, and what they lead to. */
#define ARGUMENTS                                                                                \
	(SITE_KEEP_MEMORY | (1U << WIRE_REG_RDI) | (1U << WIRE_REG_RSI) | (1U << WIRE_REG_RDX) | \
	 (1U << WIRE_REG_RCX) | (1U << WIRE_REG_R8) | (1U << WIRE_REG_R9) | (1U << WIRE_REG_RSP))

unsigned int plan_runtimes(const struct resolve_input *in)
{
	struct resolve_module mods[MODULES_MAX];
	size_t n = resolve_modules(in, NULL, mods, MODULES_MAX);
	unsigned int runtimes = 0;

	for (size_t i = 0; i < n; i++) {
		const char *path = module_path(mods[i].module);
		struct binary *b;

		/* The C library and libgcc provide all of these; what counts is who uses them. */
		if (strstr(path, "/libc.so") || strstr(path, "/libpthread") ||
		    strstr(path, "/ld-linux") || strstr(path, "/libgcc_s"))
			continue;
		if (binaries_get(in->binaries, mods[i].module, &b) == 0)
			runtimes |= binary_runtimes(b);
	}
	return runtimes;
}

const char *plan_uretprobe_danger(unsigned int runtimes)
{
	if (runtimes & BINARY_GO)
		return "it is a Go program";
	if (runtimes & BINARY_RUST)
		return "it holds Rust code that may panic";
	if (runtimes & BINARY_CXX)
		return "it holds C++ code that may throw exceptions";
	if (runtimes & BINARY_UNWINDS)
		return "it can unwind its stack";
	if (runtimes & BINARY_CONTEXT)
		return "it switches stacks (swapcontext)";
	if (runtimes & BINARY_CANCEL)
		return "it ends threads by pthread_exit or pthread_cancel";
	return NULL;
}

static int choose_leave(const struct endpoint *ep, const struct plan_options *o,
			const struct resolved *f, enum leave_method *ret, struct errmsg *e)
{
	enum leave_method leave = endpoint_leave(ep);
	const char *danger = plan_uretprobe_danger(o->runtimes);

	if (binary_runtimes(f->binary) & BINARY_GO)
		return errmsg_set(
			e, -EOPNOTSUPP,
			"endpoint '%s': %s is a Go program: its stacks move and its calls cannot be timed safely; not supported",
			endpoint_text(ep), module_path(binary_module(f->binary)));
	if (leave == LEAVE_AUTO)
		leave = o->leave;
	if (leave == LEAVE_AUTO || leave == LEAVE_END)
		leave = endpoint_end(ep) ? LEAVE_END : LEAVE_RETSITE;
	if (leave == LEAVE_RET && endpoint_end(ep))
		leave = LEAVE_END;
	if (endpoint_target(ep)->kind == ENDPOINT_USDT && !endpoint_end(ep) &&
	    leave != LEAVE_RETSITE)
		return errmsg_set(
			e, -EOPNOTSUPP,
			"endpoint '%s': a USDT probe is a place inside a function: its call ends with end=, or by leave=retsite (the default)",
			endpoint_text(ep));
	if (leave == LEAVE_URETPROBE && danger && !o->force)
		return errmsg_set(
			e, -EPERM,
			"endpoint '%s': a uretprobe could kill this process: %s; use --leave retsite (the default), or --force if you are sure",
			endpoint_text(ep), danger);
	*ret = leave;
	return 0;
}

static int choose_site(struct plan_target *t, uint32_t keep, const struct plan_options *o,
		       const struct endpoint *ep, struct errmsg *e)
{
	struct resolved *f = &t->function;
	uint64_t want = f->bytes && f->bytes < CODE_MAX ? f->bytes : CODE_MAX;
	AUTO_FREE uint8_t *code = malloc(want);
	struct site_function fn = {.code = code, .vaddr = f->vaddr, .function_bytes = f->bytes};
	enum site_result r;

	if (!code)
		return -ENOMEM;
	if (f->bytes == 0)
		want = 512;
	fn.code_bytes = module_read_code(binary_module(f->binary), f->vaddr, code, want);
	r = site_choose_entry(&fn, keep, &o->rules, &t->places[0].site);
	if (r != SITE_OK)
		return errmsg_set(e, -EOPNOTSUPP,
				  "endpoint '%s': no probe can be placed at %s (0x%" PRIx64 "): %s",
				  endpoint_text(ep), f->name, f->vaddr,
				  r == SITE_E_DECODE
					  ? "the bytes there are no instructions"
					  : "the kernel accepts none of its first instructions");
	t->places[0].vaddr = f->vaddr;
	t->n = 1;
	return 0;
}

int plan_rets(const struct resolved *f, const char *text, struct plan_target *ret, struct errmsg *e)
{
	struct rets found;
	int r = find_rets(f->binary, f->vaddr, f->bytes, &found);

	if (r < 0)
		return r;
	if (r != RETS_OK)
		return errmsg_set(
			e, -EOPNOTSUPP,
			"endpoint '%s': the returns of %s cannot be probed: %s (at 0x%" PRIx64
			" of %s); use leave=retsite (the default)",
			text, f->name, rets_reason((enum rets_result)r), found.trouble,
			module_path(binary_module(f->binary)));
	_Static_assert((int)RETS_MAX <= (int)PLAN_PLACES_MAX, "all returns are places");
	ret->function = *f;
	ret->n = found.n;
	for (size_t i = 0; i < found.n; i++)
		ret->places[i] =
			(struct plan_place){.vaddr = found.at[i], .site = {.vaddr = found.at[i]}};
	return 0;
}

static bool is_probed_safely(struct binary *b, uint64_t vaddr)
{
	struct insn i;

	return binary_decode(b, vaddr, &i) == 0 && !i.refused;
}

/* The entry's place again, at the function's first byte. */
static int enter_at_first(struct plan *p)
{
	struct plan_place *entry = &p->entry.places[0];

	entry->site = (struct site){.vaddr = entry->vaddr};
	return is_probed_safely(p->entry.function.binary, entry->vaddr) ? 0 : -EOPNOTSUPP;
}

/* A function of one block may be left where it is best entered. */
static int part_entry(struct plan *p, const struct endpoint *ep, struct errmsg *e)
{
	struct plan_place *entry = &p->entry.places[0];
	bool is_one = false;
	int r = 0;

	for (size_t i = 0; i < p->rets.n; i++)
		is_one |= p->rets.places[i].vaddr == entry->site.vaddr;
	if (is_one)
		r = enter_at_first(p);
	for (size_t i = 0; r == 0 && i < p->rets.n; i++)
		if (p->rets.places[i].vaddr == entry->site.vaddr)
			r = -EOPNOTSUPP;
	if (r < 0)
		return errmsg_set(
			e, r,
			"endpoint '%s': the only instruction of %s that can be probed is that by which it is left; use leave=retsite (the default)",
			endpoint_text(ep), p->entry.function.name);
	return 0;
}

static bool add_usdt_place(struct plan_target *t, struct binary *b, const struct usdt_note *note,
			   const struct section *base)
{
	uint64_t shift = note->base && base->vaddr ? base->vaddr - note->base : 0;
	struct plan_place place = {.vaddr = note->vaddr + shift};

	if (t->n == PLAN_PLACES_MAX || !is_probed_safely(b, place.vaddr))
		return false;
	place.site = (struct site){.vaddr = place.vaddr, .cheap = true};
	if (note->semaphore && !module_offset_of_vaddr(binary_module(b), note->semaphore + shift,
						       &place.semaphore_off))
		return false;
	t->places[t->n++] = place;
	return true;
}

/* All places in one module; ret_arguments (owned by the caller): of the first. reads: only those with the same. */
static int find_usdt(struct binary *b, const struct endpoint_target *target, bool reads,
		     struct plan_target *t, char **ret_arguments)
{
	struct module *m = binary_module(b);
	AUTO_FREE uint8_t *data = NULL;
	AUTO_FREE char *arguments = NULL;
	struct section base = {0};
	struct usdt_note note;
	size_t bytes, off = 0;
	int r = read_section(m, ".note.stapsdt", NOTES_BYTES_MAX, &data, &bytes);

	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	section_find(m, ".stapsdt.base", &base);
	while (parse_usdt_note(data, bytes, &off, &note)) {
		if (strcmp(note.provider, target->provider) != 0 ||
		    strcmp(note.name, target->name) != 0)
			continue;
		if (!arguments)
			arguments = strdup(note.arguments);
		if (!arguments)
			return -ENOMEM;
		if ((reads && strcmp(arguments, note.arguments) != 0) ||
		    !add_usdt_place(t, b, &note, &base))
			t->n_left_out++;
	}
	if (t->n == 0)
		return t->n_left_out ? -EOPNOTSUPP : -ENOENT;
	*ret_arguments = TAKE_PTR(arguments);
	return 0;
}

static int resolve_usdt(const struct resolve_input *in, const struct endpoint *ep,
			const struct endpoint_target *target, struct plan_target *t,
			char **ret_arguments, struct errmsg *e)
{
	struct resolve_module mods[MODULES_MAX];
	size_t n = resolve_modules(in, target->binary, mods, MODULES_MAX);

	for (size_t i = 0; i < n; i++) {
		struct binary *b;
		int r = binaries_get(in->binaries, mods[i].module, &b);

		r = r < 0 ? r
			  : find_usdt(b, target, endpoint_needs(ep) & ENDPOINT_NEEDS_NAMES, t,
				      ret_arguments);
		if (r == -ENOENT)
			continue;
		if (r == -EOPNOTSUPP)
			return errmsg_set(
				e, r,
				"endpoint '%s': USDT probe %s:%s is an instruction that cannot be probed without harm, such as a nop of 5 bytes, which Linux 6.18 turns into a call that overwrites the red zone",
				endpoint_text(ep), target->provider, target->name);
		if (r < 0)
			return r;
		t->function = (struct resolved){
			.binary = b, .bias = mods[i].bias, .vaddr = t->places[0].vaddr};
		snprintf(t->function.name, sizeof(t->function.name), "%s:%s", target->provider,
			 target->name);
		return 0;
	}
	return errmsg_set(
		e, -ENOENT,
		"endpoint '%s': process %d has no USDT probe %s:%s (spanprof probes -p %d lists those it has)",
		endpoint_text(ep), in->pid, target->provider, target->name, in->pid);
}

/* The first of the names that end it by convention. */
static int resolve_partner(const struct resolve_input *in, const struct endpoint *ep,
			   const struct endpoint_target *target, struct plan_target *t,
			   char **ret_arguments, struct errmsg *e)
{
	char name[SYMTAB_NAME_MAX];
	struct endpoint_target end = *target;
	int r = -ENOENT;

	end.name = name;
	for (unsigned int k = 0; r == -ENOENT && usdt_partner(target->name, k, name, sizeof(name));
	     k++)
		r = resolve_usdt(in, ep, &end, t, ret_arguments, NULL);
	if (r == -ENOENT)
		return errmsg_set(
			e, -EINVAL,
			"endpoint '%s': no USDT probe of a usual name ends what %s begins: say which does with end=, or leave=retsite until its function returns",
			endpoint_text(ep), target->name);
	return r;
}

/* A probe in the middle of an instruction makes the program compute something else. */
static int check_place(const struct resolved *f, const struct endpoint *ep,
		       const struct plan_options *o, struct errmsg *e)
{
	if (!f->unchecked || o->force)
		return 0;
	return errmsg_set(
		e, -EPERM,
		"endpoint '%s': %s has neither a symbol nor unwind rules for this offset, so whether an instruction begins there cannot be checked, and inside one a probe breaks the program; --force if you are sure",
		endpoint_text(ep), module_path(binary_module(f->binary)));
}

static int resolve_target(const struct resolve_input *in, const struct endpoint *ep,
			  const struct endpoint_target *target, struct plan_target *t,
			  char **ret_arguments, struct errmsg *e)
{
	if (target->is_partner)
		return resolve_partner(in, ep, target, t, ret_arguments, e);
	if (target->kind == ENDPOINT_USDT)
		return resolve_usdt(in, ep, target, t, ret_arguments, e);
	return resolve_function(in, target, &t->function, e);
}

/* The SP at the entry of the function around a place: its return address is below the frame's CFA. */
static int find_frame(struct module *m, struct plan_place *place)
{
	AUTO_FREE struct cfi_buf *cfi = malloc(sizeof(*cfi));
	int r = cfi ? module_find_cfi(m, place->vaddr, cfi) : -ENOMEM;
	const struct cfi_value *cfa = cfi ? &cfi->rule.cfa : NULL;

	if (r < 0)
		return r;
	if (r != CFI_OK || cfa->kind != CFI_REG || cfa->off < 8 || cfa->off % 8 ||
	    cfa->off > 8 * 0xffff || (cfa->base != WIRE_REG_RSP && cfa->base != WIRE_REG_RBP))
		return -EOPNOTSUPP;
	place->site.sp_slots = (uint32_t)cfa->off / 8 - 1;
	place->site.by_rbp = cfa->base == WIRE_REG_RBP;
	return 0;
}

/* A USDT probe without an end: it ends when the function that holds it returns. */
static int enclose(const struct endpoint *ep, struct plan *p, struct errmsg *e)
{
	struct resolved *f = &p->entry.function;
	struct symtab_symbol sym;
	uint64_t bytes;
	int r = 0;

	if (!binary_function(f->binary, p->entry.places[0].vaddr, &p->enclosing, &bytes))
		r = -EOPNOTSUPP;
	for (size_t i = 0; r == 0 && i < p->entry.n; i++)
		r = find_frame(binary_module(f->binary), &p->entry.places[i]);
	if (r == -EOPNOTSUPP)
		return errmsg_set(
			e, r,
			"endpoint '%s': it is not known where the function that holds this USDT probe returns to (its frame has no fixed place): say where the call ends with end=",
			endpoint_text(ep));
	if (r == 0 && symtab_find_addr(binary_symtab(f->binary), p->enclosing, &sym))
		snprintf(f->symbol, sizeof(f->symbol), "%s", sym.name);
	return r;
}

static void warn(struct plan *p, const char *a, const char *b)
{
	size_t n = strlen(p->warning);

	snprintf(p->warning + n, sizeof(p->warning) - n, "%s%s%s", n ? "; " : "", a, b);
}

static void warn_dear(struct plan *p)
{
	enum site_stop stop = (enum site_stop)p->entry.places[0].site.stop;
	char text[256];

	snprintf(
		text, sizeof(text),
		" has no cheap place for a probe%s%s%s: each call pays for single-stepping (about 1 us, on virtual machines up to 12 us)",
		stop ? " (" : "", site_stop_text(stop), stop ? ")" : "");
	warn(p, p->entry.function.name, text);
}

static void warn_nameless(struct plan *p)
{
	char text[400];

	snprintf(text, sizeof(text), "%.300s (its debug symbols would tell them)",
		 module_path(binary_module(p->entry.function.binary)));
	warn(p, "cannot name endpoints of this build, profiling without names: ", text);
}

static void note_warnings(struct plan *p, const struct plan_options *o)
{
	const char *danger = plan_uretprobe_danger(o->runtimes);

	if (p->entry.function.note[0])
		warn(p, p->entry.function.note, "");
	if (!p->entry.places[0].site.cheap)
		warn_dear(p);
	if (p->entry.n_left_out + p->end.n_left_out)
		warn(p, p->entry.function.name,
		     ": some of its places are left out, as their arguments lie elsewhere or no probe can be there");
	if (p->leave == LEAVE_RET)
		warn(p, p->entry.function.name,
		     ": each return pays for single-stepping (about 1 us, on virtual machines up to 12 us)");
	if (p->nameless)
		warn_nameless(p);
	if (p->leave == LEAVE_URETPROBE && danger)
		warn(p, "a uretprobe may kill this process: ", danger);
}

static bool has_text(void *ctx, const char *glob)
{
	return binary_has_text(ctx, glob);
}

static void make_build(struct binary *b, char *buf, size_t n, struct endpoint_build *ret)
{
	const uint8_t *id;
	size_t bytes = module_build_id(binary_module(b), &id), used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < bytes && used + 3 <= n; i++)
		used += (size_t)snprintf(buf + used, n - used, "%02x", id[i]);
	*ret = (struct endpoint_build){.path = module_path(binary_module(b)),
				       .build_id = buf,
				       .has_text = has_text,
				       .ctx = b};
}

/* What must still be there at the sites. */
struct kept {
	uint32_t at_entry;
	uint32_t at_end;
};

static struct kept kept_for(const struct endpoint_code *code)
{
	return (struct kept){
		.at_entry = code->registers | (code->reads_memory ? SITE_KEEP_MEMORY : 0),
		.at_end = code->end_registers | (code->end_reads_memory ? SITE_KEEP_MEMORY : 0) |
			  1U << WIRE_REG_RSP,
	};
}

static int compile(const struct endpoint *ep, struct plan *p, const char *entry_arguments,
		   const char *end_arguments, struct kept *ret_keep, struct errmsg *e)
{
	const struct site *first = &p->entry.places[0].site;
	struct lookup at_entry = {&p->entry.function, entry_arguments, first->sp_slots * 8LL,
				  first->by_rbp, p->entry.n > 1};
	struct lookup at_end = {&p->end.function, end_arguments, 0, false,
				p->end.n > 1 || endpoint_other_end(ep)};
	AUTO_FREE struct endpoint_code *code = malloc(sizeof(*code));
	struct expression_resolver entry, end;
	struct endpoint_build build;
	char build_id[64];
	int r;

	if (!code)
		return -ENOMEM;
	for (size_t i = 1; i < p->entry.n; i++)
		at_entry.sp_unknown |= p->entry.places[i].site.sp_slots != first->sp_slots ||
				       p->entry.places[i].site.by_rbp;
	lookup_make_resolver(&at_entry, &entry);
	lookup_make_resolver(&at_end, &end);
	make_build(p->entry.function.binary, build_id, sizeof(build_id), &build);
	r = endpoint_compile(ep, &entry, endpoint_end(ep) ? &end : NULL, &build, code, e);
	if (r < 0)
		return r;
	p->wire = code->wire;
	p->nameless = code->nameless;
	*ret_keep = kept_for(code);
	for (uint32_t i = 0; i < p->wire.n_leave_ops; i++)
		p->wants_return_value |= p->wire.leave_ops[i].code == WIRE_OP_REG &&
					 p->wire.leave_ops[i].arg == WIRE_REG_RAX;
	return 0;
}

/* The programs mean registers at the first byte; at the site the values may be elsewhere. */
static void move_registers(struct wire_op *ops, uint32_t n, const struct site *site)
{
	for (uint32_t i = 0; i < n; i++)
		if (ops[i].code == WIRE_OP_REG && ops[i].arg < SITE_REGISTERS &&
		    site->moved[ops[i].arg] != SITE_LOST)
			ops[i].arg = site->moved[ops[i].arg];
}

static int choose_sites(const struct endpoint *ep, const struct plan_options *o,
			const struct kept *keep, struct plan *p, struct errmsg *e)
{
	/* The handler must see the return address before a uretprobe replaces it. */
	bool first_byte = p->leave == LEAVE_URETPROBE;
	bool at_first = false;
	int r = 0;

	if (p->entry.n == 0)
		r = choose_site(&p->entry, first_byte ? ARGUMENTS : keep->at_entry, o, ep, e);
	if (r == 0 && first_byte)
		p->entry.places[0].site = (struct site){.vaddr = p->entry.function.vaddr,
							.cheap = p->entry.places[0].site.cheap &&
								 p->entry.places[0].site.off == 0};
	if (r == 0 && endpoint_end(ep) && p->end.n == 0)
		r = choose_site(&p->end, keep->at_end, o, ep, e);
	if (r == 0 && p->leave == LEAVE_RET) {
		r = plan_rets(&p->entry.function, endpoint_text(ep), &p->rets, e);
		r = r < 0 ? r : part_entry(p, ep, e);
		at_first = r == 0 && p->entry.places[0].site.off == 0;
	}
	if (r == 0 && endpoint_target(ep)->kind != ENDPOINT_USDT && !first_byte && !at_first)
		move_registers(p->wire.entry_ops, p->wire.n_entry_ops, &p->entry.places[0].site);
	if (r == 0 && endpoint_end(ep) && endpoint_end(ep)->kind != ENDPOINT_USDT)
		move_registers(p->wire.leave_ops, p->wire.n_leave_ops, &p->end.places[0].site);
	return r;
}

/* The conditions and names that are read at the end are one program for both of its functions. */
static int add_other_end(const struct resolve_input *in, const struct endpoint *ep,
			 const struct plan_options *o, uint32_t keep, struct plan *p,
			 struct errmsg *e)
{
	AUTO_FREE struct plan_target *t = calloc(1, sizeof(*t));
	const struct site *first = &p->end.places[0].site;
	int r = t ? resolve_function(in, endpoint_other_end(ep), &t->function, e) : -ENOMEM;

	r = r < 0 ? r : check_place(&t->function, ep, o, e);
	if (r < 0)
		return r;
	if (t->function.binary != p->end.function.binary)
		return errmsg_set(e, -EOPNOTSUPP,
				  "endpoint '%s': its two end functions are not in the same file",
				  endpoint_text(ep));
	r = choose_site(t, keep, o, ep, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < SITE_REGISTERS; i++)
		if (keep & 1U << i && t->places[0].site.moved[i] != first->moved[i])
			return errmsg_set(
				e, -EOPNOTSUPP,
				"endpoint '%s': its two end functions have their arguments in different registers",
				endpoint_text(ep));
	p->end.places[p->end.n++] = t->places[0];
	p->other_end = t->function;
	return 0;
}

int plan_endpoint(const struct resolve_input *in, const struct endpoint *ep,
		  const struct plan_options *o, struct plan *p, struct errmsg *e)
{
	AUTO_FREE char *entry_arguments = NULL;
	AUTO_FREE char *end_arguments = NULL;
	struct kept keep = {0};
	int r;

	memset(p, 0, sizeof(*p));
	r = resolve_target(in, ep, endpoint_target(ep), &p->entry, &entry_arguments, e);
	if (r == 0 && endpoint_end(ep))
		r = resolve_target(in, ep, endpoint_end(ep), &p->end, &end_arguments, e);
	if (r == 0 &&
	    !endpoint_wants_file(ep, module_path(binary_module(p->entry.function.binary))))
		return errmsg_set(e, -ESRCH, "endpoint '%s' is not for %s", endpoint_text(ep),
				  module_path(binary_module(p->entry.function.binary)));
	r = r < 0 ? r : check_place(&p->entry.function, ep, o, e);
	if (r == 0 && endpoint_end(ep))
		r = check_place(&p->end.function, ep, o, e);
	r = r < 0 ? r : choose_leave(ep, o, &p->entry.function, &p->leave, e);
	if (r == 0 && endpoint_target(ep)->kind == ENDPOINT_USDT && !endpoint_end(ep))
		r = enclose(ep, p, e);
	r = r < 0 ? r : compile(ep, p, entry_arguments, end_arguments, &keep, e);
	r = r < 0 ? r : choose_sites(ep, o, &keep, p, e);
	if (r == 0 && endpoint_other_end(ep))
		r = add_other_end(in, ep, o, keep.at_end, p, e);
	if (r < 0)
		return r;
	if (p->leave == LEAVE_URETPROBE)
		p->wire.flags |= WIRE_EP_F_URETPROBE;
	if (p->leave == LEAVE_RET)
		p->wire.flags |= WIRE_EP_F_RET_SITES;
	p->wire.site_off = p->entry.places[0].site.off;
	note_warnings(p, o);
	return 0;
}
