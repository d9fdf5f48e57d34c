/* SPDX-License-Identifier: Apache-2.0 */
#include "code/variable.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/debugfile_priv.h"
#include "code/section.h"
#include "code/variable_priv.h"

enum {
	PARAMETERS_MAX = 64,
	INTEGER_REGISTERS = 6,
};

/* psABI 3.2.3, by DWARF number: RDI, RSI, RDX, RCX, R8, R9. */
static const unsigned int integer_registers[INTEGER_REGISTERS] = {5, 4, 1, 2, 8, 9};
enum { REG_RSP = 7 };

DEFINE_CLEANUP(struct variables *, variables_free)

static int open_all(struct variables *v, const struct debugfile *debug, uint64_t max_bytes)
{
	int r = -ENOENT;

	if (debug)
		r = dwarffile_open(&v->file, debugfile_fd(debug), debugfile_alt_fd(debug),
				   max_bytes);
	if (r == -ENOENT && module_fd(v->module) >= 0)
		r = dwarffile_open(&v->file, module_fd(v->module), -1, max_bytes);
	return r;
}

int variables_new(struct variables **ret, struct module *m, const struct debugfile *debug,
		  uint64_t max_bytes, uint64_t *ret_bytes)
{
	CLEANUP(variables_freep) struct variables *v = calloc(1, sizeof(*v));
	int r;

	*ret_bytes = 0;
	if (!v)
		return -ENOMEM;
	v->module = m;
	/* libdw would look for a missing supplement by a path that the file chooses. */
	if (debug && debugfile_alt_missing(debug))
		return -ENOENT;
	r = open_all(v, debug, max_bytes ? max_bytes : VARIABLES_WIDE_BYTES);
	*ret_bytes = v->file.bytes;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(v);
	return 0;
}

struct variables *variables_free(struct variables *v)
{
	if (!v)
		return NULL;
	dwarffile_close(&v->file);
	free(v);
	return NULL;
}

static bool holds_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_module;
}

/*
 * Of several parts, as of a function with a .cold part, the first is the one that is entered (DWARF 5,
 * 2.18); libdw names no entry then. Empty ones do not count.
 */
static bool begins_at(struct variables *v, Dwarf_Die *function, uint64_t vaddr)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t off = 0;

	if (dwarf_entrypc(function, &start) == 0)
		return start == vaddr;
	if (!dwarf_hasattr(function, DW_AT_ranges))
		return false;
	while (variables_spend(v) && (off = dwarf_ranges(function, off, &base, &start, &end)) > 0)
		if (start < end)
			return start == vaddr;
	return false;
}

/* The function whose first byte is at vaddr. */
static bool find_function(struct variables *v, Dwarf_Die *unit, uint64_t vaddr, Dwarf_Die *ret)
{
	struct dies w;

	dies_begin(&w, unit, &v->budget, 0);
	while (dies_next(&w)) {
		int tag = dwarf_tag(&w.die);

		if (tag == DW_TAG_subprogram && begins_at(v, &w.die, vaddr)) {
			*ret = w.die;
			return true;
		}
		if (w.depth > VARIABLES_DEPTH_MAX || !holds_functions(tag))
			dies_skip(&w);
	}
	return false;
}

static bool unit_holds(struct variables *v, Dwarf_Die *unit, uint64_t vaddr)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t off = 0;

	while (variables_spend(v) && (off = dwarf_ranges(unit, off, &base, &start, &end)) > 0)
		if (vaddr >= start && vaddr < end)
			return true;
	return false;
}

static bool find_unit(struct variables *v, uint64_t vaddr, Dwarf_Die *ret)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;

	if (dwarf_addrdie(v->file.dwarf, vaddr, ret))
		return true;
	while (variables_spend(v) &&
	       dwarf_get_units(v->file.dwarf, cu, &cu, NULL, &type, ret, NULL) == 0)
		if (type == DW_UT_compile && unit_holds(v, ret, vaddr))
			return true;
	return false;
}

/* Clang says so; GCC leaves it to the destructors of the class, its bases and its fields. */
static bool is_passed_by_reference(struct variables *v, Dwarf_Die *type, unsigned int depth)
{
	Dwarf_Attribute attr;
	Dwarf_Word how;
	Dwarf_Die field;
	struct dies w;

	if (dwarf_formudata(dwarf_attr(type, DW_AT_calling_convention, &attr), &how) == 0)
		return how == DW_CC_pass_by_reference;
	if (depth >= VARIABLES_DEPTH_MAX)
		return false;
	dies_begin(&w, type, &v->budget, 0);
	while (dies_next(&w)) {
		const char *name = dwarf_diename(&w.die);
		int tag = dwarf_tag(&w.die);

		dies_skip(&w);
		if (tag == DW_TAG_subprogram && name && name[0] == '~' &&
		    !dwarf_hasattr(&w.die, DW_AT_defaulted))
			return true;
		if ((tag == DW_TAG_member || tag == DW_TAG_inheritance) &&
		    !dwarf_hasattr(&w.die, DW_AT_external) && variable_type_of(&w.die, &field) &&
		    (dwarf_tag(&field) == DW_TAG_structure_type ||
		     dwarf_tag(&field) == DW_TAG_class_type) &&
		    is_passed_by_reference(v, &field, depth + 1))
			return true;
	}
	return false;
}

static bool is_rust(Dwarf_Die *die)
{
	Dwarf_Die unit;

	return dwarf_diecu(die, &unit, NULL, NULL) && dwarf_srclang(&unit) == DW_LANG_Rust;
}

/* Rust passes the address of what is larger than two registers. */
static bool is_passed_as_address(struct variables *v, Dwarf_Die *type, const struct value_type *t)
{
	return t->class == VALUE_STRUCT &&
	       (is_passed_by_reference(v, type, 0) || (t->size > 16 && is_rust(type)));
}

/* Two fields of a register each: the same in all languages. */
static bool is_pair(struct variables *v, Dwarf_Die *type, const struct value_type *t)
{
	unsigned int n = 0;
	Dwarf_Die field;
	struct dies w;

	if (t->class != VALUE_STRUCT || t->size != 16 || is_passed_by_reference(v, type, 0))
		return false;
	dies_begin(&w, type, &v->budget, 0);
	while (dies_next(&w)) {
		struct value_type part;

		dies_skip(&w);
		if (dwarf_tag(&w.die) == DW_TAG_inheritance)
			return false;
		if (dwarf_tag(&w.die) != DW_TAG_member || dwarf_hasattr(&w.die, DW_AT_external) ||
		    dwarf_hasattr(&w.die, DW_AT_declaration))
			continue;
		if (!variable_type_of(&w.die, &field) || variable_size_of(&field) != 8)
			return false;
		variable_classify(v, &field, &part);
		if (part.class == VALUE_OTHER || part.class == VALUE_STRUCT ||
		    part.class == VALUE_ARRAY || part.class == VALUE_TEXT_ARRAY)
			return false;
		n++;
	}
	return n == 2;
}

enum { REGISTERS_UNKNOWN = 100 };

/* How many integer registers a value of this type takes; 0: none. */
static unsigned int registers_of(struct variables *v, Dwarf_Die *type)
{
	struct value_type t;

	variable_classify(v, type, &t);
	switch (t.class) {
	case VALUE_STRUCT:
		if (is_passed_as_address(v, type, &t))
			return 1;
		/* Rust splits the smaller ones by their fields, in ways that it may change. */
		if (t.size && is_rust(type) && !is_pair(v, type, &t))
			return REGISTERS_UNKNOWN;
		return t.size > 16 ? 0 : (t.size + 7) / 8;
	case VALUE_OTHER:
		return 0;
	case VALUE_SIGNED:
	case VALUE_UNSIGNED:
		return t.size > 8 ? 2 : 1;
	default:
		return 1;
	}
}

/* The address of a large return value comes first, hidden. */
static unsigned int hidden_registers(struct variables *v, Dwarf_Die *function)
{
	struct value_type t;
	Dwarf_Die type;

	if (!variable_type_of(function, &type))
		return 0;
	variable_classify(v, &type, &t);
	if (t.class != VALUE_STRUCT)
		return 0;
	if (t.size > 16 || is_passed_by_reference(v, &type, 0))
		return 1;
	return t.size > 8 && is_rust(&type) && !is_pair(v, &type, &t) ? REGISTERS_UNKNOWN : 0;
}

static bool is_register(const Dwarf_Op *op)
{
	return op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg15;
}

/*
 * What to add to an offset from the frame base for one from SP at the first instruction. A base that
 * is SP or RBP is only so after the first instructions: what lies below the frame is not there yet,
 * and how far SP has moved by then is not known.
 */
static bool frame_base_offset(Dwarf_Die *function, uint64_t vaddr, int64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr_integrate(function, DW_AT_frame_base, &attr) ||
	    dwarf_getlocation_addr(&attr, vaddr, &ops, &n, 1) != 1 || n != 1)
		return false;
	if (ops[0].atom == DW_OP_call_frame_cfa)
		*ret = 8;
	else if (ops[0].atom == DW_OP_reg6) /* RBP, pushed below the return address */
		*ret = -8;
	else
		return false;
	return true;
}

/*
 * Whether the optimizer may have removed the parameter, or put a part of it into its place, so that
 * those behind it have moved: LLVM does so in functions that are not exported, as all of Rust mostly
 * are not, and GCC in those and in copies of others (.isra, .constprop).
 */
static bool may_have_moved(Dwarf_Die *function, Dwarf_Die *parameter)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!is_rust(parameter) && !dwarf_hasattr(function, DW_AT_abstract_origin) &&
	    dwarf_hasattr_integrate(function, DW_AT_external))
		return false;
	/* Without optimization it is in the frame, all the time. */
	return !dwarf_attr_integrate(parameter, DW_AT_location, &attr) ||
	       dwarf_getlocation(&attr, &ops, &n) != 0 || n == 0 || ops[0].atom != DW_OP_fbreg;
}

/* The location that DWARF gives for the first instruction, when it is one of the simple forms. */
static bool location_at_entry(Dwarf_Die *function, Dwarf_Die *parameter, uint64_t vaddr,
			      struct variable *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	int64_t base;
	size_t n;

	if (!dwarf_attr_integrate(parameter, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, vaddr, &ops, &n, 1) != 1)
		return false;
	if (n == 4 && is_register(&ops[0]) && ops[1].atom == DW_OP_piece && ops[1].number == 8 &&
	    is_register(&ops[2]) && ops[3].atom == DW_OP_piece && ops[3].number == 8) {
		ret->kind = VARIABLE_REGISTERS;
		ret->reg = ops[0].atom - DW_OP_reg0;
		ret->second_reg = ops[2].atom - DW_OP_reg0;
		return true;
	}
	if (n != 1)
		return false;
	if (is_register(&ops[0])) {
		ret->kind = VARIABLE_REGISTER;
		ret->reg = ops[0].atom - DW_OP_reg0;
		return true;
	}
	/* From the CFA on, there are the arguments that are passed in memory. */
	if (ops[0].atom == DW_OP_fbreg && frame_base_offset(function, vaddr, &base) &&
	    base + (int64_t)ops[0].number >= 8) {
		ret->kind = VARIABLE_STACK;
		ret->reg = REG_RSP;
		ret->offset = base + (int64_t)ops[0].number;
		return true;
	}
	return false;
}

struct parameter {
	Dwarf_Die *function;
	Dwarf_Die *die;
	uint64_t vaddr;
	unsigned int first_register; /* INTEGER_REGISTERS: none is left; more: unknown */
	int64_t memory_off;          /* from SP, if it is passed in memory; 0: unknown */
};

static int not_read(const struct parameter *p, struct errmsg *why)
{
	return errmsg_set(
		why, -ENOTSUP,
		"how parameter '%.60s' is passed is not known: name it by its registers, as in str(arg1) or ruststr(arg1)",
		dwarf_diename(p->die));
}

/* A structure: in memory, or in two registers. */
static int place_structure(struct variables *v, const struct parameter *p, Dwarf_Die *type,
			   struct variable *ret, struct errmsg *why)
{
	struct variable var = *ret;

	if (location_at_entry(p->function, p->die, p->vaddr, &var)) {
		if (var.kind == VARIABLE_REGISTER)
			return not_read(p, why);
	} else if (is_pair(v, type, &var.type) && p->first_register + 2 <= INTEGER_REGISTERS &&
		   !may_have_moved(p->function, p->die)) {
		var.kind = VARIABLE_REGISTERS;
		var.reg = integer_registers[p->first_register];
		var.second_reg = integer_registers[p->first_register + 1];
	} else {
		return not_read(p, why);
	}
	if (var.kind == VARIABLE_REGISTERS)
		var.type.class = VALUE_SPLIT;
	*ret = var;
	return 0;
}

/* The register that holds the address of a structure that is passed so. */
static bool address_at_entry(const struct parameter *p, struct variable *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr_integrate(p->die, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, p->vaddr, &ops, &n, 1) != 1 || n != 1 ||
	    ops[0].atom < DW_OP_breg0 || ops[0].atom > DW_OP_breg15 ||
	    ops[0].atom == DW_OP_breg0 + REG_RSP || ops[0].number != 0)
		return false;
	ret->reg = ops[0].atom - DW_OP_breg0;
	return true;
}

/* By the calling convention: in the next register, or behind the return address. */
static void place_by_order(const struct parameter *p, struct variable *ret)
{
	if (p->first_register < INTEGER_REGISTERS) {
		ret->reg = integer_registers[p->first_register];
		return;
	}
	ret->kind = VARIABLE_STACK;
	ret->reg = REG_RSP;
	ret->offset = p->memory_off;
}

static int place_parameter(struct variables *v, const struct parameter *p, struct variable *ret,
			   struct errmsg *why)
{
	struct variable var = {.kind = VARIABLE_REGISTER};
	const char *name = dwarf_diename(p->die);
	bool in_memory, by_address;
	Dwarf_Die type;
	int r;

	if (!variable_type_of(p->die, &type))
		return errmsg_set(why, -ENOENT, "parameter '%.60s' has no type", name);
	variable_classify(v, &type, &var.type);
	if (var.type.class == VALUE_OTHER)
		return not_read(p, why);
	in_memory = var.type.class == VALUE_STRUCT;
	by_address = in_memory && is_passed_as_address(v, &type, &var.type);
	if (in_memory && !by_address) {
		r = place_structure(v, p, &type, &var, why);
		if (r < 0)
			return r;
	} else if (by_address ? !address_at_entry(p, &var)
			      : !location_at_entry(p->function, p->die, p->vaddr, &var)) {
		if (p->first_register > INTEGER_REGISTERS || may_have_moved(p->function, p->die))
			return not_read(p, why);
		if (p->first_register == INTEGER_REGISTERS && !p->memory_off)
			return errmsg_set(why, -ENOENT,
					  "parameter '%.60s' is not in a register at entry", name);
		place_by_order(p, &var);
	} else if (var.kind == VARIABLE_REGISTERS) {
		var.kind = VARIABLE_REGISTER; /* a number of 16 bytes: the lower half */
	}
	*ret = var;
	return 0;
}

/* 0, 1: the function has no such parameter, or an error. */
static int find_parameter(struct variables *v, Dwarf_Die *function, uint64_t vaddr,
			  const char *name, struct variable *ret, struct errmsg *why)
{
	unsigned int reg = hidden_registers(v, function), n = 0;
	struct dies w;
	struct parameter p = {.function = function, .die = &w.die, .vaddr = vaddr, .memory_off = 8};
	Dwarf_Die type;

	dies_begin(&w, function, &v->budget, 0);
	while (n < PARAMETERS_MAX && dies_next(&w)) {
		const char *its;
		unsigned int takes;

		dies_skip(&w);
		if (dwarf_tag(&w.die) != DW_TAG_formal_parameter)
			continue;
		n++;
		its = dwarf_diename(&w.die);
		p.first_register = reg;
		if (its && strcmp(its, name) == 0)
			return place_parameter(v, &p, ret, why);
		takes = variable_type_of(&w.die, &type) ? registers_of(v, &type) : 1;
		/* What does not fit into the rest goes into memory as a whole. */
		if (takes == REGISTERS_UNKNOWN || reg + takes <= INTEGER_REGISTERS)
			reg += takes;
		else if (takes == 1 && p.memory_off)
			p.memory_off += 8;
		/* One that takes no register may be in memory, in a place that its type decides. */
		if (takes != 1)
			p.memory_off = 0;
	}
	return 1;
}

static bool global_address(struct variables *v, Dwarf_Die *die, const char *name, uint64_t *ret)
{
	Dwarf_Attribute attr;
	const char *linkage;
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_attr_integrate(die, DW_AT_location, &attr) &&
	    dwarf_getlocation(&attr, &ops, &n) == 0 && n == 1 && ops[0].atom == DW_OP_addr) {
		*ret = ops[0].number;
		return true;
	}
	linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
	return section_find_object(v->module, linkage ? linkage : name, ret);
}

/* A global variable of this name in one unit; declarations of what is elsewhere count, too. */
static bool find_global(struct variables *v, Dwarf_Die *unit, const char *name,
			struct variable *ret)
{
	Dwarf_Die type;
	struct dies w;

	dies_begin(&w, unit, &v->budget, 0);
	while (dies_next(&w)) {
		int tag = dwarf_tag(&w.die);
		const char *its;

		if (tag != DW_TAG_namespace || w.depth > VARIABLES_DEPTH_MAX)
			dies_skip(&w);
		if (tag != DW_TAG_variable)
			continue;
		its = dwarf_diename(&w.die);
		if (!its || strcmp(its, name) != 0 || !variable_type_of(&w.die, &type) ||
		    !global_address(v, &w.die, name, &ret->vaddr))
			continue;
		ret->kind = VARIABLE_GLOBAL;
		variable_classify(v, &type, &ret->type);
		return true;
	}
	return false;
}

int variables_find(struct variables *v, uint64_t vaddr, const char *name, struct variable *ret,
		   struct errmsg *why)
{
	struct variable var = {0};
	Dwarf_Die unit, function;
	Dwarf_CU *cu = NULL;
	uint8_t type;
	int r = 1;

	variables_begin(v);
	if (!find_unit(v, vaddr, &unit))
		return errmsg_set(
			why, -ENOENT,
			"the DWARF does not know this function (use registers and offsets, such as *(arg0+56), or ruststr(arg1) for a &str)");
	if (find_function(v, &unit, vaddr, &function))
		r = find_parameter(v, &function, vaddr, name, &var, why);
	if (r == 1 && find_global(v, &unit, name, &var))
		r = 0;
	while (r == 1 && variables_spend(v) &&
	       dwarf_get_units(v->file.dwarf, cu, &cu, NULL, &type, &unit, NULL) == 0)
		if (type == DW_UT_compile && find_global(v, &unit, name, &var))
			r = 0;
	if (r == 1 && !v->budget.left)
		return errmsg_set(
			why, -ENOENT,
			"the debug information is too much to search for '%.80s'; read it by argument or register instead",
			name);
	if (r == 1)
		return errmsg_set(why, -ENOENT, "no parameter or global variable '%.80s'", name);
	if (r == 0)
		*ret = var;
	return r;
}
