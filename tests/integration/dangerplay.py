# SPDX-License-Identifier: Apache-2.0
"""Plays a danger of targets/dangers, targets/throws or targets/panics while it is probed."""
import contextlib
import os
import re

from harness import Target, check, folder, load, profiling, wait_until

ENDPOINTS = {"tail_calls": ["first_of_chain", "second_of_chain", "request"], "recursion": ["recurse"],
             "red_zone": ["red_zone"], "nop_first": ["nop_first"], "store_first": ["store_first;if=arg1==0"],
             "forged": ["forged"]}


def n_probes(command):
    """Links and perf events that a spanprof holds."""
    kinds = []
    for fd in os.scandir(f"/proc/{command.process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            kinds.append(os.readlink(fd.path))
    return sum("bpf_link" in k or "bpf-link" in k or "perf_event" in k for k in kinds)


def awaits_events(command):
    """It is in poll(2), so it has done with what it was told."""
    with open(f"/proc/{command.process.pid}/syscall", encoding="ascii") as f:
        return f.read().split()[0] == "7"


def play(program, *args, endpoints=("request",), options=(), seconds=60):
    """Plays a danger while it is probed: (profile, calls that the target counts)."""
    specs = [o for e in endpoints for o in ("--endpoint", e)]
    with folder() as path:
        with Target(program, *args) as target:
            with profiling(path / "out.json", "-p", target.pid, *specs, "--min-duration", "10s",
                           *options) as command:
                before = n_probes(command)
                target.go()
                if "first_fork" in args:
                    target.lines.wait_for("^forked$", seconds)
                    wait_until(lambda: n_probes(command) > before and awaits_events(command), "probes for the child")
                    target.go()
                line = target.lines.wait_for("^calls ", seconds)
                target.wait_done()
            check(target.end() == 0, "the target's own checks")
        return load(path / "out.json"), int(re.search(r"\d+", line)[0])


def numbers(profile, index=0):
    endpoint = profile.endpoints[index]
    return endpoint["calls"], endpoint["ended"], endpoint["end_unknown"] + endpoint["unwound"]
