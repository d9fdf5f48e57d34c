/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi.h: the call frame rule that holds at one PC, in a compact form, and where it comes from.
 *
 * A rule says how to get the canonical frame address (CFA) of a frame and the registers of its
 * caller. Rules are found on demand in .eh_frame (through .eh_frame_hdr when there is one) or
 * .debug_frame; elfutils interprets the call frame program of the one entry that covers the PC,
 * after every byte of it has been checked here. Nothing is built ahead of time.
 *
 * Pure: bytes come through struct cfi_source, which may lie about everything but its own bounds.
 */
#ifndef SPANPROF_CODE_CFI_H
#define SPANPROF_CODE_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"

enum { CFI_OPS_MAX = 128 }; /* operations of all expressions of one rule */

enum cfi_result {
	CFI_OK,
	CFI_E_NO_CFI = 1, /* the file has no rule for this PC */
	CFI_E_BAD,        /* there is one, but it is malformed or uses what no compiler emits */
	/* Only from unwind_find_rule, which knows what the PC is in: */
	CFI_E_NO_MODULE,  /* no mapping has this PC */
	CFI_E_NO_FILE,    /* the file that is mapped there cannot be read */
	CFI_E_ANONYMOUS,  /* executable memory without a file (JIT) */
	CFI_E_TRAMPOLINE, /* the return address was replaced by a uretprobe */
};

enum cfi_kind {
	CFI_AT_CFA,  /* saved in memory at CFA + off */
	CFI_CFA,     /* the value CFA + off */
	CFI_REG,     /* the value of register `base` + off */
	CFI_AT_EXPR, /* saved in memory at the address that the expression gives */
	CFI_EXPR,    /* the value that the expression gives */
};

struct cfi_value {
	uint8_t reg;   /* enum wire_reg: the register this is the rule of; unused in cfi_rule.cfa */
	uint8_t kind;  /* enum cfi_kind */
	uint8_t base;  /* CFI_REG */
	uint8_t n_ops; /* *_EXPR */
	int32_t off;   /* *_EXPR: index of the first operation in cfi_rule.ops */
};

/* One operation of a DWARF expression; code is DW_OP_*, forms that only differ in size merged. */
struct cfi_op {
	uint8_t code;
	uint8_t reg;     /* DW_OP_bregx */
	uint16_t target; /* DW_OP_bra, DW_OP_skip: operation to go on with, relative to the first */
	uint32_t pad;
	int64_t imm;
};

struct cfi_rule {
	struct cfi_value cfa; /* CFI_REG or CFI_EXPR */
	uint32_t undefined;   /* bit per register: its value in the caller is lost */
	uint8_t n_values;
	bool signal; /* the frame of a signal handler's trampoline: the caller's PC is exact */
	uint16_t n_ops;
	struct cfi_value
		values[WIRE_REG_MAX]; /* registers that are neither undefined nor unchanged */
	const struct cfi_op *ops;     /* owned by whoever keeps the rule */
};

/* Room for a rule and its expressions; rule.ops points into it, so it must not be copied. */
struct cfi_buf {
	struct cfi_rule rule;
	struct cfi_op ops[CFI_OPS_MAX];
};

struct cfi_source {
	/* Copies up to n bytes at ELF virtual address addr (.debug_frame: section offset). */
	size_t (*read)(void *ctx, uint64_t addr, void *buf, size_t n);
	void *ctx;
	uint64_t hdr_addr; /* .eh_frame_hdr; hdr_bytes 0: none */
	uint64_t hdr_bytes;
	uint64_t frame_addr; /* .eh_frame or .debug_frame, for search without .eh_frame_hdr */
	uint64_t frame_bytes;
	bool debug_frame;
};

struct cfi_table; /* one source and, only when it has no usable .eh_frame_hdr, its index */

/* 0 or -ENOMEM. */
int cfi_table_new(struct cfi_table **ret, const struct cfi_source *src);
struct cfi_table *cfi_table_free(struct cfi_table *t);

/* The rule at an ELF virtual address. CFI_OK, CFI_E_NO_CFI, CFI_E_BAD, or -ENOMEM. */
int cfi_table_find(struct cfi_table *t, uint64_t addr, struct cfi_buf *ret);

/* Calls fn with the ELF addresses that each entry is for, by their starts. 0, 1: there are more, or -ENOMEM. */
typedef int (*cfi_range_fn)(void *ctx, uint64_t start, uint64_t end); /* 0 or negative errno */
int cfi_table_each(struct cfi_table *t, cfi_range_fn fn, void *ctx);

#endif
