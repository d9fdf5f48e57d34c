/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "app/command.h"
#include "app/output.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "pipe/replay.h"

static const char help[] =
	"usage: spanprof report FILE [OPTIONS]\n"
	"\n"
	"Reads a capture file of 'spanprof record' and prints or converts it. Needs no root, but the\n"
	"programs and libraries that were profiled (and their debug files), or a copy of them.\n"
	"\n"
	"options:\n"
	"  -o, --output FILE      write a file; its name says the format (.folded .pb.gz .json .html)\n"
	"      --format FORMAT    text, folded, pprof, json, html; without -o to standard output\n"
	"      --root DIR         where the programs and libraries are, as a copy of the target's root\n"
	"      --debug-dirs DIRS  where separate debug files are (default /usr/lib/debug)\n"
	"      --debuginfod       ask debuginfod servers for debug files, for at most 10 s\n"
	"      --no-lines         no file names, line numbers and inlined functions\n"
	"  -q, --quiet            no text on standard output\n"
	"  -v, --verbose          all counters\n"
	"\n"
	"example:\n"
	"  spanprof report slow.capture --format folded > slow.folded\n";

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'}, {"format", required_argument, NULL, 'f'},
	{"root", required_argument, NULL, 'R'},   {"debug-dirs", required_argument, NULL, 'D'},
	{"debuginfod", no_argument, NULL, 'I'},   {"no-lines", no_argument, NULL, 'L'},
	{"quiet", no_argument, NULL, 'q'},        {"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},         {},
};

struct report_options {
	struct run_options output; /* outputs and what the text shows; the rest is unused */
	const char *root;
	const char *file;
};

static int parse_one(struct report_options *o, int option)
{
	switch (option) {
	case 'o':
		return vec_push(&o->output.outputs, (struct run_output){.path = optarg})
			       ? EXIT_FAILED
			       : 0;
	case 'f':
		o->output.format_name = optarg;
		return 0;
	case 'R':
		o->root = optarg;
		return 0;
	case 'D':
		o->output.debug_dirs = optarg;
		return 0;
	case 'I':
		o->output.debuginfod = true;
		return 0;
	case 'L':
		o->output.no_lines = true;
		return 0;
	case 'q':
		o->output.quiet = true;
		return 0;
	case 'v':
		o->output.verbose = true;
		return 0;
	case 'h':
		o->output.help = true;
		return 0;
	default:
		return EXIT_USAGE;
	}
}

static int parse(struct report_options *o, int argc, char **argv)
{
	int option, r = 0;

	optind = 1;
	while (!r && (option = getopt_long(argc, argv, "o:qvh", long_options, NULL)) != -1)
		r = parse_one(o, option);
	if (r || o->output.help)
		return r;
	if (argc - optind != 1) {
		log_error("report: name one capture file; make one with 'spanprof record -o FILE'");
		return EXIT_USAGE;
	}
	o->file = argv[optind];
	return run_options_check_outputs(&o->output);
}

static int report(const struct report_options *o)
{
	CLEANUP(outputs_deinit) struct outputs files = {};
	AUTO_FILE FILE *in = NULL;
	struct replay_options options = {
		.symbols =
			{
				.debug_dirs = o->output.debug_dirs,
				.debuginfod = o->output.debuginfod,
				.debuginfod_budget_ns = 10000000000ULL,
				.lines = !o->output.no_lines,
			},
		.root = o->root,
	};
	struct replay *replay = NULL;
	struct errmsg e = {};
	const char *text;
	int r;

	r = outputs_open(&files, &o->output);
	if (r)
		return r;
	in = fopen(o->file, "re");
	if (!in) {
		log_error("cannot open capture file '%s': %s", o->file, strerror(errno));
		return EXIT_FAILED;
	}
	r = replay_read(&replay, in, o->file, &options, &e);
	if (r) {
		log_error("%s", e.text[0] ? e.text : strerror(-r));
		return EXIT_FAILED;
	}
	while ((text = replay_next_warning(replay)))
		log_warning("%s", text);
	r = outputs_write(&files, &o->output, replay_profile(replay));
	replay_free(replay);
	return r;
}

int cmd_report(int argc, char **argv)
{
	struct report_options o = {};
	int r = parse(&o, argc, argv);

	if (!r && o.output.help)
		fputs(help, stdout);
	else if (!r)
		r = report(&o);
	run_options_deinit(&o.output);
	return r;
}
