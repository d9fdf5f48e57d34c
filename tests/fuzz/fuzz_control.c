/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_control.c: a line of the control protocol becomes a valid request or an error reply. */
#include <assert.h>
#include <stdlib.h>

#include "task/control_message.h"
#include "task/task.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct control_request r;
	struct errmsg e = {};
	char *reply;

	if (parse_control_line((const char *)data, n, &r, &e)) {
		assert(e.text[0]);
		reply = control_reply_error(r.req, CONTROL_E_INVALID, e.text);
		assert(reply);
		free(reply);
	} else if (r.command == CONTROL_TASK_CREATE) {
		assert(r.task.service[0] && r.task.endpoint[0] && r.task.period_ns >= 1000000);
	}
	return 0;
}
