/* SPDX-License-Identifier: Apache-2.0 */
#include "app/command.h"
#include "app/run_options.h"
#include "app/session.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

static const char help_head[] =
	"usage: spanprof record TARGET --endpoint SPEC -o FILE [OPTIONS]\n"
	"\n"
	"Like 'spanprof run', but writes what was seen to a capture file: the raw\n"
	"snapshots and the list of mapped files. 'spanprof report FILE' turns it into\n"
	"any format, without root. The capture holds bytes of the target's stacks: treat\n"
	"it as confidential.\n"
	"\n";

static const char help_output[] =
	"output:\n"
	"  -o, --output FILE       the capture file to write\n"
	"      --debug-dirs DIRS   where debug files are (default /usr/lib/debug), for\n"
	"                          functions that only they name\n"
	"\n"
	"What shows a profile is for 'spanprof report': --format, --debuginfod,\n"
	"--no-lines. Signals and exit status are those of 'spanprof run'.\n"
	"\n"
	"example:\n"
	"  spanprof record -p 1234 -e handle_request --for 30s -o slow.capture\n"
	"  spanprof report slow.capture -o slow.pb.gz\n";

static void tell_recorded(size_t n, const char *path)
{
	log_info("%zu slow call%s recorded in '%s'; 'spanprof report %s' shows where the time went",
		 n, n == 1 ? "" : "s", path, path);
}

static int record(const struct run_options *o)
{
	CLEANUP(file_out_deinit) struct file_out out = {};
	struct session *s = NULL;
	struct errmsg e = {};
	int r, status;

	if (file_out_open(&out, o->outputs.at[0].path, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILED;
	}
	out.is_private = true; /* it holds bytes of the target's stacks */
	r = session_new(&s, o, out.stream);
	if (r)
		return r;
	r = session_run(s);
	if (!r && file_out_commit(&out, &e)) {
		log_error("%s", e.text);
		r = EXIT_FAILED;
	}
	if (!r)
		tell_recorded(session_profile(s)->spans.n - 1, o->outputs.at[0].path);
	status = session_command_status(s);
	session_free(s);
	return r || status < 0 ? r : status;
}

int cmd_record(int argc, char **argv)
{
	CLEANUP(run_options_deinit) struct run_options o = {};
	int r = run_options_parse(&o, argc, argv, true);

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
	return record(&o);
}
