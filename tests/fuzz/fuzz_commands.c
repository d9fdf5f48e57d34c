/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_commands.c: any bytes as the answer to a task poll. What comes out is checked for its bounds. */
#include <assert.h>
#include <string.h>

#include "net/commands.h"
#include "net/label.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct commands c;

	if (decode_commands(data, n, &c) != COMMANDS_OK)
		return 0;
	for (size_t i = 0; i < c.tasks.n; i++) {
		const struct profile_command *t = &c.tasks.at[i];

		assert(t->why || (t->raw.id && *t->raw.id));
		assert(!t->raw.id || label_is_clean(t->raw.id));
		assert(!t->raw.endpoint || label_is_clean(t->raw.endpoint));
		assert(t->raw.duration_min == (int32_t)t->raw.duration_min);
		assert(!i || c.tasks.at[i - 1].raw.create_ms <= t->raw.create_ms);
	}
	commands_deinit(&c);
	return 0;
}
