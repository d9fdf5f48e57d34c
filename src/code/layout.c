/* SPDX-License-Identifier: Apache-2.0 */
#include "code/layout.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/arch.h"
#include "base/cleanup.h"

enum { NOTE_BYTES_MAX = 4096, PAGE_BYTES = 4096 };

static bool read_exact(const struct layout_source *src, uint64_t off, void *buf, size_t n)
{
	return src->read(src->ctx, off, buf, n) == n;
}

static int refuse(const struct layout_source *src, struct errmsg *e, const char *why)
{
	return errmsg_set(e, -ENOEXEC, "cannot use '%s': %s", src->name, why);
}

static int check_header(const struct layout_source *src, const Elf64_Ehdr *h, struct errmsg *e)
{
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(src, e, "it is not an ELF file");
	if (h->e_ident[EI_CLASS] == ELFCLASS32)
		return refuse(src, e, "it is a 32-bit program; only 64-bit x86-64 is supported");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
		return refuse(src, e, "its ELF class or byte order is not that of x86-64");
	if (h->e_machine != ARCH_ELF_MACHINE)
		return errmsg_set(e, -ENOEXEC,
				  "cannot use '%s': it is for another architecture, %s "
				  "(ELF machine %u); only " ARCH_NAME " is supported",
				  src->name, arch_machine_name(h->e_machine), h->e_machine);
	if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0 ||
	    h->e_phnum > LAYOUT_PHDRS_MAX)
		return refuse(src, e, "its program headers are malformed");
	return 0;
}

/* The GNU build ID in a note segment or section. */
static bool find_build_id(const uint8_t *notes, size_t n, struct layout *ret)
{
	size_t off = 0;

	while (n - off >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr h;
		size_t name_bytes, desc_bytes;
		const uint8_t *name;

		memcpy(&h, notes + off, sizeof(h));
		off += sizeof(h);
		if (h.n_namesz > NOTE_BYTES_MAX || h.n_descsz > NOTE_BYTES_MAX)
			return false;
		name_bytes = (h.n_namesz + 3) & ~3U;
		desc_bytes = (h.n_descsz + 3) & ~3U;
		name = notes + off;
		if (name_bytes > n - off || desc_bytes > n - off - name_bytes)
			return false;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(name, "GNU", 4) &&
		    h.n_descsz && h.n_descsz <= LAYOUT_BUILD_ID_MAX) {
			memcpy(ret->build_id, name + name_bytes, h.n_descsz);
			ret->build_id_bytes = h.n_descsz;
			return true;
		}
		off += name_bytes + desc_bytes;
	}
	return false;
}

static void take_note(const struct layout_source *src, const Elf64_Phdr *p, struct layout *ret)
{
	uint8_t notes[NOTE_BYTES_MAX];
	size_t want = p->p_filesz < sizeof(notes) ? p->p_filesz : sizeof(notes);

	if (!ret->build_id_bytes)
		find_build_id(notes, src->read(src->ctx, p->p_offset, notes, want), ret);
}

static bool take_load(const Elf64_Phdr *p, struct layout *ret)
{
	if (!p->p_filesz)
		return true;
	if (p->p_filesz > UINT64_MAX - p->p_vaddr || p->p_filesz > INT64_MAX ||
	    p->p_offset > INT64_MAX - p->p_filesz || ret->n_segments == LAYOUT_SEGMENTS_MAX)
		return false;
	ret->segments[ret->n_segments++] = (struct layout_segment){
		.vaddr = p->p_vaddr,
		.file_off = p->p_offset,
		.file_bytes = p->p_filesz,
		.executable = p->p_flags & PF_X,
	};
	return true;
}

int layout_read(const struct layout_source *src, struct layout *ret, struct errmsg *e)
{
	struct layout l = {};
	Elf64_Ehdr h;
	int r;

	if (!read_exact(src, 0, &h, sizeof(h)))
		return refuse(src, e, "it is too short for an ELF file");
	r = check_header(src, &h, e);
	if (r)
		return r;
	for (unsigned int i = 0; i < h.e_phnum; i++) {
		Elf64_Phdr p;

		if (h.e_phoff > INT64_MAX - LAYOUT_PHDRS_MAX * sizeof(p) ||
		    !read_exact(src, h.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return refuse(src, e, "its program headers are cut off");
		if (p.p_type == PT_LOAD && !take_load(&p, &l))
			return refuse(src, e, "its loaded segments are malformed");
		if (p.p_type == PT_NOTE)
			take_note(src, &p, &l);
		if (p.p_type == PT_GNU_EH_FRAME) {
			l.eh_hdr_addr = p.p_vaddr;
			l.eh_hdr_bytes = p.p_filesz;
		}
	}
	if (!l.n_segments)
		return refuse(src, e, "it has no loaded segments");
	*ret = l;
	return 0;
}

static bool read_section(const struct layout_source *src, const Elf64_Ehdr *h, uint64_t i,
			 Elf64_Shdr *ret)
{
	return h->e_shoff <= INT64_MAX - LAYOUT_SECTIONS_MAX * sizeof(*ret) &&
	       read_exact(src, h->e_shoff + i * sizeof(*ret), ret, sizeof(*ret));
}

static bool name_is(const struct layout_source *src, const Elf64_Shdr *names, uint32_t name_off,
		    const char *name)
{
	char have[32];
	size_t n = strlen(name) + 1;

	return n <= sizeof(have) && names->sh_offset <= INT64_MAX && name_off < names->sh_size &&
	       read_exact(src, names->sh_offset + name_off, have, n) && !memcmp(have, name, n);
}

bool layout_find_section(const struct layout_source *src, const char *name,
			 struct layout_section *ret)
{
	Elf64_Ehdr h;
	Elf64_Shdr names, s;

	if (!read_exact(src, 0, &h, sizeof(h)) || !h.e_shnum || h.e_shnum > LAYOUT_SECTIONS_MAX ||
	    h.e_shentsize != sizeof(s) || h.e_shstrndx >= h.e_shnum ||
	    !read_section(src, &h, h.e_shstrndx, &names))
		return false;
	for (unsigned int i = 1; i < h.e_shnum; i++) {
		if (!read_section(src, &h, i, &s))
			return false;
		if (s.sh_type == SHT_NOBITS || !name_is(src, &names, s.sh_name, name))
			continue;
		*ret = (struct layout_section){.addr = s.sh_addr,
					       .file_off = s.sh_offset,
					       .bytes = s.sh_size,
					       .compressed = s.sh_flags & SHF_COMPRESSED};
		return s.sh_offset <= INT64_MAX && s.sh_size <= INT64_MAX - s.sh_offset;
	}
	return false;
}

/* Executable segments first: at their edges a page of the file may be mapped twice. */
static bool find_vaddr(const struct layout *l, uint64_t file_off, uint64_t rounding,
		       uint64_t *ret_vaddr)
{
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < l->n_segments; i++) {
			const struct layout_segment *s = &l->segments[i];
			uint64_t low = s->file_off & ~(rounding - 1);

			if (s->executable != !pass || file_off < low ||
			    file_off >= s->file_off + s->file_bytes)
				continue;
			*ret_vaddr = s->vaddr + (file_off - s->file_off);
			return true;
		}
	}
	return false;
}

bool layout_vaddr_of_offset(const struct layout *l, uint64_t file_off, uint64_t *ret_vaddr)
{
	return find_vaddr(l, file_off, 1, ret_vaddr);
}

bool layout_vaddr_of_mapping(const struct layout *l, uint64_t file_off, uint64_t *ret_vaddr)
{
	return find_vaddr(l, file_off, PAGE_BYTES, ret_vaddr);
}

uint64_t layout_bytes_at(const struct layout *l, uint64_t vaddr, uint64_t *ret_file_off)
{
	for (size_t i = 0; i < l->n_segments; i++) {
		const struct layout_segment *s = &l->segments[i];

		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->file_bytes) {
			*ret_file_off = s->file_off + (vaddr - s->vaddr);
			return s->file_bytes - (vaddr - s->vaddr);
		}
	}
	return 0;
}

bool layout_offset_of_vaddr(const struct layout *l, uint64_t vaddr, uint64_t *ret_file_off)
{
	return layout_bytes_at(l, vaddr, ret_file_off) > 0;
}
