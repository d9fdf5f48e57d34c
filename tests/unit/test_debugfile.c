/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "code/debugfile.h"
#include "code/debugfile_priv.h"
#include "code/debuginfod.h"
#include "tests/unit/elf/open.h"

/* Where the debug file of a module is found below one debug folder; NULL: nowhere. */
static void check(struct module *m, const char *debug_dir, const char *want)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct debugfile_search *s = NULL;
	struct debugfile *f = NULL;

	assert_int_equal(debugfile_search_new(&s, elf_path(debug_dir, dir), false, 0), 0);
	assert_int_equal(debugfile_open(s, m, &f), want ? 0 : -ENOENT);
	if (want)
		assert_string_equal(debugfile_path(f), elf_path(want, path));
	debugfile_close(f);
	debugfile_search_free(s);
	module_unref(m);
}

static void test_build_id(void **state)
{
	char dir[PATH_MAX];
	struct debugfile_search *s = NULL;
	struct debugfile *f = NULL;
	struct module *m = elf_open("lines-split");

	assert_int_equal(debugfile_search_new(&s, elf_path("debug", dir), false, 0), 0);
	assert_int_equal(debugfile_open(s, m, &f), 0);
	assert_non_null(strstr(debugfile_path(f), "/debug/.build-id/"));
	assert_int_equal(debugfile_alt_fd(f), -1);
	assert_false(debugfile_alt_missing(f));
	debugfile_close(f);
	debugfile_search_free(s);
	module_unref(m);
}

static void test_none(void **state)
{
	check(elf_open("lines-split"), "beside", NULL);
	check(elf_open("nothing"), "debug", NULL);
	check(elf_open("lines"), "nonexistent", NULL);
}

static void test_link(void **state)
{
	check(elf_open("beside/linked"), "debug", "beside/linked.debug");
	check(elf_open("second/linked"), "debug", "second/.debug/linked.debug");
	check(elf_open("third/linked"), "debug", NULL);
}

static void test_link_below_folder(void **state)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct debugfile_search *s = NULL;
	struct debugfile *f = NULL;
	struct module *m = elf_open("third/linked");

	assert_int_equal(debugfile_search_new(&s, elf_path("global", dir), false, 0), 0);
	assert_int_equal(debugfile_open(s, m, &f), 0);
	snprintf(path, sizeof(path), "%s%s", dir, debugfile_path(f) + strlen(dir));
	assert_string_equal(debugfile_path(f), path);
	debugfile_close(f);
	debugfile_search_free(s);
	module_unref(m);
}

static void test_wrong_crc(void **state)
{
	check(elf_open("wrong/linked"), "debug", NULL);
}

/* A file that only carries the name of the build ID is not the debug file. */
static void test_wrong_build_id(void **state)
{
	char dir[] = "/tmp/test_debugfile.XXXXXX", path[256], from[PATH_MAX];
	struct module *m = elf_open("lines-split");
	const uint8_t *id;
	char name[64] = "", command[4 * PATH_MAX];
	size_t n = module_build_id(m, &id);

	assert_true(n > 2);
	for (size_t i = 1; i < n; i++)
		snprintf(name + 2 * (i - 1), 3, "%02x", id[i]);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/.build-id/%02x", dir, id[0]);
	snprintf(command, sizeof(command), "mkdir -p %s && cp %s %s/%s.debug", path,
		 elf_path("lines-dwarf4", from), path, name);
	assert_int_equal(system(command), 0);
	check(m, dir, NULL);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

static void test_supplement(void **state)
{
	struct debugfile_search *s = NULL;
	struct module *m = elf_open_or_skip("dwz1");
	char path[PATH_MAX];
	bool missing = true;
	AUTO_CLOSE int fd = -1;

	assert_int_equal(debugfile_search_new(&s, NULL, false, 0), 0);
	assert_int_equal(
		debugfile_find_alt(s, (Elf *)module_elf(m), elf_path("dwz1", path), &fd, &missing),
		0);
	assert_false(missing);
	assert_true(fd >= 0);
	module_unref(m);
	m = elf_open("dwz-lost");
	cleanup_fd(&fd);
	fd = -1;
	assert_int_equal(debugfile_find_alt(s, (Elf *)module_elf(m), path, &fd, &missing), 0);
	assert_true(missing);
	assert_int_equal(fd, -1);
	module_unref(m);
	debugfile_search_free(s);
}

/* From a "server" that is a folder. Nothing is fetched unless it was asked for and there is time. */
static void test_debuginfod(void **state)
{
	char dir[] = "/tmp/test_debugfile.XXXXXX", from[PATH_MAX], command[4 * PATH_MAX],
	     hex[64] = "";
	struct debugfile_search *s = NULL;
	struct module *m = elf_open("lines-split");
	struct debugfile *f = NULL;
	const uint8_t *id;
	size_t n = module_build_id(m, &id);
	struct debuginfod *client = NULL;

	if (debuginfod_new(&client)) {
		module_unref(m);
		skip();
	}
	debuginfod_free(client);
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	snprintf(command, sizeof(command),
		 "mkdir -p %s/buildid/%s && cp %s/.build-id/%.2s/%s.debug "
		 "%s/buildid/%s/debuginfo",
		 dir, hex, elf_path("debug", from), hex, hex + 2, dir, hex);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "file://%s/", dir);
	setenv("DEBUGINFOD_URLS", command, 1);
	snprintf(command, sizeof(command), "%s/cache", dir);
	setenv("DEBUGINFOD_CACHE_PATH", command, 1);

	assert_int_equal(debugfile_search_new(&s, "/nonexistent", false, 1000000000), 0);
	assert_int_equal(debugfile_open(s, m, &f), -ENOENT);
	debugfile_search_free(s);
	assert_int_equal(debugfile_search_new(&s, "/nonexistent", true, 0), 0);
	assert_int_equal(debugfile_open(s, m, &f), -ENOENT);
	debugfile_search_free(s);
	assert_int_equal(debugfile_search_new(&s, "/nonexistent", true, 60000000000), 0);
	assert_int_equal(debugfile_open(s, m, &f), 0);
	assert_string_equal(debugfile_path(f), "[debuginfod]");
	debugfile_close(f);
	debugfile_search_free(s);
	module_unref(m);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

static void test_process(void **state)
{
	struct debugfile_search *s = NULL;

	assert_int_equal(debugfile_search_new(&s, NULL, false, 0), 0);
	assert_int_equal(debugfile_search_use_process(s, getpid()), 0);
	assert_true(debugfile_search_root(s) >= 0);
	assert_int_equal(debugfile_search_use_process(s, 0x7ffffff0), 0);
	assert_true(debugfile_search_root(s) >= 0);
	debugfile_search_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_build_id),   cmocka_unit_test(test_none),
		cmocka_unit_test(test_link),       cmocka_unit_test(test_link_below_folder),
		cmocka_unit_test(test_wrong_crc),  cmocka_unit_test(test_wrong_build_id),
		cmocka_unit_test(test_supplement), cmocka_unit_test(test_debuginfod),
		cmocka_unit_test(test_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
