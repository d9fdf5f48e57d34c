/* SPDX-License-Identifier: Apache-2.0 */
#include "code/section.h"

#include <errno.h>
#include <gelf.h>
#include <string.h>

#include "base/arch.h"
#include "base/cleanup.h"
#include "code/elffile.h"

enum { SYMBOLS_MAX = 4 << 20 }; /* symbols or relocations looked at in one section */

struct find {
	const char *name;
	struct section *ret;
	bool found;
};

static bool match_section(void *ctx, const char *name, const struct section *s)
{
	struct find *f = ctx;

	if (strcmp(name, f->name) != 0)
		return true;
	*f->ret = *s;
	f->found = true;
	return false;
}

bool section_find(struct module *m, const char *name, struct section *ret)
{
	struct find f = {.name = name, .ret = ret};

	section_each(m, match_section, &f);
	return f.found;
}

void section_each(struct module *m, section_fn fn, void *ctx)
{
	Elf *elf = (Elf *)module_elf(m);
	Elf_Scn *scn = NULL;
	size_t strings;

	if (!elf || elf_getshdrstrndx(elf, &strings) != 0)
		return;
	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		GElf_Shdr h;
		const char *name;
		struct section s;

		if (!gelf_getshdr(scn, &h))
			continue;
		name = elf_strptr(elf, strings, h.sh_name);
		s = (struct section){.vaddr = h.sh_addr,
				     .file_off = h.sh_offset,
				     .bytes = h.sh_size,
				     .has_data = h.sh_type != SHT_NOBITS,
				     .executable = (h.sh_flags & SHF_EXECINSTR) != 0};
		if (name && !fn(ctx, name, &s))
			return;
	}
}

int read_section(struct module *m, const char *name, size_t max_bytes, uint8_t **ret,
		 size_t *ret_bytes)
{
	AUTO_FREE uint8_t *data = NULL;
	struct section s;

	if (!section_find(m, name, &s) || !s.has_data)
		return -ENOENT;
	if (s.bytes > max_bytes)
		return -EFBIG;
	data = malloc(s.bytes + 1);
	if (!data)
		return -ENOMEM;
	if (module_read(m, s.file_off, data, s.bytes) != s.bytes)
		return -EIO;
	data[s.bytes] = 0;
	*ret_bytes = s.bytes;
	*ret = TAKE_PTR(data);
	return 0;
}

/*
 * A handle of its own, for walks over whole symbol tables and relocations: what libelf reads or maps
 * for them goes with it, while the module's handle stays small.
 */
static Elf *open_walk(struct module *m)
{
	Elf *elf = NULL;

	if (module_fd(m) < 0)
		return module_elf(m);
	return elffile_begin(module_fd(m), &elf) ? NULL : elf;
}

static void close_walk(struct module *m, Elf *elf)
{
	if (module_fd(m) >= 0)
		elf_end(elf);
}

/* Compares up to the version: "read@GLIBC_2.2.5" is "read". */
static bool same_symbol(const char *a, const char *b)
{
	size_t n = strcspn(a, "@");

	return n == strcspn(b, "@") && memcmp(a, b, n) == 0;
}

/* Name of symbol idx in a symbol table section; NULL when the file lies. */
static const char *symbol_name(Elf *elf, Elf_Scn *symbols, size_t idx, GElf_Sym *ret)
{
	Elf_Data *data = symbols ? elf_getdata(symbols, NULL) : NULL;
	GElf_Shdr h;

	if (!data || !gelf_getshdr(symbols, &h) || idx > INT32_MAX ||
	    !gelf_getsym(data, (int)idx, ret))
		return NULL;
	return elf_strptr(elf, h.sh_link, ret->st_name);
}

static int slots_in(Elf *elf, Elf_Scn *scn, const GElf_Shdr *h, const char *symbol,
		    struct section_slots *ret)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = h->sh_entsize ? h->sh_size / h->sh_entsize : 0;
	Elf_Scn *symbols = elf_getscn(elf, h->sh_link);
	int r = 0;

	for (size_t i = 0; data && r == 0 && i < n && i < SYMBOLS_MAX; i++) {
		GElf_Rela rela;
		GElf_Sym sym;
		const char *name;

		if (!gelf_getrela(data, (int)i, &rela))
			break;
		if (GELF_R_TYPE(rela.r_info) != ARCH_R_JUMP_SLOT &&
		    GELF_R_TYPE(rela.r_info) != ARCH_R_GLOB_DAT)
			continue;
		name = symbol_name(elf, symbols, GELF_R_SYM(rela.r_info), &sym);
		if (name && same_symbol(name, symbol))
			r = vec_push(ret, rela.r_offset);
	}
	return r;
}

int section_got_slots(struct module *m, const char *symbol, struct section_slots *ret)
{
	Elf *elf = open_walk(m);
	Elf_Scn *scn = NULL;
	int r = 0;

	while (elf && r == 0 && (scn = elf_nextscn(elf, scn)) != NULL) {
		GElf_Shdr h;

		if (gelf_getshdr(scn, &h) && h.sh_type == SHT_RELA && (h.sh_flags & SHF_ALLOC))
			r = slots_in(elf, scn, &h, symbol, ret);
	}
	close_walk(m, elf);
	return r;
}

/* Looks through the symbol tables of a type for a name; false when no table has it. */
static bool find_symbol(Elf *elf, GElf_Word type, const char *symbol, GElf_Sym *ret)
{
	Elf_Scn *scn = NULL;

	while (elf && (scn = elf_nextscn(elf, scn)) != NULL) {
		GElf_Shdr h;
		size_t n;

		if (!gelf_getshdr(scn, &h) || h.sh_type != type || h.sh_entsize == 0)
			continue;
		n = h.sh_size / h.sh_entsize;
		for (size_t i = 1; i < n && i < SYMBOLS_MAX; i++) {
			const char *name = symbol_name(elf, scn, i, ret);

			if (name && same_symbol(name, symbol))
				return true;
		}
	}
	return false;
}

bool section_has_dynamic_symbol(struct module *m, const char *symbol)
{
	Elf *elf = open_walk(m);
	GElf_Sym sym;
	bool found = find_symbol(elf, SHT_DYNSYM, symbol, &sym);

	close_walk(m, elf);
	return found;
}

bool section_find_object(struct module *m, const char *symbol, uint64_t *ret_vaddr)
{
	Elf *elf = open_walk(m);
	GElf_Sym sym;
	bool found = find_symbol(elf, SHT_DYNSYM, symbol, &sym) && sym.st_shndx != SHN_UNDEF;

	if (!found)
		found = find_symbol(elf, SHT_SYMTAB, symbol, &sym) && sym.st_shndx != SHN_UNDEF;
	close_walk(m, elf);
	if (!found || GELF_ST_TYPE(sym.st_info) == STT_TLS)
		return false;
	*ret_vaddr = sym.st_value;
	return true;
}
