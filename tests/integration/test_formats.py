#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is written, as programs that are not spanprof's own read it; and what is recorded, reported: the same."""
import collections
import functools
import gzip
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import (TARGETS, Skip, Spanprof, Target, check, folder, load, main, near, need_bpf, need_program,
                     profiling, spanprof, test)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MS = 1_000_000
PROGRAM = "phases-gcc-O2"
SCRIPT = ("-w", "-n", 2, "GET /a b;c=sleep:40,spin:60,mutex:30")
OPTIONS = ("--endpoint", "request(str(arg0))", "--min-duration", "10ms", "--period", "5ms")
FILES = ("out.json", "out.pb.gz", "out.folded", "out.html", "out.txt", "out.otlp")
RUNS = []  # folders of written(), removed at the end


@functools.lru_cache(1)
def written():
    """One run with a file of each format."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-"))
    RUNS.append(path)
    outputs = [o for name in FILES for o in ("-o", path / name)]
    with Target(PROGRAM, *SCRIPT) as target:
        with Spanprof("run", "-p", target.pid, *OPTIONS, *outputs) as command:
            command.wait_attached()
            target.play()
            status = command.finish()
            check(status == 0, f"exit status {status}: {command.stderr}")
    return path


def pprof(file):
    """Decoded by protobuf's own Python library; Go's reader, below, has field numbers of its own."""
    need_program("protoc")
    with folder() as path:
        subprocess.run(["protoc", "-I", SOURCE / "proto", "--python_out", path, "pprof.proto"], check=True)
        spec = importlib.util.spec_from_file_location("pprof_pb2", path / "pprof_pb2.py")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except ImportError:
            raise Skip("python3-protobuf is not installed") from None
    profile = module.Profile()
    profile.ParseFromString(gzip.decompress(pathlib.Path(file).read_bytes()))
    return profile


def labels(profile, sample):
    text = profile.string_table
    return {text[x.key_str]: text[x.str_str] if x.str_str else x.num for x in sample.label}


def pprof_stacks(profile):
    """(functions, leaf first, with inlined ones) -> wall time."""
    text = profile.string_table
    names = {f.id: text[f.name_str] for f in profile.function}
    lines = {x.id: [names[n.function_id] for n in x.line] for x in profile.location}
    sums = collections.Counter()
    for s in profile.sample:
        sums[tuple(f for x in s.location_id for f in lines[x])] += s.value[1]
    return sums


def json_stacks(profile):
    sums = collections.Counter()
    for span in profile.spans:
        for s in span.samples:
            sums[tuple(s.functions)] += s.wall
    return sums


def build_id(file):
    out = subprocess.run(["readelf", "-n", file], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", out)[1]


@test
def json_follows_its_schema():
    try:
        import jsonschema  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Skip("python3-jsonschema is not installed") from None
    schema = json.loads((SOURCE / "docs/json.schema.json").read_text())
    document = json.loads((written() / "out.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    document["endpoints"][1]["calls"] = "many"
    check(not jsonschema.Draft202012Validator(schema).is_valid(document), "the schema says what a number is")


@test
def pprof_has_values_and_labels():
    profile, want = pprof(written() / "out.pb.gz"), load(written() / "out.json")
    text = profile.string_table
    kinds = [(text[t.type_str], text[t.unit_str]) for t in profile.sample_type]
    check(kinds == [("samples", "count"), ("wall", "nanoseconds")], f"values {kinds}")
    check(text[profile.default_sample_type_str] == "wall", "wall is what is shown")
    check(sum(s.value[1] for s in profile.sample) == sum(s.duration for s in want.spans), "all of the wall time")
    check(sum(s.value[0] for s in profile.sample) == want.raw["completeness"]["snapshots_kept"] > 0, "all snapshots")
    check(pprof_stacks(profile) == json_stacks(want), "the stacks are those of the JSON document")
    by_span = collections.Counter()
    for s in profile.sample:
        have = labels(profile, s)
        check(set(have) == {"endpoint", "span", "thread", "process", "state"}, f"labels {have}")
        check(have["endpoint"] == "GET /a b;c", f"{have}")
        by_span[int(have["span"]), int(have["thread"]), int(have["process"])] += s.value[1]
    check(by_span == {(int(s.raw["id"]), s.tid, s.pid): s.duration for s in want.spans}, f"{by_span}")


@test
def pprof_has_mappings_lines_and_inlined_frames():
    profile = pprof(written() / "out.pb.gz")
    text = profile.string_table
    mappings = {m.id: m for m in profile.mapping}
    (own,) = [m for m in profile.mapping if text[m.filename_str].endswith("/" + PROGRAM)]
    check(text[own.build_id_str] == build_id(TARGETS / PROGRAM), "the build ID is the file's")
    libc = [m for m in profile.mapping if "/libc.so" in text[m.filename_str]]
    check(libc and text[libc[0].build_id_str] == build_id(text[libc[0].filename_str]), "and that of libc")
    functions = {f.id: f for f in profile.function}
    for location in profile.location:
        m = mappings.get(location.mapping_id)
        if m and m.memory_limit:
            check(m.memory_start <= location.address < m.memory_limit, f"{location.address:#x} is in its mapping")
    lines = {text[functions[n.function_id].name_str]: (text[functions[n.function_id].filename_str], n.line)
             for x in profile.location for n in x.line if x.mapping_id == own.id}
    for name in ("phase_spin", "phase_sleep", "request"):
        file, line = lines[name]
        source = (SOURCE / "tests/integration/targets" / pathlib.Path(file).name).read_text().splitlines()
        start = next(i for i, t in enumerate(source, 1) if re.match(rf"(FRAME )?int {name}\(", t))
        check(start < line < start + 40, f"{name} is at {file}:{line}, not near line {start}")
    check(any(len(x.line) > 1 for x in profile.location if x.mapping_id == own.id), "a call is inlined")


@test
def pprof_in_gos_own_reader():
    need_program("go")
    with folder() as path:
        done = subprocess.run(["go", "tool", "pprof", "-top", "-unit=ns", "-nodefraction=0", written() / "out.pb.gz"],
                              capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(path)})
    check(done.returncode == 0, done.stderr)
    total = sum(s.duration for s in load(written() / "out.json").spans)
    check(f"Showing nodes accounting for {total}ns, 100% of {total}ns total" in done.stdout, done.stdout)
    sums = {t.split()[-1]: int(t.split()[3].removesuffix("ns")) for t in done.stdout.splitlines()
            if re.match(r" +\d+(ns)? +[\d.]+%", t)}
    check(sums["request"] == total, f"the endpoint has all of it: {done.stdout}")
    check(55 * MS < sums["phase_sleep"] < total, f"{sums}")


@test
def folded_as_flame_graph_tools_take_it():
    """Lines of frames, root first, and a count, as flamegraph.pl splits them: /^(.*)\\s+(\\d+(?:\\.\\d*)?)$/."""
    sums = collections.Counter()
    n_short = 0
    for line in (written() / "out.folded").read_text().splitlines():
        if line.startswith("#"):
            check(not re.search(r"\s\d+(\.\d*)?$", line), f"a comment is no stack: {line}")
            continue
        match = re.match(r"^(.*)\s+(\d+)$", line)
        frames = match[1].split(";")
        check(frames[0] == "GET /a b:c" and frames[1] == "request", f"root first: {line}")
        check(all(f and f == f.strip() for f in frames), f"frames with names: {line}")
        n_short += match[2] == "1"
        sums[tuple(re.sub(r"_\[[ki]\]$", "", f) for f in frames[1:] if f not in STATES)] += int(match[2])
    want = collections.Counter()
    for functions, wall in json_stacks(load(written() / "out.json")).items():
        want[tuple(f.replace(";", ":") for f in reversed(functions))] += wall
    check(set(sums) <= set(want), f"stacks that are not in the JSON document: {set(sums) - set(want)}")
    for stack, wall in want.items():
        near(sums[stack], wall / 1000, len(want) + 1, f"us of {stack}")
    # What is rounded goes on to the next line, but nothing is less than 1: the last lines may be too much for it.
    near(sum(sums.values()), sum(want.values()) / 1000, 1 + n_short, "us of all")


STATES = {"[run queue]", "[blocked]", *(f"[blocked: {c}]" for c in ("lock", "condition", "sleep", "poll", "net", "io", "disk",
                                                        "fault", "child", "other"))}


def page(file):
    """The document in an HTML page."""
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', file.read_text(), re.S)
    check(found, "the page holds its data")
    return json.loads(found[1])


@test
def html_holds_the_same_document():
    check(page(written() / "out.html") == json.loads((written() / "out.json").read_text()), "the data of the page")


@test
def recorded_and_reported_is_the_same():
    """Two at once, of one program: what one prints itself, the other's capture gives in every format."""
    outputs = [o for name in FILES[1:] for o in ("-o", name)]
    with folder() as path:
        here = [path / o if o != "-o" else o for o in outputs]
        with Target(PROGRAM, *SCRIPT) as target, Spanprof(
                "record", "-o", path / "run.cap", "-p", target.pid, *OPTIONS) as recorder:
            recorder.wait_attached()
            with profiling(path / "out.json", "-p", target.pid, *OPTIONS):
                target.play()
            check(recorder.finish() == 0, recorder.stderr)
        (path / "reported").mkdir()
        status, _, stderr = spanprof("report", path / "run.cap", "-o", path / "reported/out.json",
                                     *[str(o).replace(str(path), f"{path}/reported") for o in here])
        check(status == 0, stderr)
        run, report = load(path / "out.json"), load(path / "reported/out.json")
        same_calls(run, report)
        check(pprof_stacks(pprof(path / "reported/out.pb.gz")) == json_stacks(report), "pprof of the same stacks")
        check(page(path / "reported/out.html") == report.raw, "html of the same document")
        text = (path / "reported/out.txt").read_text()
        check("GET /a b;c" in text and "complete 100 %" in text, text)
        folded = [t for t in (path / "reported/out.folded").read_text().splitlines() if not t.startswith("#")]
        near(sum(int(t.split()[-1]) for t in folded), sum(s.duration for s in report.spans) / 1000,
             len(folded), "folded us")  # a line of less than 1 us says 1
        check((path / "reported/out.otlp").stat().st_size > 500, "an OTLP file")


def waits(span):
    """(functions, files, lines) of what it waited for -> time; ticks fall where they will."""
    sums = collections.Counter()
    for s in span.samples:
        if s.kind == "blocked" and s.wall > 10 * MS:
            sums[tuple((f["function"], f["file"], f["line"]) for f in s.frames)] += s.wall
    return sums


def same_waits(a, b):
    mine, other = waits(a), waits(b)
    return len(mine) == 2 and set(mine) == set(other) and all(abs(other[s] - w) < 2 * MS for s, w in mine.items())


def same_calls(run, report):
    check(report.calls() == run.calls() == 2, f"{report.calls()} and {run.calls()} calls")
    check({m["path"]: m["build_id"] for m in run.raw["modules"] if m} ==
          {m["path"]: m["build_id"] for m in report.raw["modules"] if m}, "the same files")
    pairs = list(zip(run.spans, report.spans, strict=True))
    for a, b in pairs:
        check((a.name, a.tid, a.reason, a.raw["thread"]) == (b.name, b.tid, b.reason, b.raw["thread"]), f"{b.raw}")
        near(b.duration, a.duration, MS, "duration")
        for function in ("phase_spin", "phase_sleep", "phase_mutex"):
            check(function in a.functions and function in b.functions, function)
    # On a busy machine the end of a wait may be missed, by one of the two.
    check(any(same_waits(a, b) for a, b in pairs), f"waits {[(waits(a), waits(b)) for a, b in pairs]}")


try:
    main(needs=[need_bpf])
finally:
    for run_folder in RUNS:
        shutil.rmtree(run_folder, ignore_errors=True)
