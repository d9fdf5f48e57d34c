/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_options.h: the command line of `run` and `record`, parsed and checked; no work is done here.
 */
#ifndef SPANPROF_APP_RUN_OPTIONS_H
#define SPANPROF_APP_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "export/export.h"
#include "probe/endpoint.h"

struct run_output {
	const char *path; /* borrowed from argv */
	const struct export_format *format;
};

struct run_options {
	VEC(pid_t) pids;
	VEC(const char *) exes;      /* borrowed from argv, as all texts */
	char **command;              /* NULL: none; NULL-terminated */
	VEC(const char *) endpoints; /* specifications */
	VEC(struct run_output) outputs;
	VEC(const char *) presets;
	const char *preset_file;
	const char *normalize;
	const char *format_name;
	const char *debug_dirs;
	enum leave_method leave;
	bool force;
	bool from_start;
	bool debuginfod;
	bool no_lines;
	bool no_fork;
	bool no_kernel;
	bool quiet;
	bool verbose;
	bool help;
	uint64_t min_duration_ns;
	uint64_t period_ns;
	uint64_t for_ns;      /* 0: until interrupted */
	uint64_t max_samples; /* 0: no limit */
	uint64_t max_parallel;
	uint32_t max_overhead_ppm; /* of the CPU time of what is profiled; 0: no limit */
	uint64_t ring_bytes;       /* 0: default */
	uint64_t window_bytes;     /* 0: default */
};

/* Of --help: the options of both commands that say what is profiled. */
extern const char run_options_help[];

/* 0, or EXIT_USAGE after one message on stderr. recording: `record`, which takes one -o and no format. */
int run_options_parse(struct run_options *o, int argc, char **argv, bool recording);
/* Finds the formats of --format and of the outputs' names; 0 or EXIT_USAGE after a message. */
int run_options_check_outputs(struct run_options *o);

/* Whether an output that was asked for goes to standard output, which is then for that alone. */
bool run_options_take_stdout(const struct run_options *o);

/* --format, which may be given once. 0, or EXIT_USAGE when a message has said why. */
int run_options_set_format(struct run_options *o, const char *name);

void run_options_deinit(struct run_options *o);

#endif
