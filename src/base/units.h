/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h: numbers with units, as people type and read them. Pure.
 */
#ifndef SPANPROF_BASE_UNITS_H
#define SPANPROF_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* "200ms", "1.5s", "10us", "2m", "1h", "7d", "100ns"; a bare "0" is 0. 0, -EINVAL, or -ERANGE. */
int parse_duration(const char *text, uint64_t *ret_ns);

/* "64M", "512K", "1G", "4096"; powers of 1024. 0, -EINVAL, or -ERANGE. */
int parse_size(const char *text, uint64_t *ret_bytes);

/* A decimal number without sign, white space or rest; 0, -EINVAL, or -ERANGE when above max. */
int parse_u64(const char *text, uint64_t max, uint64_t *ret);

/* "1%", "0.5", up to 100, in steps of 0.01: in millionths. 0, -EINVAL, or -ERANGE. */
int parse_percent(const char *text, uint32_t *ret_ppm);

/* "3.1 us", "612.4 ms", from 10 s on "12.30 s": for reading. buf is returned. */
const char *format_duration(char *buf, size_t n, uint64_t ns);

#endif
