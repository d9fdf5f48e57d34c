/* SPDX-License-Identifier: Apache-2.0 */
#include "app/files_limit.h"

#include <errno.h>
#include <string.h>

enum { FILES_MIN = 100 }; /* of the BPF programs and maps alone there are more than 50 */

int files_limit_raise(struct rlimit *ret_old, struct errmsg *e)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return errmsg_set(e, -errno, "cannot read the limit of open files: %s",
				  strerror(errno));
	*ret_old = limit;
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < FILES_MIN)
		return errmsg_set(
			e, -EMFILE,
			"cannot open enough files: the limit is %llu, spanprof needs at least %d; raise it with 'ulimit -n'",
			(unsigned long long)limit.rlim_max, FILES_MIN);
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return errmsg_set(e, -errno, "cannot raise the limit of open files: %s",
				  strerror(errno));
	return 0;
}

void files_limit_restore(pid_t pid, const struct rlimit *old)
{
	prlimit(pid, RLIMIT_NOFILE, old, NULL);
}
