/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/warnings.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proc/process.h"

void warnings_deinit(struct warnings *w)
{
	for (size_t i = 0; i < w->v.n; i++)
		free(w->v.at[i].text);
	vec_free(&w->v);
}

static bool is_same(const struct warning *a, const struct warning *b)
{
	if (!strcmp(a->text, b->text))
		return true;
	return a->exe_ino && a->ep_id == b->ep_id && a->exe_dev == b->exe_dev &&
	       a->exe_ino == b->exe_ino;
}

static void add(struct warnings *w, struct warning new, const char *text)
{
	new.text = strdup(text);
	if (!new.text)
		return;
	for (size_t i = 0; i < w->v.n; i++) {
		if (is_same(&w->v.at[i], &new)) {
			free(new.text);
			return;
		}
	}
	if (vec_push(&w->v, new) < 0)
		free(new.text);
}

void warnings_add(struct warnings *w, const char *text)
{
	add(w, (struct warning){}, text);
}

void warnings_add_missing(struct warnings *w, uint32_t ep_id, pid_t pid, const char *text)
{
	struct process p = {};

	process_read(pid, &p, NULL);
	add(w, (struct warning){.ep_id = ep_id, .exe_dev = p.exe_dev, .exe_ino = p.exe_ino}, text);
}

const char *warnings_next(struct warnings *w)
{
	return w->n_told < w->v.n ? w->v.at[w->n_told++].text : NULL;
}
