/* SPDX-License-Identifier: Apache-2.0 */
/* What libbpf holds after its programs were loaded side by side: each the real one, or the verifier's words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipe/aside.h"
#include "tests/bpf/asideskel.h"
#include "tests/unit/unit.h"

#define LOG_BYTES 65536
#define N_GOOD    9

_Static_assert(N_GOOD > ASIDE_MAX, "the last one is loaded by libbpf");

static struct asideskel *open_skeleton(void)
{
	struct asideskel *skel;

	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
	assert_int_equal(aside_prepare(), 0);
	skel = asideskel__open();
	assert_non_null(skel);
	return skel;
}

static int load(struct asideskel *skel, char *log)
{
	struct aside aside;

	aside_open(&aside, "Dual BSD/GPL");
	return aside_close(&aside, asideskel__load(skel), log, LOG_BYTES);
}

/* One that uses the map, as they all do but the one that does nothing. */
static void check_program(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	uint32_t bytes = sizeof(info);

	assert_true(bpf_program__fd(program) >= 0);
	assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes), 0);
	assert_string_equal(info.name, bpf_program__name(program));
	assert_int_equal(info.nr_map_ids, 1);
}

static void all_are_loaded(void **state)
{
	struct asideskel *skel = open_skeleton();
	char log[LOG_BYTES] = "";
	struct bpf_program *program;
	size_t n = 0;

	assert_int_equal(load(skel, log), 0);
	bpf_object__for_each_program(program, skel->obj)
	{
		if (!bpf_program__autoload(program))
			continue;
		check_program(program);
		n++;
	}
	assert_int_equal(n, N_GOOD);
	assert_string_equal(log, "");
	asideskel__destroy(skel);
}

static void a_refusal_is_explained(void **state)
{
	struct asideskel *skel = open_skeleton();
	char *log = calloc(1, LOG_BYTES);

	assert_non_null(log);
	bpf_program__set_autoload(skel->progs.refused, true);
	bpf_program__set_autoload(skel->progs.probe_0, false);
	bpf_program__set_autoload(skel->progs.probe_1, false);
	assert_int_equal(load(skel, log), -EACCES);
	assert_non_null(strstr(log, "invalid mem access"));
	free(log);
	asideskel__destroy(skel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_loaded),
		cmocka_unit_test(a_refusal_is_explained),
	};

	return cmocka_run_group_tests_name("aside", tests, NULL, NULL);
}
