/* SPDX-License-Identifier: Apache-2.0 */
#include "app/rights.h"

#include <endian.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* What the file at `path` permits, as far as a process may have it at all. */
static uint64_t file_capabilities(const char *path)
{
	struct vfs_ns_cap_data d = {};
	uint64_t mask;

	if (getxattr(path, "security.capability", &d, sizeof(d)) < (ssize_t)XATTR_CAPS_SZ_1)
		return 0;
	mask = (uint64_t)le32toh(d.data[1].permitted) << 32 | le32toh(d.data[0].permitted);
	for (unsigned long i = 0; i < 64; i++)
		if (prctl(PR_CAPBSET_READ, i) != 1)
			mask &= ~(1ULL << i);
	return mask;
}

static uint64_t permitted(pid_t pid)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = pid};
	struct __user_cap_data_struct data[2] = {};

	if (syscall(SYS_capget, &h, data))
		return 0;
	return (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

bool rights_are_lost(pid_t pid)
{
	char path[64];
	struct statvfs fs;
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st) || statvfs(path, &fs) || fs.f_flag & ST_NOSUID)
		return false;
	/* A child has it from its parent. */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return ((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
	       ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()) ||
	       file_capabilities(path) & ~permitted(pid);
}
