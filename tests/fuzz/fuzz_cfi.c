/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cfi.c: .eh_frame_hdr and .eh_frame (or .debug_frame) in one piece, at address 0. */
#include <string.h>

#include "code/cfi_eval.h"
#include "fuzz.h"

struct input {
	const uint8_t *data;
	size_t n;
};

static size_t read_input(void *ctx, uint64_t addr, void *buf, size_t n)
{
	struct input *in = ctx;

	if (addr >= in->n)
		return 0;
	n = n < in->n - addr ? n : in->n - addr;
	memcpy(buf, in->data + addr, n);
	return n;
}

static void try_rule(struct cfi_table *t, uint64_t addr, const struct input *in)
{
	struct cfi_memory memory = {in->data, in->n, 0x7000};
	struct cfi_frame f = {.known = 0xffff0fff}, caller;
	struct cfi_buf b;
	uint64_t cfa, slot;

	if (cfi_table_find(t, addr, &b))
		return;
	f.r[WIRE_REG_RSP] = f.r[WIRE_REG_RBP] = 0x7000;
	if (cfi_eval_cfa(&b.rule, &f, &memory, &cfa) == CFI_EVAL_OK)
		cfi_eval_step(&b.rule, &f, &memory, cfa, &caller, &slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct input in = {data, n};
	struct cfi_table *t;

	for (int kind = 0; kind < 3; kind++) {
		struct cfi_source src = {.read = read_input, .ctx = &in, .frame_bytes = n};

		src.hdr_bytes = kind == 0 ? n : 0;
		src.debug_frame = kind == 2;
		if (cfi_table_new(&t, &src))
			return 0;
		for (uint64_t addr = 0x10000; addr < 0x10400; addr += 0x55)
			try_rule(t, addr, &in);
		cfi_table_free(t);
	}
	return 0;
}
