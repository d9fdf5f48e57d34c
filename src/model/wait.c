/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c: what the functions on a stack say of a wait that the system call leaves open.
 *
 * Locks and condition variables both sleep in futex. The innermost function of the thread library
 * decides: a thread that wakes up in pthread_cond_wait may then wait for the mutex.
 */
#include <string.h>

#include "base/cleanup.h"
#include "model/profile.h"

enum { LOOK_AT_FRAMES = 16 }; /* innermost ones of the program */

struct waiting_function {
	const char *prefix; /* without leading underscores */
	enum block_cause cause;
};

static const struct waiting_function functions[] = {
	{"pthread_cond_", BLOCK_CONDITION},
	{"cnd_wait", BLOCK_CONDITION},
	{"cnd_timedwait", BLOCK_CONDITION},
	{"std::sys::sync::condvar::", BLOCK_CONDITION},
	{"std::sys::unix::locks::futex_condvar::", BLOCK_CONDITION},
	{"pthread_mutex_", BLOCK_LOCK},
	{"pthread_rwlock_", BLOCK_LOCK},
	{"lll_lock", BLOCK_LOCK},
	{"lll_mutex", BLOCK_LOCK},
};

static enum block_cause cause_of_function(const char *name)
{
	name += strspn(name, "_");
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (!strncmp(name, functions[i].prefix, strlen(functions[i].prefix)))
			return functions[i].cause;
	return BLOCK_NONE;
}

static enum block_cause cause_of_location(const struct profile *p, const struct profile_location *l,
					  unsigned int *n_left)
{
	for (uint32_t i = 0; i < l->n_frames && *n_left; i++) {
		const struct profile_frame *f = &p->frames.at[p->frame_runs.at[l->first_frame + i]];
		enum block_cause cause;

		if (f->flags & PROFILE_FRAME_KERNEL)
			continue;
		(*n_left)--;
		cause = cause_of_function(strpool_get(p->strings, f->function));
		if (cause != BLOCK_NONE)
			return cause;
	}
	return BLOCK_NONE;
}

enum block_cause profile_wait_cause(const struct profile *p, enum block_cause cause, uint32_t stack)
{
	const struct profile_stack *s = &p->stacks.at[stack];
	unsigned int n_left = LOOK_AT_FRAMES;

	if (cause != BLOCK_LOCK)
		return cause;
	for (uint32_t i = 0; i < s->n && n_left; i++) {
		uint32_t location = p->stack_runs.at[s->first + i];
		enum block_cause found = cause_of_location(p, &p->locations.at[location], &n_left);

		if (found != BLOCK_NONE)
			return found;
	}
	return cause;
}
