/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi_entry.h: common information and frame description entries (CIE, FDE) of .eh_frame and
 * .debug_frame: their fields, and the check of their call frame programs.
 *
 * Pure; the bytes are hostile. A program that cfi_program_copy() accepts has only complete
 * instructions that this version of spanprof knows, small register numbers, bounded nesting, and
 * expressions of known operations, so that elfutils can be trusted with it.
 * Formats: LSB 5 part "Exception Frames", DWARF 5 section 6.4.
 */
#ifndef SPANPROF_CODE_CFI_ENTRY_H
#define SPANPROF_CODE_CFI_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CFI_ENTRY_MAX = 1 << 16, /* bytes of one entry */
	CFI_REGISTER_MAX = 128,  /* x86-64 has 67 DWARF registers; elfutils allocates by number */
	CFI_REMEMBER_MAX = 32,   /* nesting of remembered states */
	CFI_PROGRAM_HEADER_MAX = 64 /* bytes of everything in a rewritten entry but its program */
};

/* Bytes that have an address, for pc-relative values; at moves on. */
struct cfi_bytes {
	const uint8_t *at;
	const uint8_t *end;
	uint64_t addr; /* of *at */
};

struct cfi_cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t return_reg;
	uint8_t encoding;      /* DW_EH_PE_* of addresses in its FDEs */
	bool has_augmentation; /* its FDEs have augmentation data */
	bool signal;
	struct cfi_bytes program;
};

struct cfi_fde {
	uint64_t start; /* ELF addresses it covers */
	uint64_t end;
	struct cfi_bytes program;
};

/* What stands at the front of an entry. */
struct cfi_head {
	uint64_t total_bytes; /* length field included; 4 for the terminator of .eh_frame */
	uint8_t head_bytes;   /* of the length field and the id */
	bool terminator;
	bool is_cie;
	uint64_t cie_addr; /* FDE: of its CIE */
};

/* Growing-free output of fixed capacity. */
struct cfi_out {
	uint8_t *buf;
	size_t n;
	size_t cap;
	bool overflow;
};

bool cfi_take_uleb(struct cfi_bytes *b, uint64_t *ret);
bool cfi_take_sleb(struct cfi_bytes *b, int64_t *ret);
bool cfi_take_fixed(struct cfi_bytes *b, unsigned int n_bytes, uint64_t *ret);
/* data_addr: base of DW_EH_PE_datarel values. False for encodings that cannot be in a file. */
bool cfi_take_encoded(struct cfi_bytes *b, uint8_t encoding, uint64_t data_addr, uint64_t *ret);

/* section_addr: where .debug_frame starts. At least 20 bytes should be given. */
bool cfi_parse_head(struct cfi_bytes b, bool debug_frame, uint64_t section_addr,
		    struct cfi_head *ret);
/* b: the whole entry. */
bool cfi_parse_cie(struct cfi_bytes b, const struct cfi_head *head, struct cfi_cie *ret);
bool cfi_parse_fde(struct cfi_bytes b, const struct cfi_head *head, const struct cfi_cie *cie,
		   struct cfi_fde *ret);

/* Checks a call frame program and copies it, with absolute addresses in it. */
bool cfi_program_copy(struct cfi_bytes program, uint8_t encoding, struct cfi_out *out);

void cfi_put(struct cfi_out *out, const void *data, size_t n);
void cfi_put_fixed(struct cfi_out *out, uint64_t v, unsigned int n_bytes);
void cfi_put_uleb(struct cfi_out *out, uint64_t v);
void cfi_put_sleb(struct cfi_out *out, int64_t v);

#endif
