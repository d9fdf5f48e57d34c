/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/apart.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10 };

struct job {
	int (*fn)(void *ctx);
	void *ctx;
	int result;
	bool done;
};

/* Out of the process group, too, which may be killed as a whole. */
static int do_job(void *arg)
{
	struct job *j = arg;

	setpgid(0, 0);
	j->result = j->fn(j->ctx);
	j->done = true;
	return 0;
}

/* This thread waits (CLONE_VFORK); no other wait of this process meets the child (no signal at its end). */
static bool run(struct job *j, uint8_t *stack)
{
	pid_t pid = clone(do_job, stack + STACK_BYTES, CLONE_VM | CLONE_FILES | CLONE_VFORK, j);

	if (pid < 0)
		return false;
	while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	if (!j->done)
		j->result = -EINTR;
	return true;
}

int apart_run(int (*fn)(void *ctx), void *ctx)
{
	struct job job = {.fn = fn, .ctx = ctx};
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	bool is_run = stack != MAP_FAILED && run(&job, stack);

	if (stack != MAP_FAILED)
		munmap(stack, STACK_BYTES);
	return is_run ? job.result : fn(ctx);
}
