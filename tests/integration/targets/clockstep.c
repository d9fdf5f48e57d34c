/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clockstep: preloaded into an agent, a wall clock that a test can set without setting the machine's.
 *
 * CLOCKSTEP names a file of eight bytes: nanoseconds to add to what spanprof itself reads. Libraries that
 * wait by the wall clock see the machine's, as the kernel that wakes them does.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL

static const int64_t *step;

static __attribute__((constructor)) void open_step(void)
{
	const char *path = getenv("CLOCKSTEP");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*step), PROT_READ, MAP_SHARED, fd, 0);

	if (at != MAP_FAILED)
		step = at;
	if (fd >= 0)
		close(fd);
}

static int is_spanprof(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "spanprof");
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);
	int64_t ns;

	if (r || clock != CLOCK_REALTIME || !step || !is_spanprof(__builtin_return_address(0)))
		return r;
	ns = ret->tv_sec * NS + ret->tv_nsec + __atomic_load_n(step, __ATOMIC_RELAXED);
	ret->tv_sec = ns / NS;
	ret->tv_nsec = ns % NS;
	return 0;
}
