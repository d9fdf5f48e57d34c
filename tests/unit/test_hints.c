/* SPDX-License-Identifier: Apache-2.0 */
/* test_hints.c: what a run tells beside its result, and when it keeps quiet. */
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "app/hints.h"
#include "caught.h"
#include "sample_profile.h"

static void debuginfod_without_a_server(void **state)
{
	struct caught c;

	unsetenv("DEBUGINFOD_URLS");
	catch_begin(&c, stderr);
	hints_debuginfod(false);
	assert_string_equal(catch_end(&c), "");
	catch_begin(&c, stderr);
	hints_debuginfod(true);
	assert_has(catch_end(&c), "warning: --debuginfod: no server is asked");
	setenv("DEBUGINFOD_URLS", "http://localhost:1", 1);
	catch_begin(&c, stderr);
	hints_debuginfod(true);
	assert_string_equal(catch_end(&c), "");
}

/* One span of 100 ms: so much of it in a function of the module that has no name. */
static struct profile *nameless_for(const char *module, uint64_t ms)
{
	struct profile *p = sample_profile_bare();
	uint32_t m = sample_module(p, module, 1, 0x1000);
	uint32_t named = sample_location(p, m, "known", "", 0, 0);
	uint32_t unknown = sample_location(p, m, "libx.so+0x1230", "", 0, PROFILE_FRAME_UNKNOWN);
	uint32_t with[] = {unknown, named}, recursive[] = {unknown, unknown, named};
	uint32_t stack, twice, without;

	assert_int_equal(profile_add_stack(p, with, 2, STACK_STOP_ENDPOINT, &stack), 0);
	assert_int_equal(profile_add_stack(p, recursive, 3, STACK_STOP_ENDPOINT, &twice), 0);
	assert_int_equal(profile_add_stack(p, &named, 1, STACK_STOP_ENDPOINT, &without), 0);
	sample_span(p, sample_endpoint(p, "e", 1, 1), "e", 1, 0);
	sample_wall(p, stack, SAMPLE_ONCPU, -1, ms * 500);
	sample_wall(p, twice, SAMPLE_ONCPU, -1, ms * 500);
	sample_wall(p, without, SAMPLE_ONCPU, -1, (100 - ms) * 1000);
	return p;
}

static const char *symbols(struct caught *c, const char *module, uint64_t ms, bool debuginfod)
{
	struct profile *p = nameless_for(module, ms);

	catch_begin(c, stderr);
	hints_symbols(p, debuginfod);
	profile_free(p);
	return catch_end(c);
}

/* More than a tenth of the time, counted once a sample however often it is in the stack. */
static void functions_without_a_name(void **state)
{
	struct caught c;

	assert_string_equal(symbols(&c, "/usr/lib/libx.so", 10, false), "");
	assert_has(symbols(&c, "/usr/lib/libx.so", 12, false),
		   "functions without a name, such as libx.so+0x1230, are known to the debug "
		   "symbols of '/usr/lib/libx.so'");
	assert_has(c.text, "or try --debuginfod");
	assert_null(strstr(symbols(&c, "/usr/lib/libx.so", 50, true), "--debuginfod"));
	/* Nobody has the symbols of what is no file. */
	assert_string_equal(symbols(&c, "[vdso]", 50, false), "");
}

/* A child that waits for ever. */
static pid_t waiting_child(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	assert_true(pid > 0);
	return pid;
}

static void end_child(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void processes_that_are_gone(void **state)
{
	struct run_options o = {};
	pid_t pid = waiting_child();
	struct caught c;

	assert_int_equal(vec_push(&o.pids, pid), 0);
	catch_begin(&c, stderr);
	hints_left(pid);
	assert_has(catch_end(&c), "has called exec and is not profiled any more; --exe '");
	assert_has(c.text, "test_hints'");
	catch_begin(&c, stderr);
	hints_gone(&o);
	assert_string_equal(catch_end(&c), "");
	end_child(pid);
	catch_begin(&c, stderr);
	hints_gone(&o);
	assert_string_equal(catch_end(&c), "spanprof: all processes have ended\n");
	run_options_deinit(&o);
}

static void a_preset_for_another_program(void **state)
{
	char exe[] = "specialserver", here[] = "test_hints";
	struct preset p = {.name = (char *)"special", .exes = {.at = {exe}, .n = 1}};
	struct run_options o = {};
	struct caught c;

	assert_int_equal(vec_push(&o.pids, getpid()), 0);
	catch_begin(&c, stderr);
	hints_strangers(&o, &p);
	assert_has(catch_end(&c), "preset 'special' is for specialserver; process ");
	p.exes.at[0] = here;
	catch_begin(&c, stderr);
	hints_strangers(&o, &p);
	p.exes.n = 0; /* of a library: any program may have that */
	hints_strangers(&o, &p);
	assert_string_equal(catch_end(&c), "");
	run_options_deinit(&o);
}

static void a_process_that_is_traced(void **state)
{
	struct run_options o = {};
	pid_t pid = waiting_child();
	struct caught c;

	assert_int_equal(vec_push(&o.pids, pid), 0);
	catch_begin(&c, stderr);
	hints_traced_at_start(pid);
	hints_traced_at_end(&o);
	assert_string_equal(catch_end(&c), "");
	if (ptrace(PTRACE_SEIZE, pid, 0, 0)) {
		end_child(pid);
		run_options_deinit(&o);
		print_message("ptrace is not permitted here\n");
		skip();
	}
	catch_begin(&c, stderr);
	hints_traced_at_start(pid);
	assert_has(catch_end(&c), "test_hints): a debugger must delete its breakpoints");
	catch_begin(&c, stderr);
	hints_traced_at_end(&o);
	assert_has(catch_end(&c), "run spanprof again while it deletes them");
	end_child(pid);
	run_options_deinit(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(debuginfod_without_a_server),
		cmocka_unit_test(functions_without_a_name),
		cmocka_unit_test(processes_that_are_gone),
		cmocka_unit_test(a_preset_for_another_program),
		cmocka_unit_test(a_process_that_is_traced),
	};

	return cmocka_run_group_tests_name("hints", tests, NULL, NULL);
}
