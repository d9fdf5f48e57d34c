/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/variable.h"
#include "code/variable_priv.h"

enum { PEEL_MAX = 32 };

/* An id whose type is in the dwz supplement. */
#define ID_IN_ALT (1ULL << 63)

void variables_begin(struct variables *v)
{
	v->budget = (struct dies_budget){.left = VARIABLES_STEPS_MAX};
}

bool variables_spend(struct variables *v)
{
	return dies_spend(&v->budget, 1);
}

/* The type of a DIE without typedefs and qualifiers; false: void, or a lie. */
bool variable_type_of(Dwarf_Die *die, Dwarf_Die *ret)
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

uint32_t variable_size_of(Dwarf_Die *type)
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
	       variable_size_of(type) == 1;
}

static uint64_t id_of(const struct variables *v, Dwarf_Die *die)
{
	uint64_t off = dwarf_dieoffset(die);

	return v->file.alt && dwarf_cu_getdwarf(die->cu) == v->file.alt ? off | ID_IN_ALT : off;
}

static bool die_of(struct variables *v, uint64_t id, Dwarf_Die *ret)
{
	Dwarf *d = id & ID_IN_ALT ? v->file.alt : v->file.dwarf;

	return id && d && dwarf_offdie(d, id & ~ID_IN_ALT, ret);
}

/* How many elements an array has, in all dimensions; 0: unknown, or too many. */
static uint32_t elements_of(struct variables *v, Dwarf_Die *type)
{
	uint64_t n = 1;
	unsigned int dimensions = 0;
	struct dies w;

	dies_begin(&w, type, &v->budget, 0);
	while (n && dies_next(&w)) {
		Dwarf_Attribute attr;
		Dwarf_Word count = 0, lower = 0;

		dies_skip(&w);
		if (dwarf_tag(&w.die) != DW_TAG_subrange_type)
			continue;
		dimensions++;
		if (dwarf_formudata(dwarf_attr(&w.die, DW_AT_count, &attr), &count) != 0) {
			dwarf_formudata(dwarf_attr(&w.die, DW_AT_lower_bound, &attr), &lower);
			count = dwarf_formudata(dwarf_attr(&w.die, DW_AT_upper_bound, &attr),
						&count) == 0 &&
						count >= lower && count - lower < UINT32_MAX
					? count - lower + 1
					: 0;
		}
		n = count > UINT32_MAX / n ? 0 : n * count;
	}
	return dimensions ? (uint32_t)n : 0;
}

/* The element of a pointer or an array. */
static void classify_element(struct variables *v, Dwarf_Die *type, bool in_place,
			     struct value_type *ret)
{
	Dwarf_Die element;

	ret->class = in_place ? VALUE_ARRAY : VALUE_POINTER;
	if (!variable_type_of(type, &element))
		return;
	if (is_character(&element)) {
		ret->class = in_place ? VALUE_TEXT_ARRAY : VALUE_TEXT;
		ret->size = in_place ? elements_of(v, type) : 1;
		return;
	}
	ret->id = id_of(v, &element);
	ret->size = variable_size_of(&element);
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
	Dwarf_Die type;
	struct dies w;

	dies_begin(&w, parent, &v->budget, 0);
	while (dies_next(&w)) {
		int tag = dwarf_tag(&w.die);
		const char *its = dwarf_diename(&w.die);
		int64_t offset;

		dies_skip(&w);
		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
		    !variable_type_of(&w.die, &type) || !member_offset(&w.die, &offset))
			continue;
		if (tag == DW_TAG_member && its && strcmp(its, name) == 0) {
			*ret_offset = offset;
			*ret_type = type;
			return true;
		}
		/* Members of anonymous structures and of base classes. */
		if ((!its || tag == DW_TAG_inheritance) && depth < VARIABLES_DEPTH_MAX &&
		    find_member(v, &type, name, depth + 1, ret_offset, ret_type)) {
			*ret_offset += offset;
			return true;
		}
	}
	return false;
}

/* The offset of a field by its path of names; false: there is none. */
static bool field_offset(struct variables *v, Dwarf_Die type, const char *const *path,
			 uint16_t *ret)
{
	int64_t sum = 0, offset;
	Dwarf_Die field;

	for (; *path; path++) {
		if (!find_member(v, &type, *path, 0, &offset, &field))
			return false;
		sum += offset;
		type = field;
	}
	*ret = (uint16_t)sum;
	return sum >= 0 && sum <= UINT16_MAX - 8;
}

/* The DIE around this one. */
static bool find_scope(struct variables *v, Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Die parents[VARIABLES_DEPTH_MAX + 1];
	struct dies w;

	if (!dwarf_diecu(die, &parents[0], NULL, NULL))
		return false;
	dies_begin(&w, &parents[0], &v->budget, 0);
	while (dies_next(&w) && w.die.addr <= die->addr) {
		if (w.die.addr == die->addr) {
			*ret = parents[w.depth - 1];
			return true;
		}
		parents[w.depth] = w.die;
		if (w.depth == VARIABLES_DEPTH_MAX || dwarf_tag(&w.die) != DW_TAG_namespace)
			dies_skip(&w);
	}
	return false;
}

/* Clang leaves out the fields of classes that the library has instances of. */
static bool is_libstdcxx_string(struct variables *v, Dwarf_Die *type, const char *name)
{
	const char *space;
	Dwarf_Die scope;

	if (strncmp(name, "basic_string<char,", 18) || !find_scope(v, type, &scope))
		return false;
	space = dwarf_diename(&scope);
	return space && strcmp(space, "__cxx11") == 0;
}

/* The strings of Rust, and of libstdc++: where their text and its length are. */
static void classify_text(struct variables *v, Dwarf_Die *type, struct value_type *ret)
{
	static const struct {
		const char *name; /* of the type, or how it begins when it ends in < */
		const char *text[6], *length[6];
	} kinds[] = {
		{"&str", {"data_ptr"}, {"length"}},
		{"&mut str", {"data_ptr"}, {"length"}},
		{"String", {"vec", "buf", "inner", "ptr"}, {"vec", "len"}},
		{"String", {"vec", "buf", "ptr"}, {"vec", "len"}},
		{"basic_string<", {"_M_dataplus"}, {"_M_string_length"}},
		{"basic_string_view<", {"_M_str"}, {"_M_len"}},
	};
	const char *name = dwarf_diename(type);

	if (name && dwarf_hasattr(type, DW_AT_declaration) && is_libstdcxx_string(v, type, name)) {
		ret->is_text = true;
		ret->length_off = 8;
	}
	for (size_t i = 0; name && i < ARRAY_SIZE(kinds) && !ret->is_text; i++) {
		size_t n = strlen(kinds[i].name);
		bool open = kinds[i].name[n - 1] == '<';

		if (open ? strncmp(name, kinds[i].name, n) || strncmp(name + n, "char,", 5)
			 : strcmp(name, kinds[i].name))
			continue;
		ret->is_text = field_offset(v, *type, kinds[i].text, &ret->text_off) &&
			       field_offset(v, *type, kinds[i].length, &ret->length_off);
	}
}

void variable_classify(struct variables *v, Dwarf_Die *type, struct value_type *ret)
{
	uint64_t e = encoding_of(type);

	*ret = (struct value_type){.class = VALUE_OTHER, .size = variable_size_of(type)};
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
		ret->is_reference = dwarf_tag(type) != DW_TAG_pointer_type;
		break;
	case DW_TAG_array_type:
		classify_element(v, type, true, ret);
		break;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		ret->class = VALUE_STRUCT;
		ret->id = id_of(v, type);
		classify_text(v, type, ret);
		break;
	default:
		break;
	}
}

/* The definition of a structure that is only declared in its unit. */
static bool find_definition(struct variables *v, Dwarf_Die *declared, Dwarf_Die *ret)
{
	const char *name = dwarf_diename(declared);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	uint8_t type;

	while (name && variables_spend(v) &&
	       dwarf_get_units(v->file.dwarf, cu, &cu, NULL, &type, &unit, NULL) == 0) {
		struct dies w;

		dies_begin(&w, &unit, &v->budget, 0);
		while (dies_next(&w)) {
			const char *its;

			dies_skip(&w);
			if (dwarf_tag(&w.die) != dwarf_tag(declared) ||
			    dwarf_hasattr(&w.die, DW_AT_declaration))
				continue;
			its = dwarf_diename(&w.die);
			*ret = w.die;
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

	variables_begin(v);
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
	variable_classify(v, &member, ret);
	return 0;
}

int variables_element(struct variables *v, struct value_type type, struct value_type *ret)
{
	Dwarf_Die die;

	if (type.class == VALUE_TEXT || type.class == VALUE_TEXT_ARRAY) {
		*ret = (struct value_type){.class = VALUE_UNSIGNED, .size = 1};
		return 0;
	}
	variables_begin(v);
	if ((type.class != VALUE_POINTER && type.class != VALUE_ARRAY) || !die_of(v, type.id, &die))
		return -ENOENT;
	variable_classify(v, &die, ret);
	return 0;
}
