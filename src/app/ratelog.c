/* SPDX-License-Identifier: Apache-2.0 */
#include "app/ratelog.h"

#define SECOND    1000000000ULL
#define COST_NS   (SECOND / RATELOG_PER_SECOND)
#define CREDIT_NS (RATELOG_BURST * COST_NS)

bool ratelog_allow(struct ratelog *r, uint64_t now_ns, uint64_t *ret_suppressed)
{
	uint64_t passed = r->started && now_ns > r->last_ns ? now_ns - r->last_ns : 0;

	if (!r->started)
		r->credit_ns = CREDIT_NS;
	r->started = true;
	r->last_ns = now_ns;
	r->credit_ns = passed > CREDIT_NS - r->credit_ns ? CREDIT_NS : r->credit_ns + passed;
	if (r->credit_ns < COST_NS) {
		r->n_suppressed++;
		return false;
	}
	r->credit_ns -= COST_NS;
	*ret_suppressed = r->n_suppressed;
	r->n_suppressed = 0;
	return true;
}
