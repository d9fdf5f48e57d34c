/* SPDX-License-Identifier: Apache-2.0 */
#include "app/absent.h"

void absent_find(struct engine *e, size_t n, bool ret[WIRE_EP_MAX])
{
	struct probe_info info;

	for (size_t i = 0; i < n; i++)
		ret[i] = true;
	for (size_t i = 0; probes_info(engine_probes(e), i, &info); i++)
		if (info.ep_id < n)
			ret[info.ep_id] = false;
}

void absent_mark(struct engine *e, const struct specs *specs, struct profile *p)
{
	size_t n = p->endpoints.n - 1;
	bool absent[WIRE_EP_MAX];

	absent_find(e, n, absent);
	for (size_t i = 0; i < n; i++) {
		struct profile_endpoint *row = &p->endpoints.at[i + 1];
		bool missing = absent[i] && !row->latency.n_enter;

		row->unprobed = missing && specs->others & 1ULL << i;
		row->absent = missing && !row->unprobed;
	}
}
