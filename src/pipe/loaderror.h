/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loaderror.h: why a kernel refuses the BPF programs, in words: a capability, a feature or a limit that is
 * missing, or what its verifier says.
 */
#ifndef SPANPROF_PIPE_LOADERROR_H
#define SPANPROF_PIPE_LOADERROR_H

#include "base/errmsg.h"

/* Sets the message for a load that failed with r; log: the verifier's, changed. Returns r. */
int loaderror_explain(int r, char *log, struct errmsg *e);
/* The last line of the verifier's log but its statistics; the log is changed. */
const char *loaderror_reason(char *log);

#endif
