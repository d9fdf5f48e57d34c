/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sample_profile.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { SYS_READ = 0, SYS_POLL = 7, SYS_NANOSLEEP = 35, SYS_RECVFROM = 45, SYS_FUTEX = 202 };

#define MS 1000000ULL

uint32_t sample_string(struct profile *p, const char *text)
{
	uint32_t id = 0;
	int r = strpool_add(p->strings, text, &id);

	assert(r == 0);
	return id;
}

uint32_t sample_module(struct profile *p, const char *path, uint8_t id_byte, uint64_t start)
{
	struct profile_module m = {
		.path = sample_string(p, path),
		.build_id_bytes = id_byte ? 20 : 0,
		.start = start,
		.limit = start + 0x100000,
		.offset = 0x1000,
	};
	uint32_t idx = 0;
	int r;

	if (id_byte)
		memset(m.build_id, id_byte, 20);
	r = profile_add_module(p, &m, &idx);
	assert(r == 0);
	return idx;
}

uint32_t sample_frame(struct profile *p, const char *function, const char *file, uint32_t line,
		      uint32_t flags)
{
	struct profile_frame f = {
		.function = sample_string(p, function),
		.file = sample_string(p, file),
		.line = line,
		.start_line = line ? (line > 10 ? line - line % 10 : 1) : 0,
		.flags = flags,
	};
	uint32_t idx = 0;
	int r;

	f.system_name = f.function;
	r = profile_add_frame(p, &f, &idx);
	assert(r == 0);
	return idx;
}

static uint32_t add_location(struct profile *p, uint32_t module, uint64_t off, uint32_t flags,
			     const uint32_t *frames, size_t n_frames)
{
	struct profile_location l = {.module = module, .flags = flags, .module_off = off};
	uint32_t idx = 0;
	int r;

	l.address = p->modules.at[module].start + off;
	r = profile_add_location(p, &l, frames, n_frames, &idx);
	assert(r == 0);
	return idx;
}

uint32_t sample_location(struct profile *p, uint32_t module, const char *function, const char *file,
			 uint32_t line, uint32_t frame_flags)
{
	uint32_t frame = sample_frame(p, function, file, line, frame_flags);

	return add_location(p, module, 0x1000 + frame * 0x10, 0, &frame, 1);
}

uint32_t sample_endpoint(struct profile *p, const char *name, uint64_t n_calls, uint64_t n_slow)
{
	struct profile_endpoint e = {
		.spec = sample_string(p, name),
		.name = sample_string(p, name),
		.threshold_ns = 100 * MS,
		.period_ns = 10 * MS,
		.latency = {.n_enter = n_calls, .n_leave = n_calls, .n_slow = n_slow},
	};
	uint64_t n_fast = n_calls - n_slow;
	int r;

	e.latency.bucket[latency_bucket(3 * MS)] = n_fast;
	e.latency.sum_ns = n_fast * 3 * MS;
	if (n_slow) {
		e.latency.bucket[latency_bucket(410 * MS)] = n_slow - 1;
		e.latency.bucket[latency_bucket(612400000)] = 1;
		e.latency.sum_ns += (n_slow - 1) * 410 * MS + 612400000;
	}
	e.latency.max_ns = n_slow ? 612400000 : n_fast ? 3100000 : 0;
	r = vec_push(&p->endpoints, e);
	assert(r == 0);
	return p->endpoints.n - 1;
}

uint32_t sample_span(struct profile *p, uint32_t endpoint, const char *name, uint32_t tid,
		     uint64_t start_ms)
{
	struct profile_span s = {
		.span_id = 1000 + p->spans.n,
		.endpoint = endpoint,
		.name = sample_string(p, name),
		.tgid = 4242,
		.tid = tid,
		.comm = sample_string(p, "orders-worker"),
		.instance_id = 1,
		.start_ns = start_ms * MS,
		.end_ns = start_ms * MS,
		.end_reason = WIRE_END_RETURN,
		.first_sample = p->samples.n,
	};
	int r = vec_push(&p->spans, s);

	assert(r == 0);
	return p->spans.n - 1;
}

void sample_wall(struct profile *p, uint32_t stack, enum sample_kind kind, int syscall_nr,
		 uint64_t wall_us)
{
	struct profile_span *span = &p->spans.at[p->spans.n - 1];
	enum stack_stop stop = p->stacks.at[stack].stop;
	struct profile_sample s = {
		.span = p->spans.n - 1,
		.stack = stack,
		.kind = kind,
		.count = stop != STACK_STOP_NONE && kind != SAMPLE_RUNQ,
		.syscall_nr = syscall_nr,
		.seq = span->n_kept,
		.wall_ns = wall_us * 1000,
		.start_ns = span->end_ns,
		.end_ns = span->end_ns + wall_us * 1000,
	};
	uint64_t *split[] = {&span->oncpu_ns, &span->runq_ns, &span->blocked_ns};
	int r;

	if (!s.count)
		s.seq = UINT32_MAX;
	if (kind == SAMPLE_BLOCKED)
		s.cause = block_cause_of(syscall_nr, 1, 0);
	r = vec_push(&p->samples, s);
	assert(r == 0);
	*split[kind] += s.wall_ns;
	span->end_ns = s.end_ns;
	span->n_samples++;
	span->n_due += s.count;
	span->n_kept += s.count;
	if (s.count && stop != STACK_STOP_ENDPOINT)
		span->n_incomplete++;
}

static uint32_t stack_of(struct profile *p, const uint32_t *locations, size_t n,
			 enum stack_stop stop)
{
	uint32_t idx = 0;
	int r = profile_add_stack(p, locations, n, stop, &idx);

	assert(r == 0);
	return idx;
}

#define STACK(p, stop, ...)                            \
	({                                             \
		const uint32_t l_[] = {__VA_ARGS__};   \
		stack_of(p, l_, ARRAY_SIZE(l_), stop); \
	})

/* The location of a synthetic frame. */
static uint32_t synthetic(struct profile *p, const char *text)
{
	uint32_t idx = 0;
	int r = profile_synthetic_stack(p, text, &idx);

	assert(r == 0);
	return p->stack_runs.at[p->stacks.at[idx].first];
}

struct profile *sample_profile_bare(void)
{
	struct profile *p = NULL;
	int r = profile_new(&p);

	assert(r == 0);
	p->start_mono_ns = 1000 * MS;
	p->start_real_ns = 1700000000ULL * 1000 * MS;
	p->duration_ns = 30000 * MS;
	p->hostname = sample_string(p, "shop-1");
	p->kernel_release = sample_string(p, "6.1.0-test");
	return p;
}

struct profile *sample_profile_empty(void)
{
	struct profile *p = sample_profile_bare();

	sample_endpoint(p, "handle_request", 1204, 0);
	return p;
}

/* The locations of the orders profile. */
struct orders {
	uint32_t entry, handle, lock, query, parse, send, jit, unknown, kernel, job, mutex, sleep,
		recv;
};

static struct orders orders_locations(struct profile *p)
{
	uint32_t exe = sample_module(p, "/usr/bin/orders", 0xab, 0x555555554000);
	uint32_t libc =
		sample_module(p, "/usr/lib/x86_64-linux-gnu/libc.so.6", 0xcd, 0x7ffff7c00000);
	uint32_t kernel = sample_module(p, "[kernel]", 0, 0);
	uint32_t jit = sample_module(p, "[jit]", 0, 0);
	const uint32_t inlined[] = {
		sample_frame(p, "next_token", "json.h", 31, PROFILE_FRAME_INLINED),
		sample_frame(p, "parse_body", "orders.c", 120, 0),
	};

	return (struct orders){
		.entry = sample_location(p, exe, "handle_request", "orders.c", 80, 0),
		.handle = sample_location(p, exe, "handle_request", "orders.c", 88, 0),
		.lock = sample_location(p, exe, "lock_order", "orders.c", 41, 0),
		.query = sample_location(p, exe, "orders::Database::query(int)", "database.cc", 203,
					 0),
		.parse = add_location(p, exe, 0x8000, 0, inlined, ARRAY_SIZE(inlined)),
		.send = sample_location(p, exe, "send_reply", "orders.c", 301, 0),
		.jit = sample_location(p, jit, "jit:discount_rule", "", 0, 0),
		.unknown = sample_location(p, exe, "orders+0x9120", "", 0, PROFILE_FRAME_UNKNOWN),
		.kernel =
			sample_location(p, kernel, "futex_wait_queue", "", 0, PROFILE_FRAME_KERNEL),
		.job = sample_location(p, exe, "run_job", "jobs.c", 17, 0),
		.mutex = sample_location(p, libc, "pthread_mutex_lock", "", 0, 0),
		.sleep = sample_location(p, libc, "clock_nanosleep", "", 0, 0),
		.recv = sample_location(p, libc, "recv", "", 0, 0),
	};
}

static void orders_requests(struct profile *p, uint32_t ep, const struct orders *l)
{
	uint32_t before = STACK(p, STACK_STOP_NONE, synthetic(p, "[before threshold]"), l->entry);
	uint32_t lock = STACK(p, STACK_STOP_ENDPOINT, l->kernel, l->mutex, l->lock, l->handle);
	uint32_t query = STACK(p, STACK_STOP_ENDPOINT, l->recv, l->query, l->handle);
	uint32_t parse = STACK(p, STACK_STOP_ENDPOINT, l->parse, l->handle);
	uint32_t send = STACK(p, STACK_STOP_ENDPOINT, l->send, l->handle);
	uint32_t cut = synthetic(p, "[incomplete: no unwind information]");
	uint32_t jit = STACK(p, STACK_STOP_NO_CFI, l->jit, cut, l->entry);
	uint32_t unknown = STACK(p, STACK_STOP_ENDPOINT, l->unknown, l->handle);

	sample_span(p, ep, "GET:/orders/{id}", 4250, 2000);
	sample_wall(p, before, SAMPLE_BLOCKED, SYS_FUTEX, 100000);
	sample_wall(p, lock, SAMPLE_BLOCKED, SYS_FUTEX, 300100);
	sample_wall(p, lock, SAMPLE_RUNQ, -1, 1200);
	sample_wall(p, query, SAMPLE_BLOCKED, SYS_RECVFROM, 122200);
	sample_wall(p, query, SAMPLE_RUNQ, -1, 800);
	for (int i = 0; i < 8; i++)
		sample_wall(p, parse, SAMPLE_ONCPU, -1, 10000);
	sample_wall(p, send, SAMPLE_ONCPU, -1, 8100);

	sample_span(p, ep, "GET:/orders/{id}", 4251, 5000);
	sample_wall(p, before, SAMPLE_ONCPU, -1, 100000);
	sample_wall(p, parse, SAMPLE_ONCPU, -1, 14500);
	sample_wall(p, jit, SAMPLE_ONCPU, -1, 20500);
	p->spans.at[p->spans.n - 1].n_due += 2;

	sample_span(p, ep, "POST:/orders", 4252, 9000);
	sample_wall(p, before, SAMPLE_BLOCKED, SYS_RECVFROM, 100000);
	sample_wall(p, unknown, SAMPLE_ONCPU, -1, 1900);
	sample_wall(p, query, SAMPLE_BLOCKED, SYS_RECVFROM, 300000);
	p->spans.at[p->spans.n - 1].end_reason = WIRE_END_UNWOUND;
	p->endpoints.at[ep].latency.n_enter += 3;
	p->endpoints.at[ep].latency.n_unknown = 3;
	p->endpoints.at[ep].latency.n_unwound = 1;
}

struct profile *sample_profile_orders(void)
{
	struct profile *p = sample_profile_bare();
	struct orders l = orders_locations(p);
	uint32_t requests = sample_endpoint(p, "handle_request", 1204, 9);
	uint32_t jobs = sample_endpoint(p, "run_job", 40, 1);
	uint32_t idle = sample_endpoint(p, "never_called", 0, 0);
	uint32_t slept = STACK(p, STACK_STOP_ENDPOINT, l.sleep, l.job);

	assert(idle == 3);
	orders_requests(p, requests, &l);
	sample_span(p, jobs, "run_job", 4260, 20000);
	sample_wall(p, STACK(p, STACK_STOP_NONE, synthetic(p, "[before threshold]"), l.job),
		    SAMPLE_BLOCKED, SYS_NANOSLEEP, 100000);
	sample_wall(p, slept, SAMPLE_BLOCKED, SYS_NANOSLEEP, 10900000);
	p->spans.at[p->spans.n - 1].end_reason = WIRE_END_TASK_END;
	p->endpoints.at[jobs].latency.n_enter++;
	p->counters.v[WIRE_C_RING_FULL_SNAPSHOT] = 2;
	p->counters.v[WIRE_C_PARALLEL_LIMIT] = 5;
	p->counters.v[COUNTER_UNWIND_NO_CFI] = 1;
	p->counters.v[WIRE_C_RETSITE_NEW] = 3;
	return p;
}

struct profile *sample_profile_unfinished(void)
{
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "handle_request", 1, 0);
	uint32_t exe = sample_module(p, "/usr/bin/orders", 0xab, 0x555555554000);
	uint32_t handle = sample_location(p, exe, "handle_request", "orders.c", 88, 0);
	uint32_t poll = sample_location(p, exe, "wait_for_peer", "orders.c", 55, 0);

	p->endpoints.at[ep].latency = (struct latency){.n_enter = 1};
	sample_span(p, ep, "GET:/hang", 4250, 2000);
	sample_wall(p, STACK(p, STACK_STOP_ENDPOINT, poll, handle), SAMPLE_BLOCKED, SYS_POLL,
		    28000000);
	p->spans.at[1].end_reason = WIRE_END_TASK_END;
	return p;
}

struct profile *sample_profile_deep(size_t n)
{
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "recurse", 1, 1);
	uint32_t exe = sample_module(p, "/usr/bin/deep", 0x11, 0x400000);
	uint32_t *locations = calloc(n, sizeof(*locations));
	char name[32];

	assert(locations);
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "level_%zu", n - 1 - i);
		locations[i] = sample_location(p, exe, name, "deep.c", n - i, 0);
	}
	sample_span(p, ep, "recurse", 77, 2000);
	sample_wall(p, stack_of(p, locations, n, STACK_STOP_ENDPOINT), SAMPLE_ONCPU, -1, 250000);
	free(locations);
	return p;
}

static const char *const hostile_names[] = {
	"GET:/\x1b[31mred\x1b[0m\x07\r\nnext line\ttab",
	"</script><script>alert(1)</script><!-- \"quoted\" 'single' & more",
	"semi;colon and space",
	"bad \xff\xfe utf-8 \xc3",
	"\xe6\xb3\xa8\xe6\x96\x87\xe8\xa9\xb3\xe7\xb4\xb0 \xf0\x9f\x94\xa5 e\xcc\x81 \302\23331m",
	"back\\slash \xe2\x80\xa8 line separator \xe2\x80\xae bidi \x7f",
};

const char *const sample_hostile_names[SAMPLE_HOSTILE_NAMES] = {
	"GET:/\\x1b[31mred\\x1b[0m\\x07\\x0d\\x0anext line\\x09tab",
	"</script><script>alert(1)</script><!-- \"quoted\" 'single' & more",
	"semi;colon and space",
	"bad \\xff\\xfe utf-8 \\xc3",
	"back\\slash \\u2028 line separator \\u202e bidi \\x7f",
};

struct profile *sample_profile_hostile(void)
{
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "evil\x1b]0;title\x07", 10, 7);
	uint32_t exe = sample_module(p, "/tmp/a b;c\"</script>\n", 0x22, 0x400000);
	const size_t huge_bytes = 300000;
	char *huge = malloc(huge_bytes + 1);

	assert(huge);
	memset(huge, 'x', huge_bytes);
	huge[huge_bytes] = 0;
	for (size_t i = 0; i <= ARRAY_SIZE(hostile_names); i++) {
		const char *name = i < ARRAY_SIZE(hostile_names) ? hostile_names[i] : huge;
		uint32_t leaf = sample_location(p, exe, name, name, i, 0);
		uint32_t root = sample_location(p, exe, "evil", "evil.c", 1, 0);

		sample_span(p, ep, name, 100 + i, 2000 + 500 * i);
		sample_wall(p, STACK(p, STACK_STOP_ENDPOINT, leaf, root), SAMPLE_BLOCKED, SYS_READ,
			    200000 + i);
	}
	free(huge);
	return p;
}
