/* SPDX-License-Identifier: Apache-2.0 */
#include "code/variable.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/debugfile_priv.h"
#include "code/elffile.h"
#include "code/section.h"

enum {
	WALK_MAX = 400000, /* DIEs looked at for one question */
	DEPTH_MAX = 12,
	PEEL_MAX = 32,
	PARAMETERS_MAX = 64,
	INTEGER_REGISTERS = 6,
};

/* An id whose type is in the dwz supplement. */
#define ID_IN_ALT       (1ULL << 63)
#define DWARF_MAX_BYTES (1ULL << 30)

/* psABI 3.2.3, by DWARF number: RDI, RSI, RDX, RCX, R8, R9. */
static const unsigned int integer_registers[INTEGER_REGISTERS] = {5, 4, 1, 2, 8, 9};
enum { REG_RSP = 7 };

struct variables {
	struct module *module; /* borrowed */
	Elf *elf, *alt_elf;    /* owned */
	Dwarf *dwarf, *alt;    /* owned */
	size_t budget;         /* DIEs left for the question at hand */
};

DEFINE_CLEANUP(struct variables *, variables_free)

static int open_dwarf(int fd, Elf **ret_elf, Dwarf **ret)
{
	int r = elffile_begin_dwarf(fd, ret_elf);

	if (r)
		return r == -ENOMEM ? r : -ENOENT;
	if (!elffile_has_dwarf(*ret_elf))
		return -ENOENT;
	if (elffile_debug_bytes(*ret_elf, elffile_is_mapped(fd)) > DWARF_MAX_BYTES)
		return -EFBIG;
	*ret = dwarf_begin_elf(*ret_elf, DWARF_C_READ, NULL);
	return *ret && elffile_strings_end(*ret_elf) ? 0 : -ENOENT;
}

int variables_new(struct variables **ret, struct module *m, const struct debugfile *debug)
{
	CLEANUP(variables_freep) struct variables *v = calloc(1, sizeof(*v));
	int r = -ENOENT;

	if (!v)
		return -ENOMEM;
	v->module = m;
	/* libdw would look for a missing supplement by a path that the file chooses. */
	if (debug && debugfile_alt_missing(debug))
		return -ENOENT;
	if (debug)
		r = open_dwarf(debugfile_fd(debug), &v->elf, &v->dwarf);
	if (r == -ENOENT && !v->dwarf && module_fd(m) >= 0) {
		if (v->elf)
			elf_end(v->elf);
		v->elf = NULL;
		r = open_dwarf(module_fd(m), &v->elf, &v->dwarf);
	} else if (r == 0 && debugfile_alt_fd(debug) >= 0) {
		r = open_dwarf(debugfile_alt_fd(debug), &v->alt_elf, &v->alt);
		if (r == 0)
			dwarf_setalt(v->dwarf, v->alt);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(v);
	return 0;
}

struct variables *variables_free(struct variables *v)
{
	if (!v)
		return NULL;
	if (v->dwarf)
		dwarf_end(v->dwarf);
	if (v->alt)
		dwarf_end(v->alt);
	if (v->elf)
		elf_end(v->elf);
	if (v->alt_elf)
		elf_end(v->alt_elf);
	free(v);
	return NULL;
}

static bool spend(struct variables *v)
{
	if (v->budget == 0)
		return false;
	v->budget--;
	return true;
}

/* The type of a DIE without typedefs and qualifiers; false: void, or a lie. */
static bool type_of(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute attr;

	if (!dwarf_formref_die(dwarf_attr_integrate(die, DW_AT_type, &attr), ret))
		return false;
	for (unsigned int i = 0; i < PEEL_MAX; i++) {
		switch (dwarf_tag(ret)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
			if (!dwarf_formref_die(dwarf_attr_integrate(ret, DW_AT_type, &attr), ret))
				return false;
			break;
		default:
			return true;
		}
	}
	return false;
}

static uint32_t size_of(Dwarf_Die *type)
{
	int n = dwarf_bytesize(type);

	if (n < 0 &&
	    (dwarf_tag(type) == DW_TAG_pointer_type || dwarf_tag(type) == DW_TAG_reference_type ||
	     dwarf_tag(type) == DW_TAG_rvalue_reference_type))
		return 8;
	return n < 0 ? 0 : (uint32_t)n;
}

static uint64_t encoding_of(Dwarf_Die *type)
{
	Dwarf_Attribute attr;
	Dwarf_Word v;

	if (dwarf_tag(type) != DW_TAG_base_type ||
	    dwarf_formudata(dwarf_attr(type, DW_AT_encoding, &attr), &v) != 0)
		return 0;
	return v;
}

static bool is_character(Dwarf_Die *type)
{
	uint64_t e = encoding_of(type);

	return (e == DW_ATE_signed_char || e == DW_ATE_unsigned_char || e == DW_ATE_UTF) &&
	       size_of(type) == 1;
}

static uint64_t id_of(const struct variables *v, Dwarf_Die *die)
{
	uint64_t off = dwarf_dieoffset(die);

	return v->alt && dwarf_cu_getdwarf(die->cu) == v->alt ? off | ID_IN_ALT : off;
}

static bool die_of(struct variables *v, uint64_t id, Dwarf_Die *ret)
{
	Dwarf *d = id & ID_IN_ALT ? v->alt : v->dwarf;

	return id && d && dwarf_offdie(d, id & ~ID_IN_ALT, ret);
}

/* The element of a pointer or an array. */
static void classify_element(const struct variables *v, Dwarf_Die *type, bool in_place,
			     struct value_type *ret)
{
	Dwarf_Die element;
	Dwarf_Word total;

	ret->class = in_place ? VALUE_ARRAY : VALUE_POINTER;
	if (!type_of(type, &element))
		return;
	if (is_character(&element)) {
		ret->class = in_place ? VALUE_TEXT_ARRAY : VALUE_TEXT;
		ret->size = 1;
		if (in_place)
			ret->size = dwarf_aggregate_size(type, &total) == 0 && total < UINT32_MAX
					    ? (uint32_t)total
					    : 0;
		return;
	}
	ret->id = id_of(v, &element);
	ret->size = size_of(&element);
}

static void classify(const struct variables *v, Dwarf_Die *type, struct value_type *ret)
{
	uint64_t e = encoding_of(type);

	*ret = (struct value_type){.class = VALUE_OTHER, .size = size_of(type)};
	switch (dwarf_tag(type)) {
	case DW_TAG_base_type:
		if (e == DW_ATE_signed || e == DW_ATE_signed_char)
			ret->class = VALUE_SIGNED;
		else if (e == DW_ATE_unsigned || e == DW_ATE_unsigned_char || e == DW_ATE_boolean ||
			 e == DW_ATE_address || e == DW_ATE_UTF)
			ret->class = VALUE_UNSIGNED;
		break;
	case DW_TAG_enumeration_type:
		ret->class = VALUE_UNSIGNED;
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		classify_element(v, type, false, ret);
		break;
	case DW_TAG_array_type:
		classify_element(v, type, true, ret);
		break;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		ret->class = VALUE_STRUCT;
		ret->id = id_of(v, type);
		break;
	default:
		break;
	}
}

static bool holds_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_module;
}

/* The function whose first byte is at vaddr. Depth is bounded. */
static bool find_function(struct variables *v, Dwarf_Die *parent, uint64_t vaddr,
			  unsigned int depth, Dwarf_Die *ret)
{
	Dwarf_Die die;
	int r = dwarf_child(parent, &die);

	for (; r == 0 && spend(v); r = dwarf_siblingof(&die, &die)) {
		int tag = dwarf_tag(&die);
		Dwarf_Addr at;

		if (tag == DW_TAG_subprogram) {
			if (dwarf_entrypc(&die, &at) == 0 && at == vaddr) {
				*ret = die;
				return true;
			}
		} else if (depth < DEPTH_MAX && holds_functions(tag) &&
			   find_function(v, &die, vaddr, depth + 1, ret)) {
			return true;
		}
	}
	return false;
}

static bool find_unit(struct variables *v, uint64_t vaddr, Dwarf_Die *ret)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;

	if (dwarf_addrdie(v->dwarf, vaddr, ret))
		return true;
	while (spend(v) && dwarf_get_units(v->dwarf, cu, &cu, NULL, &type, ret, NULL) == 0)
		if (type == DW_UT_compile && dwarf_haspc(ret, vaddr) == 1)
			return true;
	return false;
}

static bool is_passed_by_reference(Dwarf_Die *type)
{
	Dwarf_Attribute attr;
	Dwarf_Word how;

	return dwarf_formudata(dwarf_attr(type, DW_AT_calling_convention, &attr), &how) == 0 &&
	       how == DW_CC_pass_by_reference;
}

/* How many integer registers a value of this type takes; 0: none. */
static unsigned int registers_of(const struct variables *v, Dwarf_Die *type)
{
	struct value_type t;

	classify(v, type, &t);
	switch (t.class) {
	case VALUE_STRUCT:
		if (is_passed_by_reference(type))
			return 1;
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
static unsigned int hidden_registers(const struct variables *v, Dwarf_Die *function)
{
	struct value_type t;
	Dwarf_Die type;

	if (!type_of(function, &type))
		return 0;
	classify(v, &type, &t);
	return t.class == VALUE_STRUCT && (t.size > 16 || is_passed_by_reference(&type)) ? 1 : 0;
}

/* The location that DWARF gives for the first instruction, when it is one of the simple forms. */
static bool location_at_entry(Dwarf_Die *parameter, uint64_t vaddr, struct variable *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr_integrate(parameter, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, vaddr, &ops, &n, 1) != 1 || n != 1)
		return false;
	if (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15) {
		ret->kind = VARIABLE_REGISTER;
		ret->reg = ops[0].atom - DW_OP_reg0;
		return true;
	}
	/* From the CFA on, there are the arguments that are passed in memory. */
	if (ops[0].atom == DW_OP_fbreg && (int64_t)ops[0].number >= 0) {
		ret->kind = VARIABLE_STACK;
		ret->reg = REG_RSP;
		ret->offset = 8 + (int64_t)ops[0].number;
		return true;
	}
	return false;
}

static int place_parameter(struct variables *v, Dwarf_Die *parameter, uint64_t vaddr,
			   unsigned int first_register, struct variable *ret, struct errmsg *why)
{
	struct variable var = {.kind = VARIABLE_REGISTER};
	const char *name = dwarf_diename(parameter);
	Dwarf_Die type;

	if (!type_of(parameter, &type))
		return errmsg_set(why, -ENOENT, "parameter '%.60s' has no type", name);
	classify(v, &type, &var.type);
	if (var.type.class == VALUE_STRUCT && is_passed_by_reference(&type)) {
		/* What is passed is its address. */
		var.type.class = VALUE_STRUCT;
	} else if (var.type.class == VALUE_STRUCT || var.type.class == VALUE_OTHER) {
		if (!location_at_entry(parameter, vaddr, &var) || var.kind != VARIABLE_STACK)
			return errmsg_set(why, -ENOTSUP,
					  "parameter '%.60s' is passed in a way that is not read",
					  name);
		*ret = var;
		return 0;
	}
	if (!location_at_entry(parameter, vaddr, &var)) {
		if (first_register >= INTEGER_REGISTERS)
			return errmsg_set(why, -ENOENT,
					  "parameter '%.60s' is not in a register at entry", name);
		var.reg = integer_registers[first_register];
	}
	*ret = var;
	return 0;
}

/* 0, 1: the function has no such parameter, or an error. */
static int find_parameter(struct variables *v, Dwarf_Die *function, uint64_t vaddr,
			  const char *name, struct variable *ret, struct errmsg *why)
{
	unsigned int reg = hidden_registers(v, function), n = 0;
	Dwarf_Die die, type;
	int r = dwarf_child(function, &die);

	for (; r == 0 && n < PARAMETERS_MAX && spend(v); r = dwarf_siblingof(&die, &die)) {
		const char *its;
		unsigned int takes;

		if (dwarf_tag(&die) != DW_TAG_formal_parameter)
			continue;
		n++;
		its = dwarf_diename(&die);
		if (its && strcmp(its, name) == 0)
			return place_parameter(v, &die, vaddr, reg, ret, why);
		takes = type_of(&die, &type) ? registers_of(v, &type) : 1;
		/* What does not fit into the rest goes into memory as a whole. */
		if (reg + takes <= INTEGER_REGISTERS)
			reg += takes;
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
static bool find_global(struct variables *v, Dwarf_Die *parent, const char *name,
			unsigned int depth, struct variable *ret)
{
	Dwarf_Die die, type;
	int r = dwarf_child(parent, &die);

	for (; r == 0 && spend(v); r = dwarf_siblingof(&die, &die)) {
		int tag = dwarf_tag(&die);
		const char *its;

		if (tag == DW_TAG_namespace && depth < DEPTH_MAX &&
		    find_global(v, &die, name, depth + 1, ret))
			return true;
		if (tag != DW_TAG_variable)
			continue;
		its = dwarf_diename(&die);
		if (!its || strcmp(its, name) != 0 || !type_of(&die, &type) ||
		    !global_address(v, &die, name, &ret->vaddr))
			continue;
		ret->kind = VARIABLE_GLOBAL;
		classify(v, &type, &ret->type);
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

	v->budget = WALK_MAX;
	if (!find_unit(v, vaddr, &unit))
		return errmsg_set(why, -ENOENT, "the DWARF does not know this function");
	if (find_function(v, &unit, vaddr, 0, &function))
		r = find_parameter(v, &function, vaddr, name, &var, why);
	if (r == 1 && find_global(v, &unit, name, 0, &var))
		r = 0;
	while (r == 1 && spend(v) &&
	       dwarf_get_units(v->dwarf, cu, &cu, NULL, &type, &unit, NULL) == 0)
		if (type == DW_UT_compile && find_global(v, &unit, name, 0, &var))
			r = 0;
	if (r == 1)
		return errmsg_set(why, -ENOENT, "no parameter or global variable '%.80s'", name);
	if (r == 0)
		*ret = var;
	return r;
}

static bool member_offset(Dwarf_Die *member, int64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word v;

	if (!dwarf_attr(member, DW_AT_data_member_location, &attr)) {
		*ret = 0; /* of a union */
		return !dwarf_hasattr(member, DW_AT_data_bit_offset) &&
		       !dwarf_hasattr(member, DW_AT_bit_size);
	}
	if (dwarf_hasattr(member, DW_AT_bit_size) || dwarf_formudata(&attr, &v) != 0)
		return false;
	*ret = (int64_t)v;
	return true;
}

static bool find_member(struct variables *v, Dwarf_Die *parent, const char *name,
			unsigned int depth, int64_t *ret_offset, Dwarf_Die *ret_type)
{
	Dwarf_Die die, type;
	int r = dwarf_child(parent, &die);

	for (; r == 0 && spend(v); r = dwarf_siblingof(&die, &die)) {
		int tag = dwarf_tag(&die);
		const char *its = dwarf_diename(&die);
		int64_t offset;

		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || !type_of(&die, &type) ||
		    !member_offset(&die, &offset))
			continue;
		if (tag == DW_TAG_member && its && strcmp(its, name) == 0) {
			*ret_offset = offset;
			*ret_type = type;
			return true;
		}
		/* Members of anonymous structures and of base classes. */
		if ((!its || tag == DW_TAG_inheritance) && depth < DEPTH_MAX &&
		    find_member(v, &type, name, depth + 1, ret_offset, ret_type)) {
			*ret_offset += offset;
			return true;
		}
	}
	return false;
}

/* The definition of a structure that is only declared in its unit. */
static bool find_definition(struct variables *v, Dwarf_Die *declared, Dwarf_Die *ret)
{
	const char *name = dwarf_diename(declared);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	uint8_t type;

	while (name && spend(v) &&
	       dwarf_get_units(v->dwarf, cu, &cu, NULL, &type, &unit, NULL) == 0) {
		int r = dwarf_child(&unit, ret);

		for (; r == 0 && spend(v); r = dwarf_siblingof(ret, ret)) {
			const char *its;

			if (dwarf_tag(ret) != dwarf_tag(declared) ||
			    dwarf_hasattr(ret, DW_AT_declaration))
				continue;
			its = dwarf_diename(ret);
			if (its && strcmp(its, name) == 0)
				return true;
		}
	}
	return false;
}

int variables_member(struct variables *v, struct value_type type, const char *name,
		     int64_t *ret_offset, struct value_type *ret, struct errmsg *why)
{
	Dwarf_Die declared, die, member;

	v->budget = WALK_MAX;
	if ((type.class != VALUE_STRUCT && type.class != VALUE_POINTER) ||
	    !die_of(v, type.id, &die))
		return errmsg_set(why, -ENOENT, "this is not a structure");
	declared = die;
	if (dwarf_hasattr(&declared, DW_AT_declaration) && !find_definition(v, &declared, &die))
		return errmsg_set(why, -ENOENT,
				  "the fields of this structure are not in the DWARF");
	if (!find_member(v, &die, name, 0, ret_offset, &member))
		return errmsg_set(why, -ENOENT, "'%.60s' has no field '%.60s' that can be read",
				  dwarf_diename(&die) ? dwarf_diename(&die) : "structure", name);
	classify(v, &member, ret);
	return 0;
}

int variables_element(struct variables *v, struct value_type type, struct value_type *ret)
{
	Dwarf_Die die;

	if (type.class == VALUE_TEXT || type.class == VALUE_TEXT_ARRAY) {
		*ret = (struct value_type){.class = VALUE_UNSIGNED, .size = 1};
		return 0;
	}
	if ((type.class != VALUE_POINTER && type.class != VALUE_ARRAY) || !die_of(v, type.id, &die))
		return -ENOENT;
	classify(v, &die, ret);
	return 0;
}
