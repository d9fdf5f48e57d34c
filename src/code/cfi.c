/* SPDX-License-Identifier: Apache-2.0 */
#include "code/cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vec.h"
#include "code/cfi_entry.h"
#include "code/cfi_rule.h"

enum {
	SMALL_BYTES = 512,        /* covers nearly every entry in one read */
	HDR_PAIR_BYTES = 8,       /* one row of .eh_frame_hdr's table */
	HDR_CHUNK_ROWS = 256,     /* rows read at once at the end of a search */
	INDEX_MAX = 1 << 18,      /* FDEs that are indexed of a file without .eh_frame_hdr */
	SCAN_BYTES_MAX = 1 << 26, /* bytes that are looked through for the index */
};

struct index_row {
	uint64_t start;
	uint64_t end;
	uint64_t entry; /* address of the FDE */
};

struct cfi_table {
	struct cfi_source src;
	bool ready;
	uint64_t rows_addr;          /* .eh_frame_hdr's table */
	uint64_t n_rows;             /* 0: search by index */
	VEC(struct index_row) index; /* by start */
};

/* One entry's bytes. */
struct entry {
	uint8_t small[SMALL_BYTES];
	uint8_t *big; /* owned; used when it does not fit into small */
	struct cfi_bytes bytes;
	struct cfi_head head;
};

static void entry_deinit(struct entry *e)
{
	free(e->big);
}

int cfi_table_new(struct cfi_table **ret, const struct cfi_source *src)
{
	struct cfi_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->src = *src;
	*ret = t;
	return 0;
}

struct cfi_table *cfi_table_free(struct cfi_table *t)
{
	if (t)
		vec_free(&t->index);
	free(t);
	return NULL;
}

static size_t read_at(struct cfi_table *t, uint64_t addr, void *buf, size_t n)
{
	return t->src.read(t->src.ctx, addr, buf, n);
}

/* Reads the whole entry at addr. CFI_OK, CFI_E_BAD or -ENOMEM. */
static int read_entry(struct cfi_table *t, uint64_t addr, struct entry *ret)
{
	size_t got = read_at(t, addr, ret->small, SMALL_BYTES);
	struct cfi_bytes b = {.at = ret->small, .end = ret->small + got, .addr = addr};

	if (!cfi_parse_head(b, t->src.debug_frame, t->src.frame_addr, &ret->head) ||
	    ret->head.total_bytes > CFI_ENTRY_MAX)
		return CFI_E_BAD;
	if (ret->head.total_bytes > got) {
		free(TAKE_PTR(ret->big));
		ret->big = malloc(ret->head.total_bytes);
		if (!ret->big)
			return -ENOMEM;
		if (read_at(t, addr, ret->big, ret->head.total_bytes) != ret->head.total_bytes)
			return CFI_E_BAD;
		b.at = ret->big;
	}
	b.end = b.at + ret->head.total_bytes;
	ret->bytes = b;
	return CFI_OK;
}

/* The rule at addr from the FDE at fde_addr. */
static int use_fde(struct cfi_table *t, uint64_t fde_addr, uint64_t addr, struct cfi_buf *ret)
{
	CLEANUP(entry_deinit) struct entry fde_entry = {.big = NULL};
	CLEANUP(entry_deinit) struct entry cie_entry = {.big = NULL};
	struct cfi_cie cie;
	struct cfi_fde fde;
	int r;

	r = read_entry(t, fde_addr, &fde_entry);
	if (r)
		return r;
	if (fde_entry.head.is_cie || fde_entry.head.terminator)
		return CFI_E_BAD;
	r = read_entry(t, fde_entry.head.cie_addr, &cie_entry);
	if (r)
		return r;
	if (!cfi_parse_cie(cie_entry.bytes, &cie_entry.head, &cie) ||
	    !cfi_parse_fde(fde_entry.bytes, &fde_entry.head, &cie, &fde))
		return CFI_E_BAD;
	return cfi_rule_make(&cie, &fde, addr, ret);
}

static uint64_t row_value(const struct cfi_table *t, const uint8_t *row)
{
	int32_t v;

	memcpy(&v, row, 4);
	return t->src.hdr_addr + (int64_t)v;
}

/*
 * The FDE of the last row whose start is not above addr. False when there is none. The table is
 * sorted; one that is not only makes the search miss.
 */
static bool search_rows(struct cfi_table *t, uint64_t addr, uint64_t *ret_fde)
{
	uint8_t chunk[HDR_CHUNK_ROWS * HDR_PAIR_BYTES];
	uint64_t low = 0, high = t->n_rows; /* the row is in [low, high) or there is none */
	bool found = false;
	size_t got;

	while (high - low > HDR_CHUNK_ROWS) {
		uint64_t mid = low + (high - low) / 2;

		if (read_at(t, t->rows_addr + mid * HDR_PAIR_BYTES, chunk, 4) != 4)
			return false;
		if (row_value(t, chunk) <= addr)
			low = mid;
		else
			high = mid;
	}
	got = read_at(t, t->rows_addr + low * HDR_PAIR_BYTES, chunk, (high - low) * HDR_PAIR_BYTES);
	low = 0;
	high = got / HDR_PAIR_BYTES;
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		const uint8_t *row = chunk + mid * HDR_PAIR_BYTES;

		if (row_value(t, row) <= addr) {
			*ret_fde = row_value(t, row + 4);
			found = true;
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return found;
}

/* Reads .eh_frame_hdr (LSB, "Exception Frame Header"). */
static void read_hdr(struct cfi_table *t)
{
	uint8_t buf[32];
	size_t want = t->src.hdr_bytes < sizeof(buf) ? t->src.hdr_bytes : sizeof(buf);
	size_t got = want >= 4 ? read_at(t, t->src.hdr_addr, buf, want) : 0;
	struct cfi_bytes b = {.at = buf + 4, .end = buf + got, .addr = t->src.hdr_addr + 4};
	uint64_t frame, n;

	if (got < 4 || buf[0] != 1 || !cfi_take_encoded(&b, buf[1], t->src.hdr_addr, &frame))
		return;
	if (!t->src.frame_bytes) {
		/* How far it reaches is not told; its terminator ends the scan. */
		t->src.frame_addr = frame;
		t->src.frame_bytes = SCAN_BYTES_MAX;
	}
	if (buf[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4) ||
	    !cfi_take_encoded(&b, buf[2], t->src.hdr_addr, &n))
		return;
	if (n > (t->src.hdr_bytes - (b.at - buf)) / HDR_PAIR_BYTES)
		return;
	t->rows_addr = b.addr;
	t->n_rows = n;
}

/* Adds one FDE of a scan; malformed ones are left out. */
static int index_fde(struct cfi_table *t, const struct entry *fde_entry, uint64_t fde_addr)
{
	CLEANUP(entry_deinit) struct entry cie_entry = {.big = NULL};
	struct cfi_cie cie;
	struct cfi_fde fde;
	int r = read_entry(t, fde_entry->head.cie_addr, &cie_entry);

	if (r < 0)
		return r;
	if (r || !cfi_parse_cie(cie_entry.bytes, &cie_entry.head, &cie) ||
	    !cfi_parse_fde(fde_entry->bytes, &fde_entry->head, &cie, &fde) || fde.start >= fde.end)
		return 0;
	return vec_push(&t->index, (struct index_row){fde.start, fde.end, fde_addr});
}

static int compare_rows(const void *a, const void *b)
{
	const struct index_row *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int scan(struct cfi_table *t)
{
	CLEANUP(entry_deinit) struct entry e = {.big = NULL};
	uint64_t addr = t->src.frame_addr, left = t->src.frame_bytes;
	int r;

	if (left > SCAN_BYTES_MAX)
		left = SCAN_BYTES_MAX;
	while (left && t->index.n < INDEX_MAX) {
		r = read_entry(t, addr, &e);
		if (r < 0)
			return r;
		if (r || e.head.terminator || e.head.total_bytes > left)
			break;
		if (!e.head.is_cie) {
			r = index_fde(t, &e, addr);
			if (r < 0)
				return r;
		}
		addr += e.head.total_bytes;
		left -= e.head.total_bytes;
	}
	if (t->index.n)
		qsort(t->index.at, t->index.n, sizeof(*t->index.at), compare_rows);
	return 0;
}

static bool search_index(const struct cfi_table *t, uint64_t addr, uint64_t *ret_fde)
{
	size_t n = search_first(t->index.at, t->index.n, e, e->start <= addr);

	if (!n || addr >= t->index.at[n - 1].end)
		return false;
	*ret_fde = t->index.at[n - 1].entry;
	return true;
}

static int prepare(struct cfi_table *t)
{
	int r = 0;

	if (t->ready)
		return 0;
	if (t->src.hdr_bytes)
		read_hdr(t);
	if (!t->n_rows)
		r = scan(t);
	t->ready = r == 0;
	return r;
}

int cfi_table_find(struct cfi_table *t, uint64_t addr, struct cfi_buf *ret)
{
	uint64_t fde;
	int r = prepare(t);

	if (r < 0)
		return r;
	if (!(t->n_rows ? search_rows(t, addr, &fde) : search_index(t, addr, &fde)))
		return CFI_E_NO_CFI;
	return use_fde(t, fde, addr, ret);
}

int cfi_table_each(struct cfi_table *t, cfi_range_fn fn, void *ctx)
{
	int r = prepare(t);

	if (r == 0 && !t->index.n)
		r = scan(t);
	for (size_t i = 0; i < t->index.n && r == 0; i++)
		r = fn(ctx, t->index.at[i].start, t->index.at[i].end);
	return r == 0 && t->index.n >= INDEX_MAX ? 1 : r;
}
