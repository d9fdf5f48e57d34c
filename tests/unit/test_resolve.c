/* SPDX-License-Identifier: Apache-2.0 */
/* test_resolve.c: what names, files and offsets stand for, in this very process. */
#include <string.h>
#include <unistd.h>

#include "own_modules.h"
#include "probe/resolve.h"

/* Functions with the names that compilers give to parts and copies; and one with a neighbour. */
__asm__(".text\n"
	".globl resolve_whole\n"
	".type resolve_whole, @function\n"
	"resolve_whole:\n"
	"	push %rbp\n"
	"	mov $0x12345678, %eax\n"
	"	pop %rbp\n"
	"	ret\n"
	".size resolve_whole, . - resolve_whole\n"
	".type resolve_split.part.0, @function\n"
	"resolve_split.part.0:\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".size resolve_split.part.0, . - resolve_split.part.0\n"
	".type resolve_copy.constprop.1, @function\n"
	"resolve_copy.constprop.1:\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".size resolve_copy.constprop.1, . - resolve_copy.constprop.1\n"
	".type resolve_rare.cold, @function\n"
	"resolve_rare.cold:\n"
	"	ud2\n"
	".size resolve_rare.cold, . - resolve_rare.cold\n"
	/* its symbol is wrong */
	".type resolve_wrong, @function\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.byte 0xb8\n" /* mov $0x55555555, %eax */
	"resolve_wrong:\n"
	"	.long 0x55555555\n"
	"	pop %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size resolve_wrong, . - resolve_wrong\n"
	/* neither a symbol nor unwind rules */
	"	.p2align 4\n"
	".Lbare:\n"
	"	movabs $0x1122334455667788, %rax\n"
	"	ret\n"
	"	.p2align 4\n"
	".Lbare_marked:\n"
	"	endbr64\n"
	"	ret\n"
	".section .data.rel.ro, \"aw\"\n"
	"resolve_bare: .quad .Lbare, .Lbare_marked\n"
	".globl resolve_bare\n"
	".text\n");

extern const uint64_t resolve_bare[2];
void resolve_whole(void);

const char resolve_version[] = "xresolve-test/3.1.4\0 other";

struct fixture {
	struct own_modules own;
	struct resolved found;
	struct errmsg e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	own_modules_init(&f->own);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	own_modules_deinit(&f->own);
	free(f);
	return 0;
}

static int find(struct fixture *f, const char *binary, const char *symbol)
{
	struct endpoint_target t = {
		.kind = ENDPOINT_SYMBOL, .binary = (char *)binary, .symbol = (char *)symbol};

	f->e.text[0] = '\0';
	memset(&f->found, 0, sizeof(f->found));
	return resolve_function(&f->own.in, &t, &f->found, &f->e);
}

static int find_offset(struct fixture *f, uint64_t offset)
{
	struct endpoint_target t = {.kind = ENDPOINT_OFFSET,
				    .binary = (char *)"test_resolve",
				    .symbol = (char *)"0x",
				    .offset = offset};

	f->e.text[0] = '\0';
	return resolve_function(&f->own.in, &t, &f->found, &f->e);
}

static void says(const struct fixture *f, const char *words)
{
	if (!strstr(f->e.text, words))
		fail_msg("no '%s' in '%s'", words, f->e.text);
}

static void files(void **state)
{
	static const char *const names[] = {NULL, "test_resolve", "test_res*",
					    "*/unit/test_resolve"};
	struct fixture *f = *state;
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (find(f, names[i], "resolve_whole") < 0)
			fail_msg("%s: %s", names[i] ? names[i] : "any", f->e.text);
		assert_ptr_equal((void *)(uintptr_t)(f->found.vaddr + f->found.bias),
				 (void *)(uintptr_t)resolve_whole);
		assert_string_equal(f->found.symbol, "resolve_whole");
		assert_int_equal(f->found.bytes, 8);
		assert_string_equal(f->found.note, "");
	}
	assert_true(n > 0);
	path[n] = '\0';
	assert_int_equal(find(f, path, "resolve_whole"), 0);
	assert_int_equal(find(f, "libc", "getpid"), 0);
	assert_int_equal(find(f, "libc.so.6", "getpid"), 0);
	assert_non_null(strstr(module_path(binary_module(f->found.binary)), "libc"));
}

static void not_there(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(find(f, NULL, "resolve_whale"), -ENOENT);
	says(f, "nearest names: ");
	says(f, "resolve_whole");
	assert_int_equal(find(f, "no-such-file", "resolve_whole"), -ENOENT);
	says(f, "no file 'no-such-file' mapped");
	assert_int_equal(find(f, "libc", "resolve_whole"), -ENOENT);
	says(f, "write 'test_resolve:resolve_whole'");
	assert_int_equal(find(f, "lib", "getpid"), -ENOENT);
}

static void parts_and_copies(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(find(f, NULL, "resolve_split"), 0);
	assert_non_null(strstr(f->found.note, "calls that do not reach it are not seen"));
	assert_int_equal(find(f, NULL, "resolve_copy"), 0);
	assert_string_equal(f->found.symbol, "resolve_copy.constprop.1");
	assert_non_null(strstr(f->found.note, "may differ from the source"));
	assert_int_equal(find(f, NULL, "resolve_wrong"), -EINVAL);
	says(f, "in the middle of an instruction");
	assert_int_equal(find(f, NULL, "resolve_rare.cold"), -EINVAL);
	says(f, "it is jumped to, not called");
	assert_int_equal(find(f, "libc", "memcpy"), -EINVAL);
	says(f, "indirect function");
}

static void globs(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(find(f, NULL, "resolve_who*"), 0);
	assert_string_equal(f->found.symbol, "resolve_whole");
	assert_int_equal(find(f, "test_resolve", "resolve_*"), -EINVAL);
	says(f, "functions of test_resolve match");
	says(f, "resolve_function");
}

static void offsets(void **state)
{
	struct fixture *f = *state;
	struct module *m;
	uint64_t start, data, vaddr;

	assert_int_equal(find(f, NULL, "resolve_whole"), 0);
	m = binary_module(f->found.binary);
	vaddr = f->found.vaddr;
	assert_true(module_offset_of_vaddr(m, vaddr, &start));
	assert_true(module_offset_of_vaddr(m, (uint64_t)(uintptr_t)resolve_version - f->found.bias,
					   &data));
	assert_int_equal(find_offset(f, start), 0);
	assert_int_equal(f->found.vaddr, vaddr);
	assert_string_equal(f->found.symbol, "resolve_whole");
	assert_int_equal(find_offset(f, start + 6), -EINVAL);
	says(f, "the offset is 6 bytes inside a function; ");
	assert_int_equal(find_offset(f, start + 3), -EINVAL);
	says(f, "in the middle of an instruction");
	assert_int_equal(find_offset(f, data), -EINVAL);
	says(f, "not in the code");
	assert_int_equal(find_offset(f, UINT64_MAX), -EINVAL);
}

static void offsets_that_nothing_vouches_for(void **state)
{
	struct fixture *f = *state;
	uint64_t off[2];

	assert_int_equal(find(f, NULL, "resolve_whole"), 0);
	assert_false(f->found.unchecked);
	for (int i = 0; i < 2; i++)
		assert_true(module_offset_of_vaddr(binary_module(f->found.binary),
						   resolve_bare[i] - f->found.bias, &off[i]));
	assert_int_equal(find_offset(f, off[0]), 0);
	assert_true(f->found.unchecked);
	assert_int_equal(find_offset(f, off[0] + 2), 0);
	assert_true(f->found.unchecked);
	assert_int_equal(find_offset(f, off[1]), 0);
	assert_false(f->found.unchecked);
}

static void the_executable_comes_first(void **state)
{
	struct fixture *f = *state;
	struct resolve_module mods[64];
	size_t n = resolve_modules(&f->own.in, NULL, mods, 64);

	assert_true(n >= 2);
	assert_non_null(strstr(module_path(mods[0].module), "test_resolve"));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(module_id(mods[i].module), module_id(mods[k].module));
	assert_int_equal(resolve_modules(&f->own.in, NULL, mods, 1), 1);
}

static void texts(void **state)
{
	struct fixture *f = *state;
	struct binary *b;

	assert_int_equal(find(f, NULL, "resolve_whole"), 0);
	b = f->found.binary;
	assert_true(binary_has_text(b, "resolve-test/3.1.*"));
	assert_true(binary_has_text(b, "resolve-test/3.1.4"));
	assert_true(binary_has_text(b, "xresolve-test/[0-9]*"));
	/* the NUL ends the text; and no pattern here matches its own text */
	assert_false(binary_has_text(b, "resolve-test/3.1.[4][ ]*"));
	assert_false(binary_has_text(b, "resolve-test/3.1.[5-9]"));
	assert_false(binary_has_text(b, "re*"));
	assert_false(binary_has_text(b, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files, setup, teardown),
		cmocka_unit_test_setup_teardown(not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_and_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(globs, setup, teardown),
		cmocka_unit_test_setup_teardown(offsets, setup, teardown),
		cmocka_unit_test_setup_teardown(offsets_that_nothing_vouches_for, setup, teardown),
		cmocka_unit_test_setup_teardown(the_executable_comes_first, setup, teardown),
		cmocka_unit_test_setup_teardown(texts, setup, teardown),
	};

	return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}
