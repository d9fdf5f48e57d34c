/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hints.h: what the user of `run` or `record` should know about the probes: that none is hit, that
 * names cannot be read, that a debugger is there. Each is a message on stderr; nothing else is done.
 */
#ifndef SPANPROF_APP_HINTS_H
#define SPANPROF_APP_HINTS_H

#include "app/run_options.h"
#include "app/specs.h"
#include "bpf/wire.h"
#include "pipe/engine.h"
#include "probe/preset.h"

/* Warnings of attaching that have not been told yet. */
void hints_warnings(struct engine *e);
/*
 * Endpoints 0 to n - 1 that were never called, without those that are known to be absent, and those
 * of a preset of which another one was called.
 */
void hints_silence(struct engine *e, const struct specs *specs, size_t n,
		   const bool absent[WIRE_EP_MAX]);
/* At the end: that the probes were on for too short a time to say much. */
void hints_turns(const struct profile *p);
/* At the end, of several presets: those for which there was nothing, by the rows marked as absent. */
void hints_strays(const struct specs *specs, const struct profile *p);
/*
 * One call that has not ended for long and was not told before: where it is. told_ns: when the last
 * one that was told began; 0 at first.
 */
void hints_hanging(struct engine *e, uint64_t until_ns, uint64_t *told_ns);
/* A name was asked for, and no span has got one: what was read is no text, or cannot be read. */
void hints_nameless(struct engine *e, size_t n, const struct profile *p);
/* A preset for another program is the likely reason why its functions are not there. */
void hints_strangers(const struct run_options *o, const struct preset *p);
/* The presets that are for the program of a process, when there are any. */
void hints_presets(pid_t pid);
/* A process that was named runs another program now. */
void hints_left(pid_t pid);
/* No process is left: says so when none of those that were named runs on as another program. */
void hints_gone(const struct run_options *o);
/* Much of the time is in functions that have no name, and what gives them one. */
void hints_symbols(const struct profile *p, bool debuginfod);
/* The kernel does not tell where its functions are. */
void hints_kernel_symbols(const struct run_options *o);
/* --debuginfod needs to be told which servers to ask. */
void hints_debuginfod(bool debuginfod);
/* Another process traces one that was attached, or is about to be detached. */
void hints_traced_at_start(pid_t pid);
void hints_traced_at_end(const struct run_options *o);

#endif
