/* SPDX-License-Identifier: Apache-2.0 */
#include "app/hints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "code/kallsyms.h"
#include "pipe/hanging.h"
#include "probe/servers.h"
#include "proc/process.h"

void hints_warnings(struct engine *e)
{
	const char *text;

	while ((text = probes_next_warning(engine_probes(e))))
		log_warning("%s", text);
}

/* Endpoints 0 to n - 1 that were called, as bits. */
static uint64_t called(struct engine *e, size_t n)
{
	struct latency l;
	uint64_t bits = 0;

	for (uint32_t i = 0; i < n; i++)
		if (engine_latency(e, i, &l) || l.n_enter)
			bits |= 1ULL << i;
	return bits;
}

void hints_silence(struct engine *e, const struct specs *specs, size_t n,
		   const bool absent[WIRE_EP_MAX])
{
	uint64_t fine = called(e, n);
	char names[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < specs->groups.n; i++)
		if (specs->groups.at[i].endpoints & fine)
			fine |= specs->groups.at[i].endpoints;
	for (uint32_t i = 0; i < n && used < sizeof(names); i++)
		if (!absent[i] && !(fine & 1ULL << i))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'%s'",
						 used ? ", " : "",
						 endpoint_display(engine_endpoint(e, i)));
	if (used)
		log_warning(
			"no call of %s was seen in 3 s: is the server idle, has the call begun before spanprof attached (those are not seen), or is this not the function it calls? ('spanprof probes --count' shows what is called)",
			names);
}

/* Three turns are the least from which anything follows about the rest of the time. */
void hints_turns(const struct profile *p)
{
	const struct profile_turns *t = &p->turns;

	if (t->share_ppm && t->n_turns < 3 && t->probed_ns < p->duration_ns / 10 * 9)
		log_warning(
			"the limit of %g %% has allowed %lu turn%s, %.2g s in all: what was seen in so little time says little of the rest; let it run longer (--for), or allow more (--max-overhead)",
			t->share_ppm / 1e4, (unsigned long)t->n_turns, t->n_turns == 1 ? "" : "s",
			(double)t->probed_ns / 1e9);
}

void hints_strays(const struct specs *specs, const struct profile *p)
{
	uint64_t there = 0;

	for (size_t i = 1; i < p->endpoints.n; i++)
		there |= p->endpoints.at[i].absent ? 0 : 1ULL << (i - 1);
	for (size_t i = 0; i < specs->groups.n && specs->groups.n > 1; i++)
		if (!(specs->groups.at[i].endpoints & there))
			log_warning(
				"preset '%s': no process had its endpoints; 'spanprof doctor -p PID' tells which presets are for a process",
				specs->groups.at[i].preset->name);
}

void hints_hanging(struct engine *e, uint64_t until_ns, uint64_t *told_ns)
{
	struct hanging h;
	char age[32];

	if (!hanging_find(engine_pipeline(e), *told_ns, until_ns, &h))
		return;
	*told_ns = h.start_ns;
	format_duration(age, sizeof(age), clock_mono_ns() - h.start_ns);
	log_info("a call of '%s' has not ended for %s (process %u, thread %u)%s%s", h.name, age,
		 h.tgid, h.tid, h.where[0] ? ": " : "", h.where);
}

void hints_nameless(struct engine *e, size_t n, const struct profile *p)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct endpoint *spec = engine_endpoint(e, i);
		const char *display = endpoint_display(spec);
		size_t n_spans = 0, n_named = 0;

		for (size_t k = 1; k < p->spans.n; k++) {
			if (p->spans.at[k].endpoint != i + 1)
				continue;
			n_spans++;
			n_named +=
				strcmp(strpool_get(p->strings, p->spans.at[k].name), display) != 0;
		}
		if (endpoint_has_name(spec) && n_spans && !n_named &&
		    !probes_nameless(engine_probes(e), i))
			log_warning(
				"cannot name the calls of '%s': what its name expression reads is no text (%zu calls): the function may have no such argument, or this build have it elsewhere; see 'spanprof probes --check'",
				display, n_spans);
	}
}

static void tell_stranger(const struct preset *p, pid_t pid)
{
	char path[PROCESS_PATH_MAX];

	process_shown_path(pid, path, sizeof(path));
	log_info("preset '%s' is for %s; process %d runs %s", p->name, p->exes.at[0], pid, path);
}

void hints_strangers(const struct run_options *o, const struct preset *p)
{
	char path[PROCESS_PATH_MAX];

	for (size_t i = 0; p->exes.n && i < o->pids.n; i++) {
		process_exe_path(o->pids.at[i], path, sizeof(path));
		if (path[0] && !preset_is_for(p, path))
			tell_stranger(p, o->pids.at[i]);
	}
}

void hints_presets(pid_t pid)
{
	struct presets *all = NULL;
	const struct preset *p;
	char path[PROCESS_PATH_MAX], names[256] = "";
	size_t used = 0;

	process_exe_path(pid, path, sizeof(path));
	if (!path[0] || presets_open(&all, NULL, NULL))
		return;
	for (size_t i = 0; (p = presets_at(all, i)) && used < sizeof(names); i++)
		if (preset_is_for(p, path))
			used += (size_t)snprintf(names + used, sizeof(names) - used,
						 "%s--preset %s", used ? ", " : "", p->name);
	process_shown_path(pid, path, sizeof(path));
	if (used)
		log_info("requests of %s are known, see 'spanprof presets': %s", path, names);
	presets_free(all);
}

void hints_left(pid_t pid)
{
	char path[PROCESS_PATH_MAX];

	process_exe_path(pid, path, sizeof(path));
	log_warning(
		"process %d has called exec and is not profiled any more; --exe '%s' profiles all that run that, from the start",
		pid, path[0] ? path : "PROGRAM");
}

void hints_gone(const struct run_options *o)
{
	char path[PROCESS_PATH_MAX];

	for (size_t i = 0; i < o->pids.n; i++) {
		process_exe_path(o->pids.at[i], path, sizeof(path));
		if (path[0])
			return;
	}
	log_info("all processes have ended");
}

/* Functions of a module that have no name, and the time in them and below. */
struct nameless {
	uint64_t wall_ns;
	uint32_t example;     /* string */
	uint32_t last_sample; /* that was counted */
};

static void add_nameless(const struct profile *p, uint32_t sample, struct nameless *modules)
{
	const struct profile_sample *s = &p->samples.at[sample];
	const struct profile_stack *stack = &p->stacks.at[s->stack];

	for (uint32_t i = 0; i < stack->n && stack->stop != STACK_STOP_NO_FILE; i++) {
		const struct profile_location *l =
			&p->locations.at[p->stack_runs.at[stack->first + i]];
		const struct profile_frame *f = &p->frames.at[p->frame_runs.at[l->first_frame]];
		struct nameless *m = &modules[l->module];

		if (!(f->flags & PROFILE_FRAME_UNKNOWN) || m->last_sample == sample)
			continue;
		m->wall_ns += s->wall_ns;
		m->last_sample = sample;
		m->example = f->function;
	}
}

void hints_symbols(const struct profile *p, bool debuginfod)
{
	AUTO_FREE struct nameless *modules = calloc(p->modules.n, sizeof(*modules));
	uint64_t total_ns = 0;
	uint32_t top = 0;
	const char *path;

	if (!modules)
		return;
	for (uint32_t i = 1; i < p->samples.n; i++) {
		add_nameless(p, i, modules);
		total_ns += p->samples.at[i].wall_ns;
	}
	for (uint32_t i = 1; i < p->modules.n; i++)
		if (modules[i].wall_ns > modules[top].wall_ns)
			top = i;
	path = strpool_get(p->strings, p->modules.at[top].path);
	if (modules[top].wall_ns <= total_ns / 10 || path[0] == '[')
		return;
	log_info(
		"functions without a name, such as %s, are known to the debug symbols of '%s': install them (Debian: its package with -dbgsym; libc6-dbg)%s",
		strpool_get(p->strings, modules[top].example), path,
		debuginfod ? "" : ", or try --debuginfod");
}

void hints_debuginfod(bool debuginfod)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if (debuginfod && (!urls || !urls[0]))
		log_warning(
			"--debuginfod: no server is asked, for DEBUGINFOD_URLS is not set (sudo removes it: sudo DEBUGINFOD_URLS=https://debuginfod.debian.net spanprof ...)");
}

void hints_kernel_symbols(const struct run_options *o)
{
	if (!o->no_kernel && kallsyms_is_hidden("/proc/kallsyms"))
		log_warning(
			"kernel frames have no names, as its addresses are hidden: %s; --no-kernel leaves them out",
			KALLSYMS_REMEDY);
}

/*
 * A debugger reads the probe's trap as the instruction under a breakpoint of its own and writes it
 * back when it deletes that. While the probe is there this is as it should be; later it kills.
 */
static void tell_traced(pid_t pid, const char *what)
{
	char path[PROCESS_PATH_MAX] = "?";
	pid_t tracer = process_tracer(pid);

	if (!tracer)
		return;
	process_shown_path(tracer, path, sizeof(path));
	log_warning("process %d is traced by process %d (%s): %s", pid, tracer, path, what);
}

void hints_traced_at_start(pid_t pid)
{
	tell_traced(
		pid,
		"a debugger must delete its breakpoints on probed functions, which are not hit now, before spanprof ends: later that kills the process");
}

void hints_traced_at_end(const struct run_options *o)
{
	for (size_t i = 0; i < o->pids.n; i++)
		tell_traced(
			o->pids.at[i],
			"if it is a debugger with breakpoints on functions that were probed, run spanprof again while it deletes them, or that kills the process");
}
