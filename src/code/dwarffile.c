/* SPDX-License-Identifier: Apache-2.0 */
#include "code/dwarffile.h"

#include <errno.h>

#include "code/elffile.h"

static int open_one(struct dwarffile *f, int fd, uint64_t max_bytes, Elf **ret_elf, Dwarf **ret)
{
	uint64_t bytes, room = f->bytes < max_bytes ? max_bytes - f->bytes : 0;
	int r = elffile_begin_dwarf(fd, ret_elf);

	if (r)
		return r == -ENOMEM ? r : -ENOENT;
	if (!elffile_has_dwarf(*ret_elf))
		return -ENOENT;
	bytes = elffile_debug_bytes(*ret_elf, fd, room);
	f->bytes = bytes < UINT64_MAX - f->bytes ? f->bytes + bytes : UINT64_MAX;
	if (bytes > room)
		return -EFBIG;
	*ret = dwarf_begin_elf(*ret_elf, DWARF_C_READ, NULL);
	return *ret && elffile_strings_end(*ret_elf) ? 0 : -ENOENT;
}

int dwarffile_open(struct dwarffile *f, int fd, int alt_fd, uint64_t max_bytes)
{
	uint64_t bytes;
	int r;

	*f = (struct dwarffile){};
	r = open_one(f, fd, max_bytes, &f->elf, &f->dwarf);
	if (!r && alt_fd >= 0)
		r = open_one(f, alt_fd, max_bytes, &f->alt_elf, &f->alt);
	if (!r && f->alt)
		dwarf_setalt(f->dwarf, f->alt);
	if (!r)
		return 0;
	bytes = f->bytes;
	dwarffile_close(f);
	f->bytes = bytes;
	return r;
}

void dwarffile_close(struct dwarffile *f)
{
	if (f->dwarf)
		dwarf_end(f->dwarf);
	if (f->alt)
		dwarf_end(f->alt);
	if (f->elf)
		elf_end(f->elf);
	if (f->alt_elf)
		elf_end(f->alt_elf);
	*f = (struct dwarffile){};
}
