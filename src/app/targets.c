/* SPDX-License-Identifier: Apache-2.0 */
#include "app/targets.h"

#include <errno.h>
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

static int parse_target(struct target *t, struct errmsg *e)
{
	int r = parse_endpoint(t->spec, &t->parsed, e);

	if (!r && t->name)
		r = endpoint_set_display(t->parsed, t->name);
	if (r)
		return r;
	t->names = (struct gate_endpoint){.spec = endpoint_text(t->parsed),
					  .display = endpoint_display(t->parsed),
					  .has_name = endpoint_has_name(t->parsed)};
	return 0;
}

static int add_target(struct target_list *list, const struct rules_service *s, const char *spec,
		      const char *name, struct errmsg *e)
{
	struct target t = {.rule = s, .slot = SLOT_NONE};
	struct errmsg why = {};
	int r;

	t.spec = strdup(spec);
	t.name = name && name[0] ? strdup(name) : NULL;
	r = t.spec ? parse_target(&t, &why) : -ENOMEM;
	if (!r)
		r = vec_push(list, t);
	if (!r)
		return 0;
	free(t.spec);
	free(t.name);
	endpoint_free(t.parsed);
	return errmsg_set(e, r, "service '%.64s': %.600s", s->name,
			  why.text[0] ? why.text : "out of memory");
}

static int add_preset(struct target_list *list, const struct rules_service *s,
		      const struct rules_endpoint *ep, struct presets **presets, struct errmsg *e)
{
	const struct preset *preset;
	struct errmsg why = {};
	int r = *presets ? 0 : presets_open(presets, NULL, &why);

	if (!r)
		r = presets_find(*presets, ep->preset, &preset, &why);
	if (r)
		return errmsg_set(e, r, "service '%.64s': %.600s", s->name, why.text);
	for (size_t i = 0; !r && i < preset->endpoints.n; i++)
		r = add_target(list, s, preset->endpoints.at[i], ep->name, e);
	return r;
}

int targets_of_rules(const struct rules *rules, struct target_list *list, struct errmsg *e)
{
	struct presets *presets = NULL;
	int r = 0;

	for (unsigned int i = 0; !r && i < rules->n_services; i++) {
		const struct rules_service *s = &rules->services[i];

		for (unsigned int k = 0; !r && k < s->n_endpoints; k++) {
			const struct rules_endpoint *ep = &s->endpoints[k];

			r = ep->preset && ep->preset[0]
				    ? add_preset(list, s, ep, &presets, e)
				    : add_target(list, s, ep->spec, ep->name, e);
		}
	}
	presets_free(presets);
	if (r) {
		targets_free(list->at, list->n);
		*list = (struct target_list){};
	}
	return r;
}
