/* SPDX-License-Identifier: Apache-2.0 */
/* test_variable.c: names from the DWARF of this very program, and of C++ that it compiles. */
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "code/elffile.h"
#include "code/section.h"
#include "code/symtab.h"
#include "code/variable.h"
#include "probe/binary.h"
#include "unit.h"

static const char source[] =
	"struct text { unsigned long len; const char *data; };\n"
	"struct hidden;\n"
	"struct request { int number; struct { short inner; }; union { char name[16]; long whole; };\n"
	"  const char *uri; struct text method; struct request **parts; struct hidden *h;\n"
	"  unsigned flag : 1; double weight; };\n"
	"struct big { long at[4]; };\n"
	"struct globals { int zero; const char *path; } all_globals;\n"
	"static int counter;\n"
	"__attribute__((noinline)) int handle(long n, double w, struct request *r, char c)\n"
	"{ counter += (int)n; __asm__ volatile(\"\" ::\"r\"(r), \"r\"(n), \"r\"((int)c), \"x\"(w)); return 0; }\n"
	"__attribute__((noinline)) struct big make(struct request *r)\n"
	"{ struct big b = {{r->number}}; __asm__ volatile(\"\" ::\"r\"(r)); return b; }\n"
	"__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, const char *last)\n"
	"{ __asm__ volatile(\"\" ::\"r\"(last), \"r\"(a), \"r\"(b)); return a + b + c + d + e + f; }\n"
	"struct hidden { int seen; };\n"
	"int main(int argc, char **argv) { struct request r = {0}; struct hidden h = {1}; r.h = &h;\n"
	"  return handle(argc, 1, &r, 'x') + (int)make(&r).at[0] + many(1, 2, 3, 4, 5, 6, argv[0]); }\n";

/* Strings by reference, by value, which is by address, and in two registers. */
static const char source_cxx[] =
	"#include <string>\n"
	"#include <string_view>\n"
	"static volatile long sink;\n"
	"extern \"C\" {\n"
	"__attribute__((noinline)) void by_reference(int k, const std::string &name)\n"
	"{ sink = sink + k + name.size() + name[0]; }\n"
	"__attribute__((noinline)) void by_value(std::string name, int k)\n"
	"{ sink = sink + k + name.size() + name[0]; }\n"
	"__attribute__((noinline)) void by_view(int k, std::string_view name)\n"
	"{ sink = sink + k + name.size() + name[0]; }\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{ by_reference(argc, argv[0]); by_value(argv[0], argc); by_view(argc, argv[0]); }\n";

/* Not optimized: all are in the frame, at offsets from SP that hold after the first instructions only. */
static const char source_rust[] =
	"#[no_mangle] #[inline(never)]\n"
	"pub fn handle(n: &mut u64, path: &str, k: u32, owned: &String)\n"
	"{ *n += (path.len() + owned.len()) as u64 + k as u64; }\n"
	"#[no_mangle] #[inline(never)]\n"
	"pub fn after(o: Option<u32>, path: &str) -> usize { path.len() + o.unwrap_or(0) as usize }\n"
	"fn main() { let mut n = 0; let s = String::from(\"x\");\n"
	"  handle(&mut n, &s, 1, &s); println!(\"{} {}\", n, after(Some(1), &s)); }\n";

struct program {
	char dir[32];
	char path[64];
	struct module *m;
	struct symtab *st;
	struct variables *v;
};

static int compile_file(struct program *p, const char *compiler, const char *suffix,
			const char *text)
{
	char command[256], file[64];
	struct errmsg e = {""};
	uint64_t bytes;
	FILE *f;
	int r;

	snprintf(p->dir, sizeof(p->dir), "/tmp/spanprof-test-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(file, sizeof(file), "%s/x.%s", p->dir, suffix);
	snprintf(p->path, sizeof(p->path), "%s/x", p->dir);
	f = fopen(file, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	snprintf(command, sizeof(command), "%s %s -o %s", compiler, file, p->path);
	r = system(command);
	unlink(file);
	if (r != 0) {
		rmdir(p->dir);
		return -1;
	}
	assert_int_equal(module_open_fd(&p->m, open(p->path, O_RDONLY | O_CLOEXEC), p->path, &e),
			 0);
	assert_int_equal(symtab_new(&p->st, p->m, NULL), 0);
	assert_int_equal(variables_new(&p->v, p->m, NULL, 0, &bytes), 0);
	return 0;
}

static int compile_program(struct program *p, const char *flags)
{
	char compiler[128];

	snprintf(compiler, sizeof(compiler), "gcc -w -g %s", flags);
	return compile_file(p, compiler, "c", source);
}

/* Packed, and so many types that the packed form is not tiny. */
static int compile_padded(struct program *p)
{
	enum { FIELDS = 6000, LINE = 40 };
	char *text = calloc(1, sizeof(source) + (size_t)FIELDS * LINE), *at = text;
	int r;

	assert_non_null(text);
	at = stpcpy(at, source);
	for (unsigned int i = 0; i < FIELDS; i++)
		at += snprintf(at, LINE, "int pad_%x[%u];\n", i * 2654435761U, 1 + i % 97);
	r = compile_file(p, "gcc -w -g -gz", "c", text);
	free(text);
	return r;
}

static void remove_program(struct program *p)
{
	variables_free(p->v);
	symtab_free(p->st);
	module_unref(p->m);
	unlink(p->path);
	rmdir(p->dir);
}

static uint64_t address(const struct program *p, const char *name)
{
	struct symtab_list list = {0};
	uint64_t vaddr;

	assert_int_equal(symtab_find_name(p->st, name, &list), 0);
	assert_int_equal(list.n, 1);
	vaddr = list.at[0].vaddr;
	vec_free(&list);
	return vaddr;
}

static struct variable find(const struct program *p, const char *function, const char *name)
{
	struct errmsg e = {""};
	struct variable var;

	if (variables_find(p->v, address(p, function), name, &var, &e) < 0)
		fail_msg("%s in %s: %s", name, function, e.text);
	return var;
}

enum { RDI = 5, RSI = 4, RDX = 1, RCX = 2, R8 = 8 };

static void check_parameters(const struct program *p)
{
	struct variable var = find(p, "handle", "n");

	assert_int_equal(var.kind, VARIABLE_REGISTER);
	assert_int_equal(var.reg, RDI);
	assert_int_equal(var.type.class, VALUE_SIGNED);
	assert_int_equal(var.type.size, 8);
	var = find(p, "handle", "r");
	assert_int_equal(var.reg, RSI);
	assert_int_equal(var.type.class, VALUE_POINTER);
	var = find(p, "handle", "c");
	assert_int_equal(var.reg, RDX);
	assert_int_equal(var.type.size, 1);
	var = find(p, "make", "r"); /* behind the hidden address of the result */
	assert_int_equal(var.reg, RSI);
	var = find(p, "handle", "counter");
	assert_int_equal(var.kind, VARIABLE_GLOBAL);
}

static void check_members(const struct program *p)
{
	static const struct {
		const char *name;
		int64_t offset;
		enum value_class class;
		uint32_t size;
	} members[] = {
		{"number", 0, VALUE_SIGNED, 4},    {"inner", 4, VALUE_SIGNED, 2},
		{"name", 8, VALUE_TEXT_ARRAY, 16}, {"whole", 8, VALUE_SIGNED, 8},
		{"uri", 24, VALUE_TEXT, 1},        {"method", 32, VALUE_STRUCT, 16},
		{"parts", 48, VALUE_POINTER, 8},   {"h", 56, VALUE_POINTER, 4},
		{"weight", 72, VALUE_OTHER, 8},
	};
	struct variable r = find(p, "handle", "r");
	struct value_type type, deeper;
	struct errmsg e = {""};
	int64_t offset;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (variables_member(p->v, r.type, members[i].name, &offset, &type, &e) < 0)
			fail_msg("%s: %s", members[i].name, e.text);
		assert_int_equal(offset, members[i].offset);
		assert_int_equal(type.class, members[i].class);
		assert_int_equal(type.size, members[i].size);
	}
	assert_int_equal(variables_member(p->v, r.type, "method", &offset, &type, &e), 0);
	assert_int_equal(variables_member(p->v, type, "data", &offset, &deeper, &e), 0);
	assert_int_equal(offset, 8);
	assert_int_equal(deeper.class, VALUE_TEXT);
	assert_int_equal(variables_member(p->v, r.type, "parts", &offset, &type, &e), 0);
	assert_int_equal(variables_element(p->v, type, &deeper), 0);
	assert_int_equal(deeper.class, VALUE_POINTER);
	assert_int_equal(variables_member(p->v, deeper, "uri", &offset, &type, &e), 0);
	assert_int_equal(variables_member(p->v, r.type, "flag", &offset, &type, &e), -ENOENT);
	assert_int_equal(variables_member(p->v, r.type, "none", &offset, &type, &e), -ENOENT);
	assert_non_null(strstr(e.text, "request"));
}

static void check_globals(const struct program *p)
{
	struct variable var = find(p, "handle", "all_globals");
	struct value_type type;
	struct errmsg e = {""};
	uint64_t vaddr;
	int64_t offset;

	assert_int_equal(var.kind, VARIABLE_GLOBAL);
	assert_true(section_find_object(p->m, "all_globals", &vaddr));
	assert_int_equal(var.vaddr, vaddr);
	assert_int_equal(variables_member(p->v, var.type, "path", &offset, &type, &e), 0);
	assert_int_equal(offset, 8);
	assert_int_equal(type.class, VALUE_TEXT);
}

static void run_with(const char *flags)
{
	struct program p = {.m = NULL};

	if (compile_program(&p, flags) < 0)
		skip();
	check_parameters(&p);
	check_members(&p);
	check_globals(&p);
	remove_program(&p);
}

static void optimized(void **state)
{
	run_with("-O2");
}

static void not_optimized(void **state)
{
	run_with("-O0");
}

static void dwarf_4(void **state)
{
	run_with("-O2 -gdwarf-4");
}

static void in_memory(void **state)
{
	struct program p = {.m = NULL};
	struct variable var;

	if (compile_program(&p, "-O0") < 0)
		skip();
	var = find(&p, "many", "last");
	assert_true(var.kind == VARIABLE_STACK);
	assert_int_equal(var.offset, 8);
	remove_program(&p);
}

/* Clang's frame base is SP, which is not yet where it will be: by the calling convention. */
static void in_memory_of_clang(void **state)
{
	struct program p = {.m = NULL};
	struct variable var;

	if (compile_file(&p, "clang -w -g -O2", "c", source) < 0)
		skip();
	var = find(&p, "many", "last");
	assert_true(var.kind == VARIABLE_STACK);
	assert_int_equal(var.offset, 8);
	remove_program(&p);
}

/* A copy of a function gets a field in the place of the pointer to its structure. */
static void split_up(void **state)
{
	static const char text[] =
		"struct request { int number; const char *uri; };\n"
		"static __attribute__((noinline)) int serve(struct request *r, const char *what)\n"
		"{ __asm__ volatile(\"\" ::\"r\"(r->number), \"r\"(what)); return what[0]; }\n"
		"int main(int argc, char **argv)\n"
		"{ struct request r = {argc, argv[0]}; return serve(&r, argv[0]) + serve(&r, argv[0] + 1); }\n";
	struct program p = {.m = NULL};
	struct errmsg e = {""};
	struct variable var;

	if (compile_file(&p, "gcc -w -g -O2", "c", text) < 0)
		skip();
	assert_int_equal(find(&p, "serve.isra.0", "what").reg, RSI);
	assert_int_equal(variables_find(p.v, address(&p, "serve.isra.0"), "r", &var, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "how parameter 'r' is passed is not known"));
	remove_program(&p);
}

/* A function whose unlikely part is elsewhere has several ranges, and for libdw no entry. */
static void with_a_cold_part(void **state)
{
	static const char text[] =
		"__attribute__((noinline, cold)) void fail(const char *why) { __asm__ volatile(\"\"); }\n"
		"__attribute__((noinline)) int serve(int n, const char *what)\n"
		"{ if (n < 0) { fail(what); fail(\"no\"); return 1; }\n"
		"  __asm__ volatile(\"\" ::\"r\"(n), \"r\"(what)); return what[0]; }\n"
		"int main(int argc, char **argv) { return serve(argc, argv[0]); }\n";
	struct program p = {.m = NULL};
	struct symtab_list list = {0};
	struct errmsg e = {""};
	struct variable var;

	if (compile_file(&p, "gcc -w -g -O2", "c", text) < 0)
		skip();
	assert_int_equal(symtab_find_name(p.st, "serve.cold", &list), 0);
	assert_int_equal(list.n, 1);
	vec_free(&list);
	assert_int_equal(find(&p, "serve", "what").reg, RSI);
	/* What is called there has no arguments in the registers of a call. */
	assert_int_equal(variables_find(p.v, address(&p, "serve.cold"), "what", &var, &e), -ENOENT);
	remove_program(&p);
}

static void check_cxx(const char *compiler)
{
	struct program p = {.m = NULL};
	struct value_type type;
	struct variable var;

	if (compile_file(&p, compiler, "cc", source_cxx) < 0)
		return;
	var = find(&p, "by_reference", "name");
	assert_int_equal(var.kind, VARIABLE_REGISTER);
	assert_int_equal(var.reg, RSI);
	assert_int_equal(var.type.class, VALUE_POINTER);
	assert_true(var.type.is_reference);
	assert_int_equal(variables_element(p.v, var.type, &type), 0);
	assert_true(type.is_text);
	assert_int_equal(type.text_off, 0);
	assert_int_equal(type.length_off, 8);
	var = find(&p, "by_value", "name");
	assert_int_equal(var.kind, VARIABLE_REGISTER);
	assert_int_equal(var.reg, RDI);
	assert_int_equal(var.type.class, VALUE_STRUCT);
	assert_true(var.type.is_text);
	assert_int_equal(find(&p, "by_value", "k").reg, RSI);
	var = find(&p, "by_view", "name");
	assert_int_equal(var.kind, VARIABLE_REGISTERS);
	assert_int_equal(var.type.class, VALUE_SPLIT);
	assert_true(var.type.is_text);
	assert_int_equal(var.reg, RSI); /* the length */
	assert_int_equal(var.second_reg, RDX);
	assert_int_equal(var.type.text_off, 8);
	assert_int_equal(var.type.length_off, 0);
	remove_program(&p);
}

static void strings_of_cxx(void **state)
{
	check_cxx("g++ -std=c++17 -g -O0");
	check_cxx("g++ -std=c++17 -g -O2");
	check_cxx("clang++ -std=c++17 -g -O0");
	check_cxx("clang++ -std=c++17 -g -O2");
}

static void strings_of_rust(void **state)
{
	struct program p = {.m = NULL};
	struct value_type type;
	struct errmsg e = {""};
	struct variable var;

	if (compile_file(&p, "rustc -g 2>/dev/null", "rs", source_rust) < 0)
		skip();
	var = find(&p, "handle", "path");
	assert_int_equal(var.kind, VARIABLE_REGISTERS);
	assert_true(var.type.is_text);
	assert_int_equal(var.reg, RSI);
	assert_int_equal(var.second_reg, RDX);
	assert_int_equal(var.type.text_off, 0);
	assert_int_equal(var.type.length_off, 8);
	assert_int_equal(find(&p, "handle", "k").reg, RCX);
	var = find(&p, "handle", "owned");
	assert_int_equal(var.reg, R8);
	assert_int_equal(var.type.class, VALUE_POINTER);
	assert_int_equal(variables_element(p.v, var.type, &type), 0);
	assert_true(type.is_text);
	/* How an Option is passed is not known, so neither is what follows it. */
	assert_int_equal(variables_find(p.v, address(&p, "after"), "path", &var, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "ruststr(arg1)"));
	remove_program(&p);
}

/* Of a file that has DWARF of its other functions. */
static void a_function_without_dwarf(void **state)
{
	static const char text[] =
		"__asm__(\".pushsection .text.hand, \\\"ax\\\"\\n.type by_hand, @function\\n\"\n"
		"\t\"by_hand: ret\\n.size by_hand, .-by_hand\\n.popsection\");\n"
		"int main(void) { return 0; }\n";
	struct program p = {.m = NULL};
	struct errmsg e = {""};
	struct variable var;

	if (compile_file(&p, "gcc -w -g -O2", "c", text) < 0)
		skip();
	assert_int_equal(variables_find(p.v, address(&p, "by_hand"), "r", &var, &e), -ENOENT);
	assert_non_null(strstr(e.text, "the DWARF does not know this function (use registers"));
	assert_non_null(strstr(e.text, "ruststr(arg1)"));
	remove_program(&p);
}

static void no_dwarf(void **state)
{
	struct program p = {.m = NULL};
	struct variables *v = NULL;
	char command[128];
	uint64_t bytes;

	if (compile_program(&p, "-O2") < 0)
		skip();
	snprintf(command, sizeof(command), "strip -g %s", p.path);
	assert_int_equal(system(command), 0);
	variables_free(p.v);
	p.v = NULL;
	module_unref(p.m);
	assert_int_equal(module_open_fd(&p.m, open(p.path, O_RDONLY | O_CLOEXEC), p.path, NULL), 0);
	assert_int_equal(variables_new(&v, p.m, NULL, 0, &bytes), -ENOENT);
	remove_program(&p);
}

/* Has the header of the packed .debug_info say another size; factor 0: one that cannot be. */
static void claim(const struct program *p, unsigned int factor)
{
	Elf64_Chdr ch = {};
	Elf64_Shdr sh;
	Elf *elf;
	int fd = open(p->path, O_RDWR | O_CLOEXEC);

	assert_int_equal(elffile_begin(fd, &elf), 0);
	assert_non_null(elffile_section(elf, ".debug_info", &sh));
	assert_true(sh.sh_flags & SHF_COMPRESSED);
	assert_int_equal(pread(fd, &ch, sizeof(ch), sh.sh_offset), sizeof(ch));
	ch.ch_size = factor ? sh.sh_size * factor : 1ULL << 40;
	assert_int_equal(pwrite(fd, &ch, sizeof(ch), sh.sh_offset), sizeof(ch));
	elf_end(elf);
	close(fd);
}

/* Its owner has it say more once it was looked at: what is unpacked is what was looked at. */
static void a_size_that_changes(void **state)
{
	struct program p = {.m = NULL};
	Elf64_Shdr sh;
	Dwarf *dwarf;
	Elf *elf;
	uint64_t bytes;
	int fd;

	if (compile_program(&p, "-O2 -gz=zlib") < 0)
		skip();
	fd = open(p.path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elffile_begin_dwarf(fd, &elf), 0);
	bytes = elffile_debug_bytes(elf, fd, UINT64_MAX);
	assert_in_range(bytes, 100, 1 << 20);
	claim(&p, 1000);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	assert_non_null(dwarf);
	assert_non_null(elffile_section(elf, ".debug_info", &sh));
	assert_false(sh.sh_flags & SHF_COMPRESSED);
	assert_in_range(sh.sh_size, 100, bytes);
	dwarf_end(dwarf);
	elf_end(elf);
	close(fd);
	remove_program(&p);
}

static void expect_refused(const struct program *p, uint64_t max_bytes, const char *why)
{
	struct binaries *all;
	struct binary *b;
	struct variables *v;
	struct errmsg e = {""};

	assert_int_equal(binaries_new(&all, NULL, max_bytes), 0);
	assert_int_equal(binaries_get(all, p->m, &b), 0);
	assert_int_equal(binary_variables(b, &v, &e), -ENOENT);
	assert_non_null(strstr(e.text, p->path));
	assert_non_null(strstr(e.text, "offsets instead of names"));
	if (!strstr(e.text, why))
		fail_msg("%s", e.text);
	binaries_free(all);
}

static void packed_over_the_limit(void **state)
{
	enum { LIMIT = 1 << 20 };
	struct variables *v = NULL;
	struct program p;
	uint64_t bytes;
	char text[128];

	if (compile_padded(&p) < 0)
		skip();
	assert_int_equal(variables_new(&v, p.m, NULL, LIMIT, &bytes), 0);
	assert_in_range(bytes, 1, LIMIT);
	variables_free(v);
	v = NULL;
	claim(&p, 60);
	assert_int_equal(variables_new(&v, p.m, NULL, LIMIT, &bytes), -EFBIG);
	assert_null(v);
	assert_in_range(bytes, LIMIT, UINT64_MAX - 1);
	snprintf(text, sizeof(text), "takes %llu MB of memory, more than limits.debug_info (1 MB)",
		 (unsigned long long)(bytes >> 20) + 1);
	expect_refused(&p, LIMIT, text);
	claim(&p, 0);
	expect_refused(&p, LIMIT, "does not tell its size");
	expect_refused(&p, 0, "does not tell its size");
	remove_program(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(optimized),
		cmocka_unit_test(not_optimized),
		cmocka_unit_test(dwarf_4),
		cmocka_unit_test(in_memory),
		cmocka_unit_test(a_function_without_dwarf),
		cmocka_unit_test(no_dwarf),
		cmocka_unit_test(strings_of_cxx),
		cmocka_unit_test(strings_of_rust),
		cmocka_unit_test(in_memory_of_clang),
		cmocka_unit_test(split_up),
		cmocka_unit_test(with_a_cold_part),
		cmocka_unit_test(a_size_that_changes),
		cmocka_unit_test(packed_over_the_limit),
	};

	return cmocka_run_group_tests_name("variable", tests, NULL, NULL);
}
