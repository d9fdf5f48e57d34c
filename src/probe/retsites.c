/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/retsites.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"

enum { BEFORE_BYTES = 16 };

/* A key that is in the BPF map. */
struct known {
	uint64_t ret_addr;
	uint32_t as_id;
};

struct retsites {
	struct retsites_options options;
	uint32_t keep;
	bool rests;
	VEC(struct spot *) spots; /* owned */
	struct hash index;        /* module and address -> index into spots + 1 */
	VEC(struct known) known;
};

int retsites_new(struct retsites **ret, const struct retsites_options *options)
{
	struct retsites *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->options = *options;
	hash_init(&t->index);
	*ret = t;
	return 0;
}

struct retsites *retsites_free(struct retsites *t)
{
	if (!t)
		return NULL;
	spots_detach(t->spots.at, t->spots.n, SPOT_ALL);
	for (size_t i = 0; i < t->spots.n; i++)
		spot_free(t->spots.at[i]);
	vec_free(&t->spots);
	vec_free(&t->known);
	hash_deinit(&t->index);
	free(t);
	return NULL;
}

size_t retsites_spots(const struct retsites *t, struct spot *const **ret)
{
	*ret = t->spots.at;
	return t->spots.n;
}

void retsites_rest(struct retsites *t)
{
	t->rests = true;
	spots_rest(t->spots.at, t->spots.n);
}

size_t retsites_resume(struct retsites *t)
{
	size_t n_failed = spots_resume(t->spots.at, t->spots.n, t->options.source);

	t->rests = n_failed > 0;
	return n_failed;
}

/* NULL: they rest. */
static const struct attach_source *source_of(const struct retsites *t)
{
	return t->rests ? NULL : t->options.source;
}

void retsites_keep_return_value(struct retsites *t)
{
	t->keep |= 1U << WIRE_REG_RAX;
}

static uint64_t spot_key(const struct module *m, uint64_t vaddr)
{
	return hash_mix(vaddr) ^ hash_mix(module_id(m));
}

static struct spot *find_spot(const struct retsites *t, const struct module *m, uint64_t vaddr)
{
	const uint64_t *idx = hash_get(&t->index, spot_key(m, vaddr));

	return idx ? t->spots.at[*idx] : NULL;
}

static int mark(struct retsites *t, uint32_t as_id, uint64_t ret_addr, enum wire_site_state state)
{
	struct wire_site_key key = {.ret_addr = ret_addr, .as_id = as_id};
	uint32_t value = state;
	int r = bpf_map_update_elem(t->options.map_fd, &key, &value, BPF_ANY);

	if (r < 0)
		return r;
	return vec_push(&t->known, (struct known){.ret_addr = ret_addr, .as_id = as_id});
}

void retsites_mark_hopeless(struct retsites *t, uint32_t as_id, uint64_t ret_addr)
{
	mark(t, as_id, ret_addr, WIRE_SITE_HOPELESS);
}

static int choose(struct retsites *t, struct spot *s)
{
	uint8_t code[BEFORE_BYTES + SITE_RETURN_MAX];
	struct site_return at = {.code = code, .before = BEFORE_BYTES, .vaddr = s->vaddr};

	at.code_bytes = module_read_code(s->module, s->vaddr - BEFORE_BYTES, code, sizeof(code));
	if (at.code_bytes < BEFORE_BYTES + 1)
		return -EINVAL;
	return site_choose_return(&at, t->keep, &t->options.rules, &s->site) == SITE_OK ? 0
											: -ENOTSUP;
}

static int new_spot(struct retsites *t, struct module *m, uint64_t vaddr, struct spot **ret)
{
	struct spot *s;
	int r = spot_new(&s, WIRE_P_LEAVE_SITE, 0, m, vaddr);

	if (r < 0)
		return r;
	s->program_fd = t->options.program_fd;
	r = choose(t, s);
	r = r < 0 ? r : vec_push(&t->spots, s);
	if (r < 0) {
		spot_free(s);
		return r;
	}
	r = hash_set(&t->index, spot_key(m, vaddr), t->spots.n - 1);
	if (r < 0) {
		t->spots.n--;
		spot_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void tally(struct counters *counters, enum counter id)
{
	if (counters)
		counters->v[id]++;
}

static int get_spot(struct retsites *t, struct module *m, uint64_t ret_vaddr,
		    struct counters *counters, struct spot **ret)
{
	int r;

	*ret = find_spot(t, m, ret_vaddr);
	if (*ret)
		return 0;
	r = new_spot(t, m, ret_vaddr, ret);
	if (r < 0)
		tally(counters, COUNTER_RETSITE_REFUSED);
	else if (!(*ret)->site.cheap)
		tally(counters, COUNTER_RETSITE_DEAR);
	return r;
}

int retsites_add(struct retsites *t, const struct retsites_scope *scope, struct module *m,
		 uint64_t ret_vaddr, uint64_t bias, struct counters *counters)
{
	struct spot *s;
	int r = get_spot(t, m, ret_vaddr, counters, &s);

	if (r == 0) {
		r = spot_attach(s, source_of(t), scope->pid, NULL);
		if (r < 0)
			tally(counters, COUNTER_ATTACH_FAILED);
	}
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		mark(t, scope->as_id, ret_vaddr + bias, WIRE_SITE_HOPELESS);
	else
		r = mark(t, scope->as_id, ret_vaddr + bias, WIRE_SITE_ATTACHED);
	return r;
}

int retsites_add_callers(struct retsites *t, const struct retsites_scope *scope, struct module *m,
			 const uint64_t *ret_vaddrs, size_t n, uint64_t bias)
{
	VEC(struct spot *) spots = {0};
	size_t n_failed;
	int r = 0;

	for (size_t i = 0; i < n && r != -ENOMEM; i++) {
		struct spot *s;

		if (get_spot(t, m, ret_vaddrs[i], NULL, &s) == 0)
			r = vec_push(&spots, s);
	}
	if (r == 0 && spots.n)
		spots_attach(spots.at, spots.n, source_of(t), scope->pid, &n_failed);
	for (size_t i = 0; i < spots.n && r == 0; i++)
		if (spot_covers(spots.at[i], scope->pid))
			r = mark(t, scope->as_id, spots.at[i]->vaddr + bias, WIRE_SITE_ATTACHED);
	vec_free(&spots);
	return r;
}

static bool is_known(const struct retsites *t, uint32_t as_id, uint64_t ret_addr)
{
	struct wire_site_key key = {.ret_addr = ret_addr, .as_id = as_id};
	uint32_t value;

	return bpf_map_lookup_elem(t->options.map_fd, &key, &value) == 0 &&
	       WIRE_SITE_STATE(value) == WIRE_SITE_ATTACHED;
}

int retsites_adopt(struct retsites *t, const struct retsites_scope *scope,
		   struct counters *counters)
{
	const struct space_range *ranges;
	size_t n = space_ranges(scope->space, &ranges);

	for (size_t i = 0; i < t->spots.n; i++) {
		struct spot *s = t->spots.at[i];

		for (size_t k = 0; k < n; k++) {
			uint64_t ret_addr = s->vaddr + ranges[k].bias;
			int r;

			if (!ranges[k].module ||
			    module_id(ranges[k].module) != module_id(s->module) ||
			    ret_addr < ranges[k].start || ret_addr >= ranges[k].end)
				continue;
			if (spot_covers(s, scope->pid) && is_known(t, scope->as_id, ret_addr))
				continue;
			r = retsites_add(t, scope, s->module, s->vaddr, ranges[k].bias, counters);
			if (r == -ENOMEM)
				return r;
		}
	}
	return 0;
}

void retsites_forget(struct retsites *t, pid_t pid, uint32_t as_id, bool last)
{
	size_t kept = 0;

	spots_detach(t->spots.at, t->spots.n, pid);
	for (size_t i = 0; last && i < t->known.n; i++) {
		struct wire_site_key key = {.ret_addr = t->known.at[i].ret_addr, .as_id = as_id};

		if (t->known.at[i].as_id != as_id)
			t->known.at[kept++] = t->known.at[i];
		else
			bpf_map_delete_elem(t->options.map_fd, &key);
	}
	if (last)
		t->known.n = kept;
}

int retsites_widen(struct retsites *t, const struct module *m)
{
	VEC(struct spot *) spots = {0};
	size_t n_failed = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->spots.n; i++)
		if (module_id(t->spots.at[i]->module) == module_id(m))
			r = vec_push(&spots, t->spots.at[i]);
	if (r == 0 && spots.n)
		spots_attach(spots.at, spots.n, source_of(t), -1, &n_failed);
	vec_free(&spots);
	return r < 0 ? r : n_failed ? -EIO : 0;
}

bool retsites_shed(struct retsites *t)
{
	for (size_t i = 0; i < t->spots.n; i++)
		if (spot_shed(t->spots.at[i]))
			return true;
	return false;
}

void retsites_count(const struct retsites *t, const struct module *m, unsigned int *ret_n,
		    unsigned int *ret_dear)
{
	*ret_n = *ret_dear = 0;
	for (size_t i = 0; i < t->spots.n; i++) {
		if (module_id(t->spots.at[i]->module) != module_id(m))
			continue;
		++*ret_n;
		*ret_dear += !t->spots.at[i]->site.cheap;
	}
}
