/* SPDX-License-Identifier: Apache-2.0 */
/* test_elffile.c: small ELF files made here, good ones and such that lie. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "code/elffile.h"
#include "tests/unit/unit.h"

enum { SECTIONS_MAX = 8, FILE_BYTES = 65536, PUBLIC = 0666, ROOTS = 0644 };

struct section_input {
	const char *name;
	uint32_t type;
	uint64_t flags;
	const void *data;
	size_t bytes;
};

/* A file under construction: header, then data, then names, then section headers. */
struct image {
	uint8_t bytes[FILE_BYTES];
	Elf64_Ehdr *eh;
	Elf64_Shdr *sh; /* [0] is none, the last is the names */
	size_t n;
};

struct file {
	int fd;
	Elf *elf;
};

static void make_image(struct image *im, const struct section_input *in, size_t n)
{
	Elf64_Shdr headers[SECTIONS_MAX + 2] = {};
	size_t at = sizeof(Elf64_Ehdr), names_at;
	char names[256] = "";
	size_t n_names = 1;

	memset(im, 0, sizeof(*im));
	im->eh = (Elf64_Ehdr *)im->bytes;
	for (size_t i = 0; i < n; i++) {
		headers[1 + i] = (Elf64_Shdr){.sh_name = (uint32_t)n_names,
					      .sh_type = in[i].type,
					      .sh_flags = in[i].flags,
					      .sh_offset = at,
					      .sh_size = in[i].bytes,
					      .sh_addralign = 8};
		strcpy(names + n_names, in[i].name);
		n_names += strlen(in[i].name) + 1;
		if (in[i].data)
			memcpy(im->bytes + at, in[i].data, in[i].bytes);
		at += (in[i].data ? in[i].bytes + 7 : 0) & ~(size_t)7;
	}
	strcpy(names + n_names, ".shstrtab");
	names_at = at;
	headers[1 + n] = (Elf64_Shdr){.sh_name = (uint32_t)n_names,
				      .sh_type = SHT_STRTAB,
				      .sh_offset = names_at,
				      .sh_size = sizeof(names)};
	memcpy(im->bytes + names_at, names, sizeof(names));
	at = names_at + sizeof(names);
	im->sh = (Elf64_Shdr *)(im->bytes + at);
	memcpy(im->sh, headers, (n + 2) * sizeof(headers[0]));
	*im->eh = (Elf64_Ehdr){.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					   ELFDATA2LSB, EV_CURRENT},
			       .e_type = ET_DYN,
			       .e_machine = EM_X86_64,
			       .e_version = EV_CURRENT,
			       .e_shoff = at,
			       .e_ehsize = sizeof(Elf64_Ehdr),
			       .e_shentsize = sizeof(Elf64_Shdr),
			       .e_shnum = (uint16_t)(n + 2),
			       .e_shstrndx = (uint16_t)(n + 1)};
	im->n = at + (n + 2) * sizeof(headers[0]);
}

static int write_file(const void *data, size_t n, mode_t mode)
{
	int fd = memfd_create("elffile", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), n);
	assert_int_equal(fchmod(fd, mode), 0);
	return fd;
}

static struct file open_image(const struct image *im, mode_t mode)
{
	struct file f = {.fd = write_file(im->bytes, im->n, mode)};

	assert_int_equal(elffile_begin(f.fd, &f.elf), 0);
	return f;
}

static void close_file(struct file *f)
{
	elf_end(f->elf);
	close(f->fd);
}

static const struct section_input plain[] = {
	{".one", SHT_PROGBITS, 0, "first data", 10},
	{".nothing", SHT_NOBITS, 0, NULL, 4096},
	{".notes", SHT_NOTE, 0, "", 0},
	{".two", SHT_PROGBITS, 0, "other", 5},
};

static int begins(const struct image *im, size_t n)
{
	int fd = write_file(im->bytes, n, PUBLIC), r;
	Elf *elf = NULL;

	r = elffile_begin(fd, &elf);
	assert_int_equal(!r, elf != NULL);
	elf_end(elf);
	close(fd);
	return r;
}

static void only_files_of_this_architecture(void **state)
{
	struct image im;

	make_image(&im, plain, 4);
	assert_int_equal(begins(&im, im.n), 0);
	assert_int_equal(begins(&im, 0), -ENOEXEC);
	assert_int_equal(begins(&im, EI_NIDENT), -ENOEXEC);
	im.eh->e_machine = EM_AARCH64;
	assert_int_equal(begins(&im, im.n), -ENOEXEC);
	im.eh->e_machine = EM_X86_64;
	im.eh->e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(begins(&im, im.n), -ENOEXEC);
	im.eh->e_ident[EI_CLASS] = ELFCLASS64;
	im.eh->e_ident[EI_DATA] = ELFDATA2MSB;
	im.eh->e_machine = EM_X86_64 << 8;
	assert_int_equal(begins(&im, im.n), -ENOEXEC);
	im.eh->e_ident[EI_MAG0] = '#';
	assert_int_equal(begins(&im, im.n), -ENOEXEC);
}

static void sections_and_their_data(void **state)
{
	struct image im;
	struct file f;
	Elf64_Shdr sh;
	size_t n = 1;
	Elf_Scn *scn;

	make_image(&im, plain, 4);
	f = open_image(&im, PUBLIC);
	assert_non_null(scn = elffile_section(f.elf, ".two", &sh));
	assert_int_equal(sh.sh_size, 5);
	assert_memory_equal(elffile_data(scn, &n), "other", 5);
	assert_int_equal(n, 5);
	assert_non_null(scn = elffile_section(f.elf, ".nothing", &sh));
	assert_null(elffile_data(scn, &n));
	assert_int_equal(n, 0);
	assert_null(elffile_section(f.elf, ".tw", &sh));
	assert_non_null(elffile_section_of_type(f.elf, SHT_NOBITS, &sh));
	assert_int_equal(sh.sh_size, 4096);
	assert_null(elffile_section_of_type(f.elf, SHT_SYMTAB, &sh));
	close_file(&f);
}

/* What lies is not there; what does not is. */
static void headers_that_lie(void **state)
{
	struct image im;
	struct file f;
	Elf64_Shdr sh;
	Elf_Scn *scn;
	size_t n;

	make_image(&im, plain, 4);
	im.sh[1].sh_name = 1 << 30;
	im.sh[4].sh_offset = im.n - 2;
	f = open_image(&im, PUBLIC);
	assert_null(elffile_section(f.elf, ".one", &sh));
	assert_non_null(elffile_section(f.elf, ".nothing", &sh));
	scn = elffile_section(f.elf, ".two", &sh);
	assert_non_null(scn);
	assert_null(elffile_data(scn, &n));
	assert_int_equal(n, 0);
	close_file(&f);

	make_image(&im, plain, 4);
	im.eh->e_shstrndx = 1000;
	f = open_image(&im, PUBLIC);
	assert_null(elffile_section(f.elf, ".one", &sh));
	assert_false(elffile_has_dwarf(f.elf));
	close_file(&f);
}

struct note {
	uint32_t name_bytes, desc_bytes, type;
	char name[4];
	uint8_t desc[20];
};

static size_t id_of(const void *data, size_t bytes, uint8_t id[20], size_t max)
{
	const struct section_input in[] = {{".empty", SHT_NOTE, 0, NULL, 0},
					   {".note", SHT_NOTE, 0, data, bytes}};
	struct image im;
	struct file f;
	size_t n;

	make_image(&im, in, 2);
	f = open_image(&im, PUBLIC);
	n = elffile_build_id(f.elf, id, max);
	close_file(&f);
	return n;
}

static void build_ids(void **state)
{
	const struct note good = {4, 20, NT_GNU_BUILD_ID, "GNU", "the id of this build"};
	struct note two[2] = {{4, 20, NT_GNU_ABI_TAG, "GNU", ""}, good}, bad = good;
	uint8_t id[20] = "";

	assert_int_equal(id_of(&good, sizeof(good), id, 20), 20);
	assert_memory_equal(id, good.desc, 20);
	assert_int_equal(id_of(two, sizeof(two), id, 20), 20);
	assert_int_equal(id_of(&good, sizeof(good), id, 19), 0);
	assert_int_equal(id_of(&good, sizeof(good) - 1, id, 20), 0);
	assert_int_equal(id_of(&good, 11, id, 20), 0);
	memcpy(bad.name, "NOT", 4);
	assert_int_equal(id_of(&bad, sizeof(bad), id, 20), 0);
	for (uint32_t lie = 21; lie; lie *= 4) {
		two[0].desc_bytes = lie;
		assert_int_equal(id_of(two, sizeof(two), id, 20), 0);
		bad = good;
		bad.desc_bytes = lie;
		assert_int_equal(id_of(&bad, sizeof(bad), id, UINT32_MAX), 0);
		bad = good;
		bad.name_bytes = lie;
		assert_int_equal(id_of(&bad, sizeof(bad), id, 20), 0);
	}
	two[0].desc_bytes = UINT32_MAX;
	two[0].name_bytes = UINT32_MAX;
	assert_int_equal(id_of(two, sizeof(two), id, 20), 0);
}

/* What packs to `bytes` of data: the size of the section. */
static size_t packed(uint8_t *to, size_t max, uint64_t says, size_t bytes)
{
	const Elf64_Chdr ch = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = says, .ch_addralign = 1};
	uint8_t *data = calloc(1, bytes);
	uLongf n = max - sizeof(ch);

	assert_non_null(data);
	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(i * i / 7);
	memcpy(to, &ch, sizeof(ch));
	assert_int_equal(compress2(to + sizeof(ch), &n, data, bytes, 1), Z_OK);
	free(data);
	return sizeof(ch) + n;
}

static uint64_t debug_bytes(const struct section_input *in, size_t n, mode_t mode, uint64_t max)
{
	struct image im;
	struct file f;
	uint64_t bytes;

	make_image(&im, in, n);
	f = open_image(&im, mode);
	bytes = elffile_debug_bytes(f.elf, f.fd, max);
	close_file(&f);
	return bytes;
}

static void memory_that_dwarf_takes(void **state)
{
	uint8_t small[4096], liar[4096];
	const uint64_t unpacked = 4000;
	struct section_input in[] = {
		{".debug_info", SHT_PROGBITS, 0, "0123456789", 10},
		{".debug_str", SHT_PROGBITS, SHF_COMPRESSED, small, 0},
		{".debug_line", SHT_NOBITS, 0, NULL, 1 << 20},
		{".text", SHT_PROGBITS, 0, "code", 4},
		{".zdebug_info", SHT_PROGBITS, 0, "ZLIB", 4},
	};

	in[1].bytes = packed(small, sizeof(small), unpacked, unpacked);
	assert_int_equal(debug_bytes(in, 4, PUBLIC, UINT64_MAX), 10 + unpacked);
	/* Told from the header alone, and then the same. */
	assert_int_equal(debug_bytes(in, 4, PUBLIC, 100), 10 + unpacked);
	if (geteuid() == 0)
		assert_int_equal(debug_bytes(in, 4, ROOTS, UINT64_MAX), unpacked);
	assert_int_equal(debug_bytes(in, 5, PUBLIC, UINT64_MAX), UINT64_MAX);
	in[1].data = liar;
	in[1].bytes = packed(liar, sizeof(liar), (uint64_t)1 << 40, unpacked);
	assert_int_equal(debug_bytes(in, 4, PUBLIC, UINT64_MAX), UINT64_MAX);
	in[1].bytes = sizeof(Elf64_Chdr) - 1;
	assert_int_equal(debug_bytes(in, 4, PUBLIC, UINT64_MAX), UINT64_MAX);
}

/* A file that somebody else may cut short is never mapped. */
static void which_files_are_mapped(void **state)
{
	static const struct {
		mode_t mode;
		bool mapped;
	} cases[] = {{0644, true}, {0755, true}, {0664, false}, {0646, false}, {0666, false}};
	int fd = write_file("x", 1, 0644);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(fchmod(fd, cases[i].mode), 0);
		assert_int_equal(elffile_is_mapped(fd), cases[i].mapped && geteuid() == 0);
	}
	if (geteuid() == 0) {
		assert_int_equal(fchmod(fd, 0644), 0);
		assert_int_equal(fchown(fd, 1, 0), 0);
		assert_false(elffile_is_mapped(fd));
	}
	close(fd);
	assert_false(elffile_is_mapped(-1));
}

static void what_a_reader_of_dwarf_sees(void **state)
{
	const struct section_input in[] = {
		{".debug_info", SHT_PROGBITS, 0, "info", 4},
		{".debug_loclists", SHT_PROGBITS, 0, "loc", 3},
		{".debug_str", SHT_PROGBITS, 0, "no end", 6},
		{".debug_line_str", SHT_PROGBITS, 0, "end", 4},
	};
	struct image im;
	struct file f;
	Elf64_Shdr sh;

	make_image(&im, in, 4);
	f.fd = write_file(im.bytes, im.n, PUBLIC);
	assert_int_equal(elffile_begin_dwarf(f.fd, &f.elf), 0);
	assert_true(elffile_has_dwarf(f.elf));
	assert_false(elffile_strings_end(f.elf));
	assert_non_null(elffile_section(f.elf, ".debug_loclists", &sh));
	assert_int_equal(sh.sh_type, SHT_NOBITS);
	assert_non_null(elffile_section(f.elf, ".debug_line_str", &sh));
	assert_int_equal(sh.sh_type, SHT_PROGBITS);
	close_file(&f);

	im.sh[1].sh_type = SHT_NOBITS;
	im.sh[3].sh_size = 0;
	f = open_image(&im, PUBLIC);
	assert_false(elffile_has_dwarf(f.elf));
	assert_true(elffile_strings_end(f.elf));
	close_file(&f);
}

/* The pages come back from the file. */
static void released_pages_are_read_again(void **state)
{
	struct image im;
	struct file f;
	Elf64_Shdr sh;
	Elf_Scn *scn;
	size_t n;

	make_image(&im, plain, 4);
	f = open_image(&im, ROOTS);
	scn = elffile_section(f.elf, ".one", &sh);
	assert_memory_equal(elffile_data(scn, &n), "first data", 10);
	elffile_release(f.elf, f.fd);
	assert_memory_equal(elffile_data(scn, &n), "first data", 10);
	close_file(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_files_of_this_architecture),
		cmocka_unit_test(sections_and_their_data),
		cmocka_unit_test(headers_that_lie),
		cmocka_unit_test(build_ids),
		cmocka_unit_test(memory_that_dwarf_takes),
		cmocka_unit_test(which_files_are_mapped),
		cmocka_unit_test(what_a_reader_of_dwarf_sees),
		cmocka_unit_test(released_pages_are_read_again),
	};

	return cmocka_run_group_tests_name("elffile", tests, NULL, NULL);
}
