/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_process.c: how well one process can be profiled. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "app/doctor.h"
#include "app/inspect.h"
#include "base/text.h"
#include "code/coverage.h"
#include "code/debugfile.h"
#include "code/section.h"
#include "probe/plan.h"
#include "proc/process.h"

enum { MODULES_MAX = 512 };

#define GROUP_PROCESS DOCTOR_PROCESS
#define GROUP_MODULES "files of the process"

static const struct {
	const char *part; /* of a file's base name */
	const char *text;
} runtimes[] = {
	{"libpython", "CPython: its functions are not seen, only the interpreter's"},
	{"python3", "CPython: its functions are not seen, only the interpreter's"},
	{"libjvm.so", "Java: compiled code needs a perf map for names"},
	{"libnode", "Node.js: compiled code needs --perf-basic-prof for names"},
	{"libphp", "PHP: its functions are not seen, only the interpreter's"},
	{"libruby", "Ruby: its functions are not seen, only the interpreter's"},
	{"libluajit", "LuaJIT: compiled code is not seen"},
	{"libcoreclr.so", ".NET: compiled code needs a perf map for names"},
};

static void note_runtimes(struct doctor *d, const struct resolve_module *mods, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *base = text_base_name(module_path(mods[i].module));

		for (size_t k = 0; k < sizeof(runtimes) / sizeof(runtimes[0]); k++)
			if (strncmp(base, runtimes[k].part, strlen(runtimes[k].part)) == 0)
				doctor_add(d, FINDING_NOTE, GROUP_PROCESS, "runtime", NULL, "%s",
					   runtimes[k].text);
	}
}

static void note_safety(struct doctor *d, struct binary *exe, unsigned int bits)
{
	const char *danger = plan_uretprobe_danger(bits);

	if (exe && (binary_runtimes(exe) & BINARY_GO)) {
		doctor_add(
			d, FINDING_FAIL, GROUP_PROCESS, "endpoints",
			"use a profiler of Go, such as net/http/pprof; only functions of C libraries can be endpoints",
			"Go: its functions cannot be endpoints (its stacks move)");
		return;
	}
	if (bits & BINARY_GO)
		doctor_add(
			d, FINDING_WARN, GROUP_PROCESS, "endpoints", NULL,
			"Go: the functions of its libraries in Go cannot be endpoints (their stacks move)");
	else
		doctor_add(d, FINDING_OK, GROUP_PROCESS, "endpoints", NULL,
			   "safe with return sites and end functions (the default)");
	if (danger)
		doctor_add(d, FINDING_NOTE, GROUP_PROCESS, "uretprobes",
			   "stay with the default; --leave uretprobe is refused",
			   "could kill it: %s", danger);
	else
		doctor_add(d, FINDING_OK, GROUP_PROCESS, "uretprobes", NULL,
			   "nothing was found that they could break");
}

static void note_tracer(struct doctor *d, pid_t pid)
{
	char path[PROCESS_PATH_MAX] = "?";
	pid_t tracer = process_tracer(pid);

	if (!tracer)
		return;
	process_shown_path(tracer, path, sizeof(path));
	doctor_add(d, FINDING_WARN, GROUP_PROCESS, "debugger",
		   "quit it, or delete its breakpoints on probed functions before spanprof ends",
		   "traced by process %d (%.200s)", tracer, path);
}

struct symbols {
	size_t n;
	unsigned int sources; /* bit i: enum symtab_source i */
};

static bool tally_symbol(void *ctx, const struct symtab_symbol *sym)
{
	struct symbols *s = ctx;

	s->n++;
	s->sources |= 1U << sym->source;
	return true;
}

static const char *best_source(const struct symbols *s)
{
	if (s->sources & 1U << SYMTAB_DEBUG)
		return "full, from its debug file";
	if (s->sources & 1U << SYMTAB_FULL)
		return "full";
	if (s->sources & 1U << SYMTAB_DEBUGDATA)
		return "full, from .gnu_debugdata";
	return "exported ones only";
}

/* What is known of its requests; presets for a library say nothing of what the program is for. */
static void note_presets(struct doctor *d, const struct inspect *i)
{
	struct presets *all = NULL;
	const struct preset *p;
	size_t idx = 0;

	if (presets_open(&all, NULL, NULL) < 0)
		return;
	while ((p = inspect_preset(i, all, &idx))) {
		char fix[128];

		snprintf(fix, sizeof(fix), "spanprof run -p %d --preset %s", i->pid, p->name);
		doctor_add(d, FINDING_OK, GROUP_PROCESS, "preset", fix, "%s", p->summary);
	}
	presets_free(all);
}

/* "99.8 % of 1812 KB (not f, g, h and 3 more)", or without what cannot be told. */
static void format_coverage(const struct coverage *c, char *buf, size_t n)
{
	size_t used = 0, shown = c->n_without < COVERAGE_NAMES ? c->n_without : COVERAGE_NAMES;
	double share = c->code_bytes ? 100.0 * (double)c->covered_bytes / (double)c->code_bytes : 0;

	/* Not all is never 100 %. */
	if (share > 99.9 && c->covered_bytes < c->code_bytes)
		share = 99.9;
	used += (size_t)snprintf(buf, n, "%s%.*f %% of %" PRIu64 " KB%s",
				 c->is_cut ? "at least " : "", share < 100 ? 1 : 0, share,
				 (c->code_bytes + 999) / 1000,
				 c->lies ? " (its header of .text says more)" : "");
	for (size_t i = 0; i < shown && used < n; i++)
		used += (size_t)snprintf(buf + used, n - used, "%s%.48s", i ? ", " : " (not ",
					 c->without[i]);
	if (used < n && c->n_without > shown)
		used += (size_t)snprintf(buf + used, n - used, " and %zu more",
					 c->n_without - shown);
	if (used < n && shown)
		snprintf(buf + used, n - used, ")");
}

/* What is known of the unwind data; false: there is none. */
static bool describe_cfi(struct module *m, struct symtab *st, char *buf, size_t n)
{
	struct coverage c;
	struct section sec;
	bool has = section_find(m, ".eh_frame", &sec) || section_find(m, ".debug_frame", &sec);

	if (has && coverage_read(m, st, &c) == 0 && c.code_bytes)
		format_coverage(&c, buf, n);
	else
		snprintf(buf, n, "%s", has ? "yes" : "NO");
	return has;
}

/* Where its debug file is or, when it has need of one, where it is not. */
static void describe_debugfile(struct binary *b, bool needed, const char *dirs, char *buf, size_t n)
{
	const struct debugfile *f = binary_debugfile(b);

	buf[0] = '\0';
	if (f)
		snprintf(buf, n, "; debug file %s", debugfile_path(f));
	else if (needed)
		snprintf(buf, n, "; debug file none, looked in %s", dirs);
}

static void note_module(struct doctor *d, struct binary *b, bool is_exe, const char *debug_dirs)
{
	struct module *m = binary_module(b);
	struct symtab *st = binary_symtab(b);
	char unwind[256], debug[256];
	struct symbols s = {0};
	struct section sec;
	bool cfi = describe_cfi(m, st, unwind, sizeof(unwind));
	bool dwarf = section_find(m, ".debug_info", &sec) || binary_debugfile(b);
	bool partial;
	const char *fix = NULL;

	if (st)
		symtab_each(st, tally_symbol, &s);
	/* Debug symbols of a Go program are of no use: it cannot be profiled. */
	partial = !(s.sources & ~(1U << SYMTAB_DYNAMIC)) && !(binary_runtimes(b) & BINARY_GO);
	if (!cfi)
		fix = "stacks through it stop, or follow frame pointers";
	else if (is_exe && partial)
		fix = "install its debug symbols (-dbgsym) to see static functions and lines";
	describe_debugfile(b, partial || !dwarf, debug_dirs, debug, sizeof(debug));
	doctor_add(d,
		   !cfi                ? FINDING_WARN
		   : is_exe && partial ? FINDING_NOTE
				       : FINDING_OK,
		   GROUP_MODULES, text_base_name(module_path(m)), fix,
		   "unwind data %s; %zu functions, %s; lines %s%s", unwind, s.n,
		   s.n ? best_source(&s) : "none", dwarf ? "yes" : "no", debug);
}

/* By its own name and by that of its file, which its stacks show. */
static void note_program(struct doctor *d, pid_t pid)
{
	char file[PROCESS_PATH_MAX], path[PROCESS_PATH_MAX];
	bool same;

	process_exe_path(pid, file, sizeof(file));
	process_shown_path(pid, path, sizeof(path));
	same = !strcmp(file, path);
	doctor_add(d, FINDING_OK, GROUP_PROCESS, "program", NULL, "%d: %.200s%s%.100s", pid, path,
		   same ? "" : ", a link to ", same ? "" : text_base_name(file));
}

void doctor_check_process(struct doctor *d, pid_t pid, const char *debug_dirs)
{
	struct resolve_module mods[MODULES_MAX];
	struct inspect i = {0};
	struct errmsg e = {""};
	struct binary *exe;
	size_t n;

	if (inspect_open(&i, pid, debug_dirs, 0, &e) < 0) {
		doctor_add(d, FINDING_FAIL, GROUP_PROCESS, "process", NULL, "%s", e.text);
		return;
	}
	note_program(d, pid);
	note_tracer(d, pid);
	n = resolve_modules(&i.input, NULL, mods, MODULES_MAX);
	if (n == 0)
		doctor_add(d, FINDING_FAIL, GROUP_PROCESS, "files",
			   "run as root, or with CAP_SYS_PTRACE",
			   "none of its files can be opened");
	note_runtimes(d, mods, n);
	if (n == 0 || binaries_get(i.binaries, mods[0].module, &exe) < 0)
		exe = NULL;
	note_safety(d, exe, plan_runtimes(&i.input));
	note_presets(d, &i);
	for (size_t k = 0; k < n; k++) {
		struct binary *b;

		if (binaries_get(i.binaries, mods[k].module, &b) == 0)
			note_module(d, b, k == 0, debug_dirs ? debug_dirs : DEBUGFILE_DIRS);
	}
	inspect_deinit(&i);
}
