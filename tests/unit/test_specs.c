/* SPDX-License-Identifier: Apache-2.0 */
/* test_specs.c: the endpoints of options and presets together; this very program is the server. */
#include <limits.h>
#include <stdlib.h>

#include "app/command.h"
#include "app/specs.h"
#include "caught.h"

static const char presets_text[] = "[specs-here]\n"
				   "alias = specs-alias\n"
				   "summary = this test\n"
				   "exe = test_specs\n"
				   "endpoint = first(str(arg0));file=*/test_specs\n"
				   "endpoint = other;file=*/another_build\n"
				   "endpoint = last\n"
				   "[specs-too]\n"
				   "summary = another one for this test\n"
				   "exe = test_sp* specs-more\n"
				   "endpoint = second\n"
				   "[specs-library]\n"
				   "summary = in any process\n"
				   "library = libspecs.so*\n"
				   "endpoint = 'libspecs.so*':third\n"
				   "[specs-nowhere]\n"
				   "summary = nothing\n"
				   "exe = specs-no-such-program\n"
				   "endpoint = end_one;end=end_two\n";

struct world {
	char file[32];
	struct run_options o;
	struct specs s;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	FILE *f;

	assert_non_null(w);
	strcpy(w->file, "/tmp/spanprof-XXXXXX");
	f = fdopen(mkstemp(w->file), "we");
	assert_non_null(f);
	fputs(presets_text, f);
	assert_int_equal(fclose(f), 0);
	w->o.preset_file = w->file;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	specs_deinit(&w->s);
	run_options_deinit(&w->o);
	unlink(w->file);
	free(w);
	return 0;
}

static void ask_preset(struct world *w, const char *name)
{
	assert_int_equal(vec_push(&w->o.presets, name), 0);
}

static void ask_endpoint(struct world *w, const char *spec)
{
	assert_int_equal(vec_push(&w->o.endpoints, spec), 0);
}

static const char *display(const struct world *w, size_t i)
{
	assert_in_range(i, 0, w->s.endpoints.n - 1);
	return endpoint_display(w->s.endpoints.at[i]);
}

/* The exit status of a refusal, and words of its one message. */
static void refused(struct world *w, int status, const char *words)
{
	struct caught c;

	catch_begin(&c, stderr);
	assert_int_equal(specs_read(&w->s, &w->o), status);
	assert_has(catch_end(&c), words);
	assert_int_equal(strncmp(c.text, "spanprof: error: ", 17), 0);
	assert_string_equal(strchr(c.text, '\n'), "\n");
}

/* What a process that runs this file is looked at for. */
static void is_limited(struct world *w, const char *path, uint32_t instance_id, uint64_t endpoints)
{
	uint32_t found = 0;

	assert_int_equal(specs_instance_of(&w->s, path, &found), 0);
	assert_int_equal(found, instance_id);
	assert_int_equal(specs_limit(&w->s, found), endpoints);
}

/* Another build's endpoint is left out, and the server is found by its name. */
static void a_preset_alone(void **state)
{
	struct world *w = *state;
	char self[PATH_MAX] = "";

	ask_preset(w, "specs-here");
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	assert_int_equal(w->s.endpoints.n, 2);
	assert_string_equal(display(w, 0), "first");
	assert_string_equal(display(w, 1), "last");
	assert_int_equal(w->s.groups.n, 1);
	assert_int_equal(w->s.groups.at[0].endpoints, 3);
	assert_int_equal(w->s.others, 0);
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(w->s.groups.at[0].servers.n, 1);
	assert_string_equal(w->s.groups.at[0].servers.at[0].path, self);
	is_limited(w, self, SPECS_ANY, UINT64_MAX);
	assert_int_equal(specs_n_instances(&w->s), 1);
}

/* Each is looked for in its own servers only, and named after its preset. */
static void two_presets_and_an_endpoint(void **state)
{
	struct world *w = *state;

	ask_preset(w, "specs-here");
	ask_preset(w, "specs-alias"); /* the same */
	ask_preset(w, "specs-nowhere");
	ask_endpoint(w, "mine");
	assert_int_equal(vec_push(&w->o.pids, getpid()), 0);
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	assert_int_equal(w->s.groups.n, 2);
	assert_int_equal(w->s.groups.at[0].servers.n, 0);
	assert_int_equal(w->s.endpoints.n, 4);
	assert_string_equal(display(w, 0), "specs-here first");
	assert_string_equal(display(w, 2), "specs-nowhere end_one");
	assert_string_equal(display(w, 3), "mine");
	is_limited(w, "/x/test_specs", SPECS_ANY + 1, 1 + 2 + 8);
	is_limited(w, "/x/specs-no-such-program", SPECS_ANY + 2, 4 + 8);
	is_limited(w, "/x/else", SPECS_ANY, UINT64_MAX);
	is_limited(w, "/y/test_specs", SPECS_ANY + 1, 1 + 2 + 8);
	assert_int_equal(specs_n_instances(&w->s), 3);
	assert_int_equal(specs_needs(&w->s), ENDPOINT_NEEDS_NAMES | ENDPOINT_NEEDS_END);
}

/* It has the endpoints of all of them, and of libraries, which it may have. */
static void several_presets_for_one_program(void **state)
{
	struct world *w = *state;

	ask_preset(w, "specs-library");
	ask_preset(w, "specs-here");
	ask_preset(w, "specs-too");
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	assert_int_equal(w->s.endpoints.n, 4);
	assert_string_equal(display(w, 3), "specs-too second");
	assert_int_equal(w->s.groups.at[0].servers.n, 0);
	assert_int_equal(w->s.groups.at[1].servers.n, 1);
	assert_int_equal(w->s.groups.at[2].servers.n, 1);
	is_limited(w, "/x/test_specs", SPECS_ANY + 1, 1 + 2 + 4 + 8);
	is_limited(w, "/x/specs-more", SPECS_ANY + 2, 1 + 8);
	is_limited(w, "/x/else", SPECS_ANY, UINT64_MAX);
}

/* By the path that runs, whatever it was called by; when none fits, all are tried. */
static void builds_are_told_by_the_file(void **state)
{
	struct world *w = *state;
	char *command[] = {(char *)"sh", NULL};

	ask_preset(w, "specs-here");
	w->o.command = command;
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	assert_int_equal(w->s.endpoints.n, 3); /* it may execute any of them */
	specs_deinit(&w->s);
	w->s = (struct specs){};
	command[0] = (char *)"/proc/self/exe";
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	assert_int_equal(w->s.endpoints.n, 2);
	assert_string_equal(display(w, 0), "first");
	specs_deinit(&w->s);
	w->s = (struct specs){};
	command[0] = (char *)"sh";
	assert_int_equal(vec_push(&w->o.exes, "/proc/self/exe"), 0);
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	assert_int_equal(w->s.endpoints.n, 2);
	assert_string_equal(display(w, 0), "first");
}

static void normalized(void **state)
{
	struct world *w = *state;

	w->o.normalize = "sql";
	ask_endpoint(w, "one(str(arg0))");
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	assert_string_equal(endpoint_text(w->s.endpoints.at[0]), "one(str(arg0));normalize=sql");
}

static void too_many(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < WIRE_EP_MAX; i++)
		ask_endpoint(w, "one");
	assert_int_equal(specs_read(&w->s, &w->o), 0);
	specs_deinit(&w->s);
	w->s = (struct specs){};
	ask_endpoint(w, "one");
	refused(w, EXIT_USAGE, "--endpoint: at most 64 endpoints are possible");
}

static void a_mistake_in_a_specification(void **state)
{
	struct world *w = *state;
	struct caught c;

	ask_endpoint(w, "good");
	ask_endpoint(w, "bad(str(arg0)");
	catch_begin(&c, stderr);
	assert_int_equal(specs_read(&w->s, &w->o), EXIT_USAGE);
	assert_has(catch_end(&c), "spanprof: error: --endpoint");
	assert_has(c.text, "bad(str(arg0)\n");
	assert_has(c.text, "^");
}

static void presets_that_are_not_there(void **state)
{
	struct world *w = *state;

	ask_preset(w, "specs-unknown");
	refused(w, EXIT_USAGE, "no preset 'specs-unknown'; ");
	specs_deinit(&w->s);
	w->s = (struct specs){};
	w->o.presets.at[0] = "specs-alis";
	refused(w, EXIT_USAGE, "no preset 'specs-alis'; did you mean 'specs-alias'? there are: ");
	specs_deinit(&w->s);
	w->s = (struct specs){};
	w->o.presets.at[0] = "specs-nowhere";
	refused(w, EXIT_FAILED, "specs-no-such-program");
	specs_deinit(&w->s);
	w->s = (struct specs){};
	w->o.preset_file = "/tmp/spanprof-no-such-file";
	refused(w, EXIT_FAILED, "cannot read the presets in '/tmp/spanprof-no-such-file'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_preset_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(two_presets_and_an_endpoint, setup, teardown),
		cmocka_unit_test_setup_teardown(several_presets_for_one_program, setup, teardown),
		cmocka_unit_test_setup_teardown(builds_are_told_by_the_file, setup, teardown),
		cmocka_unit_test_setup_teardown(normalized, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mistake_in_a_specification, setup, teardown),
		cmocka_unit_test_setup_teardown(presets_that_are_not_there, setup, teardown),
	};

	return cmocka_run_group_tests_name("specs", tests, NULL, NULL);
}
