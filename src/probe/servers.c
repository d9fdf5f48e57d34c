/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/servers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/glob.h"
#include "base/text.h"
#include "base/vec.h"
#include "proc/process.h"

static bool is_one_of(const struct preset_values *globs, const char *path)
{
	for (size_t i = 0; i < globs->n; i++)
		if (glob_match(globs->at[i], text_base_name(path)))
			return true;
	return false;
}

bool preset_is_for(const struct preset *p, const char *path)
{
	return is_one_of(&p->exes, path);
}

bool preset_is_in(const struct preset *p, const char *path)
{
	return is_one_of(&p->libraries, path);
}

bool servers_have(const struct servers *s, dev_t dev, ino_t ino)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->at[i].dev == dev && s->at[i].ino == ino)
			return true;
	return false;
}

/* A process that has ended meanwhile is none. */
static int add_server(struct servers *s, pid_t pid, const char *path)
{
	char link[40];
	AUTO_CLOSE int fd = -1;
	AUTO_FREE char *copy = strdup(path);
	struct stat st;
	int r;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (!copy)
		return -ENOMEM;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return -errno;
	if (fd < 0 || fstat(fd, &st) < 0 || servers_have(s, st.st_dev, st.st_ino))
		return 0;
	r = vec_push(s,
		     (struct server){.fd = fd, .dev = st.st_dev, .ino = st.st_ino, .path = copy});
	if (r < 0)
		return r;
	(void)TAKE_FD(fd);
	(void)TAKE_PTR(copy);
	return 0;
}

/* Kernel threads have no executable for anybody. */
static bool is_kernel_thread(const struct process *p)
{
	enum { KTHREADD = 2 };

	return p->pid == KTHREADD || p->parent == KTHREADD;
}

/* What only the process's owner or root may look at: its name, up to 15 bytes, anybody may. */
struct hidden {
	size_t n;
	pid_t alike; /* one that is named like a server of the preset; 0: none */
};

static void note_hidden(struct hidden *h, const struct preset *p, const struct process *one)
{
	char link[40], byte;

	snprintf(link, sizeof(link), "/proc/%d/exe", one->pid);
	if (is_kernel_thread(one) || readlink(link, &byte, 1) >= 0 ||
	    (errno != EACCES && errno != EPERM))
		return;
	h->n++;
	if (!h->alike && preset_is_for(p, one->comm))
		h->alike = one->pid;
}

static int none_runs(const struct preset *p, const struct hidden *h, struct errmsg *e)
{
	static const char remedy[] =
		"run as root, or give spanprof CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH with setcap";

	if (h->alike)
		return errmsg_set(e, -EACCES,
				  "preset '%s': process %d is a '%s', but may not be looked at; %s",
				  p->name, h->alike, p->exes.at[0], remedy);
	/* Root may look at nearly all, and has nobody to become. */
	if (h->n && geteuid() != 0)
		return errmsg_set(
			e, -EACCES,
			"preset '%s': no process that may be looked at runs %s, and %zu may not; %s",
			p->name, p->exes.at[0], h->n, remedy);
	return errmsg_set(
		e, -ENOENT,
		"preset '%s': no process runs %s here; start it, or name the process with -p PID",
		p->name, p->exes.at[0]);
}

int servers_find(const struct preset *p, struct servers *ret, struct errmsg *e)
{
	CLEANUP(process_list_deinit) struct process_list all = {};
	struct hidden hidden = {};
	char path[PROCESS_PATH_MAX];
	int r;

	*ret = (struct servers){};
	if (p->exes.n == 0)
		return errmsg_set(
			e, -ENOENT,
			"preset '%s' is for a library inside other programs: name the process with -p PID or --exe PATH",
			p->name);
	r = process_scan(&all);
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		if (servers_have(ret, all.at[i].exe_dev, all.at[i].exe_ino))
			continue;
		note_hidden(&hidden, p, &all.at[i]);
		process_exe_path(all.at[i].pid, path, sizeof(path));
		if (preset_is_for(p, path))
			r = add_server(ret, all.at[i].pid, path);
	}
	if (r < 0)
		return errmsg_set(e, r, "preset '%s': cannot look for its processes: %s", p->name,
				  strerror(-r));
	return ret->n ? 0 : none_runs(p, &hidden, e);
}

void servers_deinit(struct servers *s)
{
	for (size_t i = 0; i < s->n; i++) {
		close(s->at[i].fd);
		free(s->at[i].path);
	}
	vec_free(s);
}
