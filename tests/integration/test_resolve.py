#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What an endpoint's text is taken for in a process, and what is refused with which words."""
import contextlib
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

from harness import (TARGETS, Failure, Lines, Skip, Spanprof, Target, cases, check, folder, load, main, need_bpf, need_program,
                     profiling, spanprof, stop, test, wait_until)
from servers import Server, free_port

GO = """package main
import ("bufio"; "fmt"; "os")
//go:noinline
func Handle(n int) int { return n + 1 }
func main() { fmt.Println("ready"); bufio.NewReader(os.Stdin).ReadString('\\n'); fmt.Println(Handle(1)) }
"""


def refused(target, spec, *words, options=(), but_not=()):
    status, _, err = spanprof("run", "-p", target.pid, "--endpoint", spec, "--for", "1s", *options)
    check(status in (1, 2), f"{spec}: exit status {status}")
    check(len(err.strip().splitlines()) <= 3, f"{spec}: {err}")
    for word in words:
        check(word in err, f"{spec}: no {word!r} in {err!r}")
    for word in but_not:
        check(word not in err, f"{spec}: {word!r} in {err!r}")


def offset_of(function):
    """File offset of a function in the scenes target, a position-independent program."""
    out = subprocess.run(["nm", TARGETS / "scenes"], capture_output=True, text=True, check=True).stdout
    vaddr = int(re.search(rf"^([0-9a-f]+) [tT] {function}$", out, re.M)[1], 16)
    out = subprocess.run(["readelf", "-lW", TARGETS / "scenes"], capture_output=True, text=True, check=True).stdout
    for off, addr, size in re.findall(r"LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) \S+ 0x([0-9a-f]+)", out):
        if int(addr, 16) <= vaddr < int(addr, 16) + int(size, 16):
            return vaddr - int(addr, 16) + int(off, 16)
    raise Skip("no segment has the function")


@test
def refusals():
    with Target("scenes", "returns") as target:
        refused(target, "requst", "no such function", "nearest names", "request")
        refused(target, "zzzzqqqqxxxx", "no such function", "no name is near")
        refused(target, "scenes:malloc", "not in 'scenes'", "libc.so")
        refused(target, "nosuch.so:f", "no file 'nosuch.so'")
        refused(target, "libc:memcpy", "indirect function")
        refused(target, "usdt:no:such;end=request", "no USDT probe no:such")
        refused(target, "request(str(arg0)", "expected ')'", "column 18")
        refused(target, "request(str(arg12))", "'arg12' is not known: arguments are arg0 to arg9")
        refused(target, "request(str(nosuch))", "no parameter or global variable 'nosuch'")
        refused(target, "request(name->x)", "->")
        refused(target, "scenes:0x10", "not in the code")
        refused(target, f"scenes:{hex(offset_of('request') + 1)}", "1 byte inside a function",
                hex(offset_of("request")))
        refused(target, "scene_*", "functions", "match")


@cases(["none", "exported only"])
def why_no_name_is_near(names):
    with folder() as path:
        (path / "main.c").write_text("#include <unistd.h>\nint exported_one(void) { return puts(\"ready\"), 1; }\n"
                                     "int main(void) { setvbuf(stdout, 0, _IONBF, 0); exported_one(); return pause(); }\n")
        options = ["-rdynamic"] if names == "exported only" else []
        built = subprocess.run(["cc", "-O1", "-include", "stdio.h", "-s", *options, "-o", path / "program", path / "main.c"],
                               check=False)
        if built.returncode:
            raise Skip("no C compiler")
        with subprocess.Popen([path / "program"], stdout=subprocess.PIPE) as process:
            try:
                Lines(process.stdout).wait_for("^ready$")
                why = "it has no symbols" if names == "none" else "exported functions only"
                refused(process, "program:zzzzqqqqxxxx", why)
                refused(process, "work", why, but_not=["nearest names"])
                refused(process, "strlenn", why, "nearest names: strlen")
            finally:
                stop(process)


@test
def what_a_file_lacks_is_said_once():
    """Not for each of its processes."""
    with Target("scenes", "returns") as a, Target("scenes", "returns") as b:
        status, _, err = spanprof("run", "-p", f"{a.pid},{b.pid}", "-e", "request", "-e", "nosuchfunction",
                                  "-e", "usdt:no:such", "--for", "100ms")
        check(status == 0 and err.count("nosuchfunction") == 1 and f"(process {a.pid})" in err, err)
        check(err.count("no USDT probe no:such") == 1, err)


@test
def by_offset():
    with folder() as path, Target("scenes", "returns", truth=path / "truth") as target:
        with profiling(path / "out.json", "-p", target.pid, "--endpoint", f"scenes:{hex(offset_of('request'))}",
                       "--min-duration", "10ms"):
            target.play()
        profile = load(path / "out.json")
        check(profile.calls() == 1 and profile.endpoints[0]["name"] == "request", f"{profile.endpoints}")


BARE = """
.globl _start
.text
_start: lea 8(%rsp), %rsi
1: movabs $0x9090909090909090, %rax
   mov $35, %eax
   lea pause(%rip), %rdi
   xor %esi, %esi
   syscall
   jmp 1b
.section .rodata
pause: .quad 0, 10000000
"""


@test
def an_offset_that_nothing_vouches_for():
    """A probe inside an instruction breaks the program: without symbols and unwind rules only with --force."""
    with folder() as path:
        (path / "bare.s").write_text(BARE)
        subprocess.run(["gcc", "-nostdlib", "-static", "-s", path / "bare.s", "-o", path / "bare"], check=True)
        with subprocess.Popen([path / "bare"]) as target:
            try:
                entry = re.search(r"Off.*?LOAD .*?LOAD\s+0x([0-9a-f]+)", subprocess.run(
                    ["readelf", "-lW", path / "bare"], capture_output=True, text=True, check=True).stdout, re.S)
                inside = int(entry[1], 16) + 7
                refused(target, f"bare:{hex(inside)}", "cannot be checked", "--force")
                status, _, err = spanprof("run", "-p", target.pid, "-e", f"bare:{hex(int(entry[1], 16))}",
                                          "--force", "--for", "200ms")
                check(status == 0, err)
                check(target.poll() is None, "the program lives on")
            finally:
                target.kill()


@test
def by_any_path_of_the_file():
    with folder() as path:
        os.symlink(TARGETS / "scenes", path / "another-name")
        with Target("scenes", "returns", truth=path / "truth") as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", f"{path}/another-name:request"):
                target.play()
            check(load(path / "out.json").calls() == 1, "the call is seen")


@test
def a_deleted_binary():
    with folder() as path:
        shutil.copy(TARGETS / "scenes", path / "scenes")
        with Target(path / "scenes", "returns", truth=path / "truth") as target:
            os.unlink(path / "scenes")
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", "request(str(arg0))",
                           "--min-duration", "10ms"):
                target.play()
        profile = load(path / "out.json")
        check([s.name for s in profile.spans] == ["returns"], f"{[s.name for s in profile.spans]}")


@test
def dear_places_are_told():
    """A function without a cheap instruction: run warns, probes says it."""
    with Target("dangers", "red_zone", 10) as target:
        with Spanprof("run", "-p", target.pid, "--endpoint", "red_zone") as command:
            command.wait_attached()
            command.finish()
        check("red_zone has no cheap place for a probe" in command.stderr, command.stderr)
        status, out, err = spanprof("probes", "-p", target.pid, "red_zone")
        check(status == 0 and re.search(r"^DEAR .* red_zone ", out, re.M), out + err)


@test
def functions_that_cannot_be_endpoints():
    """They are listed, with the reason in the place of the price."""
    with Target("dangers", "red_zone", 10) as target:
        for pattern, reason in (("*.cold", "cold part: it is jumped to, not called"), ("memcpy", "indirect function: ")):
            status, out, err = spanprof("probes", "-p", target.pid, pattern)
            check(status == 0 and re.search(rf"(?m)^no +- +- +\S+ \(\S+\): {reason}", out), out + err)
            check(not re.search(r"(?m)^(cheap|DEAR) .*\.cold ", out), out)


@test
def busy_functions_are_counted_for_a_moment_only():
    """Counting all calls of one that is called millions of times would be felt."""
    with Target("leaves-gcc-O2", "several", 10**15) as target:
        target.go()
        status, out, err = spanprof("probes", "-p", target.pid, "--count", "10s", "[s]everal", seconds=9)
    check(status == 0 and re.search(r"(?m)^ *[0-9.]+ .* several  \(too busy to watch longer\)$", out), out + err)


def holds_signals(pid):
    fds = f"/proc/{pid}/fd"
    return any(os.readlink(f"{fds}/{fd}") == "anon_inode:[signalfd]" for fd in os.listdir(fds))


TICKS = """#include <stdio.h>
#include <unistd.h>
__asm__(".type tick_bare, @function\\ntick_bare: push %rbx\\n pop %rbx\\n ret\\n");
void tick_bare(void);
__attribute__((noinline)) void tick_right(void)
{
	__asm__ volatile("1: movabs $0x1122334455667788, %%rax\\n"
			 ".type tick_wrong, @function\\n.set tick_wrong, 1b + 2\\n" ::: "rax");
}
int main(void)
{
	printf("%p\\n", (void *)tick_right);
	fflush(stdout);
	for (;; usleep(1000)) {
		tick_right();
		tick_bare();
	}
}
"""


@contextlib.contextmanager
def ticking():
    """A process, and a function that reads the code of one of its functions, which probes change."""
    with folder() as path:
        (path / "ticks.c").write_text(TICKS)
        if subprocess.run(["cc", "-O1", "-o", path / "ticks", path / "ticks.c"], check=False).returncode:
            raise Skip("no C compiler")
        with subprocess.Popen([path / "ticks"], stdout=subprocess.PIPE) as process:
            try:
                address = int(Lines(process.stdout).wait_for("^0x[0-9a-f]+$"), 16)
                with open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
                    yield process, lambda: os.pread(memory.fileno(), 16, address)
            finally:
                stop(process)


@test
def what_no_probe_can_be_put_on_is_left_out_of_count():
    """A symbol may lie; the others are counted all the same, one without a size, too."""
    with ticking() as (target, _):
        status, out, err = spanprof("probes", "-p", target.pid, "--count", "300ms", "tick_*")
        check(status == 0 and "tick_right" in out and "tick_bare" in out and "tick_wrong" not in out, out + err)
        check("1 more match and cannot be counted, for one: " in err and "middle of an instruction" in err, err)


@cases(["--count", "--check"])
def the_end_of_the_process_ends_the_watching(how):
    """What was seen until then is told."""
    words = ("--count", "300s", "tick_right") if how == "--count" else ("--for", "300s", "--check", "tick_right")
    with ticking() as (target, code):
        before = code()
        with Spanprof("probes", "-p", target.pid, *words) as command:
            wait_until(lambda: code() != before, "the probe is there")
            target.kill()
            status = command.finish(None)
        check(status == 0 and "the process has ended" in command.stderr, f"{status} {command.stderr}")


@cases([signal.SIGINT, signal.SIGTERM])
def a_signal_ends_the_watching(number):
    """What was seen until then is told."""
    with Target("leaves-gcc-O2", "several", 10**15) as target:
        target.go()
        for words in (("--count", "300s", "[s]everal"), ("--for", "300s", "--check", "several")):
            with Spanprof("probes", "-p", target.pid, *words) as command:
                wait_until(lambda: holds_signals(command.process.pid), "the signal is waited for")
                status = command.finish(number)
            check(status == 0 and "cut short by a signal" in command.stderr, f"{status} {command.stderr}")
            check(re.search(r"(?m)^ *calls/s .* function$|^calls .* calls in at most", command.stdout), command.stdout)


@test
def prices_are_those_of_run():
    """A long nop is cheap on kernels that emulate it: probes says so when run does."""
    with Target("dangers", "nop_first", 10) as target:
        with Spanprof("run", "-p", target.pid, "--endpoint", "nop_first") as command:
            command.wait_attached()
            command.finish()
        word = "DEAR" if "nop_first has no cheap place" in command.stderr else "cheap"
        _, listed, err = spanprof("probes", "-p", target.pid, "nop_first")
        check(re.search(rf"(?m)^{word} .* nop_first ", listed), f"run: {word}, probes: {listed} {err}")
        _, checked, err = spanprof("probes", "-p", target.pid, "--check", "nop_first", "--for", "100ms")
        check(re.search(rf"(?m)^site .*: {word}", checked), f"run: {word}, --check: {checked} {err}")
        check(("warning" in checked) == (word == "DEAR"), checked)


@test
def two_at_once():
    """Two spanprofs on one function do not disturb each other or the target."""
    with folder() as path, Target("dangers", "returns", 2000) as target:
        with profiling(path / "a.json", "-p", target.pid, "--endpoint", "request"):
            with profiling(path / "b.json", "-p", target.pid, "--endpoint", "request"):
                target.play()
        check(target.end() == 0, "the target's own checks")
        calls = [load(path / f"{x}.json").endpoints[0] for x in "ab"]
        check([c["calls"] for c in calls] == [2000, 2000], f"{[c['calls'] for c in calls]}")
        check(all(c["ended"] >= 1995 for c in calls), f"{[c['ended'] for c in calls]}")


@test
def beside_gdb():
    if not shutil.which("gdb"):
        raise Skip("gdb is not installed")
    with folder() as path, Target("dangers", "returns", 500) as target:
        with profiling(path / "out.json", "-p", target.pid, "--endpoint", "request"):
            gdb = subprocess.Popen(["gdb", "-q", "-batch", "-p", str(target.pid), "-ex", "continue"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            try:
                Lines(gdb.stdout).wait_for("0x|main|read")
                target.play()
            finally:
                stop(gdb)
        check(load(path / "out.json").calls() == 500, "calls under a debugger")


@test
def breakpoints_of_gdb_on_a_probed_function():
    """What is deleted while spanprof is there leaves the target as it was; spanprof warns of the rest."""
    if not shutil.which("gdb"):
        raise Skip("gdb is not installed")
    with Target("dangers", "returns", 50) as target:
        with Spanprof("run", "-p", target.pid, "--endpoint", "request", "--min-duration", "10s") as command:
            command.wait_attached()
            done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-p", str(target.pid), "-ex",
                                   "set breakpoint always-inserted on", "-ex", "break request", "-ex", "delete",
                                   "-ex", "detach"],
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
            check(done.returncode == 0, done.stderr)
            command.finish()
        target.play()
        check(target.end() == 0, "the target's own checks")
    with Target("dangers", "returns", 50) as target:
        with subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-p", str(target.pid), "-ex", "continue"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as gdb:
            try:
                Lines(gdb.stdout).wait_for("0x|main|read")
                with Spanprof("run", "-p", target.pid, "--endpoint", "request") as command:
                    command.wait_attached()
                    command.finish()
                check(command.stderr.count("is traced by process") == 2, command.stderr)
                status, out, _ = spanprof("doctor", "-p", target.pid)
                check("traced by process" in out, out)
            finally:
                stop(gdb)
        target.play()
        check(target.end() == 0, "the target's own checks")


def end_bpftrace(process, lines):
    """It prints what it has counted. A signal that comes while it does not wait for one is lost on it."""
    def is_printed():
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(Failure):
            return lines.wait_for(r"@out: \d+", 5)

    wait_until(is_printed, "the counts of bpftrace")


@test
def beside_bpftrace():
    """Another profiler, with a uretprobe on the same function."""
    if not shutil.which("bpftrace"):
        raise Skip("bpftrace is not installed")
    with folder() as path, Target("dangers", "returns", 1000) as target:
        program = (f'BEGIN {{ printf("ready\\n"); }} uprobe:{TARGETS}/dangers:request {{ @in = count(); }} '
                   f'uretprobe:{TARGETS}/dangers:request {{ @out = count(); }}')
        with subprocess.Popen(["bpftrace", "-e", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as other:
            try:
                lines = Lines(other.stdout)
                lines.wait_for("ready")
                with profiling(path / "out.json", "-p", target.pid, "--endpoint", "request"):
                    target.play()
                check(target.end() == 0, "the target's own checks")
                end_bpftrace(other, lines)
            finally:
                stop(other)
        endpoint = load(path / "out.json").endpoints[0]
        check(endpoint["calls"] == 1000 and endpoint["ended"] >= 995, f"{endpoint['ended']} ends")


@cases(["phase_spin", "phase_sleep", "recurse"])
def beneath_the_uretprobe_of_another(function):
    """It has replaced return addresses between the endpoint and where the thread is: stacks are whole."""
    if not shutil.which("bpftrace"):
        raise Skip("bpftrace is not installed")
    phase = {"phase_spin": "spin", "phase_sleep": "sleep", "recurse": "recursive"}[function]
    with folder() as path, Target("phases-gcc-O2", "-w", "-n", 2, f"a={phase}:60") as target:
        program = f'BEGIN {{ printf("ready\\n"); }} uretprobe:{TARGETS}/phases-gcc-O2:{function} {{ @out = count(); }}'
        with subprocess.Popen(["bpftrace", "-e", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as other:
            try:
                lines = Lines(other.stdout)
                lines.wait_for("ready")
                with profiling(path / "out.json", "-p", target.pid, "--endpoint", "request", "--min-duration", "5ms",
                               "--period", "2ms"):
                    target.play()
                end_bpftrace(other, lines)
            finally:
                stop(other)
        profile = load(path / "out.json")
    samples = [s for span in profile.spans for s in span.samples if function in s.functions]
    check(len(samples) >= 2, f"{len(samples)} samples in {function}")
    check(all(s.functions[-1] == "request" for s in samples), f"{[s.functions for s in samples][:3]}")
    # One that is met in the trampoline itself has no way on.
    early = [s.functions for span in profile.spans for s in span.samples if s.stop not in ("complete", "none")]
    check(len(early) <= 1, f"stacks that end early: {early}")


@test
def beside_perf():
    """Another profiler that samples the same threads."""
    if not shutil.which("perf"):
        raise Skip("perf is not installed")
    with folder() as path, Target("dangers", "returns", 3000) as target:
        with subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-p", str(target.pid), "-o",
                               path / "perf.data"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as other:
            try:
                wait_until(lambda: (path / "perf.data").exists(), "perf records")
                with profiling(path / "out.json", "-p", target.pid, "--endpoint", "request", "--min-duration", "1ns",
                               "--period", "1ms"):
                    target.play()
                check(target.end() == 0, "the target's own checks")
                status = other.wait(30)
                check(status == 0, f"perf: exit status {status}: {other.stderr.read()}")
            finally:
                stop(other)
        endpoint = load(path / "out.json").endpoints[0]
        check(endpoint["calls"] == 3000 and endpoint["ended"] >= 2995, f"{endpoint['ended']} ends")


@test
def uretprobes_for_comparison():
    with folder() as path, Target("phases-gcc-O2", "-w", "-n", 50, "a=sleep:1", truth=path / "truth") as target:
        with profiling(path / "out.json", "-p", target.pid, "--endpoint", "request", "--leave", "uretprobe",
                       "--force") as command:
            target.play()
        check(command.process.returncode == 0, "exit status")
        profile = load(path / "out.json")
        check(profile.endpoints[0]["ended"] == profile.calls() > 0, f"{profile.endpoints[0]['ended']}")


@cases(["", "-s -w"])
def go_is_refused(flags):
    """Also without symbols: it has its own tables."""
    if not shutil.which("go"):
        raise Skip("go is not installed")
    with folder() as path:
        (path / "x.go").write_text(GO)
        env = {**os.environ, "GOCACHE": str(path / "cache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off",
               "HOME": str(path), "CGO_ENABLED": "0"}
        subprocess.run(["go", "build", "-ldflags", flags, "-o", path / "x", path / "x.go"], env=env, check=True, timeout=240)
        with subprocess.Popen([path / "x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                Lines(process.stdout).wait_for("^ready$")
                process_target = type("T", (), {"pid": process.pid})
                if flags:
                    status, _, err = spanprof("run", "-p", process.pid, "--endpoint", "main.Handle", "--for", "1s")
                    check(status == 1 and process.poll() is None and "it is a Go program" in err, err)
                else:
                    refused(process_target, "main.Handle", "Go program")
                    _, out, err = spanprof("probes", "-p", process.pid, "main.Handle")
                    check(re.search(r"(?m)^no .* main\.Handle \(x\): Go: its stacks move", out), out + err)
                    check("measured here" not in err, err)
                status, out, _ = spanprof("doctor", "-p", process.pid)
                check(status == 1 and "Go: its functions cannot be endpoints" in out and "not with this process" in out, out)
            finally:
                stop(process)


class NodeExporter(Server):
    """Debian's: stripped, with a C library that it calls."""

    def prepare(self):
        need_program("prometheus-node-exporter")
        self.port = free_port()

    def command(self):
        return ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{self.port}", "--collector.disable-defaults"]

    def get(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
            return answer.status

    def answers(self):
        try:
            return self.get() == 200
        except OSError:
            return False


@test
def a_go_server_is_refused():
    """Each way to ask for its functions is answered with the reason, and it serves on."""
    with NodeExporter() as server:
        for spec in ("net/http.serverHandler.ServeHTTP", "'net/http.*'", "_cgo_topofstack"):
            for options in ([], ["--leave", "uretprobe", "--force"]):
                status, _, err = spanprof("run", "-p", server.pid, "--endpoint", spec, "--for", "1s", *options)
                check(status == 1 and "is a Go program" in err and "stacks move" in err, f"{spec}: {err}")
        for words in ([], ["--count", "1s"]):
            status, out, err = spanprof("probes", "-p", server.pid, *words)
            check(status == 1 and "those of a Go program cannot be endpoints" in err, out + err)
        status, out, _ = spanprof("doctor", "-p", server.pid)
        check(status == 1 and "Go: its functions cannot be endpoints" in out and "dbgsym" not in out, out)
        check("uretprobe" not in out, out)
        check(server.get() == 200, "it is as it was")


sys.dont_write_bytecode = True
main(needs=[need_bpf])
