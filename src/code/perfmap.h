/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfmap.h: the names of JIT-compiled code, from the text that the JIT writes ("START SIZE NAME",
 * hexadecimal, one line for each function; /tmp/perf-PID.map as perf knows it).
 *
 * Text may be added piece by piece as the file grows. Where definitions overlap, the one that came
 * last counts. Memory is bounded; what does not fit is counted by the caller.
 */
#ifndef SPANPROF_CODE_PERFMAP_H
#define SPANPROF_CODE_PERFMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perfmap;

int perfmap_new(struct perfmap **ret, size_t max_bytes);
struct perfmap *perfmap_free(struct perfmap *m);

/*
 * Pure: takes the whole lines of text; ret_used is where the last of them ends. Lines that make no
 * sense are skipped. 0, -ENOMEM, or -ENOSPC when max_bytes is reached (what came before stays).
 */
int perfmap_add_text(struct perfmap *m, const char *text, size_t bytes, size_t *ret_used);

/* The name (as in the file), or NULL; borrowed until the next perfmap_add_text. */
const char *perfmap_find(struct perfmap *m, uint64_t pc, uint64_t *ret_start);

/*
 * Reads what the map file of pid has gained since the last call: tmp/perf-N.map under root_fd (the
 * process's root), N being its pid in its own namespace. The file must belong to root or to the
 * process's user. 0, -ENOENT, -EPERM, -ENOSPC, -ENOMEM or another errno.
 */
int perfmap_read(struct perfmap *m, int root_fd, pid_t ns_pid, uid_t uid);

#endif
