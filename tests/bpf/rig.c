/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/unit.h"

/* clang-format off */
__asm__(
	".text\n"
	".globl rig_call, rig_site, rig_call_other, rig_site_other\n"
	".type rig_call, @function\n"
	"rig_call:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"rig_site:\n"
	"	nop\n"
	"	pop %rbp\n"
	"	ret\n"
	".size rig_call, . - rig_call\n"
	".type rig_call_other, @function\n"
	"rig_call_other:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"rig_site_other:\n"
	"	nop\n"
	"	pop %rbp\n"
	"	ret\n"
	".size rig_call_other, . - rig_call_other\n");
/* clang-format on */

void rig_open(struct rig *rig, const struct kern_options *options)
{
	struct kern_options o = options ? *options : (struct kern_options){.ring_bytes = 0};
	struct errmsg e;

	memset(rig, 0, sizeof(*rig));
	if (geteuid()) {
		print_message("needs root\n");
		skip();
	}
	if (attach_source_read(&rig->source, &e))
		fail_msg("%s", e.text);
	o.multi_uprobes = rig->source.multi;
	if (kern_new(&rig->kern, &o, &e))
		fail_msg("%s", e.text);
	kern_programs(rig->kern, &rig->programs);
}

void rig_close(struct rig *rig)
{
	probe_detach_all(rig->probes, rig->n_probes);
	rig->kern = kern_free(rig->kern);
	for (size_t i = 0; i < rig->events.n; i++)
		free((void *)rig->events.at[i].h);
	vec_free(&rig->events);
}

/* The offset in the executable's file of an address in it. */
struct place {
	uintptr_t at;
	uint64_t off;
};

static int find_place(struct dl_phdr_info *info, size_t size, void *data)
{
	struct place *p = data;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && p->at >= start && p->at < start + ph->p_filesz) {
			p->off = p->at - start + ph->p_offset;
			return 1;
		}
	}
	return 0;
}

void rig_attach(struct rig *rig, int program_fd, const void *at, uint64_t cookie)
{
	AUTO_CLOSE int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct place place = {.at = (uintptr_t)at};
	struct attach_point point = {
		.file_fd = fd, .pid = -1, .program_fd = program_fd, .cookie = cookie};
	struct errmsg e;

	assert_true(fd >= 0);
	assert_int_equal(dl_iterate_phdr(find_place, &place), 1);
	point.file_off = place.off;
	assert_true(rig->n_probes < RIG_PROBES_MAX);
	if (probe_attach(&rig->source, &point, &rig->probes[rig->n_probes++], &e))
		fail_msg("%s", e.text);
}

int rig_uretprobe(const struct rig *rig, const void *at)
{
	struct place place = {.at = (uintptr_t)at};
	struct perf_event_attr attr = {.size = sizeof(attr), .type = rig->source.type};
	int fd;

	assert_int_equal(dl_iterate_phdr(find_place, &place), 1);
	attr.config = 1ULL << rig->source.retprobe_bit;
	attr.uprobe_path = (uintptr_t) "/proc/self/exe";
	attr.probe_offset = place.off;
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void mark_site(struct rig *rig, const void *site)
{
	struct wire_site_key key = {.ret_addr = (uintptr_t)site, .as_id = RIG_AS};
	uint32_t state = WIRE_SITE_ATTACHED;

	assert_int_equal(bpf_map_update_elem(rig->programs.return_sites_fd, &key, &state, BPF_ANY),
			 0);
}

void rig_endpoint(struct rig *rig, uint32_t ep_id, long (*fn)(void *arg),
		  const struct wire_endpoint *config)
{
	static const struct wire_endpoint plain;
	const struct wire_member member = {.instance_id = RIG_INSTANCE, .as_id = RIG_AS};

	if (!config)
		config = &plain;
	assert_int_equal(bpf_map_update_elem(rig->programs.endpoints_fd, &ep_id, config, BPF_ANY),
			 0);
	assert_int_equal(kern_member_set(rig->kern, getpid(), &member), 0);
	if (!rig->n_probes) {
		rig_attach(rig, rig->programs.leave_fd, rig_site, 0);
		mark_site(rig, rig_site);
	}
	rig_attach(rig, rig->programs.enter_fd, (const void *)(uintptr_t)fn,
		   WIRE_COOKIE(ep_id, 0, 0) | WIRE_COOKIE_F_WIDE);
}

void rig_gate(struct rig *rig, uint32_t ep_id, uint64_t threshold_ns, uint64_t period_ns)
{
	const struct wire_gate_key key = {ep_id, RIG_INSTANCE};
	const struct wire_gate gate = {
		.threshold_ns = threshold_ns,
		.sample_after_ns = threshold_ns,
		.period_ns = period_ns,
		.enabled = 1,
	};
	struct errmsg e;

	if (kern_gate_set(rig->kern, &key, &gate, &e))
		fail_msg("%s", e.text);
}

static int keep(void *ctx, const void *data, size_t bytes)
{
	struct rig *rig = ctx;
	struct event event;
	void *copy = malloc(bytes);

	assert_non_null(copy);
	memcpy(copy, data, bytes);
	assert_int_equal(decode_record(copy, bytes, &event), DECODE_OK);
	assert_int_equal(vec_push(&rig->events, event), 0);
	return 0;
}

void rig_drain(struct rig *rig)
{
	assert_true(kern_poll(rig->kern, 0, keep, rig) >= 0);
}

const struct event *rig_event(const struct rig *rig, enum wire_kind kind, size_t i)
{
	for (size_t j = 0; j < rig->events.n; j++) {
		if (rig->events.at[j].h->kind == kind && !i--)
			return &rig->events.at[j];
	}
	return NULL;
}

size_t rig_count(const struct rig *rig, enum wire_kind kind)
{
	size_t n = 0;

	while (rig_event(rig, kind, n))
		n++;
	return n;
}

uint64_t rig_counter(struct rig *rig, enum wire_counter id)
{
	assert_int_equal(kern_counters(rig->kern, &rig->counters), 0);
	return rig->counters.v[id];
}

struct latency rig_latency(const struct rig *rig, uint32_t ep_id)
{
	struct latency l;

	assert_int_equal(kern_latency(rig->kern, ep_id, &l), 0);
	return l;
}

const struct event *rig_event_of(const struct rig *rig, enum wire_kind kind, uint32_t tid)
{
	const struct event *e;

	for (size_t i = 0; (e = rig_event(rig, kind, i)); i++) {
		if (e->h->tid == tid)
			return e;
	}
	return NULL;
}

uint64_t rig_duration(const struct event *end)
{
	const struct wire_wall *wall = &end->end->wall;
	uint64_t ns = end->h->mono_ns - end->end->start_ns;

	assert_int_equal(wall->oncpu_ns + wall->runq_ns + wall->blocked_ns, ns);
	return ns;
}

pid_t rig_child(int (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(fn(arg));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return pid;
}

void rig_spin(uint64_t ns)
{
	uint64_t end = clock_mono_ns() + ns;

	while (clock_mono_ns() < end)
		;
}

void rig_sleep(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}
