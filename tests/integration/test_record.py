#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""record writes what report makes any format of, without root, and always the same."""
import gzip
import os
import re
import shutil
import struct
import subprocess
import zlib

from harness import (SPANPROF, TARGETS, Spanprof, Target, cases, check, folder, load, main, need_bpf, spanprof,
                     test)

OPTIONS = ("--endpoint", "request(str(arg0))", "--min-duration", "10ms", "--period", "5ms")


def record(path, *script, program="phases-gcc-O2", n=2):
    with Target(program, "-w", "-n", n, *script) as target:
        with Spanprof("record", "-o", path / "run.cap", "-p", target.pid, *OPTIONS) as command:
            command.wait_attached()
            target.play()
            status = command.finish()
            check(status == 0, f"exit status {status}: {command.stderr}")
    return path / "run.cap"


def report(capture, output):
    status, _, stderr = spanprof("report", capture, "-o", output)
    check(status == 0, f"exit status {status}: {stderr}")
    return output.read_bytes()


@test
def replay_is_exact():
    with folder() as path:
        capture = record(path, "a=sleep:30,spin:20", "b=deep:20")
        for name in ("out.json", "out.folded", "out.pb.gz"):
            first = report(capture, path / name)
            check(first == report(capture, path / ("again-" + name)), f"{name}: the same twice")
        profile = load(path / "out.json")
        check(profile.calls() == 4, f"{profile.calls()} calls instead of 4")
        check(len(profile.spans) == 4, f"{len(profile.spans)} spans")
        functions = {f for s in profile.spans for x in s.samples for f in x.functions}
        check({"phase_sleep", "phase_spin", "recurse"} <= functions, f"functions {sorted(functions)}")


@test
def folded_adds_up():
    with folder() as path:
        capture = record(path, "a=sleep:30,spin:20")
        report(capture, path / "out.json")
        lines = report(capture, path / "out.folded").decode().splitlines()
        total = 0
        for line in lines:
            stack, value = line.rsplit(" ", 1)
            if stack.startswith("#"):
                check(not value.isdigit(), f"no tool may take a comment for a stack: {line}")
                continue
            check(not stack.startswith(";"), f"a stack: {line}")
            total += int(value)
        want = sum(s.duration for s in load(path / "out.json").spans) // 1000
        check(abs(total - want) <= len(lines) + 1, f"{total} us instead of {want}")


@test
def pprof_is_gzip():
    with folder() as path:
        data = report(record(path, "a=sleep:30"), path / "out.pb.gz")
        check(len(gzip.decompress(data)) > 100, "a compressed profile")


@test
def text_report_without_root():
    with folder() as path:
        # Nothing that is read may be in the source tree: that may be in a home folder, closed to others.
        path.chmod(0o755)
        target = path / "phases"
        shutil.copy(TARGETS / "phases-gcc-O2", target)
        capture = record(path, "a=sleep:30", program=target)
        capture.chmod(0o644)
        program = path / "spanprof"
        shutil.copy(SPANPROF, program)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, "report",
                               capture], capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr}")
        check("phase_sleep" in done.stdout, done.stdout)


@test
def functions_without_names():
    """What would give them names is said; not when they have them."""
    with folder() as path:
        capture = record(path, "a=sleep:30", program="phases-gcc-stripped")
        status, stdout, stderr = spanprof("report", capture)
        check(status == 0 and "phases-gcc-stripped+0x" in stdout, f"exit status {status}: {stdout} {stderr}")
        check("functions without a name, such as phases-gcc-stripped+0x" in stderr and "-dbgsym" in stderr, stderr)
        # Its C library is inside, with all its names.
        status, _, stderr = spanprof("report", record(path, "a=sleep:30", program="phases-gcc-static-pie"))
        check(status == 0 and not stderr, f"exit status {status}: {stderr}")


@test
def report_without_the_program_keeps_addresses():
    with folder() as path:
        target = path / "phases"
        shutil.copy(TARGETS / "phases-gcc-O2", target)
        capture = record(path, "a=sleep:30", program=target)
        target.unlink()
        status, stdout, stderr = spanprof("report", capture)
        check(status == 0 and "mapped file" in stderr and "--root DIR" in stderr, f"exit status {status}: {stderr}")
        check(re.search(r"phases\+0x[0-9a-f]+", stdout), stdout)
        check("[incomplete: file not available]" in stdout and "no mapped file" not in stdout, stdout)
        check("[unknown]" not in stdout, stdout)
        status, _, stderr = spanprof("report", capture, "--root", path / "none")
        check(status == 1 and len(stderr.splitlines()) == 1 and "is not a folder that is there" in stderr, stderr)


@test
def links_stay_links():
    """What they lead to is replaced; standard output, by whatever name, is written to."""
    with folder() as path:
        # A program without nameless functions: of those there would be a message.
        capture = record(path, "a=sleep:30", program="phases-gcc-static-pie")
        (path / "file.folded").write_text("old")
        (path / "link.folded").symlink_to("file.folded")
        report(capture, path / "link.folded")
        text = (path / "file.folded").read_text()
        check((path / "link.folded").is_symlink() and "phase_sleep" in text, text)
        with open(path / "out", "wb") as out:
            done = subprocess.run([SPANPROF, "report", capture, "-o", "/proc/self/fd/1", "--format", "folded"], stdout=out,
                                  stderr=subprocess.PIPE, text=True, check=False)
        check(done.returncode == 0 and not done.stderr, done.stderr)
        check((path / "out").read_text() == text, "the folded stacks alone")


@cases([0.1, 0.5, 0.9, 0.99])
def truncated_capture(share):
    with folder() as path:
        capture = record(path, "a=sleep:30")
        data = capture.read_bytes()
        cut = path / "cut.cap"
        cut.write_bytes(data[:int(len(data) * share)])
        status, stdout, stderr = spanprof("report", cut)
        check(status in (0, 1), f"exit status {status}: {stderr}")
        check("cut.cap" in stderr, f"the message names the file: {stderr}")
        check(status == 1 or "truncated" in stderr or "incomplete" in stderr,
              f"what is missing is said: {stderr}; {stdout[:200]}")


@test
def where_a_link_leads_to():
    """/dev/stdout is one, too: the shell's file goes on, between what comes before and after."""
    with folder() as path:
        capture = record(path, "a=sleep:30")
        plain = report(capture, path / "plain.folded")
        (path / "real.folded").write_text("old")
        (path / "link.folded").symlink_to("real.folded")
        check(report(capture, path / "link.folded") == plain, "the same through a link")
        check(os.readlink(path / "link.folded") == "real.folded", "a link is still there")
        before = os.readlink("/dev/stdout")
        text = 'echo first; "$0" report "$1" -q -o /dev/stdout --format folded; echo last'
        with open(path / "all", "wb") as out:
            subprocess.run(["sh", "-c", text, SPANPROF, capture], stdout=out, stderr=subprocess.DEVNULL, check=True)
        check((path / "all").read_bytes() == b"first\n" + plain + b"last\n", (path / "all").read_text())
        check(os.readlink("/dev/stdout") == before, "/dev/stdout is what it was")
        done = subprocess.run([SPANPROF, "report", capture, "-q", "-o", "/dev/stdout", "--format", "folded"],
                              capture_output=True, check=True)
        check(done.stdout == plain, done.stdout)


def blocks(data):
    at = 552
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        yield at, kind, size
        at += 8 + (size + 7) // 8 * 8


def forged(capture, kind, offset, value):
    """The capture with another number in a block of a kind, and the right checksum for it."""
    data = bytearray(capture.read_bytes())
    at = [at for at, k, _ in blocks(data) if k == kind][-1]
    struct.pack_into("<Q", data, at + 8 + offset, value)
    end = [at for at, k, _ in blocks(data) if k == 7][0]
    struct.pack_into("<I", data, end + 16, zlib.crc32(data[:end]))
    return bytes(data)


@cases([(5, 8, 0, "calls"), (5, 16, 1000, "histogram"), (6, 0, 1, "after the end"), (5, 24, 1 << 60, "slow calls")])
def totals_that_cannot_be(case):
    kind, offset, value, why = case
    with folder() as path:
        capture = record(path, "a=sleep:30", n=40)
        bad = path / "bad.cap"
        data = forged(capture, kind, offset, value)
        bad.write_bytes(data)
        if kind == 6:  # the run's start is long before its records
            head = bytearray(data)
            start, = struct.unpack_from("<Q", head, 24)
            struct.pack_into("<Q", head, 24, start - 100 * 10**9)
            end = [at for at, k, _ in blocks(head) if k == 7][0]
            struct.pack_into("<I", head, end + 16, zlib.crc32(head[:end]))
            bad.write_bytes(head)
        status, stdout, stderr = spanprof("report", bad)
        check(status == 1 and not stdout, f"exit status {status}: {stderr}; {stdout[:200]}")
        check(len(stderr.splitlines()) == 1 and "contradicts itself" in stderr and why in stderr, stderr)


@test
def damaged_capture_is_refused():
    with folder() as path:
        data = bytearray(record(path, "a=sleep:30").read_bytes())
        bad = path / "bad.cap"
        for step in range(0, len(data), max(1, len(data) // 60)):
            data[step] ^= 0xFF
            bad.write_bytes(data)
            data[step] ^= 0xFF
            status, _, stderr = spanprof("report", bad, "-o", os.devnull, "--format", "json")
            check(status == 1, f"byte {step}: exit status {status}: {stderr[-300:]}")
            check(len(stderr.splitlines()) == 1, f"byte {step}: one message: {stderr}")


main(needs=[need_bpf])
