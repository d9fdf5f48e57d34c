/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kern.c: see kern.h.
 *
 * Invariant: the skeleton's maps and the attached links live exactly as long as struct kern; what
 * the BPF programs cache of a map has a generation number that is raised after the map has changed.
 */
#include "pipe/kern.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "bpf/kernskel.h"
#include "pipe/aside.h"
#include "pipe/loaderror.h"
#include "pipe/ring.h"
#include "pipe/ticker.h"
#include "probe/multi.h"
#include "proc/maps.h"
#include "proc/process.h"

/* As in bpf/maps.bpf.h: the sizes for which there is a map. */
#define WINDOW_SMALL       (4096U - 256)
#define WINDOW_MIDDLE      (32768U - 1024)
#define WINDOW_LARGE       (65536U - 1024)
#define WAKE_BYTES_DIVISOR 4  /* the reader is woken when the ring is filled by this fraction */
#define TICK_RING_DIVISOR  32 /* a ring of ticks is at most this fraction of the common one */
#define TICK_RINGS_MAX     64 /* CPUs that have one: 5.3 MB; the ticks of others use the common ring */
/*
 * Of the verifier's words for a program that is refused, the last are what counts. Linux before 6.4 keeps
 * the first ones and then says ENOSPC, so there is room for all; what is not used is never touched.
 */
#define LOG_BYTES         (16U << 20)
#define WALK_COST_DIVISOR 100 /* walks of stuck threads take at most this fraction of the time */

struct gate_count { /* as in bpf/maps.bpf.h */
	uint32_t n_started;
	uint32_t n_active;
	uint32_t epoch;
	uint32_t pad;
};

struct kern {
	struct kernskel *skel;
	struct ring *ring;
	struct ticker ticker;
	size_t n_cpus; /* possible ones */
	void *percpu;  /* n_cpus of the largest per-CPU value */
	uint32_t last_epoch;
	struct bpf_link *sched_switch;
	struct bpf_link *sched_waking;
	struct bpf_link *walk, *cut;
	struct bpf_link *proc[3];
	bool rests; /* from kern_rest to kern_resume */
	uint64_t walk_not_before_ns;
};

static size_t round_ring(size_t bytes)
{
	size_t n = (size_t)sysconf(_SC_PAGESIZE);

	if (!bytes)
		bytes = KERN_RING_DEFAULT;
	while (n < bytes && n < (1U << 30))
		n *= 2;
	return n;
}

/* Rings of ticks are for the CPUs that have a tick: on a virtual machine many more are possible. */
static void configure_rings(struct kernskel *skel, size_t ring_bytes, size_t n_cpus)
{
	size_t tick_bytes = ring_bytes / TICK_RING_DIVISOR;

	if (tick_bytes > WIRE_TICK_RING)
		tick_bytes = WIRE_TICK_RING;
	if (n_cpus > TICK_RINGS_MAX)
		n_cpus = TICK_RINGS_MAX;
	skel->rodata->knob_wake_bytes = (uint32_t)(ring_bytes / WAKE_BYTES_DIVISOR);
	skel->rodata->knob_tick_bytes = (uint32_t)tick_bytes;
	bpf_map__set_max_entries(skel->maps.ring, (uint32_t)ring_bytes);
	bpf_map__set_max_entries(skel->maps.tick_rings, (uint32_t)n_cpus);
}

static void configure(struct kernskel *skel, const struct kern_options *o)
{
	uint32_t window = o->max_window ? (o->max_window + 63) & ~63U : KERN_WINDOW_DEFAULT;

	if (window > WINDOW_LARGE)
		window = WINDOW_LARGE;
	if (window < 2 * WIRE_REDZONE)
		window = 2 * WIRE_REDZONE;
	skel->rodata->knob_max_window = window;
	skel->rodata->knob_kernel_stacks = o->want_kernel_stacks;
	skel->rodata->knob_count_hits = o->may_rest;
	skel->rodata->knob_count_threads = o->count_threads;
	bpf_program__set_autoload(skel->progs.cut_walk, o->may_rest);
	bpf_program__set_autoload(skel->progs.span_end, !o->without_end && !o->end_sleeps);
	bpf_program__set_autoload(skel->progs.span_end_sleepable, !o->without_end && o->end_sleeps);
	bpf_program__set_autoload(skel->progs.span_leave, !o->end_sleeps);
	bpf_program__set_autoload(skel->progs.span_leave_sleepable, o->end_sleeps);
	bpf_program__set_autoload(skel->progs.span_ret, !o->end_sleeps);
	bpf_program__set_autoload(skel->progs.span_ret_sleepable, o->end_sleeps);
	bpf_program__set_autoload(skel->progs.span_uret, !o->without_uret);
	bpf_program__set_autoload(skel->progs.span_enter, !o->without_plain);
	bpf_program__set_autoload(skel->progs.span_enter_sleepable, !o->without_sleepable);
	if (o->max_members)
		bpf_map__set_max_entries(skel->maps.members, o->max_members);
	bpf_map__set_autocreate(skel->maps.windows_small, window <= WINDOW_SMALL);
	bpf_map__set_autocreate(skel->maps.windows_middle, window > WINDOW_SMALL);
	bpf_map__set_autocreate(skel->maps.windows_large, window > WINDOW_MIDDLE);
	bpf_map__set_autocreate(skel->maps.windows_spare, window > WINDOW_MIDDLE);
}

static void use_multi_uprobes(struct kernskel *skel)
{
	struct bpf_program *const programs[] = {
		skel->progs.span_enter, skel->progs.span_enter_sleepable,
		skel->progs.span_leave, skel->progs.span_leave_sleepable,
		skel->progs.span_end,   skel->progs.span_end_sleepable,
		skel->progs.span_ret,   skel->progs.span_ret_sleepable,
		skel->progs.span_uret,
	};

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		bpf_program__set_expected_attach_type(programs[i],
						      (enum bpf_attach_type)MULTI_ATTACH_TYPE);
}

static int load(struct kern *k, const struct kern_options *o, struct errmsg *e)
{
	AUTO_FREE char *log = calloc(1, LOG_BYTES);
	LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log,
		    .kernel_log_size = LOG_BYTES);
	struct aside aside;
	int r;

	if (!log)
		return errmsg_set(e, -ENOMEM, "cannot load the BPF programs: out of memory");
	libbpf_set_print(NULL);
	r = aside_prepare();
	if (r)
		return errmsg_set(e, r, "cannot load the BPF programs: %s", strerror(-r));
	k->skel = kernskel__open_opts(&opts);
	if (!k->skel) {
		r = errno ? -errno : -EINVAL;
		return errmsg_set(e, r, "cannot open the built-in BPF programs: %s", strerror(-r));
	}
	configure(k->skel, o);
	configure_rings(k->skel, round_ring(o->ring_bytes), ticker_cpus_end(k->n_cpus));
	if (o->multi_uprobes)
		use_multi_uprobes(k->skel);
	aside_open(&aside, "Dual BSD/GPL");
	r = aside_close(&aside, kernskel__load(k->skel), log, LOG_BYTES);
	return r ? loaderror_explain(r, log, e) : 0;
}

static int attach(struct bpf_program *program, struct bpf_link **ret, struct errmsg *e)
{
	struct bpf_link *link = bpf_program__attach(program);
	int r = -errno;

	if (!link)
		return errmsg_set(e, r, "cannot attach the BPF program \"%s\": %s",
				  bpf_program__name(program), strerror(-r));
	*ret = link;
	return 0;
}

static int kern_setup(struct kern *k, const struct kern_options *o, struct errmsg *e)
{
	int n_cpus = libbpf_num_possible_cpus(), r;

	/* A test boots a whole system in a name space of its own, and starts the agent there. */
	if (!process_numbers_are_initial() && !secure_getenv("SPANPROF_OTHER_PIDS"))
		return errmsg_set(
			e, -EOPNOTSUPP,
			"this is a PID namespace of its own: processes cannot be told by their numbers here; run with the host's (docker run --pid=host)");
	if (n_cpus < 0)
		return errmsg_set(e, n_cpus, "cannot read the number of CPUs: %s",
				  strerror(-n_cpus));
	k->n_cpus = (size_t)n_cpus;
	k->percpu = calloc(k->n_cpus, sizeof(struct wire_latency));
	if (!k->percpu)
		return errmsg_set(e, -ENOMEM, "cannot load the BPF programs: out of memory");
	r = load(k, o, e);
	if (r)
		return r;
	assert(k->skel);
	r = ring_new(&k->ring, bpf_map__fd(k->skel->maps.ring),
		     bpf_map__fd(k->skel->maps.tick_rings),
		     bpf_map__max_entries(k->skel->maps.tick_rings));
	if (!r && !o->lazy_ring)
		r = ring_map(k->ring);
	if (r)
		return errmsg_set(e, r, "cannot map the ring of the BPF programs: %s",
				  strerror(-r));
	r = ticker_init(&k->ticker, k->skel->progs.sample_tick, k->n_cpus);
	if (r)
		return errmsg_set(e, r, "cannot load the BPF programs: out of memory");
	r = attach(k->skel->progs.process_fork, &k->proc[0], e);
	if (!r)
		r = attach(k->skel->progs.process_exec, &k->proc[1], e);
	if (!r)
		r = attach(k->skel->progs.process_exit, &k->proc[2], e);
	return r;
}

int kern_new(struct kern **ret, const struct kern_options *options, struct errmsg *e)
{
	struct kern *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return errmsg_set(e, -ENOMEM, "cannot load the BPF programs: out of memory");
	r = kern_setup(k, options, e);
	if (r) {
		kern_free(k);
		return r;
	}
	*ret = k;
	return 0;
}

struct kern *kern_free(struct kern *k)
{
	if (!k)
		return NULL;
	ticker_deinit(&k->ticker);
	bpf_link__destroy(k->sched_switch);
	bpf_link__destroy(k->sched_waking);
	bpf_link__destroy(k->walk);
	bpf_link__destroy(k->cut);
	for (size_t i = 0; i < ARRAY_SIZE(k->proc); i++)
		bpf_link__destroy(k->proc[i]);
	ring_free(k->ring);
	kernskel__destroy(k->skel);
	free(k->percpu);
	free(k);
	return NULL;
}

static int loaded_fd(const struct bpf_program *plain, const struct bpf_program *sleepable)
{
	int fd = bpf_program__fd(plain);

	return fd >= 0 ? fd : bpf_program__fd(sleepable);
}

void kern_programs(const struct kern *k, struct probe_programs *ret)
{
	const typeof(k->skel->progs) *progs = &k->skel->progs;

	ret->enter_fd = bpf_program__fd(k->skel->progs.span_enter);
	ret->enter_sleepable_fd = bpf_program__fd(k->skel->progs.span_enter_sleepable);
	ret->leave_fd = loaded_fd(progs->span_leave, progs->span_leave_sleepable);
	ret->end_fd = loaded_fd(progs->span_end, progs->span_end_sleepable);
	ret->ret_fd = loaded_fd(progs->span_ret, progs->span_ret_sleepable);
	ret->uret_fd = bpf_program__fd(k->skel->progs.span_uret);
	ret->endpoints_fd = bpf_map__fd(k->skel->maps.endpoints);
	ret->return_sites_fd = bpf_map__fd(k->skel->maps.return_sites);
}

/* bpf(2) through libbpf 1.x: 0 or negative errno, whatever the version returns. */
static int result(int r)
{
	return r < 0 ? -errno : 0;
}

static void raise_generation(uint32_t *gen)
{
	__atomic_add_fetch(gen, 1, __ATOMIC_SEQ_CST);
}

int kern_member_set(struct kern *k, pid_t tgid, const struct wire_member *member)
{
	uint32_t key = (uint32_t)tgid;
	int r = result(
		bpf_map_update_elem(bpf_map__fd(k->skel->maps.members), &key, member, BPF_ANY));

	raise_generation(&k->skel->data->members_gen);
	return r;
}

int kern_member_get(const struct kern *k, pid_t tgid, struct wire_member *ret)
{
	uint32_t key = (uint32_t)tgid;

	return result(bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.members), &key, ret));
}

int kern_member_remove(struct kern *k, pid_t tgid)
{
	uint32_t key = (uint32_t)tgid;
	int r = result(bpf_map_delete_elem(bpf_map__fd(k->skel->maps.members), &key));

	raise_generation(&k->skel->data->members_gen);
	return r;
}

int kern_watch_exe(struct kern *k, const struct wire_file_key *file,
		   const struct wire_member *member)
{
	return result(
		bpf_map_update_elem(bpf_map__fd(k->skel->maps.watched), file, member, BPF_ANY));
}

int kern_unwatch_exe(struct kern *k, const struct wire_file_key *file)
{
	return result(bpf_map_delete_elem(bpf_map__fd(k->skel->maps.watched), file));
}

/* stat(2) may tell another device than the inode's (overlayfs, btrfs); a mapping does not. */
int kern_file_key(int fd, struct wire_file_key *ret)
{
	AUTO_FREE char *maps = NULL;
	size_t bytes, page = (size_t)sysconf(_SC_PAGESIZE), off = 0;
	void *at = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
	struct maps_entry entry;
	enum maps_result m;
	int r;

	if (at == MAP_FAILED)
		return -errno;
	r = read_file(AT_FDCWD, "/proc/self/maps", 16U << 20, &maps, &bytes);
	munmap(at, page);
	if (r)
		return r;
	do {
		m = parse_maps_line(maps, bytes, &off, &entry);
		if (m != MAPS_OK || (uintptr_t)at < entry.start || (uintptr_t)at >= entry.end)
			continue;
		ret->dev = (uint64_t)entry.dev_major << 20 | entry.dev_minor;
		ret->ino = entry.ino;
		return 0;
	} while (m == MAPS_OK || m == MAPS_E_BAD);
	return -ENOENT;
}

static bool gate_any_enabled(const struct kern *k)
{
	int fd = bpf_map__fd(k->skel->maps.gates);
	struct wire_gate_key key, *at = NULL;
	struct wire_gate gate;

	while (!bpf_map_get_next_key(fd, at, &key)) {
		if (!bpf_map_lookup_elem(fd, &key, &gate) && gate.enabled)
			return true;
		at = &key;
	}
	return false;
}

static int sched_attach(struct kern *k, struct errmsg *e)
{
	uint32_t zero = 0;
	int r;

	if (k->sched_switch || k->rests)
		return 0;
	memset(k->percpu, 0, k->n_cpus * sizeof(int64_t));
	bpf_map_update_elem(bpf_map__fd(k->skel->maps.n_waiting), &zero, k->percpu, BPF_ANY);
	k->skel->bss->spare_taken = 0;
	raise_generation(&k->skel->data->sched_gen);
	r = attach(k->skel->progs.sched_waking, &k->sched_waking, e);
	if (!r)
		r = attach(k->skel->progs.sched_switch, &k->sched_switch, e);
	if (!r)
		k->skel->data->sched_since_ns = clock_mono_ns();
	return r;
}

static void sched_detach(struct kern *k)
{
	k->skel->data->sched_since_ns = UINT64_MAX;
	bpf_link__destroy(k->sched_switch);
	bpf_link__destroy(k->sched_waking);
	k->sched_switch = NULL;
	k->sched_waking = NULL;
}

int kern_gate_set(struct kern *k, const struct wire_gate_key *key, const struct wire_gate *gate,
		  struct errmsg *e)
{
	struct gate_count n = {.epoch = ++k->last_epoch};
	int r = 0;

	if (gate->enabled)
		r = sched_attach(k, e);
	if (r)
		return r;
	r = result(
		bpf_map_update_elem(bpf_map__fd(k->skel->maps.gate_counts), key, &n, BPF_NOEXIST));
	if (r == -EEXIST)
		r = 0;
	if (!r)
		r = result(
			bpf_map_update_elem(bpf_map__fd(k->skel->maps.gates), key, gate, BPF_ANY));
	raise_generation(&k->skel->data->gates_gen);
	if (r)
		return errmsg_set(e, r, "cannot open the gate of endpoint %u, instance %u: %s",
				  key->ep_id, key->instance_id, strerror(-r));
	if (!gate->enabled && !gate_any_enabled(k))
		sched_detach(k);
	return 0;
}

int kern_gate_get(const struct kern *k, const struct wire_gate_key *key, struct wire_gate *ret)
{
	struct gate_count n;
	struct wire_gate gate;
	int r = result(bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.gates), key, &gate));

	if (!r)
		r = result(bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.gate_counts), key, &n));
	if (r)
		return r;
	gate.n_started = n.n_started;
	gate.n_active = n.n_active;
	*ret = gate;
	return 0;
}

int kern_gate_clear(struct kern *k, const struct wire_gate_key *key)
{
	int r = result(bpf_map_delete_elem(bpf_map__fd(k->skel->maps.gates), key));

	bpf_map_delete_elem(bpf_map__fd(k->skel->maps.gate_counts), key);
	raise_generation(&k->skel->data->gates_gen);
	if (!gate_any_enabled(k))
		sched_detach(k);
	return r;
}

int kern_latency(const struct kern *k, uint32_t ep_id, struct latency *ret)
{
	struct wire_latency *l = k->percpu;
	struct latency sum = {0};
	int r = result(bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.latency), &ep_id, l));

	if (r)
		return r;
	for (size_t i = 0; i < k->n_cpus; i++) {
		/* BPF saves itself one of two equal counts. */
		l[i].n_leave = 0;
		for (uint32_t j = 0; j < WIRE_HIST_BUCKETS; j++)
			l[i].n_leave += l[i].bucket[j];
		latency_add_wire(&sum, &l[i]);
	}
	*ret = sum;
	return 0;
}

int kern_n_threads(const struct kern *k, uint32_t ep_id, uint64_t *ret)
{
	struct wire_latency *l = k->percpu;
	uint64_t sum = 0;
	int r = result(bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.latency), &ep_id, l));

	if (r)
		return r;
	for (size_t i = 0; i < k->n_cpus; i++)
		sum += l[i].n_threads;
	*ret = sum;
	return 0;
}

int kern_counter(const struct kern *k, enum wire_counter id, uint64_t *ret)
{
	uint64_t *v = k->percpu, sum = 0;
	uint32_t key = id;
	int r = result(bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.counters), &key, v));

	if (r)
		return r;
	for (size_t i = 0; i < k->n_cpus; i++)
		sum += v[i];
	*ret = sum;
	return 0;
}

int kern_counters(const struct kern *k, struct counters *ret)
{
	int r = 0;

	for (uint32_t id = 0; id < WIRE_C_MAX && !r; id++)
		r = kern_counter(k, id, &ret->v[id]);
	return r;
}

int kern_poll(struct kern *k, int timeout_ms, kern_record_fn fn, void *ctx)
{
	return ring_poll(k->ring, timeout_ms, fn, ctx);
}

int kern_ring_fd(const struct kern *k)
{
	return ring_fd(k->ring);
}

int kern_ring_map(struct kern *k)
{
	return ring_map(k->ring);
}

void kern_ring_unmap(struct kern *k)
{
	ring_unmap(k->ring);
}

int kern_sampling(struct kern *k, uint64_t period_ns, struct errmsg *e)
{
	return ticker_set(&k->ticker, period_ns, e);
}

static int64_t n_waiting(const struct kern *k)
{
	int64_t *v = k->percpu, sum = 0;
	uint32_t zero = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.n_waiting), &zero, v))
		return 0;
	for (size_t i = 0; i < k->n_cpus; i++)
		sum += v[i];
	return sum;
}

/* link: of this program, which is attached the first time. */
static int walk(struct bpf_link **link, const struct bpf_program *program)
{
	AUTO_CLOSE int fd = -1;
	char unused[64];
	ssize_t n;

	if (!*link)
		*link = bpf_program__attach_iter(program, NULL);
	if (!*link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(*link));
	if (fd < 0)
		return -errno;
	do
		n = read(fd, unused, sizeof(unused));
	while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	return n < 0 ? -errno : 0;
}

int kern_walk_stuck(struct kern *k)
{
	uint64_t now = clock_mono_ns();
	int r;

	if (!k->sched_switch || now < k->walk_not_before_ns || n_waiting(k) <= 0)
		return 0;
	r = walk(&k->walk, k->skel->progs.stuck_walk);
	/* All threads of the machine are visited: on a big one, look less often. */
	k->walk_not_before_ns = now + (clock_mono_ns() - now) * WALK_COST_DIVISOR;
	return r;
}

void kern_rest(struct kern *k)
{
	k->rests = true;
	ticker_set(&k->ticker, 0, NULL);
	sched_detach(k);
}

int kern_cut(struct kern *k)
{
	return walk(&k->cut, k->skel->progs.cut_walk);
}

int kern_resume(struct kern *k, struct errmsg *e)
{
	k->rests = false;
	return gate_any_enabled(k) ? sched_attach(k, e) : 0;
}

int kern_bpf_runtime(const struct kern *k, const char *program, struct bpftime *ret)
{
	struct bpftime sum = {};
	int r = bpftime_add(k->skel->obj, program, &sum);

	if (!r)
		*ret = sum;
	return r;
}
