/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

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

static int open_in_place(struct file_out *f, const char *path, struct errmsg *e)
{
	int fd = strcmp(path, "-") ? open(path, O_WRONLY | O_CLOEXEC)
				   : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

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
				  "exists and is writable",
				  path, strerror(-r));
	}
	f->stream = fdopen(fd, "we");
	if (!f->stream) {
		close(fd);
		return errmsg_set(e, -ENOMEM, "cannot write to '%s': out of memory", path);
	}
	return 0;
}

/* Where a rename has to put the file: a symbolic link stays one, and what it leads to is replaced. */
static char *real_name(const char *path, bool exists)
{
	return exists ? realpath(path, NULL) : strdup(path);
}

int file_out_open(struct file_out *ret, const char *path, struct errmsg *e)
{
	struct file_out f = {};
	struct stat st = {};
	bool exists = stat(path, &st) == 0;
	int r;

	f.path = real_name(path, exists && S_ISREG(st.st_mode));
	if (!f.path)
		return errmsg_set(e, -errno, "cannot write to '%s': %s", path, strerror(errno));
	if (!strcmp(path, "-") || (exists && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		r = open_in_place(&f, path, e);
	else if (exists && S_ISDIR(st.st_mode))
		r = errmsg_set(e, -EISDIR, "cannot write to '%s': it is a folder; name a file",
			       path);
	else
		r = open_temporary(&f, f.path, e);
	if (r) {
		file_out_deinit(&f);
		return r;
	}
	*ret = f;
	return 0;
}

int file_out_commit(struct file_out *f, struct errmsg *e)
{
	FILE *stream = TAKE_PTR(f->stream);
	int r = file_flush(stream);

	if (!r && f->temp_path &&
	    (fchmod(fileno(stream), f->is_private ? 0600 : 0644) || fsync(fileno(stream))))
		r = -errno;
	if (fclose(stream) && !r)
		r = -errno;
	if (!r && f->temp_path && rename(f->temp_path, f->path))
		r = -errno;
	if (r) {
		r = errmsg_set(e, r, "cannot write '%s': %s; nothing was left there", f->path,
			       strerror(-r));
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
