/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phases: a scripted target whose calls and phases are known.
 *
 *   phases [-o TRUTH] [-n CALLS] [-t THREADS] [-g GAP_MS] [-w] SCRIPT...
 *
 * A script is one call: "NAME=PHASE:MS,PHASE:MS,..."; the scripts are called in turn, CALLS times
 * each, by every thread; 0: until there is a line on standard input, or its end. -w: prints "ready" and waits for a line on standard input before, and again
 * after, so that a test can attach and look in between. request() is the endpoint: its first
 * argument is the call's name.
 */
#include "phases.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

enum { STEPS_MAX = 16, SCRIPTS_MAX = 16, THREADS_MAX = 64 };

struct step {
	const struct phase *phase;
	int ms;
};

struct script {
	char *name;
	int n_steps;
	struct step steps[STEPS_MAX];
};

struct run {
	struct script scripts[SCRIPTS_MAX];
	int n_scripts;
	int n_calls;
	int n_threads;
	int gap_ms;
	int wait;
};

static struct run run = {.n_calls = 1, .n_threads = 1};

static void parse_script(char *text, struct script *ret)
{
	char *rest = strchr(text, '=');

	if (!rest)
		exit(2);
	*rest++ = 0;
	ret->name = text;
	for (char *save, *item = strtok_r(rest, ",", &save); item;
	     item = strtok_r(NULL, ",", &save)) {
		char *ms = strchr(item, ':');
		struct step *step = &ret->steps[ret->n_steps];

		if (ms)
			*ms++ = 0;
		step->phase = phase_find(item);
		step->ms = ms ? atoi(ms) : 0;
		if (!step->phase || ++ret->n_steps == STEPS_MAX) {
			fprintf(stderr, "phases: bad step '%s'\n", item);
			exit(2);
		}
	}
}

/* The endpoint. Its truth is taken at its first and last statement. */
int request(const char *name, void *script_ptr)
{
	const struct script *script = script_ptr;
	uint64_t start = truth_now();
	int sum = 0;

	for (int i = 0; i < script->n_steps; i++) {
		const struct step *step = &script->steps[i];
		uint64_t begin = truth_now();

		sum += step->phase->run(step->ms);
		truth_add("phase", step->phase->name, begin, truth_now());
	}
	truth_add("call", name, start, truth_now());
	return sum;
}

static int is_told_to_stop(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

static void *thread_main(void *arg)
{
	(void)arg;
	for (int n = 0; run.n_calls ? n < run.n_calls : !is_told_to_stop(); n++) {
		for (int i = 0; i < run.n_scripts; i++) {
			request(run.scripts[i].name, &run.scripts[i]);
			if (run.gap_ms)
				phase_sleep(run.gap_ms);
		}
	}
	return NULL;
}

static void parse_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "o:n:t:g:w")) != -1) {
		if (option == 'o')
			truth_open(optarg);
		else if (option == 'n')
			run.n_calls = atoi(optarg);
		else if (option == 't')
			run.n_threads = atoi(optarg);
		else if (option == 'g')
			run.gap_ms = atoi(optarg);
		else if (option == 'w')
			run.wait = 1;
		else
			exit(2);
	}
	if (run.n_threads < 1 || run.n_threads > THREADS_MAX || argc - optind > SCRIPTS_MAX)
		exit(2);
	for (; optind < argc; optind++)
		parse_script(argv[optind], &run.scripts[run.n_scripts++]);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];

	parse_options(argc, argv);
	phases_init();
	if (run.wait)
		wait_for_line("ready", 0);
	if (run.n_threads == 1) {
		thread_main(NULL);
	} else {
		for (int i = 0; i < run.n_threads; i++)
			if (pthread_create(&threads[i], NULL, thread_main, NULL))
				exit(1);
		for (int i = 0; i < run.n_threads; i++)
			pthread_join(threads[i], NULL);
	}
	truth_write();
	if (run.wait)
		wait_for_line("done", 0);
	return 0;
}
