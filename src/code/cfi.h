/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi.h: the call frame rule that holds at one PC, in a compact form. (draft: src/code owner fills)
 */
#ifndef SPANPROF_CODE_CFI_H
#define SPANPROF_CODE_CFI_H

#include "bpf/wire.h"

struct cfi_rule;

#endif
