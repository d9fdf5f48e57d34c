/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h: the subcommands. A command gets its own arguments (argv[0] is the command's name) and
 * returns the exit status: 0 done, 1 it failed, 2 wrong usage.
 */
#ifndef SPANPROF_APP_COMMAND_H
#define SPANPROF_APP_COMMAND_H

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
	const char *name;
	const char *summary;
	int (*fn)(int argc, char **argv);
};

int cmd_agent(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_spans(int argc, char **argv);
int cmd_task(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_probes(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_presets(int argc, char **argv);

#endif
