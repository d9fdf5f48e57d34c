/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h: the BPF programs loaded around functions of the test's own process.
 *
 * The functions are called through rig_call, whose return site is known, or through rig_call_other,
 * which has another. Records are kept in the order in which they came.
 */
#ifndef SPANPROF_TESTS_BPF_RIG_H
#define SPANPROF_TESTS_BPF_RIG_H

#include "base/vec.h"
#include "model/decode.h"
#include "pipe/kern.h"
#include "probe/attach.h"
#include "probe/detach.h"

enum { RIG_INSTANCE = 7, RIG_AS = 3, RIG_PROBES_MAX = 16 };

struct rig {
	struct kern *kern;
	struct probe_programs programs;
	struct attach_source source;
	struct attachment probes[RIG_PROBES_MAX];
	size_t n_probes;
	VEC(struct event) events; /* each one's h is owned */
	struct counters counters; /* as read by rig_counters */
};

/* Calls fn(arg); the call's return address is rig_site (rig_site_other). */
long rig_call(long (*fn)(void *arg), void *arg);
long rig_call_other(long (*fn)(void *arg), void *arg);
extern const char rig_site[], rig_site_other[];

/* Skips the test when the programs cannot be loaded here for want of rights. */
void rig_open(struct rig *rig, const struct kern_options *options);
void rig_close(struct rig *rig);

/* Attaches a program at an address of this process's executable. */
void rig_attach(struct rig *rig, int program_fd, const void *at, uint64_t cookie);
/* A uretprobe, as another program has it, on a function here; its file descriptor. */
int rig_uretprobe(const struct rig *rig, const void *at);
/* An endpoint that enters at fn and leaves at rig_site; this process becomes a member. */
void rig_endpoint(struct rig *rig, uint32_t ep_id, long (*fn)(void *arg),
		  const struct wire_endpoint *config);
void rig_gate(struct rig *rig, uint32_t ep_id, uint64_t threshold_ns, uint64_t period_ns);

/* Takes all records there are. */
void rig_drain(struct rig *rig);
/* The i-th record of a kind, NULL: there are fewer. */
const struct event *rig_event(const struct rig *rig, enum wire_kind kind, size_t i);
size_t rig_count(const struct rig *rig, enum wire_kind kind);
uint64_t rig_counter(struct rig *rig, enum wire_counter id);
struct latency rig_latency(const struct rig *rig, uint32_t ep_id);

/* A record of the given kind whose header has this tid, NULL: there is none. */
const struct event *rig_event_of(const struct rig *rig, enum wire_kind kind, uint32_t tid);

/* Asserts that the end's three parts add up to its duration, and returns that. */
uint64_t rig_duration(const struct event *end);

/* Runs fn in a forked child, which exits with its result; waits for it. */
pid_t rig_child(int (*fn)(void *arg), void *arg);

/* Uses the CPU, or sleeps, for at least this long. */
void rig_spin(uint64_t ns);
void rig_sleep(uint64_t ns);

#endif
