/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/bpftime.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

int bpftime_enable(void)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	return fd < 0 ? -errno : fd;
}

int bpftime_add(const struct bpf_object *o, const char *program, struct bpftime *sum)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o)
	{
		struct bpf_prog_info info = {};
		uint32_t bytes = sizeof(info);

		if ((program && strcmp(program, bpf_program__name(p))) || !bpf_program__autoload(p))
			continue;
		if (bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &bytes))
			return -errno;
		sum->run_ns += info.run_time_ns;
		sum->n_runs += info.run_cnt;
	}
	return 0;
}
