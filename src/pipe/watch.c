/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpf/watchskel.h"

#define SECOND_NS 1000000000ULL

enum { PER_SECOND = 4, BURST = 32 };

struct watch {
	struct watchskel *skel;
	struct ring_buffer *ring;
	watch_fn fn; /* during watch_poll */
	void *fn_ctx;
};

static int on_event(void *ctx, void *data, size_t bytes)
{
	struct watch *w = ctx;

	if (bytes >= sizeof(struct watch_event))
		w->fn(w->fn_ctx, data);
	return 0;
}

static int set_up(struct watch *w, const struct watch_options *o)
{
	uint32_t per_second = o && o->per_second ? o->per_second : PER_SECOND;
	uint32_t burst = o && o->burst ? o->burst : BURST;

	w->skel = watchskel__open();
	if (!w->skel)
		return errno ? -errno : -EINVAL;
	w->skel->rodata->knob_interval_ns = SECOND_NS / per_second;
	w->skel->rodata->knob_burst_ns = SECOND_NS / per_second * burst;
	if (watchskel__load(w->skel) || watchskel__attach(w->skel))
		return errno ? -errno : -EINVAL;
	w->ring = ring_buffer__new(bpf_map__fd(w->skel->maps.found), on_event, w, NULL);
	return w->ring ? 0 : -errno;
}

int watch_new(struct watch **ret, const struct watch_options *options, struct errmsg *e)
{
	struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return errmsg_set(e, -ENOMEM, "out of memory");
	libbpf_set_print(NULL);
	r = set_up(w, options);
	if (r) {
		watch_free(w);
		return errmsg_set(
			e, r,
			"cannot load the BPF programs that tell of new processes: %s; this needs CAP_BPF and CAP_PERFMON",
			strerror(-r));
	}
	*ret = w;
	return 0;
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	ring_buffer__free(w->ring);
	watchskel__destroy(w->skel);
	free(w);
	return NULL;
}

int watch_fd(const struct watch *w)
{
	return ring_buffer__epoll_fd(w->ring);
}

int watch_poll(struct watch *w, watch_fn fn, void *ctx)
{
	w->fn = fn;
	w->fn_ctx = ctx;
	return ring_buffer__consume(w->ring);
}

int watch_follow(struct watch *w, pid_t pid)
{
	uint32_t key = (uint32_t)pid, one = 1;

	return bpf_map_update_elem(bpf_map__fd(w->skel->maps.followed), &key, &one, BPF_ANY) < 0
		       ? -errno
		       : 0;
}

void watch_unfollow(struct watch *w, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	bpf_map_delete_elem(bpf_map__fd(w->skel->maps.followed), &key);
}

void watch_rule_out(struct watch *w, const struct watch_file *file)
{
	bpf_map_update_elem(bpf_map__fd(w->skel->maps.ruled_out), file, &w->skel->data->rules_gen,
			    BPF_ANY);
}

static struct watch_env env_of(const char *name)
{
	struct watch_env e = {};
	char text[sizeof(e.first)] = "", mask[sizeof(e.first)] = "";
	size_t n = strlen(name);

	memcpy(text, name, n < sizeof(text) ? n : sizeof(text));
	if (n < sizeof(text))
		text[n] = '=';
	memset(mask, 0xff, n < sizeof(mask) ? n + 1 : sizeof(mask));
	memcpy(&e.first, text, sizeof(text));
	memcpy(&e.mask, mask, sizeof(mask));
	return e;
}

void watch_filter(struct watch *w, const char *const *names, size_t n)
{
	struct watch_env *wanted = w->skel->bss->wanted;

	w->skel->data->no_filter = 1;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memset(wanted, 0, sizeof(w->skel->bss->wanted));
	for (size_t i = 0; names && i < n && i < WATCH_ENV_MAX; i++)
		wanted[i] = env_of(names[i]);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	w->skel->data->no_filter = !names || n > WATCH_ENV_MAX;
	__atomic_add_fetch(&w->skel->data->rules_gen, 1, __ATOMIC_SEQ_CST);
}

int watch_runtime(const struct watch *w, struct bpftime *sum)
{
	return bpftime_add(w->skel->obj, NULL, sum);
}

uint64_t watch_n_unsent(const struct watch *w)
{
	return __atomic_load_n(&w->skel->bss->n_unsent, __ATOMIC_RELAXED);
}
