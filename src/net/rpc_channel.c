/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_channel.c: one channel at a time, to one of several addresses.
 *
 * SkyWalking's servers allow HTTP/2 pings only every five minutes and only with a call under way;
 * more of them end the connection. A dead peer is found by the deadline of a call instead, and
 * rpc_channel_next() then makes a new connection even when there is only one address.
 */
#include "net/rpc_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"

enum { PEM_BYTES_MAX = 1 << 20, PING_MS = 300000, BACKOFF_MIN_MS = 1000, BACKOFF_MAX_MS = 30000 };

struct rpc_channel {
	char **addresses; /* owned, and each of them */
	size_t n_addresses;
	size_t current;
	char *server_name; /* owned */
	size_t max_answer_bytes;
	bool tls;
	char *ca, *cert, *key; /* owned, PEM; NULL: none */
	grpc_channel_credentials *credentials;
	grpc_channel *core;
};

static int read_pem(const char *path, const char *what, char **ret, struct errmsg *e)
{
	size_t n;
	int r;

	if (!path)
		return 0;
	r = read_file(AT_FDCWD, path, PEM_BYTES_MAX, ret, &n);
	if (r)
		return errmsg_set(e, r, "cannot read the backend's %s \"%s\": %s", what, path,
				  strerror(-r));
	if (!strstr(*ret, "-----BEGIN "))
		return errmsg_set(e, -EINVAL, "the backend's %s \"%s\" is not in PEM form", what,
				  path);
	return 0;
}

static int read_files(struct rpc_channel *c, const struct rpc_options *o, struct errmsg *e)
{
	int r;

	if (!o->tls)
		return 0;
	if (!o->cert_file != !o->key_file)
		return errmsg_set(e, -EINVAL,
				  "the backend needs both a certificate and its key, or neither");
	r = read_pem(o->ca_file, "CA file", &c->ca, e);
	if (!r)
		r = read_pem(o->cert_file, "certificate", &c->cert, e);
	if (!r)
		r = read_pem(o->key_file, "key", &c->key, e);
	return r;
}

static int make_credentials(struct rpc_channel *c)
{
	grpc_ssl_pem_key_cert_pair pair = {.private_key = c->key, .cert_chain = c->cert};

	c->credentials =
		c->tls ? grpc_ssl_credentials_create(c->ca, c->cert ? &pair : NULL, NULL, NULL)
		       : grpc_insecure_credentials_create();
	return c->credentials ? 0 : -EINVAL;
}

static grpc_arg int_arg(const char *key, int value)
{
	return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

static void connect_current(struct rpc_channel *c)
{
	grpc_arg args[] = {
		int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PING_MS),
		int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0),
		int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)c->max_answer_bytes),
		int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, BACKOFF_MIN_MS),
		int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, BACKOFF_MAX_MS),
		/* A new channel is a new connection. */
		int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
		int_arg(GRPC_ARG_ENABLE_RETRIES, 0),
		int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
		{.type = GRPC_ARG_STRING,
		 .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
		 .value.string = c->server_name},
	};
	grpc_channel_args list = {.num_args = ARRAY_SIZE(args) - !c->server_name, .args = args};

	c->core = grpc_channel_create(c->addresses[c->current], c->credentials, &list);
}

int rpc_channel_new(struct rpc_channel **ret, const struct rpc_options *o, size_t max_answer_bytes,
		    struct errmsg *e)
{
	struct rpc_channel *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->max_answer_bytes = max_answer_bytes;
	c->tls = o->tls;
	c->addresses = calloc(o->n_addresses ? o->n_addresses : 1, sizeof(void *));
	r = c->addresses ? 0 : -ENOMEM;
	for (; !r && c->n_addresses < o->n_addresses; c->n_addresses++) {
		c->addresses[c->n_addresses] = strdup(o->addresses[c->n_addresses]);
		if (!c->addresses[c->n_addresses])
			r = -ENOMEM;
	}
	if (!r && o->server_name && !(c->server_name = strdup(o->server_name)))
		r = -ENOMEM;
	if (!r && !c->n_addresses)
		r = errmsg_set(e, -EINVAL, "the backend has no address; give \"host:port\"");
	if (!r)
		r = read_files(c, o, e);
	if (r) {
		rpc_channel_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

int rpc_channel_open(struct rpc_channel *c)
{
	int r = make_credentials(c);

	if (!r)
		connect_current(c);
	return r;
}

struct rpc_channel *rpc_channel_free(struct rpc_channel *c)
{
	if (!c)
		return NULL;
	if (c->core)
		grpc_channel_destroy(c->core);
	if (c->credentials)
		grpc_channel_credentials_release(c->credentials);
	for (size_t i = 0; c->addresses && i < c->n_addresses; i++)
		free(c->addresses[i]);
	free((void *)c->addresses);
	free(c->server_name);
	free(c->ca);
	free(c->cert);
	if (c->key)
		explicit_bzero(c->key, strlen(c->key));
	free(c->key);
	free(c);
	return NULL;
}

grpc_call *rpc_channel_call(struct rpc_channel *c, grpc_completion_queue *queue, const char *path,
			    uint64_t timeout_ns)
{
	gpr_timespec deadline =
		gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
			     gpr_time_from_nanos((int64_t)timeout_ns, GPR_TIMESPAN));

	return grpc_channel_create_call(c->core, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
					grpc_slice_from_static_string(path), NULL, deadline, NULL);
}

void rpc_channel_next(struct rpc_channel *c)
{
	grpc_channel_destroy(c->core);
	c->current = (c->current + 1) % c->n_addresses;
	connect_current(c);
}

const char *rpc_channel_address(const struct rpc_channel *c)
{
	return c->addresses[c->current];
}
