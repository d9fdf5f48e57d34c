/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c: frames are added one by one, the most telling first, as long as they fit. */
#include "model/chain.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

enum { TAIL = 5 }; /* own frames up to the last one that go before those after the first */

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

/* The last named frame of the program's own; without names, the last own one. */
static size_t last_own(const struct chain_frame *frames, size_t n)
{
	while (n > 1 && frames[n - 1].runtime)
		n--;
	for (size_t i = n; i-- > 0;)
		if (!frames[i].runtime && !frames[i].unnamed)
			return i;
	return n - 1;
}

/* Own frames from the last one on towards the first, then those behind the first. */
static void try_own(struct chain_frame *frames, size_t n, size_t last, unsigned int room)
{
	for (size_t i = last, left = TAIL; i && left > 1;) {
		if (is_inside(frames, --i) || frames[i].unnamed)
			continue;
		if (!try_frame(frames, n, i, room))
			break;
		left--;
	}
	for (size_t i = 1; i < last; i++)
		if (!is_inside(frames, i) && !frames[i].unnamed && !try_frame(frames, n, i, room))
			break;
}

/* What is left: the inside of libraries, then, from the last one on, what has no name. */
static void try_rest(struct chain_frame *frames, size_t n, unsigned int room)
{
	for (size_t i = 1; i < n; i++)
		if (!frames[i].unnamed && !try_frame(frames, n, i, room))
			break;
	for (size_t i = n; i-- > 0;)
		if (frames[i].unnamed && !try_frame(frames, n, i, room))
			break;
}

void chain_choose(struct chain_frame *frames, size_t n, unsigned int room)
{
	size_t last = last_own(frames, n), next = last + 1;

	for (size_t i = 0; i < n; i++)
		frames[i].shown = true;
	if (chain_width(frames, n) <= room)
		return;
	/* Where no own frame has a name, all say the same. */
	for (size_t i = 0, bare = frames[last].unnamed; i < n; i++) {
		frames[i].shown = i == last;
		frames[i].unnamed = frames[i].unnamed && (frames[i].runtime || !bare);
	}
	if (!frames[0].unnamed)
		try_frame(frames, n, 0, room);
	while (next < n && frames[next].unnamed)
		next++;
	if (next < n)
		try_frame(frames, n, next, room);
	try_own(frames, n, last, room);
	try_rest(frames, n, room);
}
