/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_metrics.c: the agent's own figures as Prometheus text (exposition format 0.0.4).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/agent_priv.h"
#include "app/callfilter.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* What one probe hit and one snapshot cost the target at most on the machines measured so far. */
#define HIT_COST_S      0.6e-6
#define SNAPSHOT_COST_S 2e-6

static void head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP spanprof_%s %s\n# TYPE spanprof_%s %s\n", name, help, name, type);
}

static void one(FILE *f, const char *name, const char *type, const char *help, double v)
{
	head(f, name, type, help);
	fprintf(f, "spanprof_%s %.17g\n", name, v);
}

/* Label values: backslash, quote and newline are escaped. */
static void label(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', f);
		if (*text == '\n')
			fputs("\\n", f);
		else
			fputc(*text, f);
	}
}

static void write_tasks(struct agent *a, FILE *f)
{
	size_t n[TASK_STATE_MAX] = {};

	for (size_t i = 0; i < schedule_n_tasks(a->schedule); i++)
		n[schedule_task_at(a->schedule, i)->state]++;
	head(f, "tasks", "gauge", "Tasks known, by state.");
	for (int i = 0; i < TASK_STATE_MAX; i++)
		fprintf(f, "spanprof_tasks{state=\"%s\"} %zu\n", task_state_name(i), n[i]);
	one(f, "refusals_untold_total", "counter",
	    "Tasks refused without a log entry, because too many came at once.",
	    (double)schedule_n_untold(a->schedule));
	head(f, "tasks_received_total", "counter",
	     "Tasks handed over by sources, by what became of them.");
	fprintf(f, "spanprof_tasks_received_total{answer=\"accepted\"} %" PRIu64 "\n",
		a->counts.n_tasks_accepted);
	fprintf(f, "spanprof_tasks_received_total{answer=\"refused\"} %" PRIu64 "\n",
		a->counts.n_tasks_refused);
	fprintf(f, "spanprof_tasks_received_total{answer=\"known\"} %" PRIu64 "\n",
		a->counts.n_tasks_known);
	fprintf(f, "spanprof_tasks_received_total{answer=\"not_for_us\"} %" PRIu64 "\n",
		a->counts.n_tasks_not_for_us);
}

static void write_losses(struct agent *a, FILE *f)
{
	struct counters c;

	if (profiler_counters(a->profiler, &c))
		return;
	head(f, "events_total", "counter",
	     "What was lost, given up or counted, by kind; loss=\"1\": data was lost.");
	for (unsigned int i = 0; i < COUNTER_MAX; i++)
		fprintf(f, "spanprof_events_total{kind=\"%s\",loss=\"%d\"} %" PRIu64 "\n",
			counter_name(i), counter_is_loss(i), c.v[i]);
}

static void write_links(struct agent *a, FILE *f)
{
	static const char *const what[] = {"sent", "dropped", "errors"};

	head(f, "link_total", "counter", "Spans or commands of each source and sink.");
	for (size_t i = 0; i < a->links.n; i++) {
		const struct agent_link *l = &a->links.at[i];
		struct link_status s = {};
		uint64_t v[3];

		if (l->source && l->source->ops->status)
			l->source->ops->status(l->source, &s);
		if (l->sink && l->sink->ops->status)
			l->sink->ops->status(l->sink, &s);
		v[0] = s.n_sent;
		v[1] = s.n_dropped;
		v[2] = s.n_errors;
		for (int k = 0; k < 3; k++) {
			fputs("spanprof_link_total{name=\"", f);
			label(f, agent_link_name(l));
			fprintf(f, "\",role=\"%s\",what=\"%s\"} %" PRIu64 "\n",
				l->source ? "source" : "sink", what[k], v[k]);
		}
	}
}

/* Calls per endpoint, and from them what the probes may have cost the targets. */
static void write_calls(struct agent *a, FILE *f)
{
	const char *service, *endpoint;
	double cost = (double)a->counts.n_snapshots_due * SNAPSHOT_COST_S;
	struct latency l;
	int r;

	head(f, "calls_total", "counter", "Calls of each endpoint seen while it was attached.");
	for (size_t i = 0;
	     (r = profiler_latency(a->profiler, i, &service, &endpoint, &l)) != -ENOENT; i++) {
		if (r)
			continue;
		fputs("spanprof_calls_total{service=\"", f);
		label(f, service);
		fputs("\",endpoint=\"", f);
		label(f, endpoint);
		fprintf(f, "\"} %" PRIu64 "\n", l.n_enter);
		cost += (double)(l.n_enter + l.n_leave) * HIT_COST_S;
	}
	one(f, "target_cost_seconds_total", "counter",
	    "Estimate, not a measurement: CPU time that probes and snapshots took from the targets.",
	    cost);
}

/* Of the agent itself. */
static void write_own(struct agent *a, const struct profiler_stats *ps, FILE *f)
{
	one(f, "uptime_seconds", "gauge", "Since the agent was started.",
	    (double)(clock_mono_ns() - a->started_ns) / 1e9);
	one(f, "cpu_seconds_total", "counter", "CPU time of the agent itself.",
	    (double)a->cpu_ns / 1e9);
	one(f, "cpu_share", "gauge", "Share of the machine that the agent uses now.",
	    a->budget.permille / 1000);
	one(f, "cpu_limit", "gauge", "The budget for it; 0: none.",
	    a->budget.limit_permille / 1000.0);
	one(f, "period_factor", "gauge", "What dump periods are multiplied by to keep the budget.",
	    a->budget.factor ? a->budget.factor : 1);
	one(f, "budget_raised_total", "counter", "Times that dump periods were raised.",
	    (double)a->budget.n_raised);
	one(f, "budget_refused_total", "counter",
	    "Times that new spans were refused for the budget.", (double)a->budget.n_refused);
	one(f, "resident_bytes", "gauge", "Memory of the agent.", (double)a->rss_bytes);
	one(f, "table_bytes", "gauge", "Of that, symbols and stacks.", (double)ps->profile_bytes);
	one(f, "refused_calls_total", "counter",
	    "System calls of the agent that its filter refused; never, unless a library has changed.",
	    (double)callfilter_n_refused());
	one(f, "reloads_total", "counter", "Times that the rules were loaded anew.",
	    (double)a->counts.n_reloads);
	one(f, "reloads_failed_total", "counter", "Times that new rules were refused.",
	    (double)a->counts.n_reloads_failed);
	one(f, "log_suppressed_total", "counter", "Log lines not written, to bound the log.",
	    (double)a->counts.n_log_suppressed);
	one(f, "engine_renewed_total", "counter", "Times that the engine was made anew.",
	    (double)ps->n_renewed);
}

static void write_processes(struct agent *a, const struct profiler_stats *ps, FILE *f)
{
	struct instances_stats is;

	instances_stats(a->instances, &is);
	one(f, "instances", "gauge", "Instances that are up.", (double)is.n_instances);
	one(f, "instances_refused_total", "counter",
	    "Processes left out because of limits.instances.", (double)is.n_refused);
	one(f, "processes", "gauge", "Processes that match a rule.", (double)is.n_processes);
	one(f, "process_events_total", "counter",
	    "Starts, forks and ends of processes that the kernel told of.",
	    (double)a->counts.n_told);
	one(f, "process_events_untold_total", "counter",
	    "Such that it did not tell, because there were too many: /proc was looked at instead.",
	    (double)watch_n_unsent(a->watch));
	one(f, "processes_not_followed_total", "counter",
	    "Matching processes whose forks and ends only a look at /proc finds: there are too many.",
	    (double)a->counts.n_not_followed);
	one(f, "attached_processes", "gauge", "Processes with probes in them now.",
	    (double)ps->n_processes);
	one(f, "attach_failed_total", "counter", "Processes that could not be attached.",
	    (double)ps->n_attach_failed);
}

static void write_spans(struct agent *a, const struct profiler_stats *ps, FILE *f)
{
	one(f, "probed_seconds_total", "counter",
	    "While limits.overhead is set: time in which functions were probed.",
	    (double)ps->probed_ns / 1e9);
	one(f, "turns_total", "counter", "Turns in which they were.", (double)ps->n_turns);
	one(f, "open_spans", "gauge", "Spans that are being profiled.", (double)ps->n_open_spans);
	one(f, "spans_total", "counter", "Spans handed to the sinks.", (double)a->counts.n_spans);
	one(f, "spans_unwanted_total", "counter",
	    "Spans profiled that no task took: another name, or its spans were used up.",
	    (double)a->counts.n_spans_unwanted);
	one(f, "snapshots_total", "counter", "Snapshots in those spans.",
	    (double)a->counts.n_snapshots);
	one(f, "snapshots_due_total", "counter", "Snapshots that were due in them.",
	    (double)a->counts.n_snapshots_due);
}

/*
 * Counted by the kernel when the rules ask for it (agent.bpf_stats), or the machine's administrator did
 * (sysctl kernel.bpf_stats_enabled).
 */
static void write_bpf(struct agent *a, const struct profiler_stats *ps, FILE *f)
{
	struct bpftime bpf = ps->bpf;

	if (watch_runtime(a->watch, &bpf))
		return;
	one(f, "bpf_stats", "gauge",
	    "1: the run time of BPF programs is counted for this agent; 0: only target_cost is known.",
	    a->stats_fd >= 0);
	one(f, "bpf_run_seconds_total", "counter",
	    "Time that the agent's BPF programs have run in other processes, while it was counted.",
	    (double)bpf.run_ns / 1e9);
	one(f, "bpf_runs_total", "counter", "Runs of them, while they were counted.",
	    (double)bpf.n_runs);
}

static void write_store(struct agent *a, FILE *f)
{
	struct store_stats s;

	if (!a->store)
		return;
	store_stats(a->store, &s);
	one(f, "store_bytes", "gauge", "Size of the store.", (double)s.bytes);
	one(f, "store_removed_total", "counter", "Spans removed from the store by age or size.",
	    (double)s.n_removed);
	one(f, "store_failing", "gauge", "1 while the store cannot be written.", s.is_failing);
}

char *agent_metrics(struct agent *a)
{
	struct profiler_stats ps;
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return NULL;
	profiler_stats(a->profiler, &ps);
	write_own(a, &ps, f);
	write_processes(a, &ps, f);
	write_spans(a, &ps, f);
	write_tasks(a, f);
	write_calls(a, f);
	write_bpf(a, &ps, f);
	write_losses(a, f);
	write_links(a, f);
	write_store(a, f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
