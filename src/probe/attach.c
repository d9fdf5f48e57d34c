/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "probe/apart.h"
#include "probe/multi.h"

#define UPROBE_SOURCE "/sys/bus/event_source/devices/uprobe/"

static int read_text(const char *path, char *buf, size_t max)
{
	AUTO_FREE char *data = NULL;
	size_t n;
	int r = read_file(AT_FDCWD, path, 4096, &data, &n);

	if (r == 0)
		snprintf(buf, max, "%s", data);
	return r;
}

/* "6", or with a prefix "config:32-63": the number behind it. */
static bool read_number(const char *path, const char *prefix, uint32_t *ret)
{
	size_t n = strlen(prefix);
	char text[64], *end;
	unsigned long v;

	if (read_text(path, text, sizeof(text)) < 0 || strncmp(text, prefix, n) != 0)
		return false;
	errno = 0;
	v = strtoul(text + n, &end, 10);
	*ret = (uint32_t)v;
	return errno == 0 && end > text + n && v <= UINT32_MAX;
}

static int read_perf_source(struct attach_source *s, struct errmsg *e)
{
	if (!read_number(UPROBE_SOURCE "type", "", &s->type))
		return errmsg_set(
			e, -ENOENT,
			"cannot probe functions: %stype cannot be read; the kernel needs CONFIG_UPROBE_EVENTS (Linux 4.17 or later) and /sys mounted",
			UPROBE_SOURCE);
	if (!read_number(UPROBE_SOURCE "format/retprobe", "config:", &s->retprobe_bit))
		s->retprobe_bit = 0;
	s->has_ref_ctr =
		read_number(UPROBE_SOURCE "format/ref_ctr_offset", "config:", &s->ref_ctr_shift) &&
		s->ref_ctr_shift < 64;
	return 0;
}

int attach_source_read(struct attach_source *ret, struct errmsg *e)
{
	const char *wish = secure_getenv("SPANPROF_UPROBES");
	struct attach_source s = {.multi = false};
	int r;

	if (wish && strcmp(wish, "link") != 0 && strcmp(wish, "perf") != 0)
		return errmsg_set(
			e, -EINVAL,
			"environment variable SPANPROF_UPROBES: '%.40s' is not known: link or perf",
			wish);
	r = read_perf_source(&s, e);
	s.multi = !(wish && wish[0] == 'p') && multi_is_there();
	if (s.multi)
		s.has_ref_ctr = true;
	else if (wish && wish[0] == 'l')
		return errmsg_set(
			e, -EOPNOTSUPP,
			"environment variable SPANPROF_UPROBES: the kernel has no uprobe_multi links (Linux 6.6), or does not let this process make them");
	else if (r < 0)
		return r;
	*ret = s;
	return 0;
}

const char *attach_source_name(const struct attach_source *source)
{
	return source->multi ? "links (uprobe_multi)" : "perf events";
}

static int open_event(const struct attach_source *source, const struct attach_point *at,
		      int *ret_fd)
{
	char path[32];
	struct perf_event_attr attr = {.size = sizeof(attr), .type = source->type};
	long fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", at->file_fd);
	attr.uprobe_path = (uint64_t)(uintptr_t)path;
	attr.probe_offset = at->file_off;
	if (at->retprobe)
		attr.config |= 1ULL << source->retprobe_bit;
	if (at->semaphore_off) {
		if (!source->has_ref_ctr || at->semaphore_off > UINT32_MAX)
			return -EOPNOTSUPP;
		attr.config |= at->semaphore_off << source->ref_ctr_shift;
	}
	fd = syscall(SYS_perf_event_open, &attr, at->pid, at->pid == -1 ? 0 : -1, -1,
		     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = (int)fd;
	return 0;
}

static int explain(const struct attach_point *at, const char *what, int r, struct errmsg *e)
{
	const char *hint = "";

	if (r == -EPERM || r == -EACCES)
		hint = "; CAP_PERFMON and CAP_BPF (or root) are needed, and a kernel that is not locked down";
	else if (r == -ENOTSUP || r == -EINVAL || r == -524 /* the kernel's own ENOTSUPP */)
		hint = "; the kernel does not accept a probe on this instruction or file";
	else if (r == -EMFILE || r == -ENFILE)
		hint = "; raise the limit of open files (ulimit -n)";
	else if (r == -ESRCH)
		hint = "; the process is gone";
	return errmsg_set(e, r == -524 ? -ENOTSUP : r,
			  "cannot attach a probe at file offset 0x%" PRIx64 ": %s: %s%s",
			  at->file_off, what, r == -524 ? "not supported" : strerror(-r), hint);
}

static int attach_one(const struct attach_source *source, const struct attach_point *at,
		      struct attachment *ret, struct errmsg *e)
{
	AUTO_CLOSE int perf_fd = -1;
	int link_fd, r;

	if (source->multi) {
		r = multi_attach(at);
		link_fd = r;
		if (r < 0)
			return explain(at, "bpf_link_create", r, e);
		*ret = (struct attachment){.perf_fd = -1, .link_fd = link_fd};
		return 0;
	}
	r = open_event(source, at, &perf_fd);
	if (r < 0)
		return explain(at, "perf_event_open", r, e);
	DECLARE_LIBBPF_OPTS(bpf_link_create_opts, opts);
	opts.perf_event.bpf_cookie = at->cookie;
	link_fd = bpf_link_create(at->program_fd, perf_fd, BPF_PERF_EVENT, &opts);
	if (link_fd < 0)
		return explain(at, "bpf_link_create", link_fd, e);
	if (ioctl(perf_fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
		r = -errno;
		close(link_fd);
		return explain(at, "enabling the event", r, e);
	}
	*ret = (struct attachment){.perf_fd = TAKE_FD(perf_fd), .link_fd = link_fd};
	return 0;
}

struct attach_job {
	const struct attach_source *source;
	const struct attach_point *at;
	const struct attach_batch *batch;
	struct attachment *ret;
	struct errmsg *e;
};

static int do_attach(void *ctx)
{
	const struct attach_job *j = ctx;

	return attach_one(j->source, j->at, j->ret, j->e);
}

int probe_attach(const struct attach_source *source, const struct attach_point *at,
		 struct attachment *ret, struct errmsg *e)
{
	struct attach_job job = {.source = source, .at = at, .ret = ret, .e = e};

	return apart_run(do_attach, &job);
}

static int do_attach_batch(void *ctx)
{
	const struct attach_job *j = ctx;

	return multi_attach_batch(j->batch);
}

int probe_attach_batch(const struct attach_source *source, const struct attach_batch *batch,
		       struct attachment *ret)
{
	struct attach_job job = {.batch = batch};
	int link_fd = source->multi ? apart_run(do_attach_batch, &job) : -EOPNOTSUPP;

	if (link_fd < 0)
		return link_fd;
	*ret = (struct attachment){.perf_fd = -1, .link_fd = link_fd};
	return 0;
}

void probe_silence(struct attachment *a)
{
	if (a->link_fd >= 0)
		close(a->link_fd);
	a->link_fd = -1;
}

void probe_detach(struct attachment *a)
{
	probe_silence(a);
	if (a->perf_fd >= 0)
		close(a->perf_fd);
	*a = ATTACHMENT_NONE;
}
