/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp.c: a profile as OpenTelemetry profiles, v1development: the protobuf that a collector takes at
 * /v1development/profiles.
 *
 * One resource for each process, with one profile of wall nanoseconds; a sample holds the
 * observations of one span in one stack and state, each with its time. Attributes of a sample:
 * thread.id, thread.name, spanprof.endpoint, spanprof.span.id, spanprof.state; of a profile: its
 * completeness and losses.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/formats.h"
#include "export/otlp_priv.h"
#include "export/summary.h"

enum {
	SAMPLE_ATTRIBUTES = 5,
	RESOURCE_ATTRIBUTES = 3,
	PROFILE_ID_BYTES = 16,
};

static void otlp_deinit(struct otlp *b)
{
	arena_deinit(&b->arena);
	dict_deinit(&b->dict);
	strpool_free(b->values);
	groups_deinit(&b->groups);
	vec_free(&b->processes);
	vec_free(&b->attributes);
	vec_free(&b->profile_attributes);
	hash_deinit(&b->attribute_ids);
	free(b->stack_ids);
	vec_free(&b->stacks);
}

static int fill_sample_attributes(struct otlp *b, const struct group *g, Otlp__Sample *out)
{
	const struct profile_span *span = &b->p->spans.at[g->span];
	char state[64], id[32];
	const struct {
		const char *key;
		struct otlp_value value;
	} attributes[SAMPLE_ATTRIBUTES] = {
		{"thread.id", {.number = span->tid}},
		{"thread.name", {.text = strpool_get(b->p->strings, span->comm)}},
		{"spanprof.endpoint", {.text = strpool_get(b->p->strings, span->name)}},
		{"spanprof.span.id", {.text = id}},
		{"spanprof.state", {.text = state}},
	};
	int r = 0;

	snprintf(id, sizeof(id), "%" PRIu64, span->span_id);
	snprintf(state, sizeof(state), "%s%s%s", sample_kind_name(g->kind),
		 g->cause != BLOCK_NONE ? ":" : "", block_cause_name(g->cause));
	out->attribute_indices =
		arena_alloc(&b->arena, SAMPLE_ATTRIBUTES, sizeof(*out->attribute_indices));
	if (!out->attribute_indices)
		return -ENOMEM;
	for (; out->n_attribute_indices < SAMPLE_ATTRIBUTES && !r; out->n_attribute_indices++) {
		size_t i = out->n_attribute_indices;

		r = otlp_attribute(b, attributes[i].key, &attributes[i].value,
				   &out->attribute_indices[i]);
	}
	return r;
}

static int fill_sample(struct otlp *b, const struct group *g, Otlp__Sample *out)
{
	const struct profile *p = b->p;
	int r;

	otlp__sample__init(out);
	out->values = arena_alloc(&b->arena, g->n, sizeof(*out->values));
	out->timestamps_unix_nano =
		arena_alloc(&b->arena, g->n, sizeof(*out->timestamps_unix_nano));
	if (!out->values || !out->timestamps_unix_nano)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n; i++) {
		const struct profile_sample *s = &p->samples.at[b->groups.members[g->first + i]];
		uint64_t after_ns =
			s->start_ns > p->start_mono_ns ? s->start_ns - p->start_mono_ns : 0;

		out->values[i] = s->wall_ns;
		out->timestamps_unix_nano[i] = p->start_real_ns + after_ns;
	}
	out->n_values = out->n_timestamps_unix_nano = g->n;
	r = otlp_stack(b, g->stack, &out->stack_index);
	return r ? r : fill_sample_attributes(b, g, out);
}

static uint32_t tgid_of(const struct otlp *b, const struct group *g)
{
	return b->p->spans.at[g->span].tgid;
}

static int find_processes(struct otlp *b)
{
	CLEANUP(hash_deinit) struct hash index;
	int r = 0;

	hash_init(&index);
	for (size_t i = 0; i < b->groups.at.n && !r; i++) {
		uint32_t tgid = tgid_of(b, &b->groups.at.at[i]);
		uint64_t *found = hash_get(&index, tgid);

		if (found) {
			b->processes.at[*found].n_groups++;
			continue;
		}
		r = hash_set(&index, tgid, b->processes.n);
		if (!r)
			r = vec_push(&b->processes,
				     (struct otlp_process){.tgid = tgid, .n_groups = 1});
	}
	/* Without any, the run still has its completeness to tell. */
	if (!r && !b->processes.n)
		r = vec_push(&b->processes, (struct otlp_process){});
	return r;
}

static int add_profile_attribute(struct otlp *b, const char *key, const struct otlp_value *v)
{
	int32_t idx = 0;
	int r = otlp_attribute(b, key, v, &idx);

	return r ? r : vec_push(&b->profile_attributes, idx);
}

/* As run.probed of JSON. */
static int find_turns_attributes(struct otlp *b)
{
	const struct profile_turns *t = &b->p->turns;
	const struct {
		const char *key;
		uint64_t number;
	} numbers[] = {
		{"spanprof.probed.duration_ns", t->probed_ns},
		{"spanprof.probed.turns", t->n_turns},
		{"spanprof.probed.cost_ns", t->cost_ns},
		{"spanprof.probed.cpu_ns", t->cpu_ns},
	};
	int r;

	if (!t->share_ppm)
		return 0;
	r = add_profile_attribute(
		b, "spanprof.probed.max_overhead",
		&(struct otlp_value){.is_real = true, .real = t->share_ppm / 1e6});
	for (size_t i = 0; i < ARRAY_SIZE(numbers) && !r; i++)
		r = add_profile_attribute(b, numbers[i].key,
					  &(struct otlp_value){.number = numbers[i].number});
	return r;
}

/* What is missing from the run: the same for the profile of each process. */
static int find_profile_attributes(struct otlp *b)
{
	struct summary s;
	char key[128];
	int r;

	summary_totals(&s, b->p);
	r = add_profile_attribute(
		b, "spanprof.completeness",
		&(struct otlp_value){.is_real = true, .real = summary_completeness(&s)});
	if (!r)
		r = add_profile_attribute(b, "spanprof.snapshots.due",
					  &(struct otlp_value){.number = s.n_due});
	if (!r)
		r = add_profile_attribute(b, "spanprof.snapshots.kept",
					  &(struct otlp_value){.number = s.n_kept});
	if (!r)
		r = find_turns_attributes(b);
	for (unsigned int i = 0; i < COUNTER_MAX && !r; i++) {
		if (!b->p->counters.v[i] || !counter_is_loss(i))
			continue;
		snprintf(key, sizeof(key), "spanprof.lost.%s", counter_name(i));
		r = add_profile_attribute(b, key,
					  &(struct otlp_value){.number = b->p->counters.v[i]});
	}
	return r;
}

/* Unique as far as two runs do not begin in the same nanosecond on hosts of the same name. */
static int fill_profile_id(struct otlp *b, uint32_t tgid, Otlp__Profile *out)
{
	const char *host = strpool_get(b->p->strings, b->p->hostname);
	uint64_t *id = arena_alloc(&b->arena, 1, PROFILE_ID_BYTES);

	if (!id)
		return -ENOMEM;
	id[0] = hash_bytes(host, strlen(host), b->p->start_real_ns);
	id[1] = hash_mix(id[0] ^ tgid ^ b->p->duration_ns);
	out->profile_id = (ProtobufCBinaryData){PROFILE_ID_BYTES, (uint8_t *)id};
	return 0;
}

static int fill_profile(struct otlp *b, const struct otlp_process *process, Otlp__Profile *out)
{
	const struct profile *p = b->p;
	int r;

	otlp__profile__init(out);
	out->sample_type = out->period_type = &b->wall;
	out->time_unix_nano = p->start_real_ns;
	out->duration_nano = p->duration_ns;
	for (uint32_t i = 1; i < p->endpoints.n; i++)
		if (!out->period || p->endpoints.at[i].period_ns < (uint64_t)out->period)
			out->period = p->endpoints.at[i].period_ns;
	out->n_attribute_indices = b->profile_attributes.n;
	out->attribute_indices = b->profile_attributes.at;
	r = fill_profile_id(b, process->tgid, out);
	out->samples = arena_rows(&b->arena, process->n_groups, sizeof(Otlp__Sample));
	if (!out->samples)
		return -ENOMEM;
	for (size_t i = 0; i < b->groups.at.n && !r; i++)
		if (tgid_of(b, &b->groups.at.at[i]) == process->tgid)
			r = fill_sample(b, &b->groups.at.at[i], out->samples[out->n_samples++]);
	return r;
}

static int add_resource_attribute(struct otlp *b, Otlp__Resource *out, const char *key,
				  const struct otlp_value *v)
{
	Otlp__KeyValue *kv = out->attributes[out->n_attributes++];

	otlp__key_value__init(kv);
	kv->key = (char *)key;
	kv->value = arena_alloc(&b->arena, 1, sizeof(*kv->value));
	return kv->value ? otlp_set_value(b, kv->value, v) : -ENOMEM;
}

static int fill_resource(struct otlp *b, uint32_t tgid, Otlp__Resource *out)
{
	const struct profile *p = b->p;
	int r;

	otlp__resource__init(out);
	out->attributes = arena_rows(&b->arena, RESOURCE_ATTRIBUTES, sizeof(Otlp__KeyValue));
	if (!out->attributes)
		return -ENOMEM;
	r = add_resource_attribute(
		b, out, "host.name",
		&(struct otlp_value){.text = strpool_get(p->strings, p->hostname)});
	if (!r)
		r = add_resource_attribute(
			b, out, "os.version",
			&(struct otlp_value){.text = strpool_get(p->strings, p->kernel_release)});
	if (!r && tgid)
		r = add_resource_attribute(b, out, "process.pid",
					   &(struct otlp_value){.number = tgid});
	return r;
}

static int fill_process(struct otlp *b, const struct otlp_process *process,
			Otlp__ResourceProfiles *out)
{
	Otlp__ScopeProfiles *scope;
	int r;

	otlp__resource_profiles__init(out);
	out->resource = arena_alloc(&b->arena, 1, sizeof(*out->resource));
	out->scope_profiles = arena_rows(&b->arena, 1, sizeof(*scope));
	if (!out->resource || !out->scope_profiles)
		return -ENOMEM;
	out->n_scope_profiles = 1;
	scope = out->scope_profiles[0];
	otlp__scope_profiles__init(scope);
	scope->scope = &b->scope;
	scope->profiles = arena_rows(&b->arena, 1, sizeof(Otlp__Profile));
	if (!scope->profiles)
		return -ENOMEM;
	scope->n_profiles = 1;
	r = fill_resource(b, process->tgid, out->resource);
	return r ? r : fill_profile(b, process, scope->profiles[0]);
}

/* What all profiles share. */
static int init_shared(struct otlp *b)
{
	uint32_t type = 0, unit = 0;
	int r = dict_text(&b->dict, "wall", &type);

	if (!r)
		r = dict_text(&b->dict, "nanoseconds", &unit);
	otlp__value_type__init(&b->wall);
	b->wall.type_strindex = type;
	b->wall.unit_strindex = unit;
	otlp__instrumentation_scope__init(&b->scope);
	b->scope.name = (char *)"spanprof";
	return r;
}

static int build(struct otlp *b)
{
	Otlp__ProfilesData *m = &b->message;
	int r;

	r = otlp_init_tables(b);
	if (!r)
		r = init_shared(b);
	if (!r)
		r = groups_init(&b->groups, b->p);
	if (!r)
		r = find_processes(b);
	if (!r)
		r = find_profile_attributes(b);
	if (r)
		return r;
	otlp__profiles_data__init(m);
	m->resource_profiles =
		arena_rows(&b->arena, b->processes.n, sizeof(Otlp__ResourceProfiles));
	if (!m->resource_profiles)
		return -ENOMEM;
	for (; m->n_resource_profiles < b->processes.n && !r; m->n_resource_profiles++)
		r = fill_process(b, &b->processes.at[m->n_resource_profiles],
				 m->resource_profiles[m->n_resource_profiles]);
	m->dictionary = &b->tables;
	return r ? r : otlp_fill_tables(b);
}

static int write_message(struct otlp *b, FILE *out)
{
	AUTO_FREE uint8_t *data = NULL;
	size_t bytes;
	int r = build(b);

	if (r)
		return r;
	bytes = otlp__profiles_data__get_packed_size(&b->message);
	data = malloc(bytes);
	if (!data)
		return -ENOMEM;
	otlp__profiles_data__pack(&b->message, data);
	return fwrite(data, 1, bytes, out) == bytes ? 0 : -EIO;
}

int otlp_write(const struct profile *p, const struct export_options *o, FILE *out, struct errmsg *e)
{
	CLEANUP(otlp_deinit) struct otlp b = {.p = p};
	int r = write_message(&b, out);

	if (r == -EIO)
		return errmsg_set(e, r, "cannot write the OTLP profile: write error");
	if (r)
		return errmsg_set(e, r, "cannot build the OTLP profile: %s",
				  r == -ENOSPC ? "its names take more than 256 MiB"
					       : "out of memory");
	return 0;
}
