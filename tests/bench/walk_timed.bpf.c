/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk_timed.bpf.c: bpf_get_stack's walk of the frame pointers again, which tells of each walk how long it
 * took and what it found: it shows how many of them get to a frame, and what those cost.
 */
#include "walk_timed.h"

#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk_timed);
} walk_buffer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} walk_ring SEC(".maps");

SEC("perf_event")
int walk_and_tell(void *ctx)
{
	__u32 zero = 0;
	struct walk_timed *w = bpf_map_lookup_elem(&walk_buffer, &zero);
	__u64 start;

	if (!w)
		return 0;
	start = bpf_ktime_get_ns();
	w->bytes = bpf_get_stack(ctx, w->frames, sizeof(w->frames), BPF_F_USER_STACK);
	w->ns = bpf_ktime_get_ns() - start;
	bpf_ringbuf_output(&walk_ring, w, sizeof(*w), BPF_RB_NO_WAKEUP);
	return 0;
}
