/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h: the rules file of the agent: which processes are which service, what may be profiled
 * there, by whom, and within which limits. docs/agent.md is the user's reference.
 *
 * Loading is pure but for reading the file. A file is taken as a whole or not at all: rules that
 * were loaded are consistent. Texts are owned by the rules; "" and NULL both mean "not given".
 */
#ifndef SPANPROF_TASK_RULES_H
#define SPANPROF_TASK_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "model/task.h"
#include "task/backend.h"
#include "task/facts.h"

enum { RULES_ENV_MAX = 256 }; /* bytes of a variable's name in `match` */

enum rules_group {
	RULES_GROUP_TREE,    /* a process and its matching descendants are one instance */
	RULES_GROUP_PROCESS, /* every process is one */
};

/* One alternative of a service's `match`: all that is given must hold. */
struct rules_match {
	char *exe;     /* glob of /proc/PID/exe */
	char *cmdline; /* glob of the arguments joined by spaces */
	char *cgroup;  /* glob of the cgroup's path, or the begin of a container's id */
	char *pid_text;
	char *user; /* name or number */
	char **env; /* "NAME" (is set) or "NAME=glob" */
	unsigned int n_env;
	pid_t pid; /* 0: any */
	uid_t uid;
	bool has_uid;
};

struct rules_endpoint {
	char *spec;
	char *preset;
	char *name;        /* display name: what tasks may call it */
	unsigned int line; /* in the file: for messages */
};

struct rules_service {
	char *name; /* template */
	struct rules_match *matches;
	unsigned int n_matches;
	char *instance; /* template */
	enum rules_group group;
	char *layer;
	struct instance_property *properties;
	unsigned int n_properties;
	struct rules_endpoint *endpoints;
	unsigned int n_endpoints;
	char **allow; /* instances that accept tasks: names or globs; none: all */
	unsigned int n_allow;
	char **deny; /* wins over allow */
	unsigned int n_deny;
	unsigned int name_needs, instance_needs; /* enum template_needs */
};

/* A task of the rules file. */
struct rules_task {
	char *name;
	char *service;
	char *instance;
	char *endpoint;
	char *threshold;
	char *period;
	char *duration;
	char *spans;
	char *parallel;
	char *start;
	bool from_start;
	bool end_by_count;
	struct task task; /* from the above; its id changes when one of its values does */
};

struct rules_backend {
	char *name;
	char *kind;
	char **addresses;
	unsigned int n_addresses;
	bool tls;
	char *ca_file;
	char *cert_file;
	char *key_file;
	char *server_name;
	char *token;
	char *token_file;
	char *poll;
	char *heartbeat;
	char *timeout;
	char *spool;
	char *spool_file;
	char *spool_file_size;
	struct backend_config config; /* from the above; its texts are the ones above */
};

struct rules_agent {
	char *socket;
	char *socket_mode;
	char **socket_users;
	unsigned int n_socket_users;
	char *store;
	char *store_size;
	char *store_age;
	char *scan_interval;
	bool bpf_stats;
	unsigned int mode;
	uid_t *uids; /* owned; besides root and the agent's own */
	uint64_t store_bytes;
	uint64_t store_age_ms;
	uint64_t scan_ns;
	unsigned int store_line; /* in the file: for messages */
};

struct rules_limits {
	char *tasks;
	char *queued;
	char *parallel;
	char *snapshots;
	char *instances;
	char *memory;
	char *debug_info;
	char *cpu;
	char *overhead;
	uint32_t max_running;
	uint32_t max_tasks;
	uint32_t max_parallel;
	uint32_t max_snapshots; /* of one span */
	uint32_t max_instances;
	uint64_t memory_bytes; /* of the whole agent */
	uint64_t debug_bytes;  /* of that, for debug information */
	uint32_t cpu_permille; /* of the whole machine; 0: no budget */
	uint32_t overhead_ppm; /* of the CPU time of what is profiled; 0: no limit */
};

struct rules {
	struct rules_agent agent;
	struct rules_limits limits;
	struct rules_service *services;
	unsigned int n_services;
	struct rules_task *tasks;
	unsigned int n_tasks;
	struct rules_backend *backends;
	unsigned int n_backends;
	unsigned int facts; /* enum facts_part that matching may ask for */
	char *file;         /* for messages */
};

/* -EINVAL and the message "FILE:LINE: KEY: what is wrong, what is allowed". */
int rules_load(const char *path, struct rules **ret, struct errmsg *e);
/* The same for a text; `path` is for messages. Pure, fuzzed. */
int parse_rules(const char *text, size_t bytes, const char *path, struct rules **ret,
		struct errmsg *e);
struct rules *rules_free(struct rules *r);

/* The first service that the process belongs to; NULL. Asks for facts that are not there yet. */
const struct rules_service *rules_match_process(const struct rules *r, int proc_fd,
						struct facts *f);
/*
 * The same for a process that is known to run the program of one that belongs to the service, when its
 * title (cmdline) is left out of account.
 */
bool rules_match_untitled(const struct rules_service *s, int proc_fd, struct facts *f);
/* Whether no process that runs this program can belong to a service, whatever else holds of it. */
bool rules_rule_out_exe(const struct rules *r, const char *exe);
/*
 * The variables (names, not values) that a process has when it belongs to a service although its program
 * is ruled out; their number, at most max. -ENOENT: it may have none of them; -E2BIG: they are more.
 */
int rules_env_names(const struct rules *r, char (*ret_names)[RULES_ENV_MAX], size_t max);
/* Whether this instance of the service accepts tasks. */
bool rules_accepts(const struct rules_service *s, const char *instance);

#endif
