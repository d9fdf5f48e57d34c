# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: TAP, targets, runs of spanprof, and their results.

A test file defines functions with @test and ends with main(). Waits are for events, each with a
deadline; nothing sleeps for luck. What cannot run here is skipped with its reason. Processes are
stopped by id, whatever happens.
"""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
SPANPROF = os.environ.get("SPANPROF", str(BUILD / "src/spanprof"))
TARGETS = BUILD / "tests/integration/targets"
DEADLINE = 30  # seconds that any single wait may take
SLOW = float(os.environ.get("SLOW", "1"))  # sanitizer builds raise it

CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF = 21, 38, 39


class Skip(Exception):
    """Cannot run here; the text says why."""


class Failure(AssertionError):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


def near(got, want, tolerance, what):
    check(abs(got - want) <= tolerance, f"{what}: {got} instead of {want} +- {tolerance}")


# -- TAP ------------------------------------------------------------------------------------------

_tests = []


def test(function):
    _tests.append(function)
    return function


def cases(values):
    """One test per value: @cases([...]) def name(value)."""

    def add(function):
        for value in values:

            def bound(value=value):
                return function(value)

            bound.__name__ = f"{function.__name__}[{value}]"
            _tests.append(bound)
        return function

    return add


def end_in_order(number, _):
    """A time-out of the test runner: what was started is stopped on the way out."""
    raise SystemExit(128 + number)


def main(needs=()):
    signal.signal(signal.SIGTERM, end_in_order)
    # nohup ignores the one, a script's background the other, and a shell cannot trap what is ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = sys.argv[1:]
    tests = [t for t in _tests if not wanted or any(w in t.__name__ for w in wanted)]
    print(f"1..{len(tests)}")
    failed = 0
    for number, function in enumerate(tests, 1):
        begin = time.monotonic()
        try:
            for need in needs:
                need()
            function()
            print(f"ok {number} - {function.__name__}")
        except Skip as reason:
            print(f"ok {number} - {function.__name__} # SKIP {reason}")
        except Exception:  # pylint: disable=broad-except
            failed += 1
            for text in traceback.format_exc().splitlines():
                print(f"# {text}")
            print(f"not ok {number} - {function.__name__}")
        print(f"# {time.monotonic() - begin:.1f} s", flush=True)
    sys.exit(failed != 0)


# -- what a test needs ----------------------------------------------------------------------------


def need_bpf():
    if os.geteuid() != 0:
        raise Skip("needs root")
    text = pathlib.Path("/proc/self/status").read_text()
    caps = int(re.search(r"CapEff:\s*([0-9a-f]+)", text)[1], 16)
    if not caps >> CAP_SYS_ADMIN & 1 and not (caps >> CAP_BPF & caps >> CAP_PERFMON & 1):
        raise Skip("needs CAP_BPF and CAP_PERFMON")
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        raise Skip("the kernel has no BTF (/sys/kernel/btf/vmlinux)")


def need_program(*names):
    for name in names:
        if not shutil.which(name) and not os.access(name, os.X_OK):
            raise Skip(f"{name} is not installed (tools/setup --servers)")


# -- processes ------------------------------------------------------------------------------------


def wait_until(condition, what, seconds=DEADLINE):
    """Polls for what nothing announces. Returns the first true value of condition()."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"{what}: not within {seconds * SLOW:.0f} s")
        time.sleep(0.02)


class Lines:
    """Lines of a pipe, read with a deadline."""

    def __init__(self, pipe):
        self.fd = pipe.fileno()
        self.buffer = b""
        self.seen = []
        self.ended = False

    def _pull(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], max(0, seconds))
        if not ready:
            return False
        data = os.read(self.fd, 65536)
        if not data:
            self.ended = True
            if self.buffer:
                self.seen.append(self.buffer.decode(errors="replace"))
                self.buffer = b""
            return True
        *whole, self.buffer = (self.buffer + data).split(b"\n")
        self.seen += [t.decode(errors="replace") for t in whole]
        return True

    def wait_for(self, pattern, seconds=DEADLINE):
        end = time.monotonic() + seconds * SLOW
        looked = 0
        while True:
            for text in self.seen[looked:]:
                if re.search(pattern, text):
                    return text
            looked = len(self.seen)
            left = end - time.monotonic()
            if self.ended or left <= 0 or not self._pull(left):
                state = "the output ended" if self.ended else f"nothing for {seconds * SLOW:.0f} s"
                raise Failure(f"no line like {pattern!r}: {state}; lines: {self.seen[-15:]}")

    def drain(self, seconds=DEADLINE):
        end = time.monotonic() + seconds * SLOW
        while not self.ended and time.monotonic() < end:
            self._pull(end - time.monotonic())
        return "\n".join(self.seen)


def stop(process, first=signal.SIGTERM, seconds=10):
    """Ends a process that a test started, by id, and collects it."""
    if process.poll() is None:
        process.send_signal(first)
        try:
            process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait(seconds * SLOW)


@contextlib.contextmanager
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


BLOCK = 256


def changed_code(pid, only=None):
    """The bytes of a process's code that are not what the files say: breakpoints. only: of this file."""
    changed = files = 0
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, access, offset, _, inode, *path = line.split(None, 5)
            if "x" not in access or inode == "0" or (only and path != [str(only)]):
                continue
            start, end = (int(x, 16) for x in place.split("-"))
            memory.seek(start)
            with open(path[0], "rb") as file:
                file.seek(int(offset, 16))
                in_file = file.read(end - start)
            in_memory = memory.read(end - start)
            files += 1
            for at in range(0, len(in_file), BLOCK):  # this is polled: few blocks have a breakpoint
                one, other = in_memory[at:at + BLOCK], in_file[at:at + BLOCK]
                if one != other:
                    changed += sum(a != b for a, b in zip(one, other))
    check(files, f"nothing of {only or 'any file'} is mapped in process {pid}")
    return changed


class Target:
    """A scripted target: it says "ready", plays after go(), says "done", and ends after end()."""

    def __init__(self, program, *args, truth=None, prefix=()):
        self.truth_path = truth
        options = ["-o", str(truth)] if truth else []
        self.process = subprocess.Popen(
            [*prefix, str(TARGETS / program), *options, *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = Lines(self.process.stdout)
        self.pid = self.process.pid
        self.lines.wait_for("^ready$")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process, signal.SIGKILL)
        self.process.stdin.close()
        self.process.stdout.close()

    def go(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def wait_done(self, seconds=DEADLINE):
        self.lines.wait_for("^done$", seconds)

    def play(self, seconds=DEADLINE):
        self.go()
        self.wait_done(seconds)

    def end(self):
        self.process.stdin.close()
        self.process.stdin = open(os.devnull, "wb")
        return self.process.wait(DEADLINE)

    def truth(self, what=None):
        return read_truth(self.truth_path, what)


class Event:
    def __init__(self, what, name, tid, start, end):
        self.what, self.name = what, name
        self.tid, self.start, self.end = int(tid), int(start), int(end)
        self.duration = self.end - self.start


def read_truth(path, what=None):
    events = [Event(*t.split()) for t in pathlib.Path(path).read_text().splitlines()]
    return [e for e in events if what in (None, e.what)]


# -- spanprof -------------------------------------------------------------------------------------


class Spanprof:
    """A running spanprof command."""

    def __init__(self, *args, env=None):
        self.process = subprocess.Popen(
            [SPANPROF, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.out = Lines(self.process.stdout)
        self.err = Lines(self.process.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process, signal.SIGKILL)
        self.process.stdout.close()
        self.process.stderr.close()

    def wait_attached(self):
        self.err.wait_for(r"^spanprof: attached to")

    def finish(self, number=signal.SIGINT, seconds=DEADLINE):
        """Asks it to end (number None: waits for its own end) and returns its exit status."""
        if number and self.process.poll() is None:
            self.process.send_signal(number)
        end = time.monotonic() + seconds * SLOW
        while not (self.out.ended and self.err.ended):
            left = end - time.monotonic()
            check(left > 0, f"spanprof does not end; stderr: {self.err.seen[-10:]}")
            fds = [x for x in (self.out, self.err) if not x.ended]
            ready, _, _ = select.select([x.fd for x in fds], [], [], left)
            for lines in fds:
                if lines.fd in ready:
                    lines._pull(0)
        return self.process.wait(10)

    @property
    def stdout(self):
        return "\n".join(self.out.seen)

    @property
    def stderr(self):
        return "\n".join(self.err.seen)


def spanprof(*args, seconds=DEADLINE, env=None):
    """Runs a command to its own end: (exit status, stdout, stderr)."""
    with Spanprof(*args, env=env) as command:
        status = command.finish(None, seconds)
        return status, command.stdout, command.stderr


@contextlib.contextmanager
def profiling(output, *args):
    """A run that is attached; its profile is read with load(output) after the block."""
    with Spanprof("run", "-o", output, "--format", "json", *args) as command:
        command.wait_attached()
        yield command
        status = command.finish()
        # One that has ended by itself (--max-samples) may meet the signal on its last steps.
        late = status == -signal.SIGINT and "wrote json to" in command.stderr
        check(status == 0 or late, f"spanprof run: exit status {status}: {command.stderr}")


def bpf_programs():
    """Ids of the BPF programs in the kernel that are named like those of bpf/."""
    bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    try:
        text = subprocess.run([bpftool, "-j", "prog", "list"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise Skip("bpftool cannot list programs here") from None
    return {p["id"] for p in json.loads(text)
            if p.get("name", "").startswith(("span_", "sched_", "sample_", "proc_"))}


# -- profiles -------------------------------------------------------------------------------------


class Sample:
    def __init__(self, profile, raw):
        self.wall, self.kind, self.cause = raw["wall_ns"], raw["kind"], raw.get("cause")
        self.frames = profile.stack(raw["stack"])
        self.functions = [f["function"] for f in self.frames]
        self.stop = profile.raw["stacks"][raw["stack"]]["stop"]


class Span:
    def __init__(self, profile, raw):
        self.raw = raw
        self.name, self.pid, self.tid = raw["name"], raw["pid"], raw["tid"]
        self.start = profile.raw["run"]["start_mono_ns"] + raw["start_ns"]
        self.duration = raw["duration_ns"]
        self.oncpu, self.runq, self.blocked = raw["on_cpu_ns"], raw["run_queue_ns"], raw["blocked_ns"]
        self.reason = raw["end"]
        self.samples = [Sample(profile, s) for s in raw["samples"]]
        self.functions = {f for s in self.samples for f in s.functions}

    def time_in(self, function):
        """Wall time of the samples that have a frame of this function."""
        return sum(s.wall for s in self.samples if function in s.functions)


class Profile:
    """docs/json.md; row 0 of every table is null."""

    def __init__(self, raw):
        self.raw = raw
        self.stacks = {}
        self.endpoints = raw["endpoints"][1:]
        self.counters = {**raw["losses"], **raw["statistics"]}
        self.losses = raw["losses"]
        self.spans = [Span(self, s) for s in raw["spans"] if s]

    def stack(self, index):
        """Frames, leaf first, inlined ones included."""
        if index not in self.stacks:
            locations = [self.raw["locations"][i] for i in self.raw["stacks"][index]["locations"]]
            self.stacks[index] = [self.raw["frames"][i] for x in locations for i in x["frames"]]
        return self.stacks[index]

    def named(self, name):
        return [s for s in self.spans if s.name == name]

    def calls(self, endpoint=0):
        return self.endpoints[endpoint]["calls"]


def load(path):
    with open(path, encoding="utf-8") as file:
        return Profile(json.load(file))
