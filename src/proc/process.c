/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/process.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/units.h"

/* "PID (comm) S PPID ...": comm may hold anything, parentheses and spaces included. */
static int parse_stat(const char *text, struct process *ret)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long long start;
	size_t n;
	int parent;

	if (!open || !close || close < open)
		return -EBADMSG;
	n = close - open - 1;
	if (n >= sizeof(ret->comm))
		n = sizeof(ret->comm) - 1;
	memcpy(ret->comm, open + 1, n);
	ret->comm[n] = 0;
	if (sscanf(close + 1, /* NOLINT(cert-err34-c): the kernel's own numbers */
		   " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &parent, &start) != 2)
		return -EBADMSG;
	ret->parent = parent;
	ret->start_ticks = start;
	return 0;
}

/* The part that any user may read; exe stays 0 when it cannot be looked at. */
static int read_basics(pid_t pid, struct process *ret)
{
	AUTO_FREE char *text = NULL;
	char path[64];
	struct stat st;
	size_t n;
	int r;

	*ret = (struct process){.pid = pid};
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	r = read_file(AT_FDCWD, path, 65536, &text, &n);
	if (!r)
		r = parse_stat(text, ret);
	if (r)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st))
		return -errno;
	ret->exe_dev = st.st_dev;
	ret->exe_ino = st.st_ino;
	return 0;
}

/* /proc/TID answers for threads, too, but is not listed. */
static pid_t thread_group_of(pid_t pid)
{
	AUTO_FREE char *text = NULL;
	char path[64], *line;
	uint64_t tgid;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (read_file(AT_FDCWD, path, 65536, &text, &n))
		return pid;
	line = strstr(text, "\nTgid:\t");
	if (!line)
		return pid;
	line += strlen("\nTgid:\t");
	line[strcspn(line, "\n")] = 0;
	return parse_u64(line, INT_MAX, &tgid) ? pid : (pid_t)tgid;
}

int process_read(pid_t pid, struct process *ret, struct errmsg *e)
{
	int r = read_basics(pid, ret);
	pid_t group;

	if (r == -ENOENT && ret->start_ticks)
		return 0; /* there, but without an executable: process_check_supported says more */
	if (r == -ENOENT || r == -ESRCH)
		return errmsg_set(e, -ESRCH,
				  "no process has PID %d (in this PID namespace); see 'ps -e'",
				  pid);
	if (r == -EACCES || r == -EPERM)
		return errmsg_set(
			e, -EACCES, "cannot look at process %d: %s; %s", pid, strerror(-r),
			geteuid() == 0
				? "that root may not either means that the process is protected (a container, or a security module)"
				: "run as root or with CAP_SYS_PTRACE");
	if (r)
		return errmsg_set(e, r, "cannot read about process %d: %s", pid, strerror(-r));
	group = thread_group_of(pid);
	if (group != pid)
		return errmsg_set(e, -ESRCH,
				  "%d is a thread of process %d, not a process; use -p %d", pid,
				  group, group);
	return 0;
}

int process_check_program(int fd, const char *who, struct errmsg *e)
{
	Elf64_Ehdr h = {};
	ssize_t n = pread(fd, &h, sizeof(h), 0);

	if (n < 0)
		return errmsg_set(e, -errno, "cannot read the executable of %s: %s", who,
				  strerror(errno));
	if (n >= 2 && !memcmp(h.e_ident, "#!", 2))
		return errmsg_set(
			e, -ENOEXEC,
			"%s is a script, which no process runs by itself: name its interpreter, or a process",
			who);
	if (n < (ssize_t)sizeof(h) || memcmp(h.e_ident, ELFMAG, SELFMAG))
		return errmsg_set(
			e, -ENOEXEC,
			"the executable of %s is not an ELF file: name a program, or a process that runs one",
			who);
	if (h.e_ident[EI_CLASS] != ELFCLASS64)
		return errmsg_set(e, -ENOEXEC,
				  "%s is a 32-bit program: run a 64-bit (x86-64) build of it", who);
	if (h.e_machine != ARCH_ELF_MACHINE)
		return errmsg_set(e, -ENOEXEC,
				  "%s has code for %s (ELF machine %u): run an " ARCH_NAME
				  " build of it",
				  who, arch_machine_name(h.e_machine), h.e_machine);
	return 0;
}

int process_check_supported(const struct process *p, struct errmsg *e)
{
	AUTO_CLOSE int fd = -1;
	char path[64], who[64];

	if (!p->exe_ino)
		return errmsg_set(
			e, -ENOEXEC,
			"process %d (%s) has no executable: it is a kernel thread or a zombie",
			p->pid, p->comm);
	snprintf(path, sizeof(path), "/proc/%d/exe", p->pid);
	snprintf(who, sizeof(who), "process %d (%s)", p->pid, p->comm);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errmsg_set(e, -errno, "cannot read the executable of %s: %s%s", who,
				  strerror(errno),
				  errno == EACCES || errno == EPERM
					  ? "; run as root or with CAP_DAC_READ_SEARCH"
					  : "");
	return process_check_program(fd, who, e);
}

void process_exe_path(pid_t pid, char *buf, size_t n)
{
	static const char deleted[] = " (deleted)";
	char link[64];
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	got = readlink(link, buf, n - 1);
	if (got < 0)
		got = 0;
	buf[got] = 0;
	if ((size_t)got > sizeof(deleted) - 1 &&
	    !strcmp(buf + got - (sizeof(deleted) - 1), deleted))
		buf[got - (sizeof(deleted) - 1)] = 0;
}

void process_shown_path(pid_t pid, char *buf, size_t n)
{
	char path[PROCESS_PATH_MAX + 64];
	struct process p;
	struct stat st;
	const char *base;
	int root_bytes, dir_bytes;

	process_exe_path(pid, buf, n);
	base = strrchr(buf, '/');
	if (!base || read_basics(pid, &p) || !p.comm[0] || strchr(p.comm, '/'))
		return;
	root_bytes = snprintf(path, sizeof(path), "/proc/%d/root", pid);
	dir_bytes = (int)(base + 1 - buf);
	snprintf(path + root_bytes, sizeof(path) - (size_t)root_bytes, "%.*s%s", dir_bytes, buf,
		 p.comm);
	if (stat(path, &st) == 0 && st.st_dev == p.exe_dev && st.st_ino == p.exe_ino)
		snprintf(buf, n, "%s", path + root_bytes);
}

static void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

int process_scan(struct process_list *ret)
{
	CLEANUP(close_dir) DIR *d = opendir("/proc");
	struct dirent *entry;
	int r = 0;

	ret->n = 0;
	if (!d)
		return -errno;
	while (!r && (entry = readdir(d))) {
		struct process p;
		uint64_t pid;

		if (parse_u64(entry->d_name, INT_MAX, &pid))
			continue;
		read_basics(pid, &p);
		if (p.start_ticks)
			r = vec_push(ret, p);
	}
	return r;
}

static bool descends_from(const struct process_list *all, const struct process *p, pid_t ancestor)
{
	/* bounded: the snapshot may contain a cycle of reused PIDs */
	for (size_t hops = 0; p && hops <= all->n; hops++) {
		const struct process *parent = NULL;

		if (p->parent == ancestor)
			return true;
		for (size_t i = 0; i < all->n && !parent; i++)
			if (all->at[i].pid == p->parent)
				parent = &all->at[i];
		p = parent;
	}
	return false;
}

int process_workers(const struct process_list *all, pid_t pid, struct process_list *ret)
{
	const struct process *root = NULL;
	int r = 0;

	for (size_t i = 0; i < all->n; i++)
		if (all->at[i].pid == pid)
			root = &all->at[i];
	for (size_t i = 0; root && i < all->n && !r; i++) {
		const struct process *p = &all->at[i];

		if (p->pid != pid && p->exe_ino == root->exe_ino && p->exe_dev == root->exe_dev &&
		    descends_from(all, p, pid))
			r = vec_push(ret, *p);
	}
	return r;
}

static bool same_exe(const struct process *p, pid_t other)
{
	struct process o;

	read_basics(other, &o);
	return o.exe_ino && o.exe_ino == p->exe_ino && o.exe_dev == p->exe_dev;
}

bool process_forks(const struct process *p)
{
	AUTO_FREE char *text = NULL;
	char path[64], *rest, *word;
	uint64_t child;
	size_t n;

	if (same_exe(p, p->parent))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", p->pid, p->pid);
	if (read_file(AT_FDCWD, path, 1 << 20, &text, &n))
		return false;
	for (word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		if (!parse_u64(word, INT_MAX, &child) && same_exe(p, child))
			return true;
	return false;
}

static pid_t parent_of(pid_t pid)
{
	struct process p;

	read_basics(pid, &p);
	return p.start_ticks ? p.parent : 0;
}

bool process_is_left(pid_t pid, uint64_t start_ticks)
{
	struct process p;
	pid_t heir = pid;

	for (read_basics(pid, &p); p.start_ticks && p.start_ticks >= start_ticks;
	     read_basics(heir, &p))
		heir = p.parent;
	for (pid_t own = getpid(); own && heir != pid && heir != 1; own = parent_of(own))
		if (own == heir)
			return true;
	return heir == 1;
}

pid_t process_tracer(pid_t pid)
{
	static const char key[] = "\nTracerPid:\t";
	AUTO_FREE char *text = NULL;
	char path[64], *at;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (read_file(AT_FDCWD, path, 1 << 16, &text, &n))
		return 0;
	at = strstr(text, key);
	return at ? (pid_t)strtol(at + sizeof(key) - 1, NULL, 10) : 0;
}

bool process_is_alive(const struct process *p)
{
	struct process now;

	read_basics(p->pid, &now);
	return now.start_ticks && now.start_ticks == p->start_ticks;
}

bool process_numbers_are_initial(void)
{
	struct stat st;

	/* Its inode is fixed: PROC_PID_INIT_INO in the kernel. */
	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == 0xeffffffcU;
}

uint64_t process_own_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &h, data) != 0)
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

int process_cpu_ns(pid_t pid, uint64_t *ret)
{
	clockid_t clock;
	struct timespec t;
	int r = clock_getcpuclockid(pid, &clock);

	if (r)
		return -r;
	if (clock_gettime(clock, &t))
		return -errno;
	*ret = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	return 0;
}
