#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How a span ends: each way closes it with its own reason, and leaves nothing behind."""
import pathlib
import re
import signal
import time

from harness import (DEADLINE, Spanprof, Target, cases, changed_code, check, folder, load, main, near, need_bpf, profiling,
                     read_truth, stop, test, wait_until, SLOW, TARGETS)

MS = 1_000_000
OPTIONS = ("--endpoint", "request(str(arg0))", "--min-duration", "10ms", "--period", "5ms")


def run_scene(scene, *args, wait=None, options=OPTIONS):
    """Plays a scene while it is profiled: (profile, truth)."""
    with folder() as path:
        with Target("scenes", *args, scene, truth=path / "truth") as target:
            with profiling(path / "out.json", "-p", target.pid, *options) as command:
                target.go()
                if wait:
                    wait(target, command)
                else:
                    target.wait_done()
        return load(path / "out.json"), read_truth(path / "truth")


def one(profile, name, *reasons):
    """The spans of this name: each ended for one of the reasons, and its parts add up."""
    spans = profile.named(name)
    check(spans, f"no span {name!r}; there are {[(s.name, s.reason) for s in profile.spans]}")
    for span in spans:
        check(span.reason in reasons, f"span {name!r} ended by {span.reason!r}, not {reasons}")
        near(span.oncpu + span.runq + span.blocked, span.duration, 2, "parts against the duration")
        near(sum(s.wall for s in span.samples), span.duration, 2, "samples against the duration")
    return spans


@test
def returns():
    profile, truth = run_scene("returns")
    (span,) = one(profile, "returns", "return")
    (call,) = [e for e in truth if e.what == "call"]
    near(span.duration, call.duration, 5 * MS, "duration")
    check(span.time_in("body_sleep") > 0.9 * span.duration, "the time is in body_sleep")
    check(profile.calls() == 1, f"{profile.calls()} calls")


@test
def longjmp_past_the_frame():
    profile, _ = run_scene("longjmp")
    spans = one(profile, "jumps", "unwound")
    check(len(spans) == 3, "three spans were jumped out of")
    check(all(55 * MS < s.duration < 400 * MS for s in spans), f"durations {[s.duration for s in spans]}")
    one(profile, "returns", "return", "leave_unseen")
    (endpoint,) = profile.endpoints
    check(endpoint["unwound"] == 3, f"{endpoint['unwound']} calls left by longjmp")
    check(endpoint["end_unknown"] + endpoint["unwound"] + endpoint["ended"] == endpoint["calls"], f"{endpoint['calls']}")
    check(endpoint["max_ns"] == max(s.duration for s in profile.spans), "the longest call is the longest span")
    check(endpoint["slow"] == sum(n["slow"] for n in endpoint["names"]), "names add up to the slow calls")


@test
def thread_exit():
    profile, _ = run_scene("exit")
    # pthread_exit unwinds first: whoever looks in between finds the frame gone.
    (span,) = one(profile, "exits", "thread_exit", "unwound")
    check(span.duration >= 60 * MS, f"{span.duration} ns")
    one(profile, "returns", "return")


@test
def exec_inside():
    profile, _ = run_scene("exec", wait=lambda target, _: target.process.wait(10))
    one(profile, "execs", "exec")


@test
def killed():
    profile, _ = run_scene("kill", wait=lambda target, _: target.process.wait(10))
    (span,) = one(profile, "dies", "process_exit")
    check(span.duration >= 60 * MS, f"{span.duration} ns")


@test
def killed_while_the_ring_is_full():
    """That the process is gone finds no room in the ring, and is noticed nevertheless."""
    options = ("-e", "request(str(arg0))", "--min-duration", "1us", "--from-start", "--ring", "4K", "--max-parallel", "0")
    with folder() as d, Target("phases-gcc-O2", "-w", "-n", "1000000", "-t", 8, "a=sleep:2") as target, \
            Spanprof("run", "-o", d / "out.json", "-p", target.pid, *options) as command:
        command.wait_attached()
        target.go()
        time.sleep(0.3)
        command.process.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        stop(target.process, signal.SIGKILL)
        command.process.send_signal(signal.SIGCONT)
        status = command.finish(None)
        check(status == 0, f"exit status {status}: {command.stderr}")
        profile = load(d / "out.json")
    check(profile.losses.get("ring_full_proc"), f"the ring was not full: {profile.losses}")
    check(not [s for s in profile.spans if s.reason == "unfinished"], "calls of a process that is gone are open")


@test
def hangs_for_ever():
    def wait(target, command):
        del target
        status = command.finish(None)
        check(status == 0, f"exit status {status}: {command.stderr}")

    profile, _ = run_scene("hang", wait=wait, options=(*OPTIONS, "--for", "2s"))
    (span,) = one(profile, "hangs", "unfinished")
    check(span.time_in("body_hang") > 0.8 * span.duration, "the time is in body_hang")
    check(span.blocked > 0.9 * span.duration, "the time is blocked")


@test
def visible_while_it_hangs():
    """Not only when the run is over: where it hangs is said once, and the profile has it as unfinished."""
    def wait(target, command):
        line = command.err.wait_for("a call of 'hangs' has not ended for")
        # Newer C libraries have functions without a name between pause and the system call.
        check(re.search(rf"\(process {target.pid}, thread {target.pid}\): request > body_hang > pause"
                        r"( > libc\.so\.6\+\w+| > \w*syscall_cancel\w*)*, blocked: sleep$", line), line)

    profile, _ = run_scene("hang", wait=wait)
    one(profile, "hangs", "unfinished")


@test
def fork_inside():
    profile, truth = run_scene("fork")
    parent = max((e for e in truth if e.what == "call"), key=lambda e: e.tid == profile.spans[0].tid)
    own = [s for s in profile.named("forks") if s.tid == parent.tid]
    check(len(own) == 1, f"{len(own)} spans of the parent")
    check(own[0].reason == "return", own[0].reason)
    near(own[0].duration, parent.duration, 5 * MS, "duration")


@test
def vfork_inside():
    profile, _ = run_scene("vfork")
    (span,) = one(profile, "vforks", "return")
    check(all(s.stop in ("complete", "none") for s in span.samples), f"{[s.stop for s in span.samples]}")
    check(sum(s.wall for s in span.samples if "vfork" in "".join(s.functions[:8]) and "body_vfork" in s.functions
              and s.cause == "child") > 50 * MS, f"{[(s.functions, s.wall) for s in span.samples]}")


@test
def forked_children():
    """The first calls after the first fork are missed when probes must be widened to the file."""
    profile, truth = run_scene("children")
    calls = [e for e in truth if e.what == "call"]
    spans = one(profile, "child", "return", "leave_unseen")
    for tid in {e.tid for e in calls}:
        own = [e for e in calls if e.tid == tid][-5:]
        seen = [e for e in own if any(s.tid == tid and e.start <= s.start + s.duration // 2 <= e.end for s in spans)]
        check(len(seen) == 5, f"{len(seen)} of the last 5 calls of {tid}")


@test
def children_that_share_memory():
    """Each call is counted at most once, whichever probes run for it; those of the first moments are missed."""
    profile, truth = run_scene("shared")
    calls = [e for e in truth if e.what == "call"]
    check(len(calls) == 30, f"{len(calls)} calls were made")
    check(10 <= profile.calls() <= len(calls), f"{profile.calls()} of {len(calls)} calls were counted")
    one(profile, "shared", "return", "leave_unseen")
    check(profile.raw["losses"].get("fork_late") == 1, f"{profile.raw['losses']}")


@test
def programs_that_start_later():
    """The first ones run while they are probed, which the profile tells of; the file's probes await the others."""
    with folder() as path:
        with profiling(path / "out.json", "--exe", TARGETS / "scenes", *OPTIONS):
            for _ in range(6):
                with Target("scenes", "returns") as target:
                    target.play()
                    target.end()
        profile = load(path / "out.json")
        late = profile.losses.get("exec_late", 0)
        check(1 <= late <= 6, f"{profile.losses}")
        check(6 - late <= profile.calls() <= 6, f"{profile.calls()} calls; {late} programs were late")


@test
def library_loaded_while_running():
    def wait(target, _):
        target.wait_done()

    profile, truth = run_scene("dlopen", "-p", TARGETS / "libplugin.so", wait=wait, options=(
        "--endpoint", "request(str(arg0))", "--endpoint", "libplugin.so:plugin_request(str(arg0))",
        "--min-duration", "10ms", "--period", "5ms"))
    calls = [e for e in truth if e.what == "call"]
    # From some call on; the first one of them may end before its return site is known.
    spans = [s for s in one(profile, "plugin", "return", "leave_unseen") if s.reason == "return"]
    since = [e for e in calls if spans and e.end > min(s.start for s in spans)]
    check(len(calls) == 20 and len(spans) == len(since) > 0, f"{len(spans)} of {len(since)} calls were seen from begin to end")


@test
def library_that_comes_and_goes():
    """Unloaded while it is probed, four times: the program goes on, and the calls in between are seen."""
    profile, truth = run_scene("unload", "-p", TARGETS / "libplugin.so", options=(
        "--endpoint", "request(str(arg0))", "--endpoint", "libplugin.so:plugin_request(str(arg0))",
        "--min-duration", "10ms", "--period", "5ms"))
    calls = [e for e in truth if e.what == "call" and e.name == "plugin"]
    check(len(calls) == 40, f"{len(calls)} calls of the library were made")
    spans = one(profile, "plugin", "return", "leave_unseen")
    check(len(spans) >= len(calls) // 2, f"{len(spans)} of {len(calls)} calls were seen")
    last = max(e.start for e in calls) - 5 * 60 * MS
    check(any(s.start > last for s in spans), "those of the last time, too")
    one(profile, "returns", "return")


@test
def coroutines():
    """The calls of several stacks of one thread are told apart, in whichever order they end."""
    profile, truth = run_scene("coroutines")
    for name in ("first", "second"):
        spans = sorted(one(profile, name, "return"), key=lambda s: s.start)
        calls = sorted((e for e in truth if e.what == "call" and e.name == name), key=lambda e: e.start)
        check(len(spans) == len(calls) == 4, f"{name}: {len(spans)} spans of {len(calls)} calls")
        for span, call in zip(spans, calls):
            near(span.duration, call.duration, 5 * MS, f"duration of {name!r}")
    one(profile, "returns", "return")


@cases(["gxx-O0", "gxx-O2", "gxx-O3", "clangxx-O2"])
def exceptions_inside_and_across(build):
    with folder() as path:
        with Target(f"exceptions-{build}", 6, truth=path / "truth") as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint",
                           "shop::Desk::request(str(arg1))", "--min-duration", "10ms", "--period", "5ms"):
                target.play()
            check(target.end() == 0, "the target counts what crossed it, and lives")
        profile = load(path / "out.json")
        inside = one(profile, "inside", "return")
        check(len(inside) == 3, f"{len(inside)} of 3 caught inside")
        # The handler in the caller may go on at the return site, or past it.
        across = one(profile, "across", "unwound", "return")
        check(len(across) == 3, f"{len(across)} of 3 that cross the request")
        check(all(35 * MS < s.duration < 400 * MS for s in across), f"durations {[s.duration for s in across]}")
        for span in inside:
            check(span.time_in("shop::Desk::work") > 30 * MS, "40 ms of 60 are in work")


@test
def a_kill_while_detaching_leaves_no_breakpoint():
    binary = TARGETS / "phases-gcc-O2"
    with Target("phases-gcc-O2", "-w", "-n", 1, "mix=spin:1") as target:
        for wait in (0, 0.02, 0.05, 0.1, 0.2):
            with Spanprof("run", "-p", target.pid, "--endpoint", "request") as command:
                command.wait_attached()
                check(changed_code(target.pid, binary) > 0, "there is no probe")
                command.process.send_signal(signal.SIGINT)
                time.sleep(wait * SLOW)  # the point in time is what is tested
                command.process.kill()
            wait_until(lambda: changed_code(target.pid, binary) == 0, "the probes are gone")
        target.play()
        check(target.end() == 0, "the target's own checks")


@cases(["SIGKILL", "SIGTERM", "SIGINT"])
def target_outlives_spanprof(name):
    with folder() as path:
        with Target("phases-gcc-O2", "-w", "-n", 20, "a=sleep:20", truth=path / "truth") as target:
            with ProfilingEndedBy(path / "out.json", target, getattr(signal, name)):
                target.go()
            target.wait_done()
            check(target.end() == 0, "the target's exit status")
        check(len(read_truth(path / "truth", "call")) == 20, "all calls were made")


def is_pending(pid, number):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return any(int(mask, 16) >> number - 1 & 1 for mask in re.findall(r"(?:Sig|Shd)Pnd:\s*(\w+)", status))


def interrupt(command):
    """Each is a signal of its own: two that wait at a time would be one."""
    command.process.send_signal(signal.SIGINT)
    wait_until(lambda: command.process.poll() is not None or not is_pending(command.process.pid, signal.SIGINT),
               "the signal has been read")


def reads_debug_information(pid):
    try:
        return ".debug" in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


@cases(["one", "two", "three", "two, late"])
def signals_while_symbols_are_looked_up(which):
    """The first ends the run; what is left of the end goes without lines after the second, and is whole."""
    n = ["one", "two", "three"].index(which.partition(",")[0]) + 1
    with folder() as path:
        with Target("phases-gcc-O0", "-w", "-n", 3, "a=sleep:30,spin:30,deep:20") as target:
            with Spanprof("run", "-o", path / "out.json", "-p", target.pid, *OPTIONS) as command:
                command.wait_attached()
                target.play()
                for i in range(n):
                    if i and "late" in which:  # where the C library's debug file is installed
                        wait_until(lambda: command.process.poll() is not None
                                   or reads_debug_information(command.process.pid), "it looks up symbols")
                    interrupt(command)
                status = command.finish(None)
            check(status == 0, f"exit status {status}: {command.stderr}")
            check("complete 100 %" in command.stdout, command.stdout)
        profile = load(path / "out.json")
        check(len(profile.spans) == 3, f"{len(profile.spans)} spans")
        functions = {f for s in profile.spans for x in s.samples for f in x.functions}
        check({"phase_sleep", "phase_spin", "recurse"} <= functions, f"{sorted(functions)}")
        lines = [f["line"] for f in profile.raw["frames"][1:] if f and f["function"] == "phase_spin"]
        check(n > 1 or any(lines), f"lines of phase_spin: {lines}")
        # A late one may meet the last steps.
        check("late" in which or command.stderr.count("the end is cut short") == (n > 1), command.stderr)


class ProfilingEndedBy:
    """spanprof is stopped in the middle of the target's calls."""

    def __init__(self, output, target, number):
        self.number = number
        self.output = output
        self.command = Spanprof("run", "-o", output, "--format", "json", "-p", target.pid, *OPTIONS)

    def __enter__(self):
        self.command.wait_attached()

    def __exit__(self, *_):
        status = stop(self.command.process, self.number, DEADLINE)
        self.command.__exit__()
        if self.number == signal.SIGKILL:
            check(not self.output.exists(), "a killed run leaves no file that looks whole")
        else:
            check(status == 0, f"exit status {status}")
            check(load(self.output).spans is not None, "the profile so far is whole")


main(needs=[need_bpf])
