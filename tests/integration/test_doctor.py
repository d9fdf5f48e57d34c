#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What doctor says of a machine on which something is missing, and of processes; and that it is true."""
import json
import os
import re
import shutil
import subprocess

from harness import SPANPROF, TARGETS, Lines, Skip, Target, cases, check, folder, main, need_bpf, need_program, spanprof, stop, test

# Forbids system calls to the program that it becomes: they fail with EPERM.
FORBID = """
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0)]
for number in sys.argv[1].split(","):
    code += [(0x15, 0, 1, int(number)), (0x06, 0, 0, 0x00050001)]
code.append((0x06, 0, 0, 0x7fff0000))
filter = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *c) for c in code))
program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(filter)))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit("no seccomp")
os.execv(sys.argv[2], sys.argv[2:])
"""
BPF, PERF_EVENT_OPEN = 321, 298


def without(*numbers):
    return ("/usr/bin/python3", "-c", FORBID, ",".join(map(str, numbers)))


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# How a situation is made; what doctor fails and warns of; a word of what run says, None: it works.
SITUATIONS = {
    "all is well": ((), set(), set(), None),
    "no capabilities": ((*NOBODY, "--bounding-set=-all", "--inh-caps=-all"), {"CAP_BPF", "CAP_PERFMON", "BPF programs"},
                        {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}, "CAP_BPF"),
    "no CAP_PERFMON": (("setpriv", "--bounding-set=-sys_admin,-perfmon", "--inh-caps=-all"), {"CAP_PERFMON", "BPF programs"},
                       set(), "CAP_PERFMON"),
    "no bpf(2)": (without(BPF), {"BPF programs"}, set(), "seccomp"),
    "no perf_event_open(2)": (without(PERF_EVENT_OPEN), {"CPU clock"}, set(), "CPU clock"),
    "own PID namespace": (("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"), {"PID namespace", "BPF programs"}, set(),
                          "PID namespace"),
    "few files": (("prlimit", "--nofile=512:512"), set(), {"open files"}, None),
}


def doctor(prefix, *options, program=SPANPROF):
    """(exit status, {level: {checks}}, findings, usable)"""
    done = subprocess.run([*prefix, program, "doctor", "--json", *map(str, options)], capture_output=True, text=True,
                          timeout=60, check=False)
    if "no seccomp" in done.stderr or done.stderr.startswith(("setpriv", "unshare", "prlimit")):
        raise Skip(done.stderr.strip())
    found = json.loads(done.stdout)
    levels = {level: {f["check"] for f in found["findings"] if f["level"] == level} for level in ("failure", "warning")}
    return done.returncode, levels, found["findings"], found["usable"]


@cases(list(SITUATIONS))
def situation(name):
    """Whatever doctor says can be used is used by run, and the other way round."""
    prefix, failures, warnings, refused = SITUATIONS[name]
    with folder() as path:
        # The build may be in a home folder, closed to others.
        path.chmod(0o755)
        program = shutil.copy(SPANPROF, path)
        status, levels, findings, usable = doctor(prefix, program=program)
        by_perf = os.environ.get("SPANPROF_UPROBES") == "perf"
        check(failures <= levels["failure"] and (by_perf or levels["failure"] <= failures | {"probe cost", "uprobes"}),
              f"failures {levels['failure']}")
        check(levels["warning"] == warnings, f"warnings {levels['warning']}")
        check(usable == (not failures) and status == (1 if failures else 0), f"exit status {status}, usable {usable}")
        check(all(f["fix"] for f in findings if f["level"] in ("failure", "warning") and f["check"] != "BPF programs"),
              f"each of them says what to do: {findings}")
        run_agrees(prefix, refused, program)


def run_agrees(prefix, refused, program):
    with Target("phases-gcc-O2", "-w", "-n", 3, "a=sleep:20") as target:
        # In a namespace of its own there are other processes.
        who = "$$" if "unshare" in prefix else str(target.pid)
        done = subprocess.run([*prefix, "/bin/sh", "-c", f'exec "$0" run -p {who} --endpoint libc.so.6:write --for 300ms',
                               program], capture_output=True, text=True, timeout=60, check=False)
        if refused is None:
            check(done.returncode == 0, done.stderr)
        else:
            check(done.returncode == 1 and refused in done.stderr, f"run says: {done.stderr}")
        target.play()
        check(target.end() == 0, "the target is as it was")


@test
def a_process_has_its_own_name():
    """Not another one of its file, as redis-server that is a link to redis-check-rdb."""
    with folder() as path:
        shutil.copy(TARGETS / "scenes", path / "file")
        (path / "link").symlink_to("file")
        for name, want in (("link", f"{path}/link, a link to file"), ("file", f"{path}/file")):
            with Target(path / name, "returns", truth=path / "truth") as target:
                _, out, err = spanprof("doctor", "-p", target.pid)
                check(re.search(rf"(?m)^ *ok +program +{target.pid}: {re.escape(want)}$", out), out + err)


@test
def hidden_kernel_symbols():
    """Without CAP_SYSLOG kernel frames have no names: doctor says it with its remedy, and run in one line."""
    with open("/proc/sys/kernel/kptr_restrict", encoding="ascii") as file:
        if int(file.read()) > 1:
            raise Skip("kernel.kptr_restrict hides the addresses from root as well")
    for drop, level in ("", "ok"), ("-syslog", "note"):
        prefix = ("setpriv", f"--bounding-set={drop}", "--inh-caps=-all") if drop else ()
        _, _, findings, usable = doctor(prefix)
        (it,) = [f for f in findings if f["check"] == "kernel symbols"]
        check(usable and it["level"] == level and bool(it["fix"]) == bool(drop), f"{it}")
        check(not drop or "CAP_SYSLOG" in it["fix"] and "kptr_restrict" in it["fix"], f"{it}")
        for words in ([], ["--no-kernel"]):
            with Target("phases-gcc-O2", "-w", "-n", 3, "a=sleep:20") as target:
                done = subprocess.run([*prefix, SPANPROF, "run", "-p", str(target.pid), "--endpoint", "request", "--for",
                                       "300ms", *words], capture_output=True, text=True, timeout=60, check=False)
                check(done.returncode == 0, done.stderr)
                check(("CAP_SYSLOG" in done.stderr) == bool(drop and not words), f"{words}: {done.stderr}")


@test
def limits_are_told():
    _, _, findings, _ = doctor(())
    told = {f["check"]: f["text"] for f in findings}
    for name in ("kernel", "kernel types (BTF)", "perf_event_paranoid", "memlock", "lockdown", "open files", "PID namespace",
                 "seccomp", "uprobes", "BPF programs", "probe cost", "CPU clock"):
        check(told.get(name), f"nothing of {name}: {sorted(told)}")
    check(re.search(r"\d+ ns on a cheap instruction, \d+ ns single-stepped", told["probe cost"]), told["probe cost"])


PAUSE = "#include <stdio.h>\n#include <unistd.h>\nint serve(int n) { return n + 1; }\n" \
        "int main(void) { puts(\"ready\"); fflush(stdout); return serve(pause()); }\n"


def started(program):
    """A process that has said that it is ready."""
    process = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    Lines(process.stdout).wait_for("^ready$")
    return process


@cases(["without unwind data", "stripped", "with symbols"])
def coverage_of_a_program(how):
    flags = {"without unwind data": ["-fno-asynchronous-unwind-tables", "-fno-exceptions", "-static", "-nostdlib"],
             "stripped": ["-s"], "with symbols": ["-g"]}[how]
    source = PAUSE
    if how == "without unwind data":
        source = "void _start(void) { __asm__ volatile(\"1: mov $34, %eax; syscall; jmp 1b\"); }\n"
    with folder() as path:
        (path / "x.c").write_text(source)
        subprocess.run(["gcc", "-O1", *flags, "-o", path / "program", path / "x.c"], check=True)
        if how == "without unwind data":
            process = subprocess.Popen([path / "program"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        else:
            process = started([path / "program"])
        try:
            status, _, findings, _ = doctor((), "-p", process.pid)
            check(status == 0, f"exit status {status}")
            (it,) = [f for f in findings if f["check"] == "program" and f["group"] != "process"]
            want = {"without unwind data": ("warning", "unwind data NO"),
                    "stripped": ("note", "functions, none; lines no; debug file none, looked in /usr/lib/debug"),
                    "with symbols": ("ok", "functions, full; lines yes")}[how]
            check(it["level"] == want[0] and it["text"].endswith(want[1]) or want[1] in it["text"], f"{it}")
            share = re.match(r"unwind data ([0-9.]+) % of \d+ KB", it["text"])
            check(how == "without unwind data" or 0 < float(share[1]) <= 100, f"{it}")
            check(it["fix"] if want[0] != "ok" else not it["fix"], f"{it}")
        finally:
            stop(process)


GAPS = """
#define BARE(name) __asm__(".text\\n.globl " #name "\\n.type " #name ", @function\\n" #name ": .fill 3000, 1, 0x90\\n" \\
                           "ret\\n.size " #name ", . - " #name "\\n");
BARE(first_bare) BARE(second_bare) BARE(third_bare) BARE(fourth_bare) BARE(fifth_bare)
"""


@test
def functions_without_unwind_data_are_named():
    """Their share, the first few names, and the debug file by its path."""
    need_program("objcopy")
    with folder() as path:
        (path / "x.c").write_text(GAPS + PAUSE)
        subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", "-o", path / "program", path / "x.c"], check=True)
        debug = path / ".debug"
        debug.mkdir()
        subprocess.run(["objcopy", "--only-keep-debug", path / "program", debug / "program.debug"], check=True)
        subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug / 'program.debug'}", path / "program"],
                       check=True)
        process = started([path / "program"])
        try:
            _, _, findings, _ = doctor((), "-p", process.pid)
        finally:
            stop(process)
    (it,) = [f for f in findings if f["check"] == "program" and f["group"] != "process"]
    found = re.match(r"unwind data ([0-9.]+) % of 1[56] KB \(not (\w+), (\w+), (\w+) and 2 more\); (\d+) functions, full, "
                     r"from its debug file; lines yes; debug file (\S+)$", it["text"])
    check(found and 0 < float(found[1]) < 5, it["text"])
    check(found[2] == "first_bare" and found[4] == "third_bare", it["text"])
    check(found[6] == f"{debug}/program.debug", it["text"])


@test
def runtimes_are_seen():
    with subprocess.Popen(["/usr/bin/python3", "-c", "input(print('ready', flush=True))"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        try:
            Lines(process.stdout).wait_for("^ready$")
            _, _, findings, _ = doctor((), "-p", process.pid)
            check(any(f["check"] == "runtime" and "CPython" in f["text"] for f in findings), f"{findings}")
        finally:
            stop(process)


@test
def a_process_that_is_gone():
    process = subprocess.Popen(["true"])
    process.wait()
    status, levels, _, usable = doctor((), "-p", process.pid)
    check(status == 1 and not usable and "process" in levels["failure"], f"{levels}")


# handle_request() ends in a jump to another function; get_request() calls nothing; the third is the library's.
REQUESTS = """
#include <unistd.h>
__attribute__((noinline)) int work(const char *name) { __asm__ volatile("" ::"r"(name)); usleep(1000); return 7; }
__attribute__((noinline)) int handle_request(const char *name) { __asm__ volatile(""); return work(name + 1); }
__attribute__((noinline)) int get_request(const char *name) { __asm__ volatile("" ::"r"(name)); return 3; }
__attribute__((noinline)) int take(const char *) __asm__("_ZN4core7request4execEv");
int take(const char *name) { __asm__ volatile(""); return 1 + work(name); }
int main(void)
{
	for (;;)
		handle_request((const char *)16), get_request(""), take("x");
}
"""


@test
def functions_that_serve_requests():
    """One that ends in a jump is among them; those of the standard library come last."""
    with folder() as path:
        (path / "x.c").write_text(REQUESTS)
        subprocess.run(["gcc", "-O2", "-fcf-protection=none", "-o", path / "x", path / "x.c"], check=True)
        process = subprocess.Popen([path / "x"])
        try:
            status, out, err = spanprof("probes", "-p", process.pid)
            found = [text.split()[3] for text in out.splitlines()[1:]]
            check(status == 0 and found == ["handle_request", "core::request::exec"], f"{out} {err}")
            # Where nothing can be read, the function's name is no name of a call.
            status, out, err = spanprof("probes", "-p", process.pid, "--for", "1s", "--check", "handle_request(str(arg0))")
            check(status == 0 and re.search(r"of (\d+) of \1 calls no name could be read", out), f"{out} {err}")
        finally:
            stop(process)


@test
def hostile_names():
    """A function and a program whose names would change a terminal: no output of any command has them as they are."""
    need_program("objcopy")
    evil = b"serve\x1b[31m\xc2\x9b2J\xff"
    with folder() as path:
        (path / "x.c").write_text(PAUSE)
        subprocess.run(["gcc", "-O1", "-c", "-o", path / "x.o", path / "x.c"], check=True)
        subprocess.run([b"objcopy", b"--redefine-sym", b"serve=" + evil, os.fsencode(path / "x.o")], check=True)
        subprocess.run(["gcc", "-o", path / "program", path / "x.o"], check=True)
        program = os.fsencode(path) + b"/prog\x1b[32m\xff"
        shutil.move(path / "program", os.fsdecode(program))
        process = started([program])
        try:
            spec = os.fsdecode(b"'serve*'")
            for words in (["probes", "-p", process.pid, "serve*"], ["probes", "-p", process.pid, "--count", "200ms", "serve*"],
                          ["probes", "-p", process.pid, "--for", "200ms", "--check", spec],
                          ["probes", "-p", process.pid, "--for", "200ms", "--check", "nosuch_serve"],
                          ["doctor", "-p", process.pid], ["doctor", "-p", process.pid, "--json"],
                          ["run", "-p", process.pid, "--endpoint", spec, "--for", "200ms"],
                          ["run", "-p", process.pid, "--endpoint", "servf", "--for", "200ms"]):
                done = subprocess.run([SPANPROF, *map(str, words)], capture_output=True, timeout=60, check=False)
                for data in done.stdout, done.stderr:
                    text = data.decode("utf-8")  # or it is none
                    check(not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), f"{words}: {text!r}")
                if "--json" in words:
                    check(any("prog?[32m?" in f["check"] for f in json.loads(done.stdout)["findings"]), "its file is told of")
                elif "serve*" in words and "--count" not in words:
                    check(b"serve?[31m" in done.stdout, f"{words}: {done.stdout!r} {done.stderr!r}")
        finally:
            stop(process)


main(needs=[need_bpf])
