/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "pipe/capture_check.h"
#include "probe/endpoint.h"

struct file {
	char *path; /* owned */
	uint8_t build_id[CAPTURE_BUILD_ID_MAX];
	uint32_t build_id_bytes;
	struct module *module; /* owned; NULL: not usable */
};

struct replay {
	const struct replay_options *options; /* during replay_read only */
	const char *name;
	struct errmsg *e;
	struct pipeline *pipeline;
	struct endpoint *endpoints[WIRE_EP_MAX];
	VEC(struct file) files;
	VEC(char *) warnings;
	size_t n_warned;
	struct capture_check check; /* of the totals against the records so far */
	bool totals_seen;
};

static int on_info(void *ctx, const struct capture_info *i)
{
	struct replay *r = ctx;
	struct profile *p = pipeline_profile(r->pipeline);
	int e;

	p->start_mono_ns = i->start_mono_ns;
	p->start_real_ns = i->start_real_ns;
	e = strpool_add(p->strings, i->hostname, &p->hostname);
	return e ? e : strpool_add(p->strings, i->kernel_release, &p->kernel_release);
}

static int on_endpoint(void *ctx, const struct capture_endpoint *c)
{
	struct replay *r = ctx;
	struct endpoint *ep = NULL;
	struct errmsg why = {};
	int e = parse_endpoint(c->spec, &ep, &why);

	if (e)
		return errmsg_set(r->e, -EBADMSG, "'%s' has an endpoint that cannot be read: %s",
				  r->name, why.text);
	e = endpoint_set_name(ep, c->display);
	if (e) {
		endpoint_free(ep);
		return e;
	}
	if (r->endpoints[c->ep_id])
		endpoint_free(r->endpoints[c->ep_id]);
	r->endpoints[c->ep_id] = ep;
	return pipeline_set_endpoint(r->pipeline, c->ep_id,
				     &(struct pipeline_endpoint){
					     .spec = ep,
					     .terms = {.threshold_ns = c->threshold_ns,
						       .sample_after_ns = c->sample_after_ns,
						       .period_ns = c->period_ns},
				     });
}

static int warn(struct replay *r, const char *path, const char *why)
{
	char *text;
	int e;

	if (asprintf(&text, "mapped file '%s' of capture '%s' is not used: %s", path, r->name,
		     why) < 0)
		return -ENOMEM;
	e = vec_push(&r->warnings, text);
	if (e)
		free(text);
	return e;
}

static int open_module(struct replay *r, const struct capture_range *c, struct module **ret)
{
	AUTO_CLOSE int fd = -1;
	AUTO_FREE char *path = NULL;
	struct errmsg why = {};
	const uint8_t *id;
	size_t n;
	int e;

	if (c->kind == SPACE_VDSO)
		return module_open_own_vdso(ret, NULL);
	if (asprintf(&path, "%s%s", r->options->root ? r->options->root : "", c->path) < 0)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return warn(r, c->path, strerror(errno));
	e = module_open_fd(ret, fd, c->path, &why);
	if (e)
		return e == -ENOMEM ? e : warn(r, c->path, why.text);
	TAKE_FD(fd);
	n = module_build_id(*ret, &id);
	if (n > CAPTURE_BUILD_ID_MAX)
		n = CAPTURE_BUILD_ID_MAX; /* as it was recorded */
	if (c->build_id_bytes != n || memcmp(c->build_id, id, n)) {
		*ret = module_unref(*ret);
		return warn(
			r, c->path,
			"it is another build than the recorded one; give the old files with --root");
	}
	return 0;
}

static int module_of(struct replay *r, const struct capture_range *c, struct module **ret)
{
	struct file f = {.build_id_bytes = c->build_id_bytes};
	int e;

	*ret = NULL;
	if (c->kind != SPACE_FILE && c->kind != SPACE_VDSO)
		return 0;
	for (size_t i = 0; i < r->files.n; i++) {
		const struct file *have = &r->files.at[i];

		if (!strcmp(have->path, c->path) && have->build_id_bytes == c->build_id_bytes &&
		    !memcmp(have->build_id, c->build_id, c->build_id_bytes)) {
			*ret = have->module;
			return 0;
		}
	}
	e = open_module(r, c, &f.module);
	if (e)
		return e;
	memcpy(f.build_id, c->build_id, sizeof(f.build_id));
	f.path = strdup(c->path);
	e = f.path ? vec_push(&r->files, f) : -ENOMEM;
	if (e) {
		free(f.path);
		module_unref(f.module);
		return e;
	}
	if (!f.module)
		pipeline_profile(r->pipeline)->counters.v[COUNTER_MODULE_UNREADABLE]++;
	*ret = f.module;
	return 0;
}

static int on_space(void *ctx, uint32_t tgid, uint32_t as_id, const struct capture_range *ranges,
		    size_t n)
{
	struct replay *r = ctx;
	struct space *space = NULL;
	int e = space_new(&space, pipeline_space_cache(r->pipeline), 0);

	if (e)
		return e;
	for (size_t i = 0; i < n && !e; i++) {
		struct space_range range = {
			.start = ranges[i].start,
			.end = ranges[i].end,
			.file_off = ranges[i].file_off,
			.dev = ranges[i].dev,
			.ino = ranges[i].ino,
			.kind = ranges[i].kind,
			.path = ranges[i].path,
		};

		e = module_of(r, &ranges[i], &range.module);
		if (!e)
			e = space_add_range(space, &range);
	}
	if (!e)
		e = pipeline_set_space(r->pipeline, tgid, as_id, space);
	if (e)
		space_free(space);
	return e;
}

static int on_record(void *ctx, const void *record, size_t bytes)
{
	struct replay *r = ctx;

	capture_check_add(&r->check, record, bytes);
	return pipeline_push(r->pipeline, record, bytes);
}

static int on_symbol(void *ctx, const struct capture_symbol *s)
{
	struct replay *r = ctx;

	return pipeline_add_name(r->pipeline,
				 &(struct stacks_name){
					 .kind = s->kernel ? RAW_KERNEL : RAW_ANONYMOUS,
					 .pid = s->tgid,
					 .address = s->address,
					 .frame_flags = s->frame_flags,
					 .module = s->module,
					 .function = s->function,
					 .system_name = s->system_name,
				 });
}

static int on_latency(void *ctx, uint32_t ep_id, const struct latency *l)
{
	struct replay *r = ctx;
	struct profile *p = pipeline_profile(r->pipeline);

	if (ep_id + 1 < p->endpoints.n)
		p->endpoints.at[ep_id + 1].latency = *l;
	return 0;
}

static int on_turns(void *ctx, const struct profile_turns *t)
{
	struct replay *r = ctx;

	pipeline_profile(r->pipeline)->turns = *t;
	return 0;
}

static int check_totals(struct replay *r, uint64_t end_ns, const struct counters *c)
{
	const struct profile *p = pipeline_profile(r->pipeline);
	struct errmsg why = {};
	int e = capture_check_totals(&r->check, end_ns, c, &why);

	if (!e && p->turns.share_ppm)
		e = capture_check_turns(&p->turns, end_ns - p->start_mono_ns, &why);
	for (uint32_t i = 1; i < p->endpoints.n && !e; i++)
		e = capture_check_latency(&r->check, i - 1, &p->endpoints.at[i].latency, &why);
	return e ? errmsg_set(r->e, e, "'%s' contradicts itself: %s; record it again", r->name,
			      why.text)
		 : 0;
}

/* BPF's counters are the recorded ones; user space's are counted again by the replay. */
static int on_totals(void *ctx, uint64_t duration_ns, const struct counters *c)
{
	struct replay *r = ctx;
	struct profile *p = pipeline_profile(r->pipeline);
	int e = check_totals(r, p->start_mono_ns + duration_ns, c);

	if (e)
		return e;
	p->duration_ns = duration_ns;
	memcpy(p->counters.v, c->v, WIRE_C_MAX * sizeof(c->v[0]));
	for (unsigned int id = COUNTER_RETSITE_REFUSED; id < COUNTER_DEBUG_LEFT_OUT; id++)
		p->counters.v[id] = c->v[id];
	r->totals_seen = true;
	return pipeline_finish(r->pipeline, p->start_mono_ns + duration_ns);
}

/* The names are at the end of the file, and are needed by the first span: they are read first. */
static int read_twice(struct replay *r, FILE *in)
{
	struct capture_reader names = {
		.symbol = on_symbol,
		.ctx = r,
	};
	struct capture_reader rest = {
		.info = on_info,
		.endpoint = on_endpoint,
		.space = on_space,
		.record = on_record,
		.latency = on_latency,
		.turns = on_turns,
		.totals = on_totals,
		.ctx = r,
	};
	int e = capture_read(in, r->name, &names, r->e);

	if (e)
		return e;
	if (fseek(in, 0, SEEK_SET))
		return errmsg_set(r->e, -ESPIPE,
				  "cannot read '%s' twice: %s; store the capture in a file first",
				  r->name, strerror(errno));
	return capture_read(in, r->name, &rest, r->e);
}

int replay_read(struct replay **ret, FILE *in, const char *name,
		const struct replay_options *options, struct errmsg *e)
{
	struct pipeline_options pipeline = {.symbols = options->symbols};
	struct replay *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return errmsg_set(e, -ENOMEM, "cannot read '%s': out of memory", name);
	r->options = options;
	r->name = name;
	r->e = e;
	err = pipeline_new(&r->pipeline, &pipeline);
	if (err)
		errmsg_set(e, err, "cannot read '%s': %s", name, strerror(-err));
	else
		err = read_twice(r, in);
	if (!err && !r->totals_seen)
		err = errmsg_set(e, -EBADMSG, "'%s' has no totals; record it again", name);
	if (err) {
		replay_free(r);
		return err;
	}
	r->options = NULL;
	*ret = r;
	return 0;
}

struct replay *replay_free(struct replay *r)
{
	if (!r)
		return NULL;
	if (r->pipeline)
		pipeline_free(r->pipeline);
	for (size_t i = 0; i < WIRE_EP_MAX; i++)
		endpoint_free(r->endpoints[i]);
	for (size_t i = 0; i < r->files.n; i++) {
		free(r->files.at[i].path);
		module_unref(r->files.at[i].module);
	}
	for (size_t i = 0; i < r->warnings.n; i++)
		free(r->warnings.at[i]);
	vec_free(&r->files);
	vec_free(&r->warnings);
	free(r);
	return NULL;
}

struct profile *replay_profile(struct replay *r)
{
	return pipeline_profile(r->pipeline);
}

const char *replay_next_warning(struct replay *r)
{
	return r->n_warned < r->warnings.n ? r->warnings.at[r->n_warned++] : NULL;
}

int replay_record_space(struct capture_writer *w, uint32_t tgid, uint32_t as_id,
			struct space *space)
{
	const struct space_range *ranges;
	size_t n = space_ranges(space, &ranges);
	AUTO_FREE struct capture_range *out = calloc(n + 1, sizeof(*out));

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct space_range *s = &ranges[i];
		const uint8_t *id = NULL;
		size_t id_bytes;

		out[i] = (struct capture_range){
			.start = s->start,
			.end = s->end,
			.file_off = s->file_off,
			.dev = s->dev,
			.ino = s->ino,
			.kind = s->kind,
			.path = s->path,
		};
		space_find(space, s->start); /* opens the module, for its build ID */
		id_bytes = s->module ? module_build_id(s->module, &id) : 0;
		if (id_bytes > CAPTURE_BUILD_ID_MAX)
			id_bytes = CAPTURE_BUILD_ID_MAX;
		out[i].build_id_bytes = id_bytes;
		if (id_bytes)
			memcpy(out[i].build_id, id, id_bytes);
	}
	return capture_write_space(w, tgid, as_id, out, n);
}
