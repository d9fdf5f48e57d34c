/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h: tells systemd how the service is (sd_notify(3)'s protocol: one datagram a message). Does
 * nothing when the program was not started by systemd.
 */
#ifndef SPANPROF_APP_NOTIFY_H
#define SPANPROF_APP_NOTIFY_H

#include <stdint.h>

struct notify {
	int fd;               /* connected; -1: nobody listens */
	uint64_t watchdog_ns; /* between two signs of life; 0: none wanted */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them out of the environment. */
void notify_open(struct notify *n);
void notify_close(struct notify *n);

/* "READY=1", "RELOADING=1", "STOPPING=1", "WATCHDOG=1", "STATUS=..." */
void notify_send(struct notify *n, const char *message);

#endif
