#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is profiled: several processes, all of a file, a command that spanprof starts, other namespaces."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

from harness import (SPANPROF, TARGETS, Skip, Spanprof, Target, cases, check, folder, load, main, need_bpf, need_program,
                     profiling, read_truth, spanprof, test, wait_until)

OPTIONS = ("--endpoint", "request(str(arg0))", "--min-duration", "10ms", "--period", "5ms")
SCRIPT = ("-w", "-n", 2, "a=sleep:30")


@test
def several_processes():
    with folder() as path:
        with Target("phases-gcc-O2", *SCRIPT) as one, Target("phases-gcc-O0", *SCRIPT) as two:
            with profiling(path / "out.json", "-p", one.pid, "-p", two.pid, *OPTIONS):
                one.play()
                two.play()
        profile = load(path / "out.json")
        check(profile.calls() == 4, f"{profile.calls()} calls instead of 4")
        check({s.pid for s in profile.spans} == {one.pid, two.pid}, "spans of both processes")


@test
def processes_as_pidof_prints_them():
    with folder() as path:
        with Target("phases-gcc-O2", *SCRIPT) as one, Target("phases-gcc-O0", *SCRIPT) as two:
            with profiling(path / "out.json", "-p", f"{one.pid} {two.pid}\n", *OPTIONS):
                one.play()
                two.play()
        check({s.pid for s in load(path / "out.json").spans} == {one.pid, two.pid}, "spans of both processes")


@test
def only_the_chosen_process():
    with folder() as path:
        with Target("phases-gcc-O2", *SCRIPT) as one, Target("phases-gcc-O2", *SCRIPT) as two:
            with profiling(path / "out.json", "-p", one.pid, *OPTIONS):
                two.play()
                one.play()
        profile = load(path / "out.json")
        check(profile.calls() == 2, f"{profile.calls()} calls instead of 2")
        check({s.pid for s in profile.spans} == {one.pid}, "spans of one process")


@test
def all_processes_of_a_file():
    program = TARGETS / "phases-gcc-O2"
    with folder() as path:
        with Target("phases-gcc-O2", *SCRIPT) as early:
            with profiling(path / "out.json", "--exe", program, *OPTIONS):
                early.play()
                with Target("phases-gcc-O2", *SCRIPT) as late:
                    late.play()
        profile = load(path / "out.json")
        check(profile.calls() == 4, f"{profile.calls()} calls instead of 4")
        check({s.pid for s in profile.spans} == {early.pid, late.pid}, "spans of both processes")


@test
def all_processes_of_a_link():
    with folder() as path:
        link = path / "link"
        link.symlink_to(TARGETS / "phases-gcc-O2")
        with Target("phases-gcc-O2", *SCRIPT) as target:
            with profiling(path / "out.json", "--exe", link, *OPTIONS):
                target.play()
        check(load(path / "out.json").calls() == 2, "calls of the file that the link names")


@test
def file_that_is_overwritten_in_place():
    """As cp does: breakpoints for what was in it before would be put into what is in it then."""
    with folder() as path:
        program = path / "app"
        shutil.copy(TARGETS / "phases-gcc-O2", program)
        with profiling(path / "out.json", "--exe", program, *OPTIONS) as command:
            for build in ("gcc-O2", "clang-O0", "gcc-static-pie"):
                shutil.copyfile(TARGETS / f"phases-{build}", program)
                with Target(program, "-w", "-n", 100, "a=sleep:10") as target:
                    target.play()
                    check(target.end() == 0, f"{build} was disturbed")
            command.err.wait_for("app is written to while it is probed")
        check(load(path / "out.json").calls() > 100, "calls of at least two of the three builds")


@test
def command_from_its_first_call():
    with folder() as path:
        status, _, stderr = spanprof(
            "run", "-o", path / "out.json", "--format", "json", *OPTIONS, "--", TARGETS / "phases-gcc-O2",
            "-o", path / "truth", "-n", 3, "a=sleep:30")
        check(status == 0, f"exit status {status}: {stderr}")
        profile = load(path / "out.json")
        check(len(read_truth(path / "truth", "call")) == 3, "the command made its calls")
        check(profile.calls() == 3, f"{profile.calls()} calls instead of 3")


@cases([["--format", "json"], ["-o", "-", "--format", "folded"], ["-o", "/dev/stdout", "--format", "html"], [],
        ["-o", "out.json"]])
def standard_output_is_for_what_was_asked_for(form):
    """The command's own does not get into a profile there."""
    with folder() as path:
        form = [path / word if word == "out.json" else word for word in form]
        status, out, stderr = spanprof("run", *OPTIONS, *form, "--", "sh", "-c", 'echo said by sh; exec "$@"', "sh",
                                       TARGETS / "phases-gcc-O2", "a=sleep:30")
        check(status == 0, f"exit status {status}: {stderr}")
        apart = form and path / "out.json" not in form
        check("said by sh" in (stderr if apart else out) and "said by sh" not in (out if apart else stderr), stderr)
        check(not apart or "phase_sleep" in out, out[:200])
        check(form != ["--format", "json"] or json.loads(out)["spans"], out[:200])


@cases([(), ("exec",)])
def command_that_is_busy_before_its_entry_point(args):
    """What forks, traps or calls exec as its libraries are initialized is not disturbed by being held later."""
    with folder() as path:
        status, _, stderr = spanprof("run", "-o", path / "out.json", "--format", "json", "--endpoint", "request",
                                     "--", TARGETS / "early", *args)
        check(status == 0, f"exit status {status}: {stderr}")
        check(load(path / "out.json").calls() == 1, "it was held before its call")


@cases(["SIGINT", "--for", "killed"])
def command_that_hangs_before_its_entry_point(how):
    """It ends with the run, or before it."""
    with Spanprof("run", "--endpoint", "request", *(["--for", "1s"] if how == "--for" else []), "--",
                  TARGETS / "early", "hang") as command:
        wait_until(lambda: sleeping_child(command.process.pid, "early"), "the command hangs")
        pid = sleeping_child(command.process.pid, "early")
        if how == "killed":
            os.kill(pid, signal.SIGKILL)
        status = command.finish(signal.SIGINT if how == "SIGINT" else None)
        text = "ended before it was attached (status 137)" if how == "killed" else "had not reached its entry point"
        check(status == 1 and text in command.stderr, f"exit status {status}: {command.stderr}")
        check(not os.path.exists(f"/proc/{pid}"), "the command is gone")


def sleeping_child(parent, name):
    """Of this name; None: there is none."""
    for pid in children_of(parent):
        with contextlib.suppress(OSError):
            text = status_of(pid)
            if f"Name:\t{name}\n" in text and "State:\tS" in text:
                return pid
    return None


@test
def command_exit_status():
    """Of the command, whether the run or the command has ended first."""
    for code, command, options in ((7, "exit 7", ()), (0, "exit 0", ()), (128 + signal.SIGTERM, "kill $$", ()),
                                   (128 + signal.SIGKILL, "kill -9 $$", ()), (5, "sleep 1; exit 5", ("--for", "200ms"))):
        status, _, stderr = spanprof("run", "--endpoint", "libc.so.6:malloc", *options, "--", "/bin/sh", "-c", command)
        check(status == code, f"{command}: exit status {status} instead of {code}: {stderr}")
    with folder() as path:
        status, _, stderr = spanprof("run", "--endpoint", "request", "--", path / "missing")
        check(status == 1 and "missing" in stderr, f"exit status {status}: {stderr}")
        status, _, stderr = spanprof("record", "-o", path / "out.cap", "--endpoint", "libc.so.6:malloc", "--", "/bin/sh",
                                     "-c", "exit 6")
        check(status == 6 and (path / "out.cap").exists(), f"exit status {status}: {stderr}")


@test
def command_with_rights_of_its_own():
    """A set-user-ID program runs with its rights or, where the kernel would leave them out, not at all."""
    with folder_of_another() as path:
        (path / "touch").chmod(0o4755)
        for more in ("", "cap_sys_ptrace,"):
            subprocess.run(["setcap", f"{more}cap_bpf,cap_perfmon,cap_dac_read_search=ep", path / "spanprof"], check=True)
            done = touch_as_another(path)
            if more:
                check(done.returncode == 0 and (path / "made").stat().st_uid == 0, done.stderr)
            else:
                check(done.returncode == 1 and "CAP_SYS_PTRACE" in done.stderr, done.stderr)
                check(not (path / "made").exists(), "the command has not run")


@cases(["no_new_privs", "nothing more", "more"])
def command_whose_file_gives(what):
    """It is refused only where the tracing takes something from it."""
    names = "bpf", "perfmon", "dac_read_search"
    have = ",".join(f"+{n}" for n in names)
    options = ["--inh-caps", have, "--ambient-caps", have, *(["--no-new-privs"] if what == "no_new_privs" else [])]
    with folder_of_another() as path:
        if what == "no_new_privs":
            (path / "touch").chmod(0o4755)
        else:
            subprocess.run(["setcap", ("cap_bpf" if what == "nothing more" else "cap_bpf,cap_kill") + "=ep", path / "touch"],
                           check=True)
        done = touch_as_another(path, *options)
        check((path / "made").exists() == (what != "more") == (done.returncode == 0), done.stderr)


@contextlib.contextmanager
def folder_of_another():
    """One in which any user may make files, with spanprof and a program whose files may get rights."""
    need_program("setcap")
    with folder() as path:
        path.chmod(0o777)
        if os.statvfs(path).f_flag & os.ST_NOSUID:
            raise Skip("temporary files are on a file system without set-user-ID")
        for name, source in ("spanprof", SPANPROF), ("touch", shutil.which("touch")):
            shutil.copy(source, path / name)
            (path / name).chmod(0o755)
        yield path


def touch_as_another(path, *options):
    """`options`: of setpriv."""
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *options, path / "spanprof", "run",
                           "--endpoint", "libc.so.6:malloc", "--", path / "touch", path / "made"],
                          capture_output=True, text=True, timeout=60, check=False)


# Runs a program and traces all that it forks, as strace -f does; ends with its exit status.
TRACE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
first = os.fork()
if first == 0:
    libc.ptrace(0, 0, None, None)
    os.execv(sys.argv[1], sys.argv[1:])
os.waitpid(first, 0)
libc.ptrace(0x4200, first, None, 2 | 4 | 8)
libc.ptrace(7, first, None, None)
while True:
    pid, status = os.waitpid(-1, 0x40000000)
    if os.WIFSTOPPED(status):
        passed = 0 if status >> 16 or os.WSTOPSIG(status) in (5, 19) else os.WSTOPSIG(status)
        libc.ptrace(7, pid, None, passed)
    elif pid == first:
        sys.exit(os.waitstatus_to_exitcode(status))
"""


@test
def command_that_is_traced_by_another():
    done = subprocess.run(["/usr/bin/python3", "-c", TRACE, SPANPROF, "run", "--endpoint", "request", "--",
                           TARGETS / "phases-gcc-O2", "a=sleep:1"], capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 1 and "cannot hold" in done.stderr and "name it with -p" in done.stderr,
          f"exit status {done.returncode}: {done.stderr}")


@cases(["SIGTERM", "SIGHUP"])
def signals_are_passed_on_to_the_command(name):
    number = getattr(signal, name)
    with folder() as path:
        script = f"trap 'exit 9' {name[3:]}; echo >{path}/ready; while :; do sleep 0.05; done"
        with Spanprof("run", "--endpoint", "libc.so.6:malloc", "--", "/bin/sh", "-c", script) as command:
            command.wait_attached()
            wait_until((path / "ready").exists, "the command runs")
            status = command.finish(number)
            check(status == 9, f"exit status {status}: {command.stderr}")


@test
def command_that_is_a_script():
    """The program that it starts is profiled when it is named; when it is not, the message says so."""
    with folder() as path:
        program = TARGETS / "phases-gcc-O2"
        script = path / "start.sh"
        script.write_text(f"#!/bin/sh\necho go | {program} -n 100 a=sleep:30\nexit 5\n")
        script.chmod(0o755)
        status, _, stderr = spanprof("run", "-o", path / "out.json", "--format", "json", "--exe", program, *OPTIONS,
                                     "--", script)
        check(status == 5, f"exit status {status}: {stderr}")
        check(load(path / "out.json").calls() > 0, stderr)
        status, _, stderr = spanprof("run", "--endpoint", "request", "--", script)
        check(status == 1 and "--exe PROGRAM -- COMMAND" in stderr, f"exit status {status}: {stderr}")


@cases(["sh", "env", "nice", "file", "--exe"])
def command_that_executes_the_program(how):
    """From its first call, whether its file is named or not."""
    program = TARGETS / "phases-gcc-O2"
    words = [program, "-n", "3", "a=sleep:30"]
    shell = ["sh", "-c", 'exec "$0" "$@"', *words]
    command = {"env": ["env", "X=1", *words], "nice": ["nice", "-n", "1", "env", "X=1", *shell]}.get(how, shell)
    spec = f"{program}:request" if how == "file" else "request"
    with folder() as path:
        status, _, stderr = spanprof(
            "run", "-o", path / "out.json", "--format", "json", "--endpoint", spec, "--min-duration", "10ms",
            *(["--exe", program] if how == "--exe" else []), "--", *command)
        check(status == 0, f"exit status {status}: {stderr}")
        profile = load(path / "out.json")
        check(profile.calls() == 3 == len(profile.spans), f"{profile.calls()} calls instead of 3: {stderr}")
        check("exec_late" not in profile.losses, f"{profile.losses}")


@test
def what_wrappers_lack_is_told_once():
    status, _, stderr = spanprof("run", "-q", "--endpoint", "request", "--endpoint", "phase_sleep", "--", "env", "X=1", "nice",
                                 TARGETS / "phases-gcc-O2", "-n", "1", "a=sleep:1")
    check(status == 0 and stderr.count("no such function") == 1, stderr)
    # It is ended when the last one lacks them, too.
    status, _, stderr = spanprof("run", "--endpoint", "request", "--", "env", "X=1", "sleep", "60", seconds=20)
    check(status == 1 and "no such function in /usr/bin/sleep" in stderr and "still runs" not in stderr, stderr)


@test
def command_that_may_not_be_followed():
    """Without CAP_SYS_PTRACE: what it executes is profiled when it is named, and that is said when it is not."""
    program = TARGETS / "phases-gcc-O2"
    words = ["env", "X=1", program, "-n", "100", "a=sleep:10"]
    with folder() as path:
        for more in ["--exe", program], []:
            done = subprocess.run(["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", SPANPROF, "run",
                                   "-o", path / "out.json", *OPTIONS, *more, "--", *words],
                                  capture_output=True, text=True, timeout=60, check=False)
            if more:
                check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr}")
                check(load(path / "out.json").calls() > 0, done.stderr)
            else:
                check(done.returncode == 1 and "--exe PROGRAM -- COMMAND" in done.stderr, done.stderr)
                check("waiting for what it executes" not in done.stderr, done.stderr)


@cases(["found", "--exe"])
def command_that_executes_the_program_on_another_thread(how):
    """As wrappers in Go do; its first calls are missed, which is counted."""
    program = TARGETS / "phases-gcc-O2"
    script = ("import os, sys, threading, time\ntime.sleep(0.1)\n"
              "threading.Thread(target=os.execv, args=(sys.argv[1], sys.argv[1:])).start()\ntime.sleep(60)")
    with folder() as path:
        status, _, stderr = spanprof("run", "-o", path / "out.json", "--format", "json", "--endpoint", "request",
                                     *(["--exe", program] if how == "--exe" else []), "--",
                                     "/usr/bin/python3", "-c", script, program, "-n", "100", "a=sleep:10")
        check(status == 0, f"exit status {status}: {stderr}")
        check("another thread" in stderr, stderr)
        profile = load(path / "out.json")
        check(0 < profile.calls() <= 100 and profile.losses.get("exec_late") == 1, f"{profile.calls()} {profile.losses}")


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return file.read()


def is_stopped(pid):
    return "\nstate:\tt" in status_of(pid).lower()


@test
def command_that_is_stopped_and_continued():
    """By a signal, while it is followed; and by nothing else, however long the output takes at the end."""
    with folder() as path:
        script = path / "start.sh"
        script.write_text(f"#!/bin/sh\necho $$ >{path}/pid.new\nmv {path}/pid.new {path}/pid\n"
                          f"until [ -e {path}/go ]; do sleep 0.01; done\necho >{path}/gone\nexec sleep 0.1\n")
        script.chmod(0o755)
        with Spanprof("run", "--exe", TARGETS / "phases-gcc-O2", "--endpoint", "request", "--", script) as command:
            command.wait_attached()
            wait_until((path / "pid").exists, "the command runs")
            pid = int((path / "pid").read_text())
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: is_stopped(pid), "the command is stopped")
            time.sleep(0.2)
            check(is_stopped(pid), "it stays so")
            os.kill(pid, signal.SIGCONT)
            wait_until(lambda: not is_stopped(pid), "the command goes on")
            command.process.send_signal(signal.SIGINT)
            command.out.wait_for("request")
            wait_until(lambda: "TracerPid:\t0" in status_of(pid), "nothing follows it")
            (path / "go").touch()
            status = command.finish(None)
            check(status == 0 and (path / "gone").exists(), f"exit status {status}: {command.stderr}")


@test
def command_of_a_parent_that_ignores_its_children():
    """The end of its command is seen all the same; the command ignores its own as it would without."""
    command = ["grep", "SigIgn", "/proc/self/status"]
    done = subprocess.run([SPANPROF, "run", "--endpoint", "libc.so.6:malloc", "--", *command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False, encoding="utf-8",
                          preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr}")
    ignored = int(done.stdout.split("SigIgn:")[1].split()[0], 16)
    check(ignored >> signal.SIGCHLD - 1 & 1, f"SigIgn {ignored:x}")


@test
def command_that_executes_another_program_later():
    """What it runs then is profiled from where it is noticed, which is said and counted."""
    with folder() as path:
        script = f"exec {TARGETS / 'phases-gcc-O2'} -n 50 a=sleep:10"
        status, _, stderr = spanprof("run", "-o", path / "out.json", "--format", "json", "--min-duration", "1ms",
                                     "--endpoint", "libc.so.6:clock_nanosleep", "--", "sh", "-c", script)
        check(status == 0 and "the command has called exec: '" in stderr, f"exit status {status}: {stderr}")
        profile = load(path / "out.json")
        check(profile.calls() > 0 and profile.losses.get("exec_late") == 1, f"{profile.calls()} {profile.losses}")


@test
def command_that_loads_the_library_later():
    """Its calls are seen from some moment on."""
    script = ("import sqlite3, time\nfor i in range(200):\n"
              " sqlite3.connect(':memory:').execute('select 1').fetchall(); time.sleep(0.01)")
    with folder() as path:
        status, _, stderr = spanprof("run", "-o", path / "out.json", "--format", "json", "--preset", "sqlite",
                                     "--", "/usr/bin/python3", "-c", script)
        check(status == 0 and "it is probed when it is there" in stderr, f"exit status {status}: {stderr}")
        check(load(path / "out.json").calls() > 0, stderr)


@test
def an_interrupt_ends_the_run_alone():
    """Sent by a process, not by a terminal; the next one is for the command, which is waited for."""
    with folder() as path:
        script = f"trap 'exit 9' INT; echo >{path}/ready; while :; do sleep 0.05; done"
        with Spanprof("run", "--endpoint", "libc.so.6:malloc", "--", "/bin/sh", "-c", script) as command:
            command.wait_attached()
            wait_until((path / "ready").exists, "the command runs")
            command.process.send_signal(signal.SIGINT)
            command.err.wait_for("waiting for the command")
            check(command.process.poll() is None, "the command lives")
            status = command.finish(signal.SIGINT)
            check(status == 9, f"exit status {status}: {command.stderr}")


@test
def other_namespaces():
    need_program("unshare")
    with folder() as path:
        shutil.copy(TARGETS / "phases-gcc-O2", path / "hidden")
        inside = path / "root"
        inside.mkdir()
        script = (f"mount -t tmpfs tmpfs {inside} && cp {path}/hidden {inside}/server && "
                  f"exec {inside}/server -w -n 2 a=sleep:30")
        process = subprocess.Popen(["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            line = process.stdout.readline()
            if line != b"ready\n":
                raise Skip("cannot make namespaces here")
            pid = children_of(process.pid)[0]
            check(not (inside / "server").exists(), "the file is not visible from here")
            with profiling(path / "out.json", "-p", pid, *OPTIONS):
                process.stdin.write(b"go\n")
                process.stdin.flush()
                check(process.stdout.readline() == b"done\n", "the target is done")
            profile = load(path / "out.json")
            check(profile.calls() == 2, f"{profile.calls()} calls instead of 2")
            check(all("phase_sleep" in f for s in profile.spans for f in [s.functions]),
                  "symbols of a file that is visible in there only")
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


@test
def replaced_binary():
    with folder() as path:
        program = path / "server"
        shutil.copy(TARGETS / "phases-gcc-O2", program)
        with Target(program, *SCRIPT) as target:
            program.unlink()
            shutil.copy(TARGETS / "phases-clang-O0", program)
            with profiling(path / "out.json", "-p", target.pid, *OPTIONS):
                target.play()
        profile = load(path / "out.json")
        check(profile.calls() == 2, f"{profile.calls()} calls instead of 2")
        check("phase_sleep" in profile.spans[0].functions, "symbols of the file that runs")


@test
def process_that_exits_before_the_end():
    with folder() as path:
        with Target("phases-gcc-O2", *SCRIPT) as target:
            with profiling(path / "out.json", "-p", target.pid, *OPTIONS):
                target.play()
                target.end()
        profile = load(path / "out.json")
        check("phase_sleep" in profile.spans[0].functions, "an exited process symbolizes")


@test
def ends_when_the_last_process_ends():
    with Target("phases-gcc-O2", *SCRIPT) as target:
        with Spanprof("run", "-p", target.pid, *OPTIONS) as command:
            command.wait_attached()
            target.play()
            target.end()
            check(command.finish(None) == 0, command.stderr)
            check("request" in command.stdout, f"a report: {command.stdout}")


@test
def probe_that_is_never_hit_is_reported_early():
    with Target("phases-gcc-O2", *SCRIPT) as target:
        with Spanprof("run", "-p", target.pid, "--endpoint", "phase_pipe", "--for", "20s") as command:
            command.wait_attached()
            command.err.wait_for(r"warning: no call of 'phase_pipe' was seen", 12)
            command.finish(signal.SIGINT)


@test
def ends_after_the_given_time():
    with Target("phases-gcc-O2", *SCRIPT) as target:
        status, _, stderr = spanprof("run", "-p", target.pid, *OPTIONS, "--for", "500ms")
        check(status == 0, f"exit status {status}: {stderr}")
        check(os.path.exists(f"/proc/{target.pid}"), "the target lives on")


main(needs=[need_bpf])
