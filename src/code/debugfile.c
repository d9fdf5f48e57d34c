/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugfile.c: see debugfile.h.
 *
 * A root is where paths begin: the host's, or that of a process in another mount namespace. Every
 * candidate is opened below a root (rootfile.h), must be an ELF file with symbols or DWARF, must not
 * be the module itself, and must prove that it belongs to the module.
 */
#include "code/debugfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/vec.h"
#include "code/debugfile_priv.h"
#include "code/debuginfod.h"
#include "code/elffile.h"
#include "code/rootfile.h"

enum {
	ROOTS_MAX = 16,
	PIDS_MAX = 4096,
	DIRS_MAX = 16,
	BUILD_ID_BYTES_MAX = 64,
	LINK_NAME_MAX = 255,
};

struct root {
	int fd;           /* owned */
	int namespace_fd; /* owned: without it the mounts below the root go with the last process */
	uint64_t namespace_ino;
	dev_t dev;
	ino_t ino;
};

struct debugfile_search {
	char *dirs[DIRS_MAX]; /* owned, absolute */
	size_t n_dirs;
	struct root host;
	struct root roots[ROOTS_MAX];
	size_t n_roots;
	size_t next_root;           /* the one to give up when all are taken */
	const struct root *current; /* NULL: the host only */
	struct hash pids;           /* pid -> index into roots + 1; 0: the host's */
	bool debuginfod;
	uint64_t budget_ns;        /* left */
	struct debuginfod *client; /* owned, loaded on first use */
};

struct debugfile {
	int fd;     /* owned */
	Elf *elf;   /* owned */
	int alt_fd; /* owned */
	bool alt_missing;
	char path[PATH_MAX];
};

/* What proves that a file belongs to a module. */
struct proof {
	const uint8_t *build_id;
	size_t build_id_bytes;
	bool has_crc;
	uint32_t crc;
	int module_fd;
};

DEFINE_CLEANUP(struct debugfile_search *, debugfile_search_free)
DEFINE_CLEANUP(struct debugfile *, debugfile_close)

static int add_dirs(struct debugfile_search *s, const char *dirs)
{
	AUTO_FREE char *copy = strdup(dirs);
	char *save = NULL;

	if (!copy)
		return -ENOMEM;
	for (char *d = strtok_r(copy, ":", &save); d; d = strtok_r(NULL, ":", &save)) {
		char *absolute = d[0] == '/' ? strdup(d) : realpath(d, NULL);

		if (!absolute && (errno == ENOMEM || d[0] == '/'))
			return -ENOMEM;
		if (!absolute)
			continue;
		if (s->n_dirs == DIRS_MAX) {
			free(absolute);
			break;
		}
		s->dirs[s->n_dirs++] = absolute;
	}
	return 0;
}

/* 0, or a negative errno when the process is gone. */
static int root_open(struct root *ret, const char *proc)
{
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int namespace_fd = -1;
	char path[64];
	struct stat st, ns;

	snprintf(path, sizeof(path), "/proc/%s/root", proc);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%s/ns/mnt", proc);
	namespace_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace_fd < 0 || fstat(fd, &st) < 0 || fstat(namespace_fd, &ns) < 0)
		return -errno;
	*ret = (struct root){
		.namespace_ino = ns.st_ino,
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	ret->fd = TAKE_FD(fd);
	ret->namespace_fd = TAKE_FD(namespace_fd);
	return 0;
}

static void root_close(struct root *r)
{
	cleanup_fd(&r->fd);
	cleanup_fd(&r->namespace_fd);
}

static bool root_is_same(const struct root *a, const struct root *b)
{
	return a->namespace_ino == b->namespace_ino && a->dev == b->dev && a->ino == b->ino;
}

int debugfile_search_new(struct debugfile_search **ret, const char *dirs, bool debuginfod,
			 uint64_t budget_ns)
{
	CLEANUP(debugfile_search_freep) struct debugfile_search *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->host.fd = s->host.namespace_fd = -1;
	hash_init(&s->pids);
	s->debuginfod = debuginfod;
	s->budget_ns = budget_ns;
	r = add_dirs(s, dirs ? dirs : DEBUGFILE_DIRS);
	if (!r)
		r = root_open(&s->host, "self");
	if (r)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct debugfile_search *debugfile_search_free(struct debugfile_search *s)
{
	if (!s)
		return NULL;
	debuginfod_free(s->client);
	for (size_t i = 0; i < s->n_roots; i++)
		root_close(&s->roots[i]);
	root_close(&s->host);
	for (size_t i = 0; i < s->n_dirs; i++)
		free(s->dirs[i]);
	hash_deinit(&s->pids);
	free(s);
	return NULL;
}

/* Index + 1 of this root among those held, 0 for the host's. Takes the descriptors. */
static size_t keep_root(struct debugfile_search *s, struct root *take)
{
	size_t i;

	for (i = 0; i < s->n_roots; i++)
		if (root_is_same(&s->roots[i], take))
			break;
	if (root_is_same(&s->host, take) || i < s->n_roots) {
		root_close(take);
		return root_is_same(&s->host, take) ? 0 : i + 1;
	}
	if (s->n_roots < ROOTS_MAX) {
		i = s->n_roots++;
	} else {
		i = s->next_root++ % ROOTS_MAX;
		root_close(&s->roots[i]);
		/* Processes that had the old one are asked again. */
		hash_deinit(&s->pids);
		hash_init(&s->pids);
	}
	s->roots[i] = *take;
	return i + 1;
}

int debugfile_search_use_process(struct debugfile_search *s, pid_t pid)
{
	uint64_t *known;
	struct root root = {.fd = -1, .namespace_fd = -1};
	char proc[16];
	size_t at;

	snprintf(proc, sizeof(proc), "%d", (int)pid);
	if (root_open(&root, proc) == 0) {
		at = keep_root(s, &root);
		if (s->pids.n >= PIDS_MAX) {
			hash_deinit(&s->pids);
			hash_init(&s->pids);
		}
		s->current = at ? &s->roots[at - 1] : NULL;
		return hash_set(&s->pids, (uint64_t)pid, at);
	}
	known = hash_get(&s->pids, (uint64_t)pid);
	s->current = known && *known ? &s->roots[*known - 1] : NULL;
	return 0;
}

int debugfile_search_root(const struct debugfile_search *s)
{
	return s->current ? s->current->fd : s->host.fd;
}

/* CRC-32 as in the debug link (the polynomial and bit order of zlib's). */
static bool crc_matches(int fd, uint32_t want)
{
	uint8_t buf[16384];
	uLong crc = crc32(0, NULL, 0);
	off_t off = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), off)) > 0) {
		crc = crc32(crc, buf, (uInt)n);
		off += n;
	}
	return n == 0 && crc == want;
}

static bool is_same_file(int fd, const struct stat *st)
{
	struct stat other;

	return fd >= 0 && fstat(fd, &other) == 0 && other.st_dev == st->st_dev &&
	       other.st_ino == st->st_ino;
}

static bool proves(const struct proof *p, Elf *elf, int fd)
{
	uint8_t id[BUILD_ID_BYTES_MAX];
	size_t n = elffile_build_id(elf, id, sizeof(id));

	if (p->build_id_bytes && n)
		return n == p->build_id_bytes && memcmp(id, p->build_id, n) == 0;
	return p->has_crc && crc_matches(fd, p->crc);
}

static bool is_useful(Elf *elf)
{
	Elf64_Shdr sh;

	return elffile_has_dwarf(elf) || elffile_section_of_type(elf, SHT_SYMTAB, &sh);
}

/* Takes the descriptor when it returns 0. */
static int accept_file(int *fd, const char *path, const struct proof *p, struct debugfile **ret)
{
	CLEANUP(debugfile_closep) struct debugfile *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->fd = f->alt_fd = -1;
	r = elffile_begin(*fd, &f->elf);
	if (r)
		return r == -ENOMEM ? r : -ENOENT;
	if (!proves(p, f->elf, *fd) || !is_useful(f->elf))
		return -ENOENT;
	f->fd = TAKE_FD(*fd);
	snprintf(f->path, sizeof(f->path), "%s", path);
	*ret = TAKE_PTR(f);
	return 0;
}

/* -ENOENT: not here, or not the one; any other error than -ENOMEM means the same. */
static int try_path(const struct root *root, const char *path, const struct proof *p,
		    struct debugfile **ret)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (rootfile_open(root->fd, path, &fd, &st) || is_same_file(p->module_fd, &st))
		return -ENOENT;
	return accept_file(&fd, path, p, ret);
}

static void format_hex(char *to, const uint8_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(to + 2 * i, 3, "%02x", id[i]);
}

static int try_build_id(struct debugfile_search *s, const struct root *root, const struct proof *p,
			struct debugfile **ret)
{
	char hex[2 * BUILD_ID_BYTES_MAX + 1], path[PATH_MAX];
	int r = -ENOENT;

	if (p->build_id_bytes < 2 || p->build_id_bytes > BUILD_ID_BYTES_MAX)
		return -ENOENT;
	format_hex(hex, p->build_id, p->build_id_bytes);
	for (size_t i = 0; i < s->n_dirs && r == -ENOENT; i++) {
		snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", s->dirs[i], hex,
			 hex + 2);
		r = try_path(root, path, p, ret);
	}
	return r;
}

/* The link's file name and CRC; false when there is none or it could lead elsewhere. */
static bool read_link(struct module *m, char name[LINK_NAME_MAX + 1], struct proof *p)
{
	Elf64_Shdr sh;
	Elf *elf = module_elf(m);
	Elf_Scn *scn = elf ? elffile_section(elf, ".gnu_debuglink", &sh) : NULL;
	size_t bytes, n, crc_off;
	const char *data = scn ? elffile_data(scn, &bytes) : NULL;

	if (!data)
		return false;
	n = strnlen(data, bytes);
	crc_off = (n + 4) & ~(size_t)3;
	if (n == 0 || n > LINK_NAME_MAX || crc_off > bytes || bytes - crc_off < 4 ||
	    memchr(data, '/', n))
		return false;
	memcpy(name, data, n);
	name[n] = '\0';
	memcpy(&p->crc, data + crc_off, 4);
	p->has_crc = true;
	return true;
}

/* Length of the folder part of an absolute path; 0 for any other. */
static size_t folder_length(const char *path)
{
	const char *slash = path[0] == '/' ? strrchr(path, '/') : NULL;

	return slash ? (size_t)(slash - path) : 0;
}

static int try_link(struct debugfile_search *s, const struct root *root, struct module *m,
		    const char *name, const struct proof *p, struct debugfile **ret)
{
	static const char *const beside[] = {"", "/.debug"};
	const char *module = module_path(m);
	int n = (int)folder_length(module), r = -ENOENT;
	char path[PATH_MAX];

	if (module[0] != '/')
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(beside) && r == -ENOENT; i++) {
		snprintf(path, sizeof(path), "%.*s%s/%s", n, module, beside[i], name);
		r = try_path(root, path, p, ret);
	}
	for (size_t i = 0; i < s->n_dirs && r == -ENOENT; i++) {
		snprintf(path, sizeof(path), "%s%.*s/%s", s->dirs[i], n, module, name);
		r = try_path(root, path, p, ret);
	}
	return r;
}

static int try_root(struct debugfile_search *s, const struct root *root, struct module *m,
		    struct proof *p, struct debugfile **ret)
{
	char name[LINK_NAME_MAX + 1];
	int r = try_build_id(s, root, p, ret);

	if (r == -ENOENT && read_link(m, name, p))
		r = try_link(s, root, m, name, p, ret);
	return r;
}

static int try_debuginfod(struct debugfile_search *s, const struct proof *p, struct debugfile **ret)
{
	AUTO_CLOSE int fd = -1;
	uint64_t start = clock_mono_ns(), spent;
	int r = 0;

	if (!s->debuginfod || s->budget_ns == 0 || p->build_id_bytes == 0)
		return -ENOENT;
	if (!s->client)
		r = debuginfod_new(&s->client);
	if (r) {
		s->debuginfod = false;
		return r == -ENOMEM ? r : -ENOENT;
	}
	r = debuginfod_fetch(s->client, p->build_id, p->build_id_bytes, s->budget_ns, &fd);
	spent = clock_mono_ns() - start;
	s->budget_ns -= spent < s->budget_ns ? spent : s->budget_ns;
	return r ? -ENOENT : accept_file(&fd, "[debuginfod]", p, ret);
}

/* File name and build ID of the dwz supplement; false when the file names none. */
static bool read_alt(Elf *elf, const char **ret_name, struct proof *p)
{
	Elf64_Shdr sh;
	Elf_Scn *scn = elffile_section(elf, ".gnu_debugaltlink", &sh);
	size_t bytes, n;
	const char *data = scn ? elffile_data(scn, &bytes) : NULL;

	if (!data)
		return false;
	n = strnlen(data, bytes);
	*p = (struct proof){.module_fd = -1};
	*ret_name = data;
	if (n + 1 >= bytes) /* damaged: it is there, but cannot be found */
		return true;
	p->build_id = (const uint8_t *)data + n + 1;
	p->build_id_bytes = bytes - n - 1;
	return true;
}

/* The supplement is named by an absolute path or relative to the file that needs it. */
static int try_alt(struct debugfile_search *s, const struct root *root, const char *from,
		   const char *name, const struct proof *p, struct debugfile **ret)
{
	char path[PATH_MAX];
	int r = try_build_id(s, root, p, ret);

	if (r != -ENOENT)
		return r;
	if (name[0] == '/')
		return try_path(root, name, p, ret);
	if ((size_t)snprintf(path, sizeof(path), "%.*s/%s", (int)folder_length(from), from, name) >=
	    sizeof(path))
		return -ENOENT;
	return try_path(root, path, p, ret);
}

int debugfile_find_alt(struct debugfile_search *s, Elf *elf, const char *from, int *ret_fd,
		       bool *ret_missing)
{
	CLEANUP(debugfile_closep) struct debugfile *alt = NULL;
	const char *name;
	struct proof p;
	int r = -ENOENT;

	*ret_missing = false;
	if (!read_alt(elf, &name, &p))
		return 0;
	if (p.build_id_bytes && s->current)
		r = try_alt(s, s->current, from, name, &p, &alt);
	if (p.build_id_bytes && r == -ENOENT)
		r = try_alt(s, &s->host, from, name, &p, &alt);
	if (r == -ENOMEM)
		return r;
	*ret_missing = r != 0;
	if (!r)
		*ret_fd = TAKE_FD(alt->fd);
	return 0;
}

int debugfile_open(struct debugfile_search *s, struct module *m, struct debugfile **ret)
{
	CLEANUP(debugfile_closep) struct debugfile *f = NULL;
	struct proof p = {.module_fd = module_fd(m)};
	int r = -ENOENT;

	p.build_id_bytes = module_build_id(m, &p.build_id);
	if (s->current)
		r = try_root(s, s->current, m, &p, &f);
	if (r == -ENOENT)
		r = try_root(s, &s->host, m, &p, &f);
	if (r == -ENOENT)
		r = try_debuginfod(s, &p, &f);
	if (!r)
		r = debugfile_find_alt(s, f->elf, f->path, &f->alt_fd, &f->alt_missing);
	if (r)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

struct debugfile *debugfile_close(struct debugfile *f)
{
	if (!f)
		return NULL;
	if (f->elf)
		elf_end(f->elf);
	cleanup_fd(&f->fd);
	cleanup_fd(&f->alt_fd);
	free(f);
	return NULL;
}

const char *debugfile_path(const struct debugfile *f)
{
	return f->path;
}

Elf *debugfile_elf(const struct debugfile *f)
{
	return f->elf;
}

int debugfile_fd(const struct debugfile *f)
{
	return f->fd;
}

int debugfile_alt_fd(const struct debugfile *f)
{
	return f->alt_fd;
}

bool debugfile_alt_missing(const struct debugfile *f)
{
	return f->alt_missing;
}
