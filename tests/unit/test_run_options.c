/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_options.c: the command line of `run` and `record`. */
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/run_options.h"
#include "bpf/wire.h"
#include "tests/unit/caught.h"

enum { WORDS_MAX = 160, LINE_BYTES = 1024 };

/* A line, cut at its spaces into the words that the options borrow. */
struct line {
	char text[LINE_BYTES];
	char *words[WORDS_MAX + 1];
	struct run_options o;
};

static int parse(struct line *l, const char *text)
{
	bool recording = !strncmp(text, "record", 6);
	char *rest = NULL;
	int n = 0;

	*l = (struct line){};
	assert_true(strlen(text) < sizeof(l->text));
	strcpy(l->text, text);
	for (char *w = strtok_r(l->text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		assert_true(n < WORDS_MAX);
		l->words[n++] = w;
	}
	return run_options_parse(&l->o, n, l->words, recording);
}

static const struct run_options *good(struct line *l, const char *text)
{
	int r = parse(l, text);

	if (r)
		print_error("refused: %s\n", text);
	assert_int_equal(r, 0);
	return &l->o;
}

static void refused(const char *text)
{
	struct line l;
	int r = parse(&l, text);

	if (r != EXIT_USAGE)
		print_error("status %d: %s\n", r, text);
	assert_int_equal(r, EXIT_USAGE);
	run_options_deinit(&l.o);
}

static void defaults(void **state)
{
	struct line l;
	const struct run_options *o = good(&l, "run -p 12 -e handle");

	assert_int_equal(o->min_duration_ns, 100000000);
	assert_int_equal(o->period_ns, 10000000);
	assert_int_equal(o->max_parallel, 5);
	assert_int_equal(o->max_samples, 0);
	assert_int_equal(o->for_ns, 0);
	assert_int_equal(o->ring_bytes, 0);
	assert_int_equal(o->window_bytes, 0);
	assert_int_equal(o->leave, LEAVE_AUTO);
	assert_false(o->force || o->from_start || o->debuginfod || o->no_lines || o->no_fork ||
		     o->no_kernel || o->quiet || o->verbose || o->help);
	assert_null(o->command);
	assert_int_equal(o->pids.n, 1);
	assert_int_equal(o->pids.at[0], 12);
	assert_int_equal(o->endpoints.n, 1);
	assert_string_equal(o->endpoints.at[0], "handle");
	assert_int_equal(o->outputs.n, 0);
	run_options_deinit(&l.o);
}

static void limits_take_units(void **state)
{
	struct line l;
	const struct run_options *o =
		good(&l, "run -p 1 -e f --min-duration 1.5s --period=1ms --for 2m --max-samples 7"
			 " --max-parallel 0 --ring 8M --max-window 64K --max-overhead 0.5%");

	assert_int_equal(o->min_duration_ns, 1500000000);
	assert_int_equal(o->period_ns, 1000000);
	assert_int_equal(o->for_ns, 120000000000);
	assert_int_equal(o->max_samples, 7);
	assert_int_equal(o->max_parallel, 0);
	assert_int_equal(o->max_overhead_ppm, 5000);
	assert_int_equal(o->ring_bytes, 8 << 20);
	assert_int_equal(o->window_bytes, WIRE_WINDOW_MAX);
	run_options_deinit(&l.o);
	assert_int_equal(good(&l, "run -p 1 -e f --min-duration 0")->min_duration_ns, 0);
	run_options_deinit(&l.o);
	assert_int_equal(good(&l, "run -p 1 -e f --max-samples 4294967295")->max_samples,
			 UINT32_MAX);
	run_options_deinit(&l.o);
}

static void bad_limits_are_refused(void **state)
{
	static const char *const bad[] = {
		"--min-duration 100",
		"--min-duration -1ms",
		"--min-duration=",
		"--period 0",
		"--period 999us",
		"--period 10",
		"--for 0",
		"--for soon",
		"--max-samples -1",
		"--max-samples 4294967296",
		"--max-samples 1k",
		"--ring 1023",
		"--ring 1025M",
		"--ring 8MB",
		"--max-window 65K",
		"--max-window 1",
		"--max-parallel five",
		"--max-overhead 0",
		"--max-overhead 0.001%",
		"--max-overhead 101%",
		"--max-overhead 1s",
		"--max-parallel",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[LINE_BYTES];

		snprintf(text, sizeof(text), "run -p 1 -e f %s", bad[i]);
		refused(text);
	}
}

static void switches(void **state)
{
	struct line l;
	const struct run_options *o =
		good(&l, "run -p 1 -e f --force --from-start --debuginfod --no-lines --no-fork"
			 " --no-kernel -q -v --leave ret --debug-dirs /d --normalize sql");

	assert_true(o->force && o->from_start && o->debuginfod && o->no_lines && o->no_fork &&
		    o->no_kernel && o->quiet && o->verbose);
	assert_int_equal(o->leave, LEAVE_RET);
	assert_string_equal(o->debug_dirs, "/d");
	assert_string_equal(o->normalize, "sql");
	run_options_deinit(&l.o);
	refused("run -p 1 -e f --leave never");
	refused("run -p 1 -e f --normalize html");
	refused("run -p 1 -e f --no-kernel=yes");
	refused("run -p 1 -e f --no-such-option");
	refused("run -p 1 -e f -Z");
}

/* As pidof and pgrep print them. */
static void processes(void **state)
{
	char run[] = "run", p[] = "-p", pids[] = "1 22,\n333\t4444 ", e[] = "-e", f[] = "f";
	char *words[] = {run, p, pids, e, f, NULL};
	struct run_options o;
	struct line l;

	assert_int_equal(run_options_parse(&o, 5, words, false), 0);
	assert_int_equal(o.pids.n, 4);
	assert_int_equal(o.pids.at[0], 1);
	assert_int_equal(o.pids.at[3], 4444);
	run_options_deinit(&o);
	assert_int_equal(good(&l, "run -p 1,2 -p 3 --exe /a --exe /b -e f -e g")->pids.n, 3);
	assert_int_equal(l.o.exes.n, 2);
	assert_string_equal(l.o.exes.at[1], "/b");
	assert_int_equal(l.o.endpoints.n, 2);
	run_options_deinit(&l.o);
	assert_int_equal(good(&l, "run -p 2147483647 -e f")->pids.at[0], INT32_MAX);
	run_options_deinit(&l.o);
	refused("run -p 0 -e f");
	refused("run -p -5 -e f");
	refused("run -p 2147483648 -e f");
	refused("run -p 1,x -e f");
	refused("run -p , -e f");
	refused("run -p= -e f");
}

static void command_follows_two_dashes(void **state)
{
	struct line l;
	const struct run_options *o = good(&l, "run -e f -q -- /bin/server -p 80 -- x");

	assert_non_null(o->command);
	assert_string_equal(o->command[0], "/bin/server");
	assert_string_equal(o->command[1], "-p");
	assert_string_equal(o->command[4], "x");
	assert_null(o->command[5]);
	assert_int_equal(o->pids.n, 0);
	run_options_deinit(&l.o);
	refused("run -e f /bin/server");
	refused("run -p 1 -e f stray --quiet");
	refused("run -e f --");
}

static void something_to_profile_is_needed(void **state)
{
	char text[LINE_BYTES] = "run -p 1";
	struct line l;

	refused("run");
	refused("run -e f");
	refused("run -p 1");
	refused("run -- /bin/server");
	assert_int_equal(good(&l, "run --preset redis")->presets.n, 1);
	run_options_deinit(&l.o);
	for (int i = 0; i < WIRE_EP_MAX; i++)
		strcat(text, " -e f");
	assert_int_equal(good(&l, text)->endpoints.n, WIRE_EP_MAX);
	run_options_deinit(&l.o);
	refused(strcat(text, " -e f"));
}

/* A file of presets chooses none of them. */
static void preset_file_without_a_preset(void **state)
{
	struct caught c;
	struct line l;

	assert_string_equal(good(&l, "run --preset-file mine --preset x")->preset_file, "mine");
	run_options_deinit(&l.o);
	refused("record -p 1 -o a -e f --preset-file mine");
	catch_begin(&c, stderr);
	refused("run -p 1 --preset-file mine");
	assert_has(catch_end(&c), "run: --preset-file 'mine' only adds presets");
	assert_has(c.text, "add --preset NAME");
}

/* What else is on the line is not looked at. */
static void help_needs_nothing(void **state)
{
	struct line l;

	assert_true(good(&l, "run --help")->help);
	run_options_deinit(&l.o);
	assert_true(good(&l, "record -h")->help);
	run_options_deinit(&l.o);
	refused("run --period 0 --help");
}

static void formats_of_outputs(void **state)
{
	struct line l;
	const struct run_options *o =
		good(&l, "run -p 1 -e f -o a -o b.txt -o /dev/stdout --period 5ms"
			 " --format text");

	assert_int_equal(o->outputs.n, 3);
	assert_string_equal(o->outputs.at[0].format->name, "text");
	assert_string_equal(o->outputs.at[2].path, "-");
	run_options_deinit(&l.o);
	o = good(&l, "run -p 1 -e f -o a.json -o b.pb.gz");
	assert_string_equal(o->outputs.at[0].format->name, "json");
	assert_string_equal(o->outputs.at[1].format->name, "pprof");
	run_options_deinit(&l.o);
	o = good(&l, "run -p 1 -e f --format folded");
	assert_int_equal(o->outputs.n, 1);
	assert_string_equal(o->outputs.at[0].path, "-");
	assert_string_equal(o->outputs.at[0].format->name, "folded");
	run_options_deinit(&l.o);
	o = good(&l, "run -p 1 -e f -o a.txt --format folded");
	assert_string_equal(o->outputs.at[0].format->name, "folded");
	run_options_deinit(&l.o);
	refused("run -p 1 -e f -o a.json -o b.pb.gz --format json");
	refused("run -p 1 -e f -o nameless");
	refused("run -p 1 -e f -o a.json --format xml");
}

static void record_writes_one_capture(void **state)
{
	struct line l;

	assert_string_equal(good(&l, "record -p 1 -e f -o any")->outputs.at[0].path, "any");
	run_options_deinit(&l.o);
	refused("record -p 1 -e f");
	refused("record -p 1 -e f -o a -o b");
	refused("record -p 1 -e f -o -");
	refused("record -p 1 -e f -o a --format json");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(limits_take_units),
		cmocka_unit_test(bad_limits_are_refused),
		cmocka_unit_test(switches),
		cmocka_unit_test(processes),
		cmocka_unit_test(command_follows_two_dashes),
		cmocka_unit_test(something_to_profile_is_needed),
		cmocka_unit_test(preset_file_without_a_preset),
		cmocka_unit_test(help_needs_nothing),
		cmocka_unit_test(formats_of_outputs),
		cmocka_unit_test(record_writes_one_capture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
