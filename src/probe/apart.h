/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart.h: does something in a process of its own, which a kill of this one does not reach.
 *
 * A kernel that is interrupted by a kill while it puts breakpoints into programs does not take back
 * those that it has put: they stay for good. The other process shares memory and descriptors with
 * this one and ends when it is done; if this one has been killed meanwhile, the descriptors are closed
 * then. (See detach.h for the way back.)
 */
#ifndef SPANPROF_PROBE_APART_H
#define SPANPROF_PROBE_APART_H

/* What fn returns. It is called here, when there cannot be another process. */
int apart_run(int (*fn)(void *ctx), void *ctx);

#endif
