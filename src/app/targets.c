/* SPDX-License-Identifier: Apache-2.0 */
#include "app/targets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/preset.h"

void targets_free(struct target *at, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(at[i].spec);
		free(at[i].name);
		endpoint_free(at[i].parsed);
	}
	free(at);
}

struct gate_endpoint target_names(const struct endpoint *ep)
{
	return (struct gate_endpoint){.spec = endpoint_text(ep),
				      .display = endpoint_display(ep),
				      .pattern = endpoint_pattern(ep),
				      .has_name = endpoint_has_name(ep)};
}

static int parse_target(struct target *t, struct errmsg *e)
{
	int r = parse_endpoint(t->spec, &t->parsed, e);

	if (!r && t->name)
		r = endpoint_set_name(t->parsed, t->name);
	if (r)
		return r;
	t->names = target_names(t->parsed);
	return 0;
}

static int add_target(struct target_list *list, const struct rules_service *s, const char *spec,
		      const struct rules_endpoint *from, struct errmsg *e)
{
	struct target t = {.rule = s, .from = from, .slot = SLOT_NONE};
	const char *name = from->name;
	int r;

	t.spec = strdup(spec);
	t.name = name && name[0] ? strdup(name) : NULL;
	r = t.spec ? parse_target(&t, e) : -ENOMEM;
	if (!r)
		r = vec_push(list, t);
	if (!r)
		return 0;
	free(t.spec);
	free(t.name);
	endpoint_free(t.parsed);
	return r == -ENOMEM ? errmsg_set(e, r, "out of memory") : r;
}

static int add_preset(struct target_list *list, const struct rules_service *s,
		      const struct rules_endpoint *ep, struct presets **presets, struct errmsg *e)
{
	const struct preset *preset;
	int r = *presets ? 0 : presets_open(presets, NULL, e);

	if (!r)
		r = presets_find(*presets, ep->preset, &preset, e);
	if (r)
		return r;
	for (size_t i = 0; !r && i < preset->endpoints.n; i++)
		r = add_target(list, s, preset->endpoints.at[i], ep, e);
	return r;
}

/* A specification is shown below what is wrong with it, with a mark under the place: here, in one line. */
static void join_lines(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		if (*from != '\n') {
			*to++ = *from;
			continue;
		}
		from += strspn(from + 1, " ");
		if (from[1] && from[1] != '^') {
			*to++ = ':';
			*to++ = ' ';
		} else {
			break;
		}
	}
	*to = 0;
}

static int complain(const struct rules *rules, unsigned int service, unsigned int endpoint, int r,
		    struct errmsg *why, struct errmsg *e)
{
	const struct rules_service *s = &rules->services[service];
	const struct rules_endpoint *ep = &s->endpoints[endpoint];

	join_lines(why->text);
	return errmsg_set(e, r, "%s:%u: services[%u].endpoints[%u].%s: %.600s", rules->file,
			  ep->line, service, endpoint,
			  ep->preset && ep->preset[0] ? "preset" : "spec", why->text);
}

int targets_of_rules(const struct rules *rules, struct target_list *list, struct errmsg *e)
{
	struct presets *presets = NULL;
	int r = 0;

	for (unsigned int i = 0; !r && i < rules->n_services; i++) {
		const struct rules_service *s = &rules->services[i];

		for (unsigned int k = 0; !r && k < s->n_endpoints; k++) {
			const struct rules_endpoint *ep = &s->endpoints[k];
			struct errmsg why = {};

			r = ep->preset && ep->preset[0] ? add_preset(list, s, ep, &presets, &why)
							: add_target(list, s, ep->spec, ep, &why);
			if (r)
				complain(rules, i, k, r, &why, e);
		}
	}
	presets_free(presets);
	if (r) {
		targets_free(list->at, list->n);
		*list = (struct target_list){};
	}
	return r;
}

bool targets_know(const struct target_list *list, const struct task *t, struct errmsg *e)
{
	char names[512] = "";
	size_t used = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct target *target = &list->at[i];

		if (strcmp(target->rule->name, t->service) && !strchr(target->rule->name, '{'))
			continue;
		if (gate_match(t, true, &target->names) != GATE_NO)
			return true;
		if (used < sizeof(names))
			used += snprintf(names + used, sizeof(names) - used, "%s%s",
					 used ? ", " : "", target->names.display);
	}
	errmsg_set(e, -ENOENT,
		   "service '%.64s' has no endpoint '%.100s' in the rules; there are: %s",
		   t->service, t->endpoint, names[0] ? names : "none");
	return false;
}
