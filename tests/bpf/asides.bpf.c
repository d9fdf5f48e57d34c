/* SPDX-License-Identifier: Apache-2.0 */
/* asides.bpf.c: for test_aside.c: more programs than are loaded aside, and one that the verifier refuses. */
#include <linux/bpf.h>
/* it uses the types of the above */
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} cells SEC(".maps");

static __always_inline int count(void)
{
	__u32 zero = 0;
	__u64 *cell = bpf_map_lookup_elem(&cells, &zero);

	if (cell)
		__sync_fetch_and_add(cell, 1);
	return 0;
}

#define GOOD(section, name)     \
	SEC(section)            \
	int name(void *ctx)     \
	{                       \
		return count(); \
	}

GOOD("perf_event", tick_0)
GOOD("perf_event", tick_1)
GOOD("uprobe", probe_0)
GOOD("uprobe", probe_1)
GOOD("uprobe", probe_2)

/* Refused where it may not sleep. */
#define SLEEPER(name)                                   \
	SEC("uprobe.s")                                 \
	int name(void *ctx)                             \
	{                                               \
		char c;                                 \
                                                        \
		bpf_copy_from_user(&c, sizeof(c), ctx); \
		return count();                         \
	}

SLEEPER(sleeper_0)
SLEEPER(sleeper_1)
SLEEPER(sleeper_2)
SLEEPER(sleeper_3)

SEC("?uprobe")
int refused(void *ctx)
{
	return *(int *)(long)bpf_ktime_get_ns();
}
