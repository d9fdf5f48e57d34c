/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kallsyms.h: the kernel's functions by address, from the text of /proc/kallsyms.
 *
 * Without CAP_SYSLOG (or with kernel.kptr_restrict) every address reads as zero: that is -EACCES.
 */
#ifndef SPANPROF_CODE_KALLSYMS_H
#define SPANPROF_CODE_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kallsyms;

/* What helps where the addresses are hidden. */
#define KALLSYMS_REMEDY \
	"give it CAP_SYSLOG, or run it as root; if that does not help: sysctl kernel.kptr_restrict=1"

/* Pure. 0, -ENOMEM, -EACCES (only zero addresses), -ENOENT (no functions). */
int parse_kallsyms(const char *text, size_t bytes, struct kallsyms **ret);
/* From a file with that text, in pieces: the whole is never in memory. */
int read_kallsyms(const char *path, struct kallsyms **ret);
/*
 * The same, but only what kallsyms_find needs for these addresses, which are sorted: a few KiB
 * instead of some MiB. For any other address its answer is wrong.
 */
int read_kallsyms_of(const char *path, const uint64_t *pcs, size_t n, struct kallsyms **ret);
/* Whether a look-up would be -EACCES; the first bytes of the file tell. False when it cannot be read at all. */
bool kallsyms_is_hidden(const char *path);
struct kallsyms *kallsyms_free(struct kallsyms *k);

/*
 * The name, or NULL; borrowed as long as k. ret_off: where the function begins, relative to the
 * kernel's lowest function, so that it does not tell where the kernel was loaded.
 */
const char *kallsyms_find(const struct kallsyms *k, uint64_t pc, uint64_t *ret_off);
size_t kallsyms_count(const struct kallsyms *k);

#endif
