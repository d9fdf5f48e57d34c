/* SPDX-License-Identifier: Apache-2.0 */
#include "app/starter.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum { CMDLINE_MAX = 1 << 16, HEAD_BYTES = 128 };

/*
 * A program, or a script of another interpreter than this process, which is called `comm`. A pipe or a
 * device is not opened: that alone may do something.
 */
static bool is_startable(const char *path, const char *comm)
{
	AUTO_CLOSE int fd = -1;
	char head[HEAD_BYTES + 1] = "";
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || read(fd, head, HEAD_BYTES) <= 0)
		return false;
	head[strcspn(head, "\n")] = '\0';
	return !strncmp(head, "\177ELF", 4) || (!strncmp(head, "#!", 2) && !strstr(head, comm));
}

/* As exec would find it; words with a slash count from where the process is. */
static bool names_startable(pid_t pid, const char *word, const char *comm)
{
	const char *dir = getenv("PATH");
	char path[PATH_MAX];

	if (strchr(word, '/')) {
		snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, word[0] == '/' ? "root" : "cwd",
			 word);
		return is_startable(path, comm);
	}
	for (; dir && *dir; dir += strspn(dir, ":")) {
		size_t n = strcspn(dir, ":");

		snprintf(path, sizeof(path), "/proc/%d/root/%.*s/%s", pid, (int)n, dir, word);
		if (is_startable(path, comm))
			return true;
		dir += n;
	}
	return false;
}

static bool is_shell(const char *comm)
{
	static const char *const names[] = {"sh", "ash", "bash", "dash", "ksh", "zsh", "busybox"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(comm, names[i]))
			return true;
	return false;
}

bool starter_is(pid_t pid)
{
	AUTO_FREE char *comm = NULL;
	AUTO_FREE char *words = NULL;
	char path[64];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (read_file(AT_FDCWD, path, 64, &comm, &n))
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	if (is_shell(comm) || read_file(AT_FDCWD, path, CMDLINE_MAX, &words, &n))
		return is_shell(comm);
	for (size_t at = strlen(words) + 1; at < n; at += strlen(words + at) + 1)
		if (names_startable(pid, words + at, comm))
			return true;
	return false;
}
