/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c: a small ELF file made by hand, and each way in which it can lie. */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "code/layout.h"
#include "tests/unit/unit.h"

enum { N_PHDRS = 5, NOTE_OFF = 0x400, SHDR_OFF = 0x600, NAMES_OFF = 0x800 };

/* Program headers follow the header; a note, three sections and their names at the offsets above. */
struct file {
	union {
		uint8_t bytes[0x1000];
		struct {
			Elf64_Ehdr h;
			Elf64_Phdr p[LAYOUT_SEGMENTS_MAX + 1];
		};
	};
	size_t n; /* where it ends */
};

static size_t read_bytes(void *ctx, uint64_t off, void *buf, size_t n)
{
	const struct file *f = ctx;

	if (off >= f->n)
		return 0;
	n = n < f->n - off ? n : f->n - off;
	memcpy(buf, f->bytes + off, n);
	return n;
}

static struct layout_source source(struct file *f)
{
	return (struct layout_source){.read = read_bytes, .ctx = f, .name = "/a file"};
}

static void put_note(struct file *f, size_t off, uint32_t type, const char *name, const char *desc)
{
	Elf64_Nhdr h = {.n_namesz = 4, .n_descsz = (uint32_t)strlen(desc), .n_type = type};

	memcpy(f->bytes + off, &h, sizeof(h));
	memcpy(f->bytes + off + sizeof(h), name, 4);
	memcpy(f->bytes + off + sizeof(h) + 4, desc, strlen(desc));
}

static void put_sections(struct file *f)
{
	static const char names[] = "\0.names\0.data\0.bss";
	Elf64_Shdr s[4] = {
		{},
		{.sh_name = 1,
		 .sh_type = SHT_STRTAB,
		 .sh_offset = NAMES_OFF,
		 .sh_size = sizeof(names)},
		{.sh_name = 8,
		 .sh_type = SHT_PROGBITS,
		 .sh_addr = 0x403000,
		 .sh_offset = 0x900,
		 .sh_size = 0x20,
		 .sh_flags = SHF_COMPRESSED},
		{.sh_name = 14, .sh_type = SHT_NOBITS, .sh_addr = 0x404000, .sh_size = 0x10},
	};

	memcpy(f->bytes + SHDR_OFF, s, sizeof(s));
	memcpy(f->bytes + NAMES_OFF, names, sizeof(names));
	f->h.e_shoff = SHDR_OFF;
	f->h.e_shnum = 4;
	f->h.e_shentsize = sizeof(s[0]);
	f->h.e_shstrndx = 1;
}

/* Code and data share the page of the file from 0x1000 on, as linkers lay them out. */
static struct file new_file(void)
{
	struct file f = {.n = sizeof(f.bytes)};

	f.h = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_machine = EM_X86_64,
			   .e_phoff = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = N_PHDRS};
	f.p[0] = (Elf64_Phdr){.p_type = PT_LOAD,
			      .p_flags = PF_R,
			      .p_vaddr = 0x402f00,
			      .p_offset = 0x1f00,
			      .p_filesz = 0x800};
	f.p[1] = (Elf64_Phdr){.p_type = PT_LOAD,
			      .p_flags = PF_R | PF_X,
			      .p_vaddr = 0x401000,
			      .p_offset = 0x1000,
			      .p_filesz = 0xf00};
	f.p[2] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x500000, .p_memsz = 0x1000};
	f.p[3] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = NOTE_OFF, .p_filesz = 64};
	f.p[4] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME, .p_vaddr = 0x402f10, .p_filesz = 0x30};
	put_note(&f, NOTE_OFF, NT_GNU_ABI_TAG, "GNU", "abcd");
	put_note(&f, NOTE_OFF + 20, NT_GNU_BUILD_ID, "GNU", "0123456789");
	put_sections(&f);
	return f;
}

static struct layout good(struct file *f)
{
	struct layout_source src = source(f);
	struct layout l = {};
	struct errmsg e = {""};
	int r = layout_read(&src, &l, &e);

	if (r)
		print_error("%s\n", e.text);
	assert_int_equal(r, 0);
	return l;
}

static void refused(struct file *f, const char *why)
{
	struct layout_source src = source(f);
	struct layout l = {.n_segments = 77};
	struct errmsg e = {""};

	assert_int_equal(layout_read(&src, &l, &e), -ENOEXEC);
	assert_int_equal(l.n_segments, 77);
	assert_non_null(strstr(e.text, "cannot use '/a file': "));
	if (!strstr(e.text, why))
		fail_msg("%s", e.text);
}

static void what_is_there(void **state)
{
	struct file f = new_file();
	struct layout l = good(&f);

	assert_int_equal(l.n_segments, 2); /* without the one that has no bytes in the file */
	assert_false(l.segments[0].executable);
	assert_true(l.segments[1].executable);
	assert_int_equal(l.segments[1].vaddr, 0x401000);
	assert_int_equal(l.eh_hdr_addr, 0x402f10);
	assert_int_equal(l.eh_hdr_bytes, 0x30);
	assert_int_equal(l.build_id_bytes, 10);
	assert_memory_equal(l.build_id, "0123456789", 10);
}

static void addresses_and_offsets(void **state)
{
	struct file f = new_file();
	struct layout l = good(&f);
	uint64_t v = 0;

	assert_true(layout_vaddr_of_offset(&l, 0x1000, &v));
	assert_int_equal(v, 0x401000);
	assert_true(layout_vaddr_of_offset(&l, 0x1eff, &v));
	assert_int_equal(v, 0x401eff);
	assert_true(layout_vaddr_of_offset(&l, 0x1f00, &v));
	assert_int_equal(v, 0x402f00);
	assert_false(layout_vaddr_of_offset(&l, 0xfff, &v));
	assert_false(layout_vaddr_of_offset(&l, 0x2700, &v));
	/* The page at 0x1000 is mapped twice: code comes first. That at 0x2000 is the other's only. */
	assert_true(layout_vaddr_of_mapping(&l, 0x1000, &v));
	assert_int_equal(v, 0x401000);
	assert_true(layout_vaddr_of_mapping(&l, 0x2000, &v));
	assert_int_equal(v, 0x403000);
	assert_true(layout_offset_of_vaddr(&l, 0x401010, &v));
	assert_int_equal(v, 0x1010);
	assert_int_equal(layout_bytes_at(&l, 0x402fff, &v), 0x701);
	assert_int_equal(v, 0x1fff);
	assert_int_equal(layout_bytes_at(&l, 0x401f00, &v), 0);
	assert_int_equal(layout_bytes_at(&l, 0x400fff, &v), 0);
	assert_false(layout_offset_of_vaddr(&l, 0x403700, &v));
	assert_false(layout_offset_of_vaddr(&l, UINT64_MAX, &v));
}

static void other_kinds_of_files_are_refused(void **state)
{
	struct file f = new_file();

	f.h.e_ident[1] = 'e';
	refused(&f, "it is not an ELF file");
	f = new_file();
	f.h.e_ident[EI_CLASS] = ELFCLASS32;
	refused(&f, "it is a 32-bit program");
	f.h.e_ident[EI_CLASS] = 3;
	refused(&f, "its ELF class or byte order");
	f = new_file();
	f.h.e_ident[EI_DATA] = ELFDATA2MSB;
	refused(&f, "its ELF class or byte order");
	f = new_file();
	f.h.e_machine = EM_AARCH64;
	refused(&f, "aarch64 (ELF machine 183)");
	f.h.e_machine = EM_386;
	refused(&f, "ELF machine 3");
}

static void program_headers_have_limits(void **state)
{
	struct file f = new_file();

	f.n = sizeof(f.h) - 1;
	refused(&f, "too short");
	f = new_file();
	f.n = sizeof(f.h) + N_PHDRS * sizeof(f.p[0]) - 1;
	refused(&f, "program headers are cut off");
	f = new_file();
	f.h.e_phnum = 0;
	refused(&f, "program headers are malformed");
	f.h.e_phnum = LAYOUT_PHDRS_MAX + 1;
	refused(&f, "program headers are malformed");
	f.h.e_phnum = LAYOUT_PHDRS_MAX;
	refused(&f, "cut off");
	f = new_file();
	f.h.e_phentsize = 32;
	refused(&f, "program headers are malformed");
	f = new_file();
	f.h.e_phoff = INT64_MAX;
	refused(&f, "cut off");
	f = new_file();
	f.p[0].p_type = f.p[1].p_type = PT_NULL;
	refused(&f, "no loaded segments");
}

static void segments_have_limits(void **state)
{
	struct file f = new_file();

	f.p[0].p_filesz = UINT64_MAX - f.p[0].p_vaddr + 1;
	refused(&f, "loaded segments are malformed");
	f = new_file();
	f.p[0].p_offset = INT64_MAX;
	refused(&f, "loaded segments are malformed");
	f = new_file();
	f.p[0].p_vaddr = UINT64_MAX;
	refused(&f, "loaded segments are malformed");
	f = new_file();
	for (size_t i = 0; i <= LAYOUT_SEGMENTS_MAX; i++)
		f.p[i] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = i << 12, .p_filesz = 1};
	f.h.e_shnum = 0;
	f.h.e_phnum = LAYOUT_SEGMENTS_MAX;
	assert_int_equal(good(&f).n_segments, LAYOUT_SEGMENTS_MAX);
	f.h.e_phnum++;
	refused(&f, "loaded segments are malformed");
}

/* A note that lies costs the build ID only. */
static void build_ids_that_are_none(void **state)
{
	static const uint32_t sizes[] = {0, 45, LAYOUT_BUILD_ID_MAX + 1, 5000, UINT32_MAX};
	struct file f = new_file();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		f = new_file();
		if (sizes[i] != 45) /* which ends behind the notes */
			f.p[3].p_filesz = 256;
		memcpy(f.bytes + NOTE_OFF + 24, &sizes[i], 4);
		assert_int_equal(good(&f).build_id_bytes, 0);
	}
	f = new_file();
	memcpy(f.bytes + NOTE_OFF + 32, "GNV", 4);
	assert_int_equal(good(&f).build_id_bytes, 0);
	f = new_file();
	memcpy(f.bytes + NOTE_OFF, &(uint32_t){UINT32_MAX}, 4); /* the name of the note before it */
	assert_int_equal(good(&f).build_id_bytes, 0);
	f = new_file();
	f.p[3].p_offset = UINT64_MAX;
	assert_int_equal(good(&f).build_id_bytes, 0);
}

static bool find(struct file *f, const char *name, struct layout_section *ret)
{
	struct layout_source src = source(f);

	return layout_find_section(&src, name, ret);
}

static void sections_by_name(void **state)
{
	struct file f = new_file();
	struct layout_section s = {};

	assert_true(find(&f, ".data", &s));
	assert_int_equal(s.addr, 0x403000);
	assert_int_equal(s.file_off, 0x900);
	assert_int_equal(s.bytes, 0x20);
	assert_true(s.compressed);
	assert_true(find(&f, ".names", &s));
	assert_false(s.compressed);
	assert_false(find(&f, ".bss", &s)); /* not in the file */
	assert_false(find(&f, ".dat", &s));
	assert_false(find(&f, ".data2", &s));
	assert_false(find(&f, ".a_name_that_is_longer_than_what_is_looked_for", &s));
}

static void section_headers_that_lie(void **state)
{
	Elf64_Shdr *sections;
	struct file f = new_file();
	struct layout_section s;

	f.h.e_shstrndx = 4;
	assert_false(find(&f, ".data", &s));
	f = new_file();
	f.h.e_shnum = LAYOUT_SECTIONS_MAX + 1;
	assert_false(find(&f, ".data", &s));
	f = new_file();
	f.h.e_shoff = UINT64_MAX - 10;
	assert_false(find(&f, ".data", &s));
	f = new_file();
	f.h.e_shentsize = 40;
	assert_false(find(&f, ".data", &s));
	f = new_file();
	sections = (Elf64_Shdr *)(f.bytes + SHDR_OFF);
	sections[1].sh_size = 8; /* the name begins behind the names */
	assert_false(find(&f, ".data", &s));
	f = new_file();
	sections[2].sh_size = INT64_MAX;
	assert_false(find(&f, ".data", &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there),
		cmocka_unit_test(addresses_and_offsets),
		cmocka_unit_test(other_kinds_of_files_are_refused),
		cmocka_unit_test(program_headers_have_limits),
		cmocka_unit_test(segments_have_limits),
		cmocka_unit_test(build_ids_that_are_none),
		cmocka_unit_test(sections_by_name),
		cmocka_unit_test(section_headers_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
