/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h: the settings of one backend, as the rules file gives them. Plain data; src/net makes a
 * source and a sink of it. Texts are owned by the rules and live as long as they do; NULL: not given.
 */
#ifndef SPANPROF_TASK_BACKEND_H
#define SPANPROF_TASK_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend_config {
	const char *name;             /* becomes the name of the source: "oap" */
	const char *kind;             /* "skywalking" */
	const char *const *addresses; /* "host:port", tried in turn */
	size_t n_addresses;
	bool tls;
	const char *ca_file;   /* PEM; NULL with tls: the system's roots */
	const char *cert_file; /* mTLS, both or none */
	const char *key_file;
	const char *server_name; /* expected in the certificate instead of the address's host */
	const char *token;       /* sent as "authentication" */
	const char *token_file;  /* read at the start, instead of token */
	uint64_t poll_ns;        /* between two task polls; default 20 s */
	uint64_t heartbeat_ns;   /* between two keepAlive; default 30 s */
	uint64_t timeout_ns;     /* of each call; default 30 s */
	uint64_t spool_bytes;    /* memory for spans while the backend is away; default 8 MiB */
	const char *spool_file;  /* disk behind it; NULL: none */
	uint64_t spool_file_bytes;
};

#endif
