/* SPDX-License-Identifier: Apache-2.0 */
#include "app/run_options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/options.h"
#include "base/log.h"
#include "base/units.h"
#include "bpf/wire.h"

const char run_options_help[] =
	"targets (at least one, or --preset):\n"
	"  -p, --pid PID[,PID]     a process and the workers that it forks; commas or\n"
	"                          spaces between\n"
	"      --exe PATH          all processes that run this file, now and later\n"
	"      -- COMMAND [ARGS]   start it, profile it, wait for it, end with its exit\n"
	"                          status; it may be a wrapper that executes the\n"
	"                          program (sh -c 'exec ...', env, nice), or with\n"
	"                          --exe PATH a script that starts it\n"
	"\n"
	"endpoints (docs/endpoints.md has the whole language):\n"
	"  -e, --endpoint SPEC     'SYMBOL', 'BINARY:SYMBOL' or 'BINARY:0xOFFSET', each\n"
	"                          with an optional name: 'handle_request(str(arg1))';\n"
	"                          may be given several times\n"
	"      --preset NAME       endpoints of a well-known server; 'spanprof presets'\n"
	"                          lists them; may be given several times: each for its\n"
	"                          own server's processes\n"
	"      --preset-file FILE  more presets for --preset NAME\n"
	"      --normalize sql|path  group names: literals become ?, ids become {id}\n"
	"                            (mysql, pgsql, sqlite: sql of one dialect)\n"
	"      --leave METHOD      how the end of a call is seen: auto (default),\n"
	"                          retsite, ret, uretprobe\n"
	"      --force             allow what can break the target: uretprobe, offsets\n"
	"                          that cannot be checked\n"
	"\n"
	"what is profiled:\n"
	"      --min-duration T    calls that take longer (default 100ms)\n"
	"      --period T          longest time on CPU between two snapshots\n"
	"                          (default 10ms, from 1ms)\n"
	"      --from-start        keep snapshots from before --min-duration, too\n"
	"      --max-samples N     end after N profiled calls of each endpoint\n"
	"                          (default 0: no limit)\n"
	"      --max-parallel N    profiled at the same time, for each endpoint\n"
	"                          (default 5, 0: no limit)\n"
	"      --max-overhead P    probe in turns, so that this costs at most P of the\n"
	"                          CPU time of what is profiled: 1%, 0.5%\n"
	"                          (default: no limit, all calls are counted)\n"
	"      --for T             end after this time (default: Ctrl-C)\n"
	"      --no-fork           leave out the workers that a process forks\n"
	"      --no-kernel         leave out kernel frames\n"
	"      --max-window SIZE   stack bytes of a snapshot (default and most: 64K)\n"
	"      --ring SIZE         buffer between kernel and spanprof (default 2M)\n"
	"\n";

enum { SHARE_MIN_PPM = 100 };
enum {
	OPT_EXE = 256,
	OPT_PRESET,
	OPT_PRESET_FILE,
	OPT_NORMALIZE,
	OPT_LEAVE,
	OPT_FORCE,
	OPT_MIN_DURATION,
	OPT_PERIOD,
	OPT_FOR,
	OPT_MAX_SAMPLES,
	OPT_MAX_PARALLEL,
	OPT_MAX_OVERHEAD,
	OPT_FROM_START,
	OPT_FORMAT,
	OPT_DEBUG_DIRS,
	OPT_DEBUGINFOD,
	OPT_NO_LINES,
	OPT_NO_FORK,
	OPT_NO_KERNEL,
	OPT_RING,
	OPT_WINDOW,
};

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"exe", required_argument, NULL, OPT_EXE},
	{"endpoint", required_argument, NULL, 'e'},
	{"preset", required_argument, NULL, OPT_PRESET},
	{"preset-file", required_argument, NULL, OPT_PRESET_FILE},
	{"normalize", required_argument, NULL, OPT_NORMALIZE},
	{"leave", required_argument, NULL, OPT_LEAVE},
	{"force", no_argument, NULL, OPT_FORCE},
	{"min-duration", required_argument, NULL, OPT_MIN_DURATION},
	{"period", required_argument, NULL, OPT_PERIOD},
	{"for", required_argument, NULL, OPT_FOR},
	{"max-samples", required_argument, NULL, OPT_MAX_SAMPLES},
	{"max-parallel", required_argument, NULL, OPT_MAX_PARALLEL},
	{"max-overhead", required_argument, NULL, OPT_MAX_OVERHEAD},
	{"from-start", no_argument, NULL, OPT_FROM_START},
	{"output", required_argument, NULL, 'o'},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"debug-dirs", required_argument, NULL, OPT_DEBUG_DIRS},
	{"debuginfod", no_argument, NULL, OPT_DEBUGINFOD},
	{"no-lines", no_argument, NULL, OPT_NO_LINES},
	{"no-fork", no_argument, NULL, OPT_NO_FORK},
	{"no-kernel", no_argument, NULL, OPT_NO_KERNEL},
	{"ring", required_argument, NULL, OPT_RING},
	{"max-window", required_argument, NULL, OPT_WINDOW},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{},
};

static int bad_value(const char *option, const char *value, const char *wanted)
{
	log_error("%s: '%s' is not %s", option, value, wanted);
	return EXIT_USAGE;
}

static int get_duration(const char *option, const char *text, uint64_t min_ns, uint64_t *ret)
{
	if (parse_duration(text, ret))
		return bad_value(option, text, "a time with a unit, such as 200ms, 1.5s or 2m");
	if (*ret < min_ns)
		return bad_value(option, text, "long enough; the least is 1ms");
	return 0;
}

static int get_size(const char *option, const char *text, uint64_t max, uint64_t *ret)
{
	bool giga = max >= 1 << 30;

	if (parse_size(text, ret) || *ret < 1024 || *ret > max) {
		log_error("%s: '%s' is not a size from 1K to %llu%c, such as 16K", option, text,
			  (unsigned long long)max >> (giga ? 30 : 10), giga ? 'G' : 'K');
		return EXIT_USAGE;
	}
	return 0;
}

static int get_count(const char *option, const char *text, uint64_t *ret)
{
	if (parse_u64(text, UINT32_MAX, ret))
		return bad_value(option, text, "a whole number from 0 (no limit) to 4294967295");
	return 0;
}

static int get_share(const char *option, const char *text, uint32_t *ret)
{
	if (parse_percent(text, ret) || *ret < SHARE_MIN_PPM)
		return bad_value(option, text,
				 "a share of the CPU time from 0.01% to 100%, such as 1%");
	return 0;
}

static int get_pids(struct run_options *o, char *text)
{
	static const char separators[] = ", \t\n"; /* as pidof and pgrep print them */
	const size_t n_before = o->pids.n;
	char *rest = NULL;

	for (char *word = strtok_r(text, separators, &rest); word;
	     word = strtok_r(NULL, separators, &rest)) {
		uint64_t pid;

		if (parse_u64(word, INT_MAX, &pid) || !pid)
			return bad_value("--pid", word, "a process ID, such as 1234");
		if (vec_push(&o->pids, (pid_t)pid))
			return EXIT_FAILED;
	}
	if (o->pids.n == n_before)
		return bad_value("--pid", "", "a process ID (does the program run?)");
	return 0;
}

static int get_leave(struct run_options *o, const char *text)
{
	if (parse_leave_method(text, &o->leave))
		return bad_value("--leave", text, "auto, retsite, ret or uretprobe");
	return 0;
}

static int parse_limit(struct run_options *o, int option)
{
	switch (option) {
	case OPT_MIN_DURATION:
		return get_duration("--min-duration", optarg, 0, &o->min_duration_ns);
	case OPT_PERIOD:
		return get_duration("--period", optarg, 1000000, &o->period_ns);
	case OPT_FOR:
		return get_duration("--for", optarg, 1, &o->for_ns);
	case OPT_MAX_SAMPLES:
		return get_count("--max-samples", optarg, &o->max_samples);
	case OPT_MAX_PARALLEL:
		return get_count("--max-parallel", optarg, &o->max_parallel);
	case OPT_MAX_OVERHEAD:
		return get_share("--max-overhead", optarg, &o->max_overhead_ppm);
	case OPT_RING:
		return get_size("--ring", optarg, 1 << 30, &o->ring_bytes);
	case OPT_WINDOW:
		return get_size("--max-window", optarg, WIRE_WINDOW_MAX, &o->window_bytes);
	default:
		return -1;
	}
}

static int parse_switch(struct run_options *o, int option)
{
	switch (option) {
	case OPT_FORCE:
		o->force = true;
		return 0;
	case OPT_FROM_START:
		o->from_start = true;
		return 0;
	case OPT_DEBUGINFOD:
		o->debuginfod = true;
		return 0;
	case OPT_NO_LINES:
		o->no_lines = true;
		return 0;
	case OPT_NO_FORK:
		o->no_fork = true;
		return 0;
	case OPT_NO_KERNEL:
		o->no_kernel = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'h':
		o->help = true;
		return 0;
	default:
		return -1;
	}
}

static int parse_text(struct run_options *o, int option)
{
	switch (option) {
	case 'p':
		return get_pids(o, optarg);
	case OPT_EXE:
		return vec_push(&o->exes, optarg) ? EXIT_FAILED : 0;
	case 'e':
		return vec_push(&o->endpoints, optarg) ? EXIT_FAILED : 0;
	case 'o':
		return vec_push(&o->outputs, (struct run_output){.path = optarg}) ? EXIT_FAILED : 0;
	case OPT_LEAVE:
		return get_leave(o, optarg);
	case OPT_PRESET:
		return vec_push(&o->presets, optarg) ? EXIT_FAILED : 0;
	case OPT_PRESET_FILE:
		o->preset_file = optarg;
		return 0;
	case OPT_NORMALIZE:
		o->normalize = optarg;
		return 0;
	case OPT_FORMAT:
		return run_options_set_format(o, optarg);
	case OPT_DEBUG_DIRS:
		o->debug_dirs = optarg;
		return 0;
	default:
		return -1;
	}
}

static int parse_one(struct run_options *o, int option)
{
	int r = parse_limit(o, option);

	if (r < 0)
		r = parse_switch(o, option);
	if (r < 0)
		r = parse_text(o, option);
	return r < 0 ? EXIT_USAGE : r; /* next_option() has printed why */
}

static int check_targets(const struct run_options *o, const char *command)
{
	bool named = o->pids.n || o->exes.n || o->command;

	if (o->preset_file && !o->presets.n) {
		log_error(
			"%s: --preset-file '%s' only adds presets to choose from, and none is chosen; add --preset NAME ('spanprof presets --preset-file FILE' lists them)",
			command, o->preset_file);
		return EXIT_USAGE;
	}
	if (!named && !o->presets.n) {
		log_error(
			"%s: no process to profile; name it with -p PID, --exe PATH, --preset NAME or -- COMMAND",
			command);
		return EXIT_USAGE;
	}
	if (!o->endpoints.n && !o->presets.n) {
		log_error(
			"%s: no endpoint; name the function whose calls are the requests with --endpoint 'SYMBOL' or use --preset NAME ('spanprof presets' lists them)",
			command);
		return EXIT_USAGE;
	}
	if (o->endpoints.n > WIRE_EP_MAX) {
		log_error("%s: %zu endpoints are given; at most %d are possible", command,
			  o->endpoints.n, WIRE_EP_MAX);
		return EXIT_USAGE;
	}
	if (o->normalize && strcmp(o->normalize, "sql") && strcmp(o->normalize, "mysql") &&
	    strcmp(o->normalize, "pgsql") && strcmp(o->normalize, "sqlite") &&
	    strcmp(o->normalize, "path"))
		return bad_value("--normalize", o->normalize, "sql, mysql, pgsql, sqlite or path");
	return 0;
}

static int bad_format(const char *name)
{
	char names[256] = "";
	size_t n = 0;

	for (const struct export_format *f = export_formats(); f->name; f++) {
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "", f->name);
		if (n >= sizeof(names))
			break;
	}
	log_error("--format: there is no format '%s'; use one of: %s", name, names);
	return EXIT_USAGE;
}

int run_options_set_format(struct run_options *o, const char *name)
{
	if (o->format_name) {
		log_error(
			"--format may be given once: it is for every -o; without it, each has the format that its name says");
		return EXIT_USAGE;
	}
	o->format_name = name;
	return 0;
}

/* Links to what is open as standard output: a file there must not be replaced under its writers. */
static bool is_stdout(const char *path)
{
	return !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1") ||
	       !strcmp(path, "/proc/self/fd/1");
}

bool run_options_take_stdout(const struct run_options *o)
{
	for (size_t i = 0; i < o->outputs.n; i++)
		if (!strcmp(o->outputs.at[i].path, "-") || is_stdout(o->outputs.at[i].path))
			return true;
	return false;
}

/* Of one file --format may say something else than its name: it was meant for that. Of several, who knows. */
static int choose_format(const struct run_options *o, const struct export_format *named,
			 struct run_output *out)
{
	const struct export_format *guessed = export_guess(out->path);

	if (named && guessed && named != guessed && o->outputs.n > 1) {
		log_error(
			"--format %s would be for every -o, but the name of '%s' says %s; without --format each has the format that its name says",
			named->name, out->path, guessed->name);
		return EXIT_USAGE;
	}
	out->format = named ? named : guessed;
	if (out->format)
		return 0;
	log_error(
		"-o: cannot tell the format of '%s' from its name; add --format text, folded, pprof, json, html or otlp",
		out->path);
	return EXIT_USAGE;
}

int run_options_check_outputs(struct run_options *o)
{
	const struct export_format *named = NULL;

	if (o->format_name && !(named = export_find(o->format_name)))
		return bad_format(o->format_name);
	if (named && !o->outputs.n && vec_push(&o->outputs, (struct run_output){.path = "-"}))
		return EXIT_FAILED;
	for (size_t i = 0; i < o->outputs.n; i++) {
		struct run_output *out = &o->outputs.at[i];
		int r = choose_format(o, named, out);

		if (r)
			return r;
		if (is_stdout(out->path))
			out->path = "-";
	}
	return 0;
}

static int check_recording(const struct run_options *o)
{
	if (o->outputs.n != 1 || !strcmp(o->outputs.at[0].path, "-")) {
		log_error("record: name the one capture file to write with -o FILE");
		return EXIT_USAGE;
	}
	if (o->format_name) {
		log_error("record: --format is for 'spanprof report', which converts the capture");
		return EXIT_USAGE;
	}
	return 0;
}

static int bad_word(const struct run_options *o, const char *command, const char *word)
{
	uint64_t pid;

	if (o->pids.n && !parse_u64(word, INT_MAX, &pid))
		log_error(
			"%s: '%s' is not an option; several process IDs are separated by commas: -p %d,%s",
			command, word, o->pids.at[o->pids.n - 1], word);
	else
		log_error("%s: '%s' is not an option; put '--' before a command to run", command,
			  word);
	return EXIT_USAGE;
}

int run_options_parse(struct run_options *o, int argc, char **argv, bool recording)
{
	const char *command = recording ? "record" : "run";
	int option, r = 0;

	*o = (struct run_options){
		.min_duration_ns = 100000000,
		.period_ns = 10000000,
		.max_parallel = 5,
	};
	optind = 0; /* also forgets the word in which the line before was refused */
	while (!r && (option = next_option(argc, argv, "+:p:e:o:qvh", long_options)) != -1)
		r = parse_one(o, option);
	if (r || o->help)
		return r;
	if (optind < argc && strcmp(argv[optind - 1], "--"))
		return bad_word(o, command, argv[optind]);
	if (optind < argc)
		o->command = argv + optind;
	r = check_targets(o, command);
	if (!r)
		r = recording ? check_recording(o) : run_options_check_outputs(o);
	return r;
}

void run_options_deinit(struct run_options *o)
{
	vec_free(&o->pids);
	vec_free(&o->exes);
	vec_free(&o->endpoints);
	vec_free(&o->presets);
	vec_free(&o->outputs);
}
