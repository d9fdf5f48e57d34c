/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "app/command.h"
#include "app/control_client.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"

static const char help[] =
	"usage: spanprof task create --service NAME [OPTIONS]\n"
	"       spanprof task list | show ID | log [ID] | cancel ID\n"
	"\n"
	"Tasks of a running agent, through its control socket.\n"
	"\n"
	"options of create:\n"
	"      --service NAME       the service, as the rules call it\n"
	"      --instance NAME      only this instance; a pattern such as 'web-*' for\n"
	"                           several\n"
	"      --endpoint NAME      name of the spans, or of the endpoint; '*' in it\n"
	"                           (default '*')\n"
	"      --threshold TIME     profile calls slower than this (default 100ms)\n"
	"      --period TIME        longest time on CPU between two snapshots, from 1ms\n"
	"                           (default 10ms)\n"
	"      --duration TIME      how long, from its real start; 0: until cancelled\n"
	"                           (default 5m)\n"
	"      --start TIME         2026-01-31T12:00:00Z or ms since 1970 (default now)\n"
	"      --spans N            at most N spans of each instance; 0: no limit\n"
	"                           (default 0)\n"
	"      --parallel N         at most N spans at a time in each instance (default:\n"
	"                           the rules)\n"
	"      --from-start         keep snapshots taken before the threshold, too\n"
	"      --end-by-count       the task ends when --spans are reached\n"
	"      --id ID              its id (default: made by the agent)\n"
	"options:\n"
	"      --socket PATH        the agent's socket (default $SPANPROF_SOCKET,\n"
	"                           " AGENT_SOCKET_DEFAULT ")\n"
	"      --source NAME        show, log, cancel: a task of this source (control,\n"
	"                           rules, a backend)\n"
	"      --limit N            log: newest entries shown (default 100)\n"
	"      --json               print the agent's answer as it is\n"
	"\n"
	"examples:\n"
	"  spanprof task create --service shop --instance 'web-2*' --threshold 500ms\n"
	"  spanprof task log\n";

static const struct option long_options[] = {
	{"service", required_argument, NULL, 's'},  {"instance", required_argument, NULL, 'i'},
	{"endpoint", required_argument, NULL, 'e'}, {"threshold", required_argument, NULL, 't'},
	{"period", required_argument, NULL, 'p'},   {"duration", required_argument, NULL, 'd'},
	{"start", required_argument, NULL, 'S'},    {"spans", required_argument, NULL, 'n'},
	{"parallel", required_argument, NULL, 'P'}, {"from-start", no_argument, NULL, 'f'},
	{"end-by-count", no_argument, NULL, 'c'},   {"id", required_argument, NULL, 'I'},
	{"socket", required_argument, NULL, 'k'},   {"source", required_argument, NULL, 'o'},
	{"limit", required_argument, NULL, 'l'},    {"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},           {},
};

struct options {
	struct client_options client;
	const char *verb;
	const char *id; /* the argument of show, log, cancel */
	json_t *task;   /* owned: members of create */
	json_t *more;   /* owned: members of the others */
};

static int set_count(json_t *o, const char *key, const char *text)
{
	uint64_t v;

	if (parse_u64(text, 1000000000, &v)) {
		log_error("task: --%s '%s' is not a number from 0 to 1000000000", key, text);
		return EXIT_USAGE;
	}
	json_object_set_new(o, key, json_integer((json_int_t)v));
	return 0;
}

static int set_duration(json_t *o, const char *key, const char *text)
{
	uint64_t ns;

	if (parse_duration(text, &ns)) {
		log_error("task: --%s '%s' is not a duration; write for example 10ms, 2s, 5m", key,
			  text);
		return EXIT_USAGE;
	}
	json_object_set_new(o, key, json_string(text));
	return 0;
}

static int set_start(json_t *o, const char *text)
{
	struct tm tm = {};
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	uint64_t ms;

	if (rest && !*rest) {
		ms = (uint64_t)timegm(&tm) * 1000;
	} else if (parse_u64(text, INT64_MAX / 4, &ms)) {
		log_error(
			"task: --start '%s' is not a time; write 2026-01-31T12:00:00Z (UTC) or milliseconds since 1970",
			text);
		return EXIT_USAGE;
	}
	json_object_set_new(o, "start_ms", json_integer((json_int_t)ms));
	return 0;
}

static int set_text(json_t *o, const char *key, const char *text)
{
	if (json_object_set_new(o, key, json_string(text))) {
		log_error("task: --%s is not UTF-8", key);
		return EXIT_USAGE;
	}
	return 0;
}

static int parse_value(struct options *o, int option)
{
	switch (option) {
	case 's':
		return set_text(o->task, "service", optarg);
	case 'i':
		return set_text(o->task, "instance", optarg);
	case 'e':
		return set_text(o->task, "endpoint", optarg);
	case 'I':
		return set_text(o->task, "id", optarg);
	case 't':
		return set_duration(o->task, "threshold", optarg);
	case 'p':
		return set_duration(o->task, "period", optarg);
	case 'd':
		return set_duration(o->task, "duration", optarg);
	case 'S':
		return set_start(o->task, optarg);
	case 'n':
		return set_count(o->task, "spans", optarg);
	case 'P':
		return set_count(o->task, "parallel", optarg);
	case 'o':
		return set_text(o->more, "source", optarg);
	case 'l':
		return set_count(o->more, "limit", optarg);
	default:
		return EXIT_USAGE;
	}
}

static int parse_one(void *ctx, int option)
{
	struct options *o = ctx;

	switch (option) {
	case 'f':
		json_object_set_new(o->task, "from_start", json_true());
		return 0;
	case 'c':
		json_object_set_new(o->task, "end_by_count", json_true());
		return 0;
	default:
		return parse_value(o, option);
	}
}

static int check(struct options *o)
{
	bool one = !strcmp(o->verb, "show") || !strcmp(o->verb, "cancel");

	if (strcmp(o->verb, "create") && strcmp(o->verb, "list") && strcmp(o->verb, "log") &&
	    !one) {
		log_error("task: there is no 'task %s'; see 'spanprof task --help'", o->verb);
		return EXIT_USAGE;
	}
	if (one && !o->id) {
		log_error("task %s: which one? 'spanprof task list' shows their ids", o->verb);
		return EXIT_USAGE;
	}
	if (!strcmp(o->verb, "create") && !json_object_get(o->task, "service")) {
		log_error(
			"task create: name the service with --service NAME, as the agent's rules call it");
		return EXIT_USAGE;
	}
	if (!json_object_get(o->task, "endpoint"))
		json_object_set_new(o->task, "endpoint", json_string("*"));
	return 0;
}

static int parse(struct options *o, int argc, char **argv)
{
	int r = client_parse(&o->client, argc, argv, long_options, parse_one, o);

	if (r || o->client.help)
		return r;
	if (optind >= argc || argc - optind > 2) {
		log_error(
			"task: say create, list, show ID, log [ID] or cancel ID; see 'spanprof task --help'");
		return EXIT_USAGE;
	}
	o->verb = argv[optind];
	o->id = optind + 1 < argc ? argv[optind + 1] : NULL;
	return check(o);
}

/* ---- printing ---- */

static void print_task_line(const json_t *t)
{
	char id[64], service[40], instance[40], endpoint[48], trouble[512];
	const char *how = control_text(t, "how");

	printf("%-28s %-11s %-8s %6lld  %s / %s  %s\n",
	       text_show(id, sizeof(id), control_text(t, "id")),
	       how[0] ? how : control_text(t, "state"), control_text(t, "source"),
	       control_number(t, "n_spans"),
	       text_show(service, sizeof(service), control_text(t, "service")),
	       control_text(t, "instance")[0]
		       ? text_show(instance, sizeof(instance), control_text(t, "instance"))
		       : "all",
	       text_show(endpoint, sizeof(endpoint), control_text(t, "endpoint")));
	if (control_text(t, "trouble")[0])
		printf("  ! %s\n", text_show(trouble, sizeof(trouble), control_text(t, "trouble")));
}

static void print_list(const json_t *result)
{
	const json_t *tasks = json_object_get(result, "tasks");
	const json_t *t;
	size_t i;

	if (!json_array_size(tasks)) {
		printf("no tasks\n");
		return;
	}
	printf("%-28s %-11s %-8s %6s  %s\n", "id", "state", "source", "spans",
	       "service / instance  endpoint");
	json_array_foreach(tasks, i, t) print_task_line(t);
}

static void print_run(const json_t *run)
{
	const char *state = control_text(run, "state"), *how = control_text(run, "how");
	long long n = control_number(run, "n_spans");
	char buf[512];

	/* How it has finished, unless it just has. */
	if (!how[0] || !strcmp(how, state))
		how = state;
	printf("  on %s: %s, %lld span%s\n",
	       text_show(buf, sizeof(buf), control_text(run, "instance")), how, n,
	       n == 1 ? "" : "s");
	if (control_text(run, "trouble")[0])
		printf("    ! %s\n", text_show(buf, sizeof(buf), control_text(run, "trouble")));
}

static void print_task(const json_t *t)
{
	static const char *const texts[] = {"id",       "source",   "state",   "service",
					    "instance", "endpoint", "trouble", "last"};
	static const char *const times[] = {"received_ms", "start_ms", "started_ms", "finished_ms"};
	char buf[512], when[32];
	const json_t *run;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		printf("%-13s %s\n", texts[i],
		       text_show(buf, sizeof(buf), control_text(t, texts[i])));
	printf("%-13s %g ms\n%-13s %g ms\n", "threshold", control_real(t, "threshold_ms"), "period",
	       control_real(t, "period_ms"));
	printf("%-13s %g s%s\n", "duration", control_real(t, "duration_ms") / 1000,
	       control_real(t, "duration_ms") ? "" : " (until cancelled)");
	printf("%-13s %lld of at most %lld an instance (0: no limit)\n", "spans",
	       control_number(t, "n_spans"), control_number(t, "max_spans"));
	for (i = 0; i < ARRAY_SIZE(times); i++)
		printf("%-13.*s %s\n", (int)strlen(times[i]) - 3, times[i],
		       control_time(when, control_number(t, times[i])));
	json_array_foreach(json_object_get(t, "runs"), i, run) print_run(run);
}

static void print_log(const json_t *result)
{
	const json_t *log = json_object_get(result, "log");
	char id[64], instance[64], text[600], when[32];

	for (size_t i = json_array_size(log); i-- > 0;) {
		const json_t *e = json_array_get(log, i);

		printf("%s  %-11s %-8s %s  %s  %s\n", control_time(when, control_number(e, "ms")),
		       control_text(e, "event"), control_text(e, "source"),
		       text_show(id, sizeof(id), control_text(e, "id")),
		       text_show(instance, sizeof(instance), control_text(e, "instance")),
		       text_show(text, sizeof(text), control_text(e, "text")));
	}
}

static void print_result(const struct options *o, const json_t *result)
{
	if (o->client.json) {
		client_print_json(result);
	} else if (!strcmp(o->verb, "create")) {
		printf("%s\n", control_text(result, "id"));
		if (strcmp(control_text(result, "state"), "accepted"))
			log_info("no instance that is up matches yet; the task waits for one");
	} else if (!strcmp(o->verb, "list")) {
		print_list(result);
	} else if (!strcmp(o->verb, "show")) {
		print_task(result);
	} else if (!strcmp(o->verb, "log")) {
		print_log(result);
	}
}

static int ask(struct options *o)
{
	json_t *request = json_incref(o->more), *result = NULL;
	struct errmsg e = {};
	char cmd[32];

	snprintf(cmd, sizeof(cmd), "task.%s", o->verb);
	json_object_set_new(request, "cmd", json_string(cmd));
	if (!strcmp(o->verb, "create"))
		json_object_set(request, "task", o->task);
	else if (o->id)
		json_object_set_new(request, "id", json_string(o->id));
	if (control_ask(o->client.socket, request, &result, &e)) {
		log_error("task %s: %s", o->verb, e.text);
		return EXIT_FAILED;
	}
	print_result(o, result);
	json_decref(result);
	return 0;
}

int cmd_task(int argc, char **argv)
{
	struct options o = {.task = json_object(), .more = json_object()};
	int r = parse(&o, argc, argv);

	if (!r && o.client.help)
		fputs(help, stdout);
	else if (!r)
		r = ask(&o);
	json_decref(o.task);
	json_decref(o.more);
	return r;
}
