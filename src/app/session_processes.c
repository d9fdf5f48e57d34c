/* SPDX-License-Identifier: Apache-2.0 */
/* session_processes.c: the processes of a run: those named, those of a file or a preset, and the command. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "app/child.h"
#include "app/command.h"
#include "app/files_limit.h"
#include "app/hints.h"
#include "app/session_priv.h"
#include "app/starter.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "proc/process.h"

enum { ENTRY_POLL_MS = 50, ENTRY_SLOW_NS = 3000000000LL };

/* Of a process that runs this file. */
static int instance_of(struct session *s, const char *exe_path, uint32_t *ret, struct errmsg *e)
{
	uint32_t n_before = specs_n_instances(&s->specs);
	int r = specs_instance_of(&s->specs, exe_path, ret);

	return !r && *ret > n_before ? session_open_instance(s, *ret, e) : r;
}

static int add_pid(struct session *s, pid_t pid)
{
	struct errmsg e = {};
	char path[PROCESS_PATH_MAX];
	uint32_t instance_id;
	int r;

	process_exe_path(pid, path, sizeof(path));
	r = instance_of(s, path, &instance_id, &e);
	if (!r)
		r = s->o->no_fork ? engine_add_process(s->engine, pid, instance_id, &e)
				  : engine_add_instance(s->engine, pid, instance_id, &e);
	if (r)
		return session_fail("cannot attach", r, &e);
	hints_traced_at_start(pid);
	return 0;
}

/* real: its path without symbolic links. */
static int watch_exe(struct session *s, int fd, const char *path, const char *real)
{
	uint32_t instance_id;
	struct errmsg e = {};
	size_t n;
	int r = instance_of(s, real, &instance_id, &e);

	if (!r)
		r = engine_watch_exe(s->engine, fd, path, instance_id, &n, &e);
	if (r)
		return session_fail("cannot attach", r, &e);
	s->watching = true;
	if (!n)
		log_info("no process runs '%s' yet; waiting for one", path);
	return 0;
}

static int watch_path(struct session *s, const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	AUTO_FREE char *real = realpath(path, NULL);
	char who[PROCESS_PATH_MAX];
	struct errmsg e = {};
	struct stat st;

	if (fd < 0) {
		log_error("cannot open executable '%s': %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	snprintf(who, sizeof(who), "'%s'", path);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && process_check_program(fd, who, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILED;
	}
	return watch_exe(s, fd, path, real ? real : path);
}

/* Several presets may be for the same server. */
static bool is_watched(const struct specs *specs, size_t n_groups, const struct server *server)
{
	for (size_t i = 0; i < n_groups; i++)
		if (servers_have(&specs->groups.at[i].servers, server->dev, server->ino))
			return true;
	return false;
}

static int watch_servers(struct session *s, size_t group)
{
	const struct servers *found = &s->specs.groups.at[group].servers;
	int r = 0;

	for (size_t i = 0; i < found->n && !r; i++)
		if (!is_watched(&s->specs, group, &found->at[i]))
			r = watch_exe(s, found->at[i].fd, found->at[i].path, found->at[i].path);
	return r;
}

int session_add_processes(struct session *s)
{
	int r = 0;

	for (size_t i = 0; i < s->specs.groups.n && !r; i++)
		r = watch_servers(s, i);
	for (size_t i = 0; i < s->o->exes.n && !r; i++)
		r = watch_path(s, s->o->exes.at[i]);
	for (size_t i = 0; i < s->o->pids.n && !r; i++)
		r = add_pid(s, s->o->pids.at[i]);
	if (r && s->specs.groups.n == 1)
		hints_strangers(s->o, s->specs.groups.at[0].preset);
	else if (r && s->o->pids.n)
		hints_presets(s->o->pids.at[0]);
	return r;
}

/* With --exe the command may be a script that starts the program; else it is the program. */
static bool is_wanted(const struct session *s, const char *path)
{
	struct stat file, wanted;

	if (stat(path, &file))
		return true;
	for (size_t i = 0; i < s->o->exes.n; i++)
		if (!stat(s->o->exes.at[i], &wanted) && wanted.st_dev == file.st_dev &&
		    wanted.st_ino == file.st_ino)
			return true;
	return !s->o->exes.n;
}

static void add_remedy(struct errmsg *e)
{
	size_t n = strlen(e->text);

	if (n && !strchr(e->text, '\n'))
		snprintf(e->text + n, sizeof(e->text) - n,
			 "; when the command is a script or a wrapper: --exe PROGRAM -- COMMAND");
}

/* Says so of the first program, and once more when the run is over, if it never comes. */
static void tell_absent(struct session *s, const struct errmsg *e, const char *what_next)
{
	if (!s->child_trouble.text[0])
		log_info("%s; %s", e->text, what_next);
	s->child_trouble = *e;
}

/* What a program that only starts another one lacks is told in one line. */
static void drop_warnings(struct session *s)
{
	while (probes_next_warning(engine_probes(s->engine)))
		;
}

static int add_program(struct session *s, const char *path, bool *ret_awaits, struct errmsg *e)
{
	uint32_t instance_id;
	int r = instance_of(s, path, &instance_id, e);

	*ret_awaits = false;
	return r ? r : engine_add_command(s->engine, s->child.pid, instance_id, ret_awaits, e);
}

/*
 * Adds what the command runs now. 0: it may go on; ret_follow: it is to be held again where it enters the
 * next program, since this is not what was asked for, or may call exec for that.
 */
static int add_command(struct session *s, bool *ret_follow, struct errmsg *e)
{
	char path[PROCESS_PATH_MAX];
	bool awaits;
	int r;

	process_exe_path(s->child.pid, path, sizeof(path));
	*ret_follow = child_keeps_rights();
	if (!is_wanted(s, path))
		return 0;
	hints_warnings(s->engine);
	r = add_program(s, path, &awaits, e);
	*ret_follow &= (awaits || r == -ENOENT) && !s->o->exes.n && starter_is(s->child.pid);
	if (*ret_follow)
		drop_warnings(s);
	if (awaits)
		tell_absent(s, e, "it is probed when it is there");
	else if (*ret_follow)
		tell_absent(
			s, e,
			"waiting for what it executes (for what it starts as a child: --exe PROGRAM)");
	else if (!r)
		s->child_trouble.text[0] = '\0';
	if (*ret_follow)
		return 0;
	if (r == -ENOENT && !s->o->exes.n)
		add_remedy(e);
	return r;
}

static int fail_ended(const struct session *s)
{
	struct errmsg e = {};
	int r = child_ended_early(s->o->command[0], s->child_status, &e);

	return session_fail("cannot profile the command", r, &e);
}

/* The command is held where it enters a program. The records of how it came there are read before. */
static int enter_command(struct session *s)
{
	struct errmsg e = {};
	bool is_held, follow = false;
	int r;

	engine_hold(s->engine, s->child.pid);
	r = engine_dispatch(s->engine, clock_mono_ns());
	s->child_left = false;
	if (!r)
		r = add_command(s, &follow, &e);
	if (!r && !follow)
		engine_hold(s->engine, 0);
	if (!r)
		r = follow ? child_follow(&s->child) : child_continue(&s->child);
	if (!r)
		return 0;
	is_held = child_is_held(&s->child);
	s->child_status = child_kill(&s->child);
	s->child_gone = true;
	return is_held ? session_fail("cannot profile the command", r, &e) : fail_ended(s);
}

static int fail_held(struct session *s, const char *why)
{
	child_kill(&s->child);
	s->child_gone = true;
	log_error("'%s' is ended: it had not reached its entry point, where it is attached, %s",
		  s->o->command[0], why);
	return EXIT_FAILED;
}

/* Its libraries are loaded and initialized meanwhile, which may take any time. */
static int await_entry(struct session *s)
{
	struct pollfd fd = {.fd = s->signal_fd, .events = POLLIN};
	uint64_t waited_ns, begin_ns = clock_mono_ns();
	bool told = false;

	while (!s->child_entered && !s->child_gone) {
		poll(&fd, 1, ENTRY_POLL_MS);
		if (session_read_signals(s) && !s->child_entered && !s->child_gone)
			return fail_held(s, "when the run was ended");
		waited_ns = clock_mono_ns() - begin_ns;
		if (waited_ns < ENTRY_SLOW_NS)
			continue;
		if (s->o->for_ns && waited_ns > s->o->for_ns)
			return fail_held(s, "when the time of --for was over");
		if (!told)
			log_info(
				"'%s' has not reached its entry point yet, where it is attached: its libraries are still loaded or initialized",
				s->o->command[0]);
		told = true;
	}
	return s->child_entered ? 0 : fail_ended(s);
}

int session_start_command(struct session *s)
{
	enum child_state state;
	const bool to_stderr = run_options_take_stdout(s->o);
	struct errmsg e = {};
	int r;

	if (!s->o->command)
		return 0;
	if (to_stderr)
		log_info(
			"standard output is for the profile alone: what '%s' writes there goes to standard error (-o FILE leaves it alone)",
			s->o->command[0]);
	r = child_start(s->o->command, &s->old_mask, to_stderr, &s->child, &state, &e);
	if (r)
		return session_fail("cannot start the command", r, &e);
	files_limit_restore(s->child.pid, &s->old_files);
	s->child_entered = state == CHILD_ENTERS;
	r = await_entry(s);
	s->child_entered = false;
	return r ? r : enter_command(s);
}

static void tell_late(const struct session *s, const char *path)
{
	if (s->child.is_followed)
		log_warning(
			"the command has called exec on another thread than its first: '%s' is profiled without its first calls; to have them, start that program itself",
			path);
	else
		log_warning(
			"the command has called exec: '%s' is profiled without its first calls; --exe '%s' -- COMMAND has them",
			path, path);
}

/* It is not held any more: what it runs now has begun without its probes. */
static void add_next_program(struct session *s)
{
	char path[PROCESS_PATH_MAX];
	struct errmsg e = {};
	bool awaits = false;
	int r;

	process_exe_path(s->child.pid, path, sizeof(path));
	if (!path[0] || !is_wanted(s, path))
		return;
	r = add_program(s, path, &awaits, &e);
	if (r)
		log_warning("the command has called exec, and '%s' is not profiled: %s", path,
			    e.text);
	else if (awaits)
		log_warning("the command has called exec: '%s': %s; it is probed when it is there",
			    path, e.text);
	else
		tell_late(s, path);
	if (!r)
		session_profile(s)->counters.v[COUNTER_EXEC_LATE]++;
	else if (s->child_trouble.text[0])
		s->child_trouble = e;
}

int session_follow_command(struct session *s)
{
	bool entered = s->child_entered;
	struct probe_info any;

	if (s->child_trouble.text[0] && probes_info(engine_probes(s->engine), 0, &any))
		s->child_trouble.text[0] = '\0';

	if (s->child_left && !s->child_gone && !entered && !child_is_followed(&s->child)) {
		engine_hold(s->engine, 0);
		add_next_program(s);
	}
	s->child_left = s->child_entered = false;
	return entered ? enter_command(s) : 0;
}

int session_check_command(struct session *s)
{
	const struct profile *p = session_profile(s);
	struct errmsg e = s->child_trouble;
	uint64_t n = 0;

	for (size_t i = 1; i < p->endpoints.n; i++)
		n += p->endpoints.at[i].latency.n_enter;
	if (!e.text[0] || n)
		return 0;
	add_remedy(&e);
	return session_fail("cannot profile the command", -ENOENT, &e);
}
