/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ahead.h"

#include <elf.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "probe/callers.h"

enum {
	MODULES_MAX = 512,
	FUNCTIONS_MAX = 1 + JUMPERS_MAX,
	SOME_CALLERS =
		16, /* of a function in a file: perf events take tens of ms each on some machines */
};

/* Calls of it lead to the endpoint. */
struct function {
	struct binary *binary;
	uint64_t vaddr;
	const char *symbol; /* borrowed; NULL: no other module can call it */
};

struct ahead {
	struct retsites *retsites;
	const struct retsites_scope *scope;
	size_t n_callers_max;
	struct function
		functions[FUNCTIONS_MAX]; /* the endpoint's, and those that jump to others */
	size_t n_functions;
	struct resolve_module modules[MODULES_MAX];
	struct callers found; /* of one function in one module */
};

static void add_jumper(struct ahead *a, struct binary *b, uint64_t vaddr)
{
	struct function f = {.binary = b, .vaddr = vaddr};
	struct symtab *st = binary_symtab(b);
	struct symtab_symbol sym;

	for (size_t i = 0; i < a->n_functions; i++)
		if (a->functions[i].binary == b && a->functions[i].vaddr == vaddr)
			return;
	if (a->n_functions == FUNCTIONS_MAX)
		return;
	if (st && symtab_find_addr(st, vaddr, &sym) && sym.vaddr == vaddr && sym.bind != STB_LOCAL)
		f.symbol = sym.name;
	a->functions[a->n_functions++] = f;
}

static void add_callers(struct ahead *a, const struct function *f, const struct resolve_module *m,
			struct binary *b)
{
	struct callers_input in = {
		.binary = b, .vaddr = b == f->binary ? f->vaddr : 0, .symbol = f->symbol};

	if (find_callers(&in, &a->found) < 0)
		return;
	if (a->found.n > a->n_callers_max)
		a->found.n = a->n_callers_max;
	retsites_add_callers(a->retsites, a->scope, m->module, a->found.ret_addr, a->found.n,
			     m->bias);
	for (size_t i = 0; i < a->found.n_jumpers; i++)
		add_jumper(a, b, a->found.jumpers[i]);
}

void ahead_attach(struct retsites *t, const struct retsites_scope *scope,
		  const struct resolve_input *in, const struct resolved *f, uint64_t vaddr,
		  bool all)
{
	AUTO_FREE struct ahead *a = malloc(sizeof(*a));
	size_t n;

	if (!a)
		return;
	a->retsites = t;
	a->scope = scope;
	a->n_callers_max = all ? SIZE_MAX : SOME_CALLERS;
	a->functions[0] = (struct function){f->binary, vaddr, f->symbol};
	a->n_functions = 1;
	n = resolve_modules(in, NULL, a->modules, MODULES_MAX);
	for (size_t i = 0; i < a->n_functions; i++) {
		for (size_t k = 0; k < n; k++) {
			struct binary *b;

			if (binaries_get(in->binaries, a->modules[k].module, &b) == 0)
				add_callers(a, &a->functions[i], &a->modules[k], b);
		}
	}
}
