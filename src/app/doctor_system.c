/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_system.c: the kernel, the capabilities and the limits that spanprof runs with. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "app/doctor.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "code/kallsyms.h"
#include "pipe/kern.h"
#include "probe/attach.h"
#include "probe/rules.h"
#include "proc/process.h"

#define GROUP "system"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF     39
#endif

static bool read_small(const char *path, char *buf, size_t n)
{
	AUTO_FREE char *data = NULL;
	size_t bytes;

	if (read_file(AT_FDCWD, path, 4096, &data, &bytes) < 0)
		return false;
	data[strcspn(data, "\n")] = '\0';
	snprintf(buf, n, "%s", data);
	return true;
}

static void check_kernel(struct doctor *d)
{
	struct utsname u;

	uname(&u);
	doctor_add(d, FINDING_OK, GROUP, "kernel", NULL, "%s %s", u.release, u.machine);
	if (access("/sys/kernel/btf/vmlinux", R_OK) == 0)
		doctor_add(d, FINDING_OK, GROUP, "kernel types (BTF)", NULL, "there");
	else
		doctor_add(d, FINDING_FAIL, GROUP, "kernel types (BTF)",
			   "use a kernel that is built with CONFIG_DEBUG_INFO_BTF",
			   "/sys/kernel/btf/vmlinux: %s", strerror(errno));
}

static const struct {
	unsigned int bit;
	const char *name;
	enum finding_level missing;
	const char *use;
} capabilities[] = {
	{CAP_BPF, "CAP_BPF", FINDING_FAIL, "loads the BPF programs"},
	{CAP_PERFMON, "CAP_PERFMON", FINDING_FAIL, "attaches probes and the clock"},
	{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", FINDING_WARN,
	 "looks at the files and maps of other users' processes"},
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", FINDING_WARN, "reads files of other users"},
	{CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", FINDING_NOTE,
	 "opens deleted files of other processes (/proc/PID/map_files)"},
};

static void check_capabilities(struct doctor *d)
{
	uint64_t have = process_own_capabilities();
	bool admin = have & (1ULL << CAP_SYS_ADMIN);

	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		bool by_admin = admin && (capabilities[i].bit == CAP_BPF ||
					  capabilities[i].bit == CAP_PERFMON ||
					  capabilities[i].bit == CAP_CHECKPOINT_RESTORE);

		if (have & (1ULL << capabilities[i].bit) || by_admin)
			doctor_add(d, FINDING_OK, GROUP, capabilities[i].name, NULL, "%s",
				   capabilities[i].use);
		else
			doctor_add(
				d, capabilities[i].missing, GROUP, capabilities[i].name,
				"run as root, or give it with setcap or the container's settings",
				"missing: %s", capabilities[i].use);
	}
}

static void check_limits(struct doctor *d)
{
	struct rlimit files, locked;
	char text[256];

	if (read_small("/proc/sys/kernel/perf_event_paranoid", text, sizeof(text)))
		doctor_add(d, FINDING_OK, GROUP, "perf_event_paranoid", NULL,
			   "%s (does not matter with CAP_PERFMON)", text);
	else
		doctor_add(d, FINDING_FAIL, GROUP, "perf_event_paranoid",
			   "use a kernel that is built with CONFIG_PERF_EVENTS",
			   "there are no perf events");
	if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0)
		doctor_add(d, FINDING_OK, GROUP, "memlock", NULL,
			   "%s (does not matter: BPF memory is counted by the control group)",
			   locked.rlim_cur == RLIM_INFINITY ? "unlimited" : "limited");
	if (read_small("/sys/kernel/security/lockdown", text, sizeof(text)) &&
	    strstr(text, "[confidentiality]"))
		doctor_add(d, FINDING_FAIL, GROUP, "lockdown",
			   "boot with lockdown=integrity or without lockdown",
			   "mode confidentiality: BPF programs may not read memory");
	else
		doctor_add(d, FINDING_OK, GROUP, "lockdown", NULL, "does not forbid BPF to read");
	if (read_small("/proc/self/status", text, sizeof(text)) &&
	    getrlimit(RLIMIT_NOFILE, &files) == 0)
		doctor_add(d, files.rlim_max < 4096 ? FINDING_WARN : FINDING_OK, GROUP,
			   "open files",
			   files.rlim_max < 4096 ? "raise the limit: each probe takes two" : NULL,
			   "limit %" PRIu64 ", hard %" PRIu64, (uint64_t)files.rlim_cur,
			   (uint64_t)files.rlim_max);
}

/* The capability, or a kernel that hides its addresses from everybody. */
static void check_kernel_symbols(struct doctor *d)
{
	const char *what = "kernel symbols";

	if (access("/proc/kallsyms", R_OK) != 0)
		doctor_add(d, FINDING_NOTE, GROUP, what,
			   "use a kernel that is built with CONFIG_KALLSYMS",
			   "kernel frames have no names: /proc/kallsyms: %s", strerror(errno));
	else if (kallsyms_is_hidden("/proc/kallsyms"))
		doctor_add(d, FINDING_NOTE, GROUP, what, KALLSYMS_REMEDY,
			   "kernel frames have no names: its addresses are hidden");
	else
		doctor_add(d, FINDING_OK, GROUP, what, NULL, "there");
}

static void check_namespace(struct doctor *d)
{
	if (process_numbers_are_initial())
		doctor_add(d, FINDING_OK, GROUP, "PID namespace", NULL, "the initial one");
	else
		doctor_add(
			d, FINDING_FAIL, GROUP, "PID namespace",
			"run with the host's PID namespace (docker run --pid=host)",
			"not the initial one: processes are followed by numbers of the initial one");
}

static void check_seccomp(struct doctor *d)
{
	AUTO_FREE char *data = NULL;
	const char *line;
	size_t bytes;

	if (read_file(AT_FDCWD, "/proc/self/status", 16384, &data, &bytes) < 0)
		return;
	line = strstr(data, "\nSeccomp:");
	if (line && strtol(line + 9, NULL, 10) != 0)
		doctor_add(d, FINDING_NOTE, GROUP, "seccomp",
			   "allow bpf and perf_event_open in its profile if attaching fails",
			   "a system call filter is in force");
	else
		doctor_add(d, FINDING_OK, GROUP, "seccomp", NULL, "no filter");
}

static void check_cost(struct doctor *d, const struct attach_source *source)
{
	struct rules_cost cost;

	rules_measure_cost(source, &cost);
	if (!cost.push_ns) {
		doctor_add(d, FINDING_FAIL, GROUP, "probe cost",
			   "see the messages of 'spanprof run' on a process",
			   "a probe on this program itself could not be attached");
		return;
	}
	doctor_add(d, FINDING_OK, GROUP, "probe cost", NULL,
		   "%" PRIu64 " ns on a cheap instruction, %" PRIu64 " ns single-stepped, %" PRIu64
		   " ns on a long nop",
		   cost.push_ns, cost.stepped_ns, cost.long_nop_ns);
}

enum { CLOCK_PERIOD_NS = 10000000 };

static void check_clock(struct doctor *d, struct kern *k)
{
	struct errmsg e = {""};

	if (kern_sampling(k, CLOCK_PERIOD_NS, &e) < 0)
		doctor_add(d, FINDING_FAIL, GROUP, "CPU clock",
			   "see perf_event_paranoid, CAP_PERFMON and seccomp above", "%s", e.text);
	else
		doctor_add(d, FINDING_OK, GROUP, "CPU clock", NULL, "ticks");
	kern_sampling(k, 0, NULL);
}

/* Loads the programs and probes a function of our own. */
static void check_programs(struct doctor *d)
{
	struct attach_source source;
	struct site_rules rules;
	struct probe_programs programs;
	struct kern *k = NULL;
	struct errmsg e = {""};
	int r = attach_source_read(&source, &e);

	if (r < 0) {
		doctor_add(d, FINDING_FAIL, GROUP, "uprobes",
			   r == -ENOENT ? "use a kernel that is built with CONFIG_UPROBE_EVENTS"
					: NULL,
			   "%s", e.text);
		return;
	}
	rules_measure(&source, &rules);
	doctor_add(d, FINDING_OK, GROUP, "uprobes", NULL, "there, as %s%s%s",
		   attach_source_name(&source),
		   source.has_ref_ctr ? ", with USDT semaphores"
				      : "; without USDT semaphores (Linux 4.20)",
		   rules.long_nops ? "; long nops are cheap" : "");
	r = kern_new(&k, &(struct kern_options){.multi_uprobes = source.multi}, &e);
	if (r < 0) {
		doctor_add(d, FINDING_FAIL, GROUP, "BPF programs", NULL, "%s",
			   e.text[0] ? e.text : strerror(-r));
		return;
	}
	kern_programs(k, &programs);
	doctor_add(d, FINDING_OK, GROUP, "BPF programs", NULL, "load and attach%s",
		   programs.enter_sleepable_fd >= 0
			   ? "; names are read from pages not mapped yet"
			   : "; names in pages not mapped yet are not read (needs Linux 6.0)");
	check_cost(d, &source);
	check_clock(d, k);
	kern_free(k);
}

void doctor_check_system(struct doctor *d)
{
	check_kernel(d);
	check_capabilities(d);
	check_limits(d);
	check_kernel_symbols(d);
	check_namespace(d);
	check_seccomp(d);
	check_programs(d);
}
