/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi_rule.h: from one CIE and FDE to the rule at an address, with elfutils' interpreter.
 *
 * elfutils wants an ELF file. It gets one that is made up in memory and holds just these two
 * entries, rewritten with absolute addresses after cfi_program_copy() has checked them. So it never
 * sees bytes of the target that nobody looked at, and no section has to be read or kept whole.
 */
#ifndef SPANPROF_CODE_CFI_RULE_H
#define SPANPROF_CODE_CFI_RULE_H

#include "code/cfi.h"
#include "code/cfi_entry.h"

/* CFI_OK, CFI_E_NO_CFI when the FDE does not cover addr, CFI_E_BAD, or -ENOMEM. */
int cfi_rule_make(const struct cfi_cie *cie, const struct cfi_fde *fde, uint64_t addr,
		  struct cfi_buf *ret);

#endif
