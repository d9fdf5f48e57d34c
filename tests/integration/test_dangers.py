#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that a careless probe would break: the target must live, unharmed, with every call counted.

COUNT in the environment plays each danger that often (survival runs: 1000000).
"""
import os
import re

from harness import TARGETS, Skip, Target, cases, check, folder, load, main, need_bpf, profiling, spanprof, test

COUNT = int(os.environ.get("COUNT", "3000"))
SECONDS = 60 + COUNT / 2000

# danger: rounds, in parts of COUNT
DANGERS = {
    "returns": 1, "longjmp": 1, "siglongjmp": 0.5, "pthread_exit": 0.1, "pthread_cancel": 0.05,
    "swapcontext": 1, "fork": 0.02, "first_fork": 0.1, "recursion": 0.02, "dear": 0.3, "red_zone": 1, "dlopen": 1,
    "tail_calls": 1,
}
ENDPOINTS = {"tail_calls": ["first_of_chain", "second_of_chain", "request"], "recursion": ["recurse"],
             "red_zone": ["red_zone"]}


def play(program, *args, endpoints=("request",), options=(), seconds=SECONDS):
    """Plays a danger while it is probed: (profile, calls that the target counts)."""
    specs = [o for e in endpoints for o in ("--endpoint", e)]
    with folder() as path:
        with Target(program, *args) as target:
            with profiling(path / "out.json", "-p", target.pid, *specs, "--min-duration", "10s", *options):
                target.go()
                line = target.lines.wait_for("^calls ", seconds)
                target.wait_done()
            check(target.end() == 0, "the target's own checks")
        return load(path / "out.json"), int(re.search(r"\d+", line)[0])


def numbers(profile, index=0):
    endpoint = profile.endpoints[index]
    return endpoint["calls"], endpoint["ended"], endpoint["end_unknown"] + endpoint["unwound"]


def all_counted(profile, index, want):
    """Each call was seen, and each has an end or is counted as one without."""
    calls, ended, unknown = numbers(profile, index)
    check(calls == want, f"{calls} calls seen, {want} made")
    check(ended + unknown <= calls, f"{ended} ends and {unknown} unknown of {calls} calls")
    check(calls - ended - unknown <= 40, f"{calls - ended - unknown} calls have neither an end nor are counted as unknown")
    return calls, ended, unknown


@cases(list(DANGERS))
def danger(name):
    count = max(20, int(COUNT * DANGERS[name]))
    endpoints = ENDPOINTS.get(name, ["request"])
    profile, calls = play("dangers", "-p", TARGETS / "danger_plugin.so", name, count, endpoints=endpoints)
    for index in range(len(endpoints)):
        want = calls // len(endpoints)
        _, ended, unknown = all_counted(profile, index, want)
        if name in ("returns", "dear", "red_zone", "tail_calls", "first_fork"):
            check(unknown <= 5, f"{unknown} ends were not seen")
        # dlopen: each load may be at another address, and a busy machine may learn none of them in
        # time; then all ends are unknown, which all_counted() has checked.
        if name == "recursion":
            check(ended > 0, "no end was seen")


@cases(["returns", "longjmp", "siglongjmp", "pthread_exit", "swapcontext", "fork", "recursion"])
def danger_with_probed_returns(name):
    """The same when the function's own returns are probed: each call costs more, so there are fewer."""
    count = max(20, int(COUNT * DANGERS[name] / 4))
    endpoints = ENDPOINTS.get(name, ["request"])
    profile, calls = play("dangers", name, count, endpoints=[f"{e};leave=ret" for e in endpoints])
    for index in range(len(endpoints)):
        _, ended, unknown = all_counted(profile, index, calls // len(endpoints))
        if name == "recursion":
            check(ended > 0, "no end was seen")
        if name in ("returns", "swapcontext", "fork"):
            check(unknown <= 8 and ended > 0, f"{unknown} ends were not seen, {ended} were")


@test
def exceptions_cross_the_endpoint():
    profile, calls = play("throws", COUNT, endpoints=["'shop::order(std::*'(stdstring(arg0))"])
    all_counted(profile, 0, calls)


@test
def panics_cross_the_endpoint():
    if not (TARGETS / "panics").exists():
        raise Skip("rustc is not installed")
    profile, calls = play("panics", COUNT, endpoints=["'*Router::handle_request*'(ruststr(arg1))"])
    all_counted(profile, 0, calls)


@test
def uretprobes_are_refused_where_they_kill():
    for program, symbol in (("throws", "shop::guarded"), ("panics", "'*Router::guarded*'")):
        if not (TARGETS / program).exists():
            continue
        with Target(program, 10) as target:
            status, _, err = spanprof("run", "-p", target.pid, "--endpoint", symbol, "--leave", "uretprobe",
                                      "--for", "1s")
            check(status == 1, f"exit status {status}")
            check("could kill" in err, err)
            target.play()
            check(target.end() == 0, "the target's own checks")


@test
def names_of_cxx_and_rust():
    """std::string and &str arguments, and an overload named by its parameters."""
    with folder() as path:
        with Target("throws", 40) as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint",
                           "'shop::guarded*'(stdstring(arg0))", "--min-duration", "1ns"):
                target.play()
        names = {s.name for s in load(path / "out.json").spans}
        check(names <= {"short", "an order with a name that is longer than a short string"}, f"{names}")


@test
def overloads_are_listed():
    with Target("throws", 1) as target:
        status, _, err = spanprof("run", "-p", target.pid, "--endpoint", "shop::order", "--for", "1s")
        check(status != 0, "an ambiguous name must be refused")
        check("2 functions" in err and "shop::order(long)" in err, err)


main(needs=[need_bpf])
