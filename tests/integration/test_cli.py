#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear line, exit status 2 for usage and 1 for the rest, nothing left behind."""
import contextlib
import os
import pathlib
import shutil
import struct
import subprocess

from harness import (BUILD, SPANPROF, TARGETS, Skip, Spanprof, Target, bpf_programs, cases, check, folder, main, need_bpf,
                     need_program, spanprof, test, wait_until)


def one_line(status, stderr, want, *words):
    check(status == want, f"exit status {status} instead of {want}: {stderr}")
    lines = [t for t in stderr.splitlines() if t.startswith("spanprof: error")]
    check(len(lines) == 1, f"one message, not {len(lines)}: {stderr}")
    for word in words:
        check(word.lower() in stderr.lower(), f"{word!r} is not in the message: {stderr}")


USAGE = {
    "no command": ([], "command"),
    "unknown command": (["rum"], "rum"),
    "unknown option": (["run", "--enpoint", "x"], "enpoint"),
    "no target": (["run", "--endpoint", "request"], "-p"),
    "no endpoint": (["run", "-p", "1"], "endpoint"),
    "pid is a word": (["run", "-p", "redis", "--endpoint", "x"], "redis"),
    "pid is negative": (["run", "-p", "-5", "--endpoint", "x"], "-5"),
    "bad unit": (["run", "-p", "1", "--endpoint", "x", "--period", "10parsec"], "10parsec"),
    "period too short": (["run", "-p", "1", "--endpoint", "x", "--period", "1us"], "1us"),
    "bad duration": (["run", "-p", "1", "--endpoint", "x", "--for", "soon"], "soon"),
    "bad count": (["run", "-p", "1", "--endpoint", "x", "--max-samples", "many"], "many"),
    "bad format": (["run", "-p", "1", "--endpoint", "x", "-o", "/tmp/x", "--format", "gif"], "gif"),
    "format not guessed": (["run", "-p", "1", "--endpoint", "x", "-o", "/tmp/x.gif"], "x.gif"),
    "bad leave": (["run", "-p", "1", "--endpoint", "x", "--leave", "magic"], "magic"),
    "bad expression": (["run", "-p", "1", "--endpoint", "f(str(arg1+))"], "f(str(arg1+))"),
    "open parenthesis": (["run", "-p", "1", "--endpoint", "f(str(arg1)"], "f(str(arg1)"),
    "report without a file": (["report"], "file"),
    "pid is empty": (["run", "-p", "", "--endpoint", "x"], "process ID"),
    "pid among others": (["run", "-p", "1 2\n3,redis", "--endpoint", "x"], "'redis'"),
    "window too large": (["run", "-p", "1", "--endpoint", "x", "--max-window", "1M"], "from 1K to 64K, such as 16K"),
    "ring too small": (["run", "-p", "1", "--endpoint", "x", "--ring", "3"], "from 1K to 1G, such as 16K"),
    "format twice": (["run", "-p", "1", "--endpoint", "x", "--format", "json", "--format", "html"], "--format may be given once"),
    "several pids": (["run", "-p", "575", "582", "-e", "foo"], "several process IDs are separated by commas: -p 575,582"),
    "endpoint is said once": (["run", "-p", "1", "--endpoint", "f("], "error: --endpoint: expected"),
    "nearest option": (["run", "--prset", "x"], "run: there is no option '--prset'; did you mean --preset"),
    "a part of several options": (["run", "--no-"], "--no-fork"),
    "an option without its value": (["run", "--endpoint"], "--endpoint needs a value"),
    "a value that is not wanted": (["run", "--no-fork=1"], "--no-fork takes no value"),
    "a file of presets alone": (["run", "-p", "1", "-e", "x", "--preset-file", "mine"], "add --preset NAME"),
    "a letter that is no option": (["task", "--json", "-f"], "task: there is no option '-f'; see 'spanprof task --help'"),
}


@cases(list(USAGE))
def usage(name):
    arguments, word = USAGE[name]
    status, _, stderr = spanprof(*arguments)
    check(status == 2, f"exit status {status} instead of 2: {stderr}")
    check(word in stderr, f"{word!r} is not in the message: {stderr}")
    # An expression is shown with its bad position marked below.
    check(len(stderr.splitlines()) <= 3 or not arguments, f"one message: {stderr}")
    check(stderr.count("error:") <= 1, f"one message: {stderr}")


@cases(["run", "record", "report", "agent", "task", "task list", "spans", "top", "probes", "doctor", "presets"])
def unknown_options(command):
    status, _, stderr = spanprof(*command.split(), "--bogus")
    one_line(status, stderr, 2, "--bogus")


@cases(["run", "record", "report", "probes", "doctor"])
def debug_dirs_are_taken_by_all(command):
    """In either spelling."""
    for name in "--debug-dirs", "--debug-dir":
        status, _, stderr = spanprof(command, name, "/x", "--bogus")
        check(status == 2 and "'--bogus'" in stderr, stderr)


@cases(["", "run", "record", "report", "agent", "task", "spans", "top", "probes", "doctor", "presets"])
def help_goes_to_stdout(command):
    status, stdout, stderr = spanprof(*command.split(), "--help")
    check(status == 0 and not stderr, f"exit status {status}, stderr {stderr}")
    check("xample" in stdout or not command, "help shows examples")
    long = [line for line in stdout.splitlines() if len(line) > 79]
    check(not long, f"a terminal has 80 columns: {long}")


@cases(["closed", "read-only"])
def unusable_stdout(kind):
    """Before anything is attached, not at the end of a long run."""
    redirect = ">&-" if kind == "closed" else "1</dev/null"
    with sleeper() as target:
        text = f'exec "$0" run -p {target.pid} --endpoint request --for 1h {redirect}'
        done = subprocess.run(["sh", "-c", text, SPANPROF], capture_output=True, text=True, timeout=60, check=False)
    one_line(done.returncode, done.stderr, 1, "standard output", kind.replace("read-only", "reading only"))


@cases(["presets", "presets redis", "--help", "run --help", "--version", "doctor"])
def full_stdout(arguments):
    """Short output is written at the end, when the command has said that it worked."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([SPANPROF, *arguments.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 1, f"exit status {done.returncode}: {done.stderr}")
    check("cannot write to standard output: No space left" in done.stderr or arguments == "doctor", done.stderr)


@test
def doctor_tells_the_process_from_the_machine():
    need_bpf()
    process = subprocess.Popen(["true"])
    process.wait()
    status, out, _ = spanprof("doctor", "-p", process.pid)
    check(status == 1 and "can be used here, but not with this process" in out, out)


@test
def few_files():
    text = 'ulimit -n 20; exec "$0" run -p $$ --endpoint request --for 1s'
    done = subprocess.run(["sh", "-c", text, SPANPROF], capture_output=True, text=True, timeout=60, check=False)
    one_line(done.returncode, done.stderr, 1, "files", "20", "ulimit")


@cases(["report x", "run -p 1 --endpoint request"])
def small_stack(arguments):
    """Libraries crash on one, at the end of a run."""
    text = f'ulimit -s 128; exec "$0" {arguments}'
    done = subprocess.run(["sh", "-c", text, SPANPROF], capture_output=True, text=True, timeout=60, check=False)
    one_line(done.returncode, done.stderr, 1, "stack", "128 KiB", "ulimit -s")


def sleeper():
    return Target("phases-gcc-O2", "-w", "a=sleep:1")


def run(target, *args):
    return spanprof("run", "-p", target, "--for", "1s", *args)


@test
def dead_pid():
    need_bpf()
    process = subprocess.Popen(["true"])
    process.wait()
    status, _, stderr = run(process.pid, "--endpoint", "request")
    one_line(status, stderr, 1, str(process.pid))


@test
def kernel_thread():
    need_bpf()
    if not os.path.exists("/proc/2/status") or os.path.exists("/proc/2/exe") and os.access("/proc/2/exe", os.R_OK):
        raise Skip("no kernel thread is visible here")
    status, _, stderr = run(2, "--endpoint", "request")
    one_line(status, stderr, 1, "2")


@test
def no_such_symbol_names_the_nearest():
    need_bpf()
    with sleeper() as target:
        status, _, stderr = run(target.pid, "--endpoint", "phase_slep")
        check(status == 1, f"exit status {status}")
        check("phase_slep" in stderr and "phase_sleep" in stderr, stderr)


@test
def one_of_two_is_not_there():
    """It is not said to have had no calls."""
    need_bpf()
    with sleeper() as target:
        status, stdout, stderr = run(target.pid, "--endpoint", "no_such_function", "--endpoint", "request")
    check(status == 0 and "no such function" in stderr, f"exit status {status}: {stderr}")
    check("no_such_function   not probed: no process was seen that has it" in stdout, stdout)
    check("request   no calls seen" in stdout, stdout)


@test
def a_target_that_calls_exec():
    """It has not ended, though it is not profiled any more."""
    need_bpf()
    target = subprocess.Popen(["sh", "-c", "read go; exec sleep 100"], stdin=subprocess.PIPE)
    try:
        with Spanprof("run", "-p", target.pid, "--endpoint", "libc.so.6:nanosleep") as command:
            command.wait_attached()
            target.stdin.write(b"go\n")
            target.stdin.close()
            status = command.finish(None)
        check(status == 0, f"exit status {status}: {command.stderr}")
        check(f"process {target.pid} has called exec" in command.stderr and "--exe '" in command.stderr, command.stderr)
        check("have ended" not in command.stderr, command.stderr)
    finally:
        target.kill()
        target.wait()


@test
def debuginfod_without_servers():
    need_bpf()
    with sleeper() as target:
        status, _, stderr = spanprof("run", "-p", target.pid, "--for", "100ms", "-e", "request", "--debuginfod",
                                     env={"DEBUGINFOD_URLS": ""})
    check(status == 0 and "DEBUGINFOD_URLS is not set" in stderr, f"exit status {status}: {stderr}")


@test
def symbol_of_another_binary():
    need_bpf()
    with sleeper() as target:
        status, _, stderr = run(target.pid, "--endpoint", "libfoo.so:request")
        one_line(status, stderr, 1, "libfoo.so")


@test
def offset_outside_the_file():
    need_bpf()
    with sleeper() as target:
        status, _, stderr = run(target.pid, "--endpoint", "phases-gcc-O2:0x7fffffff")
        one_line(status, stderr, 1, "0x7fffffff")


def unprivileged(*args, caps=()):
    """A copy of the program, which anybody may run, by nobody and with these capabilities alone."""
    if os.geteuid() != 0:
        raise Skip("needs root, to become someone else")
    need_program("setpriv")
    given = ",".join(["-all", *(f"+{c}" for c in caps)])
    with folder() as path:
        path.chmod(0o755)
        shutil.copy(SPANPROF, path / "spanprof")
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                               f"--inh-caps={given}", f"--ambient-caps={given}", f"--bounding-set={given}",
                               path / "spanprof", *map(str, args)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


@test
def not_root():
    with sleeper() as target:
        status, _, stderr = unprivileged("run", "-p", target.pid, "--endpoint", "request", "--for", "1s")
        check(status == 1, f"exit status {status}: {stderr}")
        check("CAP_" in stderr or "root" in stderr, f"what is missing: {stderr}")


CAPS = ["bpf", "perfmon", "sys_ptrace", "dac_read_search"]


@cases([None, *CAPS])
def missing_capability(missing):
    """Each of the four is needed, together they are enough, and the one that is missing is named."""
    need_bpf()
    with folder() as path:
        program = copied(path / "closed")
        program.chmod(0o700)
        with Target(program, "-w", "a=sleep:1") as target:
            status, _, stderr = unprivileged("run", "-p", target.pid, "--endpoint", "request", "--for", "200ms",
                                             caps=[c for c in CAPS if c != missing])
        if missing:
            one_line(status, stderr, 1, f"CAP_{missing}")
        else:
            check(status == 0, f"exit status {status}: {stderr}")


def copied(path):
    return shutil.copy(TARGETS / "phases-gcc-O2", path)


def mine(path, exe):
    path.chmod(0o755)
    (path / "mine").write_text(f"[mine]\nsummary = x\nexe = {exe}\nendpoint = request\n")
    return ("--preset-file", path / "mine", "--preset", "mine", "--for", "1s")


@test
def a_server_that_may_not_be_looked_at():
    """It is not called absent."""
    name = f"hidden-{os.getpid()}"
    with folder() as path, Target(copied(path / name), "-w", "a=sleep:1") as target:
        status, _, stderr = unprivileged("run", *mine(path, name))
        one_line(status, stderr, 1, f"process {target.pid} ", "may not be looked at", "run as root", "setcap")
        status, _, stderr = unprivileged("run", *mine(path, "no-such-server"))
        one_line(status, stderr, 1, "no-such-server", "may not", "run as root")
        status, _, stderr = spanprof("run", *mine(path, "no-such-server"))
        one_line(status, stderr, 1, "no process runs no-such-server here; start it")


@test
def program_of_32_bits():
    need_bpf()
    with folder() as path:
        program = path / "tiny32"
        program.write_bytes(tiny_elf32())
        program.chmod(0o755)
        try:
            process = subprocess.Popen([program])
        except OSError:
            raise Skip("this kernel runs no 32-bit programs") from None
        try:
            status, _, stderr = run(process.pid, "--endpoint", "request")
            one_line(status, stderr, 1, "32")
        finally:
            process.kill()
            process.wait()


def tiny_elf32():
    """A program for i386 that calls pause(2) for ever."""
    code = bytes.fromhex("b81d000000cd80ebf7")  # mov $29, %eax; int $0x80; jmp back
    base, head = 0x08048000, 52 + 32
    elf = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 3, 1, base + head, 52, 0, 0, 52, 32,
                      1, 0, 0, 0)
    load = struct.pack("<IIIIIIII", 1, 0, base, base, head + len(code), head + len(code), 5, 4096)
    return elf + load + code


@test
def scripts_and_texts_are_no_executables():
    """They are not waited for: no process will ever run them."""
    need_bpf()
    with folder() as path:
        (path / "script").write_text("#!/bin/sh\nsleep 1\n")
        (path / "text").write_text("hello\n")
        for name, word in ("script", "is a script"), ("text", "not an ELF file"):
            status, _, stderr = spanprof("run", "--exe", path / name, "-e", "request", "--for", "1s")
            one_line(status, stderr, 1, f"{name}'", word)


@test
def output_is_checked_before_attaching():
    need_bpf()
    with sleeper() as target:
        status, _, stderr = run(target.pid, "--endpoint", "request", "-o", "/nonexistent/out.json")
        one_line(status, stderr, 1, "/nonexistent/out.json")
        check("attached" not in stderr, stderr)


@test
def full_disk():
    """Met at the end, or while what is larger than a buffer is written."""
    need_bpf()
    with sleeper() as target:
        for kind in ("json", "html"):
            status, _, stderr = run(target.pid, "--endpoint", "request", "-o", "/dev/full", "--format", kind)
            one_line(status, stderr, 1, "/dev/full", "No space left")


def on_tiny_disk(path):
    """A file system of 64 KiB, or a skip."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path], capture_output=True,
                           check=False)
    if mount.returncode:
        raise Skip("cannot mount a tmpfs here")


def fill(file):
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as out:
        while True:
            out.write(bytes(4096))


@test
def disk_full_while_recording():
    need_bpf()
    with folder() as path:
        on_tiny_disk(path)
        try:
            output = path / "out.cap"
            with Target("phases-gcc-O2", "-w", "-n", "200", "a=deep:12") as target:
                with Spanprof("record", "-o", output, "-p", target.pid, "--endpoint", "request",
                              "--min-duration", "1ms", "--period", "1ms") as command:
                    command.wait_attached()
                    target.play()
                    status = command.finish()
                    check(status == 1, f"exit status {status}: {command.stderr}")
                    check(str(output) in command.stderr, command.stderr)
            check(not output.exists(), "no part of a capture is left as if it were whole")
            check(not list(path.iterdir()), f"left over: {list(path.iterdir())}")
        finally:
            subprocess.run(["umount", path], check=False)


@test
def one_full_disk_spares_the_other_outputs():
    need_bpf()
    with folder() as path, sleeper() as target:
        tiny = path / "tiny"
        tiny.mkdir()
        on_tiny_disk(tiny)
        try:
            fill(tiny / "full")
            status, stdout, stderr = run(target.pid, "--endpoint", "request", "-o", tiny / "out.json",
                                         "-o", path / "out.folded")
            one_line(status, stderr, 1, "out.json")
            check((path / "out.folded").exists() and "request" in stdout, f"{stdout}{stderr}")
        finally:
            subprocess.run(["umount", tiny], check=False)


@test
def a_command_that_goes_into_the_background():
    need_bpf()
    status, _, stderr = spanprof("run", "-e", "request", "--", TARGETS / "scenes", "leave")
    check(status == 0 and "ended while 1 of its child processes lives on" in stderr, stderr)


@test
def processes_that_are_not_of_the_command():
    """Of those of --exe one was there before: it is not the command's."""
    need_bpf()
    options = ("run", "--exe", TARGETS / "scenes", "-e", "request", "--")
    with Target("scenes", "idle"):
        status, _, stderr = spanprof(*options, "true")
        check(status == 0 and "lives on" not in stderr, stderr)
        status, _, stderr = spanprof(*options, TARGETS / "scenes", "leave")
        check(status == 0 and "ended while 1 of its child processes lives on" in stderr, stderr)


BAD_CAPTURES = {
    "empty": b"",
    "text": b"hello, world\n" * 100,
    "elf": b"\x7fELF" + bytes(4096),
    "zeros": bytes(65536),
}


@cases(list(BAD_CAPTURES))
def foreign_capture(name):
    with folder() as path:
        file = path / "foreign.cap"
        file.write_bytes(BAD_CAPTURES[name])
        status, stdout, stderr = spanprof("report", file)
        one_line(status, stderr, 1, "foreign.cap")
        check(not stdout, "nothing that looks like a report")


@test
def capture_that_is_cut_off():
    need_bpf()
    with folder() as path, sleeper() as target:
        file = path / "out.cap"
        status, _, stderr = spanprof("record", "-p", target.pid, "-e", "request", "--for", "200ms", "-o", file)
        check(status == 0, stderr)
        whole = file.read_bytes()
        for bytes_left in 12, len(whole) - 1:
            file.write_bytes(whole[:bytes_left])
            status, stdout, stderr = spanprof("report", file)
            one_line(status, stderr, 1, "out.cap")
            check(not stdout, "nothing that looks like a report")


@test
def capture_of_another_user():
    with folder() as path:
        file = path / "root.cap"
        file.touch(mode=0o600)
        path.chmod(0o755)
        status, _, stderr = unprivileged("report", file)
        one_line(status, stderr, 1, "root.cap", "chown")


@test
def preset_of_another_program():
    need_bpf()
    with sleeper() as target:
        status, _, stderr = run(target.pid, "--preset", "redis")
        one_line(status, stderr, 1, "no such function", f"preset 'redis' is for redis-server; process {target.pid} runs")


@test
def installed_tree():
    """Moved as a whole, it has its presets; the unit names the program, and the example rules are right."""
    need_program("meson")
    with folder() as path:
        done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", path], capture_output=True,
                              text=True, check=False)
        check(done.returncode == 0, done.stdout + done.stderr)
        program, = path.rglob("bin/spanprof")
        unit, = path.rglob("lib/systemd/system/spanprof-agent.service")
        check(f"ExecStart=/{program.relative_to(path)} agent -c /etc/spanprof/agent.yaml\n" in unit.read_text(),
              unit.read_text())
        check("@bindir@" not in unit.read_text() and "@system-service" in unit.read_text(), unit.read_text())
        presets = subprocess.run([program, "presets"], capture_output=True, text=True, check=False)
        check(presets.returncode == 0 and "postgres" in presets.stdout, presets.stderr)
        example, = path.rglob("share/doc/spanprof/examples/agent.yaml")
        rules = path / "agent.yaml"
        # The unit's StateDirectory= makes the folder of the store.
        rules.write_text(example.read_text().replace("/var/lib/spanprof", str(path)))
        agent = subprocess.run([program, "agent", "--check", "-c", rules], capture_output=True, text=True, check=False)
        check("error" not in agent.stderr, agent.stderr)


@test
def missing_capture():
    status, _, stderr = spanprof("report", "/nonexistent.cap")
    one_line(status, stderr, 1, "/nonexistent.cap")


@test
def nothing_stays_attached():
    need_bpf()
    before = bpf_programs()
    with sleeper() as target:
        for arguments in (["--endpoint", "request"], ["--endpoint", "no_such_function"],
                          ["--endpoint", "request", "-o", "/dev/full", "--format", "json"]):
            run(target.pid, *arguments)
    # The kernel frees programs a little later; another spanprof on this machine has its own.
    wait_until(lambda: not bpf_programs() - before or other_spanprof(), "the kernel's programs are as before")
    if bpf_programs() - before:
        raise Skip("another spanprof runs on this machine")


def other_spanprof():
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text() == "spanprof\n":
                return True
        except OSError:
            continue
    return False

main()
