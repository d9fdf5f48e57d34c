#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How calls end where neither a function's end nor its callers say so.

leave=ret: the function's own returns are probed, whatever compiler made it, or it is refused with a reason. USDT probes
without end=: by their partner's name, or when the function that holds them returns.
"""
import pathlib
import re
import signal
import subprocess

from harness import (TARGETS, Spanprof, Target, cases, check, folder, load, main, need_bpf, profiling, spanprof,
                     wait_until)

BUILDS = ["gcc-O0", "gcc-O2", "gcc-O3", "clang-O0", "clang-O2"]
COUNT = 500


def play(build, way, endpoint):
    """(profile, calls that the target counts, messages of spanprof)"""
    with folder() as path:
        with Target(f"leaves-{build}", way, COUNT) as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", endpoint, "--min-duration",
                           "10s") as command:
                target.go()
                line = target.lines.wait_for("^calls ", 60)
                target.wait_done()
            check(target.end() == 0, "the target's own checks")
        return load(path / "out.json"), int(re.search(r"\d+", line)[0]), command.stderr


def counted(profile, calls, unknown=0):
    e = profile.endpoints[0]
    check(e["calls"] == calls, f"{e['calls']} calls seen, {calls} made")
    check(e["end_unknown"] <= unknown, f"{e['end_unknown']} ends were not seen")
    check(e["ended"] + e["end_unknown"] == calls, f"{e['ended']} ends of {calls} calls")


@cases([(b, w) for b in BUILDS for w in ("several", "tail", "recurse", "table")])
def returns(case):
    build, way = case
    profile, calls, _ = play(build, way, f"{way};leave=ret")
    counted(profile, calls)


@cases(BUILDS)
def by_a_jump(build):
    """What calls the function ends by jumping to it: the call that leads there is known before it is made."""
    profile, calls, _ = play(build, "wrapped", "wrapped")
    counted(profile, calls)


@cases(BUILDS)
def pointer(build):
    """A jump through a register in the place of a return is refused, since it may be a jump table."""
    with Target(f"leaves-{build}", "pointer", 1) as target:
        status, _, err = spanprof("run", "-p", target.pid, "--endpoint", "pointer;leave=ret", "--for", "100ms")
    if status == 0:
        profile, calls, _ = play(build, "pointer", "pointer;leave=ret")
        counted(profile, calls)
    else:
        check(status == 1 and "whether it leaves the function" in err, err)


@cases(["gcc-O2", "clang-O2"])
def never_returns(build):
    with Target(f"leaves-{build}", "never", 1) as target:
        status, _, err = spanprof("run", "-p", target.pid, "--endpoint", "never;leave=ret", "--for", "100ms")
        check(status == 1 and "it has none" in err, err)
        target.play()
        check(target.end() == 0, "the target's own checks")


@cases(BUILDS)
def called_from_no_file(build):
    """No probe can be put where the calls come from: from the first of them on, the returns are probed."""
    profile, calls, _ = play(build, "jit", "several")
    counted(profile, calls, unknown=COUNT - 1)


@cases(BUILDS)
def usdt_until_its_function_returns(build):
    profile, calls, _ = play(build, "place", "usdt:leaves:place(uint(arg0));if=arg0==10")
    counted(profile, calls)


@cases(BUILDS)
def usdt_pair(build):
    """By convention work__start is ended by work__end, as there is no work__done."""
    profile, calls, _ = play(build, "pair", "usdt:leaves:work__start(uint(arg0))")
    counted(profile, calls)


@cases(BUILDS)
def usdt_at_several_places(build):
    """All of them where no argument is read; those that have it elsewhere are left out with a warning."""
    profile, calls, err = play(build, "scattered", "usdt:leaves:scattered")
    counted(profile, calls)
    check("left out" not in err, err)
    profile, calls, err = play(build, "scattered", "usdt:leaves:scattered(uint(arg0))")
    counted(profile, calls // 2)
    check("some of its places are left out" in err, err)


def word_of(target, build, symbol):
    """What a target has in a variable of two bytes."""
    program = TARGETS / f"leaves-{build}"
    out = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    vaddr = int(re.search(rf"(?m)^([0-9a-f]+) \w {symbol}$", out)[1], 16)
    maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
    base = min(int(line.split("-")[0], 16) for line in maps.splitlines() if line.endswith(str(program)))
    with open(f"/proc/{target.pid}/mem", "rb") as memory:
        memory.seek(base + vaddr)
        return int.from_bytes(memory.read(2), "little")


@cases([(b, s) for b in ("gcc-O2", "clang-O2") for s in ("SIGINT", "SIGKILL")])
def usdt_semaphore_is_on_for_the_run_only(case):
    """However that ends: the program does the work for the probe only while somebody looks."""
    build, name = case
    with Target(f"leaves-{build}", "guarded", COUNT) as target:
        def semaphore():
            return word_of(target, build, "leaves_guarded_semaphore")

        check(semaphore() == 0, "it is off")
        with Spanprof("run", "-p", target.pid, "-e", "usdt:leaves:guarded(uint(arg0))") as command:
            command.wait_attached()
            check(semaphore() == 1, f"it is {semaphore()}, not 1")
            target.play()
            status = command.finish(getattr(signal, name))
        check(status == (-signal.SIGKILL if name == "SIGKILL" else 0), command.stderr)
        check(name == "SIGKILL" or re.search(rf"\b{COUNT} calls", command.stdout), command.stdout)
        wait_until(lambda: semaphore() == 0, "it is off again")
        check(target.end() == 0, "the target's own checks")


main(needs=[need_bpf])
