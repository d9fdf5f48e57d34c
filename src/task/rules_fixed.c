/* SPDX-License-Identifier: Apache-2.0 */
#include "task/rules_fixed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value has no line break here: lines are what is compared. */
static void note_text(FILE *f, const char *at, const char *key, const char *value)
{
	fprintf(f, "%s%s=", at, key);
	for (; value && *value; value++)
		fputc(*value == '\n' ? '\r' : *value, f);
	fputc('\n', f);
}

static void note_number(FILE *f, const char *at, const char *key, uint64_t value)
{
	fprintf(f, "%s%s=%" PRIu64 "\n", at, key, value);
}

/* A new member must be noted, too, unless a reload puts it in force. */
_Static_assert(sizeof(struct backend_config) == 17 * sizeof(uint64_t), "a member is not noted");

static void note_backend(FILE *f, const struct backend_config *b, unsigned int idx)
{
	char at[32], key[32];

	snprintf(at, sizeof(at), "backends[%u].", idx);
	note_text(f, at, "name", b->name);
	note_text(f, at, "kind", b->kind);
	for (size_t i = 0; i < b->n_addresses; i++) {
		snprintf(key, sizeof(key), "addresses[%zu]", i);
		note_text(f, at, key, b->addresses[i]);
	}
	note_number(f, at, "tls", b->tls);
	note_text(f, at, "ca_file", b->ca_file);
	note_text(f, at, "cert_file", b->cert_file);
	note_text(f, at, "key_file", b->key_file);
	note_text(f, at, "server_name", b->server_name);
	note_text(f, at, "token", b->token);
	note_text(f, at, "token_file", b->token_file);
	note_number(f, at, "poll", b->poll_ns);
	note_number(f, at, "heartbeat", b->heartbeat_ns);
	note_number(f, at, "timeout", b->timeout_ns);
	note_number(f, at, "spool", b->spool_bytes);
	note_text(f, at, "spool_file", b->spool_file);
	note_number(f, at, "spool_file_size", b->spool_file_bytes);
}

int rules_fixed_note(const struct rules *rules, char **ret)
{
	const struct rules_agent *a = &rules->agent;
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return -ENOMEM;
	note_text(f, "agent.", "socket", a->socket);
	note_number(f, "agent.", "socket_mode", a->mode);
	note_text(f, "agent.", "store", a->store);
	note_number(f, "agent.", "bpf_stats", a->bpf_stats);
	note_number(f, "limits.", "snapshots", rules->limits.max_snapshots);
	note_number(f, "limits.", "debug_info", rules->limits.debug_bytes);
	for (unsigned int i = 0; i < rules->n_backends; i++)
		note_backend(f, &rules->backends[i].config, i);
	if (fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}

static bool has_line(const char *text, const char *line, size_t n)
{
	for (; *text; text = strchr(text, '\n') + 1)
		if (!strncmp(text, line, n))
			return true;
	return false;
}

static void add_key(char *ret, size_t n, const char *key, size_t n_key)
{
	size_t used = strlen(ret);

	snprintf(ret + used, n - used, "%s%.*s", used ? ", " : "", (int)n_key, key);
}

/*
 * For a line of a backend that the other text has nothing of: 1 for the first one, which stands for the
 * backend, 2 for the others; 0 for all other lines. ret_n: how much of the line names the backend.
 */
static int whole_backend(const char *line, const char *other, size_t *ret_n)
{
	static const char list[] = "backends[", first[] = ".name=";
	char name[48];
	size_t n = strcspn(line, ".");

	if (strncmp(line, list, sizeof(list) - 1) || n + sizeof(first) > sizeof(name))
		return 0;
	snprintf(name, sizeof(name), "%.*s%s", (int)n, line, first);
	if (has_line(other, name, strlen(name)))
		return 0;
	*ret_n = n;
	return strncmp(line, name, strlen(name)) ? 2 : 1;
}

/* Adds the keys of lines that the other one has not; by_key: of those whose key it has not. */
static void add_missing(const char *text, const char *other, bool by_key, char *ret, size_t n)
{
	for (const char *end; *text; text = end + 1) {
		size_t n_key = strcspn(text, "="), n_line;
		int whole = whole_backend(text, other, &n_key);

		end = strchr(text, '\n');
		n_line = by_key ? n_key + 1 : (size_t)(end + 1 - text);
		if (whole == 1 || (!whole && !has_line(other, text, n_line)))
			add_key(ret, n, text, n_key);
	}
}

void rules_fixed_compare(const char *before, const char *after, char *ret, size_t n)
{
	ret[0] = 0;
	add_missing(after, before, false, ret, n);
	/* Keys that are gone altogether: a backend, an address. */
	add_missing(before, after, true, ret, n);
}
