/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reading.h: what the operations of an endpoint read, in words: which registers, what memory behind
 * them. For people who check a specification; knows nothing of the text that it was compiled from.
 */
#ifndef SPANPROF_PROBE_READING_H
#define SPANPROF_PROBE_READING_H

#include <stddef.h>

#include "bpf/wire.h"

/*
 * Writes "text at u64 at rdi+56, number rsi&0xff == 3" into buf and returns it; what does not fit
 * ends in "...". Values that are kept from entry to end are "kept 0" and so on.
 */
const char *format_reading(const struct wire_op *ops, size_t n, char *buf, size_t bytes);

#endif
