/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/agent.h"
#include "app/agent_check.h"
#include "app/command.h"
#include "app/options.h"
#include "app/profiler.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "task/instances.h"
#include "task/rules.h"

#define STATE_FOLDER "/var/lib/spanprof" /* StateDirectory= of the unit in dist/ */

static const char help[] =
	"usage: spanprof agent -c FILE [OPTIONS]\n"
	"\n"
	"Runs until it is told to end: takes tasks from the rules file, its control\n"
	"socket and the backends, profiles the instances they are for, and passes the\n"
	"spans on. SIGHUP reads the rules again; rules with a mistake change nothing.\n"
	"\n"
	"options:\n"
	"  -c, --config FILE      the rules file (docs/agent.md)\n"
	"      --check            look at the rules, show which processes match now and\n"
	"                         what they lack of what the rules ask for, and end\n"
	"      --socket PATH      control socket, instead of the one in the rules\n"
	"      --store PATH       store of spans, instead of the one in the rules\n"
	"      --keep-privileges  do not drop capabilities, do not filter system calls\n"
	"  -q, --quiet            log warnings and errors only\n"
	"  -v, --verbose          log more\n"
	"\n"
	"examples:\n"
	"  spanprof agent --check -c /etc/spanprof/agent.yaml\n"
	"  spanprof agent -c /etc/spanprof/agent.yaml\n"
	"  spanprof task create --service shop --endpoint '*' --threshold 500ms\n";

static const struct option long_options[] = {
	{"config", required_argument, NULL, 'c'},
	{"check", no_argument, NULL, 'C'},
	{"socket", required_argument, NULL, 's'},
	{"store", required_argument, NULL, 'S'},
	{"keep-privileges", no_argument, NULL, 'k'},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct options {
	struct agent_options agent;
	bool check;
	bool help;
};

static int parse(struct options *o, int argc, char **argv)
{
	int option;

	optind = 1;
	while ((option = next_option(argc, argv, ":c:qvh", long_options)) != -1) {
		switch (option) {
		case 'c':
			o->agent.config = optarg;
			break;
		case 'C':
			o->check = true;
			break;
		case 's':
			o->agent.socket = optarg;
			break;
		case 'S':
			o->agent.store = optarg;
			break;
		case 'k':
			o->agent.keep_privileges = true;
			break;
		case 'q':
			log_set_level(LOG_LEVEL_WARNING);
			break;
		case 'v':
			log_set_level(LOG_LEVEL_DEBUG);
			break;
		case 'h':
			o->help = true;
			return 0;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		log_error("agent: '%s' is too much; see 'spanprof agent --help'", argv[optind]);
		return EXIT_USAGE;
	}
	if (!o->agent.config) {
		log_error("agent: name the rules file with -c FILE; see 'spanprof agent --help'");
		return EXIT_USAGE;
	}
	return 0;
}

static void print_instances(const struct instances *t)
{
	const struct instance *i;

	for (size_t n = 0; (i = instances_at(t, n)); n++) {
		const pid_t *pids;
		size_t n_pids = instances_pids(t, i->id, &pids);

		printf("  %s / %s%s:", i->service, i->name,
		       instances_accepts(t, i->id) ? "" : " (accepts no tasks)");
		for (size_t k = 0; k < n_pids && k < 10; k++)
			printf(" %d", pids[k]);
		printf(n_pids > 10 ? " and %zu more\n" : "\n", n_pids - 10);
	}
}

static bool has_instance(const struct instances *t, const struct rules_service *rule)
{
	const struct instance *i;

	for (size_t n = 0; (i = instances_at(t, n)); n++)
		if (instances_rule(t, i->id) == rule)
			return true;
	return false;
}

/* Services that nothing matches, maybe because a pattern for a path cannot match a whole one. */
static void print_unmatched(const struct rules *rules, const struct instances *t)
{
	for (unsigned int i = 0; i < rules->n_services; i++) {
		const struct rules_service *s = &rules->services[i];

		if (has_instance(t, s))
			continue;
		printf("  %s: nothing matches\n", s->name);
		for (unsigned int k = 0; k < s->n_matches; k++) {
			const char *exe = s->matches[k].exe;

			if (exe && exe[0] && !strchr("/*?[", exe[0]))
				printf("    exe '%s' cannot: it is for the whole path, such as '*/%s'\n",
				       exe, exe);
		}
	}
}

static int check_store(const struct rules *rules, const char *given)
{
	const char *path = given ? given : rules->agent.store;
	char where[PATH_MAX + 64] = "--store";
	AUTO_FREE char *copy = NULL;
	const char *folder;
	struct stat st;

	if (!path || !path[0])
		return 0;
	copy = strdup(path);
	folder = copy ? dirname(copy) : "";
	if (!stat(folder, &st) && S_ISDIR(st.st_mode))
		return 0;
	if (!strcmp(folder, STATE_FOLDER)) {
		log_warning(
			"there is no " STATE_FOLDER
			" yet: systemd makes it for the unit; without the unit, make it yourself");
		return 0;
	}
	if (!given)
		snprintf(where, sizeof(where), "%s:%u: agent.store", rules->file,
			 rules->agent.store_line);
	log_error("%s: there is no folder for '%s'; make it, or name another file", where, path);
	return EXIT_FAILED;
}

static int check_against_processes(const struct rules *rules, const char *file)
{
	struct instances_options o = {};
	struct instances_stats stats;
	struct instances *t = NULL;
	char hostname[128] = "";
	struct errmsg e = {};
	size_t n_endpoints;
	int n_missing;

	if (profiler_check_rules(rules, &n_endpoints, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILED;
	}
	gethostname(hostname, sizeof(hostname) - 1);
	o.hostname = hostname;
	if (instances_new(&t, rules, &o, &e) || instances_scan(t)) {
		log_error("%s", e.text[0] ? e.text : "cannot read /proc");
		instances_free(t);
		return EXIT_FAILED;
	}
	instances_stats(t, &stats);
	printf("%s: no mistakes; %u services, %zu endpoints, %u tasks, %u backends\n", file,
	       rules->n_services, n_endpoints, rules->n_tasks, rules->n_backends);
	printf("now %zu instances with %zu processes match%s\n", stats.n_instances,
	       stats.n_processes, stats.n_instances ? ":" : "");
	print_instances(t);
	print_unmatched(rules, t);
	n_missing = agent_check(rules, t);
	if (n_missing < 0)
		log_error("the processes were not looked into: %s", strerror(-n_missing));
	if (n_missing > 0)
		printf("what is missing may come later, with a library that is loaded, say\n");
	if (geteuid() && readlink("/proc/1/exe", hostname, sizeof(hostname)) < 0)
		printf("processes of other users were not looked at: that needs root\n");
	instances_free(t);
	return 0;
}

static int check(const struct agent_options *o)
{
	const char *file = o->config;
	struct rules *rules = NULL;
	struct errmsg e = {};
	int r;

	if (rules_load(file, &rules, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILED;
	}
	r = check_store(rules, o->store);
	if (!r)
		r = check_against_processes(rules, file);
	rules_free(rules);
	return r;
}

static int run(const struct agent_options *o)
{
	struct agent *a = NULL;
	struct errmsg e = {};
	int r;

	log_add_time();
	r = agent_new(&a, o, &e);
	if (!r)
		r = agent_run(a, &e);
	if (r)
		log_error("%s", e.text[0] ? e.text : strerror(-r));
	agent_free(a);
	return r ? EXIT_FAILED : 0;
}

int cmd_agent(int argc, char **argv)
{
	struct options o = {};
	int r = parse(&o, argc, argv);

	if (r)
		return r;
	if (o.help) {
		fputs(help, stdout);
		return 0;
	}
	return o.check ? check(&o.agent) : run(&o.agent);
}
