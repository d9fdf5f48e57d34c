/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare_probes: the floor of what probing can cost: a process's endpoints probed at the very places that
 * spanprof chooses for them, known callers included, with a program that does nothing. Says "ready" when
 * they are there, and ends with its standard input.
 *
 *   bare_probes PID SPECIFICATION...
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/multi.h"
#include "probe/probes.h"
#include "probe/rules.h"

enum { SITES_MAX = 4096, AS_ID = 1 };

static int load_empty(const struct attach_source *source)
{
	/* r0 = 0; exit */
	const struct bpf_insn insns[] = {{.code = 0xb7}, {.code = 0x95}};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type =
			    source->multi ? (enum bpf_attach_type)MULTI_ATTACH_TYPE : 0);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "bare", "GPL", insns, 2, &opts);
}

static int new_probes(struct probes **ret, struct errmsg *e)
{
	struct probes_options o = {.preset_callers = true};
	struct probe_programs programs = {.enter_sleepable_fd = -1};
	int r = attach_source_read(&o.source, e);

	if (r < 0)
		return r;
	rules_measure(&o.source, &o.rules);
	programs.enter_fd = load_empty(&o.source);
	programs.leave_fd = programs.end_fd = programs.ret_fd = programs.uret_fd =
		programs.enter_fd;
	programs.endpoints_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, sizeof(uint32_t),
					       sizeof(struct wire_endpoint), WIRE_EP_MAX, NULL);
	programs.return_sites_fd =
		bpf_map_create(BPF_MAP_TYPE_HASH, NULL, sizeof(struct wire_site_key),
			       sizeof(uint32_t), SITES_MAX, NULL);
	if (programs.enter_fd < 0 || programs.endpoints_fd < 0 || programs.return_sites_fd < 0)
		return errmsg_set(e, -EPERM, "cannot load an empty program");
	return probes_new(ret, &programs, &o);
}

static int attach(struct probes *p, struct space *space, int argc, char **argv, struct errmsg *e)
{
	struct probes_process process = {
		.pid = atoi(argv[1]), .as_id = AS_ID, .space = space, .forks = true};
	uint32_t id;

	for (int i = 2; i < argc; i++) {
		struct endpoint *ep = NULL;
		int r = parse_endpoint(argv[i], &ep, e);

		r = r < 0 ? r : probes_add_endpoint(p, ep, &id);
		if (r < 0)
			return r;
		process.endpoints |= 1ULL << id;
	}
	return probes_add_process(p, &process, e);
}

int main(int argc, char **argv)
{
	struct space_cache *cache = NULL;
	struct probes *probes = NULL;
	struct space *space = NULL;
	struct errmsg e = {""};
	struct probe_info info;
	char byte;
	int r = argc < 3 ? -EINVAL : space_cache_new(&cache);

	r = r < 0 ? r : space_new(&space, cache, atoi(argv[1]));
	r = r < 0 ? r : new_probes(&probes, &e);
	r = r < 0 ? r : attach(probes, space, argc, argv, &e);
	if (r < 0) {
		fprintf(stderr, "bare_probes: %s\n", e.text[0] ? e.text : strerror(-r));
	} else {
		for (size_t i = 0; probes_info(probes, i, &info); i++)
			printf("%s%s, %u return sites, %u of them dear\n", info.symbol,
			       info.dear ? " (dear)" : "", info.n_return_sites, info.n_dear_sites);
		printf("ready\n");
		fflush(stdout);
		while (read(STDIN_FILENO, &byte, 1) > 0)
			;
	}
	probes_free(probes);
	space_free(space);
	space_cache_free(cache);
	return r < 0;
}
