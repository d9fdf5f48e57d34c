/* SPDX-License-Identifier: Apache-2.0 */
#include "code/rule_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"

enum { WAYS = 4 };

/* rule: index + 1 of a rule; RESULT + enum cfi_result when there is none; 0: free slot. */
#define RESULT 0x80000000U

struct slot {
	uint64_t addr;
	uint32_t module_id;
	uint32_t rule;
};

struct kept_rule {
	struct cfi_rule *rule; /* owned, in one block with its operations */
};

struct rule_cache {
	struct slot *slots; /* owned */
	size_t n_slots;
	size_t max_rules;
	size_t n_used;
	VEC(struct kept_rule) rules;
	struct hash index; /* hash of a rule's content -> index; collisions go on at hash + 1 */
	uint32_t next_victim;
	uint64_t evicted;
};

_Static_assert(sizeof(struct cfi_value) == 8 && sizeof(struct cfi_op) == 16 &&
		       offsetof(struct cfi_rule, ops) ==
			       16 + WIRE_REG_MAX * sizeof(struct cfi_value),
	       "rules are compared as bytes: no padding");

int rule_cache_new(struct rule_cache **ret, size_t n_slots, size_t max_rules)
{
	struct rule_cache *c = calloc(1, sizeof(*c));

	assert(n_slots >= WAYS && !(n_slots & (n_slots - 1)) && max_rules < RESULT);
	if (!c)
		return -ENOMEM;
	hash_init(&c->index);
	c->n_slots = n_slots;
	c->max_rules = max_rules;
	c->slots = calloc(n_slots, sizeof(*c->slots));
	if (!c->slots) {
		rule_cache_free(c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}

static void forget_rules(struct rule_cache *c)
{
	for (size_t i = 0; i < c->rules.n; i++)
		free(c->rules.at[i].rule);
	vec_free(&c->rules);
	hash_deinit(&c->index);
}

struct rule_cache *rule_cache_free(struct rule_cache *c)
{
	if (!c)
		return NULL;
	forget_rules(c);
	free(c->slots);
	free(c);
	return NULL;
}

static struct slot *set_of(struct rule_cache *c, uint32_t module_id, uint64_t addr)
{
	uint64_t h = hash_mix((addr + ((uint64_t)module_id << 40)) ^ c->index.seed);

	return &c->slots[(h & (c->n_slots - 1)) & ~(size_t)(WAYS - 1)];
}

bool rule_cache_get(struct rule_cache *c, uint32_t module_id, uint64_t addr, int *ret_result,
		    const struct cfi_rule **ret_rule)
{
	const struct slot *s = set_of(c, module_id, addr);

	for (size_t i = 0; i < WAYS; i++, s++) {
		if (s->addr != addr || s->module_id != module_id || !s->rule)
			continue;
		if (s->rule & RESULT) {
			*ret_result = (int)(s->rule & ~RESULT);
		} else {
			*ret_result = CFI_OK;
			*ret_rule = c->rules.at[s->rule - 1].rule;
		}
		return true;
	}
	return false;
}

static size_t ops_bytes(const struct cfi_rule *r)
{
	return r->n_ops * sizeof(struct cfi_op);
}

static bool same_rule(const struct cfi_rule *a, const struct cfi_rule *b)
{
	return !memcmp(a, b, offsetof(struct cfi_rule, ops)) &&
	       (!a->n_ops || !memcmp(a->ops, b->ops, ops_bytes(a)));
}

static struct cfi_rule *copy_rule(const struct cfi_rule *rule)
{
	struct cfi_rule *copy = malloc(sizeof(*copy) + ops_bytes(rule));
	struct cfi_op *ops = (struct cfi_op *)(copy + 1);

	if (!copy)
		return NULL;
	*copy = *rule;
	if (rule->n_ops)
		memcpy(ops, rule->ops, ops_bytes(rule));
	copy->ops = ops;
	return copy;
}

/* Forgets everything when there is no room for one more rule. */
static void make_room(struct rule_cache *c)
{
	if (c->rules.n < c->max_rules)
		return;
	forget_rules(c);
	memset(c->slots, 0, c->n_slots * sizeof(*c->slots));
	c->evicted += c->n_used;
	c->n_used = 0;
}

static int keep_rule(struct rule_cache *c, const struct cfi_rule *rule, size_t *ret_index)
{
	uint64_t h = hash_bytes(rule, offsetof(struct cfi_rule, ops), c->index.seed);
	AUTO_FREE struct cfi_rule *copy = NULL;
	uint64_t *found;
	int r;

	h = rule->n_ops ? hash_bytes(rule->ops, ops_bytes(rule), h) : h;
	for (; (found = hash_get(&c->index, h)); h++) {
		if (same_rule(c->rules.at[*found].rule, rule)) {
			*ret_index = *found;
			return 0;
		}
	}
	make_room(c);
	copy = copy_rule(rule);
	if (!copy)
		return -ENOMEM;
	r = vec_reserve(&c->rules, c->rules.n + 1);
	if (!r)
		r = hash_set(&c->index, h, c->rules.n);
	if (r)
		return r;
	*ret_index = c->rules.n;
	c->rules.at[c->rules.n++].rule = TAKE_PTR(copy);
	return 0;
}

static struct slot *choose_slot(struct rule_cache *c, uint32_t module_id, uint64_t addr)
{
	struct slot *set = set_of(c, module_id, addr);

	for (size_t i = 0; i < WAYS; i++)
		if (set[i].rule && set[i].addr == addr && set[i].module_id == module_id)
			return &set[i];
	for (size_t i = 0; i < WAYS; i++) {
		if (!set[i].rule) {
			c->n_used++;
			return &set[i];
		}
	}
	c->evicted++;
	return &set[c->next_victim++ % WAYS];
}

int rule_cache_put(struct rule_cache *c, uint32_t module_id, uint64_t addr, int result,
		   const struct cfi_rule *rule, const struct cfi_rule **ret_rule)
{
	uint32_t value = RESULT | (uint32_t)result;
	struct slot *s;
	size_t index;

	if (result == CFI_OK) {
		int r = keep_rule(c, rule, &index);

		if (r)
			return r;
		value = index + 1;
		*ret_rule = c->rules.at[index].rule;
	}
	s = choose_slot(c, module_id, addr);
	*s = (struct slot){.addr = addr, .module_id = module_id, .rule = value};
	return 0;
}

uint64_t rule_cache_evicted(struct rule_cache *c)
{
	uint64_t n = c->evicted;

	c->evicted = 0;
	return n;
}

size_t rule_cache_rules(const struct rule_cache *c)
{
	return c->rules.n;
}
