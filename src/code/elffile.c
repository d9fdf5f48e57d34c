/* SPDX-License-Identifier: Apache-2.0 */
#include "code/elffile.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arch.h"

enum {
	RATIO_MAX = 64, /* DWARF packs to a third or a tenth; this is something else */
	SECTIONS_MAX = 65535,
};

bool elffile_is_mapped(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static int begin(int fd, Elf_Cmd how, Elf **ret)
{
	const char *ident;
	Elf64_Ehdr *eh;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, how, NULL);
	if (!elf)
		return -ENOEXEC;
	ident = elf_getident(elf, NULL);
	eh = elf64_getehdr(elf);
	if (elf_kind(elf) != ELF_K_ELF || !ident || ident[EI_CLASS] != ELFCLASS64 ||
	    ident[EI_DATA] != ELFDATA2LSB || !eh || eh->e_machine != ARCH_ELF_MACHINE) {
		elf_end(elf);
		return -ENOEXEC;
	}
	*ret = elf;
	return 0;
}

int elffile_begin(int fd, Elf **ret)
{
	return begin(fd, elffile_is_mapped(fd) ? ELF_C_READ_MMAP : ELF_C_READ, ret);
}

void elffile_release(Elf *elf, int fd)
{
	size_t bytes;
	char *base = elffile_is_mapped(fd) ? elf_rawfile(elf, &bytes) : NULL;

	if (base && (uintptr_t)base % 4096 == 0)
		madvise(base, bytes, MADV_DONTNEED);
}

/* Calls for each section; the name is NULL when the header lies. */
static Elf_Scn *next_section(Elf *elf, Elf_Scn *scn, Elf64_Shdr **ret, const char **ret_name)
{
	size_t names;

	scn = elf_nextscn(elf, scn);
	if (!scn)
		return NULL;
	*ret = elf64_getshdr(scn);
	*ret_name = *ret && elf_getshdrstrndx(elf, &names) == 0
			    ? elf_strptr(elf, names, (*ret)->sh_name)
			    : NULL;
	return scn;
}

static bool has_packed_dwarf(Elf *elf)
{
	Elf_Scn *scn = NULL;
	const char *name;
	Elf64_Shdr *sh;

	while ((scn = next_section(elf, scn, &sh, &name)))
		if (name && strncmp(name, ".debug", 6) == 0 && (sh->sh_flags & SHF_COMPRESSED))
			return true;
	return false;
}

/* The headers of a file that is not mapped are libelf's copy; libdw skips sections without data. */
static void hide_unneeded(Elf *elf)
{
	static const char *const names[] = {".debug_loc", ".debug_loclists", ".debug_macro",
					    ".debug_macinfo", ".debug_frame"};
	Elf_Scn *scn = NULL;
	const char *name;
	Elf64_Shdr *sh;

	while ((scn = next_section(elf, scn, &sh, &name)))
		for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
			if (strcmp(name, names[i]) == 0)
				sh->sh_type = SHT_NOBITS;
}

int elffile_begin_dwarf(int fd, Elf **ret)
{
	Elf *elf;
	int r = elffile_begin(fd, &elf);

	if (r || !elffile_is_mapped(fd)) {
		if (!r)
			hide_unneeded(*ret = elf);
		return r;
	}
	if (!has_packed_dwarf(elf)) {
		*ret = elf;
		return 0;
	}
	elf_end(elf);
	r = begin(fd, ELF_C_READ, ret);
	if (!r)
		hide_unneeded(*ret);
	return r;
}

Elf_Scn *elffile_section(Elf *elf, const char *name, Elf64_Shdr *ret)
{
	Elf_Scn *scn = NULL;
	size_t names, seen = 0;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((scn = elf_nextscn(elf, scn)) && seen++ < SECTIONS_MAX) {
		Elf64_Shdr *sh = elf64_getshdr(scn);
		const char *s = sh ? elf_strptr(elf, names, sh->sh_name) : NULL;

		if (s && strcmp(s, name) == 0) {
			*ret = *sh;
			return scn;
		}
	}
	return NULL;
}

Elf_Scn *elffile_section_of_type(Elf *elf, uint32_t type, Elf64_Shdr *ret)
{
	Elf_Scn *scn = NULL;
	size_t seen = 0;

	while ((scn = elf_nextscn(elf, scn)) && seen++ < SECTIONS_MAX) {
		Elf64_Shdr *sh = elf64_getshdr(scn);

		if (sh && sh->sh_type == type) {
			*ret = *sh;
			return scn;
		}
	}
	return NULL;
}

const void *elffile_data(Elf_Scn *scn, size_t *ret_bytes)
{
	Elf64_Shdr *sh = elf64_getshdr(scn);
	Elf_Data *d;

	*ret_bytes = 0;
	if (!sh || sh->sh_type == SHT_NOBITS)
		return NULL;
	d = elf_getdata(scn, NULL);
	if (!d || !d->d_buf || d->d_size == 0)
		return NULL;
	*ret_bytes = d->d_size;
	return d->d_buf;
}

/* Walks the notes of one section. */
static size_t find_build_id(const uint8_t *p, size_t n, uint8_t *ret, size_t max)
{
	while (n >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr nh;
		size_t name, desc;

		memcpy(&nh, p, sizeof(nh));
		p += sizeof(nh);
		n -= sizeof(nh);
		name = ((size_t)nh.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)nh.n_descsz + 3) & ~(size_t)3;
		if (name > n || nh.n_descsz > n - name)
			return 0;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 && memcmp(p, "GNU", 4) == 0) {
			if (nh.n_descsz > max)
				return 0;
			memcpy(ret, p + name, nh.n_descsz);
			return nh.n_descsz;
		}
		if (desc > n - name)
			return 0;
		p += name + desc;
		n -= name + desc;
	}
	return 0;
}

size_t elffile_build_id(Elf *elf, uint8_t *ret, size_t max)
{
	Elf_Scn *scn = NULL;
	size_t seen = 0;

	while ((scn = elf_nextscn(elf, scn)) && seen++ < SECTIONS_MAX) {
		Elf64_Shdr *sh = elf64_getshdr(scn);
		const void *data;
		size_t bytes, n;

		if (!sh || sh->sh_type != SHT_NOTE || !(data = elffile_data(scn, &bytes)))
			continue;
		n = find_build_id(data, bytes, ret, max);
		if (n)
			return n;
	}
	return 0;
}

/* Size once unpacked; UINT64_MAX when the compression header lies. */
static uint64_t unpacked_bytes(const Elf64_Chdr *ch, const Elf64_Shdr *sh)
{
	return ch->ch_size / RATIO_MAX > sh->sh_size ? UINT64_MAX : ch->ch_size;
}

/* By the file: libelf would read all of the section. */
static uint64_t unpacked_bytes_on_disk(int fd, const Elf64_Shdr *sh)
{
	Elf64_Chdr ch;

	if (sh->sh_size < sizeof(ch) || sh->sh_offset > INT64_MAX ||
	    pread(fd, &ch, sizeof(ch), (off_t)sh->sh_offset) != sizeof(ch))
		return UINT64_MAX;
	return unpacked_bytes(&ch, sh);
}

/* By what libelf has read by then, and unpacks: whatever becomes of the file. */
static uint64_t unpacked_bytes_in_memory(Elf_Scn *scn, const Elf64_Shdr *sh)
{
	Elf64_Chdr *ch = elf64_getchdr(scn);

	return ch ? unpacked_bytes(ch, sh) : UINT64_MAX;
}

/* fd -1: of what is compressed by what libelf reads of it. */
static uint64_t sum_debug_bytes(Elf *elf, int fd, bool mapped)
{
	Elf_Scn *scn = NULL;
	size_t names, seen = 0;
	uint64_t sum = 0;

	if (elf_getshdrstrndx(elf, &names))
		return UINT64_MAX;
	while ((scn = elf_nextscn(elf, scn)) && seen++ < SECTIONS_MAX) {
		Elf64_Shdr *sh = elf64_getshdr(scn);
		const char *name = sh ? elf_strptr(elf, names, sh->sh_name) : NULL;
		uint64_t bytes;

		if (!name)
			continue;
		/* The old form of compression has no header that can be checked here. */
		if (strncmp(name, ".zdebug", 7) == 0)
			return UINT64_MAX;
		if (sh->sh_type == SHT_NOBITS || strncmp(name, ".debug", 6) != 0)
			continue;
		bytes = mapped ? 0 : sh->sh_size;
		if (sh->sh_flags & SHF_COMPRESSED)
			bytes = fd < 0 ? unpacked_bytes_in_memory(scn, sh)
				       : unpacked_bytes_on_disk(fd, sh);
		if (bytes > UINT64_MAX - sum)
			return UINT64_MAX;
		sum += bytes;
	}
	return sum;
}

uint64_t elffile_debug_bytes(Elf *elf, int fd, uint64_t max_bytes)
{
	bool mapped = elffile_is_mapped(fd);
	uint64_t bytes = sum_debug_bytes(elf, fd, mapped);

	return bytes > max_bytes ? bytes : sum_debug_bytes(elf, -1, mapped);
}

bool elffile_strings_end(Elf *elf)
{
	static const char *const names[] = {".debug_str", ".debug_line_str"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		Elf64_Shdr sh;
		Elf_Scn *scn = elffile_section(elf, names[i], &sh);
		size_t bytes;
		const char *data = scn ? elffile_data(scn, &bytes) : NULL;

		if (data && data[bytes - 1] != '\0')
			return false;
	}
	return true;
}

bool elffile_has_dwarf(Elf *elf)
{
	Elf64_Shdr sh;

	return elffile_section(elf, ".debug_info", &sh) && sh.sh_type != SHT_NOBITS;
}
