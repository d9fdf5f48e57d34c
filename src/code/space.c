/* SPDX-License-Identifier: Apache-2.0 */
#include "code/space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/search.h"
#include "base/strpool.h"
#include "base/vec.h"
#include "code/module_cache.h"
#include "code/process_file.h"
#include "code/rule_cache.h"
#include "code/syscall_stub.h"
#include "proc/maps.h"

enum {
	MODULES_MAX = 512,
	RULE_SLOTS = 1 << 14,
	RULES_MAX = 1 << 12,
	PATH_BYTES_MAX = 8 << 20, /* of all paths of all processes */
	RANGES_MAX = 1 << 16,
	MAPS_BUFFER_BYTES = 1 << 16,
};

typedef VEC(struct space_range) range_vec;

struct space_cache {
	struct module_cache *modules; /* owned */
	struct rule_cache *rules;     /* owned */
	struct strpool *paths;        /* owned */
};

struct space {
	struct space_cache *cache; /* borrowed */
	int proc_fd; /* /proc/PID: stays with this process when the number is reused; -1: replay */
	range_vec ranges; /* by start; each holds a reference to its module */
	size_t last;      /* index of the range that was found last */
	uint64_t refreshed_ns;
	bool refreshed;
	uint32_t generation;
	struct cfi_buf *buf;   /* owned: room for the rule that is being made */
	uint64_t n_unreadable; /* not yet handed to the caller's counters */
	uint64_t n_paths_lost;
};

int space_cache_new(struct space_cache **ret)
{
	struct space_cache *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	r = module_cache_new(&c->modules, MODULES_MAX);
	if (!r)
		r = rule_cache_new(&c->rules, RULE_SLOTS, RULES_MAX);
	if (!r)
		r = strpool_new(&c->paths, PATH_BYTES_MAX);
	if (r) {
		space_cache_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

struct space_cache *space_cache_free(struct space_cache *c)
{
	if (!c)
		return NULL;
	module_cache_free(c->modules);
	rule_cache_free(c->rules);
	strpool_free(c->paths);
	free(c);
	return NULL;
}

static void free_ranges(range_vec *v)
{
	for (size_t i = 0; i < v->n; i++)
		module_unref(v->at[i].module);
	vec_free(v);
}

int space_new(struct space **ret, struct space_cache *cache, pid_t pid)
{
	struct space *s = calloc(1, sizeof(*s));
	char path[32];
	int r;

	if (!s)
		return -ENOMEM;
	s->cache = cache;
	s->proc_fd = -1;
	s->buf = malloc(sizeof(*s->buf));
	if (!s->buf) {
		space_free(s);
		return -ENOMEM;
	}
	if (pid) {
		snprintf(path, sizeof(path), "/proc/%d", pid);
		s->proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (s->proc_fd < 0) {
			r = errno == ENOENT ? -ESRCH : -errno;
			space_free(s);
			return r;
		}
	}
	*ret = s;
	return 0;
}

struct space *space_free(struct space *s)
{
	if (!s)
		return NULL;
	free_ranges(&s->ranges);
	if (s->proc_fd >= 0)
		close(s->proc_fd);
	free(s->buf);
	free(s);
	return NULL;
}

static const char *keep_path(struct space *s, const char *path)
{
	uint32_t id;

	if (strpool_add(s->cache->paths, path, &id)) {
		s->n_paths_lost++;
		return "";
	}
	return strpool_get(s->cache->paths, id);
}

static enum space_kind kind_of(const struct maps_entry *e)
{
	switch (e->kind) {
	case MAPS_FILE:
		return SPACE_FILE;
	case MAPS_VDSO:
		return SPACE_VDSO;
	case MAPS_UPROBES:
		return SPACE_TRAMPOLINE;
	case MAPS_ANONYMOUS:
		return SPACE_ANONYMOUS;
	default:
		return SPACE_OTHER;
	}
}

static int add_entry(struct space *s, const struct maps_entry *e, range_vec *to)
{
	struct space_range r = {
		.start = e->start,
		.end = e->end,
		.file_off = e->file_off,
		.kind = kind_of(e),
	};

	if (!e->executable || to->n >= RANGES_MAX)
		return 0;
	if (r.kind == SPACE_FILE) {
		r.dev = makedev(e->dev_major, e->dev_minor);
		r.ino = e->ino;
	}
	r.path = keep_path(s, e->path);
	return vec_push(to, r);
}

/* A stretch of the text of maps, and the entry that is being read. */
struct maps_reader {
	size_t n;
	char buf[MAPS_BUFFER_BYTES];
	struct maps_entry entry;
};

/* Parses the whole lines in the buffer; what is left is moved to its start. */
static int take_lines(struct space *s, struct maps_reader *m, range_vec *to)
{
	enum maps_result result;
	size_t off = 0;

	while ((result = parse_maps_line(m->buf, m->n, &off, &m->entry)) != MAPS_END &&
	       result != MAPS_E_PARTIAL) {
		int r = result == MAPS_OK ? add_entry(s, &m->entry, to) : 0;

		if (r)
			return r;
	}
	memmove(m->buf, m->buf + off, m->n - off);
	m->n -= off;
	return 0;
}

static int read_maps(struct space *s, range_vec *to)
{
	AUTO_CLOSE int fd = openat(s->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	AUTO_FREE struct maps_reader *m = NULL;
	int r = 0;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->n = 0;
	while (!r && m->n < sizeof(m->buf)) {
		ssize_t got = read(fd, m->buf + m->n, sizeof(m->buf) - m->n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		m->n += got;
		r = take_lines(s, m, to);
	}
	/* A zombie's maps are empty. */
	if (!r && !to->n)
		r = -ESRCH;
	return r;
}

static bool same_mapping(const struct space_range *a, const struct space_range *b)
{
	return a->start == b->start && a->end == b->end && a->file_off == b->file_off &&
	       a->dev == b->dev && a->ino == b->ino && !strcmp(a->path, b->path);
}

/* Takes over what is known of mappings that are still there. True when anything differs. */
static bool take_over(const range_vec *old, range_vec *now)
{
	size_t k = 0;
	bool changed = old->n != now->n;

	for (size_t i = 0; i < now->n; i++) {
		struct space_range *r = &now->at[i];

		while (k < old->n && old->at[k].start < r->start)
			k++;
		if (k == old->n || !same_mapping(&old->at[k], r)) {
			changed = true;
			continue;
		}
		r->kind = old->at[k].kind;
		r->bias = old->at[k].bias;
		r->module = old->at[k].module ? module_ref(old->at[k].module) : NULL;
	}
	return changed;
}

static int refresh(struct space *s, bool *ret_changed)
{
	range_vec now = {};
	int r;

	if (s->proc_fd < 0)
		return -ESRCH;
	r = read_maps(s, &now);
	if (r) {
		free_ranges(&now);
		return r;
	}
	*ret_changed = take_over(&s->ranges, &now);
	s->generation += *ret_changed;
	free_ranges(&s->ranges);
	s->ranges = now;
	s->last = 0;
	return 0;
}

int space_refresh(struct space *s)
{
	bool changed;

	return refresh(s, &changed);
}

static void set_module(struct space_range *r, struct module *m)
{
	uint64_t vaddr;

	if (!module_vaddr_of_mapping(m, r->file_off, &vaddr)) {
		r->unusable = true;
		return;
	}
	r->bias = r->start - vaddr;
	r->module = module_ref(m);
}

/* First range that ends above addr: its index, or the number of ranges. */
static size_t lower_bound(const struct space *s, uint64_t addr)
{
	return search_first(s->ranges.at, s->ranges.n, r, r->end <= addr);
}

int space_add_range(struct space *s, const struct space_range *r)
{
	struct space_range copy = *r;
	size_t at = lower_bound(s, r->start);
	int error;

	if (r->start >= r->end || (at < s->ranges.n && s->ranges.at[at].start < r->end))
		return -EINVAL;
	if (s->ranges.n >= RANGES_MAX)
		return -ENOSPC;
	error = vec_reserve(&s->ranges, s->ranges.n + 1);
	if (error)
		return error;
	copy.path = keep_path(s, r->path ? r->path : "");
	copy.module = NULL;
	copy.unusable = !r->module;
	if (r->module)
		set_module(&copy, r->module);
	memmove(&s->ranges.at[at + 1], &s->ranges.at[at],
		(s->ranges.n - at) * sizeof(*s->ranges.at));
	s->ranges.at[at] = copy;
	s->ranges.n++;
	s->generation++;
	return 0;
}

DEFINE_CLEANUP(struct module *, module_unref)

/* This process's own vDSO is in the cache under numbers that no file has. */
static int own_vdso(struct space *s, struct module **ret)
{
	CLEANUP(module_unrefp) struct module *opened = NULL;
	struct module *have = module_cache_get(s->cache->modules, 0, 1);
	int r = 0;

	if (!have) {
		r = module_open_own_vdso(&opened, NULL);
		if (!r)
			r = module_cache_put(s->cache->modules, 0, 1, opened);
		have = opened;
	}
	if (!r)
		*ret = have == opened ? TAKE_PTR(opened) : module_ref(have);
	return r;
}

static bool same_build_id(const struct module *a, const struct module *b)
{
	const uint8_t *a_id, *b_id;
	size_t n = module_build_id(a, &a_id);

	return n && n == module_build_id(b, &b_id) && !memcmp(a_id, b_id, n);
}

/*
 * The process can write to its vDSO, so its copy is used for nobody else, and only when it is not
 * the one that every process of this kernel gets.
 */
static int open_vdso(struct space *s, const struct space_range *r, struct module **ret)
{
	CLEANUP(module_unrefp) struct module *own = NULL;
	CLEANUP(module_unrefp) struct module *its = NULL;
	int own_error = own_vdso(s, &own);
	int error = process_file_open_vdso(s->proc_fd, r->start, r->end, &its, NULL);

	if (!own_error && (error || same_build_id(own, its))) {
		*ret = TAKE_PTR(own);
		return 0;
	}
	if (!error)
		*ret = TAKE_PTR(its);
	return error;
}

static int open_file(struct space *s, const struct space_range *r, struct module **ret)
{
	struct process_file f = {
		.start = r->start, .end = r->end, .dev = r->dev, .ino = r->ino, .path = r->path};
	struct module *have = module_cache_get(s->cache->modules, r->dev, r->ino);
	CLEANUP(module_unrefp) struct module *opened = NULL;
	int error;

	if (have) {
		*ret = module_ref(have);
		return 0;
	}
	error = process_file_open(s->proc_fd, &f, &opened, NULL);
	if (!error)
		error = module_cache_put(s->cache->modules, r->dev, r->ino, opened);
	if (!error)
		*ret = TAKE_PTR(opened);
	return error;
}

static void open_module(struct space *s, struct space_range *r)
{
	CLEANUP(module_unrefp) struct module *m = NULL;
	int error = -ENOENT;

	if (s->proc_fd >= 0)
		error = r->kind == SPACE_VDSO ? open_vdso(s, r, &m) : open_file(s, r, &m);
	if (!error)
		set_module(r, m);
	r->unusable = !r->module;
	/* What is not ELF (a JIT's memfd) is like memory without a file. */
	if (error == -ENOEXEC)
		r->kind = SPACE_ANONYMOUS;
	else if (r->unusable)
		s->n_unreadable++;
}

static struct space_range *find_range(struct space *s, uint64_t pc)
{
	size_t i = s->last;

	if (i >= s->ranges.n || pc < s->ranges.at[i].start || pc >= s->ranges.at[i].end)
		i = lower_bound(s, pc);
	if (i == s->ranges.n || pc < s->ranges.at[i].start)
		return NULL;
	s->last = i;
	return &s->ranges.at[i];
}

static struct space_range *find_usable(struct space *s, uint64_t pc)
{
	struct space_range *r = find_range(s, pc);

	if (r && !r->module && !r->unusable && (r->kind == SPACE_FILE || r->kind == SPACE_VDSO))
		open_module(s, r);
	return r;
}

const struct space_range *space_find(struct space *s, uint64_t pc)
{
	return find_usable(s, pc);
}

uint32_t space_generation(const struct space *s)
{
	return s->generation;
}

size_t space_ranges(const struct space *s, const struct space_range **ret)
{
	*ret = s->ranges.at;
	return s->ranges.n;
}

bool space_resolve(struct space *s, uint64_t pc, struct module **ret_module, uint64_t *ret_vaddr)
{
	const struct space_range *r = find_usable(s, pc);

	if (!r || !r->module)
		return false;
	*ret_module = r->module;
	*ret_vaddr = pc - r->bias;
	return true;
}

bool space_locate(struct space *s, uint64_t pc, const char **ret_path, uint64_t *ret_file_off)
{
	const struct space_range *r = find_usable(s, pc);

	if (!r || (r->kind != SPACE_FILE && r->kind != SPACE_VDSO))
		return false;
	*ret_path = r->path;
	*ret_file_off = pc - r->start + r->file_off;
	return true;
}

static int find_cfi(struct space *s, struct module *m, uint64_t vaddr, const struct cfi_rule **ret)
{
	int r;

	if (rule_cache_get(s->cache->rules, module_id(m), vaddr, &r, ret))
		return r;
	r = module_find_cfi(m, vaddr, s->buf);
	if (r == CFI_E_NO_CFI)
		r = syscall_stub_find_cfi(m, vaddr, s->buf);
	if (r < 0)
		return CFI_E_BAD; /* out of memory: not remembered */
	if (rule_cache_put(s->cache->rules, module_id(m), vaddr, r, &s->buf->rule, ret))
		*ret = &s->buf->rule;
	return r;
}

/* unwind_find_rule */
static int find_rule(void *ctx, uint64_t pc, bool exact, const struct cfi_rule **ret)
{
	struct space *s = ctx;
	uint64_t addr = exact ? pc : pc - 1;
	const struct space_range *r = find_usable(s, addr);

	if (!r)
		return CFI_E_NO_MODULE;
	if (r->module)
		return find_cfi(s, r->module, addr - r->bias, ret);
	switch (r->kind) {
	case SPACE_FILE:
	case SPACE_VDSO:
		return CFI_E_NO_FILE;
	case SPACE_ANONYMOUS:
		return CFI_E_ANONYMOUS;
	case SPACE_TRAMPOLINE:
		return CFI_E_TRAMPOLINE;
	default:
		return CFI_E_NO_MODULE;
	}
}

/* Would another set of mappings explain that the walk stopped like this? */
static bool is_doubtful(const struct unwind_stack *stack)
{
	switch (stack->stop) {
	case STACK_STOP_NO_MODULE:
	case STACK_STOP_NO_FILE:
	case STACK_STOP_NO_CFI:
	case STACK_STOP_BAD_CFI:
	case STACK_STOP_RANGE:
		return true;
	case STACK_STOP_PAST:
		return !stack->returned;
	default:
		return false;
	}
}

static bool refresh_if_due(struct space *s, uint64_t mono_ns, struct counters *counters)
{
	bool changed = false;
	int r;

	if (s->proc_fd < 0 || (s->refreshed && mono_ns < s->refreshed_ns + SPACE_REFRESH_NS))
		return false;
	s->refreshed = true;
	s->refreshed_ns = mono_ns;
	r = refresh(s, &changed);
	if (r)
		counters->v[COUNTER_MAPS_UNREADABLE]++;
	return !r && changed;
}

static void count_stop(const struct unwind_stack *stack, struct counters *counters)
{
	static const uint16_t by_stop[STACK_STOP_MAX] = {
		[STACK_STOP_NO_MODULE] = COUNTER_UNWIND_NO_MODULE,
		[STACK_STOP_NO_FILE] = COUNTER_UNWIND_NO_FILE,
		[STACK_STOP_NO_CFI] = COUNTER_UNWIND_NO_CFI,
		[STACK_STOP_BAD_CFI] = COUNTER_UNWIND_BAD_CFI,
		[STACK_STOP_RANGE] = COUNTER_UNWIND_RANGE,
		[STACK_STOP_DEPTH] = COUNTER_UNWIND_DEPTH,
		[STACK_STOP_PAST] = COUNTER_UNWIND_PAST,
	};

	/* Past a frame that is gone because its function has returned: nothing is lost. */
	if (stack->stop == STACK_STOP_PAST && (stack->returned || stack->left))
		return;
	/* The others were counted where the window was copied. */
	if (by_stop[stack->stop])
		counters->v[by_stop[stack->stop]]++;
	for (size_t i = 0; i < stack->n; i++) {
		if (stack->frames[i].flags & UNWIND_F_FP) {
			counters->v[COUNTER_UNWIND_FP]++;
			break;
		}
	}
}

void space_unwind(struct space *s, const struct unwind_input *in, uint64_t mono_ns,
		  struct unwind_stack *ret, struct counters *counters)
{
	unwind_window(in, find_rule, s, ret);
	if (is_doubtful(ret) && refresh_if_due(s, mono_ns, counters))
		unwind_window(in, find_rule, s, ret);
	count_stop(ret, counters);
	counters->v[COUNTER_CACHE_EVICTED] += rule_cache_evicted(s->cache->rules);
	counters->v[COUNTER_MODULE_UNREADABLE] += s->n_unreadable;
	counters->v[COUNTER_STRINGS_FULL] += s->n_paths_lost;
	s->n_unreadable = 0;
	s->n_paths_lost = 0;
}
