#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the options of `run` change, their defaults, the terminal, and what README shows of the demo."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

from harness import (BUILD, SPANPROF, Lines, Spanprof, Target, cases, check, folder, load, main, need_bpf, profiling,
                     spanprof, stop, test)

MS = 1_000_000


def profile(script, *options, endpoint="request(str(arg0))", calls=1):
    """A profile of the phases of a script, and the run's messages."""
    with folder() as path:
        with Target("phases-gcc-O2", "-w", "-n", calls, script) as target:
            with profiling(path / "out.json", "-p", target.pid, "-e", endpoint, *options) as command:
                target.play()
        return load(path / "out.json"), command


def functions(p):
    return {f for s in p.spans for x in s.samples for f in x.functions}


@test
def defaults():
    """100 ms, 10 ms, five at a time, kernel frames, lines, workers: as --help says."""
    p, _ = profile("short=sleep:1", calls=2)
    check((p.endpoints[0]["threshold_ns"], p.endpoints[0]["period_ns"]) == (100 * MS, 10 * MS), f"{p.endpoints[0]}")
    status, out, _ = spanprof("run", "--help")
    for option, default in (("min-duration", "100ms"), ("period", "10ms"), ("max-samples", "0"), ("max-parallel", "5")):
        text = " ".join(out[out.index(f"--{option} "):].split()[:16])
        check(status == 0 and f"default {default}" in text, f"{option}: {text}")
    with folder() as path:
        with Target("phases-gcc-O2", "-w", "-t", 8, "-n", 1, "all=sleep:300") as target:
            with profiling(path / "out.json", "-p", target.pid, "-e", "request"):
                target.play()
        p = load(path / "out.json")
    check(len(p.spans) == 5 and p.losses.get("parallel_limit") == 3, f"{len(p.spans)} of 8 spans: {p.losses}")


@test
def a_shorter_period_takes_more_snapshots():
    counts = {}
    for period in (4, 40):
        p, _ = profile("spin=spin:400", "--min-duration", "10ms", "--period", f"{period}ms")
        check(p.endpoints[0]["period_ns"] == period * MS, f"{p.endpoints[0]}")
        (span,) = p.spans
        counts[period] = sum(s.kind == "on-cpu" and "phase_spin" in s.functions for s in span.samples)
    check(counts[4] >= 4 * counts[40] > 0, f"snapshots by period in ms: {counts}")


@test
def from_start_keeps_what_was_before_the_threshold():
    script, options = "two=spin:80,sleep:80", ("--min-duration", "100ms", "--period", "5ms")
    p, _ = profile(script, *options)
    check("[before threshold]" in functions(p), f"{functions(p)}")
    p, _ = profile(script, *options, "--from-start")
    spin = sum(s.wall for s in p.spans[0].samples if "phase_spin" in s.functions)
    check("[before threshold]" not in functions(p) and spin > 40 * MS, f"{spin}: {functions(p)}")


@test
def kernel_frames_of_a_wait():
    """Where a thread sleeps in the kernel is told by the kernel's own functions, unless nobody wants to know."""
    p, _ = profile("nap=sleep:150")
    check("hrtimer_nanosleep" in functions(p), f"{functions(p)}")
    p, _ = profile("nap=sleep:150", "--no-kernel")
    check("phase_sleep" in functions(p) and "hrtimer_nanosleep" not in functions(p), f"{functions(p)}")


@test
def lines_are_looked_up_unless_not():
    p, _ = profile("spin=spin:150")
    frames = [f for s in p.spans for x in s.samples for f in x.frames if f["function"] == "phase_spin"]
    check(frames and all(f.get("file", "").endswith("phase_kinds.c") and f.get("line") for f in frames), f"{frames[:2]}")
    p, _ = profile("spin=spin:150", "--no-lines")
    frames = [f for s in p.spans for x in s.samples for f in x.frames if f["function"] == "phase_spin"]
    check(frames and not any(f.get("line") for f in frames), f"{frames[:2]}")


@test
def stacks_larger_than_the_window_are_cut():
    """Each is counted, and its time is still there; the endpoint is below what is missing."""
    for options, cut in (((), False), (("--max-window", "1K"), True)):
        p, _ = profile("down=deep:150", "--period", "5ms", "--min-duration", "10ms", *options)
        stops = [s.stop for x in p.spans for s in x.samples if "recurse" in s.functions]
        n = p.losses.get("window_truncated", 0)
        check(stops and ("truncated" in stops) == cut and (n > 0) == cut, f"{options}: {stops}, {n} counted")
        check(n >= stops.count("truncated"), f"{n} are counted of {stops}")
        check("[incomplete: window limit]" in functions(p) or not cut, f"{functions(p)}")
        check(all(sum(s.wall for s in x.samples) >= x.duration - 2 for x in p.spans), "time is missing")


@test
def workers_are_left_out_with_no_fork():
    pids = {}
    for option in ((), ("--no-fork",)):
        with folder() as path, Target("scenes", "children") as target:
            with profiling(path / "out.json", "-p", target.pid, "-e", "request", "--min-duration", "1ms", *option):
                target.play()
            pids[option] = {s.pid for s in load(path / "out.json").spans} - {target.pid}
    check(pids[()] and not pids[("--no-fork",)], f"{pids}")


@test
def quiet_and_verbose():
    out = {}
    for options in ((), ("-q",), ("-v",)):
        with Target("phases-gcc-O2", "-w", "-n", 1, "all=disk:60,pipe:60,spin:60") as target:
            with Spanprof("run", "-p", target.pid, "-e", "request", "-e", "phase_spin;if=arg0==-1", *options) as command:
                command.wait_attached()
                target.play()
                check(command.finish() == 0, command.stderr)
            out[options] = command.stdout
    counters = {options: re.findall(r"(?m)^ +\d+  [a-z]+(?:_[a-z]+)+: ", text) for options, text in out.items()}
    check(out[("-q",)] == "" and out[()] and not counters[()], f"{out}")
    check(any("condition_skip" in line for line in counters[("-v",)]), f"{out}")


def on_terminal(columns, *args, env=None):
    """What a command writes to a terminal of that width."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([SPANPROF, *map(str, args)], stdin=follower, stdout=follower, stderr=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(follower)
    out = b""
    try:
        while True:
            check(select.select([leader], [], [], 60)[0], f"nothing more after {out[-200:]!r}")
            chunk = os.read(leader, 65536)
            if not chunk:
                break
            out += chunk
    except OSError:  # the end, by a terminal's custom
        pass
    finally:
        os.close(leader)
        stop(process)
    return out.decode().replace("\r\n", "\n")


@cases([80, 120, 200])
def terminal(columns):
    """No line is wider than the terminal."""
    with Target("phases-gcc-O2", "-w", "-n", 8, "all=sleep:40,mutex:40,deep:40,spin:80") as target:
        target.go()
        out = on_terminal(columns, "run", "-p", target.pid, "-e", "request(str(arg0))", "--for", "1s")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    lines = plain.splitlines()
    check("phase_spin" in plain and max(map(len, lines)) <= columns, f"{max(map(len, lines))} columns of {columns}: {plain}")


@test
def presets_are_listed_and_explained():
    status, out, err = spanprof("presets")
    names = {"apache", "mariadb-statements", "mariadb", "mod_php", "mysql", "nginx", "openssl", "php-fpm", "postgres", "redis", "sqlite", "valkey"}
    listed = {t.split()[0] for t in out.splitlines() if re.match(r"[a-z]\S+ +\S", t)}
    check(status == 0 and listed == names, f"{listed ^ names}: {out} {err}")
    for name in names:
        status, out, err = spanprof("presets", name)
        check(status == 0 and "defined in" in out and len(out.splitlines()) > 3, out + err)


@test
def the_demo_of_the_readme():
    """Orders wait for the lock that reports hold: the text says so, the files are there, nothing is left running."""
    with folder() as path:
        server = subprocess.Popen([BUILD / "tools/demo/orders", "-t", "60"], stdout=subprocess.PIPE)
        load_process = None
        try:
            port = Lines(server.stdout).wait_for(r"^\d+$")
            load_process = subprocess.Popen([BUILD / "tools/demo/load", "-p", port, "-n", "100000", "-c", "6", "-t", "30"],
                                            stdout=subprocess.DEVNULL)
            status, out, err = spanprof("run", "-p", server.pid, "-e", 'handle_request(str(arg0) ":" str(arg1))',
                                        "--normalize", "path", "--min-duration", "100ms", "--for", "4s",
                                        "-o", path / "orders.pb.gz", "-o", path / "orders.folded")
        finally:
            if load_process:
                stop(load_process)
            stop(server)
            server.stdout.close()
        check(status == 0 and "complete 100 %" in out, out + err)
        # On a busy machine a wait has a part in the run queue, and is shown as "lock 5.1, run queue 0.3".
        for words in ("GET:/report", r"GET:/orders/\{id\}", "lock_book", "  (blocked: )?lock", "  (blocked: )?sleep",
                      "  (blocked: )?net"):
            check(re.search(words, out), f"no '{words}': {out}")
        check((path / "orders.pb.gz").stat().st_size > 500, "pprof")
        check(re.search(r"(?m)^.*handle_request;.*lock_book;.* \d+$", (path / "orders.folded").read_text()), "folded")


main(needs=[need_bpf])
