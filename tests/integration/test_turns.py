#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Probes in turns (--max-overhead): the target's code is its own in a rest, and what was open then does no harm."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from harness import (TARGETS, Lines, Skip, Spanprof, Target, cases, changed_code, check, folder, load, main, near, need_bpf,
                     spanprof, stop, test, wait_until)

MS = 1_000_000
ENDPOINT = ("-e", "request(str(arg0))")
THREADS = 4  # of the target, at most, which may be in a call at the end
# Without a limit the probes take half of the CPU time: for a turn of one second there is about one of rest.
LIMIT = 0.3
OVERHEAD = ("--max-overhead", f"{LIMIT:.0%}")
OPTIONS = (*ENDPOINT, "--min-duration", "200ms", "--period", "5ms", *OVERHEAD, "--max-parallel", "0")


class Busy(Target):
    """The target, and which of its probes are in."""

    def __init__(self, program="busy"):
        super().__init__(program)
        self.program = pathlib.Path(program if os.path.isabs(program) else TARGETS / program)
        self.all = 0

    def say(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def probes(self):
        return changed_code(self.pid, self.program)

    def attached(self):
        """All that is probed is probed now."""
        self.all = self.probes()
        check(self.all, "nothing is probed")

    def wait_on(self):
        wait_until(lambda: self.probes() == self.all, "a turn", 60)

    def wait_off(self):
        wait_until(lambda: not self.probes(), "a rest", 60)


class Turns(Spanprof):
    """A run on a target, which is attached and in its first turn."""

    def __init__(self, target, output, *args, command="run", env=None):
        form = ("--format", "json") if command == "run" else ()
        super().__init__(command, "-o", output, *form, "-p", target.pid, *OPTIONS, *args, env=env)
        self.wait_attached()
        target.attached()

    def end(self, number=signal.SIGINT):
        status = self.finish(number)
        check(status == 0, f"exit status {status}: {self.stderr}")


def probed(profile):
    """What the profile says of its turns, and that its numbers add up."""
    said, (endpoint,) = profile.raw["run"]["probed"], profile.endpoints
    check(0 < said["duration_ns"] <= profile.raw["run"]["duration_ns"], f"{said}")
    still_open = endpoint["calls"] - endpoint["ended"] - endpoint["end_unknown"] - endpoint["unwound"]
    check(0 <= still_open <= THREADS, f"{endpoint['calls']} calls, and {still_open} without an end")
    return said


@cases(["link", "perf"])
def code_is_untouched_in_a_rest(uprobes):
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json", env={"SPANPROF_UPROBES": uprobes}) as command:
            rested_s = 0
            for _ in range(2):
                target.wait_off()
                start = time.monotonic()
                target.wait_on()
                rested_s += time.monotonic() - start
            target.wait_off()
            command.end()
        check(target.probes() == 0 and target.end() == 0, "the target's code is its own again")
        profile = load(path / "out.json")
        said = probed(profile)
        check(said["turns"] == 3, f"{said['turns']} turns")
        # A late look makes a rest seem longer.
        check(said["duration_ns"] + 0.7e9 * rested_s < profile.raw["run"]["duration_ns"], f"rested {rested_s} s, {said}")
        # What is owed at the end is the cost of one turn at most.
        check(said["cost_ns"] < LIMIT * said["cpu_ns"] + 2.5 * said["cost_ns"] / said["turns"], f"{said}")
        near(said["max_overhead"], LIMIT, 1e-9, "the limit")
        check(not profile.raw["losses"], f"{profile.raw['losses']}")


@test
def slow_call_of_a_turn_is_seen_to_its_end():
    """It is drained: it ends long after its turn."""
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json") as command:
            target.wait_off()
            target.wait_on()
            target.say("call 3000")
            target.lines.wait_for("called")
            target.wait_off()
            command.end()
        profile = load(path / "out.json")
        (span,) = profile.named("call")
        check("has allowed 2 turns" in command.stderr, command.stderr)
        check("no slow call" not in command.stderr, "one was seen")
        check(span.reason == "return", span.reason)
        near(span.duration, 3000 * MS, 300 * MS, "duration")
        check(not profile.raw["losses"].get("call_cut"), f"{profile.raw['losses']}")
        probed(profile)


@test
def call_that_outlives_the_draining_is_cut():
    """Neither unfinished nor, when its thread returns in a later turn, ended: a loss that is counted. As recorded."""
    with folder() as path, Busy() as target:
        with Turns(target, path / "capture", command="record") as command:
            target.say("call 14000")
            target.wait_off()
            target.wait_on()
            target.lines.wait_for("called")
            command.end()
        status, _, stderr = spanprof("report", path / "capture", "-o", path / "out.json", "-q")
        check(status == 0, stderr)
        profile = load(path / "out.json")
        (span,) = profile.named("call")
        check(span.reason == "cut", span.reason)
        check(10000 * MS < span.duration < 14000 * MS, f"{span.duration}")
        check(profile.raw["losses"].get("call_cut") == 1, f"{profile.raw['losses']}")
        check(probed(profile)["turns"] == 2, f"{profile.raw['run']}")
        (endpoint,) = profile.endpoints
        check(endpoint["unfinished"] == 0 and endpoint["end_unknown"] == 1, f"{endpoint}")
        check(max(low for low, _ in endpoint["histogram"]) < 10000 * MS, "no end of it is in the histogram")
        status, text, _ = spanprof("report", path / "capture")
        check(status == 0 and re.search(r"probed .* in 2 turns .*--max-overhead 30%", text), text)
        check("seen in part: the probes rested" in text, text)


@test
def calls_of_a_rest_are_not_seen():
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json") as command:
            target.wait_off()
            for _ in range(5):
                target.say("jump 300")
            target.say("call 100")
            target.lines.wait_for("called")
            target.wait_on()
            target.wait_off()
            command.end()
        profile = load(path / "out.json")
        check(not profile.named("jump") and not profile.named("call"), f"{[s.name for s in profile.spans]}")
        probed(profile)


@test
def longjmp_while_calls_are_drained():
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json") as command:
            target.say("jump 2500")
            target.lines.wait_for("called")
            target.wait_off()
            target.wait_on()
            command.end()
        profile = load(path / "out.json")
        (span,) = profile.named("jump")
        check(span.reason in ("unwound", "thread_exit"), span.reason)
        near(span.duration, 2500 * MS, 300 * MS, "duration")
        probed(profile)


@cases(["link", "perf"])
def child_of_a_rest_is_probed_in_the_next_turn(uprobes):
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json", "--min-duration", "10ms", env={"SPANPROF_UPROBES": uprobes}) as command:
            target.wait_off()
            target.say("fork")
            child = int(target.lines.wait_for("child").split()[1])
            check(changed_code(child, target.program) == 0, "nothing of it is probed")
            target.wait_on()
            wait_until(lambda: changed_code(child, target.program) == target.all, "its turn")
            target.wait_off()
            check(changed_code(child, target.program) == 0, "nothing of it is probed")
            target.wait_on()
            target.wait_off()  # a first fork may have all probes changed within the turn before
            command.end()
        profile = load(path / "out.json")
        spans = profile.named("child")
        check(spans and {s.pid for s in spans} == {child}, f"{len(spans)} spans")
        check(all(s.reason in ("return", "leave_unseen", "unfinished") for s in spans), f"{[s.reason for s in spans]}")
        probed(profile)


@test
def no_rest_while_a_debugger_traces():
    """It may have a breakpoint under which it saw a probe's trap, and puts that back later."""
    if not shutil.which("gdb"):
        raise Skip("gdb is not installed")
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json") as command:
            target.wait_off()
            target.wait_on()
            with subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-p", str(target.pid), "-ex", "continue"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as gdb:
                try:
                    Lines(gdb.stdout).wait_for("0x|main|read")
                    wait_until(lambda: target.probes() == target.all, "a turn", 60)
                    deadline = time.monotonic() + 6
                    wait_until(lambda: target.probes() != target.all or time.monotonic() > deadline, "six seconds", 10)
                    check(target.probes() == target.all, "the turn goes on")
                finally:
                    stop(gdb)
            target.wait_off()
            command.end()
        check(target.end() == 0, "the target was disturbed")
        probed(load(path / "out.json"))


@test
def target_that_ends_in_a_rest():
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json") as command:
            target.wait_off()
            target.process.kill()
            command.end(None)
        probed(load(path / "out.json"))


@test
def file_that_is_written_to_in_a_rest():
    """The writer is not held up for long. What is in the file then is probed as what it is, or not at all."""
    with folder() as path:
        program = path / "app"
        shutil.copy(TARGETS / "busy", program)
        with Spanprof("run", "--exe", program, *OPTIONS, "-o", path / "out.json", "--format", "json") as command:
            command.err.wait_for("waiting for one")
            with Busy(program) as target:
                wait_until(target.probes, "a turn")
                target.wait_off()
            start = time.monotonic()
            shutil.copyfile(TARGETS / "phases-clang-O0", program)
            took = time.monotonic() - start
            with Target(program, "-w", "-n", 100, "a=sleep:30") as target:
                target.play()
                check(target.end() == 0, "what is in the file now was disturbed")
            check(command.finish() == 0, command.stderr)
        check(took < 5, f"the writer waited for {took:.1f} s")


@test
def semaphore_is_off_in_a_rest():
    symbols = subprocess.run(["nm", TARGETS / "busy"], capture_output=True, text=True, check=True).stdout
    vaddr = int(re.search(r"(?m)^([0-9a-f]+) \w busy_tick_semaphore$", symbols)[1], 16)

    def semaphore(target):
        maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
        base = min(int(line.split("-")[0], 16) for line in maps.splitlines() if line.endswith(str(target.program)))
        with open(f"/proc/{target.pid}/mem", "rb") as memory:
            memory.seek(base + vaddr)
            return int.from_bytes(memory.read(2), "little")

    with Busy() as target:
        with Spanprof("run", "-p", target.pid, "-e", "usdt:busy:tick", *OVERHEAD) as command:
            command.wait_attached()
            for _ in range(2):
                wait_until(lambda: semaphore(target) == 1, "a turn", 60)
                wait_until(lambda: semaphore(target) == 0 and not target.probes(), "a rest", 60)
            check(command.finish() == 0, command.stderr)
        check(semaphore(target) == 0, "it is off")
        check(re.search(r"probed .* of the time, in \d+ turns", command.stdout), command.stdout)


STATES = ("turn", "drain", "rest")


@cases([(state, name) for state in STATES for name in ("SIGINT", "SIGKILL")])
def end_in_each_state(case):
    state, name = case
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json") as command:
            if state == "drain":
                target.say("call 5000")
                wait_until(lambda: 0 < target.probes() < target.all, "no entries any more")
            elif state == "rest":
                target.wait_off()
            status = command.finish(getattr(signal, name))
        check(status == (-signal.SIGKILL if name == "SIGKILL" else 0), command.stderr)
        wait_until(lambda: target.probes() == 0, "the target's code is its own again")
        if state == "drain" and name == "SIGINT":
            (span,) = load(path / "out.json").named("call")
            check(span.reason == "unfinished", span.reason)
        if name == "SIGINT":
            probed(load(path / "out.json"))
        check(target.end() == 0, "the target was disturbed")


@test
def what_costs_little_is_never_rested():
    with folder() as path, Busy() as target:
        with Turns(target, path / "out.json", "--max-overhead", "100%", "--for", "3s") as command:
            command.end(None)
        check(probed(load(path / "out.json"))["turns"] == 1, "one turn")


@test
def cost_is_told_where_there_is_no_limit():
    with Busy() as target:
        with Spanprof("run", "-p", target.pid, *ENDPOINT) as command:
            command.wait_attached()
            command.err.wait_for("the probes take up to .* of the CPU time .*--max-overhead 1%")
            check(command.finish() == 0, command.stderr)


main(needs=[need_bpf])
