/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.c: calls over gRPC's C core.
 *
 * Every call has two batches of operations: one that receives (headers, answer, status) and ends the
 * call, and a chain that sends one message after the other. The low bit of a tag tells them apart.
 */
#include "net/rpc.h"

#include <assert.h>
#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "net/label.h"
#include "net/rpc_channel.h"

enum { TIMEOUT_S = 30, ANSWER_MAX = 256 << 10 };

/* What the core needs of a call under way. */
struct call_state {
	struct rpc *rpc;
	struct rpc_call *call;
	struct call_state *prev, *next; /* in rpc.running, under the lock */
	grpc_call *core;
	grpc_metadata token;
	grpc_metadata_array headers, trailers;
	grpc_byte_buffer *answer;
	grpc_status_code status;
	grpc_slice detail;
	size_t n_sent;
	bool sending;  /* a send batch is under way */
	bool received; /* the receive batch is done */
};

struct rpc {
	struct rpc_channel *channel; /* owned by the caller's thread */
	grpc_completion_queue *queue;
	char *token; /* owned */
	uint64_t timeout_ns;
	size_t max_answer_bytes;
	int event_fd;
	pthread_t thread;
	bool is_open;         /* the core and the thread are there */
	pthread_mutex_t lock; /* guards the rest */
	struct call_state *running;
	VEC(struct rpc_call *) done;
	size_t n_taken; /* of done */
	bool closing;
};

const char *rpc_status_name(int status)
{
	static const char *const names[] = {
		"OK",
		"CANCELLED",
		"UNKNOWN",
		"INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED",
		"NOT_FOUND",
		"ALREADY_EXISTS",
		"PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION",
		"ABORTED",
		"OUT_OF_RANGE",
		"UNIMPLEMENTED",
		"INTERNAL",
		"UNAVAILABLE",
		"DATA_LOSS",
		"UNAUTHENTICATED",
	};

	return status >= 0 && status < (int)ARRAY_SIZE(names) ? names[status] : "unknown status";
}

struct rpc_call *rpc_call_new(const char *path)
{
	struct rpc_call *c = calloc(1, sizeof(*c));

	if (c)
		c->path = path;
	return c;
}

struct rpc_call *rpc_call_free(struct rpc_call *c)
{
	if (!c)
		return NULL;
	vec_free(&c->messages);
	bytes_deinit(&c->body);
	bytes_deinit(&c->answer);
	free(c);
	return NULL;
}

/*
 * Threads that the core starts inherit the mask: the daemon's signals are not for them. SIGSYS tells of a
 * system call of their own that was refused; blocked, it would end the daemon.
 */
static void block_signals(sigset_t *ret_old)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, ret_old);
}

static void restore_signals(const sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void copy_slice(grpc_slice slice, char *buf, size_t n)
{
	char *text = grpc_slice_to_c_string(slice);

	label_copy(buf, n, text, n);
	gpr_free(text);
}

static void copy_answer(grpc_byte_buffer *from, size_t max_bytes, struct rpc_call *to)
{
	grpc_byte_buffer_reader reader;
	grpc_slice slice;

	if (!from || !grpc_byte_buffer_reader_init(&reader, from))
		return;
	while (grpc_byte_buffer_reader_next(&reader, &slice)) {
		size_t n = GRPC_SLICE_LENGTH(slice);

		if (n <= max_bytes - to->answer.n &&
		    vec_reserve(&to->answer, to->answer.n + n) == 0) {
			memcpy(to->answer.at + to->answer.n, GRPC_SLICE_START_PTR(slice), n);
			to->answer.n += n;
		} else if (to->status == RPC_OK) {
			to->status = RPC_RESOURCE_EXHAUSTED;
		}
		grpc_slice_unref(slice);
	}
	grpc_byte_buffer_reader_destroy(&reader);
}

static void state_free(struct call_state *s)
{
	if (s->core)
		grpc_call_unref(s->core);
	grpc_metadata_array_destroy(&s->headers);
	grpc_metadata_array_destroy(&s->trailers);
	grpc_byte_buffer_destroy(s->answer);
	grpc_slice_unref(s->detail);
	grpc_slice_unref(s->token.key);
	grpc_slice_unref(s->token.value);
	free(s);
}

/* Takes the call out of the running ones and hands it to the other side. Lock held. */
static void hand_over(struct rpc *r, struct call_state *s)
{
	uint64_t one = 1;

	if (s->prev)
		s->prev->next = s->next;
	else
		r->running = s->next;
	if (s->next)
		s->next->prev = s->prev;
	/* Room was made when the call was started. */
	r->done.at[r->done.n++] = s->call;
	(void)!write(r->event_fd, &one, sizeof(one));
}

static void finish(struct call_state *s)
{
	struct rpc *r = s->rpc;

	s->call->status = (int)s->status;
	copy_slice(s->detail, s->call->detail, sizeof(s->call->detail));
	copy_answer(s->answer, r->max_answer_bytes, s->call);
	pthread_mutex_lock(&r->lock);
	hand_over(r, s);
	pthread_mutex_unlock(&r->lock);
	state_free(s);
}

static void *send_tag(struct call_state *s)
{
	return (void *)((uintptr_t)s | 1);
}

/* The next message, or the end of the stream; with the headers before the first message. */
static bool send_next(struct call_state *s)
{
	struct rpc_call *c = s->call;
	bool first = s->n_sent == 0, last;
	grpc_byte_buffer *buffer = NULL;
	grpc_op ops[3] = {};
	grpc_op *op = ops;
	grpc_call_error error;
	grpc_slice slice;

	if (s->n_sent == c->messages.n)
		return false;
	if (first) {
		op->op = GRPC_OP_SEND_INITIAL_METADATA;
		op->data.send_initial_metadata.count = s->rpc->token ? 1 : 0;
		op->data.send_initial_metadata.metadata = &s->token;
		op++;
	}
	slice = grpc_slice_from_copied_buffer((const char *)c->messages.at[s->n_sent].at,
					      c->messages.at[s->n_sent].n);
	buffer = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	last = ++s->n_sent == c->messages.n;
	op->op = GRPC_OP_SEND_MESSAGE;
	op->flags = last ? 0 : GRPC_WRITE_BUFFER_HINT;
	op->data.send_message.send_message = buffer;
	op++;
	if (last)
		(op++)->op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
	error = grpc_call_start_batch(s->core, ops, (size_t)(op - ops), send_tag(s), NULL);
	assert(error == GRPC_CALL_OK);
	grpc_byte_buffer_destroy(buffer);
	return true;
}

static void handle_event(struct call_state *s, bool is_send, bool good)
{
	if (is_send)
		s->sending = good && !s->received && send_next(s);
	else
		s->received = true;
	if (s->received && !s->sending)
		finish(s);
}

static void *run(void *arg)
{
	struct rpc *r = arg;

	for (;;) {
		grpc_event event = grpc_completion_queue_next(
			r->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
		uintptr_t tag = (uintptr_t)event.tag;

		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return NULL;
		if (event.type == GRPC_OP_COMPLETE)
			handle_event((struct call_state *)(tag & ~(uintptr_t)1), tag & 1,
				     event.success);
	}
}

static void start_receiving(struct call_state *s)
{
	grpc_call_error error;
	grpc_op ops[3] = {
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
		 .data.recv_initial_metadata.recv_initial_metadata = &s->headers},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->answer},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		 .data.recv_status_on_client = {.trailing_metadata = &s->trailers,
						.status = &s->status,
						.status_details = &s->detail}},
	};

	error = grpc_call_start_batch(s->core, ops, 3, s, NULL);
	assert(error == GRPC_CALL_OK);
}

static struct call_state *state_new(struct rpc *r, struct rpc_call *c)
{
	struct call_state *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->rpc = r;
	s->call = c;
	s->detail = grpc_empty_slice();
	s->token.key = grpc_slice_from_static_string("authentication");
	s->token.value = grpc_slice_from_copied_string(r->token ? r->token : "");
	grpc_metadata_array_init(&s->headers);
	grpc_metadata_array_init(&s->trailers);
	s->core = rpc_channel_call(r->channel, r->queue, c->path, r->timeout_ns);
	return s;
}

/* Running, with room for it among the finished ones. */
static int enlist(struct rpc *r, struct call_state *s)
{
	size_t n_running = 1;
	int error;

	pthread_mutex_lock(&r->lock);
	for (struct call_state *i = r->running; i; i = i->next)
		n_running++;
	error = vec_reserve(&r->done, r->done.n + n_running);
	if (!error) {
		s->next = r->running;
		if (s->next)
			s->next->prev = s;
		r->running = s;
	}
	pthread_mutex_unlock(&r->lock);
	return error;
}

static void no_log(gpr_log_func_args *args)
{
}

static void close_queue(struct rpc *r)
{
	grpc_completion_queue_shutdown(r->queue);
	run(r); /* takes the end of the queue */
	grpc_completion_queue_destroy(r->queue);
	grpc_shutdown_blocking();
}

/* With the first call: whoever gives up privileges before it has no thread that keeps them. */
static int open_core(struct rpc *r)
{
	int error;

	if (r->is_open)
		return 0;
	/* What the core would print on its own comes back as the status of a call. */
	gpr_set_log_function(no_log);
	grpc_init();
	r->queue = grpc_completion_queue_create_for_next(NULL);
	error = rpc_channel_open(r->channel);
	if (!error)
		error = -pthread_create(&r->thread, NULL, run, r);
	if (error)
		close_queue(r);
	r->is_open = !error;
	return error;
}

int rpc_start(struct rpc *r, struct rpc_call *take_call, uint64_t mono_ns)
{
	struct call_state *s;
	sigset_t old;
	int error;

	take_call->start_ns = mono_ns;
	take_call->status = RPC_UNAVAILABLE;
	block_signals(&old);
	error = open_core(r);
	s = error ? NULL : state_new(r, take_call);
	if (!s || enlist(r, s)) {
		if (s)
			state_free(s);
		rpc_call_free(take_call);
		restore_signals(&old);
		return error ? error : -ENOMEM;
	}
	s->sending = true; /* before the thread can see the end of the receiving half */
	start_receiving(s);
	/* From here on the thread has it. */
	send_next(s);
	restore_signals(&old);
	return 0;
}

struct rpc_call *rpc_take_done(struct rpc *r)
{
	struct rpc_call *c = NULL;
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	if (r->n_taken < r->done.n)
		c = r->done.at[r->n_taken++];
	if (r->n_taken == r->done.n) {
		r->n_taken = r->done.n = 0;
		(void)!read(r->event_fd, &n, sizeof(n));
	}
	pthread_mutex_unlock(&r->lock);
	return c;
}

int rpc_fd(const struct rpc *r)
{
	return r->event_fd;
}

int rpc_set_token(struct rpc *r, const char *token, struct errmsg *e)
{
	char *copy = NULL;

	for (const char *t = token; t && *t; t++)
		if (*t < ' ' || *t > '~')
			return errmsg_set(
				e, -EINVAL,
				"the backend's token holds characters that are not allowed in a header; only printable ASCII is");
	if (token && *token) {
		copy = strdup(token);
		if (!copy)
			return -ENOMEM;
	}
	free(r->token);
	r->token = copy;
	return 0;
}

void rpc_next_address(struct rpc *r)
{
	sigset_t old;

	if (!r->is_open)
		return;
	block_signals(&old);
	rpc_channel_next(r->channel);
	restore_signals(&old);
}

const char *rpc_address(const struct rpc *r)
{
	return rpc_channel_address(r->channel);
}

int rpc_new(struct rpc **ret, const struct rpc_options *o, struct errmsg *e)
{
	struct rpc *r = calloc(1, sizeof(*r));
	int error;

	if (!r)
		return -ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	r->timeout_ns = o->timeout_ns ? o->timeout_ns : TIMEOUT_S * 1000000000ULL;
	r->max_answer_bytes = o->max_answer_bytes ? o->max_answer_bytes : ANSWER_MAX;
	r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = r->event_fd < 0 ? -errno : rpc_set_token(r, o->token, e);
	if (!error)
		error = rpc_channel_new(&r->channel, o, r->max_answer_bytes, e);
	if (error) {
		rpc_free(r);
		return error;
	}
	*ret = r;
	return 0;
}

struct rpc *rpc_free(struct rpc *r)
{
	struct rpc_call *c;

	if (!r)
		return NULL;
	pthread_mutex_lock(&r->lock);
	for (struct call_state *s = r->running; s; s = s->next)
		grpc_call_cancel(s->core, NULL);
	pthread_mutex_unlock(&r->lock);
	if (r->is_open) {
		grpc_completion_queue_shutdown(r->queue);
		pthread_join(r->thread, NULL);
	}
	while ((c = rpc_take_done(r)))
		rpc_call_free(c);
	vec_free(&r->done);
	rpc_channel_free(r->channel);
	if (r->is_open) {
		grpc_completion_queue_destroy(r->queue);
		grpc_shutdown_blocking();
	}
	if (r->event_fd >= 0)
		close(r->event_fd);
	free(r->token);
	pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}
