/* SPDX-License-Identifier: Apache-2.0 */
/* probes_list.c: functions and USDT probes of a process that could be endpoints. */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/probes_command.h"
#include "base/cleanup.h"
#include "base/glob.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "bpf/wire.h"
#include "code/section.h"
#include "probe/endpoint.h"
#include "probe/insn.h"
#include "probe/plan.h"
#include "probe/rules.h"
#include "probe/site.h"
#include "probe/usdt.h"

enum { MODULES_MAX = 512, CODE_BYTES = 4096, NOTES_BYTES_MAX = 4 << 20, LIST_MAX = 200 };

/* What a name usually reads: the first two arguments, if there are any. */
#define NAME_REGISTERS (SITE_KEEP_MEMORY | (1U << WIRE_REG_RDI) | (1U << WIRE_REG_RSI))

struct collect {
	struct candidates *list;
	const struct probes_command *command;
	struct binary *binary;
	uint64_t bias;
	struct hash seen; /* addresses of this module */
	int error;
};

/* Words in the names of functions that serve requests, the telling ones first. */
static const char *const request_words[] = {
	"request", "dispatch", "execute", "command", "query",  "handle",
	"process", "serve",    "service", "invoke",  "accept", "transaction",
};
enum { TELLING_WORDS = 6, SOUND_MAX = 4 };

/* The function's own name, without the classes and namespaces that it is in. */
static const char *own_name(const char *shown)
{
	const char *own = shown;
	int depth = 0;

	for (const char *p = shown; *p; p++) {
		depth += (*p == '<' || *p == '(') - (*p == '>' || *p == ')');
		if (depth == 0 && p[0] == ':' && p[1] == ':')
			own = p + 2;
	}
	return own;
}

/* 4, 3: its own name has a telling word, and others or not; 2: it has others; 1: what it is in has. */
static int sound_of(const char *shown)
{
	const char *own = own_name(shown);
	int telling = 0, words = strncasecmp(own, "on_", 3) == 0, around = 0;

	for (size_t i = 0; i < ARRAY_SIZE(request_words); i++) {
		bool in_own = strcasestr(own, request_words[i]);

		telling += in_own && i < TELLING_WORDS;
		words += in_own;
		around |= strcasestr(shown, request_words[i]) != NULL;
	}
	if (telling)
		return words > 1 ? SOUND_MAX : SOUND_MAX - 1;
	return words ? 2 : around;
}

static bool is_wanted(const struct probes_command *c, const char *name, const char *shown)
{
	if (!c->pattern)
		return c->all || sound_of(shown);
	if (glob_is_pattern(c->pattern))
		return glob_match(c->pattern, name) || glob_match(c->pattern, shown);
	return strcasestr(name, c->pattern) || strcasestr(shown, c->pattern);
}

static const char *why_not(const struct symtab_symbol *sym, unsigned int runtimes)
{
	if (sym->type == STT_GNU_IFUNC)
		return "indirect function: probe the one that the loader picks";
	if (strstr(sym->name, ".cold"))
		return "cold part: it is jumped to, not called";
	if (runtimes & BINARY_GO)
		return "Go: its stacks move";
	return NULL;
}

/* A jump out of the function: it ends by another one. Others that are indirect are those of a switch. */
static bool leaves(const struct site_function *fn, size_t off, const struct insn *i)
{
	if (i->flow == INSN_JMP_INDIRECT)
		return off + i->bytes == fn->function_bytes;
	return i->flow == INSN_JMP && fn->function_bytes &&
	       i->target - fn->vaddr >= fn->function_bytes;
}

/* What serves a request calls other functions, by a jump when nothing is left to do after it. */
static bool makes_calls(const struct site_function *fn)
{
	struct insn i;

	for (size_t off = 0; off < fn->code_bytes; off += i.bytes) {
		if (decode_insn(fn->code + off, fn->code_bytes - off, fn->vaddr + off, &i) < 0)
			break;
		if (i.flow == INSN_CALL || i.flow == INSN_CALL_INDIRECT || leaves(fn, off, &i))
			return true;
	}
	return false;
}

static void choose_site(struct candidate *f, struct binary *b, const struct site_rules *rules)
{
	uint64_t bytes = f->function.bytes;
	uint8_t code[CODE_BYTES];
	struct site_function fn = {.code = code, .vaddr = f->function.vaddr};

	fn.function_bytes = bytes;
	fn.code_bytes = module_read_code(binary_module(b), f->function.vaddr, code,
					 bytes && bytes < sizeof(code) ? bytes : sizeof(code));
	f->has_site = site_choose_entry(&fn, 0, rules, &f->site) == SITE_OK;
	if (f->has_site)
		site_choose_entry(&fn, NAME_REGISTERS & ~site_unused_arguments(&fn), rules,
				  &f->named);
	f->makes_calls = makes_calls(&fn);
	if (!f->has_site && !f->why_not)
		f->why_not = "the kernel accepts no probe on its first instructions";
}

/* A function of the standard library of C++ or Rust that is in the program itself. */
static bool is_library(const char *name)
{
	static const char *const prefixes[] = {"std::",   "core::",   "alloc::",     "<std::",
					       "<core::", "<alloc::", "__gnu_cxx::", "hashbrown::"};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static bool collect_symbol(void *ctx, const struct symtab_symbol *sym)
{
	struct collect *c = ctx;
	struct candidate f = {0};
	char shown[SYMTAB_NAME_MAX];

	symtab_display(sym->name, shown, sizeof(shown));
	if (!is_wanted(c->command, sym->name, shown) || hash_get(&c->seen, sym->vaddr))
		return true;
	c->error = hash_set(&c->seen, sym->vaddr, 1);
	if (c->error)
		return false;
	f.function = (struct resolved){
		.binary = c->binary, .bias = c->bias, .vaddr = sym->vaddr, .bytes = sym->size};
	snprintf(f.function.name, sizeof(f.function.name), "%s", shown);
	snprintf(f.function.symbol, sizeof(f.function.symbol), "%s", sym->name);
	f.sound = is_library(shown) ? -1 : sound_of(shown);
	f.why_not = why_not(sym, binary_runtimes(c->binary));
	choose_site(&f, c->binary, &c->command->rules);
	if (!f.makes_calls && !c->command->pattern && !c->command->all)
		return true;
	c->error = vec_push(c->list, f);
	return c->error == 0;
}

/* Those that sound most like requests first, else as in the symbol tables; libraries last. */
static int by_sound(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->sound != y->sound)
		return y->sound - x->sound;
	return x->idx < y->idx ? -1 : x->idx > y->idx;
}

static void keep_best(struct candidates *list, const struct probes_command *c, size_t max)
{
	for (size_t i = 0; i < list->n; i++)
		list->at[i].idx = i;
	if (list->n && !c->pattern && !c->all)
		qsort(list->at, list->n, sizeof(*list->at), by_sound);
	if (list->n > max) {
		list->n_left_out = list->n - max;
		list->n = max;
	}
}

int candidates_find(struct candidates *ret, struct inspect *i, const struct probes_command *command,
		    size_t max)
{
	struct resolve_module mods[MODULES_MAX];
	size_t n = resolve_modules(&i->input, NULL, mods, MODULES_MAX);
	int r = 0;

	/* Without a pattern, only the program itself: its libraries serve nobody by themselves. */
	if (!command->pattern && n > 1)
		n = 1;
	for (size_t k = 0; k < n && r == 0; k++) {
		struct collect c = {.list = ret, .command = command, .bias = mods[k].bias};
		struct symtab *st;

		r = binaries_get(i->binaries, mods[k].module, &c.binary);
		st = r < 0 ? NULL : binary_symtab(c.binary);
		if (!st)
			continue;
		hash_init(&c.seen);
		symtab_each(st, collect_symbol, &c);
		hash_deinit(&c.seen);
		r = c.error;
	}
	keep_best(ret, command, max);
	return r;
}

static void print_heading(void)
{
	printf("%-6s  %-10s  %10s  %s\n", "cost", "leave", "address", "function (file)");
}

/* Whether it can be an endpoint. */
static bool print_candidate(const struct candidate *f)
{
	char name[SHOWN_MAX], module[SHOWN_MAX];

	text_show(name, sizeof(name), f->function.name);
	text_show(module, sizeof(module),
		  text_base_name(module_path(binary_module(f->function.binary))));
	if (f->why_not) {
		printf("%-6s  %-10s  %10s  %s (%s): %s\n", "no", "-", "-", name, module,
		       f->why_not);
		return false;
	}
	printf("%-6s  %-10s  0x%08" PRIx64 "  %s (%s)", f->site.cheap ? "cheap" : "DEAR", "retsite",
	       f->function.vaddr, name, module);
	if (f->site.off)
		printf(" at +0x%x", f->site.off);
	if (!f->site.cheap && f->site.stop)
		printf(": %s", site_stop_text((enum site_stop)f->site.stop));
	if (f->site.cheap && !f->named.cheap)
		printf(": DEAR with a name: %s", site_stop_text((enum site_stop)f->named.stop));
	putchar('\n');
	return true;
}

/* How `run` would tell the end of what begins at a USDT probe. */
static const char *note_leave(struct inspect *i, const struct site_rules *rules,
			      const struct usdt_note *note)
{
	AUTO_FREE struct plan *plan = malloc(sizeof(*plan));
	struct plan_options o = {.rules = *rules, .leave = LEAVE_AUTO};
	struct endpoint *ep = NULL;
	struct errmsg e = {""};
	char spec[256];
	int r;

	snprintf(spec, sizeof(spec), "usdt:%s:%s", note->provider, note->name);
	r = plan ? parse_endpoint(spec, &ep, &e) : -ENOMEM;
	r = r < 0 ? r : plan_endpoint(&i->input, ep, &o, plan, &e);
	endpoint_free(ep);
	return r < 0 ? "end=" : leave_method_name(plan->leave);
}

static void print_note(const struct usdt_note *note, uint64_t n_places, const char *leave,
		       const char *module)
{
	unsigned int n_arguments = usdt_n_arguments(note->arguments);
	char text[256], places[40] = "";
	size_t n = 0;

	if (n_places > 1)
		snprintf(places, sizeof(places), ", %" PRIu64 " places", n_places);
	snprintf(text, sizeof(text), "usdt:%s:%s  %u argument%s%s%s (%s)", note->provider,
		 note->name, n_arguments, n_arguments == 1 ? "" : "s",
		 note->semaphore ? ", semaphore" : "", places, module);
	for (; text[n]; n++)
		if ((unsigned char)text[n] < 0x20 || (unsigned char)text[n] >= 0x7f)
			text[n] = '?';
	printf("%-6s  %-10s  %10s  %s\n", "cheap", leave, "-", text);
}

static uint64_t note_key(const struct usdt_note *note)
{
	return hash_bytes(note->name, strlen(note->name),
			  hash_bytes(note->provider, strlen(note->provider), 0));
}

/* How many places each probe has. */
static int count_places(const uint8_t *data, size_t bytes, struct hash *ret)
{
	struct usdt_note note;
	size_t off = 0;
	int r = 0;

	while (r == 0 && parse_usdt_note(data, bytes, &off, &note)) {
		uint64_t key = note_key(&note), *n = hash_get(ret, key);

		r = hash_set(ret, key, n ? *n + 1 : 1);
	}
	return r;
}

static bool note_is_wanted(const struct probes_command *c, const struct usdt_note *note)
{
	char name[256];

	snprintf(name, sizeof(name), "%s:%s", note->provider, note->name);
	return c->all || !c->pattern || is_wanted(c, note->name, name);
}

/* The USDT probes of one module, each once; their number is returned. is_first: nothing is printed yet. */
static size_t list_notes(struct inspect *i, struct module *m, const struct probes_command *c,
			 bool is_first)
{
	AUTO_FREE uint8_t *data = NULL;
	struct usdt_note note;
	struct hash places;
	size_t bytes, off = 0, n = 0;

	if (read_section(m, ".note.stapsdt", NOTES_BYTES_MAX, &data, &bytes) < 0)
		return 0;
	hash_init(&places);
	if (count_places(data, bytes, &places))
		bytes = 0;
	while (parse_usdt_note(data, bytes, &off, &note)) {
		uint64_t *n_places = hash_get(&places, note_key(&note));

		if (!n_places || !note_is_wanted(c, &note))
			continue;
		if (is_first && !n)
			print_heading();
		print_note(&note, *n_places, note_leave(i, &c->rules, &note),
			   text_base_name(module_path(m)));
		hash_remove(&places, note_key(&note));
		n++;
	}
	hash_deinit(&places);
	return n;
}

/* What "cheap" and "DEAR" mean on this machine; nothing when it cannot be measured. */
static void tell_cost(void)
{
	char cheap[32], dear[32];
	struct attach_source source;
	struct rules_cost cost = {0};

	if (attach_source_read(&source, NULL) == 0)
		rules_measure_cost(&source, &cost);
	if (!cost.push_ns || !cost.stepped_ns)
		return;
	format_duration(cheap, sizeof(cheap), cost.push_ns);
	format_duration(dear, sizeof(dear), cost.stepped_ns);
	log_info("measured here: a cheap probe costs %s a call, a DEAR one %s; a call has two",
		 cheap, dear);
}

static bool note_source(void *ctx, const struct symtab_symbol *sym)
{
	*(unsigned int *)ctx |= 1U << sym->source;
	return true;
}

/* The program itself; NULL when its file cannot be read. */
static struct binary *program_of(struct inspect *i)
{
	struct resolve_module mods[MODULES_MAX];
	struct binary *b = NULL;

	if (!resolve_modules(&i->input, NULL, mods, MODULES_MAX) ||
	    binaries_get(i->binaries, mods[0].module, &b) < 0)
		return NULL;
	return b;
}

void candidates_tell_none(struct inspect *i, const struct probes_command *c, char *buf, size_t n)
{
	struct binary *b = program_of(i);
	unsigned int sources = 0;

	if (plan_runtimes(&i->input) & BINARY_GO) {
		snprintf(buf, n, "those of a Go program cannot be endpoints");
		return;
	}
	if (b && binary_symtab(b))
		symtab_each(binary_symtab(b), note_source, &sources);
	if (b && !(sources & ~(1U << SYMTAB_DYNAMIC)))
		snprintf(
			buf, n,
			"'%s' has %s: install its debug symbols (looked for in %s), or give an address to --endpoint: FILE:0xOFFSET",
			text_base_name(module_path(binary_module(b))),
			sources ? "the symbols of exported functions only" : "no symbols",
			c->debug_dirs ? c->debug_dirs : DEBUGFILE_DIRS);
	else
		snprintf(buf, n, "%s",
			 c->pattern ? "give another PATTERN" : "give a PATTERN, or --all");
}

static void tell_none(struct inspect *i, const struct probes_command *c)
{
	char why[512];

	candidates_tell_none(i, c, why, sizeof(why));
	if (c->pattern)
		log_error("process %d: no function matches '%s'; %s", c->pid, c->pattern, why);
	else
		log_error("process %d: no function of its program %s; %s", c->pid,
			  c->all ? "is known" : "sounds like a request", why);
}

int probes_list(struct inspect *i, const struct probes_command *c)
{
	struct resolve_module mods[MODULES_MAX];
	size_t n = resolve_modules(&i->input, NULL, mods, MODULES_MAX), n_notes = 0;
	struct candidates list = {0};
	bool any = false;
	int r = candidates_find(&list, i, c, c->all ? SIZE_MAX : LIST_MAX);

	if (list.n)
		print_heading();
	for (size_t k = 0; k < list.n; k++)
		any |= print_candidate(&list.at[k]);
	for (size_t k = 0; k < n; k++)
		n_notes += list_notes(i, mods[k].module, c, list.n + n_notes == 0);
	fflush(stdout);
	if (r < 0)
		log_error("process %d: cannot list its functions: %s", c->pid, strerror(-r));
	else if (list.n + n_notes == 0)
		tell_none(i, c);
	if (list.n_left_out)
		log_info("%zu more match; --all lists them", list.n_left_out);
	if (any || n_notes)
		tell_cost();
	r = r < 0 || list.n + n_notes == 0 ? EXIT_FAILED : 0;
	vec_free(&list);
	return r;
}
