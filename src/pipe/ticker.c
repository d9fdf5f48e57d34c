/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/ticker.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum { CPU_MAX = 1 << 20 };

size_t parse_cpus_end(const char *list)
{
	const char *last = list;
	unsigned long cpu;
	char *end;

	for (const char *c = list; *c; c++)
		if (*c == '-' || *c == ',')
			last = c + 1;
	errno = 0;
	cpu = strtoul(last, &end, 10);
	return errno || end == last || cpu > CPU_MAX ? 0 : cpu + 1;
}

size_t ticker_cpus_end(size_t n_possible)
{
	AUTO_FREE char *list = NULL;
	size_t bytes, end;

	if (read_file(AT_FDCWD, "/sys/devices/system/cpu/online", 4096, &list, &bytes))
		return n_possible;
	end = parse_cpus_end(list);
	return end && end < n_possible ? end : n_possible;
}

int ticker_init(struct ticker *t, struct bpf_program *program, size_t n_cpus)
{
	*t = (struct ticker){.program = program, .n_cpus = n_cpus};
	t->links = calloc(n_cpus, sizeof(struct bpf_link *));
	t->fds = calloc(n_cpus, sizeof(*t->fds));
	return t->links && t->fds ? 0 : -ENOMEM;
}

static void close_all(struct ticker *t)
{
	for (size_t i = 0; t->links && i < t->n_cpus; i++) {
		bpf_link__destroy(t->links[i]);
		t->links[i] = NULL;
	}
	t->period_ns = 0;
}

void ticker_deinit(struct ticker *t)
{
	close_all(t);
	free((void *)t->links);
	free(t->fds);
	*t = (struct ticker){};
}

static int open_one(struct ticker *t, size_t cpu, uint64_t period_ns)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns,
		.exclude_idle = 1,
	};
	AUTO_CLOSE int fd =
		(int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return errno == ENODEV ? 0 : -errno; /* the CPU is offline */
	t->links[cpu] = bpf_program__attach_perf_event(t->program, fd);
	if (!t->links[cpu])
		return -errno;
	t->fds[cpu] = TAKE_FD(fd);
	return 0;
}

static int change_all(struct ticker *t, uint64_t period_ns)
{
	for (size_t i = 0; i < t->n_cpus; i++) {
		if (t->links[i] && ioctl(t->fds[i], PERF_EVENT_IOC_PERIOD, &period_ns))
			return -errno;
	}
	return 0;
}

int ticker_set(struct ticker *t, uint64_t period_ns, struct errmsg *e)
{
	int r = 0;

	if (period_ns == t->period_ns)
		return 0;
	if (!period_ns) {
		close_all(t);
		return 0;
	}
	if (t->period_ns)
		r = change_all(t, period_ns);
	for (size_t i = 0; !t->period_ns && !r && i < t->n_cpus; i++)
		r = open_one(t, i, period_ns);
	if (r) {
		close_all(t);
		return errmsg_set(
			e, r,
			"cannot open the CPU clock at a period of %" PRIu64
			" ns: %s; see /proc/sys/kernel/perf_event_paranoid and CAP_PERFMON",
			period_ns, strerror(-r));
	}
	t->period_ns = period_ns;
	return 0;
}
