/* SPDX-License-Identifier: Apache-2.0 */
#include "app/hints.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "pipe/hanging.h"
#include "probe/servers.h"
#include "proc/process.h"

void hints_warnings(struct engine *e)
{
	const char *text;

	while ((text = probes_next_warning(engine_probes(e))))
		log_warning("%s", text);
}

void hints_silence(struct engine *e, size_t n, const bool absent[WIRE_EP_MAX])
{
	struct latency l;

	for (uint32_t i = 0; i < n; i++) {
		if (!absent[i] && !engine_latency(e, i, &l) && !l.n_enter)
			log_warning(
				"no call of '%s' was seen in 3 s: is the server idle, has the call begun before spanprof attached (those are not seen), or is this not the function it calls? ('spanprof probes --count' shows what is called)",
				endpoint_display(engine_endpoint(e, i)));
	}
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

void hints_nameless(const struct engine *e, size_t n, const struct profile *p)
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
		if (endpoint_has_name(spec) && n_spans && !n_named)
			log_warning(
				"cannot name the calls of '%s' in this build: what its name expression reads is no text (%zu calls); see 'spanprof probes --check'",
				display, n_spans);
	}
}

void hints_strangers(const struct run_options *o, const struct preset *p)
{
	char path[PROCESS_PATH_MAX];

	for (size_t i = 0; p->exes.n && i < o->pids.n; i++) {
		process_exe_path(o->pids.at[i], path, sizeof(path));
		if (path[0] && !preset_is_for(p, path))
			log_info("preset '%s' is for %s; process %d runs %s", p->name,
				 p->exes.at[0], o->pids.at[i], path);
	}
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
	process_exe_path(tracer, path, sizeof(path));
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
