/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_retsites.c: leave probes in this very process, and what the map says of them. As root.
 *
 * The probes run a program of two instructions.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/multi.h"
#include "probe/retsites.h"
#include "unit.h"

enum { AS = 5, OTHER_AS = 6 };

/* clang-format off */
__asm__(
	".text\n"
	".globl retsites_caller, retsites_dear, retsites_first, retsites_second, retsites_none\n"
	".type retsites_caller, @function\n"
	"retsites_caller:\n"
	"	push %rbp\n"
	"	call retsites_callee\n"
	"retsites_dear:\n"
	"	mov $9, %eax\n" /* a dear place; the next one is not */
	"	nop\n"
	"	call retsites_callee\n"
	"retsites_first:\n"
	"	nop\n"
	"	call retsites_callee\n"
	"retsites_second:\n"
	"	nop\n"
	"	pop %rbp\n"
	"	ret\n"
	".size retsites_caller, . - retsites_caller\n"
	".type retsites_callee, @function\n"
	"retsites_callee:\n"
	"	mov $7, %eax\n"
	"retsites_none:\n" /* no call ends here */
	"	ret\n"
	".size retsites_callee, . - retsites_callee\n");
/* clang-format on */

int retsites_caller(void);
extern const uint8_t retsites_dear[], retsites_first[], retsites_second[], retsites_none[];

struct world {
	int program_fd;
	struct attach_source source;
	struct retsites_options o;
	struct space_cache *cache;
	struct retsites_scope scope;
	struct retsites *t;
	struct module *m;
	uint64_t bias;
	struct counters counters;
};

static int load_program(const struct attach_source *source)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts);

	if (source->multi)
		opts.expected_attach_type = (enum bpf_attach_type)MULTI_ATTACH_TYPE;
	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", insns, ARRAY_SIZE(insns), &opts);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct errmsg e = {};

	assert_non_null(w);
	*state = w;
	w->o.map_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "sites", sizeof(struct wire_site_key), 4,
				     16, NULL);
	if (w->o.map_fd < 0 || attach_source_read(&w->source, &e) ||
	    (w->program_fd = load_program(&w->source)) < 0)
		return 0;
	w->o.program_fd = w->program_fd;
	w->o.source = &w->source;
	assert_int_equal(space_cache_new(&w->cache), 0);
	w->scope = (struct retsites_scope){.pid = getpid(), .as_id = AS};
	assert_int_equal(space_new(&w->scope.space, w->cache, getpid()), 0);
	assert_int_equal(space_refresh(w->scope.space), 0);
	assert_int_equal(retsites_new(&w->t, &w->o), 0);
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	retsites_free(w->t);
	space_free(w->scope.space);
	space_cache_free(w->cache);
	if (w->t)
		close(w->program_fd);
	if (w->o.map_fd >= 0)
		close(w->o.map_fd);
	free(w);
	return 0;
}

static struct world *world(void **state)
{
	struct world *w = *state;
	uint64_t vaddr;

	if (!w->t) {
		print_message("BPF programs are not permitted here: run as root\n");
		skip();
	}
	assert_true(space_resolve(w->scope.space, (uintptr_t)retsites_first, &w->m, &vaddr));
	w->bias = (uintptr_t)retsites_first - vaddr;
	return w;
}

/* What the map says; -1: nothing. */
static int state_of(const struct world *w, uint32_t as_id, const uint8_t *at)
{
	const struct wire_site_key key = {.ret_addr = (uintptr_t)at, .as_id = as_id};
	uint32_t value;

	return bpf_map_lookup_elem(w->o.map_fd, &key, &value) ? -1 : (int)WIRE_SITE_STATE(value);
}

static uint8_t byte_at(const uint8_t *at)
{
	return *(const volatile uint8_t *)at;
}

static int add(struct world *w, const uint8_t *at)
{
	return retsites_add(w->t, &w->scope, w->m, (uintptr_t)at - w->bias, w->bias, &w->counters);
}

static void a_site_is_known_while_it_is_probed(void **state)
{
	struct world *w = world(state);
	struct spot *const *spots;
	unsigned int n, n_dear;

	assert_int_equal(add(w, retsites_first), 0);
	assert_int_equal(add(w, retsites_first), 0);
	assert_int_equal(retsites_spots(w->t, &spots), 1);
	assert_int_equal(spots[0]->vaddr + w->bias, (uintptr_t)retsites_first);
	assert_true(spot_covers(spots[0], getpid()));
	assert_int_equal(state_of(w, AS, retsites_first), WIRE_SITE_ATTACHED);
	assert_int_equal(state_of(w, OTHER_AS, retsites_first), -1);
	assert_int_equal(state_of(w, AS, retsites_second), -1);
	assert_int_equal(byte_at(retsites_first), 0xcc);
	assert_int_equal(byte_at(retsites_second), 0x90);
	assert_int_equal(retsites_caller(), 7);
	retsites_count(w->t, w->m, &n, &n_dear);
	assert_int_equal(n, 1);
	assert_int_equal(n_dear, 0);

	/* Another process uses the address space still: then the process is gone, and then that. */
	retsites_forget(w->t, getpid(), AS, false);
	assert_false(spot_covers(spots[0], getpid()));
	assert_int_equal(state_of(w, AS, retsites_first), WIRE_SITE_ATTACHED);
	retsites_forget(w->t, getpid(), AS, true);
	assert_int_equal(state_of(w, AS, retsites_first), -1);
}

/* Only the first is probed for what is no call's return; and nothing is tried again. */
static void what_is_no_call_is_hopeless(void **state)
{
	struct world *w = world(state);
	struct spot *const *spots;

	assert_true(add(w, retsites_none) < 0);
	assert_int_equal(state_of(w, AS, retsites_none), WIRE_SITE_HOPELESS);
	assert_int_equal(w->counters.v[COUNTER_RETSITE_REFUSED], 1);
	assert_int_equal(retsites_spots(w->t, &spots), 0);
	retsites_mark_hopeless(w->t, AS, 0x1234);
	assert_int_equal(state_of(w, AS, (const uint8_t *)0x1234), WIRE_SITE_HOPELESS);
	assert_int_equal(byte_at(retsites_first), 0x90);
}

static void a_probe_that_the_kernel_refuses(void **state)
{
	struct world *w = world(state);

	w->o.program_fd = -1;
	retsites_free(w->t);
	assert_int_equal(retsites_new(&w->t, &w->o), 0);
	assert_true(add(w, retsites_first) < 0);
	assert_int_equal(state_of(w, AS, retsites_first), WIRE_SITE_HOPELESS);
	assert_int_equal(w->counters.v[COUNTER_ATTACH_FAILED], 1);
}

/* Those that are no sites are left out, not marked: the call that is seen there will be. */
static void many_at_once(void **state)
{
	struct world *w = world(state);
	const uint64_t at[] = {(uintptr_t)retsites_first - w->bias,
			       (uintptr_t)retsites_none - w->bias,
			       (uintptr_t)retsites_second - w->bias};

	assert_int_equal(retsites_add_callers(w->t, &w->scope, w->m, at, 3, w->bias), 0);
	assert_int_equal(state_of(w, AS, retsites_first), WIRE_SITE_ATTACHED);
	assert_int_equal(state_of(w, AS, retsites_second), WIRE_SITE_ATTACHED);
	assert_int_equal(state_of(w, AS, retsites_none), -1);
	assert_int_equal(byte_at(retsites_first), 0xcc);
	assert_int_equal(byte_at(retsites_second), 0xcc);
	assert_int_equal(retsites_caller(), 7);
	w->t = retsites_free(w->t);
	assert_int_equal(byte_at(retsites_first), 0x90);
	assert_int_equal(byte_at(retsites_second), 0x90);
}

/* Of another address space of the same file, and of every process once it is widened. */
static void known_sites_serve_other_processes(void **state)
{
	struct world *w = world(state);
	struct retsites_scope other = w->scope;
	struct spot *const *spots;

	assert_int_equal(add(w, retsites_first), 0);
	other.as_id = OTHER_AS;
	assert_int_equal(retsites_adopt(w->t, &other, &w->counters), 0);
	assert_int_equal(state_of(w, OTHER_AS, retsites_first), WIRE_SITE_ATTACHED);
	assert_int_equal(retsites_spots(w->t, &spots), 1);
	assert_false(spot_covers(spots[0], 1));
	assert_false(retsites_shed(w->t));
	assert_int_equal(retsites_widen(w->t, w->m), 0);
	assert_true(spot_covers(spots[0], 1));
	assert_true(retsites_shed(w->t));
	assert_false(retsites_shed(w->t));
	assert_true(spot_covers(spots[0], getpid()));
	assert_int_equal(byte_at(retsites_first), 0xcc);
	retsites_forget(w->t, getpid(), OTHER_AS, true);
	assert_int_equal(state_of(w, OTHER_AS, retsites_first), -1);
	assert_int_equal(state_of(w, AS, retsites_first), WIRE_SITE_ATTACHED);
	retsites_forget(w->t, getpid(), AS, true);
	assert_int_equal(state_of(w, AS, retsites_first), -1);
}

/* A dear place, where the value that a call returns is wanted and the cheap one is too late. */
static void return_values_are_kept(void **state)
{
	struct world *w = world(state);
	struct spot *const *spots;
	unsigned int n, n_dear;

	assert_int_equal(add(w, retsites_dear), 0);
	retsites_spots(w->t, &spots);
	assert_int_equal(spots[0]->site.off, 5);
	retsites_free(w->t);
	assert_int_equal(retsites_new(&w->t, &w->o), 0);
	retsites_keep_return_value(w->t);
	assert_int_equal(add(w, retsites_dear), 0);
	retsites_spots(w->t, &spots);
	assert_int_equal(spots[0]->site.off, 0);
	assert_int_equal(retsites_caller(), 7);
	retsites_count(w->t, w->m, &n, &n_dear);
	assert_int_equal(n_dear, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_site_is_known_while_it_is_probed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_no_call_is_hopeless, setup, teardown),
		cmocka_unit_test_setup_teardown(a_probe_that_the_kernel_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(many_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(known_sites_serve_other_processes, setup, teardown),
		cmocka_unit_test_setup_teardown(return_values_are_kept, setup, teardown),
	};

	return cmocka_run_group_tests_name("retsites", tests, NULL, NULL);
}
