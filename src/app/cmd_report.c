/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "app/command.h"
#include "app/hints.h"
#include "app/options.h"
#include "app/output.h"
#include "app/store_report.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/units.h"
#include "pipe/replay.h"

static const char help[] =
	"usage: spanprof report FILE [OPTIONS]\n"
	"       spanprof report --store FILE [--span ID]... [--task ID]\n"
	"                       [--service NAME] [OPTIONS]\n"
	"\n"
	"Reads a capture file of 'spanprof record' and prints or converts it. Needs no\n"
	"root (the file belongs to the user who recorded it: chown it), but the programs\n"
	"and libraries that were profiled (and their debug files), or a copy of them.\n"
	"With --store, reads spans that an agent has kept; the agent may be running.\n"
	"\n"
	"options:\n"
	"  -o, --output FILE      write a file; its name says the format (.txt .pb.gz\n"
	"                         .pprof .pb .folded .collapsed .json .html .htm .otlp)\n"
	"      --format FORMAT    text, folded, pprof, json, html, otlp: of every -o;\n"
	"                         without -o to stdout\n"
	"      --root DIR         where the programs and libraries are, as a copy of the\n"
	"                         target's root\n"
	"      --debug-dirs DIRS  where debug files are (default /usr/lib/debug)\n"
	"      --debuginfod       ask debuginfod servers for them, for at most 10 s\n"
	"      --no-lines         no file names, line numbers and inlined functions\n"
	"      --store FILE       the store of an agent: its newest 1000 spans\n"
	"      --span ID          this one of its spans; may be given up to 64 times\n"
	"      --task ID          the newest 1000 of this task\n"
	"      --service NAME     the newest 1000 of this service\n"
	"  -q, --quiet            no text on standard output\n"
	"  -v, --verbose          all counters\n"
	"\n"
	"examples:\n"
	"  spanprof report slow.capture --format folded > slow.folded\n"
	"  spanprof report --store /var/lib/spanprof/agent.db --span 42\n";

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},  {"format", required_argument, NULL, 'f'},
	{"root", required_argument, NULL, 'R'},    {"debug-dirs", required_argument, NULL, 'D'},
	{"debuginfod", no_argument, NULL, 'I'},    {"no-lines", no_argument, NULL, 'L'},
	{"store", required_argument, NULL, 'S'},   {"span", required_argument, NULL, 's'},
	{"service", required_argument, NULL, 'V'}, {"task", required_argument, NULL, 't'},
	{"quiet", no_argument, NULL, 'q'},         {"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},          {},
};

struct report_options {
	struct run_options output; /* outputs and what the text shows; the rest is unused */
	const char *root;
	const char *file;
	struct store_report stored; /* store NULL: a capture file is read */
};

static int add_span(struct report_options *o, const char *text)
{
	uint64_t span;

	if (parse_u64(text, INT64_MAX, &span)) {
		log_error("report: --span '%s' is not a number; 'spanprof spans' shows them", text);
		return EXIT_USAGE;
	}
	if (o->stored.n_spans >= ARRAY_SIZE(o->stored.spans)) {
		log_error("report: --span may be given %zu times", ARRAY_SIZE(o->stored.spans));
		return EXIT_USAGE;
	}
	o->stored.spans[o->stored.n_spans++] = span;
	return 0;
}

static int parse_one(struct report_options *o, int option)
{
	switch (option) {
	case 'o':
		return vec_push(&o->output.outputs, (struct run_output){.path = optarg})
			       ? EXIT_FAILED
			       : 0;
	case 'f':
		return run_options_set_format(&o->output, optarg);
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
	case 'S':
		o->stored.store = optarg;
		return 0;
	case 's':
		return add_span(o, optarg);
	case 't':
		o->stored.task_id = optarg;
		return 0;
	case 'V':
		o->stored.service = optarg;
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
	while (!r && (option = next_option(argc, argv, ":o:qvh", long_options)) != -1)
		r = parse_one(o, option);
	if (r || o->output.help)
		return r;
	if ((o->stored.n_spans || o->stored.task_id || o->stored.service) && !o->stored.store) {
		log_error(
			"report: --span, --task and --service need --store FILE, the store of an agent");
		return EXIT_USAGE;
	}
	if (o->stored.store && argc == optind)
		return run_options_check_outputs(&o->output);
	if (o->stored.store || argc - optind != 1) {
		log_error("report: name one capture file; make one with 'spanprof record -o FILE'");
		return EXIT_USAGE;
	}
	o->file = argv[optind];
	return run_options_check_outputs(&o->output);
}

static int report_stored(const struct report_options *o)
{
	CLEANUP(outputs_deinit) struct outputs files = {};
	struct profile *p = NULL;
	struct errmsg e = {};
	int r = outputs_open(&files, &o->output);

	if (r)
		return r;
	if (store_report_load(&o->stored, &p, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILED;
	}
	r = outputs_write(&files, &o->output, p);
	profile_free(p);
	return r;
}

/* Said once; without it each file would be missing. */
static int check_root(const char *root)
{
	struct stat st;

	if (!root || (stat(root, &st) == 0 && S_ISDIR(st.st_mode)))
		return 0;
	log_error(
		"--root: '%s' is not a folder that is there; give one with a copy of the target's root",
		root);
	return EXIT_FAILED;
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
	size_t n_warnings;
	int r;

	r = check_root(o->root);
	if (r)
		return r;
	hints_debuginfod(o->output.debuginfod);
	r = outputs_open(&files, &o->output);
	if (r)
		return r;
	in = fopen(o->file, "re");
	if (!in) {
		log_error(
			"cannot open capture file '%s': %s%s", o->file, strerror(errno),
			errno == EACCES
				? "; it is its owner's: run as that user, or have it given away with chown"
				: "");
		return EXIT_FAILED;
	}
	r = replay_read(&replay, in, o->file, &options, &e);
	if (r) {
		log_error("%s", e.text[0] ? e.text : strerror(-r));
		return EXIT_FAILED;
	}
	for (n_warnings = 0; (text = replay_next_warning(replay)); n_warnings++)
		log_warning("%s", text);
	if (n_warnings && !o->root)
		log_info(
			"--root DIR takes files from a copy of the target's root; that of a container that runs is /proc/PID/root");
	r = outputs_write(&files, &o->output, replay_profile(replay));
	if (!r)
		hints_symbols(replay_profile(replay), o->output.debuginfod);
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
		r = o.stored.store ? report_stored(&o) : report(&o);
	run_options_deinit(&o.output);
	return r;
}
