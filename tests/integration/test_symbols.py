#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Where names come from: separate debug files, a debuginfod server, the maps that JIT compilers write."""
import contextlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import threading

from harness import (TARGETS, Lines, Skip, Spanprof, Target, cases, check, folder, load, main, need_bpf, need_program,
                     profiling, spanprof, stop, test)

OPTIONS = ("--min-duration", "10ms", "--period", "5ms")
SCRIPT = ("-w", "-n", 1, "a=sleep:60,spin:60")


def tool(*words):
    need_program(words[0])
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True).stdout


def build_id(program):
    return re.search(r"Build ID: ([0-9a-f]+)", tool("readelf", "-n", program))[1]


def strip(path):
    """(program without symbols, its debug file) in the folder."""
    tool("objcopy", "--only-keep-debug", TARGETS / "phases-gcc-O2", path / "app.debug")
    tool("objcopy", "--strip-all", TARGETS / "phases-gcc-O2", path / "app")
    return path / "app", path / "app.debug"


def file_offset(program, function):
    """Of a function in the first segment of code of a position-independent program."""
    vaddr = int(re.search(rf"(?m)^([0-9a-f]+) [tT] {function}$", tool("nm", program))[1], 16)
    for off, addr, size in re.findall(r"LOAD\s+0x(\w+) 0x(\w+) \S+ 0x(\w+)", tool("readelf", "-lW", program)):
        if 0 <= vaddr - int(addr, 16) < int(size, 16):
            return vaddr - int(addr, 16) + int(off, 16)
    raise Skip(f"no segment of {program} has {function}")


# -- separate debug files -------------------------------------------------------------------------


@cases([("--all",), ("request",), ("--count", "100ms", "--all")])
def probes_of_a_program_without_symbols(words):
    """Another pattern would not help: what does is said."""
    with folder() as path:
        app, _ = strip(path)
        with Target(app, *SCRIPT) as target:
            status, _, err = spanprof("probes", "-p", target.pid, "--debug-dirs", path / "dirs", *words)
        check(status == 1 and f"(looked for in {path / 'dirs'})" in err and "FILE:0xOFFSET" in err, err)
        check("PATTERN" not in err and "give" in err and "--all" not in err, err)


@cases(["debug link", "build-id folder"])
def endpoint_that_only_a_debug_file_names(how):
    """Neither its symbol nor its parameter is in the program."""
    with folder() as path:
        app, debug = strip(path)
        with Target(app, *SCRIPT) as target:
            spec, dirs = "request(str(name))", path / "dirs"
            status, _, err = spanprof("run", "-p", target.pid, "-e", spec, "--debug-dirs", dirs, "--for", "1s")
            check(status == 1 and "'request'" in err and "no such function" in err, err)
        if how == "debug link":
            tool("objcopy", f"--add-gnu-debuglink={debug}", app)
        else:
            name = build_id(app)
            (dirs / ".build-id" / name[:2]).mkdir(parents=True)
            debug.rename(dirs / ".build-id" / name[:2] / f"{name[2:]}.debug")
        with Target(app, *SCRIPT) as target:
            with profiling(path / "out.json", "-p", target.pid, "-e", spec, "--debug-dirs", dirs, *OPTIONS):
                target.play()
        (span,) = load(path / "out.json").spans
        check(span.name == "a" and {"phase_sleep", "phase_spin"} <= span.functions, f"{span.name}: {span.functions}")
        lines = [f.get("line") for s in span.samples for f in s.frames if f["function"] == "phase_spin"]
        check(lines and all(lines), f"lines of phase_spin: {lines}")


# -- debuginfod -----------------------------------------------------------------------------------


@contextlib.contextmanager
def debuginfod(answer):
    """A server; its URL and the paths that it was asked for. answer(path): bytes, or None: not found."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = answer(self.path)
            with contextlib.suppress(OSError):  # nobody waits any more
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def with_server(path, url, *options):
    """A run on a program whose names only a server has: its profile."""
    app, _ = strip(path)
    spec = f"app:{hex(file_offset(TARGETS / 'phases-gcc-O2', 'request'))}"
    env = {"DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": str(path / "cache"), "DEBUGINFOD_TIMEOUT": "1000"}
    with Target(app, *SCRIPT) as target:
        with Spanprof("run", "-o", path / "out.json", "-p", target.pid, "-e", spec, "--debug-dirs", path, *OPTIONS,
                      *options, env=env) as command:
            command.wait_attached()
            target.play()
            check(command.finish() == 0, command.stderr)
            check("complete 100 %" in command.stdout, command.stdout)
    return load(path / "out.json")


@test
def debuginfod_is_asked_only_if_asked_for():
    with folder() as path:
        _, debug = strip(path)
        wanted = f"/buildid/{build_id(debug)}/debuginfo"
        data = debug.read_bytes()
        with debuginfod(lambda p: data if p == wanted else None) as (url, asked):
            (span,) = with_server(path, url).spans
            check(not asked and "phase_spin" not in span.functions, f"{asked}: {span.functions}")
            (span,) = with_server(path, url, "--debuginfod").spans
            if not asked and not pathlib.Path("/usr/lib/x86_64-linux-gnu/libdebuginfod.so.1").exists():
                raise Skip("libdebuginfod is not installed")
            check(wanted in asked and {"phase_spin", "phase_sleep"} <= span.functions, f"{asked}: {span.functions}")


@test
def debuginfod_that_hangs():
    """Its own time-out is far longer: the run goes on without it, and its result is whole."""
    go_on = threading.Event()
    with folder() as path:
        with debuginfod(lambda p: go_on.wait() and None) as (url, asked):
            try:
                (span,) = with_server(path, url, "--debuginfod").spans
            finally:
                go_on.set()
        if not asked and not pathlib.Path("/usr/lib/x86_64-linux-gnu/libdebuginfod.so.1").exists():
            raise Skip("libdebuginfod is not installed")
        check(len(asked) == 1, f"once there is no time left it is not asked again: {asked}")
        check(any("+0x" in f for f in span.functions), f"names without it: {span.functions}")


# -- JIT compilers --------------------------------------------------------------------------------


def check_jit(profile):
    """On a CPU in the code, and asleep below it: each stack leads through it to the endpoint, by frame pointers."""
    spans = profile.spans
    check(len(spans) == 2, f"{len(spans)} spans")
    marked = {profile.raw["frames"][i]["function"] for x in profile.raw["locations"] if x and x.get("by_frame_pointer")
              for i in x["frames"]}
    check(marked == {"js::leaf", "js::render"}, f"found by frame pointers: {marked}")
    for span in spans:
        inside = [s for s in span.samples if "js::leaf" in s.functions]
        for s in inside:
            at = s.functions.index("js::leaf")
            check(s.functions[at:] == ["js::leaf", "js::render", "request"] and s.stop == "complete",
                  f"{s.functions} {s.stop}")
        # On a busy machine it waits for its CPU in there.
        check(any(s.kind != "blocked" and s.functions[0] == "js::leaf" for s in inside), f"{span.functions}")
        below = [s for s in inside if s.kind == "blocked"]
        check(below and all("nap" in s.functions for s in below), "what it sleeps in is called by it")


@test
def names_of_jit_code():
    with folder() as path:
        with Target("jit") as target:
            try:
                with profiling(path / "out.json", "-p", target.pid, "-e", "request", *OPTIONS):
                    target.play()
            finally:
                os.unlink(f"/tmp/perf-{target.pid}.map")
        check_jit(load(path / "out.json"))


@test
def names_of_jit_code_in_a_container():
    """Its map is in its own file system, under the PID that it has in there."""
    need_program("unshare", "chroot")
    with folder() as path:
        shutil.copy(TARGETS / "jit", path / "hidden")
        inside = path / "root"
        inside.mkdir()
        script = (f"mount -t tmpfs tmpfs {inside} && mkdir -m 1777 {inside}/tmp && cp {path}/hidden {inside}/jit && "
                  f"exec chroot {inside} /jit")
        process = subprocess.Popen(["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            lines = Lines(process.stdout)
            if process.stdout.readline() != b"ready\n":
                raise Skip("cannot make namespaces here")
            pid = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
            check(not (inside / "jit").exists() and not os.path.exists(f"/tmp/perf-{pid}.map"), "it is not seen from here")
            with profiling(path / "out.json", "-p", pid, "-e", "request", *OPTIONS):
                process.stdin.write(b"go\n")
                process.stdin.flush()
                lines.wait_for("^done$")
        finally:
            process.kill()
            stop(process)
            process.stdin.close()
            process.stdout.close()
        check_jit(load(path / "out.json"))


main(needs=[need_bpf])
