/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: the two clocks that the program reads, and only at its edges. */
#ifndef SPANPROF_BASE_CLOCK_H
#define SPANPROF_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_mono_ns(void); /* CLOCK_MONOTONIC: what bpf_ktime_get_ns() reads */
uint64_t clock_real_ns(void); /* CLOCK_REALTIME: ns since 1970-01-01 UTC */

#endif
