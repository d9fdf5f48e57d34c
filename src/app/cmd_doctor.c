/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c: what works on this machine and for this process, and how to fix what does not. */
#include <limits.h>
#include <stdio.h>

#include "app/command.h"
#include "app/doctor.h"
#include "app/options.h"
#include "base/log.h"
#include "base/units.h"

static const char help[] =
	"usage: spanprof doctor [-p PID] [OPTIONS]\n"
	"\n"
	"Says what of spanprof works on this kernel with these capabilities, and how to\n"
	"fix what does not; with -p also for a process: its runtimes, unwind data,\n"
	"symbols, and the safety of probes. The exit status is 0 when spanprof can be\n"
	"used, 1 when it cannot.\n"
	"\n"
	"  -p, --pid PID         look at this process, too, and first\n"
	"      --json            the same as JSON\n"
	"      --debug-dirs DIRS where separate debug files are (default /usr/lib/debug)\n"
	"  -h, --help\n"
	"\n"
	"examples:\n"
	"  spanprof doctor\n"
	"  spanprof doctor -p 4242 --json\n";

static void print_text(const struct doctor *d)
{
	static const char *const marks[] = {"ok", "note", "WARN", "FAIL"};
	const char *group = "";

	for (size_t i = 0; i < d->n; i++) {
		const struct finding *f = &d->at[i];

		if (f->group != group)
			printf("%s%s\n", i ? "\n" : "", f->group);
		group = f->group;
		printf("  %-4s  %-22s %s\n", marks[f->level], f->what, f->text);
		if (f->fix[0])
			printf("  %-4s  %-22s -> %s\n", "", "", f->fix);
	}
	if (doctor_is_usable(d))
		printf("\nspanprof can be used here\n");
	else if (doctor_is_only_process(d))
		printf("\nspanprof can be used here, but not with this process: see FAIL above\n");
	else
		printf("\nspanprof cannot be used here: see FAIL above\n");
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"pid", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"debug-dirs", required_argument, NULL, 'd'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *debug_dirs = NULL;
	struct doctor d = {0};
	uint64_t pid = 0;
	bool json = false;
	int c, r;

	optind = 1;
	while ((c = next_option(argc, argv, ":p:h", options)) != -1) {
		if (c == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (c == 'p' && (parse_u64(optarg, INT_MAX, &pid) < 0 || !pid)) {
			log_error("-p: '%s' is not a process ID", optarg);
			return EXIT_USAGE;
		}
		if (c == '?')
			return EXIT_USAGE;
		json |= c == 'j';
		debug_dirs = c == 'd' ? optarg : debug_dirs;
	}
	if (optind < argc) {
		log_error("doctor: takes no argument '%s'; name a process with -p PID",
			  argv[optind]);
		return EXIT_USAGE;
	}
	/* What was asked for comes first. */
	if (pid)
		doctor_check_process(&d, (pid_t)pid, debug_dirs);
	doctor_check_system(&d);
	if (json)
		doctor_print_json(&d, stdout);
	else
		print_text(&d);
	r = doctor_is_usable(&d) ? 0 : EXIT_FAILED;
	doctor_deinit(&d);
	return r;
}
