/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/endpoint.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/glob.h"
#include "probe/endpoint_priv.h"
#include "probe/pattern.h"

static const char *const leave_names[] = {
	[LEAVE_AUTO] = "auto", [LEAVE_RETSITE] = "retsite",     [LEAVE_END] = "end",
	[LEAVE_RET] = "ret",   [LEAVE_URETPROBE] = "uretprobe",
};

const char *leave_method_name(enum leave_method m)
{
	return (unsigned int)m < ARRAY_SIZE(leave_names) ? leave_names[m] : "?";
}

int parse_leave_method(const char *text, enum leave_method *ret)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(leave_names); i++) {
		if (strcmp(text, leave_names[i]) == 0) {
			*ret = (enum leave_method)i;
			return 0;
		}
	}
	return -EINVAL;
}

static void target_deinit(struct target_text *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->words); i++)
		free(t->words[i]);
	*t = (struct target_text){0};
}

static void choice_deinit(struct name_choice *c)
{
	for (size_t i = 0; i < NAME_ALTERNATIVES_MAX; i++) {
		expression_free(c->at[i].name);
		free(c->at[i].guard);
	}
}

struct endpoint *endpoint_free(struct endpoint *ep)
{
	if (!ep)
		return NULL;
	target_deinit(&ep->target);
	target_deinit(&ep->end);
	target_deinit(&ep->other_end);
	choice_deinit(&ep->name);
	choice_deinit(&ep->leave_name);
	expression_free(ep->condition);
	expression_free(ep->end_condition);
	pattern_free(ep->pattern);
	free(ep->text);
	free(ep->as);
	free(ep->display);
	free(ep->match);
	free(ep->file);
	free(ep);
	return NULL;
}

const char *endpoint_text(const struct endpoint *ep)
{
	return ep->text;
}

const char *endpoint_display(const struct endpoint *ep)
{
	if (ep->as)
		return ep->as;
	if (ep->display)
		return ep->display;
	return ep->target.target.kind == ENDPOINT_USDT ? ep->target.target.name
						       : ep->target.target.symbol;
}

static int set_text(char **text, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

int endpoint_found(struct endpoint *ep, const char *function)
{
	return ep->display ? 0 : set_text(&ep->display, function);
}

int endpoint_set_name(struct endpoint *ep, const char *name)
{
	return set_text(&ep->as, name);
}

const char *endpoint_pattern(const struct endpoint *ep)
{
	return ep->as || ep->display || ep->target.target.kind != ENDPOINT_SYMBOL
		       ? NULL
		       : ep->target.target.symbol;
}

enum leave_method endpoint_leave(const struct endpoint *ep)
{
	return ep->has_end ? LEAVE_END : ep->leave;
}

const struct endpoint_target *endpoint_target(const struct endpoint *ep)
{
	return &ep->target.target;
}

const struct endpoint_target *endpoint_end(const struct endpoint *ep)
{
	return ep->has_end ? &ep->end.target : NULL;
}

const struct endpoint_target *endpoint_other_end(const struct endpoint *ep)
{
	return ep->has_other_end ? &ep->other_end.target : NULL;
}

bool endpoint_wants_file(const struct endpoint *ep, const char *path)
{
	if (!ep->file)
		return true;
	if (ep->file[0] == '!')
		return !glob_match(ep->file + 1, path);
	return glob_match(ep->file, path);
}

static bool reads_memory(const struct expression *x)
{
	for (size_t i = 0; i < x->nodes.n; i++)
		if (x->nodes.at[i].kind == EXPR_LOAD || x->nodes.at[i].kind == EXPR_VAR ||
		    x->nodes.at[i].kind >= EXPR_ARROW)
			return true;
	for (size_t i = 0; i < x->tests.n; i++)
		if (x->tests.at[i].is_text)
			return true;
	return false;
}

unsigned int endpoint_needs(const struct endpoint *ep)
{
	unsigned int need = 0;

	if (ep->has_end)
		need |= ENDPOINT_NEEDS_END;
	if (ep->leave == LEAVE_URETPROBE)
		need |= ENDPOINT_NEEDS_URETPROBE;
	if (ep->name.n || ep->leave_name.n || ep->condition)
		need |= ENDPOINT_NEEDS_NAMES;
	if (ep->leave_name.n || (ep->end_condition && reads_memory(ep->end_condition)))
		need |= ENDPOINT_NEEDS_END_READS;
	return need;
}

bool endpoint_has_name(const struct endpoint *ep)
{
	return ep->name.n || ep->leave_name.n;
}

bool endpoint_has_condition(const struct endpoint *ep)
{
	return ep->condition;
}
