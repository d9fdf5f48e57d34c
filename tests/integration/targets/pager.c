/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pager: a thread that brings in the pages of another one, as a live migration or a restored snapshot does it.
 * fill() is given the address of the page that is missing: who reads there before it has returned waits for it.
 * Ends with 0 when each page was brought in once, 2 when the kernel has no userfaultfd.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stage.h"

enum { PAGE = 4096, PAGES = 1000 };

static int uffd;
static long filled;

FRAME int fill(const char *at)
{
	struct uffdio_zeropage page = {.range = {(unsigned long)at & -PAGE, PAGE}};

	filled++;
	return ioctl(uffd, UFFDIO_ZEROPAGE, &page);
}

static void *bring_in(void *arg)
{
	struct uffd_msg message;

	(void)arg;
	while (read(uffd, &message, sizeof(message)) == sizeof(message))
		if (fill((const char *)(unsigned long)message.arg.pagefault.address))
			abort();
	return NULL;
}

int main(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	pthread_t thread;
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	range.range = (struct uffdio_range){(unsigned long)memory, PAGES * PAGE};
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &range))
		return 2;
	if (pthread_create(&thread, NULL, bring_in, NULL))
		return 1;
	wait_for_line("ready", 1);
	for (long i = 0; i < PAGES; i++)
		memory[i * PAGE] = 1;
	wait_for_line("done", filled == PAGES ? 0 : 1);
	return 1;
}
