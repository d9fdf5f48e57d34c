/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/chain.h"
#include "tests/unit/unit.h"

enum { MAX = 32 };

/*
 * frames: one letter each, small ones are of a runtime library, + and - are own ones and a library's without a
 * name; the same with dots for what is cut.
 */
static void assert_chosen(const char *frames, unsigned int room, const char *wanted)
{
	struct chain_frame f[MAX] = {};
	size_t n = strlen(frames);
	char got[MAX + 1] = "";

	for (size_t i = 0; i < n; i++)
		f[i] = (struct chain_frame){
			.width = 10,
			.runtime = frames[i] >= 'a' || frames[i] == '-',
			.unnamed = strchr("+-", frames[i]),
		};
	chain_choose(f, n, room);
	for (size_t i = 0; i < n; i++)
		got[i] = f[i].shown ? frames[i] : '.';
	assert_string_equal(got, wanted);
	assert_true(chain_width(f, n) <= room || room < 10 + 6);
}

static void all_where_there_is_room(void **state)
{
	assert_chosen("ABCDabc", 7 * 13 - 3, "ABCDabc");
	assert_chosen("A", 1, "A");
}

/* SLEEP() and a lock differ in the program's last frames, not in what pthread_cond_timedwait calls. */
static void the_inside_of_a_library_goes_first(void **state)
{
	assert_chosen("ABCDEFabcd", 10 * 13 - 4, "ABCDEFabc.");
	assert_chosen("ABCDEFabcd", 7 * 13 + 3, "ABCDEFa...");
	assert_chosen("ABCDEFabcd", 6 * 13 + 9, "A.CDEFa...");
	assert_chosen("ABCDEFabcd", 48, "A....Fa...");
}

static void the_last_own_frame_stays_last(void **state)
{
	assert_chosen("ABCDEFabcd", 38, "A....F....");
	assert_chosen("ABCDEFabcd", 25, ".....F....");
	assert_chosen("ABCDEFabcd", 3, ".....F....");
}

/* A callback: what the library called, and the function that was called of it. */
static void a_library_in_the_middle(void **state)
{
	assert_chosen("AabcBC", 60, "Aa..BC");
	assert_chosen("abcde", 2 * 13 + 3, "ab...");
}

static void long_chains_keep_both_ends(void **state)
{
	assert_chosen("ABCDEFGHIJ", 7 * 13 + 5, "AB...FGHIJ");
}

/* pg_sleep stays, not "postgres+0x474bf0"; where nothing has a name, both ends. */
static void frames_without_names_go_first(void **state)
{
	assert_chosen("+++C+EFab", 5 * 13 + 2 * 6, "...C.EFab");
	assert_chosen("+++C++++F+a-b", 4 * 13 + 4 * 6, "...C....F.a.b");
	assert_chosen("+++C+EFab", 6 * 13 + 2 * 6, "...C+EFab");
	assert_chosen("A+B++F+a", 4 * 13 + 3 * 6, "A.B..F.a");
	assert_chosen("++++++ab", 5 * 13 + 9, "+..+++a.");
}

static void runtime_libraries_are_known(void **state)
{
	assert_true(chain_is_runtime("/usr/lib/x86_64-linux-gnu/libc.so.6", "read"));
	assert_true(chain_is_runtime("/lib/ld-musl-x86_64.so.1", "nanosleep"));
	assert_true(chain_is_runtime("/srv/shop", "std::thread::sleep"));
	assert_true(chain_is_runtime("/srv/shop", "<core::iter::Map<I,F> as Iterator>::next"));
	assert_false(chain_is_runtime("/srv/shop", "standard::sleep"));
	assert_false(chain_is_runtime("/usr/lib/libcrypto.so.3", "EVP_Digest"));
	assert_false(chain_is_runtime("/usr/lib/apache2/modules/libphp.so", "zif_usleep"));
	assert_false(chain_is_runtime("", "f"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_where_there_is_room),
		cmocka_unit_test(the_inside_of_a_library_goes_first),
		cmocka_unit_test(the_last_own_frame_stays_last),
		cmocka_unit_test(a_library_in_the_middle),
		cmocka_unit_test(long_chains_keep_both_ends),
		cmocka_unit_test(frames_without_names_go_first),
		cmocka_unit_test(runtime_libraries_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
