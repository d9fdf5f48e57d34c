/* SPDX-License-Identifier: Apache-2.0 */
#include "code/bounds.h"

#include <dwarf.h>
#include <libelf.h>
#include <string.h>

/* Pointer encodings of the .eh_frame_hdr that all linkers write (LSB, Linux extension). */
enum {
	PCREL_SDATA4 = 0x1b,
	UDATA4 = 0x03,
	DATAREL_SDATA4 = 0x3b,
};

static bool read_exact(struct module *m, uint64_t vaddr, void *buf, size_t n)
{
	return module_read_code(m, vaddr, buf, n) == n;
}

static bool find_header(struct module *m, uint64_t *ret_addr, uint64_t *ret_bytes)
{
	Elf *elf = module_elf(m);
	Elf64_Phdr *ph = elf ? elf64_getphdr(elf) : NULL;
	size_t n;

	if (!ph || elf_getphdrnum(elf, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_GNU_EH_FRAME)
			continue;
		*ret_addr = ph[i].p_vaddr;
		*ret_bytes = ph[i].p_memsz;
		return true;
	}
	return false;
}

void bounds_init(struct bounds *b, struct module *m)
{
	uint64_t addr, bytes;
	uint8_t hdr[12];
	uint32_t n;

	memset(b, 0, sizeof(*b));
	if (!find_header(m, &addr, &bytes) || bytes < sizeof(hdr) ||
	    !read_exact(m, addr, hdr, sizeof(hdr)))
		return;
	if (hdr[0] != 1 || hdr[1] != PCREL_SDATA4 || hdr[2] != UDATA4 || hdr[3] != DATAREL_SDATA4)
		return;
	memcpy(&n, hdr + 8, sizeof(n));
	if (n > (bytes - sizeof(hdr)) / 8)
		return;
	b->hdr_addr = addr;
	b->table_addr = addr + sizeof(hdr);
	b->n = n;
}

static bool read_entry(const struct bounds *b, struct module *m, uint32_t i, uint64_t *ret_start,
		       uint64_t *ret_fde)
{
	int32_t pair[2];

	if (!read_exact(m, b->table_addr + (uint64_t)i * 8, pair, sizeof(pair)))
		return false;
	*ret_start = b->hdr_addr + (uint64_t)(int64_t)pair[0];
	*ret_fde = b->hdr_addr + (uint64_t)(int64_t)pair[1];
	return true;
}

bool bounds_find(const struct bounds *b, struct module *m, uint64_t vaddr,
		 struct bounds_function *ret)
{
	uint32_t lo = 0, hi = b->n, fde[4];
	uint64_t start, fde_addr, found = 0, found_fde = 0;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (!read_entry(b, m, mid, &start, &fde_addr))
			return false;
		if (start > vaddr) {
			hi = mid;
			continue;
		}
		found = start;
		found_fde = fde_addr;
		lo = mid + 1;
	}
	/* Entry: length, CIE, begin, range. The begin tells whether it is encoded as assumed here. */
	if (!found_fde || !read_exact(m, found_fde, fde, sizeof(fde)))
		return false;
	if (found_fde + 8 + (uint64_t)(int64_t)(int32_t)fde[2] != found || vaddr - found >= fde[3])
		return false;
	*ret = (struct bounds_function){.start = found, .bytes = fde[3]};
	return true;
}
