/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the command table. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/command.h"
#include "base/cleanup.h"
#include "base/file.h"

enum {
	MMAP_BYTES = 128 * 1024,
	STACK_MIN_BYTES = 1 << 20, /* libdw alone takes more than 128 KiB to read a file's lines */
};

static const struct command commands[] = {
	{"run", "profile the slow calls of processes: where did their time go", cmd_run},
	{"record", "the same, into a capture file", cmd_record},
	{"report", "read a capture file and print or convert it; needs no root", cmd_report},
	{"agent", "the daemon: profiles by tasks, for months, beside many processes", cmd_agent},
	{"task", "create, list, show, log and cancel tasks of a running agent", cmd_task},
	{"spans", "list the finished spans of an agent", cmd_spans},
	{"top", "show what an agent is doing", cmd_top},
	{"probes", "find functions that could be endpoints, count their calls", cmd_probes},
	{"doctor", "say what works here and how to fix what does not", cmd_doctor},
	{"presets", "list and explain the servers that spanprof knows", cmd_presets},
};

static void print_help(FILE *out)
{
	fprintf(out, "usage: spanprof COMMAND [OPTIONS]\n\n"
		     "Finds out where the time of one slow request went, in any native Linux\n"
		     "program, from outside the process.\n\n"
		     "commands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\n'spanprof COMMAND --help' explains a command and shows examples.\n");
}

/* Standard files that are closed would be the next ones opened: output must not go into those. */
static void hold_standard_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What could not be written is a failure, whoever wrote it. */
static int written(int status)
{
	int fd = fileno(stdout), r;

	/* Closed from the start: who needs it has complained. */
	if (fd >= 0 && fcntl(fd, F_GETFL) & O_PATH)
		return status;
	r = file_flush(stdout);
	if (!r)
		return status;
	if (status == 0)
		fprintf(stderr, "spanprof: error: cannot write to standard output: %s\n",
			strerror(-r));
	return status ? status : EXIT_FAILED;
}

/* It is not raised here: a program that is started has the limit that spanprof was started with. */
static bool stack_suffices(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_MIN_BYTES)
		return true;
	fprintf(stderr,
		"spanprof: error: the limit of the stack is %llu KiB, spanprof needs at least %d; raise it with 'ulimit -s'\n",
		(unsigned long long)limit.rlim_cur / 1024, STACK_MIN_BYTES / 1024);
	return false;
}

int main(int argc, char **argv)
{
	static char help_option[] = "--help";

	hold_standard_files();
	/* A fixed limit: what is large goes back to the system when it is freed, at any time. */
	mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "help") && argc > 2) {
		argv[1] = argv[2];
		argv[2] = help_option;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return written(0);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
		printf("spanprof %s\n", SPANPROF_VERSION);
		return written(0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (!stack_suffices())
			return EXIT_FAILED;
		return written(commands[i].fn(argc - 1, argv + 1));
	}
	fprintf(stderr, "spanprof: error: there is no command '%s'; see 'spanprof --help'\n",
		argv[1]);
	return EXIT_USAGE;
}
