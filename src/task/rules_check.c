/* SPDX-License-Identifier: Apache-2.0 */
#include "task/rules_check.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/units.h"
#include "task/task.h"
#include "task/template.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_S  (1000 * NS_PER_MS)
#define DAY_NS    (86400 * NS_PER_S)

enum { PATH_BYTES = 128, KEY_BYTES = PATH_BYTES + 64 };

struct check {
	struct rules *rules;
	const char *file;
	const struct yamlpos *pos;
	struct errmsg *e;
	char at[PATH_BYTES]; /* "services[0]." */
};

static int __attribute__((format(printf, 3, 4)))
complain(struct check *c, const char *key, const char *format, ...)
{
	char path[KEY_BYTES], text[512];
	va_list ap;

	snprintf(path, sizeof(path), "%s%s", c->at, key);
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return errmsg_set(c->e, -EINVAL, "%s:%u: %s: %s", c->file, yamlpos_line(c->pos, path), path,
			  text);
}

static bool given(const char *text)
{
	return text && text[0];
}

static int check_duration(struct check *c, const char *key, const char *text, uint64_t fallback,
			  uint64_t *ret)
{
	*ret = fallback;
	if (given(text) && parse_duration(text, ret))
		return complain(c, key,
				"'%.64s' is not a duration; write for example 10ms, 2s, 5m, 1h, 7d",
				text);
	return 0;
}

static int check_size(struct check *c, const char *key, const char *text, uint64_t fallback,
		      uint64_t *ret)
{
	*ret = fallback;
	if (given(text) && parse_size(text, ret))
		return complain(c, key, "'%.64s' is not a size; write for example 512K, 64M, 1G",
				text);
	return 0;
}

static int check_count(struct check *c, const char *key, const char *text, uint32_t fallback,
		       uint32_t *ret)
{
	uint64_t v = fallback;

	if (given(text) && parse_u64(text, 1000000000, &v))
		return complain(c, key,
				"'%.64s' is not a count; write a number from 0 to 1000000000",
				text);
	*ret = v;
	return 0;
}

/* ---- services ---- */

static int check_user(struct check *c, const char *key, const char *text, uid_t *ret)
{
	struct passwd entry, *found = NULL;
	char buf[4096];
	uint64_t number;

	if (!parse_u64(text, UINT32_MAX - 1, &number)) {
		*ret = number;
		return 0;
	}
	if (getpwnam_r(text, &entry, buf, sizeof(buf), &found) || !found)
		return complain(c, key,
				"there is no user '%.64s' on this host; give a name or a number",
				text);
	*ret = found->pw_uid;
	return 0;
}

static int check_match(struct check *c, struct rules_match *m, unsigned int *facts)
{
	uint64_t pid;
	int r;

	if (!given(m->exe) && !given(m->cmdline) && !given(m->cgroup) && !given(m->pid_text) &&
	    !given(m->user) && !m->n_env)
		return complain(
			c, "exe",
			"an entry of 'match' needs at least one of exe, cmdline, cgroup, pid, user, env");
	*facts |= FACTS_EXE;
	*facts |= given(m->cmdline) ? FACTS_CMDLINE : 0;
	*facts |= given(m->cgroup) ? FACTS_CGROUP : 0;
	*facts |= m->n_env ? FACTS_ENVIRON : 0;
	if (given(m->pid_text)) {
		if (parse_u64(m->pid_text, INT32_MAX, &pid) || !pid)
			return complain(c, "pid", "'%.64s' is not a process id", m->pid_text);
		m->pid = pid;
	}
	if (given(m->user)) {
		r = check_user(c, "user", m->user, &m->uid);
		if (r)
			return r;
		m->has_uid = true;
	}
	for (unsigned int i = 0; i < m->n_env; i++)
		if (m->env[i][0] == '=')
			return complain(c, "env", "'%.64s' has no name; write NAME or NAME=pattern",
					m->env[i]);
	return 0;
}

static int check_templates(struct check *c, struct rules_service *s, unsigned int *facts)
{
	struct errmsg why = {};
	unsigned int needs;

	if (template_check(s->name, &s->name_needs, &why))
		return complain(c, "name", "%s", why.text);
	if (s->name_needs & TEMPLATE_NEEDS_PID)
		return complain(
			c, "name",
			"a service's name cannot contain {pid}: every process would be a service of its own");
	if (!given(s->instance)) {
		free(s->instance);
		s->instance = strdup("{pid}@{hostname}");
		if (!s->instance)
			return -ENOMEM;
	}
	if (template_check(s->instance, &s->instance_needs, &why))
		return complain(c, "instance", "%s", why.text);
	needs = s->name_needs | s->instance_needs;
	*facts |= needs & TEMPLATE_NEEDS_CGROUP ? FACTS_CGROUP : 0;
	*facts |= needs & TEMPLATE_NEEDS_ENV ? FACTS_ENVIRON : 0;
	return 0;
}

static const char *at_key(const struct check *c, const char *key, char path[KEY_BYTES])
{
	snprintf(path, KEY_BYTES, "%s%s", c->at, key);
	return path;
}

static int check_service(struct check *c, struct rules_service *s, unsigned int idx)
{
	char path[KEY_BYTES];
	int r;

	snprintf(c->at, sizeof(c->at), "services[%u].", idx);
	r = check_templates(c, s, &c->rules->facts);
	if (r)
		return r;
	for (const char *p = s->layer; p && *p; p++)
		if (!isupper((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '_')
			return complain(
				c, "layer",
				"'%.64s' is not a SkyWalking layer; they look like GENERAL, OS_LINUX, K8S_SERVICE",
				s->layer);
	for (unsigned int i = 0; i < s->n_matches; i++) {
		snprintf(c->at, sizeof(c->at), "services[%u].match[%u].", idx, i);
		r = check_match(c, &s->matches[i], &c->rules->facts);
		if (r)
			return r;
	}
	for (unsigned int i = 0; i < s->n_endpoints; i++) {
		snprintf(c->at, sizeof(c->at), "services[%u].endpoints[%u].", idx, i);
		s->endpoints[i].line = yamlpos_line(c->pos, given(s->endpoints[i].preset)
								    ? at_key(c, "preset", path)
								    : at_key(c, "spec", path));
		if (given(s->endpoints[i].spec) == given(s->endpoints[i].preset))
			return complain(
				c, "spec",
				"an endpoint needs either 'spec' or 'preset'; see `spanprof probes` and `spanprof presets`");
	}
	return 0;
}

/* ---- tasks ---- */

/* Epoch milliseconds, or "2026-01-31T12:00:00Z". */
static int check_start(struct check *c, const char *text, int64_t *ret)
{
	struct tm tm = {};
	uint64_t ms;
	const char *rest;

	if (!given(text))
		return 0;
	if (!parse_u64(text, INT64_MAX / 2, &ms)) {
		*ret = ms;
		return 0;
	}
	rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!rest || strcmp(rest, "Z"))
		return complain(
			c, "start",
			"'%.64s' is not a time; write 2026-01-31T12:00:00Z (UTC) or milliseconds since 1970",
			text);
	*ret = (int64_t)timegm(&tm) * 1000;
	return 0;
}

static int copy_name(struct check *c, const char *key, const char *text, char *to, size_t n)
{
	if (text && strlen(text) >= n)
		return complain(c, key, "it is longer than %zu bytes", n - 1);
	snprintf(to, n, "%s", text ? text : "");
	return 0;
}

static int check_task_service(struct check *c, const struct rules_task *t)
{
	char names[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < c->rules->n_services; i++) {
		const struct rules_service *s = &c->rules->services[i];

		/* A name made from a template is known only when a process is there. */
		if (!strcmp(s->name, t->service) || strchr(s->name, '{'))
			return 0;
		if (used < sizeof(names))
			used += snprintf(names + used, sizeof(names) - used, "%s%s",
					 used ? ", " : "", s->name);
	}
	return complain(c, "service", "there is no service '%.64s' in this file; there are: %s",
			t->service, names);
}

static int check_task_values(struct check *c, struct rules_task *t)
{
	struct task *to = &t->task;
	int r;

	r = copy_name(c, "service", t->service, to->service, sizeof(to->service));
	if (!r)
		r = copy_name(c, "instance", t->instance, to->instance, sizeof(to->instance));
	if (!r)
		r = copy_name(c, "endpoint", given(t->endpoint) ? t->endpoint : "*", to->endpoint,
			      sizeof(to->endpoint));
	if (!r)
		r = check_duration(c, "threshold", t->threshold, 100 * NS_PER_MS,
				   &to->threshold_ns);
	if (!r)
		r = check_duration(c, "period", t->period, 10 * NS_PER_MS, &to->period_ns);
	if (!r)
		r = check_duration(c, "duration", t->duration, 0, &to->duration_ns);
	if (!r)
		r = check_count(c, "spans", t->spans, 0, &to->max_spans);
	if (!r)
		r = check_count(c, "parallel", t->parallel, 0, &to->max_parallel);
	if (!r)
		r = check_start(c, t->start, &to->start_ms);
	to->from_start = t->from_start;
	to->end_by_count = t->end_by_count;
	return r;
}

/* The id changes with the values: an edited task is a new one, an untouched one never runs twice. */
static void make_task_id(struct rules_task *t)
{
	struct task *to = &t->task;
	char text[2048];
	int n = snprintf(text, sizeof(text),
			 "%s|%s|%s|%" PRIu64 "|%" PRIu64 "|%" PRIu64 "|%u|%u|%" PRId64 "|%d|%d",
			 to->service, to->instance, to->endpoint, to->threshold_ns, to->period_ns,
			 to->duration_ns, to->max_spans, to->max_parallel, to->start_ms,
			 to->from_start, to->end_by_count);

	snprintf(
		to->id, sizeof(to->id), "%.200s-%08x", t->name,
		(uint32_t)hash_bytes(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text), 1));
	snprintf(to->source, sizeof(to->source), "rules");
}

static int check_task(struct check *c, struct rules_task *t, unsigned int idx)
{
	struct errmsg why = {};
	int r;

	snprintf(c->at, sizeof(c->at), "tasks[%u].", idx);
	for (unsigned int i = 0; i < idx; i++)
		if (!strcmp(c->rules->tasks[i].name, t->name))
			return complain(c, "name", "another task has the name '%.64s'", t->name);
	r = check_task_service(c, t);
	if (!r)
		r = check_task_values(c, t);
	if (r)
		return r;
	make_task_id(t);
	if (task_check(&t->task, TASK_LIMITS_LOCAL, &why))
		return complain(c, "name", "%s", why.text);
	return 0;
}

/* ---- backends ---- */

static int check_address(struct check *c, const char *address)
{
	const char *colon = strrchr(address, ':');
	uint64_t port;

	if (!colon || colon == address || parse_u64(colon + 1, 65535, &port) || !port)
		return complain(c, "addresses", "'%.128s' is not host:port, for example oap:11800",
				address);
	return 0;
}

static int check_backend_texts(struct check *c, const struct rules_backend *b, unsigned int idx)
{
	static const char *const taken[] = {"rules", "control", "store"};

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (!strcmp(b->name, taken[i]))
			return complain(
				c, "name",
				"'%s' is the name of a part of the agent; choose another one",
				b->name);
	if (strlen(b->name) >= TASK_SOURCE_MAX)
		return complain(c, "name", "it is longer than %d bytes", TASK_SOURCE_MAX - 1);
	for (unsigned int i = 0; i < idx; i++)
		if (!strcmp(c->rules->backends[i].name, b->name))
			return complain(c, "name", "another backend has the name '%.64s'", b->name);
	if (strcmp(b->kind, "skywalking"))
		return complain(c, "kind", "'%.64s' is not known; there is: skywalking", b->kind);
	if (!b->n_addresses)
		return complain(c, "addresses", "at least one host:port is needed");
	if (given(b->cert_file) != given(b->key_file))
		return complain(c, "cert_file",
				"cert_file and key_file belong together: give both or none");
	if (!b->tls && (given(b->ca_file) || given(b->cert_file) || given(b->server_name)))
		return complain(c, "tls", "ca_file, cert_file and server_name need 'tls: true'");
	if (given(b->token) && given(b->token_file))
		return complain(c, "token", "give either token or token_file");
	return 0;
}

static const char *or_null(const char *text)
{
	return given(text) ? text : NULL;
}

static int check_backend(struct check *c, struct rules_backend *b, unsigned int idx)
{
	struct backend_config *to = &b->config;
	int r;

	snprintf(c->at, sizeof(c->at), "backends[%u].", idx);
	r = check_backend_texts(c, b, idx);
	for (unsigned int i = 0; !r && i < b->n_addresses; i++)
		r = check_address(c, b->addresses[i]);
	if (!r)
		r = check_duration(c, "poll", b->poll, 20 * NS_PER_S, &to->poll_ns);
	if (!r)
		r = check_duration(c, "heartbeat", b->heartbeat, 30 * NS_PER_S, &to->heartbeat_ns);
	if (!r)
		r = check_duration(c, "timeout", b->timeout, 30 * NS_PER_S, &to->timeout_ns);
	if (!r)
		r = check_size(c, "spool", b->spool, 8 << 20, &to->spool_bytes);
	if (!r)
		r = check_size(c, "spool_file_size", b->spool_file_size, 64 << 20,
			       &to->spool_file_bytes);
	if (r)
		return r;
	if (to->poll_ns < 100 * NS_PER_MS || to->heartbeat_ns < 100 * NS_PER_MS)
		return complain(c, "poll", "poll and heartbeat must be at least 100ms");
	if (to->timeout_ns < 100 * NS_PER_MS || to->timeout_ns > 3600 * NS_PER_S)
		return complain(c, "timeout", "must be from 100ms to 1h");
	to->name = b->name;
	to->kind = b->kind;
	to->addresses = (const char *const *)b->addresses;
	to->n_addresses = b->n_addresses;
	to->tls = b->tls;
	to->ca_file = or_null(b->ca_file);
	to->cert_file = or_null(b->cert_file);
	to->key_file = or_null(b->key_file);
	to->server_name = or_null(b->server_name);
	to->token = or_null(b->token);
	to->token_file = or_null(b->token_file);
	to->spool_file = or_null(b->spool_file);
	return 0;
}

/* ---- the agent itself ---- */

static int check_agent(struct check *c, struct rules_agent *a)
{
	uint64_t age_ns;
	char *end;
	int r;

	snprintf(c->at, sizeof(c->at), "agent.");
	a->store_line = yamlpos_line(c->pos, "agent.store");
	a->mode = 0600;
	if (given(a->socket_mode)) {
		a->mode = strtoul(a->socket_mode, &end, 8);
		if (*end || a->mode > 0777)
			return complain(c, "socket_mode",
					"'%.64s' is not a file mode, for example \"0660\"",
					a->socket_mode);
	}
	a->uids = calloc(a->n_socket_users + 1, sizeof(a->uids[0]));
	if (!a->uids)
		return -ENOMEM;
	for (unsigned int i = 0; i < a->n_socket_users; i++) {
		r = check_user(c, "socket_users", a->socket_users[i], &a->uids[i]);
		if (r)
			return r;
	}
	r = check_size(c, "store_size", a->store_size, 256 << 20, &a->store_bytes);
	if (!r)
		r = check_duration(c, "store_age", a->store_age, 7 * DAY_NS, &age_ns);
	if (!r)
		r = check_duration(c, "scan_interval", a->scan_interval, 10 * NS_PER_S,
				   &a->scan_ns);
	if (r)
		return r;
	a->store_age_ms = age_ns / NS_PER_MS;
	if (a->store_bytes < 1 << 20)
		return complain(c, "store_size", "at least 1M");
	if (a->scan_ns < 50 * NS_PER_MS || a->scan_ns > 3600 * NS_PER_S)
		return complain(c, "scan_interval", "must be from 50ms to 1h");
	return 0;
}

/* "1%", "0.5%": of the whole machine. */
static int check_cpu(struct check *c, const char *text, uint32_t *ret_permille)
{
	char *end;
	double v;

	*ret_permille = 0;
	if (!given(text))
		return 0;
	v = strtod(text, &end);
	if (end == text || strcmp(end, "%") || !(v >= 0.1 && v <= 100))
		return complain(c, "cpu",
				"'%.64s' is not a share of the machine; write 0.1%% to 100%%",
				text);
	*ret_permille = (uint32_t)(v * 10 + 0.5);
	return 0;
}

/* As --max-overhead. */
static int check_overhead(struct check *c, const char *text, uint32_t *ret_ppm)
{
	*ret_ppm = 0;
	if (!given(text))
		return 0;
	if (!strchr(text, '%') || parse_percent(text, ret_ppm) || !*ret_ppm)
		return complain(
			c, "overhead",
			"'%.64s' is not a share of the CPU time of what is profiled; write 0.01%% to 100%%",
			text);
	return 0;
}

static int check_limits(struct check *c, struct rules_limits *l)
{
	int r;

	snprintf(c->at, sizeof(c->at), "limits.");
	r = check_count(c, "tasks", l->tasks, 16, &l->max_running);
	if (!r)
		r = check_count(c, "queued", l->queued, 256, &l->max_tasks);
	if (!r)
		r = check_count(c, "parallel", l->parallel, 5, &l->max_parallel);
	if (!r)
		r = check_count(c, "snapshots", l->snapshots, 65536, &l->max_snapshots);
	if (!r)
		r = check_count(c, "instances", l->instances, 1024, &l->max_instances);
	if (!r)
		r = check_size(c, "memory", l->memory, 64 << 20, &l->memory_bytes);
	if (!r)
		r = check_size(c, "debug_info", l->debug_info, 4 << 20, &l->debug_bytes);
	if (!r)
		r = check_cpu(c, l->cpu, &l->cpu_permille);
	if (!r)
		r = check_overhead(c, l->overhead, &l->overhead_ppm);
	if (r)
		return r;
	if (!l->max_running || !l->max_tasks || !l->max_instances || !l->max_snapshots)
		return complain(c, "tasks",
				"tasks, queued, snapshots and instances must be at least 1");
	if (l->memory_bytes < 16 << 20)
		return complain(c, "memory", "at least 16M");
	if (l->debug_bytes < 1 << 20 || l->debug_bytes > l->memory_bytes)
		return complain(c, "debug_info", "from 1M to limits.memory");
	return 0;
}

int rules_check(struct rules *rules, const char *file, const struct yamlpos *pos, struct errmsg *e)
{
	struct check c = {.rules = rules, .file = file, .pos = pos, .e = e};
	int r = check_agent(&c, &rules->agent);

	rules->file = strdup(file);
	if (!rules->file)
		r = -ENOMEM;
	if (!r)
		r = check_limits(&c, &rules->limits);
	for (unsigned int i = 0; !r && i < rules->n_services; i++)
		r = check_service(&c, &rules->services[i], i);
	for (unsigned int i = 0; !r && i < rules->n_tasks; i++)
		r = check_task(&c, &rules->tasks[i], i);
	for (unsigned int i = 0; !r && i < rules->n_backends; i++)
		r = check_backend(&c, &rules->backends[i], i);
	if (r == -ENOMEM)
		errmsg_set(e, r, "%s: out of memory", file);
	return r;
}
