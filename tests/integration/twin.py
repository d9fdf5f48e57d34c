#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""twin.py PID COMMAND...: runs a command in the PID namespace of a process, with one number inside and outside.

BPF knows processes by their numbers outside, /proc inside shows the others: where the two are the same, what is
inside a namespace can be profiled from there.
"""
import ctypes
import errno
import os
import random
import sys

SYS_CLONE3 = 435
CLONE_NEWPID = 0x20000000
SIGCHLD = 17
TRIES = 100

libc = ctypes.CDLL(None, use_errno=True)


def clone_as(number):
    """fork(), into the namespace for children, with this number there and in the one above."""
    numbers = (ctypes.c_int * 2)(number, number)
    args = (ctypes.c_uint64 * 10)()
    args[4] = SIGCHLD
    args[8] = ctypes.addressof(numbers)
    args[9] = len(numbers)
    pid = libc.syscall(SYS_CLONE3, args, ctypes.sizeof(args))
    return pid if pid >= 0 else -ctypes.get_errno()


def main(init, *command):
    fd = os.open(f"/proc/{init}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(fd, CLONE_NEWPID):
        sys.exit(f"twin: setns: {os.strerror(ctypes.get_errno())}")
    pid = -errno.EEXIST
    for _ in range(TRIES):
        if pid != -errno.EEXIST:
            break
        pid = clone_as(random.randrange(10000, 32000))
    if pid < 0:
        sys.exit(f"twin: clone3: {os.strerror(-pid)}")
    if pid == 0:
        os.execvp(command[0], command)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)


if __name__ == "__main__":
    main(*sys.argv[1:])
