/* SPDX-License-Identifier: Apache-2.0 */
/* test_output.c: the files of -o and the text of a run: what is written where, and what is refused before. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "app/command.h"
#include "app/output.h"
#include "caught.h"
#include "child.h"
#include "sample_profile.h"

struct world {
	char dir[32];
	struct run_options o;
	struct outputs files;
	struct profile *profile;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	strcpy(w->dir, "/tmp/spanprof-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->profile = sample_profile_orders();
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	outputs_deinit(&w->files);
	vec_free(&w->o.outputs);
	profile_free(w->profile);
	/* Whatever a test has left there is a failure. */
	assert_int_equal(rmdir(w->dir), 0);
	free(w);
	return 0;
}

static void add(struct world *w, const char *path, const char *format)
{
	assert_int_equal(vec_push(&w->o.outputs,
				  (struct run_output){.path = path, .format = export_find(format)}),
			 0);
}

/* The file's first bytes. */
static const char *begin_of(const char *path)
{
	static char text[64];
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	assert_non_null(f);
	fclose(f);
	text[n] = '\0';
	return text;
}

static void each_file_and_the_text(void **state)
{
	struct world *w = *state;
	char json[64], folded[64];
	struct caught out, err;
	const char *said;

	snprintf(json, sizeof(json), "%s/a.json", w->dir);
	snprintf(folded, sizeof(folded), "%s/b.folded", w->dir);
	add(w, json, "json");
	add(w, folded, "folded");
	assert_int_equal(outputs_open(&w->files, &w->o), 0);
	/* Nothing has its name before it is whole. */
	assert_int_equal(access(json, F_OK), -1);
	catch_begin(&out, stdout);
	catch_begin(&err, stderr);
	assert_int_equal(outputs_write(&w->files, &w->o, w->profile), 0);
	said = catch_end(&err);
	assert_has(catch_end(&out), "GET:/orders/{id}");
	assert_null(strchr(out.text, '\033'));
	assert_has(said, "wrote json to '");
	assert_has(said, "wrote folded to '");
	assert_int_equal(begin_of(json)[0], '{');
	assert_non_null(strchr(begin_of(folded), ';'));
	assert_int_equal(unlink(json) | unlink(folded), 0);
}

static void a_file_to_stdout_takes_the_place_of_the_text(void **state)
{
	struct world *w = *state;
	struct caught out, err;

	add(w, "-", "folded");
	catch_begin(&out, stdout);
	assert_int_equal(outputs_open(&w->files, &w->o), 0);
	catch_begin(&err, stderr);
	assert_int_equal(outputs_write(&w->files, &w->o, w->profile), 0);
	assert_string_equal(catch_end(&err), "");
	assert_has(catch_end(&out), ";");
	assert_null(strstr(out.text, "slowest"));
}

static void quiet_writes_no_text(void **state)
{
	struct world *w = *state;
	struct caught out;

	w->o.quiet = true;
	assert_int_equal(outputs_open(&w->files, &w->o), 0);
	catch_begin(&out, stdout);
	assert_int_equal(outputs_write(&w->files, &w->o, w->profile), 0);
	assert_string_equal(catch_end(&out), "");
}

/* One that cannot be had leaves nothing of the others. */
static void refused_before_anything_is_done(void **state)
{
	struct world *w = *state;
	char good[64], bad[64];
	struct caught err;

	snprintf(good, sizeof(good), "%s/a.json", w->dir);
	snprintf(bad, sizeof(bad), "%s/no/b.json", w->dir);
	add(w, good, "json");
	add(w, bad, "json");
	catch_begin(&err, stderr);
	assert_int_equal(outputs_open(&w->files, &w->o), EXIT_FAILED);
	assert_has(catch_end(&err), "error: cannot create output file '");
	assert_has(err.text, "/no/b.json': No such file or directory");
	assert_int_equal(w->files.files.n, 0);
}

static void stdout_closed(void)
{
	struct run_options o = {};
	struct outputs files;
	struct caught err;

	catch_begin(&err, stderr);
	close(STDOUT_FILENO);
	CHILD_CHECK(outputs_open(&files, &o) == EXIT_FAILED);
	CHILD_CHECK(strstr(catch_end(&err), "standard output: it is closed"));
	o.quiet = true;
	CHILD_CHECK(outputs_open(&files, &o) == 0);
}

static void stdout_for_reading(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct run_options o = {};
	struct outputs files;
	struct caught err;

	CHILD_CHECK(dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
	catch_begin(&err, stderr);
	CHILD_CHECK(outputs_open(&files, &o) == EXIT_FAILED);
	CHILD_CHECK(strstr(catch_end(&err), "standard output: it is open for reading only"));
}

static void stdout_is_looked_at(void **state)
{
	in_child(stdout_closed);
	in_child(stdout_for_reading);
}

/* The others are written all the same, and so is the text. */
static void one_that_fails_midway(void **state)
{
	struct world *w = *state;
	struct caught out, err;
	char json[64];

	snprintf(json, sizeof(json), "%s/a.json", w->dir);
	add(w, "/dev/full", "json");
	add(w, json, "json");
	assert_int_equal(outputs_open(&w->files, &w->o), 0);
	catch_begin(&out, stdout);
	catch_begin(&err, stderr);
	assert_int_equal(outputs_write(&w->files, &w->o, w->profile), EXIT_FAILED);
	assert_has(catch_end(&err), "error: cannot write '/dev/full': No space left on device");
	assert_has(catch_end(&out), "GET:/orders/{id}");
	assert_int_equal(begin_of(json)[0], '{');
	assert_int_equal(unlink(json), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_file_and_the_text, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_to_stdout_takes_the_place_of_the_text, setup,
						teardown),
		cmocka_unit_test_setup_teardown(quiet_writes_no_text, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_before_anything_is_done, setup, teardown),
		cmocka_unit_test(stdout_is_looked_at),
		cmocka_unit_test_setup_teardown(one_that_fails_midway, setup, teardown),
	};

	return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
