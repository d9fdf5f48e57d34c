/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_presets.c: lists and explains the presets. */
#include <stdbool.h>
#include <stdio.h>

#include "app/command.h"
#include "app/options.h"
#include "base/log.h"
#include "probe/preset.h"

static const char help[] =
	"usage: spanprof presets [OPTIONS] [NAME]\n"
	"\n"
	"Lists the servers and libraries whose requests spanprof knows how to find, or\n"
	"explains one.\n"
	"\n"
	"      --preset-file FILE  presets of your own as well; the format is in\n"
	"                          docs/endpoints.md\n"
	"  -h, --help\n"
	"\n"
	"examples:\n"
	"  spanprof presets\n"
	"  spanprof presets postgres\n"
	"  spanprof run --preset postgres --min-duration 200ms\n";

static void list_presets(const struct presets *all)
{
	const struct preset *p;

	for (size_t i = 0; (p = presets_at(all, i)) != NULL; i++)
		printf("%-20s %s\n", p->name, p->summary);
}

static void print_values(const char *title, const struct preset_values *v)
{
	for (size_t i = 0; i < v->n; i++)
		printf("%-12s %s\n", i ? "" : title, v->at[i]);
}

static void explain(const struct preset *p)
{
	printf("%s: %s\n\n", p->name, p->summary);
	print_values("aliases", &p->aliases);
	print_values("programs", &p->exes);
	print_values("libraries", &p->libraries);
	print_values("endpoints", &p->endpoints);
	print_values("notes", &p->notes);
	printf("%-12s %s, line %u\n", "defined in", p->file, p->line);
}

int cmd_presets(int argc, char **argv)
{
	static const struct option options[] = {
		{"preset-file", required_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const struct preset *found = NULL;
	struct presets *all = NULL;
	const char *file = NULL;
	struct errmsg e = {""};
	bool unknown = false;
	int c, r;

	optind = 1;
	while ((c = next_option(argc, argv, ":h", options)) != -1) {
		if (c == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (c != 'f')
			return EXIT_USAGE;
		file = optarg;
	}
	if (argc - optind > 1) {
		log_error("presets: one name at most, not '%s'", argv[optind + 1]);
		return EXIT_USAGE;
	}
	r = presets_open(&all, file, &e);
	if (r == 0 && optind < argc)
		unknown = presets_find(all, argv[optind], &found, &e) < 0;
	if (r < 0 || unknown)
		log_error("%s", e.text);
	else if (found)
		explain(found);
	else
		list_presets(all);
	presets_free(all);
	return unknown ? EXIT_USAGE : r < 0 ? EXIT_FAILED : 0;
}
