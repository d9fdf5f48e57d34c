/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h: names made from text with placeholders: "{hostname}-{pid}". Pure.
 *
 *   {hostname} {pid} {cgroup} {exe} {user} {service} {env:NAME} {env:NAME:default}
 *
 * "{{" and "}}" stand for single braces. Control characters become '_'. A result longer than
 * SkyWalking allows (70 characters) is cut at a character's boundary.
 */
#ifndef SPANPROF_TASK_TEMPLATE_H
#define SPANPROF_TASK_TEMPLATE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/errmsg.h"

enum { TEMPLATE_CHARACTERS_MAX = 70 };

enum template_needs {
	TEMPLATE_NEEDS_CGROUP = 1 << 0,
	TEMPLATE_NEEDS_ENV = 1 << 1,
	TEMPLATE_NEEDS_EXE = 1 << 2,
	TEMPLATE_NEEDS_PID = 1 << 3,
};

struct template_values {
	const char *hostname;
	const char *cgroup;
	const char *exe;
	const char *user;
	const char *service;
	pid_t pid;
	/* NULL when the variable is not set. */
	const char *(*env)(void *ctx, const char *name);
	void *ctx;
};

/* 0 and what the template needs, or -EINVAL with what is wrong and which placeholders there are. */
int template_check(const char *text, unsigned int *ret_needs, struct errmsg *e);

/* The template must have passed template_check. The result may be empty. */
void template_expand(const char *text, const struct template_values *v, char *buf, size_t n);

#endif
