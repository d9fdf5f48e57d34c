/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c: what would be attached for an endpoint in this very process, and why nothing would be. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "own_modules.h"
#include "probe/plan.h"

#define NOTE(place, semaphore, name, arguments)       \
	"	.pushsection .note.stapsdt,\"\",\"note\"\n" \
	"	.balign 4\n"                                \
	"	.4byte 992f - 991f, 994f - 993f, 3\n"       \
	"991:	.asciz \"stapsdt\"\n"                   \
	"992:	.balign 4\n"                            \
	"993:	.8byte " place ", 0, " semaphore "\n" \
	"	.asciz \"plan\"\n"                          \
	"	.asciz \"" name "\"\n"                \
	"	.asciz \"" arguments "\"\n"           \
	"994:	.balign 4\n"                            \
	"	.popsection\n"
#define FUNCTION(name) ".globl " name "\n.type " name ", @function\n" name ":\n.cfi_startproc\n"
#define END(name)      ".cfi_endproc\n.size " name ", . - " name "\n"
#define PUSH           "push %rbp\n.cfi_adjust_cfa_offset 8\n"
#define POP            "pop %rbp\n.cfi_adjust_cfa_offset -8\n"

/* clang-format off */
__asm__(
	".text\n"
	FUNCTION("plan_cheap") PUSH POP "ret\n" END("plan_cheap")
	FUNCTION("plan_end") PUSH POP "ret\n" END("plan_end")
	FUNCTION("plan_other_end") PUSH POP "ret\n" END("plan_other_end")
	/* its argument has moved by the first cheap place */
	FUNCTION("plan_moved") "mov %rdi, %rax\n mov $1, %edi\n" PUSH POP "ret\n" END("plan_moved")
	FUNCTION("plan_dear") "mov $1, %eax\n ret\n" END("plan_dear")
	FUNCTION("plan_only_ret") "ret\n" END("plan_only_ret")
	FUNCTION("plan_jumps") "mov $1, %eax\n jmp plan_cheap\n" END("plan_jumps")
	FUNCTION("plan_places") PUSH "980: nop\n" POP "981: nop\n ret\n" END("plan_places")
	NOTE("980b", "plan_semaphore", "one", "8@%rdi")
	NOTE("980b", "0", "many", "8@%rdi")
	NOTE("981b", "0", "many", "8@%rdi")
	NOTE("981b", "0", "many", "8@%rsi")
	FUNCTION("plan_pair") "980: nop\n 981: nop\n ret\n" END("plan_pair")
	NOTE("980b", "0", "work__start", "8@%rdi")
	NOTE("981b", "0", "work__done", "8@%rdi")
	/* Linux 6.18 makes a call of it */
	FUNCTION("plan_long_nop") "980: .byte 0x0f, 0x1f, 0x44, 0, 0\n ret\n" END("plan_long_nop")
	NOTE("980b", "0", "long", "")
	/* neither a symbol nor unwind rules */
	".p2align 4\n .Lplan_bare: mov $1, %eax\n ret\n .p2align 4\n"
	".data\n .globl plan_bare, plan_semaphore\n"
	"plan_bare: .quad .Lplan_bare\n"
	"plan_semaphore: .short 0\n"
	".text\n");
/* clang-format on */

extern const uint64_t plan_bare;
void plan_cheap(void);

struct fixture {
	struct own_modules own;
	struct plan_options o;
	struct endpoint *ep;
	struct plan plan;
	struct errmsg e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	own_modules_init(&f->own);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	endpoint_free(f->ep);
	own_modules_deinit(&f->own);
	free(f);
	return 0;
}

static int try(struct fixture *f, const char *spec)
{
	endpoint_free(f->ep);
	f->ep = NULL;
	f->e.text[0] = '\0';
	if (parse_endpoint(spec, &f->ep, &f->e))
		fail_msg("%s", f->e.text);
	return plan_endpoint(&f->own.in, f->ep, &f->o, &f->plan, &f->e);
}

static const struct plan *made(struct fixture *f, const char *spec)
{
	if (try(f, spec))
		fail_msg("%s", f->e.text);
	return &f->plan;
}

/* The message begins with what it is about. */
static void refused(struct fixture *f, const char *spec, int r, const char *words)
{
	assert_int_equal(try(f, spec), r);
	if (strncmp(f->e.text, "endpoint '", 10) != 0 || !strstr(f->e.text, words))
		fail_msg("no '%s' in '%s'", words, f->e.text);
}

static void warns(const struct plan *p, const char *words)
{
	if (!strstr(p->warning, words))
		fail_msg("no '%s' in '%s'", words, p->warning);
}

static void by_return_sites_unless_told_otherwise(void **state)
{
	const struct plan *p = made(*state, "plan_cheap");

	assert_int_equal(p->leave, LEAVE_RETSITE);
	assert_int_equal(p->entry.n, 1);
	assert_int_equal(p->entry.places[0].vaddr + p->entry.function.bias, (uintptr_t)plan_cheap);
	assert_true(p->entry.places[0].site.cheap);
	assert_int_equal(p->end.n + p->rets.n, 0);
	assert_string_equal(p->warning, "");
	assert_false(p->nameless || p->wants_return_value);
	assert_true(made(*state, "plan_cheap;leave-name=int(ret)")->wants_return_value);
}

static void by_declared_ends(void **state)
{
	const struct plan *p = made(*state, "plan_cheap;end=plan_end");

	assert_int_equal(p->leave, LEAVE_END);
	assert_int_equal(p->end.n, 1);
	assert_string_equal(p->end.function.name, "plan_end");
	p = made(*state, "plan_cheap;end=plan_end|plan_other_end");
	assert_int_equal(p->end.n, 2);
	assert_int_not_equal(p->end.places[0].vaddr, p->end.places[1].vaddr);
	refused(*state, "plan_cheap;end=plan_end|getpid", -EOPNOTSUPP,
		"its two end functions are not in the same file");
	/* Arguments that nobody reads need not be at the same places. */
	assert_int_equal(made(*state, "plan_cheap;end=plan_moved|plan_end")->end.n, 2);
	refused(*state, "plan_cheap;end=plan_moved|plan_end;end-if=arg0==1", -EOPNOTSUPP,
		"its two end functions have their arguments in different registers");
}

static void by_returns(void **state)
{
	const struct plan *p = made(*state, "plan_cheap;leave=ret");

	assert_int_equal(p->leave, LEAVE_RET);
	assert_int_equal(p->rets.n, 1);
	assert_int_equal(p->rets.places[0].vaddr, p->entry.places[0].vaddr + 2);
	assert_int_equal(p->wire.flags & WIRE_EP_F_RET_SITES, WIRE_EP_F_RET_SITES);
	warns(p, "each return pays for single-stepping");
	/* Where it is best entered it is left. */
	assert_int_equal(made(*state, "plan_jumps")->entry.places[0].site.off, 5);
	p = made(*state, "plan_jumps;leave=ret");
	assert_int_equal(p->entry.places[0].site.off, 0);
	assert_int_equal(p->rets.places[0].vaddr, p->entry.places[0].vaddr + 5);
	refused(*state, "plan_only_ret;leave=ret", -EOPNOTSUPP,
		"the only instruction of plan_only_ret that can be probed is that by which it is left");
}

static void uretprobes_where_they_cannot_kill(void **state)
{
	struct fixture *f = *state;
	const struct plan *p;

	f->o.leave = LEAVE_URETPROBE;
	p = made(f, "plan_moved(arg0)");
	/* Before the return address is replaced. */
	assert_int_equal(p->entry.places[0].site.off, 0);
	assert_int_equal(p->wire.flags & WIRE_EP_F_URETPROBE, WIRE_EP_F_URETPROBE);
	f->o.runtimes = BINARY_CXX;
	refused(f, "plan_cheap", -EPERM,
		"a uretprobe could kill this process: it holds C++ code that may throw exceptions; use --leave retsite");
	f->o.force = true;
	warns(made(f, "plan_cheap"), "a uretprobe may kill this process: it holds C++ code");
	/* The specification's own way wins. */
	assert_int_equal(made(f, "plan_cheap;leave=retsite")->leave, LEAVE_RETSITE);
}

static void what_a_uretprobe_kills(void **state)
{
	static const unsigned int bits[] = {BINARY_GO,      BINARY_RUST,    BINARY_CXX,
					    BINARY_UNWINDS, BINARY_CONTEXT, BINARY_CANCEL};

	assert_null(plan_uretprobe_danger(0));
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		const char *text = plan_uretprobe_danger(bits[i]);

		assert_non_null(text);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(text, plan_uretprobe_danger(bits[k]));
	}
	assert_int_equal(
		plan_runtimes(&((struct fixture *)*state)->own.in) & (BINARY_GO | BINARY_RUST), 0);
}

/* A name reads the register that has the value at the site. */
static void arguments_that_have_moved(void **state)
{
	const struct plan *p = made(*state, "plan_moved(arg0)");
	bool from_rax = false;

	assert_true(p->entry.places[0].site.off > 0);
	assert_int_equal(p->wire.site_off, p->entry.places[0].site.off);
	for (uint32_t i = 0; i < p->wire.n_entry_ops; i++)
		if (p->wire.entry_ops[i].code == WIRE_OP_REG) {
			assert_int_not_equal(p->wire.entry_ops[i].arg, WIRE_REG_RDI);
			from_rax |= p->wire.entry_ops[i].arg == WIRE_REG_RAX;
		}
	assert_true(from_rax);
}

static void dear_places(void **state)
{
	const struct plan *p = made(*state, "plan_dear");

	assert_false(p->entry.places[0].site.cheap);
	warns(p, "plan_dear has no cheap place for a probe (");
}

static void usdt_probes(void **state)
{
	const struct plan *p = made(*state, "usdt:plan:one(int(arg0))");
	struct module *m = binary_module(p->entry.function.binary);
	uint64_t semaphore;

	assert_int_equal(p->leave, LEAVE_RETSITE);
	assert_int_equal(p->entry.n, 1);
	assert_int_equal(p->enclosing, p->entry.places[0].vaddr - 1);
	assert_string_equal(p->entry.function.symbol, "plan_places");
	/* The frame is one slot deep there. */
	assert_int_equal(p->entry.places[0].site.sp_slots, 1);
	assert_true(module_vaddr_of_offset(m, p->entry.places[0].semaphore_off, &semaphore));
	/* All places, unless their arguments differ where a name is read. */
	p = made(*state, "usdt:plan:many");
	assert_int_equal(p->entry.n, 3);
	assert_int_equal(p->entry.places[0].semaphore_off, 0);
	p = made(*state, "usdt:plan:many(int(arg0))");
	assert_int_equal(p->entry.n, 2);
	assert_int_equal(p->entry.n_left_out, 1);
	warns(p, "some of its places are left out");
	p = made(*state, "usdt:plan:work__start");
	assert_int_equal(p->leave, LEAVE_END);
	assert_string_equal(p->end.function.name, "plan:work__done");
}

static void usdt_probes_that_cannot_be(void **state)
{
	refused(*state, "usdt:plan:none", -ENOENT,
		"has no USDT probe plan:none (spanprof probes -p ");
	refused(*state, "usdt:plan:long", -EOPNOTSUPP,
		"an instruction that cannot be probed without harm");
	refused(*state, "usdt:plan:one;leave=ret", -EOPNOTSUPP,
		"a USDT probe is a place inside a function");
}

static void not_here(void **state)
{
	refused(*state, "plan_cheep", -ENOENT, "plan_cheap");
	refused(*state, "plan_cheap;file=*/another", -ESRCH, "is not for /");
	assert_int_equal(made(*state, "plan_cheap;file=*/test_plan")->entry.n, 1);
}

static void offsets_that_nothing_vouches_for(void **state)
{
	struct fixture *f = *state;
	uint64_t off, bias;
	char spec[64];

	bias = made(f, "plan_cheap")->entry.function.bias;
	assert_true(module_offset_of_vaddr(binary_module(f->plan.entry.function.binary),
					   plan_bare - bias, &off));
	snprintf(spec, sizeof(spec), "test_plan:0x%lx", (unsigned long)off);
	refused(f, spec, -EPERM, "inside one a probe breaks the program; --force if you are sure");
	f->o.force = true;
	assert_int_equal(made(f, spec)->entry.places[0].vaddr, plan_bare - bias);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(by_return_sites_unless_told_otherwise, setup,
						teardown),
		cmocka_unit_test_setup_teardown(by_declared_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(by_returns, setup, teardown),
		cmocka_unit_test_setup_teardown(uretprobes_where_they_cannot_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_uretprobe_kills, setup, teardown),
		cmocka_unit_test_setup_teardown(arguments_that_have_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(dear_places, setup, teardown),
		cmocka_unit_test_setup_teardown(usdt_probes, setup, teardown),
		cmocka_unit_test_setup_teardown(usdt_probes_that_cannot_be, setup, teardown),
		cmocka_unit_test_setup_teardown(not_here, setup, teardown),
		cmocka_unit_test_setup_teardown(offsets_that_nothing_vouches_for, setup, teardown),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
