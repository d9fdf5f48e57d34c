/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/control_client.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "task/store.h"

static const char help[] =
	"usage: spanprof spans [OPTIONS]\n"
	"\n"
	"Finished spans in an agent's store: asked of the agent, or read from the file,\n"
	"also while the agent runs. A call that several tasks took has a line for each\n"
	"of them. 'spanprof report --span ID --store FILE' prints or converts one.\n"
	"\n"
	"options:\n"
	"      --task ID            spans of this task\n"
	"      --service NAME       of this service\n"
	"      --instance NAME      of this instance\n"
	"      --min-duration TIME  at least this long\n"
	"      --slowest            slowest first; else newest first\n"
	"      --limit N            at most N, up to 1000 (default 20)\n"
	"      --store FILE         read this file instead of asking the agent\n"
	"      --socket PATH        the agent's socket (default $SPANPROF_SOCKET,\n"
	"                           " AGENT_SOCKET_DEFAULT ")\n"
	"      --json               JSON\n"
	"\n"
	"example:\n"
	"  spanprof spans --service shop --min-duration 1s\n";

static const struct option long_options[] = {
	{"task", required_argument, NULL, 't'},
	{"service", required_argument, NULL, 's'},
	{"instance", required_argument, NULL, 'i'},
	{"min-duration", required_argument, NULL, 'm'},
	{"slowest", no_argument, NULL, 'w'},
	{"limit", required_argument, NULL, 'l'},
	{"store", required_argument, NULL, 'S'},
	{"socket", required_argument, NULL, 'k'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct options {
	struct client_options client;
	struct store_filter filter;
	const char *min_text;
	const char *store;
};

static int parse_number(struct options *o, int option)
{
	uint64_t v;

	if (option == 'm') {
		o->min_text = optarg;
		if (!parse_duration(optarg, &o->filter.min_ns))
			return 0;
		log_error("spans: --min-duration '%s' is not a duration; write for example 500ms",
			  optarg);
		return EXIT_USAGE;
	}
	if (parse_u64(optarg, 1000, &v) || !v) {
		log_error("spans: --limit '%s' is not a number from 1 to 1000", optarg);
		return EXIT_USAGE;
	}
	o->filter.limit = v;
	return 0;
}

static int parse_one(void *ctx, int option)
{
	struct options *o = ctx;

	switch (option) {
	case 't':
		o->filter.task_id = optarg;
		return 0;
	case 's':
		o->filter.service = optarg;
		return 0;
	case 'i':
		o->filter.instance = optarg;
		return 0;
	case 'w':
		o->filter.slowest = true;
		return 0;
	case 'S':
		o->store = optarg;
		return 0;
	case 'm':
	case 'l':
		return parse_number(o, option);
	default:
		return EXIT_USAGE;
	}
}

static int parse(struct options *o, int argc, char **argv)
{
	int r = client_parse(&o->client, argc, argv, long_options, parse_one, o);

	if (!r && !o->client.help)
		r = client_parse_end(argc, argv);
	return r;
}

static void print_head(int width)
{
	printf("%8s  %-19s %10s %10s %10s %10s  %9s  %-*s  %s\n", "span", "start", "ms", "on-CPU",
	       "run queue", "blocked", "snapshots", width, "task", "service / instance  name");
}

static void print_span(const json_t *s, int width)
{
	char when[32], task[TASK_ID_MAX], service[40], instance[40], name[64];
	const char *texts[] = {control_text(s, "service"), control_text(s, "instance"),
			       control_text(s, "name")};

	printf("%8lld  %-19s %10.1f %10.1f %10.1f %10.1f  %4lld/%-4lld  %-*s  %s / %s  %s\n",
	       control_number(s, "span"), control_time(when, control_number(s, "start_ms")),
	       control_real(s, "duration_ms"), control_real(s, "on_cpu_ms"),
	       control_real(s, "run_queue_ms"), control_real(s, "blocked_ms"),
	       control_number(s, "snapshots_kept"), control_number(s, "snapshots_due"), width,
	       text_show(task, sizeof(task), control_text(s, "task")),
	       text_show(service, sizeof(service), texts[0]),
	       text_show(instance, sizeof(instance), texts[1]),
	       text_show(name, sizeof(name), texts[2]));
}

static void print_spans(const struct options *o, const json_t *result)
{
	const json_t *spans = json_object_get(result, "spans"), *s;
	size_t i, n, width = 4;

	if (o->client.json) {
		client_print_json(result);
		return;
	}
	json_array_foreach(spans, i, s)
	{
		n = strlen(control_text(s, "task"));
		width = n > width ? n : width;
	}
	if (!json_array_size(spans)) {
		printf("no spans\n");
		return;
	}
	print_head((int)width);
	json_array_foreach(spans, i, s) print_span(s, (int)width);
}

static void set_optional(json_t *o, const char *key, const char *text)
{
	if (text)
		json_object_set_new(o, key, json_string(text));
}

static int ask(const struct options *o)
{
	json_t *request = json_object(), *result = NULL;
	struct errmsg e = {};

	json_object_set_new(request, "cmd", json_string("span.list"));
	set_optional(request, "id", o->filter.task_id);
	set_optional(request, "service", o->filter.service);
	set_optional(request, "instance", o->filter.instance);
	set_optional(request, "min_duration", o->min_text);
	if (o->filter.slowest)
		json_object_set_new(request, "slowest", json_true());
	json_object_set_new(request, "limit", json_integer(o->filter.limit));
	if (control_ask(o->client.socket, request, &result, &e)) {
		log_error("spans: %s", e.text);
		return EXIT_FAILED;
	}
	print_spans(o, result);
	json_decref(result);
	return 0;
}

static void add_span(void *ctx, const struct store_span *s)
{
	json_array_append_new(
		ctx,
		json_pack(
			"{s:I, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:s}",
			"span", (json_int_t)s->serial, "source", s->source, "task", s->task_id,
			"service", s->service, "instance", s->instance, "endpoint", s->endpoint,
			"name", s->name, "pid", (json_int_t)s->tgid, "tid", (json_int_t)s->tid,
			"start_ms", (json_int_t)s->start_ms, "duration_ms",
			(double)s->duration_ns / 1e6, "on_cpu_ms", (double)s->oncpu_ns / 1e6,
			"run_queue_ms", (double)s->runq_ns / 1e6, "blocked_ms",
			(double)s->blocked_ns / 1e6, "snapshots_due", (json_int_t)s->n_due,
			"snapshots_kept", (json_int_t)s->n_kept, "end",
			end_reason_name(s->end_reason)));
}

static int read_store(const struct options *o)
{
	json_t *list = json_array(), *result = json_object();
	struct store *store = NULL;
	struct errmsg e = {};
	int r = store_open_read(&store, o->store, &e);

	if (!r)
		r = store_list_spans(store, &o->filter, add_span, list);
	json_object_set_new(result, "spans", list);
	if (r)
		log_error("spans: %s",
			  e.text[0] ? e.text : "the store could not be read to its end");
	else
		print_spans(o, result);
	json_decref(result);
	store_close(store);
	return r ? EXIT_FAILED : 0;
}

int cmd_spans(int argc, char **argv)
{
	struct options o = {.filter = {.limit = 20}};
	int r = parse(&o, argc, argv);

	if (r)
		return r;
	if (o.client.help) {
		fputs(help, stdout);
		return 0;
	}
	return o.store ? read_store(&o) : ask(&o);
}
