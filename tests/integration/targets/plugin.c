/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: an endpoint in a library that is loaded while spanprof runs. */
#include "truth.h"

int plugin_request(const char *name, void (*body)(void));

int plugin_request(const char *name, void (*body)(void))
{
	uint64_t start = truth_now();

	body();
	truth_note("call", name, start, truth_now());
	return 1;
}
