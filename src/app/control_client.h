/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_client.h: one question to an agent's control socket, and its answer: for task, spans, top.
 */
#ifndef SPANPROF_APP_CONTROL_CLIENT_H
#define SPANPROF_APP_CONTROL_CLIENT_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>

#include "app/agent.h"
#include "base/errmsg.h"

/*
 * path NULL: the environment's SPANPROF_SOCKET, or the default. take_request is an object with "cmd" and
 * its members; it is consumed. 0 and the object "result", a new reference; or a negative errno with
 * what the agent said, or why it could not be asked.
 */
int control_ask(const char *path, json_t *take_request, json_t **ret_result, struct errmsg *e);

/* Of every command that asks an agent: --socket ('k'), --json ('j'), --help ('h'). */
struct client_options {
	const char *socket;
	bool json;
	bool help;
};

/*
 * The options up to the first word that is none; other is called for those that are not everybody's, until
 * it returns anything but 0. 0, or EXIT_USAGE after a message.
 */
int client_parse(struct client_options *o, int argc, char **argv, const struct option *longs,
		 int (*other)(void *ctx, int option), void *ctx);
/* For commands without arguments: EXIT_USAGE after a message when there is one all the same. */
int client_parse_end(int argc, char **argv);
/* With a newline, for --json. */
void client_print_json(const json_t *result);

/* Members of answers; "" and 0 when they are not there. */
const char *control_text(const json_t *o, const char *key);
long long control_number(const json_t *o, const char *key);
double control_real(const json_t *o, const char *key);

/* "2026-01-31 12:00:00" in local time; "-" for 0. buf is returned. */
const char *control_time(char buf[32], long long epoch_ms);

#endif
