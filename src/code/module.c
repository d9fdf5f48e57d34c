/* SPDX-License-Identifier: Apache-2.0 */
#include "code/module.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "code/layout.h"

enum { IMAGE_BYTES_MAX = 1 << 20, OWN_VDSO_BYTES_MAX = 1 << 16 };

struct module {
	unsigned int refs;
	uint32_t id;
	enum module_kind kind;
	int fd;         /* owned; -1: image */
	uint8_t *image; /* owned; NULL: fd */
	uint64_t bytes;
	struct timespec written; /* when the file was, as it was opened */
	bool held;
	bool changed;
	char *path;
	struct layout layout;
	Elf *elf; /* owned, NULL until asked for */
	bool elf_tried;
	struct layout_section debug_frame;
	struct cfi_table *eh_frame_table;    /* owned, NULL until needed */
	struct cfi_table *debug_frame_table; /* owned, NULL: none or not needed yet */
	bool cfi_ready;
};

size_t module_read(const struct module *m, uint64_t file_off, void *buf, size_t n)
{
	size_t done = 0;

	if (file_off >= m->bytes)
		return 0;
	if (n > m->bytes - file_off)
		n = m->bytes - file_off;
	if (m->image) {
		memcpy(buf, m->image + file_off, n);
		return n;
	}
	while (done < n) {
		ssize_t got = pread(m->fd, (char *)buf + done, n - done, (off_t)(file_off + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += got;
	}
	return done;
}

static size_t read_file_bytes(void *ctx, uint64_t off, void *buf, size_t n)
{
	return module_read(ctx, off, buf, n);
}

static size_t read_memory_bytes(void *ctx, uint64_t addr, void *buf, size_t n)
{
	return module_read_code(ctx, addr, buf, n);
}

static size_t read_debug_frame(void *ctx, uint64_t off, void *buf, size_t n)
{
	struct module *m = ctx;

	if (off >= m->debug_frame.bytes)
		return 0;
	if (n > m->debug_frame.bytes - off)
		n = m->debug_frame.bytes - off;
	return module_read(m, m->debug_frame.file_off + off, buf, n);
}

static struct layout_source layout_source_of(struct module *m)
{
	return (struct layout_source){.read = read_file_bytes, .ctx = m, .name = m->path};
}

static uint32_t next_id(void)
{
	static atomic_uint last_id; /* only ever counts up: identity, not state */

	return atomic_fetch_add(&last_id, 1) + 1;
}

/* path and image are copied; image may be NULL. */
static struct module *module_new(enum module_kind kind, const char *path, const void *image,
				 size_t bytes)
{
	struct module *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->refs = 1;
	m->fd = -1;
	m->kind = kind;
	m->bytes = bytes;
	m->path = strdup(path);
	if (image)
		m->image = malloc(bytes + !bytes);
	if (!m->path || (image && !m->image))
		return module_unref(m);
	if (image)
		memcpy(m->image, image, bytes);
	return m;
}

static int finish_open(struct module **m, struct module **ret, struct errmsg *e)
{
	struct layout_source src = layout_source_of(*m);
	int r = layout_read(&src, &(*m)->layout, e);

	if (r)
		return r;
	(*m)->id = next_id();
	*ret = TAKE_PTR(*m);
	return 0;
}

DEFINE_CLEANUP(struct module *, module_unref)

int module_open_fd(struct module **ret, int take_fd, const char *path, struct errmsg *e)
{
	CLEANUP(module_unrefp) struct module *m = NULL;
	struct stat st;
	int r;

	if (fstat(take_fd, &st))
		return errmsg_set(e, -errno, "cannot look at '%s': %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return errmsg_set(e, -ENOEXEC, "cannot use '%s': it is not a regular file", path);
	m = module_new(MODULE_ELF, path, NULL, st.st_size);
	if (!m)
		return errmsg_set(e, -ENOMEM, "cannot open '%s': out of memory", path);
	m->fd = take_fd;
	m->written = st.st_mtim;
	r = finish_open(&m, ret, e);
	if (r)
		m->fd = -1; /* still the caller's */
	return r;
}

int module_open_image(struct module **ret, const void *image, size_t bytes, const char *path,
		      struct errmsg *e)
{
	CLEANUP(module_unrefp) struct module *m = NULL;

	if (bytes > IMAGE_BYTES_MAX)
		return errmsg_set(e, -ENOEXEC, "cannot use '%s': the image is too large", path);
	m = module_new(MODULE_VDSO, path, image, bytes);
	if (!m)
		return errmsg_set(e, -ENOMEM, "cannot open '%s': out of memory", path);
	return finish_open(&m, ret, e);
}

int module_open_own_vdso(struct module **ret, struct errmsg *e)
{
	AUTO_CLOSE int fd = -1;
	AUTO_FREE uint8_t *image = NULL;
	uint64_t addr = getauxval(AT_SYSINFO_EHDR);
	ssize_t got;

	if (!addr)
		return errmsg_set(e, -ENOENT, "this process has no vDSO");
	fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errmsg_set(e, -errno, "cannot read the vDSO: %s", strerror(errno));
	image = malloc(OWN_VDSO_BYTES_MAX);
	if (!image)
		return errmsg_set(e, -ENOMEM, "cannot read the vDSO: out of memory");
	/* The read ends where the mapping does. */
	got = pread(fd, image, OWN_VDSO_BYTES_MAX, (off_t)addr);
	if (got <= 0)
		return errmsg_set(e, -EIO, "cannot read the vDSO");
	return module_open_image(ret, image, got, "[vdso]", e);
}

/* The signal is one that is ignored unless somebody wants it: the lease is looked at. */
void module_hold(struct module *m)
{
	if (m->fd >= 0 && !m->held && !m->changed)
		m->held = !fcntl(m->fd, F_SETSIG, SIGURG) && !fcntl(m->fd, F_SETLEASE, F_RDLCK);
}

void module_let_go(struct module *m)
{
	if (m->held)
		fcntl(m->fd, F_SETLEASE, F_UNLCK);
	m->held = false;
}

bool module_is_held(const struct module *m)
{
	return m->held;
}

bool module_is_changed(struct module *m)
{
	struct stat st;

	if (m->fd < 0 || m->changed)
		return m->changed;
	if (m->held && fcntl(m->fd, F_GETLEASE) != F_RDLCK)
		m->changed = true;
	else if (!fstat(m->fd, &st))
		m->changed = (uint64_t)st.st_size != m->bytes ||
			     st.st_mtim.tv_sec != m->written.tv_sec ||
			     st.st_mtim.tv_nsec != m->written.tv_nsec;
	return m->changed;
}

struct module *module_ref(struct module *m)
{
	m->refs++;
	return m;
}

struct module *module_unref(struct module *m)
{
	if (!m)
		return NULL;
	assert(m->refs);
	if (--m->refs)
		return NULL;
	cfi_table_free(m->eh_frame_table);
	cfi_table_free(m->debug_frame_table);
	elf_end(m->elf);
	if (m->fd >= 0)
		close(m->fd);
	free(m->image);
	free(m->path);
	free(m);
	return NULL;
}

unsigned int module_refs(const struct module *m)
{
	return m->refs;
}

const char *module_path(const struct module *m)
{
	return m->path;
}

enum module_kind module_kind(const struct module *m)
{
	return m->kind;
}

uint32_t module_id(const struct module *m)
{
	return m->id;
}

int module_fd(const struct module *m)
{
	return m->fd;
}

uint64_t module_bytes(const struct module *m)
{
	return m->bytes;
}

size_t module_build_id(const struct module *m, const uint8_t **ret_id)
{
	*ret_id = m->layout.build_id;
	return m->layout.build_id_bytes;
}

bool module_vaddr_of_offset(const struct module *m, uint64_t file_off, uint64_t *ret_vaddr)
{
	return layout_vaddr_of_offset(&m->layout, file_off, ret_vaddr);
}

bool module_vaddr_of_mapping(const struct module *m, uint64_t file_off, uint64_t *ret_vaddr)
{
	return layout_vaddr_of_mapping(&m->layout, file_off, ret_vaddr);
}

bool module_offset_of_vaddr(const struct module *m, uint64_t vaddr, uint64_t *ret_file_off)
{
	return layout_offset_of_vaddr(&m->layout, vaddr, ret_file_off);
}

size_t module_read_code(const struct module *m, uint64_t vaddr, void *buf, size_t n)
{
	uint64_t off, left = layout_bytes_at(&m->layout, vaddr, &off);

	return left ? module_read(m, off, buf, n < left ? n : left) : 0;
}

uint64_t module_code_bytes(const struct module *m, uint64_t vaddr)
{
	uint64_t off, in_file, in_segment = layout_bytes_at(&m->layout, vaddr, &off);

	if (!in_segment || off >= m->bytes)
		return 0;
	in_file = m->bytes - off;
	return in_segment < in_file ? in_segment : in_file;
}

struct Elf *module_elf(struct module *m)
{
	if (m->elf_tried)
		return m->elf;
	m->elf_tried = true;
	elf_version(EV_CURRENT);
	m->elf = m->image ? elf_memory((char *)m->image, m->bytes)
			  : elf_begin(m->fd, ELF_C_READ, NULL);
	return m->elf;
}

static int open_eh_frame(struct module *m)
{
	struct cfi_source src = {
		.read = read_memory_bytes,
		.ctx = m,
		.hdr_addr = m->layout.eh_hdr_addr,
		.hdr_bytes = m->layout.eh_hdr_bytes,
	};
	struct layout_source file = layout_source_of(m);
	struct layout_section s;

	if (!src.hdr_bytes && layout_find_section(&file, ".eh_frame", &s) && !s.compressed) {
		src.frame_addr = s.addr;
		src.frame_bytes = s.bytes;
	}
	return src.hdr_bytes || src.frame_bytes ? cfi_table_new(&m->eh_frame_table, &src) : 0;
}

static int open_debug_frame(struct module *m)
{
	struct layout_source file = layout_source_of(m);
	struct cfi_source src = {.read = read_debug_frame, .ctx = m, .debug_frame = true};

	if (!layout_find_section(&file, ".debug_frame", &m->debug_frame) ||
	    m->debug_frame.compressed)
		return 0;
	src.frame_bytes = m->debug_frame.bytes;
	return cfi_table_new(&m->debug_frame_table, &src);
}

static int open_cfi(struct module *m)
{
	int r = 0;

	if (m->cfi_ready)
		return 0;
	r = open_eh_frame(m);
	if (!r)
		r = open_debug_frame(m);
	m->cfi_ready = !r;
	return r;
}

int module_find_cfi(struct module *m, uint64_t vaddr, struct cfi_buf *ret)
{
	int r = open_cfi(m);

	if (r)
		return r;
	r = CFI_E_NO_CFI;
	if (m->eh_frame_table)
		r = cfi_table_find(m->eh_frame_table, vaddr, ret);
	if (r == CFI_E_NO_CFI && m->debug_frame_table)
		r = cfi_table_find(m->debug_frame_table, vaddr, ret);
	return r;
}

int module_each_cfi(struct module *m, cfi_range_fn fn, void *ctx)
{
	int r = open_cfi(m), more = 0;

	if (r == 0 && m->eh_frame_table)
		r = cfi_table_each(m->eh_frame_table, fn, ctx);
	if (r >= 0 && m->debug_frame_table)
		more = cfi_table_each(m->debug_frame_table, fn, ctx);
	return r < 0 || more == 0 ? r : more;
}
