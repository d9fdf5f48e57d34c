/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_modules.h: the test program's own mapped files, as endpoints are looked for in them.
 */
#ifndef SPANPROF_TESTS_UNIT_OWN_MODULES_H
#define SPANPROF_TESTS_UNIT_OWN_MODULES_H

#include <unistd.h>

#include "code/space.h"
#include "probe/resolve.h"
#include "unit.h"

struct own_modules {
	struct space_cache *cache;
	struct space *space;
	struct binaries *binaries;
	struct resolve_input in;
};

static inline void own_modules_init(struct own_modules *o)
{
	assert_int_equal(space_cache_new(&o->cache), 0);
	assert_int_equal(space_new(&o->space, o->cache, getpid()), 0);
	assert_int_equal(space_refresh(o->space), 0);
	assert_int_equal(binaries_new(&o->binaries, NULL, 0), 0);
	o->in = (struct resolve_input){.binaries = o->binaries, .space = o->space, .pid = getpid()};
}

static inline void own_modules_deinit(struct own_modules *o)
{
	binaries_free(o->binaries);
	space_free(o->space);
	space_cache_free(o->cache);
}

#endif
