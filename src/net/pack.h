/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.h: what messages.c and segment.c share: packing, and lists of key and value pairs. The only
 * header of ours with protobuf-c's types; no other file includes it.
 */
#ifndef SPANPROF_NET_PACK_H
#define SPANPROF_NET_PACK_H

#include <skywalking/common.pb-c.h>
#include <stddef.h>

#include "net/label.h"
#include "net/messages.h"

enum { PAIR_KEY_MAX = 64 };

struct pair {
	Skywalking__V3__KeyStringValuePair message;
	char key[PAIR_KEY_MAX * 4 + 1];
	char value[LABEL_VALUE_MAX * 4 + 1];
};

struct pairs {
	struct pair *at;                           /* owned, max of them */
	Skywalking__V3__KeyStringValuePair **list; /* owned; what a message points to */
	size_t n;
	size_t max;
};

int pairs_init(struct pairs *ret, size_t max);
void pairs_deinit(struct pairs *p);
/* Copies both texts, made fit for the wire; 0 or -ENOSPC. */
int pairs_add(struct pairs *p, const char *key, const char *value);

/* Appends a protobuf-c message; 0 or -ENOMEM. */
int pack_message(const void *message, struct bytes *to);

#endif
