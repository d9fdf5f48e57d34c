/* SPDX-License-Identifier: Apache-2.0 */
#include "app/command.h"
#include "app/hints.h"
#include "app/output.h"
#include "app/run_options.h"
#include "app/session.h"
#include "base/cleanup.h"
#include "base/log.h"

static const char help[] =
	"usage: spanprof run TARGET --endpoint SPEC [OPTIONS]\n"
	"\n"
	"Attaches to running processes, waits for calls of the endpoint that take longer\n"
	"than --min-duration, takes snapshots of them, and prints where their time went.\n"
	"\n"
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
	"\n"
	"output:\n"
	"  -o, --output FILE       write a file, too; its name says the format (.folded\n"
	"                          .pb.gz .json .html)\n"
	"      --format FORMAT     text, folded, pprof, json, html, otlp: of every -o;\n"
	"                          without -o to stdout, where the output of a COMMAND\n"
	"                          goes as well\n"
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
		fputs(help, stdout);
		return 0;
	}
	if (o.verbose)
		log_set_level(LOG_LEVEL_DEBUG);
	hints_debuginfod(o.debuginfod);
	r = outputs_open(&files, &o);
	return r ? r : profile(&o, &files);
}
