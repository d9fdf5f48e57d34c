/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h: the endpoints of the rules' services, parsed: what the profiler can be told to watch.
 */
#ifndef SPANPROF_APP_TARGETS_H
#define SPANPROF_APP_TARGETS_H

#include "base/errmsg.h"
#include "base/vec.h"
#include "probe/endpoint.h"
#include "task/gate.h"
#include "task/rules.h"

enum { SLOT_NONE = UINT32_MAX };

/* One endpoint of one service. */
struct target {
	const struct rules_service *rule;
	char *spec;                        /* owned */
	char *name;                        /* owned; NULL: the endpoint's own */
	struct gate_endpoint names;        /* texts of `parsed` */
	struct endpoint *parsed;           /* owned: for its names; the engine has one of its own */
	const struct rules_endpoint *from; /* several of one preset have the same */
	uint32_t slot;                     /* in the engine; SLOT_NONE: not yet */
};

struct target_list {
	struct target *at;
	size_t n, cap; /* as VEC */
};

/* Of all services, presets expanded; the rules are borrowed. Nothing is left in *list on failure. */
int targets_of_rules(const struct rules *rules, struct target_list *list, struct errmsg *e);
/*
 * Whether spans of an endpoint of the task's service may be such that a local task takes them; the message says
 * which there are. A service whose name is made of its processes' facts may be any.
 */
bool targets_know(const struct target_list *list, const struct task *t, struct errmsg *e);
void targets_free(struct target *at, size_t n);
/* Texts of the endpoint. */
struct gate_endpoint target_names(const struct endpoint *ep);

#endif
