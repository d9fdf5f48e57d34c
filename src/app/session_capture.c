/* SPDX-License-Identifier: Apache-2.0 */
/* session_capture.c: what `record` writes of a run, from its first record to the totals. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "app/command.h"
#include "app/session_priv.h"
#include "base/clock.h"
#include "base/log.h"
#include "pipe/replay.h"

int session_fail_capture(const struct session *s, int error)
{
	log_error("cannot write capture file '%s': %s", s->o->outputs.at[0].path, strerror(-error));
	return EXIT_FAILED;
}

void session_on_space(void *ctx, uint32_t tgid, uint32_t as_id, struct space *space)
{
	struct session *s = ctx;

	if (s->writer && !s->write_error)
		s->write_error = replay_record_space(s->writer, tgid, as_id, space);
}

void session_on_record(void *ctx, const void *record, size_t bytes)
{
	struct session *s = ctx;

	if (s->writer && !s->write_error)
		s->write_error = capture_write_record(s->writer, record, bytes);
}

static void describe_run(struct profile *p, const struct utsname *u)
{
	p->start_mono_ns = clock_mono_ns();
	p->start_real_ns = clock_real_ns();
	if (strpool_add(p->strings, u->nodename, &p->hostname) ||
	    strpool_add(p->strings, u->release, &p->kernel_release))
		p->counters.v[COUNTER_STRINGS_FULL]++;
}

int session_new_writer(struct session *s, FILE *capture)
{
	struct profile *p = session_profile(s);
	struct capture_info info = {};
	struct utsname u = {};
	int r;

	uname(&u);
	describe_run(p, &u);
	if (!capture)
		return 0;
	info.start_mono_ns = p->start_mono_ns;
	info.start_real_ns = p->start_real_ns;
	snprintf(info.hostname, sizeof(info.hostname), "%s", u.nodename);
	snprintf(info.kernel_release, sizeof(info.kernel_release), "%s", u.release);
	r = capture_writer_new(&s->writer, capture, &info);
	return r ? session_fail_capture(s, r) : 0;
}

static int write_name(void *ctx, const struct stacks_name *n)
{
	return capture_write_symbol(ctx, &(struct capture_symbol){
						 .kernel = n->kind == RAW_KERNEL,
						 .tgid = n->pid,
						 .address = n->address,
						 .frame_flags = n->frame_flags,
						 .module = n->module,
						 .function = n->function,
						 .system_name = n->system_name,
					 });
}

int session_write_totals(struct session *s)
{
	struct profile *p = session_profile(s);
	int r = pipeline_each_name(engine_pipeline(s->engine), write_name, s->writer);

	for (uint32_t i = 0; i < s->n_endpoints && !r; i++)
		r = capture_write_latency(s->writer, i, &p->endpoints.at[i + 1].latency);
	if (!r && p->turns.share_ppm)
		r = capture_write_turns(s->writer, &p->turns);
	if (!r)
		r = capture_write_totals(s->writer, p->duration_ns, &p->counters);
	return r;
}
