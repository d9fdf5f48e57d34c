/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c: frames are added one by one, the most telling first, as long as they fit. */
#include "export/chain.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

enum { TAIL = 4 }; /* own frames up to the last one that go before those after the first */

static bool begins_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

bool chain_is_runtime(const char *module_path, const char *function)
{
	static const char *const files[] = {
		"libc.so",      "libc-",       "libpthread",   "libm.so",      "libm-",
		"libstdc++.so", "libgcc_s.so", "libc++.so",    "libc++abi.so", "ld-",
		"librt.so",     "libdl.so",    "libjemalloc.", "libtcmalloc",
	};
	static const char *const names[] = {
		"std::", "core::", "alloc::", "<std::", "<core::", "<alloc::"};
	const char *base = text_base_name(module_path);

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (begins_with(base, files[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (begins_with(function, names[i]))
			return true;
	return false;
}

unsigned int chain_width(const struct chain_frame *frames, size_t n)
{
	const unsigned int gap = strlen(CHAIN_GAP), cut = strlen(CHAIN_CUT);
	unsigned int width = 0;
	bool shown = true; /* the frame before, or that a cut already stands for it */

	for (size_t i = 0; i < n; i++) {
		if (frames[i].shown)
			width += (width ? gap : 0) + frames[i].width;
		else if (shown)
			width += (width ? gap : 0) + cut;
		shown = frames[i].shown;
	}
	return width;
}

/* Shows the frame when it fits, or is the first one chosen. */
static bool try_frame(struct chain_frame *frames, size_t n, size_t i, unsigned int room)
{
	if (frames[i].shown)
		return true;
	frames[i].shown = true;
	if (chain_width(frames, n) > room)
		frames[i].shown = false;
	return frames[i].shown;
}

/* Called by the runtime library itself. */
static bool is_inside(const struct chain_frame *frames, size_t i)
{
	return i && frames[i].runtime && frames[i - 1].runtime;
}

static size_t last_own(const struct chain_frame *frames, size_t n)
{
	while (n > 1 && frames[n - 1].runtime)
		n--;
	return n - 1;
}

void chain_choose(struct chain_frame *frames, size_t n, unsigned int room)
{
	size_t last = last_own(frames, n);

	for (size_t i = 0; i < n; i++)
		frames[i].shown = true;
	if (chain_width(frames, n) <= room)
		return;
	for (size_t i = 0; i < n; i++)
		frames[i].shown = i == last;
	try_frame(frames, n, 0, room);
	if (last + 1 < n)
		try_frame(frames, n, last + 1, room);
	for (size_t i = last, left = TAIL; i && --left;)
		if (!is_inside(frames, --i) && !try_frame(frames, n, i, room))
			break;
	for (size_t i = 1; i < last; i++)
		if (!is_inside(frames, i) && !try_frame(frames, n, i, room))
			break;
	for (size_t i = 1; i < n; i++)
		if (is_inside(frames, i) && !try_frame(frames, n, i, room))
			break;
}
