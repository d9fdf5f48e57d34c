/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h: getopt_long with messages that help: the nearest options, and where they are explained.
 */
#ifndef SPANPROF_APP_OPTIONS_H
#define SPANPROF_APP_OPTIONS_H

#include <getopt.h>

/*
 * As getopt_long; argv[0] is the command's name. '?' for every mistake, after one message. shorts
 * begins with ":", or "+:" where the first word that is no option ends them.
 */
int next_option(int argc, char **argv, const char *shorts, const struct option *longs);

#endif
