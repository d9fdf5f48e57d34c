/* SPDX-License-Identifier: Apache-2.0 */
#include "app/guard.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "probe/multi.h"

/* Why each is needed: docs/agent.md. Newer ones may be unknown to the C library's header. */
enum { NEED_PERFMON = 38, NEED_BPF = 39, NEED_CHECKPOINT_RESTORE = 40 };

static const cap_value_t needed[] = {
	CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYSLOG /* names of kernel functions */,
	NEED_PERFMON,        NEED_BPF,       NEED_CHECKPOINT_RESTORE,
};

static bool is_needed(cap_value_t cap, bool with_admin)
{
	if (cap == CAP_SYS_ADMIN)
		return with_admin;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (needed[i] == cap)
			return true;
	return false;
}

/*
 * Kernels differ: most let CAP_PERFMON or CAP_BPF make uprobes of one kind or another, some may ask for
 * CAP_SYS_ADMIN. It is tried with the latter out of effect for a moment.
 */
static bool needs_admin(cap_t now)
{
	const cap_value_t admin = CAP_SYS_ADMIN;
	cap_flag_value_t has = CAP_CLEAR;
	cap_t without;
	bool asks;

	if (cap_get_flag(now, admin, CAP_PERMITTED, &has) || has == CAP_CLEAR)
		return false;
	without = cap_dup(now);
	if (!without)
		return true;
	cap_set_flag(without, CAP_EFFECTIVE, 1, &admin, CAP_CLEAR);
	asks = cap_set_proc(without) || !multi_is_any_allowed();
	cap_set_proc(now);
	cap_free(without);
	return asks;
}

static void describe(const cap_value_t *kept, int n_kept, char *ret, size_t n)
{
	size_t used = 0;

	ret[0] = 0;
	for (int i = 0; i < n_kept && used < n; i++) {
		char *name = cap_to_name(kept[i]);

		used += snprintf(ret + used, n - used, "%s%s", used ? " " : "", name ? name : "?");
		cap_free(name);
	}
}

static int set_capabilities(const cap_value_t *kept, int n_kept)
{
	cap_t caps = cap_init();
	int r = 0;

	if (!caps)
		return -ENOMEM;
	if ((n_kept && (cap_set_flag(caps, CAP_PERMITTED, n_kept, kept, CAP_SET) ||
			cap_set_flag(caps, CAP_EFFECTIVE, n_kept, kept, CAP_SET))) ||
	    cap_set_proc(caps))
		r = -errno;
	cap_free(caps);
	return r;
}

int guard_drop_capabilities(char *ret_kept, size_t n, struct errmsg *e)
{
	cap_value_t kept[ARRAY_SIZE(needed) + 1];
	cap_t now = cap_get_proc();
	bool with_admin = now && needs_admin(now);
	int n_kept = 0, r;

	if (!now)
		return errmsg_set(e, -errno, "cannot read the capabilities: %s", strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		cap_flag_value_t has = CAP_CLEAR;

		if (!cap_get_flag(now, needed[i], CAP_PERMITTED, &has) && has == CAP_SET)
			kept[n_kept++] = needed[i];
	}
	cap_free(now);
	if (with_admin)
		kept[n_kept++] = CAP_SYS_ADMIN;
	/* The bounding set can only be changed by who may; others have nothing to lose there. */
	for (cap_value_t cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!is_needed(cap, with_admin))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	r = set_capabilities(kept, n_kept);
	if (!r && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		r = -errno;
	if (r)
		return errmsg_set(e, r, "cannot give up privileges: %s", strerror(-r));
	describe(kept, n_kept, ret_kept, n);
	return 0;
}
