/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenes: requests that end, or do not end, in other ways than by returning.
 *
 *   scenes [-o TRUTH] [-p PLUGIN] SCENE
 *
 * Prints "ready", waits for a line, plays the scene, prints "done" and waits for the end of standard
 * input. request() is the endpoint; leave() follows it where the scene goes on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "stage.h"
#include "truth.h"

typedef void (*body_fn)(void);

static jmp_buf back;
static const char *plugin_path;
static const char *truth_path;

FRAME int request(const char *name, body_fn body);
FRAME void body_sleep(void);
FRAME void body_longjmp(void);
FRAME void body_thread_exit(void);
FRAME void body_exec(void);
FRAME void body_kill(void);
FRAME void body_hang(void);
FRAME void body_fork(void);
FRAME void body_yield(void);
FRAME void body_vfork(void);

static void sleep_ms(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

int request(const char *name, body_fn body)
{
	uint64_t start = truth_now();

	truth_note("open", name, start, 0);
	body();
	truth_note("call", name, start, truth_now());
	return 1;
}

void body_sleep(void)
{
	sleep_ms(60);
}

void body_longjmp(void)
{
	sleep_ms(60);
	longjmp(back, 1);
}

void body_thread_exit(void)
{
	sleep_ms(60);
	pthread_exit(NULL);
}

void body_exec(void)
{
	sleep_ms(60);
	execl("/proc/self/exe", "scenes", "again", NULL);
	abort();
}

void body_kill(void)
{
	sleep_ms(60);
	kill(getpid(), SIGKILL);
}

void body_hang(void)
{
	pause();
}

/* The child leaves the same request as its parent, a little later. */
void body_fork(void)
{
	pid_t child = fork();

	sleep_ms(child ? 60 : 90);
	if (child)
		waitpid(child, NULL, 0);
}

enum { STACK_BYTES = 64 << 10 };
static ucontext_t scheduler, coroutines[2];
static int current;

void body_yield(void)
{
	int own = current;

	swapcontext(&coroutines[own], &scheduler);
}

static void coroutine_main(void)
{
	request(current ? "second" : "first", body_yield);
	swapcontext(&coroutines[current], &scheduler);
}

static void resume(int which, int then_ms)
{
	current = which;
	swapcontext(&scheduler, &coroutines[which]);
	sleep_ms(then_ms);
}

static FRAME void make_coroutine(int which, char *stack)
{
	getcontext(&coroutines[which]);
	coroutines[which].uc_stack.ss_sp = stack;
	coroutines[which].uc_stack.ss_size = STACK_BYTES;
	makecontext(&coroutines[which], coroutine_main, 0);
}

/* The first one to begin is the first to end, on stacks of their own, whichever is the higher one. */
static void play_coroutines(int upside_down)
{
	static char stacks[2][STACK_BYTES] __attribute__((aligned(16)));

	make_coroutine(0, stacks[upside_down]);
	make_coroutine(1, stacks[!upside_down]);
	resume(0, 30);
	resume(1, 60);
	resume(0, 50);
	resume(1, 0);
}

static void scene_coroutines(void)
{
	for (int i = 0; i < 4; i++)
		play_coroutines(i % 2);
	request("returns", body_sleep);
}

/* The parent waits in vfork(), whose return address is in a register meanwhile. */
void body_vfork(void)
{
	pid_t child = vfork();

	if (!child) {
		sleep_ms(60);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void scene_vfork(void)
{
	request("vforks", body_vfork);
}

static void scene_returns(void)
{
	request("returns", body_sleep);
}

static void jump_once(void)
{
	if (!setjmp(back))
		request("jumps", body_longjmp);
}

static void scene_longjmp(void)
{
	for (int i = 0; i < 3; i++)
		jump_once();
	request("returns", body_sleep);
}

static void *exit_main(void *arg)
{
	request("exits", body_thread_exit);
	return arg;
}

static void scene_thread_exit(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, exit_main, NULL);
	pthread_join(thread, NULL);
	request("returns", body_sleep);
}

static void scene_exec(void)
{
	request("execs", body_exec);
}

static void scene_kill(void)
{
	request("dies", body_kill);
}

static void scene_hang(void)
{
	request("hangs", body_hang);
}

static void scene_fork_inside(void)
{
	pid_t own = getpid();

	request("forks", body_fork);
	if (getpid() != own)
		_exit(0);
}

static void scene_fork_children(void)
{
	for (int i = 0; i < 3; i++) {
		if (!fork()) {
			for (int n = 0; n < 20; n++)
				request("child", body_sleep);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

static int shared_child(void *arg)
{
	(void)arg;
	for (int n = 0; n < 10; n++)
		request("shared", body_sleep);
	return 0;
}

/* Children with the parent's memory: what is probed for it is in their code, too. */
static void scene_share_memory(void)
{
	static char stack[256 << 10] __attribute__((aligned(16)));

	for (int i = 0; i < 3; i++) {
		pid_t child = clone(shared_child, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

		if (child < 0)
			perror("clone");
		waitpid(child, NULL, 0);
	}
}

/* Ends at once; a child stays until whoever started this is gone. */
static void leave_child(void)
{
	pid_t starter = getppid();

	if (fork())
		_exit(0);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (int i = 0; i < 1500 && kill(starter, 0) == 0; i++)
		sleep_ms(20);
	_exit(0);
}

static void scene_dlopen_once(int calls)
{
	void *plugin = dlopen(plugin_path, RTLD_NOW);
	int (*plugin_request)(const char *, body_fn) =
		plugin ? (int (*)(const char *, body_fn))dlsym(plugin, "plugin_request") : NULL;

	if (!plugin_request) {
		fprintf(stderr, "scenes: %s\n", dlerror());
		exit(1);
	}
	/* The probes of the new library come when its mapping is noticed. */
	for (int i = 0; i < calls; i++)
		plugin_request("plugin", body_sleep);
	dlclose(plugin);
}

static void scene_dlopen(void)
{
	scene_dlopen_once(20);
}

/* A library that comes and goes; its calls are slow while it is there. */
static void scene_unload(void)
{
	for (int i = 0; i < 4; i++) {
		scene_dlopen_once(10);
		sleep_ms(60);
	}
	request("returns", body_sleep);
}

static const struct scene {
	const char *name;
	void (*play)(void);
} scenes[] = {
	{"returns", scene_returns},
	{"vfork", scene_vfork},
	{"longjmp", scene_longjmp},
	{"exit", scene_thread_exit},
	{"exec", scene_exec},
	{"kill", scene_kill},
	{"hang", scene_hang},
	{"fork", scene_fork_inside},
	{"children", scene_fork_children},
	{"dlopen", scene_dlopen},
	{"shared", scene_share_memory},
	{"unload", scene_unload},
	{"coroutines", scene_coroutines},
};

int main(int argc, char **argv)
{
	int option;

	if (argc == 2 && !strcmp(argv[1], "again")) {
		sleep_ms(60);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "leave"))
		leave_child();
	while ((option = getopt(argc, argv, "o:p:")) != -1) {
		if (option == 'o')
			truth_path = optarg;
		else if (option == 'p')
			plugin_path = optarg;
	}
	truth_open(truth_path);
	wait_for_line("ready", 0);
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (optind < argc && !strcmp(argv[optind], scenes[i].name))
			scenes[i].play();
	wait_for_line("done", 0);
	return 0;
}
