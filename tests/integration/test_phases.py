#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Known phases, found again: in every build of the target, nested, in eight threads."""
import os

from harness import (Target, Skip, cases, check, folder, load, main, near, need_bpf, profiling, test)

MS = 1_000_000
PERIOD = 5 * MS
SCRIPT = "all=disk:40,spin:40,sleep:40,mutex:40,pipe:40,socket:40,recursive:40,deep:40"
PHASES = ["spin", "sleep", "mutex", "pipe", "socket", "disk", "recursive", "deep"]
BLOCKED = {"sleep": "sleep", "mutex": "lock", "pipe": "io", "socket": "net"}
VARIANTS = ["gcc-O0", "gcc-O2", "gcc-O2-fp", "gcc-O3", "gcc-static-pie", "gcc-no-pie", "gcc-stripped",
            "clang-O0", "clang-O2", "clang-O3-fp"]


def tolerance(truth_ns, share):
    return max(truth_ns * share, PERIOD)


def profile_phases(variant, *args, options=(), endpoint="request(str(arg0))"):
    with folder() as path:
        with Target("phases-" + variant, "-w", *args, truth=path / "truth") as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", endpoint,
                           "--min-duration", "10ms", "--period", "5ms", *options):
                target.play()
            truth = target.truth()
        return load(path / "out.json"), truth


def match(spans, calls):
    """Pairs a span with the call whose time it covers, on the same thread."""
    pairs = []
    for span in spans:
        middle = span.start + span.duration // 2
        found = [c for c in calls if c.tid == span.tid and c.start <= middle <= c.end]
        check(len(found) == 1, f"span at {span.start} on {span.tid} is no call of the truth")
        pairs.append((span, found[0]))
    return pairs


@cases(VARIANTS)
def every_build(variant):
    profile, truth = profile_phases(variant, "-n", 2, SCRIPT)
    calls = [e for e in truth if e.what == "call"]
    check(profile.calls() == 2, f"{profile.calls()} calls instead of 2")
    spans = profile.named("all")
    check(len(spans) == 2, f"{len(spans)} spans instead of 2")
    for span, call in match(spans, calls):
        check(span.reason == "return", span.reason)
        near(span.duration, call.duration, tolerance(call.duration, 0.01), "duration")
        near(sum(s.wall for s in span.samples), span.duration, 2, "samples against the duration")
        check(all(s.functions[-1] == "request" for s in span.samples if not is_synthetic(s)),
              f"every stack ends in the endpoint: {[s.functions for s in span.samples][:3]}")
        if variant != "gcc-stripped" or "phase_spin" in span.functions:
            check_phases(span, [e for e in truth if e.what == "phase" and call.start <= e.start <= call.end])
    check(not any(v for k, v in profile.losses.items() if k.startswith("ring_full")), f"losses: {profile.losses}")
    # A stub without unwind rules may be hit; it is counted, and rare.
    unwound = sum(v for k, v in profile.counters.items() if k.startswith("unwind_no"))
    check(unwound <= 2, f"stacks that end early: {profile.counters}")


def is_synthetic(sample):
    return any(f["function"].startswith("[") for f in sample.frames)


def synthetic_time(span, before):
    return sum(s.wall for s in span.samples if is_synthetic(s) and ("[before threshold]" in s.functions) == before)


def check_phases(span, phases):
    """Each phase within max(2 %, one period).

    The first one, disk, loses what is before the threshold. Its CPU time comes in bursts shorter
    than a period, between two syncs; what no tick meets of it goes to the next tick, in spin.
    """
    before, between = synthetic_time(span, True), synthetic_time(span, False)
    check(before <= 10 * MS + 2 * PERIOD, f"{before} ns are before the threshold")
    check(between <= 8 * PERIOD, f"{between} ns are between ticks")
    for phase in phases:
        found = span.time_in("phase_" + phase.name)
        slack = tolerance(phase.duration, 0.02) + between + PERIOD
        if phase.name in ("disk", "spin"):
            slack += before + phase.duration * 0.4
        near(found, phase.duration, slack, f"phase {phase.name}")
        if phase.name in BLOCKED:
            inside = [s for s in span.samples if "phase_" + phase.name in s.functions]
            blocked = sum(s.wall for s in inside if s.kind == "blocked" and s.cause == BLOCKED[phase.name])
            # What it waits for may come nearer while it waits for its CPU.
            queued = sum(s.wall for s in inside if s.kind == "run-queue")
            check(0.8 * 40 * MS < blocked + queued and 0 < blocked <= phase.duration + PERIOD,
                  f"phase {phase.name}: {blocked} of {phase.duration} ns are blocked as "
                  f"{BLOCKED[phase.name]}: {[(s.kind, s.cause) for s in span.samples][:40]}")
        if phase.name == "spin":
            oncpu = sum(s.wall for s in span.samples if "phase_spin" in s.functions and s.kind != "blocked")
            check(oncpu > 0.9 * found, "spinning is not blocked")


@test
def recursion_keeps_its_depth():
    profile, _ = profile_phases("gcc-O2", "-n", 1, "r=deep:60")
    (span,) = profile.named("r")
    deepest = max(s.functions.count("recurse") for s in span.samples)
    check(deepest == 201, f"{deepest} frames of recurse instead of 201")


@test
def endpoint_inside_an_endpoint():
    profile, truth = profile_phases("gcc-O2", "-n", 2, "outer=nested:80", options=(
        "--endpoint", "phase_inner(str(arg0))"))
    for name, what in (("outer", "call"), ("inner-a", "inner"), ("inner-b", "inner")):
        events = [e for e in truth if e.what == what and e.name == name]
        spans = profile.named(name)
        check(len(spans) == len(events) == 2, f"{name}: {len(spans)} spans, {len(events)} calls")
        for span, event in match(spans, events):
            near(span.duration, event.duration, tolerance(event.duration, 0.01), name)
    check(profile.calls(0) == 2 and profile.calls(1) == 4, "calls of both endpoints")


@test
def recursive_endpoint():
    profile, _ = profile_phases("gcc-O2", "-n", 1, "r=recursive:60", endpoint="recurse",
                                options=("--max-parallel", "0"))
    check(profile.calls() == 6, f"{profile.calls()} calls instead of 6")
    check(len(profile.spans) == 6, f"{len(profile.spans)} spans instead of 6")


@test
def eight_threads():
    if (os.cpu_count() or 1) < 2:
        raise Skip("needs two CPUs")
    profile, truth = profile_phases("gcc-O2", "-t", 8, "-n", 4, "m=sleep:30,spin:5,mutex:20",
                                    options=("--max-parallel", "64"))
    calls = [e for e in truth if e.what == "call"]
    check(profile.calls() == 32, f"{profile.calls()} calls instead of 32")
    check(len(profile.spans) == 32, f"{len(profile.spans)} spans instead of 32")
    for span, call in match(profile.spans, calls):
        near(span.duration, call.duration, tolerance(call.duration, 0.01), "duration")
        near(span.oncpu + span.runq + span.blocked, span.duration, 2, "parts")


@test
def fast_calls_cost_no_span():
    profile, truth = profile_phases("gcc-O2", "-n", 500, "fast=spin:0")
    check(len([e for e in truth if e.what == "call"]) == 500, "500 calls")
    check(profile.calls() == 500, f"{profile.calls()} calls instead of 500")
    # Unless the machine stalls.
    stalled = [e for e in truth if e.what == "call" and e.duration > 9 * MS]
    check(len(profile.spans) <= len(stalled) < 5, f"{len(profile.spans)} spans of calls below the threshold")


@test
def limits_are_kept_and_counted():
    profile, _ = profile_phases("gcc-O2", "-n", 6, "s=sleep:30", options=("--max-samples", "2"))
    check(len(profile.spans) == 2, f"{len(profile.spans)} spans instead of --max-samples 2")
    # the run ends by itself soon after that
    check(2 <= profile.calls() <= 6, f"{profile.calls()} calls")
    profile, _ = profile_phases("gcc-O2", "-t", 6, "-n", 1, "s=sleep:400", options=("--max-parallel", "2"))
    check(len(profile.spans) == 2, f"{len(profile.spans)} spans instead of --max-parallel 2")
    check(profile.counters.get("parallel_limit") == 4, f"counters {profile.losses}")


@test
def each_slow_call_is_profiled_or_counted():
    """Most last hardly longer than the threshold, and one may be profiled at a time."""
    profile, _ = profile_phases("gcc-O2", "-t", 4, "-n", 40, "a=spin:2", "b=sleep:3", options=(
        "--min-duration", "2ms", "--max-parallel", "1"))
    (endpoint,) = profile.endpoints
    named = sum(n["slow"] for n in endpoint["names"])
    missing = sum(profile.counters.get(name, 0) for name in ("parallel_limit", "slow_unseen"))
    check(endpoint["calls"] == 320 == endpoint["slow"], f"{endpoint['slow']} slow calls of {endpoint['calls']}")
    check(named and named + missing == 320, f"{named} in names, {profile.counters}")


@test
def losses_are_told():
    """A buffer that is far too small: what is said to be lost is what is missing, by the target's own count."""
    profile, truth = profile_phases("gcc-O2", "-t", 8, "-n", 30, "a=deep:4,spin:3", endpoint="request", options=(
        "--min-duration", "1ms", "--period", "1ms", "--max-parallel", "0", "--ring", "8K"))
    calls = len([e for e in truth if e.what == "call"])
    check(profile.calls() == calls == 240, f"{profile.calls()} calls counted, {calls} made")
    lost = sum(v for k, v in profile.losses.items() if k.startswith("ring_full"))
    check(lost > 0, f"the buffer was too large for this test: {profile.losses}")
    not_profiled = profile.losses.get("ring_full_promoted", 0)
    check(len(profile.spans) + not_profiled == calls, f"{len(profile.spans)} spans, {not_profiled} not profiled")
    kept = sum(s.raw["snapshots_kept"] for s in profile.spans)
    due = sum(s.raw["snapshots_due"] for s in profile.spans)
    check(kept < due, f"{kept} of {due} snapshots were kept")
    near(profile.raw["completeness"]["ratio"], kept / due, 1e-3, "completeness")
    for span in profile.spans:
        near(sum(s.wall for s in span.samples), span.duration, 2, "no time is lost with a snapshot")
        check(sum(x["count"] for x in span.raw["samples"]) == span.raw["snapshots_kept"], f"{span.raw}")


main(needs=[need_bpf])
