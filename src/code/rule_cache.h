/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rule_cache.h: what is known of (module, address): its call frame rule, or that there is none.
 *
 * Bounded. Many addresses share few rules, so a slot holds the number of a rule that is kept once.
 * Sets of four slots; in a full set one is replaced. When the table of rules is full, everything
 * is forgotten. Both are counted by rule_cache_evicted().
 */
#ifndef SPANPROF_CODE_RULE_CACHE_H
#define SPANPROF_CODE_RULE_CACHE_H

#include "code/cfi.h"

struct rule_cache;

/* Slots: a power of two. */
int rule_cache_new(struct rule_cache **ret, size_t n_slots, size_t max_rules);
struct rule_cache *rule_cache_free(struct rule_cache *c);

/* True when it is known; *ret_result is a CFI_OK with the rule, or another enum cfi_result. */
bool rule_cache_get(struct rule_cache *c, uint32_t module_id, uint64_t addr, int *ret_result,
		    const struct cfi_rule **ret_rule);

/*
 * Stores a result; rule may be NULL unless it is CFI_OK. The rule that is kept is borrowed until the
 * next put. 0 or -ENOMEM.
 */
int rule_cache_put(struct rule_cache *c, uint32_t module_id, uint64_t addr, int result,
		   const struct cfi_rule *rule, const struct cfi_rule **ret_rule);

/* Entries thrown out since the last call. */
uint64_t rule_cache_evicted(struct rule_cache *c);

/* Distinct rules kept. */
size_t rule_cache_rules(const struct rule_cache *c);

#endif
