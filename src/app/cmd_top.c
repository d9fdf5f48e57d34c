/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/command.h"
#include "app/control_client.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"

static const char help[] =
	"usage: spanprof top [OPTIONS]\n"
	"\n"
	"What a running agent is doing: its tasks, its own use of CPU and memory, its\n"
	"sources and sinks, and everything that was lost.\n"
	"\n"
	"options:\n"
	"      --interval TIME  refresh after this time (default 2s)\n"
	"      --count N        end after N times; 0: never (default 0, or 1 when the\n"
	"                       output is no terminal)\n"
	"      --metrics        print the agent's figures as Prometheus text, and end\n"
	"      --socket PATH    the agent's socket (default $SPANPROF_SOCKET,\n"
	"                       " AGENT_SOCKET_DEFAULT ")\n"
	"      --json           print the agent's answer as it is\n"
	"\n"
	"example:\n"
	"  spanprof top --count 1\n";

static const struct option long_options[] = {
	{"interval", required_argument, NULL, 'i'},
	{"count", required_argument, NULL, 'n'},
	{"metrics", no_argument, NULL, 'm'},
	{"socket", required_argument, NULL, 'k'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct options {
	struct client_options client;
	uint64_t interval_ns;
	uint64_t count;
	bool metrics;
};

static int parse_one(void *ctx, int option)
{
	struct options *o = ctx;

	switch (option) {
	case 'i':
		if (!parse_duration(optarg, &o->interval_ns) && o->interval_ns >= 100000000)
			return 0;
		log_error("top: --interval '%s' is not a time of at least 100ms", optarg);
		return EXIT_USAGE;
	case 'n':
		if (!parse_u64(optarg, 1000000000, &o->count))
			return 0;
		log_error("top: --count '%s' is not a number", optarg);
		return EXIT_USAGE;
	case 'm':
		o->metrics = true;
		return 0;
	default:
		return EXIT_USAGE;
	}
}

static int parse(struct options *o, int argc, char **argv)
{
	int r = client_parse(&o->client, argc, argv, long_options, parse_one, o);

	return r || o->client.help ? r : client_parse_end(argc, argv);
}

static void print_agent(const json_t *t)
{
	double limit = control_real(t, "cpu_limit_percent");

	printf("spanprof %s, up %lld s; CPU %.2f %% of the machine", control_text(t, "version"),
	       control_number(t, "uptime_ms") / 1000, control_real(t, "cpu_percent"));
	if (limit > 0)
		printf(" (budget %.1f %%)", limit);
	printf(", memory %.1f MB\n", control_real(t, "rss_bytes") / 1e6);
	if (control_number(t, "period_factor") > 1)
		printf("to keep the budget, dump periods are %lld times as long%s\n",
		       control_number(t, "period_factor"),
		       json_is_true(json_object_get(t, "refuses_spans")) ? ", no new spans" : "");
	printf("%lld instances, %lld processes, %lld attached; %lld spans open, %lld finished; snapshots %lld of %lld\n",
	       control_number(t, "instances"), control_number(t, "processes"),
	       control_number(t, "attached_processes"), control_number(t, "open_spans"),
	       control_number(t, "spans"), control_number(t, "snapshots"),
	       control_number(t, "snapshots_due"));
}

static void print_tasks(const json_t *t)
{
	const json_t *task;
	char id[48], service[40], instance[40], endpoint[48];
	size_t i;

	printf("\n%-28s %-9s %5s %7s  %s\n", "task", "state", "runs", "spans",
	       "service / instance  endpoint");
	json_array_foreach(json_object_get(t, "tasks"), i, task) printf(
		"%-28s %-9s %5lld %7lld  %s / %s  %s\n",
		text_show(id, sizeof(id), control_text(task, "id")), control_text(task, "state"),
		control_number(task, "n_running"), control_number(task, "n_spans"),
		text_show(service, sizeof(service), control_text(task, "service")),
		control_text(task, "instance")[0]
			? text_show(instance, sizeof(instance), control_text(task, "instance"))
			: "all",
		text_show(endpoint, sizeof(endpoint), control_text(task, "endpoint")));
}

static void print_links(const json_t *t)
{
	const json_t *l;
	char name[40];
	size_t i;

	printf("\n%-12s %-11s %-7s %-14s %10s %10s %8s %10s\n", "name", "kind", "role", "state",
	       "sent", "dropped", "errors", "queued");
	json_array_foreach(json_object_get(t, "links"), i, l)
		printf("%-12s %-11s %-7s %-14s %10lld %10lld %8lld %10lld\n",
		       text_show(name, sizeof(name), control_text(l, "name")),
		       control_text(l, "kind"), control_text(l, "role"), control_text(l, "state"),
		       control_number(l, "sent"), control_number(l, "dropped"),
		       control_number(l, "errors"), control_number(l, "queued_bytes"));
}

static void print_losses(json_t *t)
{
	json_t *losses = json_object_get(t, "losses"), *v;
	const char *key;

	if (!json_object_size(losses))
		return;
	printf("\nlost:");
	json_object_foreach(losses, key, v)
		printf(" %s %lld", key, (long long)json_integer_value(v));
	printf("\n");
}

static int once(const struct options *o, bool clear)
{
	json_t *request = json_object(), *result = NULL;
	struct errmsg e = {};

	json_object_set_new(request, "cmd", json_string(o->metrics ? "metrics" : "top"));
	if (control_ask(o->client.socket, request, &result, &e)) {
		log_error("top: %s", e.text);
		return EXIT_FAILED;
	}
	if (clear)
		printf("\033[H\033[2J");
	if (o->metrics) {
		fputs(control_text(result, "text"), stdout);
	} else if (o->client.json) {
		client_print_json(result);
	} else {
		print_agent(result);
		print_tasks(result);
		print_links(result);
		print_losses(result);
	}
	fflush(stdout);
	json_decref(result);
	return 0;
}

int cmd_top(int argc, char **argv)
{
	struct options o = {.interval_ns = 2000000000, .count = isatty(STDOUT_FILENO) ? 0 : 1};
	int r = parse(&o, argc, argv);

	if (r)
		return r;
	if (o.client.help) {
		fputs(help, stdout);
		return 0;
	}
	if (o.metrics)
		o.count = 1;
	for (uint64_t i = 0; !r && (!o.count || i < o.count); i++) {
		const struct timespec ts = {.tv_sec = o.interval_ns / 1000000000,
					    .tv_nsec = o.interval_ns % 1000000000};

		if (i)
			nanosleep(&ts, NULL);
		r = once(&o, isatty(STDOUT_FILENO) && o.count != 1);
	}
	return r;
}
