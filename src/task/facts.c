/* SPDX-License-Identifier: Apache-2.0 */
#include "task/facts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

enum {
	STAT_MAX = 1024,
	CMDLINE_MAX = 16 * 1024,
	CGROUP_MAX = 8 * 1024,
	ENVIRON_MAX = 128 * 1024, /* what is beyond is not looked at */
	EXE_MAX = 4096,
	CONTAINER_DIGITS = 64,
	CONTAINER_SHORT = 12,
};

int parse_facts_stat(const char *text, pid_t *ret_parent, char *ret_state, uint64_t *ret_start)
{
	enum { PARENT = 1, START = 19 }; /* numbers after the state */
	const char *p = strrchr(text, ')');
	long long parent = 0, v = 0;
	char state, *end;

	if (!p || p[1] != ' ' || !p[2])
		return -EINVAL;
	state = p[2];
	p += 3;
	for (int i = 1; i <= START; i++) {
		v = strtoll(p, &end, 10);
		if (end == p)
			return -EINVAL;
		p = end;
		if (i == PARENT)
			parent = v;
	}
	if (parent < 0 || parent > INT32_MAX || v < 0)
		return -EINVAL;
	*ret_parent = (pid_t)parent;
	*ret_state = state;
	*ret_start = (uint64_t)v;
	return 0;
}

/* At most n - 1 bytes of /proc/PID/name into buf, NUL-terminated. Bytes, or a negative errno. */
static ssize_t read_part(int proc_fd, pid_t pid, const char *name, char *buf, size_t n)
{
	AUTO_CLOSE int fd = -1;
	char path[64];
	size_t have = 0;

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (have < n - 1) {
		ssize_t got = read(fd, buf + have, n - 1 - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		have += got;
	}
	buf[have] = 0;
	return have;
}

int facts_read(int proc_fd, pid_t pid, struct facts *ret)
{
	char text[STAT_MAX], path[32], state;
	struct facts f = {.pid = pid};
	struct stat st;

	snprintf(path, sizeof(path), "%d", pid);
	if (fstatat(proc_fd, path, &st, 0) ||
	    read_part(proc_fd, pid, "stat", text, sizeof(text)) < 0)
		return -ESRCH;
	if (parse_facts_stat(text, &f.parent, &state, &f.start_ticks) || state == 'Z' ||
	    state == 'X')
		return -ESRCH;
	f.uid = st.st_uid;
	*ret = f;
	return 0;
}

void facts_deinit(struct facts *f)
{
	free(f->exe);
	free(f->cmdline);
	free(f->cgroup);
	free(f->environ);
	*f = (struct facts){};
}

static void read_exe(int proc_fd, struct facts *f)
{
	static const char deleted[] = " (deleted)";
	char path[32], buf[EXE_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "%d/exe", f->pid);
	n = readlinkat(proc_fd, path, buf, sizeof(buf) - 1);
	if (n <= 0)
		return;
	buf[n] = 0;
	if ((size_t)n > strlen(deleted) && !strcmp(buf + n - strlen(deleted), deleted))
		buf[n - strlen(deleted)] = 0;
	f->exe = strdup(buf);
}

static void read_cmdline(int proc_fd, struct facts *f)
{
	AUTO_FREE char *buf = calloc(1, CMDLINE_MAX);
	ssize_t n = buf ? read_part(proc_fd, f->pid, "cmdline", buf, CMDLINE_MAX) : 0;

	if (n <= 0)
		return;
	while (n && !buf[n - 1])
		n--;
	for (ssize_t i = 0; i < n; i++)
		if ((unsigned char)buf[i] < 0x20 || buf[i] == 0x7f)
			buf[i] = ' ';
	buf[n] = 0;
	f->cmdline = strdup(buf);
}

/* Lines are "hierarchy:controllers:path"; "0::path" is the unified one. */
static void read_cgroup(int proc_fd, struct facts *f)
{
	AUTO_FREE char *buf = malloc(CGROUP_MAX);
	char *line, *rest = buf, *first = NULL;

	if (!buf || read_part(proc_fd, f->pid, "cgroup", buf, CGROUP_MAX) <= 0)
		return;
	while ((line = strsep(&rest, "\n"))) {
		char *colon = strchr(line, ':');
		char *path = colon ? strchr(colon + 1, ':') : NULL;

		if (!path)
			continue;
		if (!first || (!strncmp(line, "0::", 3) && path[1] && strcmp(path + 1, "/")))
			first = path + 1;
	}
	if (first)
		f->cgroup = strdup(first);
}

static void read_environ(int proc_fd, struct facts *f)
{
	AUTO_FREE char *buf = malloc(ENVIRON_MAX);
	ssize_t n = buf ? read_part(proc_fd, f->pid, "environ", buf, ENVIRON_MAX) : 0;
	char *fitted;

	if (n <= 0)
		return;
	fitted = realloc(buf, n + 1);
	f->environ = fitted ? fitted : buf;
	f->environ_bytes = n;
	buf = NULL;
}

void facts_need(int proc_fd, struct facts *f, unsigned int parts)
{
	parts &= ~f->have;
	f->have |= parts;
	if (parts & FACTS_EXE)
		read_exe(proc_fd, f);
	if (parts & FACTS_CMDLINE)
		read_cmdline(proc_fd, f);
	if (parts & FACTS_CGROUP)
		read_cgroup(proc_fd, f);
	if (parts & FACTS_ENVIRON)
		read_environ(proc_fd, f);
}

const char *facts_env(const struct facts *f, const char *name)
{
	size_t n = strlen(name), off = 0;

	while (off < f->environ_bytes) {
		const char *entry = f->environ + off;

		if (!strncmp(entry, name, n) && entry[n] == '=')
			return entry + n + 1;
		off += strlen(entry) + 1;
	}
	return NULL;
}

struct facts_program facts_program(int proc_fd, pid_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "%d/exe", pid);
	if (fstatat(proc_fd, path, &st, 0))
		return (struct facts_program){};
	return (struct facts_program){.dev = st.st_dev, .ino = st.st_ino};
}

bool facts_same_program(struct facts_program a, struct facts_program b)
{
	return a.ino && a.ino == b.ino && a.dev == b.dev;
}

const char *facts_exe_base(const struct facts *f)
{
	return text_base_name(f->exe ? f->exe : "");
}

void facts_cgroup_id(const struct facts *f, char *buf, size_t n)
{
	const char *path = f->cgroup ? f->cgroup : "", *id = NULL, *last;
	size_t run = 0;

	for (const char *p = path; *p; p++) {
		run = isxdigit((unsigned char)*p) ? run + 1 : 0;
		if (run == CONTAINER_DIGITS && !isxdigit((unsigned char)p[1]))
			id = p + 1 - CONTAINER_DIGITS;
	}
	if (id) {
		snprintf(buf, n, "%.*s", CONTAINER_SHORT, id);
		return;
	}
	last = strrchr(path, '/');
	snprintf(buf, n, "%s", last ? last + 1 : path);
}
