/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/loaderror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

static int cap_missing(uint64_t effective, int cap)
{
	const int cap_sys_admin = 21;

	return !(effective >> cap & 1) && !(effective >> cap_sys_admin & 1);
}

/* The names of the capabilities that this process lacks, "" when it has them. */
static const char *missing_capabilities(void)
{
	AUTO_FREE char *text = NULL;
	size_t bytes;
	const char *line;
	uint64_t effective;
	const int cap_perfmon = 38, cap_bpf = 39;

	if (read_file(AT_FDCWD, "/proc/self/status", 65536, &text, &bytes))
		return "";
	line = strstr(text, "CapEff:");
	if (!line)
		return "";
	effective = strtoull(line + strlen("CapEff:"), NULL, 16);
	if (cap_missing(effective, cap_bpf))
		return cap_missing(effective, cap_perfmon) ? "CAP_BPF and CAP_PERFMON" : "CAP_BPF";
	return cap_missing(effective, cap_perfmon) ? "CAP_PERFMON" : "";
}

const char *loaderror_reason(char *log)
{
	char *end = strstr(log, "\nprocessed "), *start;

	if (!end)
		end = log + strlen(log);
	while (end > log && end[-1] == '\n')
		end--;
	*end = '\0';
	start = strrchr(log, '\n');
	start = start ? start + 1 : log;
	return start[0] ? start : "no reason given";
}

int loaderror_explain(int r, char *log, struct errmsg *e)
{
	const char *missing = missing_capabilities();
	struct utsname u;

	if (missing[0])
		return errmsg_set(
			e, r,
			"cannot load the BPF programs: this needs %s; run as root, or give them to the program with setcap",
			missing);
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return errmsg_set(
			e, r,
			"cannot load the BPF programs: the kernel has no type information (/sys/kernel/btf/vmlinux): it must be built with CONFIG_DEBUG_INFO_BTF");
	if (r == -EPERM)
		return errmsg_set(
			e, r,
			"cannot load the BPF programs: not permitted, although the capabilities are there; see kernel lockdown (/sys/kernel/security/lockdown) and the container's seccomp profile");
	if (r == -ENOMEM)
		return errmsg_set(
			e, r,
			"cannot load the BPF programs: not enough memory; see the memory limit of the control group, or use a smaller ring");
	uname(&u);
	return errmsg_set(
		e, r,
		"cannot load the BPF programs: kernel %s refuses them (%s): %s; spanprof needs Linux 6.1 or later",
		u.release, strerror(-r), loaderror_reason(log));
}
