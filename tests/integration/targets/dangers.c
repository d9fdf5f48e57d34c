/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dangers: calls that a careless probe would break. Each danger is played COUNT times and checks its
 * own state; the exit status is 0 only when nothing was disturbed.
 *
 *   dangers [-p PLUGIN] DANGER COUNT
 *
 * Prints "ready", waits for a line, plays, prints "calls N" and "done", waits for the end of input.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "stage.h"

/* The endpoint: what it does is given by `how`. n_calls counts how often it was entered. */
FRAME long request(long n, int how);
FRAME long first_of_chain(long n, int how);
FRAME long second_of_chain(long n, int how);
FRAME long recurse(long n, int how);
FRAME long called_back(long n, int how);
long dear_caller(long n, int how);
long red_zone(long n);
long red_zone_caller(long n);
long nop_first(long n);
long store_first(long *to, long n);
long forged(long n);
long forged_caller(long n);
unsigned long forged_constant(void);

enum { HOW_RETURN, HOW_JUMP, HOW_EXIT, HOW_WAIT, HOW_SWITCH, HOW_FORK, HOW_SIGNAL };

static jmp_buf back;
static sigjmp_buf signal_back;
static long n_calls, n_bad, n_cleaned;
static const char *plugin_path;

enum { COROUTINES = 4, STACK_BYTES = 64 << 10 };
static ucontext_t scheduler, coroutines[COROUTINES];
static int current;

static void expect(int is_true)
{
	n_bad += !is_true;
}

static void count_call(void)
{
	__atomic_fetch_add(&n_calls, 1, __ATOMIC_RELAXED);
}

static void fork_here(void)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0)
		return; /* the child returns through the same frames, and ends at the top */
	expect(waitpid(child, &status, 0) == child && status == 0);
}

long request(long n, int how)
{
	count_call();
	switch (how) {
	case HOW_JUMP:
		longjmp(back, 1);
	case HOW_SIGNAL:
		raise(SIGUSR1);
		abort();
	case HOW_EXIT:
		pthread_exit((void *)n);
	case HOW_WAIT:
		for (;;)
			pause();
	case HOW_SWITCH:
		swapcontext(&coroutines[current], &scheduler);
		break;
	case HOW_FORK:
		fork_here();
		break;
	default:
		break;
	}
	return n + 1;
}

/* The compiler makes jumps of these calls: all return at once, to the first one's caller. */
long second_of_chain(long n, int how)
{
	count_call();
	return request(n, how);
}

long first_of_chain(long n, int how)
{
	count_call();
	return second_of_chain(n, how);
}

long recurse(long n, int how)
{
	long below = 0;

	count_call();
	if (n)
		below = recurse(n - 1, how);
	__asm__ volatile("" : "+r"(below)); /* keeps the compiler from making a loop of it */
	return n ? below + 1 : 0;
}

long called_back(long n, int how)
{
	return request(n, how) + 1;
}

/* A caller without a cheap instruction behind its call. */
__asm__(".text\n"
	".globl dear_caller\n"
	".type dear_caller, @function\n"
	"dear_caller:\n"
	"	.cfi_startproc\n"
	"	subq $8, %rsp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	call request\n"
	"	addq $8, %rsp\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size dear_caller, .-dear_caller\n");

/*
 * Values below SP live across a nop of five bytes, which is the only instruction here that is cheap to
 * probe: a kernel that makes a call of it would overwrite them.
 */
#define NOP5 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
__asm__(".text\n"
	".globl red_zone, red_zone_caller\n"
	".type red_zone, @function\n"
	"red_zone:\n"
	"	.cfi_startproc\n"
	"	movq %rdi, -8(%rsp)\n"
	"	" NOP5 "	movq -8(%rsp), %rax\n"
	"	addq $1, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size red_zone, .-red_zone\n"
	".type red_zone_caller, @function\n"
	"red_zone_caller:\n"
	"	.cfi_startproc\n"
	"	subq $8, %rsp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	call red_zone\n"
	"	movq %rax, -8(%rsp)\n"
	"	" NOP5 "	movq -8(%rsp), %rax\n"
	"	addq $8, %rsp\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size red_zone_caller, .-red_zone_caller\n");

static void play_red_zone(long count)
{
	for (long i = 0; i < count; i++) {
		count_call();
		expect(red_zone_caller(i) == i + 1);
	}
}

/*
 * A nop of five bytes before anything lies below SP: there a kernel may make a call of it, and the values
 * that are put there afterwards must live.
 */
#ifdef __CET__
#define ENDBR "endbr64\n"
#else
#define ENDBR ""
#endif
__asm__(".text\n"
	".globl nop_first\n"
	".type nop_first, @function\n"
	"nop_first:\n"
	"	.cfi_startproc\n"
	"	" ENDBR "	" NOP5 "	movq %rdi, -8(%rsp)\n"
	"	movq -8(%rsp), %rax\n"
	"	addq $1, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size nop_first, .-nop_first\n");

static void play_nop_first(long count)
{
	for (long i = 0; i < count; i++) {
		count_call();
		expect(nop_first(i) == i + 1);
	}
}

/*
 * The cheap place comes behind a store to memory and to the red zone: fine for who reads just the second
 * argument. Every fourth call is let through by the condition.
 */
__asm__(".text\n"
	".globl store_first\n"
	".type store_first, @function\n"
	"store_first:\n"
	"	.cfi_startproc\n"
	"	" ENDBR "	movq %rsi, (%rdi)\n"
	"	movq %rsi, %rax\n"
	"	movq %rsi, -16(%rsp)\n"
	"	leaq 1(%rsi), %rsi\n"
	"	cmpq $3, %rsi\n"
	"	je 1f\n"
	"	addq $1, %rax\n"
	"	ret\n"
	"1:	movq -16(%rsp), %rax\n"
	"	addq $1, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size store_first, .-store_first\n");

static void play_store_first(long count)
{
	long stored = -1;

	for (long i = 0; i < count; i++) {
		if (i % 4 == 0)
			count_call();
		expect(store_first(&stored, i % 4) == i % 4 + 1);
		expect(stored == i % 4);
	}
}

/*
 * A return address that is none: it is inside a constant, behind bytes that look like a call. forged()
 * leaves by the one above it.
 */
#define CONSTANT 0x90909000000000e8UL /* call of what follows; nop; nop; nop */
__asm__(".text\n"
	".globl forged, forged_caller, forged_constant\n"
	".type forged, @function\n"
	"forged:\n"
	"	.cfi_startproc\n"
	"	" ENDBR "	pushq %rbx\n"
	"	popq %rbx\n"
	"	leaq 1(%rdi), %rax\n"
	"	addq $8, %rsp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size forged, .-forged\n"
	".type forged_caller, @function\n"
	"forged_caller:\n"
	"	.cfi_startproc\n"
	"	leaq 1f(%rip), %rax\n"
	"	leaq forged_constant+7(%rip), %rcx\n"
	"	pushq %rax\n"
	"	pushq %rcx\n"
	"	jmp forged\n"
	"1:	ret\n"
	"	.cfi_endproc\n"
	".size forged_caller, .-forged_caller\n"
	".type forged_constant, @function\n"
	"forged_constant:\n"
	"	.cfi_startproc\n"
	"	movabsq $0x90909000000000e8, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size forged_constant, .-forged_constant\n");

static void play_forged(long count)
{
	for (long i = 0; i < count; i++) {
		count_call();
		expect(forged_caller(i) == i + 1);
		expect(forged_constant() == CONSTANT);
	}
}

static void play_returns(long count)
{
	for (long i = 0; i < count; i++)
		expect(request(i, HOW_RETURN) == i + 1);
}

static void play_longjmp(long count)
{
	for (volatile long i = 0; i < count; i++) {
		if (!setjmp(back))
			request(i, i % 2 ? HOW_JUMP : HOW_RETURN);
		expect(request(i, HOW_RETURN) == i + 1);
	}
}

static void on_signal(int number)
{
	siglongjmp(signal_back, number);
}

static void play_siglongjmp(long count)
{
	signal(SIGUSR1, on_signal);
	for (volatile long i = 0; i < count; i++) {
		if (!sigsetjmp(signal_back, 1))
			request(i, HOW_SIGNAL);
		expect(request(i, HOW_RETURN) == i + 1);
	}
}

static void cleaned(void *arg)
{
	__atomic_fetch_add(&n_cleaned, (long)(intptr_t)arg, __ATOMIC_RELAXED);
}

static void *thread_main(void *arg)
{
	long how = (long)arg;

	pthread_cleanup_push(cleaned, (void *)1);
	request(7, (int)how);
	pthread_cleanup_pop(0);
	return NULL;
}

static void end_threads(long count, int how)
{
	for (long i = 0; i < count; i++) {
		pthread_t thread;
		void *result = NULL;

		if (pthread_create(&thread, NULL, thread_main, (void *)(long)how))
			abort();
		if (how == HOW_WAIT)
			pthread_cancel(thread);
		pthread_join(thread, &result);
		expect(result == (how == HOW_WAIT ? PTHREAD_CANCELED : (void *)7L));
	}
}

static void play_pthread_exit(long count)
{
	end_threads(count, HOW_EXIT);
	expect(n_cleaned == count); /* the caller's clean-up handler has run each time */
}

/* A thread may be cancelled before its handler is in place, so only the join is checked. */
static void play_pthread_cancel(long count)
{
	end_threads(count, HOW_WAIT);
}

static void coroutine_main(void)
{
	int own = current;

	for (;;) {
		expect(request(own, HOW_SWITCH) == own + 1);
		swapcontext(&coroutines[own], &scheduler);
	}
}

/* Coroutines enter request() in one order and leave it in another. */
static void play_swapcontext(long count)
{
	static char stacks[COROUTINES][STACK_BYTES];

	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack.ss_sp = stacks[i];
		coroutines[i].uc_stack.ss_size = STACK_BYTES;
		makecontext(&coroutines[i], coroutine_main, 0);
	}
	for (long i = 0; i < count; i++) {
		current = (int)((i / COROUTINES % 2 ? 3 * i + 1 : i) % COROUTINES);
		swapcontext(&scheduler, &coroutines[current]);
	}
}

static void play_fork(long count)
{
	pid_t own = getpid();

	for (long i = 0; i < count; i++) {
		expect(request(i, HOW_FORK) == i + 1);
		if (getpid() != own)
			_exit(n_bad != 0);
	}
}

static int is_over;

/* Short bursts, so that calls come all the time and the machine is not busy with them. */
static void *call_on(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		for (long i = 0; i < 20; i++)
			expect(request(i, HOW_RETURN) == i + 1);
		usleep(300);
	}
	return unused;
}

/* Forks for the first time while another thread calls; the child calls when it is told that it is probed. */
static void play_first_fork(long count)
{
	pthread_t thread;
	int status = 0;
	pid_t child;

	if (pthread_create(&thread, NULL, call_on, NULL))
		abort();
	usleep(100000);
	child = fork();
	if (child == 0) {
		wait_for_line("forked", 1);
		for (long i = 0; i < count; i++)
			expect(request(i, HOW_RETURN) == i + 1);
		_exit(n_bad != 0);
	}
	expect(waitpid(child, &status, 0) == child && status == 0);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	n_calls += count;
}

static void play_tail_calls(long count)
{
	for (long i = 0; i < count; i++)
		expect(first_of_chain(i, HOW_RETURN) == i + 1);
}

static void play_recursion(long count)
{
	for (long i = 0; i < count; i++)
		expect(recurse(200, HOW_RETURN) == 200);
}

static void play_dear(long count)
{
	for (long i = 0; i < count; i++)
		expect(dear_caller(i, HOW_RETURN) == i + 1);
}

/* The calls come from a library that is loaded while the program is being watched. */
static void play_dlopen(long count)
{
	void *plugin = dlopen(plugin_path, RTLD_NOW);
	long (*call_back)(long (*)(long, int), long, int) = NULL;

	if (plugin)
		*(void **)&call_back = dlsym(plugin, "call_back");
	if (!call_back) {
		fprintf(stderr, "dangers: %s\n", dlerror());
		exit(1);
	}
	for (long i = 0; i < count; i++)
		expect(call_back(request, i, HOW_RETURN) == i + 2);
	dlclose(plugin);
}

static const struct danger {
	const char *name;
	void (*play)(long count);
} dangers[] = {
	{"returns", play_returns},
	{"longjmp", play_longjmp},
	{"siglongjmp", play_siglongjmp},
	{"pthread_exit", play_pthread_exit},
	{"pthread_cancel", play_pthread_cancel},
	{"swapcontext", play_swapcontext},
	{"fork", play_fork},
	{"first_fork", play_first_fork},
	{"tail_calls", play_tail_calls},
	{"recursion", play_recursion},
	{"dear", play_dear},
	{"red_zone", play_red_zone},
	{"nop_first", play_nop_first},
	{"store_first", play_store_first},
	{"dlopen", play_dlopen},
	{"forged", play_forged},
};

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "p:")) != -1)
		plugin_path = optarg;
	if (argc - optind != 2)
		return 2;
	for (size_t i = 0; i < sizeof(dangers) / sizeof(dangers[0]); i++) {
		if (strcmp(argv[optind], dangers[i].name) != 0)
			continue;
		wait_for_line("ready", n_bad != 0);
		dangers[i].play(atol(argv[optind + 1]));
		printf("calls %ld\n", n_calls);
		wait_for_line("done", n_bad != 0);
		return n_bad ? 1 : 0;
	}
	return 2;
}
