/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variants.h: which endpoints of a preset are for the programs that are profiled: it may have one
 * for each of several builds of its server, told apart by the option file=.
 */
#ifndef SPANPROF_APP_VARIANTS_H
#define SPANPROF_APP_VARIANTS_H

#include "app/run_options.h"
#include "probe/preset.h"
#include "probe/servers.h"

/*
 * One flag for each endpoint of the preset. found: servers that the preset has found itself; else
 * the options name processes, executables or a command. When none fits, or what runs cannot be
 * told, all are wanted: attaching says what is wrong.
 */
void variants_choose(const struct preset *p, const struct run_options *o,
		     const struct servers *found, bool wanted[PRESET_VALUES_MAX]);

#endif
