/* SPDX-License-Identifier: Apache-2.0 */
#include "app/specs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/variants.h"
#include "base/cleanup.h"
#include "base/log.h"

static int no_memory(void)
{
	log_error("--endpoint: %s", strerror(ENOMEM));
	return EXIT_FAILED;
}

static int parse_spec(struct specs *s, const struct run_options *o, const char *spec)
{
	AUTO_FREE char *normalized = NULL;
	struct endpoint *ep = NULL;
	struct errmsg e = {};
	int r;

	if (o->normalize && asprintf(&normalized, "%s;normalize=%s", spec, o->normalize) < 0)
		return no_memory();
	r = parse_endpoint(normalized ? normalized : spec, &ep, &e);
	if (r) {
		/* It begins with "endpoint". */
		log_error("--%s", e.text);
		return EXIT_USAGE;
	}
	r = vec_push(&s->endpoints, ep);
	if (r) {
		endpoint_free(ep);
		return no_memory();
	}
	return 0;
}

static int find_preset(struct specs *s, const struct run_options *o)
{
	struct errmsg e = {};
	int r;

	if (!o->preset)
		return 0;
	r = presets_open(&s->presets, o->preset_file, &e);
	if (!r)
		r = presets_find(s->presets, o->preset, &s->preset, &e);
	if (!r && !o->exes.n && !o->pids.n && !o->command)
		r = servers_find(s->preset, &s->servers, &e);
	if (r)
		log_error("%s", e.text[0] ? e.text : strerror(-r));
	return r ? EXIT_FAILED : 0;
}

int specs_read(struct specs *s, const struct run_options *o)
{
	bool wanted[PRESET_VALUES_MAX] = {};
	int r = find_preset(s, o);

	if (r)
		return r;
	if (s->preset)
		variants_choose(s->preset, o, &s->servers, wanted);
	for (size_t i = 0; !r && s->preset && i < s->preset->endpoints.n; i++)
		if (wanted[i])
			r = parse_spec(s, o, s->preset->endpoints.at[i]);
	for (size_t i = 0; i < o->endpoints.n && !r; i++)
		r = parse_spec(s, o, o->endpoints.at[i]);
	return r;
}

void specs_deinit(struct specs *s)
{
	for (size_t i = 0; i < s->endpoints.n; i++)
		endpoint_free(s->endpoints.at[i]);
	vec_free(&s->endpoints);
	servers_deinit(&s->servers);
	presets_free(s->presets);
}

unsigned int specs_needs(const struct specs *s)
{
	unsigned int all = 0;

	for (size_t i = 0; i < s->endpoints.n; i++)
		all |= endpoint_needs(s->endpoints.at[i]);
	return all;
}
