/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rules.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "probe/detach.h"
#include "probe/trial.h"

enum { ROUNDS = 15, CALLS = 20 };

/* Best of some rounds, ns per call of the function at `fn` with a probe at `site`; 0: no probe. */
static uint64_t bench_cost(const struct trial *b, const struct attach_source *source,
			   int program_fd, size_t fn, size_t site)
{
	struct attach_point at = {
		.file_fd = b->fd, .file_off = site, .pid = getpid(), .program_fd = program_fd};
	struct attachment attachment = ATTACHMENT_NONE;
	uint64_t best = UINT64_MAX;

	if (probe_attach(source, &at, &attachment, NULL) < 0)
		return 0;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_mono_ns(), took;

		for (unsigned int k = 0; k < CALLS; k++)
			trial_call(b, fn);
		took = (clock_mono_ns() - start) / CALLS;
		best = took < best ? took : best;
	}
	probe_detach(&attachment);
	return best;
}

void rules_measure_cost(const struct attach_source *source, struct rules_cost *ret)
{
	AUTO_CLOSE int program_fd = trial_program(source, -1);
	struct trial b;

	*ret = (struct rules_cost){0};
	if (program_fd < 0 || trial_open(&b) < 0)
		return;
	ret->push_ns = bench_cost(&b, source, program_fd, TRIAL_PUSH_AT, TRIAL_PUSH_AT);
	ret->long_nop_ns = bench_cost(&b, source, program_fd, TRIAL_NOP_AT, TRIAL_NOP_AT + 1);
	ret->stepped_ns = bench_cost(&b, source, program_fd, TRIAL_MOV_AT, TRIAL_MOV_AT);
	trial_close(&b);
}

/* The page of code in which the kernel steps over instructions: made at the first one, then kept. */
static bool has_step_page(void)
{
	AUTO_FREE char *maps = NULL;
	size_t bytes;

	return read_file(AT_FDCWD, "/proc/self/maps", 4 << 20, &maps, &bytes) == 0 &&
	       strstr(maps, "[uprobes]\n");
}

/* An emulated nop costs what a push costs; a stepped one costs half as much again or more. */
static bool is_cheap_nop(const struct attach_source *source)
{
	struct rules_cost cost;

	rules_measure_cost(source, &cost);
	return cost.push_ns && cost.long_nop_ns &&
	       cost.long_nop_ns < cost.push_ns + cost.push_ns / 2;
}

static void *call_nop(void *b)
{
	trial_call(b, TRIAL_NOP_AT);
	return NULL;
}

/* From another thread than the first, when there can be one. */
static void call_aside(struct trial *b)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, call_nop, b) != 0)
		call_nop(b);
	else
		pthread_join(thread, NULL);
}

/* Whether the call of a probed long nop was seen; if so, whether the kernel emulated it. */
static bool try_nop(const struct attach_source *source, struct trial *b, bool *ret_emulated)
{
	AUTO_CLOSE int map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "probe_trial", 4, 8, 1, NULL);
	AUTO_CLOSE int program_fd = map_fd < 0 ? -1 : trial_program(source, map_fd);
	struct attach_point at = {.file_fd = b->fd,
				  .file_off = TRIAL_NOP_AT + 1,
				  .pid = getpid(),
				  .program_fd = program_fd};
	struct attachment attachment = ATTACHMENT_NONE;
	bool had_page = has_step_page();
	uint64_t n_calls = 0;
	uint32_t zero = 0;

	if (program_fd < 0 || probe_attach(source, &at, &attachment, NULL) < 0)
		return false;
	call_aside(b);
	probe_detach_later(&attachment, 1);
	if (bpf_map_lookup_elem(map_fd, &zero, &n_calls) < 0 || n_calls != 1)
		return false;
	*ret_emulated = had_page ? is_cheap_nop(source) : !has_step_page();
	return true;
}

void rules_measure(struct attach_source *source, struct site_rules *ret)
{
	struct trial b;
	bool is_seen;

	*ret = (struct site_rules){0};
	if (trial_open(&b) < 0)
		return;
	is_seen = try_nop(source, &b, &ret->long_nops);
	if (!is_seen && source->multi && source->type) {
		source->multi = false;
		try_nop(source, &b, &ret->long_nops);
	}
	trial_close(&b);
}
