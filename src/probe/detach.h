/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detach.h: takes many probes off, in such a way that a kill cannot leave them half taken off.
 *
 * The kernel gives up when a thread is killed that closes the last descriptor of a probe, and then leaves
 * breakpoints in the program for good; a process that is already exiting is not disturbed by a kill.
 * So children inherit the descriptors, this process closes its own, and the children end. Each close
 * also waits for a grace period of the kernel (tens of ms), which children that end together share.
 */
#ifndef SPANPROF_PROBE_DETACH_H
#define SPANPROF_PROBE_DETACH_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/attach.h"

/* They are all gone when this returns. */
void probe_detach_all(struct attachment *all, size_t n);

/* Without waiting. The descriptors are closed when this returns, the probes go a little later. */
void probe_detach_later(const struct attachment *all, size_t n);

/* Waits for what probe_detach_later has left. */
void probe_detach_wait(void);

/* Nothing is left of it. */
bool probe_detach_is_done(void);

#endif
