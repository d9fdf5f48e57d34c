/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_cache.h: the modules that are open, by device and inode, shared by all processes.
 *
 * An open module holds a file descriptor, so an inode number cannot be reused while it is known.
 * Bounded: modules that nobody but the cache holds are closed first; when all are in use, no more
 * are opened.
 */
#ifndef SPANPROF_CODE_MODULE_CACHE_H
#define SPANPROF_CODE_MODULE_CACHE_H

#include "code/module.h"

struct module_cache;

int module_cache_new(struct module_cache **ret, size_t max_modules);
struct module_cache *module_cache_free(struct module_cache *c);

/* Borrowed; NULL when it is not there. */
struct module *module_cache_get(struct module_cache *c, uint64_t dev, uint64_t ino);

/* Adds a reference of the cache's own. 0, -ENOMEM, or -EMFILE when all are in use. */
int module_cache_put(struct module_cache *c, uint64_t dev, uint64_t ino, struct module *m);

size_t module_cache_count(const struct module_cache *c);

#endif
