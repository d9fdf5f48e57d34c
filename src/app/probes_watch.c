/* SPDX-License-Identifier: Apache-2.0 */
#include "app/probes_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum { POLL_MS = 20 };

int probes_watch_init(struct probes_watch *w)
{
	sigset_t mask;

	w->signal_fd = -1;
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &mask, &w->old_mask))
		return -errno;
	w->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signal_fd < 0 ? -errno : 0;
}

void probes_watch_deinit(struct probes_watch *w)
{
	if (w->signal_fd >= 0)
		close(w->signal_fd);
	w->signal_fd = -1;
}

bool probes_watch_is_cut(const struct probes_watch *w)
{
	return w->signal_fd < 0;
}

static void look_for_end(struct probes_watch *w, const struct engine *engine)
{
	struct signalfd_siginfo info;
	bool is_signal = read(w->signal_fd, &info, sizeof(info)) == sizeof(info);

	if (!is_signal && engine_n_processes(engine))
		return;
	log_info("%s: this is what was seen until then",
		 is_signal ? "cut short by a signal" : "the process has ended, or has called exec");
	probes_watch_deinit(w);
	sigprocmask(SIG_SETMASK, &w->old_mask, NULL);
}

int probes_watch_for(struct probes_watch *w, struct engine *engine, uint64_t for_ns,
		     bool (*is_enough)(const void *ctx), const void *ctx)
{
	uint64_t end_ns = clock_mono_ns() + for_ns;
	int r = 0;

	while (r >= 0 && !probes_watch_is_cut(w) && !(is_enough && is_enough(ctx)) &&
	       clock_mono_ns() < end_ns) {
		struct pollfd fds[] = {
			{.fd = engine_fd(engine), .events = POLLIN},
			{.fd = w->signal_fd, .events = POLLIN},
		};

		if (poll(fds, ARRAY_SIZE(fds), POLL_MS) < 0 && errno != EINTR)
			return -errno;
		r = engine_dispatch(engine, clock_mono_ns());
		look_for_end(w, engine);
	}
	return r < 0 ? r : 0;
}
