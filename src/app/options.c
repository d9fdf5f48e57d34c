/* SPDX-License-Identifier: Apache-2.0 */
#include "app/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "code/nearest.h"

enum { SHOWN_MAX = 3 };

/* Those that begin with the name, which is not the whole of any; their number is returned. */
static size_t list_longer(const char *name, const struct option *longs, char *list, size_t bytes)
{
	size_t n = 0, n_found = 0;

	for (; longs->name; longs++) {
		if (strncmp(longs->name, name, strlen(name)) || n_found == SHOWN_MAX)
			continue;
		n += (size_t)snprintf(list + n, bytes - n, "%s--%s", n_found ? ", " : "",
				      longs->name);
		n_found++;
	}
	return n_found;
}

static size_t list_nearest(const char *name, const struct option *longs, char *list, size_t bytes)
{
	struct nearest near;
	size_t n = 0;

	nearest_init(&near, name);
	for (; longs->name; longs++)
		nearest_offer(&near, longs->name);
	for (size_t i = 0; i < near.n && i < SHOWN_MAX; i++)
		n += (size_t)snprintf(list + n, bytes - n, "%s--%s", i ? ", " : "",
				      near.best[i].text);
	return near.n;
}

static void tell_unknown(const char *command, const char *word, const struct option *longs)
{
	char list[SHOWN_MAX * (NEAREST_TEXT_MAX + 8)] = "", name[NEAREST_TEXT_MAX];
	const int n_name = (int)strcspn(word, "=");
	size_t n = 0;

	snprintf(name, sizeof(name), "%.*s", n_name > 2 ? n_name - 2 : 0, word + 2);
	if (name[0])
		n = list_longer(name, longs, list, sizeof(list));
	if (!n)
		n = list_nearest(name, longs, list, sizeof(list));
	log_error("%s: there is no option '%.*s'%s%s%s see 'spanprof %s --help'", command, n_name,
		  word, n ? "; did you mean " : "", list, n ? "?" : ";", command);
}

/* The long option of a value that a short one may have, too. */
static const char *long_name(const struct option *longs, int value)
{
	for (; longs->name; longs++)
		if (longs->val == value)
			return longs->name;
	return NULL;
}

static void tell_mistake(const char *command, int kind, const char *word,
			 const struct option *longs)
{
	const char *name = long_name(longs, optopt);
	const bool has_value = !strncmp(word, "--", 2) && strchr(word, '=');

	if (kind == ':' && name)
		log_error("%s: --%s needs a value; see 'spanprof %s --help'", command, name,
			  command);
	else if (!optopt)
		tell_unknown(command, word, longs);
	else if (name && has_value)
		log_error("%s: --%s takes no value; see 'spanprof %s --help'", command, name,
			  command);
	else
		log_error("%s: there is no option '-%c'; see 'spanprof %s --help'", command, optopt,
			  command);
}

int next_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
	int option;

	opterr = 0;
	option = getopt_long(argc, argv, shorts, longs, NULL);
	if (option != '?' && option != ':')
		return option;
	tell_mistake(argv[0], option, argv[optind - 1], longs);
	return '?';
}
