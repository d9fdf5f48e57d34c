/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"

enum { LINKS_MAX = 40 }; /* as many as the kernel follows */

int read_file(int dir_fd, const char *path, size_t max_bytes, char **ret_data, size_t *ret_bytes)
{
	AUTO_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	AUTO_FREE char *data = NULL;
	size_t n = 0, cap = 4096;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t got;

		if (!data || cap - n < 2) {
			char *bigger;

			cap = data ? cap * 2 : cap;
			bigger = realloc(data, cap);
			if (!bigger)
				return -ENOMEM;
			data = bigger;
		}
		got = read(fd, data + n, cap - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += got;
		if (n > max_bytes)
			return -EFBIG;
	}
	data[n] = 0;
	*ret_data = TAKE_PTR(data);
	*ret_bytes = n;
	return 0;
}

int file_flush(FILE *stream)
{
	if (fflush(stream))
		return -errno;
	return ferror(stream) ? -EIO : 0;
}

static bool is_open_file(int fd, const struct stat *st)
{
	struct stat own;

	return !fstat(fd, &own) && own.st_dev == st->st_dev && own.st_ino == st->st_ino;
}

/* st: of path, if that is one. Standard files go on where they are, also when they are regular. */
static int in_place_fd(const char *path, const struct stat *st)
{
	if (!strcmp(path, "-") || is_open_file(STDOUT_FILENO, st))
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (is_open_file(STDERR_FILENO, st))
		return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	return open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
}

static int open_in_place(struct file_out *f, const char *path, const struct stat *st,
			 struct errmsg *e)
{
	int fd = in_place_fd(path, st);

	if (fd < 0)
		return errmsg_set(e, -errno, "cannot write to '%s': %s", path, strerror(errno));
	f->stream = fdopen(fd, "we");
	if (!f->stream) {
		close(fd);
		return errmsg_set(e, -ENOMEM, "cannot write to '%s': out of memory", path);
	}
	return 0;
}

static int open_temporary(struct file_out *f, const char *path, struct errmsg *e)
{
	int fd;

	if (asprintf(&f->temp_path, "%s.tmp-XXXXXX", path) < 0) {
		f->temp_path = NULL;
		return errmsg_set(e, -ENOMEM, "cannot write to '%s': out of memory", path);
	}
	fd = mkostemp(f->temp_path, O_CLOEXEC);
	if (fd < 0) {
		int r = -errno;

		free(TAKE_PTR(f->temp_path));
		return errmsg_set(e, r,
				  "cannot create output file '%s': %s; choose a folder that "
				  "exists and in which files can be made",
				  path, strerror(-r));
	}
	f->stream = fdopen(fd, "we");
	if (!f->stream) {
		close(fd);
		return errmsg_set(e, -ENOMEM, "cannot write to '%s': out of memory", path);
	}
	return 0;
}

/* Where the link at path leads to, of which its folder is the base when it is relative; NULL: see errno. */
static char *read_link(const char *path)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash + 1 - path) : 0;
	char to[PATH_MAX], *whole;
	ssize_t n = readlink(path, to, sizeof(to));

	if (n < 0)
		return NULL;
	if ((size_t)n == sizeof(to)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	if (asprintf(&whole, "%.*s%.*s", *to == '/' ? 0 : folder, path, (int)n, to) < 0)
		return NULL;
	return whole;
}

static bool is_of_proc(const char *link)
{
	AUTO_CLOSE int fd = open(link, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;

	return fd >= 0 && !fstatfs(fd, &fs) && fs.f_type == PROC_SUPER_MAGIC;
}

/* Replaces *path by the file that its links lead to, which need not exist. 1: a link of /proc does. */
static int follow_links(char **path)
{
	struct stat st;

	for (int i = 0; i < LINKS_MAX; i++) {
		char *to;

		if (lstat(*path, &st) || !S_ISLNK(st.st_mode))
			return 0;
		/* Whether the link may be followed is for the kernel to say. */
		if (stat(*path, &st) && errno != ENOENT)
			return -errno;
		if (is_of_proc(*path))
			return 1;
		to = read_link(*path);
		if (!to)
			return -errno;
		free(*path);
		*path = to;
	}
	return -ELOOP;
}

static int open_path(struct file_out *f, struct errmsg *e)
{
	struct stat st = {};
	bool exists;
	int r = follow_links(&f->path);

	if (r < 0)
		return errmsg_set(e, r, "cannot write to '%s': cannot follow the link: %s", f->path,
				  strerror(-r));
	exists = !stat(f->path, &st);
	if (exists && S_ISDIR(st.st_mode))
		return errmsg_set(e, -EISDIR, "cannot write to '%s': it is a folder; name a file",
				  f->path);
	if (r || (exists && !S_ISREG(st.st_mode)))
		return open_in_place(f, f->path, &st, e);
	return open_temporary(f, f->path, e);
}

int file_out_open(struct file_out *ret, const char *path, struct errmsg *e)
{
	const struct stat none = {};
	struct file_out f = {};
	int r;

	f.path = strdup(path);
	if (!f.path)
		return errmsg_set(e, -ENOMEM, "cannot write to '%s': out of memory", path);
	r = strcmp(path, "-") ? open_path(&f, e) : open_in_place(&f, path, &none, e);
	if (r) {
		file_out_deinit(&f);
		return r;
	}
	*ret = f;
	return 0;
}

/* What open() would give a new file. */
static mode_t usual_mode(void)
{
	mode_t mask = umask(0077);

	umask(mask);
	return 0666 & ~mask;
}

int file_out_commit(struct file_out *f, struct errmsg *e)
{
	FILE *stream = TAKE_PTR(f->stream);
	int r = file_flush(stream);

	if (!r && f->temp_path &&
	    (fchmod(fileno(stream), f->is_private ? 0600 : usual_mode()) || fsync(fileno(stream))))
		r = -errno;
	if (fclose(stream) && !r)
		r = -errno;
	if (!r && f->temp_path && rename(f->temp_path, f->path))
		r = -errno;
	if (r) {
		r = errmsg_set(e, r, "cannot write '%s': %s%s", f->path, strerror(-r),
			       f->temp_path ? "; nothing was left there" : "");
		file_out_deinit(f);
		return r;
	}
	free(TAKE_PTR(f->temp_path));
	return 0;
}

void file_out_deinit(struct file_out *f)
{
	if (f->stream)
		fclose(f->stream);
	if (f->temp_path)
		unlink(f->temp_path);
	free(f->temp_path);
	free(f->path);
	*f = (struct file_out){};
}
