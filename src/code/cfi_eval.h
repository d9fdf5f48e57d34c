/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi_eval.h: the state of one frame, and the step to its caller by a rule.
 *
 * Pure. Memory is the window and nothing else; expressions are bounded in stack depth and in the
 * number of operations that are executed, so they end whatever they say.
 */
#ifndef SPANPROF_CODE_CFI_EVAL_H
#define SPANPROF_CODE_CFI_EVAL_H

#include "code/cfi.h"

struct cfi_memory {
	const uint8_t *bytes;
	size_t n;
	uint64_t start; /* address of bytes[0] */
	uint32_t holes; /* bit per WIRE_PAGE from that of start: these bytes are not known */
};

struct cfi_frame {
	uint64_t r[WIRE_REG_MAX];
	uint32_t known;   /* bit per register: its value is known */
	uint32_t outside; /* bit per register: it is saved where the window does not reach */
};

enum cfi_eval_result {
	CFI_EVAL_OK,
	CFI_EVAL_E_RANGE = 1, /* memory outside the window is needed */
	CFI_EVAL_E_BAD,       /* an unknown register is needed, or an expression goes wrong */
};

/* Reads n (1 to 8) bytes, zero-extended; false when they are not all in the window. */
bool cfi_memory_read(const struct cfi_memory *m, uint64_t addr, unsigned int n, uint64_t *ret);

enum cfi_eval_result cfi_eval_cfa(const struct cfi_rule *rule, const struct cfi_frame *f,
				  const struct cfi_memory *m, uint64_t *ret_cfa);

/*
 * The registers of the caller. A register that cannot be had is unknown in *ret; it is for the
 * next step to find out that it needs it. ret_rip_slot: where RIP was saved, 0 when not in memory.
 */
void cfi_eval_step(const struct cfi_rule *rule, const struct cfi_frame *f,
		   const struct cfi_memory *m, uint64_t cfa, struct cfi_frame *ret,
		   uint64_t *ret_rip_slot);

#endif
