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

static int parse_spec(struct specs *s, const struct run_options *o, const char *spec,
		      uint64_t *slots)
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
	if (s->endpoints.n == WIRE_EP_MAX) {
		endpoint_free(ep);
		log_error(
			"--endpoint: at most %d endpoints are possible, those of presets included",
			WIRE_EP_MAX);
		return EXIT_USAGE;
	}
	*slots |= 1ULL << s->endpoints.n;
	r = vec_push(&s->endpoints, ep);
	if (r) {
		endpoint_free(ep);
		return no_memory();
	}
	return 0;
}

static int add_group(struct specs *s, const char *name, struct errmsg *e)
{
	struct spec_group g = {};
	int r = presets_find(s->presets, name, &g.preset, e);

	for (size_t i = 0; !r && i < s->groups.n; i++)
		if (s->groups.at[i].preset == g.preset)
			return 0;
	return r ? r : vec_push(&s->groups, g);
}

/* A preset for a library alone is for the servers of the others. */
static int find_servers(struct specs *s, struct errmsg *e)
{
	size_t n_others = 0;
	int r = 0;

	for (size_t i = 0; i < s->groups.n; i++)
		n_others += s->groups.at[i].preset->exes.n > 0;
	for (size_t i = 0; i < s->groups.n && !r; i++)
		if (s->groups.at[i].preset->exes.n || !n_others)
			r = servers_find(s->groups.at[i].preset, &s->groups.at[i].servers, e);
	return r;
}

static int find_presets(struct specs *s, const struct run_options *o)
{
	struct errmsg e = {};
	int r = o->presets.n ? presets_open(&s->presets, o->preset_file, &e) : 0;
	bool unknown = false;

	for (size_t i = 0; i < o->presets.n && !r; i++) {
		r = add_group(s, o->presets.at[i], &e);
		unknown = r == -ENOENT;
	}
	if (!r && !o->exes.n && !o->pids.n && !o->command)
		r = find_servers(s, &e);
	if (r)
		log_error("%s", e.text[0] ? e.text : strerror(-r));
	return unknown ? EXIT_USAGE : r ? EXIT_FAILED : 0;
}

/* "nginx request" and "php-fpm request": presets do not know of each other's names. */
static int name_after_preset(struct endpoint *ep, const struct preset *preset)
{
	AUTO_FREE char *name = NULL;

	if (asprintf(&name, "%s %s", preset->name, endpoint_display(ep)) < 0 ||
	    endpoint_set_name(ep, name))
		return no_memory();
	return 0;
}

static int parse_group(struct specs *s, const struct run_options *o, struct spec_group *g)
{
	bool wanted[PRESET_VALUES_MAX] = {};
	int r = 0;

	variants_choose(g->preset, o, &g->servers, wanted);
	for (size_t i = 0; !r && i < g->preset->endpoints.n; i++) {
		if (!wanted[i])
			continue;
		r = parse_spec(s, o, g->preset->endpoints.at[i], &g->endpoints);
		if (!r && s->groups.n > 1)
			r = name_after_preset(s->endpoints.at[s->endpoints.n - 1], g->preset);
	}
	return r;
}

int specs_read(struct specs *s, const struct run_options *o)
{
	int r = find_presets(s, o);

	for (size_t i = 0; i < s->groups.n && !r; i++)
		r = parse_group(s, o, &s->groups.at[i]);
	for (size_t i = 0; i < o->endpoints.n && !r; i++)
		r = parse_spec(s, o, o->endpoints.at[i], &s->others);
	return r;
}

void specs_deinit(struct specs *s)
{
	for (size_t i = 0; i < s->endpoints.n; i++)
		endpoint_free(s->endpoints.at[i]);
	vec_free(&s->endpoints);
	for (size_t i = 0; i < s->groups.n; i++)
		servers_deinit(&s->groups.at[i].servers);
	vec_free(&s->groups);
	vec_free(&s->limits);
	presets_free(s->presets);
}

unsigned int specs_needs(const struct specs *s)
{
	unsigned int all = 0;

	for (size_t i = 0; i < s->endpoints.n; i++)
		all |= endpoint_needs(s->endpoints.at[i]);
	return all;
}

uint32_t specs_n_instances(const struct specs *s)
{
	return SPECS_ANY + (uint32_t)s->limits.n;
}

/* Those of all presets for the file, and of those that are for libraries, which it may have. */
static uint64_t wanted_in(const struct specs *s, const char *exe_path)
{
	uint64_t servers = 0, libraries = 0;

	for (size_t i = 0; i < s->groups.n; i++) {
		const struct spec_group *g = &s->groups.at[i];

		if (preset_is_for(g->preset, exe_path))
			servers |= g->endpoints;
		else if (!g->preset->exes.n)
			libraries |= g->endpoints;
	}
	return servers && s->groups.n > 1 ? servers | libraries | s->others : UINT64_MAX;
}

int specs_instance_of(struct specs *s, const char *exe_path, uint32_t *ret)
{
	uint64_t wanted = wanted_in(s, exe_path);
	uint32_t k = SPECS_ANY;
	int r = 0;

	while (k <= specs_n_instances(s) && specs_limit(s, k) != wanted)
		k++;
	if (k > specs_n_instances(s))
		r = vec_push(&s->limits, wanted);
	if (!r)
		*ret = k;
	return r;
}

uint64_t specs_limit(const struct specs *s, uint32_t instance_id)
{
	return instance_id == SPECS_ANY ? UINT64_MAX : s->limits.at[instance_id - SPECS_ANY - 1];
}
