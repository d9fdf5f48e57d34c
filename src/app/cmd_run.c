/* SPDX-License-Identifier: Apache-2.0 */
#include "app/command.h"
#include "app/hints.h"
#include "app/output.h"
#include "app/run_options.h"
#include "app/session.h"
#include "base/cleanup.h"
#include "base/log.h"

static const char help_head[] =
	"usage: spanprof run TARGET --endpoint SPEC [OPTIONS]\n"
	"\n"
	"Attaches to running processes, waits for calls of the endpoint that take longer\n"
	"than --min-duration, takes snapshots of them, and prints where their time went.\n"
	"\n";

static const char help_output[] =
	"output:\n"
	"  -o, --output FILE       write a file, too; its name says the format (.txt\n"
	"                          .pb.gz .pprof .pb .folded .collapsed .json .html\n"
	"                          .htm .otlp)\n"
	"      --format FORMAT     text, folded, pprof, json, html, otlp: of every -o;\n"
	"                          without -o to stdout, and what a COMMAND writes there\n"
	"                          goes to stderr, as with -o -\n"
	"      --debug-dirs DIRS   where debug files are (default /usr/lib/debug)\n"
	"      --debuginfod        ask debuginfod servers for them, for at most 10 s\n"
	"      --no-lines          no file names, line numbers and inlined functions\n"
	"  -q, --quiet             no text on standard output\n"
	"  -v, --verbose           all counters\n"
	"\n"
	"Calls that hang are told of on standard error. SIGINT ends the run, SIGTERM and\n"
	"SIGHUP the COMMAND as well; a second signal cuts the look-up of lines at the\n"
	"end short.\n"
	"times: 10ms, 1.5s, 2m; sizes: 64K, 1M. Exit status: that of the COMMAND, else\n"
	"0, 1 when it failed, 2 for wrong usage.\n"
	"\n"
	"examples:\n"
	"  spanprof run -p 1234 -e 'handle_request(str(arg1))' --min-duration 200ms\n"
	"  spanprof run --preset postgres --min-duration 500ms -o slow.pb.gz\n"
	"  spanprof run --exe /srv/bin/shop -e handle_request -- ./start-shop.sh\n"
	"  spanprof run -e compute --min-duration 1ms --period 1ms -- ./batch data\n";

static int profile(const struct run_options *o, struct outputs *files)
{
	struct session *s = NULL;
	int r, status;

	r = session_new(&s, o, NULL);
	if (r)
		return r;
	r = session_run(s);
	if (!r)
		r = outputs_write(files, o, session_profile(s));
	if (!r)
		hints_symbols(session_profile(s), o->debuginfod);
	status = session_command_status(s);
	session_free(s);
	return r || status < 0 ? r : status;
}

int cmd_run(int argc, char **argv)
{
	CLEANUP(run_options_deinit) struct run_options o = {};
	CLEANUP(outputs_deinit) struct outputs files = {};
	int r = run_options_parse(&o, argc, argv, false);

	if (r)
		return r;
	if (o.help) {
		fputs(help_head, stdout);
		fputs(run_options_help, stdout);
		fputs(help_output, stdout);
		return 0;
	}
	if (o.verbose)
		log_set_level(LOG_LEVEL_DEBUG);
	hints_debuginfod(o.debuginfod);
	r = outputs_open(&files, &o);
	return r ? r : profile(&o, &files);
}
