/* SPDX-License-Identifier: Apache-2.0 */
/*
 * early: does before its entry point what a program may do there, as libraries are initialized: it catches
 * a SIGTRAP of its own, and forks a child that goes on to main(), too. With "exec" it calls exec before all
 * that, with "hang" it gets no further. The exit status is 0 when nothing was disturbed.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage.h"

FRAME int request(int n);

static volatile sig_atomic_t n_traps;
static pid_t child;

static void on_trap(int number)
{
	n_traps += number == SIGTRAP;
}

static void before_main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "hang"))
		pause();
	if (argc > 1)
		execl("/proc/self/exe", argv[0], NULL);
	signal(SIGTRAP, on_trap);
	raise(SIGTRAP);
	child = fork();
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int,
									    char **) = before_main;

int request(int n)
{
	return n + 1;
}

int main(void)
{
	int status = 0;

	if (request(1) != 2 || n_traps != 1 || child < 0)
		return 1;
	return child && (waitpid(child, &status, 0) != child || status);
}
