/* SPDX-License-Identifier: Apache-2.0 */
/* gzip.h: bytes written as one gzip member (RFC 1952) without a time stamp. */
#ifndef SPANPROF_EXPORT_GZIP_H
#define SPANPROF_EXPORT_GZIP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* 0, -ENOMEM, or -EIO when the stream has an error. */
int gzip_write(FILE *out, const uint8_t *data, size_t bytes);

#endif
