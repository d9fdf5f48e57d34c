/* SPDX-License-Identifier: Apache-2.0 */
#include "code/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/cleanup.h"

enum { VDSO_BYTES_MAX = 1 << 16 };

/* On these, stat() reports another device (and, stacked, another inode) than maps does. */
static bool has_own_numbers(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) &&
	       (fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == OVERLAYFS_SUPER_MAGIC);
}

static bool is_mapped_file(int fd, const struct process_file *f)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_ino == f->ino &&
	       (st.st_dev == f->dev || has_own_numbers(fd));
}

/* A descriptor for reading, from one that only names the file. */
static int reopen(int path_fd)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* The kernel says itself what is mapped there; needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. */
static int open_by_mapping(int proc_fd, const struct process_file *f)
{
	AUTO_CLOSE int path_fd = -1;
	char name[64];
	struct stat st;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, f->start, f->end);
	path_fd = openat(proc_fd, name, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;
	if (fstat(path_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	if (st.st_ino != f->ino && !has_own_numbers(path_fd))
		return -ESTALE;
	return reopen(path_fd);
}

static int open_exe(int proc_fd, const struct process_file *f)
{
	AUTO_CLOSE int path_fd = openat(proc_fd, "exe", O_PATH | O_CLOEXEC);

	if (path_fd < 0)
		return -errno;
	return is_mapped_file(path_fd, f) ? reopen(path_fd) : -ESTALE;
}

static int open_by_path(int proc_fd, const struct process_file *f)
{
	AUTO_CLOSE int root_fd = openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int path_fd = -1;
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

	if (root_fd < 0)
		return -errno;
	if (f->path[0] != '/')
		return -ENOENT;
	path_fd = (int)syscall(SYS_openat2, root_fd, f->path, &how, sizeof(how));
	if (path_fd < 0)
		return -errno;
	return is_mapped_file(path_fd, f) ? reopen(path_fd) : -ESTALE;
}

int process_file_open(int proc_fd, const struct process_file *f, struct module **ret,
		      struct errmsg *e)
{
	AUTO_CLOSE int fd = open_by_mapping(proc_fd, f);
	int r;

	if (fd == -ENOEXEC)
		return errmsg_set(e, fd, "cannot use '%s': it is not a regular file", f->path);
	if (fd < 0)
		fd = open_exe(proc_fd, f);
	if (fd < 0)
		fd = open_by_path(proc_fd, f);
	if (fd < 0)
		return errmsg_set(e, fd, "cannot open '%s' as the process sees it: %s", f->path,
				  fd == -ESTALE ? "another file is there now" : strerror(-fd));
	r = module_open_fd(ret, fd, f->path, e);
	if (!r)
		TAKE_FD(fd);
	return r;
}

int process_file_open_vdso(int proc_fd, uint64_t start, uint64_t end, struct module **ret,
			   struct errmsg *e)
{
	AUTO_CLOSE int fd = openat(proc_fd, "mem", O_RDONLY | O_CLOEXEC);
	AUTO_FREE uint8_t *image = NULL;
	size_t n = end - start < VDSO_BYTES_MAX ? end - start : VDSO_BYTES_MAX;
	ssize_t got;

	if (fd < 0)
		return errmsg_set(e, -errno, "cannot read the vDSO of the process: %s",
				  strerror(errno));
	image = malloc(n);
	if (!image)
		return errmsg_set(e, -ENOMEM, "cannot read the vDSO: out of memory");
	got = pread(fd, image, n, (off_t)start);
	if (got <= 0)
		return errmsg_set(e, -EIO, "cannot read the vDSO of the process");
	return module_open_image(ret, image, got, "[vdso]", e);
}
