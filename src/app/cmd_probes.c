/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_probes.c: finds, counts and checks functions that could be endpoints. */
#include <limits.h>
#include <stdio.h>

#include "app/command.h"
#include "app/hints.h"
#include "app/options.h"
#include "app/probes_command.h"
#include "base/log.h"
#include "base/units.h"
#include "probe/attach.h"
#include "probe/rules.h"

static const char help[] =
	"usage: spanprof probes -p PID [OPTIONS] [PATTERN]\n"
	"\n"
	"Lists functions and USDT probes of a running process that could be endpoints:\n"
	"where the probe would go, whether that is cheap, and why not. PATTERN is a\n"
	"glob, or part of a name; without it, functions of the program are listed whose\n"
	"names sound like requests. --count and --check watch the process together with\n"
	"its workers: those of its descendants that run the same program; Ctrl-C ends\n"
	"that early, with what was seen until then.\n"
	"\n"
	"  -p, --pid PID         the process\n"
	"      --count TIME      count their calls for so long (in batches that share\n"
	"                        it), and rank them by the time spent in them, which\n"
	"                        counts for little where there are few calls a second,\n"
	"                        or all are of one thread beside several that work\n"
	"      --check SPEC      dry-run an endpoint specification: site, cost, and ten\n"
	"                        names it reads\n"
	"      --for TIME        how long --check watches at most (default 5s)\n"
	"      --all             list everything\n"
	"      --debug-dirs DIRS where separate debug files are (default /usr/lib/debug)\n"
	"  -h, --help\n"
	"\n"
	"examples:\n"
	"  spanprof probes -p 4242 'ap_*request*'\n"
	"  spanprof probes -p 4242 --count 5s\n"
	"  spanprof probes -p 4242 --check 'handle_request(str(arg1))'\n";

enum { OPT_COUNT = 256, OPT_CHECK, OPT_FOR, OPT_ALL, OPT_DEBUG_DIR };

static const struct option options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"count", required_argument, NULL, OPT_COUNT},
	{"check", required_argument, NULL, OPT_CHECK},
	{"for", required_argument, NULL, OPT_FOR},
	{"all", no_argument, NULL, OPT_ALL},
	{"debug-dirs", required_argument, NULL, OPT_DEBUG_DIR},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int take_time(const char *option, const char *text, uint64_t *ret_ns)
{
	if (parse_duration(text, ret_ns) == 0 && *ret_ns > 0)
		return 0;
	log_error("%s: '%s' is not a time with a unit, such as 5s or 500ms", option, text);
	return EXIT_USAGE;
}

static int take_pid(const char *text, pid_t *ret)
{
	uint64_t v;

	if (parse_u64(text, INT_MAX, &v) < 0 || v == 0) {
		log_error("-p: '%s' is not a process ID", text);
		return EXIT_USAGE;
	}
	*ret = (pid_t)v;
	return 0;
}

static int take_option(struct probes_command *c, int opt, const char *value)
{
	switch (opt) {
	case 'p':
		return take_pid(value, &c->pid);
	case OPT_COUNT:
		return take_time("--count", value, &c->count_ns);
	case OPT_FOR:
		return take_time("--for", value, &c->count_ns);
	case OPT_CHECK:
		c->check = value;
		return 0;
	case OPT_ALL:
		c->all = true;
		return 0;
	case OPT_DEBUG_DIR:
		c->debug_dirs = value;
		return 0;
	default:
		return EXIT_USAGE;
	}
}

static int check_command(const struct probes_command *c, int n_rest)
{
	if (c->pid == 0) {
		log_error("probes: name the process with -p PID");
		return EXIT_USAGE;
	}
	if (n_rest > 1 || (n_rest && c->check)) {
		log_error(n_rest > 1 ? "probes: one PATTERN at most"
				     : "probes: --check takes no PATTERN");
		return EXIT_USAGE;
	}
	return 0;
}

/* So that a place has the price here that `run` will see. */
static void measure(struct site_rules *ret)
{
	struct attach_source source;

	if (attach_source_read(&source, NULL) == 0)
		rules_measure(&source, ret);
}

int cmd_probes(int argc, char **argv)
{
	struct probes_command c = {0};
	struct inspect i = {0};
	struct errmsg e = {""};
	int opt, r;

	optind = 1;
	while ((opt = next_option(argc, argv, ":p:h", options)) != -1) {
		if (opt == 'h') {
			fputs(help, stdout);
			return 0;
		}
		r = take_option(&c, opt, optarg);
		if (r)
			return r;
	}
	r = check_command(&c, argc - optind);
	if (r)
		return r;
	c.pattern = optind < argc ? argv[optind] : NULL;
	if (inspect_open(&i, c.pid, c.debug_dirs, 0, &e) < 0) {
		log_error("%s", e.text);
		return EXIT_FAILED;
	}
	measure(&c.rules);
	if (c.check)
		r = probes_check(&i, &c);
	else if (c.count_ns)
		r = probes_count(&i, &c);
	else
		r = probes_list(&i, &c);
	if (!c.check)
		hints_presets(c.pid);
	inspect_deinit(&i);
	return r;
}
