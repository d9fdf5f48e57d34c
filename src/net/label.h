/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h: text made fit for a protobuf string field and for SkyWalking's length limits. Pure.
 *
 * A backend in Java refuses a whole message when one of its strings is not UTF-8, and cuts names at
 * a number of UTF-16 units. Names from targets are hostile; so every string passes here once.
 */
#ifndef SPANPROF_NET_LABEL_H
#define SPANPROF_NET_LABEL_H

#include <stdbool.h>
#include <stddef.h>

enum {
	LABEL_SERVICE_MAX = 70, /* UTF-16 units, defaults of SkyWalking's OAP */
	LABEL_INSTANCE_MAX = 70,
	LABEL_ENDPOINT_MAX = 150,
	LABEL_ID_MAX = 150,    /* trace and segment ids */
	LABEL_FRAME_MAX = 512, /* ours: no server has a limit */
	LABEL_VALUE_MAX = 256, /* ours: tags and properties */
};

/*
 * Copies src as valid UTF-8 without control characters, cut at max_units UTF-16 units or at the
 * buffer's end, whichever comes first, never inside a character. Each bad byte becomes '?'. NULL is
 * "". Returns the length; n must be at least 1.
 */
size_t label_copy(char *buf, size_t n, const char *src, size_t max_units);

/* True when label_copy() would change nothing but the length. */
bool label_is_clean(const char *src);

#endif
