/* SPDX-License-Identifier: Apache-2.0 */
/* probes_check.c: dry-runs a specification: where it would be probed, and ten names it reads. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/probes_command.h"
#include "app/probes_watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "pipe/engine.h"
#include "probe/insn.h"
#include "probe/plan.h"
#include "probe/reading.h"

enum { INSTANCE = 1, NAMES_SHOWN = 10, NAME_BYTES = 512 };
enum { DEFAULT_SECONDS = 5, READING_BYTES = 600 };

struct samples {
	const struct endpoint *ep;
	char names[NAMES_SHOWN][NAME_BYTES];
	size_t n;
	uint64_t n_seen;
	uint64_t n_nameless; /* of which nothing could be read */
};

static void print_place(const struct resolved *f, const struct plan_place *p, const char *title)
{
	struct module *m = binary_module(f->binary);
	uint8_t code[16];
	char text[128], name[SHOWN_MAX], path[SHOWN_MAX];
	size_t n = module_read_code(m, p->site.vaddr, code, sizeof(code));

	format_insn(code, n, p->site.vaddr, text, sizeof(text));
	printf("%-10s %s in %s\n", title, text_show(name, sizeof(name), f->name),
	       text_show(path, sizeof(path), module_path(m)));
	printf("%-10s 0x%" PRIx64 " (+0x%x): %s: %s", "site", p->site.vaddr, p->site.off, text,
	       p->site.cheap ? "cheap" : "DEAR, single-stepped");
	if (!p->site.cheap && p->site.stop)
		printf(" (%s)", site_stop_text((enum site_stop)p->site.stop));
	putchar('\n');
	if (p->semaphore_off)
		printf("%-10s at file offset 0x%" PRIx64 "\n", "semaphore", p->semaphore_off);
}

static void print_places(const struct plan *p)
{
	const struct resolved *other = p->other_end.binary ? &p->other_end : NULL;

	for (size_t i = 0; i < p->entry.n; i++)
		print_place(&p->entry.function, &p->entry.places[i], "function");
	for (size_t i = 0; i < p->end.n; i++)
		print_place(i && other ? other : &p->end.function, &p->end.places[i], "end");
}

static void print_reading(const struct wire_endpoint *w, bool has_end)
{
	char text[READING_BYTES];

	if (!w->n_entry_ops && !w->n_leave_ops)
		printf("%-10s nothing\n", "reads");
	if (w->n_entry_ops)
		printf("%-10s at entry: %s\n", "reads",
		       format_reading(w->entry_ops, w->n_entry_ops, text, sizeof(text)));
	if (w->n_leave_ops)
		printf("%-10s at the %s: %s\n", w->n_entry_ops ? "" : "reads",
		       has_end ? "end function" : "end",
		       format_reading(w->leave_ops, w->n_leave_ops, text, sizeof(text)));
}

static int print_plan(struct inspect *i, const struct site_rules *rules, const struct endpoint *ep)
{
	struct plan_options o = {
		.rules = *rules, .leave = LEAVE_AUTO, .runtimes = plan_runtimes(&i->input)};
	AUTO_FREE struct plan *plan = malloc(sizeof(*plan));
	const char *danger = plan_uretprobe_danger(o.runtimes);
	struct errmsg e = {""};
	int r = plan ? plan_endpoint(&i->input, ep, &o, plan, &e) : -ENOMEM;

	if (r < 0) {
		log_error("%s", e.text[0] ? e.text : strerror(-r));
		return r;
	}
	print_places(plan);
	printf("%-10s %s%s%s%s\n", "leave", leave_method_name(plan->leave),
	       danger ? " (a uretprobe could kill it: " : "", danger ? danger : "",
	       danger ? ")" : "");
	print_reading(&plan->wire, plan->end.n > 0);
	if (plan->warning[0])
		printf("%-10s %s\n", "warning", text_printable(plan->warning));
	fflush(stdout);
	return 0;
}

static void on_record(void *ctx, const void *record, size_t bytes)
{
	struct samples *s = ctx;
	const struct wire_end *end = record;
	char name[NAME_BYTES];

	if (bytes < sizeof(*end) || end->h.kind != WIRE_K_SLOW || end->name_bytes > WIRE_NAME_MAX)
		return;
	s->n_seen++;
	endpoint_format_name(s->ep, end->name, end->name_bytes, name, sizeof(name));
	s->n_nameless += !strcmp(name, endpoint_display(s->ep));
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->names[i], name) == 0)
			return;
	if (s->n < NAMES_SHOWN)
		memcpy(s->names[s->n++], name, sizeof(name));
}

static bool is_enough(const void *ctx)
{
	const struct samples *s = ctx;

	return s->n == NAMES_SHOWN;
}

/* For so long at most. */
static int watch(struct engine *engine, const struct samples *s, uint64_t for_ns)
{
	struct probes_watch w;
	int r = probes_watch_init(&w);

	r = r < 0 ? r : probes_watch_for(&w, engine, for_ns, is_enough, s);
	probes_watch_deinit(&w);
	return r;
}

static int sample(struct engine *engine, struct endpoint *take_ep, pid_t pid, struct samples *s,
		  uint64_t for_ns, struct errmsg *e)
{
	/* Every call is "slow", none is profiled: its name comes with its end. */
	struct wire_gate gate = {.threshold_ns = 0,
				 .sample_after_ns = UINT64_MAX,
				 .period_ns = 10000000,
				 .enabled = 1};
	uint32_t ep_id;
	int r = engine_add_endpoint(engine, take_ep, &ep_id);

	if (r < 0) {
		endpoint_free(take_ep);
		return r;
	}
	s->ep = take_ep;
	r = engine_set_gate(engine, ep_id, INSTANCE, &gate, e);
	r = r < 0 ? r : engine_add_instance(engine, pid, INSTANCE, e);
	r = r < 0 ? r : watch(engine, s, for_ns);
	return r < 0 ? r : engine_finish(engine, clock_mono_ns());
}

static void print_samples(const struct samples *s, const struct latency *l, uint64_t for_ns)
{
	char took[32];

	format_duration(took, sizeof(took), for_ns);
	printf("%-10s %" PRIu64 " calls in at most %s%s, %" PRIu64 " with an end seen\n", "calls",
	       l->n_enter, took,
	       endpoint_has_condition(s->ep) ? " (those that if= lets through)" : "", l->n_leave);
	if (l->n_leave < l->n_enter)
		printf("%-10s %" PRIu64
		       " without: still open, begun anew before the end ('once' ignores that), or returned to where no probe was yet\n",
		       "", l->n_enter - l->n_leave);
	for (size_t i = 0; i < s->n; i++)
		printf("%-10s %s\n", i ? "" : "names", s->names[i]);
	if (endpoint_has_name(s->ep) && s->n_nameless)
		printf("%-10s of %" PRIu64 " of %" PRIu64
		       " calls no name could be read: the function's name stands for it\n",
		       "warning", s->n_nameless, s->n_seen);
	if (s->n == 0)
		printf("%-10s none: no call with a known end was seen\n", "names");
}

int probes_check(struct inspect *i, const struct probes_command *c)
{
	struct samples s = {0};
	struct engine_options o = {.follow_forks = true,
				   .probes = {.preset_callers = true,
					      .report_slow = true,
					      .debug_dirs = c->debug_dirs},
				   .pipeline = {.no_symbols = true},
				   .on_record = on_record,
				   .ctx = &s};
	uint64_t for_ns = c->count_ns ? c->count_ns : DEFAULT_SECONDS * 1000000000ULL;
	struct engine *engine = NULL;
	struct endpoint *ep = NULL;
	struct errmsg e = {""};
	struct latency l = {0};
	int r = parse_endpoint(c->check, &ep, &e);

	if (r < 0) {
		log_error("--check: %s", e.text);
		return EXIT_USAGE;
	}
	if (print_plan(i, &c->rules, ep) < 0) {
		endpoint_free(ep);
		return EXIT_FAILED;
	}
	r = engine_new(&engine, &o, &e);
	if (r < 0)
		endpoint_free(ep);
	else
		r = sample(engine, ep, c->pid, &s, for_ns, &e);
	if (r == 0)
		r = engine_latency(engine, 0, &l);
	if (r < 0)
		log_error("cannot watch process %d: %s", c->pid, e.text[0] ? e.text : strerror(-r));
	else
		print_samples(&s, &l, for_ns);
	engine_free(engine);
	return r < 0 ? EXIT_FAILED : 0;
}
