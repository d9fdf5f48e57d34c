/* SPDX-License-Identifier: Apache-2.0 */
#include "code/plt.h"

#include <stdio.h>
#include <string.h>

#include "base/arch.h"
#include "base/cleanup.h"
#include "code/elffile.h"
#include "code/symtab_priv.h"

enum { STUB_BYTES_MAX = 16 };

/* The section of stubs that holds vaddr; ret_at: where its stub begins. */
static bool find_stub(Elf *elf, uint64_t vaddr, uint64_t *ret_at, size_t *ret_bytes)
{
	static const char *const names[] = {".plt", ".plt.sec", ".plt.got"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		Elf64_Shdr sh;
		uint64_t size = STUB_BYTES_MAX;

		if (!elffile_section(elf, names[i], &sh) || vaddr < sh.sh_addr ||
		    vaddr - sh.sh_addr >= sh.sh_size)
			continue;
		if (sh.sh_entsize == 8)
			size = 8;
		*ret_at = vaddr - (vaddr - sh.sh_addr) % size;
		*ret_bytes = size;
		return true;
	}
	return false;
}

/* What a stub tells: the slot it jumps through, or (lazy half of an IBT pair) a relocation number. */
struct stub {
	bool has_slot;
	uint64_t slot;
	bool has_number;
	uint32_t number;
};

static bool decode_stub(const uint8_t *code, size_t n, uint64_t at, struct stub *ret)
{
	static const uint8_t endbr64[] = ARCH_LANDING_PAD;
	size_t i = n >= 4 && memcmp(code, endbr64, 4) == 0 ? 4 : 0;
	int32_t disp;

	memset(ret, 0, sizeof(*ret));
	if (i < n && code[i] == 0xf2) /* bnd */
		i++;
	if (i + 6 <= n && code[i] == 0xff && code[i + 1] == 0x25) { /* jmp *disp(%rip) */
		memcpy(&disp, code + i + 2, sizeof(disp));
		ret->slot = at + i + 6 + (uint64_t)(int64_t)disp;
		ret->has_slot = true;
	} else if (i + 5 <= n && code[i] == 0x68) { /* push number */
		memcpy(&ret->number, code + i + 1, sizeof(ret->number));
		ret->has_number = true;
	}
	return ret->has_slot || ret->has_number;
}

/* The symbol of the relocation that a stub leads to, in one section of relocations. */
static bool find_symbol(Elf *elf, const char *section, const struct stub *stub, Elf64_Shdr *ret_sh,
			uint32_t *ret_symbol)
{
	Elf_Scn *scn = elffile_section(elf, section, ret_sh);
	size_t bytes, n;
	const uint8_t *data = scn ? elffile_data(scn, &bytes) : NULL;
	Elf64_Rela rela;

	if (!data)
		return false;
	n = bytes / sizeof(rela);
	for (size_t i = stub->has_number ? stub->number : 0; i < n; i++) {
		memcpy(&rela, data + i * sizeof(rela), sizeof(rela));
		if (!stub->has_number && rela.r_offset != stub->slot)
			continue;
		*ret_symbol = (uint32_t)ELF64_R_SYM(rela.r_info);
		return *ret_symbol != 0;
	}
	return false;
}

static bool copy_name(Elf *elf, const Elf64_Shdr *rela, uint32_t symbol, char *buf, size_t n)
{
	Elf_Scn *scn = elf_getscn(elf, rela->sh_link);
	size_t bytes;
	const uint8_t *data = scn ? elffile_data(scn, &bytes) : NULL;
	Elf64_Shdr *sh = data ? elf64_getshdr(scn) : NULL;
	const char *name;
	Elf64_Sym sym;

	if (!sh || symbol >= bytes / sizeof(sym))
		return false;
	memcpy(&sym, data + (size_t)symbol * sizeof(sym), sizeof(sym));
	name = elf_strptr(elf, sh->sh_link, sym.st_name);
	if (!name || !name[0])
		return false;
	snprintf(buf, n, "%s", name);
	return true;
}

bool plt_find(const struct symtab *st, struct module *m, uint64_t vaddr, char *buf, size_t n)
{
	Elf *elf = symtab_elf(st);
	uint8_t code[STUB_BYTES_MAX];
	struct stub stub;
	Elf64_Shdr sh;
	uint32_t symbol;
	uint64_t at;
	size_t bytes;

	if (!elf || !find_stub(elf, vaddr, &at, &bytes))
		return false;
	bytes = module_read_code(m, at, code, bytes);
	if (!decode_stub(code, bytes, at, &stub))
		return false;
	if (!find_symbol(elf, ".rela.plt", &stub, &sh, &symbol) &&
	    (stub.has_number || !find_symbol(elf, ".rela.dyn", &stub, &sh, &symbol)))
		return false;
	return copy_name(elf, &sh, symbol, buf, n);
}
