/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.c: a program with known frames for golden captures. It tells where the endpoint's frame is
 * and then stops itself, once in each place of interest.
 */
#include <stdint.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct report {
	uint64_t entry_sp; /* SP at the first instruction of handle_request */
	uint64_t entry_ip;
	uint64_t ret_addr;
};

int handle_request(int depth);

static NOINLINE void stop_here(void)
{
	__asm__ volatile("int3" ::: "memory"); /* SIGTRAP, with no library function on the stack */
}

static NOINLINE int lock_order(int n)
{
	stop_here();
	return n + 1;
}

static inline __attribute__((always_inline)) int inlined_step(int n)
{
	stop_here();
	return n * 3;
}

static NOINLINE int compute(int n)
{
	int sum = n ? compute(n - 1) : inlined_step(7);

	__asm__ volatile("" ::: "memory");
	return sum + n;
}

NOINLINE int handle_request(int depth)
{
	struct report r = {
		.entry_sp = (uintptr_t)__builtin_frame_address(0) + 8,
		.entry_ip = (uintptr_t)handle_request,
		.ret_addr = (uintptr_t)__builtin_return_address(0),
	};
	int sum;

	if (write(STDOUT_FILENO, &r, sizeof(r)) != sizeof(r))
		return -1;
	sum = lock_order(1);
	sum += compute(depth);
	return sum;
}

int main(void)
{
	int r = handle_request(3);

	return r < 0;
}
