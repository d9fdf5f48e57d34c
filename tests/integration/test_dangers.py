#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that a careless probe would break: the target must live, unharmed, with every call counted.

tests/bench/survival plays each of them with a million calls.
"""
import os
import re

from dangerplay import ENDPOINTS, numbers, play
from harness import TARGETS, Skip, Target, cases, check, folder, load, main, need_bpf, profiling, spanprof, test

COUNT = 3000

# danger: rounds, in parts of COUNT
DANGERS = {
    "returns": 1, "longjmp": 1, "siglongjmp": 0.5, "pthread_exit": 0.1, "pthread_cancel": 0.05,
    "swapcontext": 1, "fork": 0.02, "first_fork": 0.1, "recursion": 0.02, "dear": 0.3, "red_zone": 1, "nop_first": 1,
    "store_first": 1, "dlopen": 1, "forged": 20,
    "tail_calls": 1,
}
# The share of the calls that end by returning; the ends of the others are counted as unknown. Of a
# recursion the outermost calls are told apart (WIRE_SPANS_MAX). What comes from a library that is loaded
# while the program runs may all be unknown on a busy machine.
ENDS = {"longjmp": 0.75, "siglongjmp": 0.5, "pthread_exit": 0, "pthread_cancel": 0, "forged": None, "recursion": 32 / 201,
        "dlopen": None}
# The same program by other compilers, and with endbr64 at the begin of each function.
BUILDS = ["dangers", "dangers-cf", "dangers-clang", "dangers-clang-cf"]


def all_counted(profile, index, want):
    """Each call was seen, and each has an end or is counted as one without."""
    calls, ended, unknown = numbers(profile, index)
    check(calls == want, f"{calls} calls seen, {want} made")
    check(ended + unknown <= calls, f"{ended} ends and {unknown} unknown of {calls} calls")
    check(calls - ended - unknown <= 40, f"{calls - ended - unknown} calls have neither an end nor are counted as unknown")
    return calls, ended, unknown


def right_ends(name, calls, ended, unknown):
    share = ENDS.get(name, 1)
    if share is None:
        return
    # The first ones may end before their return site is known.
    check(calls * share - 5 <= ended <= calls * share, f"{ended} ends of {calls} calls; {calls * share} return")
    check(unknown >= calls - calls * share, f"{unknown} ends are unknown")


@cases([(b, d) for b in BUILDS for d in DANGERS])
def danger(case):
    build, name = case
    count = max(20, int(COUNT * DANGERS[name] / (1 if build == "dangers" else 3)))
    endpoints = ENDPOINTS.get(name, ["request"])
    profile, calls = play(build, "-p", TARGETS / "danger_plugin.so", name, count, endpoints=endpoints)
    for index in range(len(endpoints)):
        right_ends(name, *all_counted(profile, index, calls // len(endpoints)))


@cases(["str(arg0)", "uint(*arg0)"])
def pages_that_the_caller_brings_in(name):
    """Who waits for such a page in the thread that is to bring it waits for ever."""
    if not os.path.exists("/proc/sys/vm/unprivileged_userfaultfd"):
        raise Skip("the kernel has no userfaultfd")
    with folder() as path:
        with Target("pager") as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", f"fill({name})", "--min-duration", "10s"):
                target.play()
            check(target.end() == 0, "the target's own checks")
        profile = load(path / "out.json")
    check(profile.calls() == 1000, f"{profile.calls()} calls seen, 1000 made")
    check(profile.losses.get("name_fault", 0) == 1000, f"{profile.losses}")


@test
def stores_matter_only_to_who_reads_memory():
    """Where the probe goes, and why not to the cheap place."""
    with Target("dangers", "store_first", 4) as target:
        # As the end of a call, too.
        want = {"store_first(uint(arg1))": "jz .*: cheap", "store_first(str(arg1))": "DEAR, single-stepped .it writes memory",
                "play_store_first;end=store_first": "jz .*: cheap",
                'play_store_first;end=store_first;end-if=str(arg1)=="x"': "DEAR, single-stepped .it writes memory"}
        for spec, site in want.items():
            _, out, _ = spanprof("probes", "-p", target.pid, "--check", spec, "--for", "100ms")
            lines = re.findall("(?m)^site .*$", out)
            check(lines and re.search(site, lines[-1]), f"{spec}: {out}")
        _, out, _ = spanprof("probes", "-p", target.pid, "store_first")
        check(re.search(r"(?m)^cheap .* store_first \(dangers\) .*: DEAR with a name: it writes memory", out), out)
        target.play()
        check(target.end() == 0, "the target's own checks")


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


def half_of_them_end(program, endpoint):
    """Every second call throws, into a handler that is elsewhere."""
    profile, calls = play(program, COUNT, endpoints=[endpoint])
    _, ended, unknown = all_counted(profile, 0, calls)
    check(calls // 2 - 5 <= ended <= calls // 2 + calls % 2, f"{ended} of {calls} calls ended")
    check(unknown >= calls // 2, f"{unknown} ends are unknown")


@test
def stepped_instructions_are_where_they_belong():
    """A thread that is met in the kernel's copy of a probed instruction is at the original."""
    with folder() as path:
        with Target("dangers", "dear", 60000) as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", "play_dear", "--endpoint", "request",
                           "--min-duration", "20ms", "--period", "1ms"):
                target.play(60)
        profile = load(path / "out.json")
        (span,) = [s for s in profile.spans if s.name == "play_dear"]
        stops = [s.stop for s in span.samples]
        check(stops.count("complete") > 20, f"{len(stops)} samples, {set(stops)}")
        check(profile.losses.get("unwind_no_module", 0) <= len(stops) // 100, f"{profile.losses}, {set(stops)}")
        check(span.time_in("dear_caller") > 0.3 * span.duration, f"{span.time_in('dear_caller')} of {span.duration}")


@cases(["throws", "throws-cf", "throws-O0", "throws-O3", "throws-clang", "throws-libcxx"])
def exceptions_cross_the_endpoint(program):
    read = "libcxxstring" if program == "throws-libcxx" else "stdstring"
    half_of_them_end(program, f"'shop::order(std::*'({read}(arg0))")


@cases(["panics", "panics-cf"])
def panics_cross_the_endpoint(program):
    if not (TARGETS / program).exists():
        raise Skip("rustc is not installed")
    half_of_them_end(program, "'*Router::handle_request*'(ruststr(arg1))")


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
        want = {"short", "an order with a name that is longer than a short string"}
        # The calls are so short that not each one's name is seen.
        check(names <= want | {"guarded", "shop::guarded"}, f"{names}")


@test
def overloads_are_listed():
    with Target("throws", 1) as target:
        status, _, err = spanprof("run", "-p", target.pid, "--endpoint", "shop::order", "--for", "1s")
        check(status != 0, "an ambiguous name must be refused")
        check("2 functions" in err and "shop::order(long)" in err, err)


main(needs=[need_bpf])
