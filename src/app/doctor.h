/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h: findings about the machine and a process: what works, what does not, what to do.
 */
#ifndef SPANPROF_APP_DOCTOR_H
#define SPANPROF_APP_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum finding_level { FINDING_OK, FINDING_NOTE, FINDING_WARN, FINDING_FAIL };

struct finding {
	enum finding_level level;
	const char *group; /* a literal */
	char what[64];
	char text[768];
	char fix[256]; /* "" when there is nothing to do */
};

#define DOCTOR_PROCESS \
	"process" /* the group of what is wrong with a process, not with the machine */

/* A vector (base/vec.h). */
struct doctor {
	struct finding *at;
	size_t n;
	size_t cap;
};

void doctor_deinit(struct doctor *d);
/* False when something that spanprof cannot do without does not work. */
bool doctor_is_usable(const struct doctor *d);

/* False, but for nothing else than the process that was named. */
bool doctor_is_only_process(const struct doctor *d);

/* Without memory a finding is lost; nothing else can go wrong. */
void doctor_add(struct doctor *d, enum finding_level level, const char *group, const char *what,
		const char *fix, const char *format, ...) __attribute__((format(printf, 6, 7)));

void doctor_check_system(struct doctor *d);
void doctor_check_process(struct doctor *d, pid_t pid, const char *debug_dirs);
void doctor_print_json(const struct doctor *d, FILE *out);

#endif
