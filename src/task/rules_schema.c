/* SPDX-License-Identifier: Apache-2.0 */
#include "task/rules_schema.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { TEXT_MAX = 4096, NAME_MAX_BYTES = 280, BACKTRACE_MAX = 12, KEY_MAX = 64 };

#define OPTIONAL (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)

#define TEXT(key, type, member) CYAML_FIELD_STRING_PTR(key, OPTIONAL, type, member, 0, TEXT_MAX)
#define NAME(key, type, member) \
	CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, NAME_MAX_BYTES)
#define LIST(key, type, member, entry, max) \
	CYAML_FIELD_SEQUENCE_COUNT(key, OPTIONAL, type, member, n_##member, entry, 0, max)
#define BOOLEAN(key, type, member) CYAML_FIELD_BOOL(key, CYAML_FLAG_OPTIONAL, type, member)

static const cyaml_schema_value_t text_entry = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 1, TEXT_MAX),
};

static const cyaml_schema_field_t match_fields[] = {
	TEXT("exe", struct rules_match, exe),
	TEXT("cmdline", struct rules_match, cmdline),
	TEXT("cgroup", struct rules_match, cgroup),
	TEXT("pid", struct rules_match, pid_text),
	TEXT("user", struct rules_match, user),
	LIST("env", struct rules_match, env, &text_entry, 16),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t match_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rules_match, match_fields),
};

static const cyaml_schema_field_t endpoint_fields[] = {
	TEXT("spec", struct rules_endpoint, spec),
	TEXT("preset", struct rules_endpoint, preset),
	TEXT("name", struct rules_endpoint, name),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t endpoint_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rules_endpoint, endpoint_fields),
};

static const cyaml_schema_field_t property_fields[] = {
	NAME("key", struct instance_property, key),
	TEXT("value", struct instance_property, value),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t property_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct instance_property, property_fields),
};

static const cyaml_strval_t groups[] = {
	{"tree", RULES_GROUP_TREE},
	{"process", RULES_GROUP_PROCESS},
};

static const cyaml_schema_field_t service_fields[] = {
	NAME("name", struct rules_service, name),
	CYAML_FIELD_SEQUENCE_COUNT("match", CYAML_FLAG_POINTER, struct rules_service, matches,
				   n_matches, &match_entry, 1, 64),
	TEXT("instance", struct rules_service, instance),
	CYAML_FIELD_ENUM("group", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct rules_service,
			 group, groups, ARRAY_SIZE(groups)),
	TEXT("layer", struct rules_service, layer),
	LIST("properties", struct rules_service, properties, &property_entry, 64),
	LIST("endpoints", struct rules_service, endpoints, &endpoint_entry, 64),
	LIST("allow", struct rules_service, allow, &text_entry, 256),
	LIST("deny", struct rules_service, deny, &text_entry, 256),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t service_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rules_service, service_fields),
};

static const cyaml_schema_field_t task_fields[] = {
	NAME("name", struct rules_task, name),
	NAME("service", struct rules_task, service),
	TEXT("instance", struct rules_task, instance),
	TEXT("endpoint", struct rules_task, endpoint),
	TEXT("threshold", struct rules_task, threshold),
	TEXT("period", struct rules_task, period),
	TEXT("duration", struct rules_task, duration),
	TEXT("spans", struct rules_task, spans),
	TEXT("parallel", struct rules_task, parallel),
	TEXT("start", struct rules_task, start),
	BOOLEAN("from_start", struct rules_task, from_start),
	BOOLEAN("end_by_count", struct rules_task, end_by_count),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t task_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rules_task, task_fields),
};

static const cyaml_schema_field_t backend_fields[] = {
	NAME("name", struct rules_backend, name),
	NAME("kind", struct rules_backend, kind),
	LIST("addresses", struct rules_backend, addresses, &text_entry, 16),
	BOOLEAN("tls", struct rules_backend, tls),
	TEXT("ca_file", struct rules_backend, ca_file),
	TEXT("cert_file", struct rules_backend, cert_file),
	TEXT("key_file", struct rules_backend, key_file),
	TEXT("server_name", struct rules_backend, server_name),
	TEXT("token", struct rules_backend, token),
	TEXT("token_file", struct rules_backend, token_file),
	TEXT("poll", struct rules_backend, poll),
	TEXT("heartbeat", struct rules_backend, heartbeat),
	TEXT("timeout", struct rules_backend, timeout),
	TEXT("spool", struct rules_backend, spool),
	TEXT("spool_file", struct rules_backend, spool_file),
	TEXT("spool_file_size", struct rules_backend, spool_file_size),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t backend_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rules_backend, backend_fields),
};

static const cyaml_schema_field_t agent_fields[] = {
	TEXT("socket", struct rules_agent, socket),
	TEXT("socket_mode", struct rules_agent, socket_mode),
	LIST("socket_users", struct rules_agent, socket_users, &text_entry, 64),
	TEXT("store", struct rules_agent, store),
	TEXT("store_size", struct rules_agent, store_size),
	TEXT("store_age", struct rules_agent, store_age),
	TEXT("scan_interval", struct rules_agent, scan_interval),
	BOOLEAN("bpf_stats", struct rules_agent, bpf_stats),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t limits_fields[] = {
	TEXT("tasks", struct rules_limits, tasks),
	TEXT("queued", struct rules_limits, queued),
	TEXT("parallel", struct rules_limits, parallel),
	TEXT("snapshots", struct rules_limits, snapshots),
	TEXT("instances", struct rules_limits, instances),
	TEXT("memory", struct rules_limits, memory),
	TEXT("debug_info", struct rules_limits, debug_info),
	TEXT("cpu", struct rules_limits, cpu),
	TEXT("overhead", struct rules_limits, overhead),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t top_fields[] = {
	CYAML_FIELD_MAPPING("agent", CYAML_FLAG_OPTIONAL, struct rules, agent, agent_fields),
	CYAML_FIELD_MAPPING("limits", CYAML_FLAG_OPTIONAL, struct rules, limits, limits_fields),
	LIST("services", struct rules, services, &service_entry, 256),
	LIST("tasks", struct rules, tasks, &task_entry, 256),
	LIST("backends", struct rules, backends, &backend_entry, 16),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t top = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct rules, top_fields),
};

/* What libcyaml says while it fails: the message, then the place from the inside to the outside. */
struct complaint {
	char text[256];
	char fields[BACKTRACE_MAX][KEY_MAX];
	int n_fields;
	unsigned int line;
	bool in_backtrace;
};

/* "  in mapping field 'KEY' (line: 3, column: 5)", "  in mapping (line: ...", "  in sequence ...". */
static void take_place(struct complaint *c, const char *text)
{
	static const char field[] = "  in mapping field '", line_is[] = "(line: ";
	const char *at = strstr(text, line_is), *key = text + strlen(field), *quote;

	if (!at)
		return;
	if (!c->line)
		c->line = (unsigned int)strtoul(at + strlen(line_is), NULL, 10);
	if (strncmp(text, field, strlen(field)) || c->n_fields >= BACKTRACE_MAX)
		return;
	quote = strchr(key, '\'');
	if (quote)
		snprintf(c->fields[c->n_fields++], KEY_MAX, "%.*s", (int)(quote - key), key);
}

static void __attribute__((format(printf, 3, 0)))
listen(cyaml_log_t level, void *ctx, const char *format, va_list ap)
{
	struct complaint *c = ctx;
	char text[512];

	if (level < CYAML_LOG_ERROR)
		return;
	vsnprintf(text, sizeof(text), format, ap);
	text[strcspn(text, "\n")] = 0;
	if (!strcmp(text, "Load: Backtrace:"))
		c->in_backtrace = true;
	else if (c->in_backtrace)
		take_place(c, !strncmp(text, "Load: ", 6) ? text + 6 : text);
	else if (!c->text[0])
		snprintf(c->text, sizeof(c->text), "%.250s",
			 !strncmp(text, "Load: ", 6) ? text + 6 : text);
}

/* The schema at the place of the complaint. */
static const cyaml_schema_value_t *schema_at(const struct complaint *c)
{
	const cyaml_schema_value_t *v = &top;

	for (int i = c->n_fields - 1; i >= 0; i--) {
		const cyaml_schema_field_t *f;

		while (v->type == CYAML_SEQUENCE)
			v = v->sequence.entry;
		if (v->type != CYAML_MAPPING)
			return v;
		for (f = v->mapping.fields; f->key && strcmp(f->key, c->fields[i]); f++)
			;
		if (!f->key)
			return v;
		v = &f->value;
	}
	return v;
}

static void list_allowed(const cyaml_schema_value_t *v, char *buf, size_t n)
{
	size_t used = 0;

	buf[0] = 0;
	while (v->type == CYAML_SEQUENCE)
		v = v->sequence.entry;
	if (v->type == CYAML_MAPPING)
		for (const cyaml_schema_field_t *f = v->mapping.fields; f->key && used < n; f++)
			used += snprintf(buf + used, n - used, "%s%s", used ? ", " : "", f->key);
	if (v->type == CYAML_ENUM)
		for (uint32_t i = 0; i < v->enumeration.count && used < n; i++)
			used += snprintf(buf + used, n - used, "%s%s", used ? ", " : "",
					 v->enumeration.strings[i].str);
}

static const char *after(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) ? NULL : text + strlen(prefix);
}

static int explain(const struct complaint *c, const char *path, const struct yamlpos *pos,
		   struct errmsg *e)
{
	const char *key = c->n_fields ? c->fields[0] : "the file", *what;
	unsigned int line = c->line ? c->line : 1;
	char allowed[512];

	list_allowed(schema_at(c), allowed, sizeof(allowed));
	what = after(c->text, "Unexpected key: ");
	if (what) {
		unsigned int at = yamlpos_find_key(pos, what, line);

		return errmsg_set(e, -EINVAL, "%s:%u: unknown key '%s'; allowed here: %s", path,
				  at ? at : line, what, allowed);
	}
	what = after(c->text, "Missing required mapping field: ");
	if (what)
		return errmsg_set(e, -EINVAL, "%s:%u: '%s' is missing; it must be given here", path,
				  line, what);
	what = after(c->text, "Mapping field already seen: ");
	if (what)
		return errmsg_set(e, -EINVAL, "%s:%u: '%s' is given twice", path, line, what);
	what = after(c->text, "Invalid ENUM value: ");
	if (what)
		return errmsg_set(e, -EINVAL, "%s:%u: %s: '%s' is not allowed; allowed: %s", path,
				  line, key, what, allowed);
	what = after(c->text, "Expecting ");
	if (what)
		return errmsg_set(e, -EINVAL, "%s:%u: %s: expected a %s here%s%s", path, line, key,
				  what, allowed[0] ? "; allowed keys: " : "", allowed);
	return errmsg_set(e, -EINVAL, "%s:%u: %s: %s", path, line, key, c->text);
}

static cyaml_config_t config_for(struct complaint *c)
{
	return (cyaml_config_t){
		.log_fn = listen, .log_ctx = c, .log_level = CYAML_LOG_ERROR, .mem_fn = cyaml_mem};
}

int rules_schema_load(const char *text, size_t bytes, const char *path, const struct yamlpos *pos,
		      struct rules **ret, struct errmsg *e)
{
	struct complaint c = {};
	cyaml_config_t config = config_for(&c);
	cyaml_data_t *data = NULL;
	cyaml_err_t r = cyaml_load_data((const uint8_t *)text, bytes, &config, &top, &data, NULL);

	if (r == CYAML_ERR_OOM)
		return errmsg_set(e, -ENOMEM, "%s: out of memory", path);
	if (r != CYAML_OK) {
		if (!c.text[0])
			snprintf(c.text, sizeof(c.text), "%s", cyaml_strerror(r));
		return explain(&c, path, pos, e);
	}
	if (!data)
		return errmsg_set(e, -EINVAL, "%s: the file is empty; it needs at least 'services'",
				  path);
	*ret = (struct rules *)data;
	return 0;
}

void rules_schema_free(struct rules *r)
{
	struct complaint c = {};
	cyaml_config_t config = config_for(&c);

	cyaml_free(&config, &top, r, 0);
}
