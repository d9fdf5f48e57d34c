/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h: the entry of a fuzz target, as libFuzzer calls it. */
#ifndef SPANPROF_TESTS_FUZZ_H
#define SPANPROF_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#endif
