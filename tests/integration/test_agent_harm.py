#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What may befall the daemon: odd programs, names, files and rules. It is bounded, says so, and goes on."""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import time

from agentlib import Agent, EXE, RULES, caller, metric, private_copy
from harness import (SLOW, TARGETS, Skip, Target, changed_code, check, folder, main, need_bpf, need_program, spanprof, stop,
                     test, wait_until)

FORKS = 10000
FORKER = f"""
import os, sys
sys.stdin.readline()
for i in range({FORKS}):
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
print("done", flush=True)
sys.stdin.readline()
"""


@test
def a_target_forks_ten_thousand_times():
    """It has a task of its own and stays one instance; another one's calls are profiled all the while."""
    with folder() as d, contextlib.ExitStack() as stack:
        program = d / "forker"
        shutil.copy(os.path.realpath("/usr/bin/python3"), program)  # a path of its own
        rules = RULES + f'- {{name: forker, match: [{{exe: "{program}"}}], endpoints: [{{spec: PyOS_AfterFork_Child}}]}}\n'
        forker = subprocess.Popen([program, "-I", "-S", "-c", FORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
        stack.callback(stop, forker, signal.SIGKILL)
        target = stack.enter_context(caller(100000, ms=60, gap=20))
        agent = stack.enter_context(Agent(d, rules))
        agent.wait_instances(2)
        agent.create(duration="0")
        agent.create(service="forker", duration="0")
        agent.wait_attached(2)
        target.go()
        agent.wait_spans(2)
        before, number = agent.rss(), len(agent.spans())
        begin = time.monotonic()
        forker.stdin.write("go\n")
        forker.stdin.flush()
        while not select.select([forker.stdout], [], [], 0.2)[0]:
            top = agent.ask("top")
            check(top["instances"] == 2, f"{top['instances']} instances")
            check(time.monotonic() - begin < 120 * SLOW, "the forks take for ever")
        check(forker.stdout.readline() == "done\n", "the forker was harmed")
        grown = agent.rss() - before
        check(grown < (40 << 20 if SLOW > 1 else 8 << 20), f"memory grew by {grown} bytes")
        agent.wait_spans(min(1000, number + 2))
        wait_until(lambda: agent.ask("top")["attached_processes"] == 2, "only the two are attached", 20)
        forker.stdin.close()
        check(forker.wait(30) == 0, "the forker was harmed")
        forker.stdout.close()
        print(f"# {FORKS} forks in {time.monotonic() - begin:.0f} s, memory {grown / 1e6:+.1f} MB")


@test
def over_its_budget_nothing_new_begins():
    """Longer periods do not help when the spans themselves are too many."""
    rules = RULES.replace("scan_interval: 100ms", "scan_interval: 1h") + "limits: {cpu: 0.6%}\n"
    with folder() as d, Agent(d, rules) as agent:
        with Target(EXE, "-w", "-n", "1000000", "-t", 2 * os.cpu_count(), "a=spin:1") as target:
            agent.wait_instances(1)
            task = agent.create(threshold="0", period="1ms", duration="0", parallel=1000)
            agent.wait_attached(1)
            target.go()
            agent.command.err.wait_for("event=budget.*factor=64.*no new spans are profiled", 60)
            check(metric(agent, "budget_refused_total") >= 1, "no counter")
            check(agent.task(task)["state"] == "running", agent.task(task))
        agent.command.err.wait_for("event=budget.*new spans are profiled again", 60)
        with caller() as target:
            agent.wait_attached(1)
            target.go()
            agent.wait_spans(1, instance=f"i-{target.pid}")


@test
def hot_functions_are_probed_in_turns():
    """What probes cost a program is told of, and with a limit they are off most of the time."""
    program = private_copy(TARGETS / "busy")
    rules = RULES.replace(str(EXE), str(program))

    def say(line):
        target.process.stdin.write(f"{line}\n".encode())
        target.process.stdin.flush()

    with folder() as d, Agent(d, rules) as agent, Target(str(program)) as target:
        agent.wait_instances(1)
        agent.create(threshold="100ms", duration="0")
        agent.wait_attached(1)
        agent.command.err.wait_for("event=costly.*calls in a second.*limits.overhead", 60)
        check(changed_code(target.pid, program), "the probes are in")
        check(metric(agent, "turns_total") == 0, "turns without a limit")
        reload(agent, rules + "limits: {overhead: 30%}\n")
        wait_until(lambda: metric(agent, "turns_total") >= 2, "turns", 60)
        say("call 300")
        wait_until(lambda: not changed_code(target.pid, program), "a rest", 60)
        wait_until(lambda: changed_code(target.pid, program), "a turn", 60)
        say("call 300")
        wait_until(lambda: any(s["name"] == "call" for s in agent.spans()), "a slow call of a turn")
        check(metric(agent, "probed_seconds_total") > 0, "the time is not counted")
        reload(agent, rules)
        agent.wait_attached(1)
        wait_until(lambda: changed_code(target.pid, program), "the probes are in", 60)


@test
def names_beyond_all_limits():
    """From a variable that anybody sets: cut, cleaned, and equal names are one instance."""
    variable = f"SPANPROF_TEST_{os.getpid()}"  # no process of another test has it
    rules = """
agent: {socket: DIR/sock, scan_interval: 100ms}
services:
- name: "{env:VARIABLE}"
  match: [{env: [VARIABLE]}]
  group: process
  instance: "{env:VARIABLE}"
""".replace("VARIABLE", variable)
    names = ["x" * 5000 + "1", "x" * 5000 + "2", 'a\nevent=forged b="', "\x01\x7f\x1b[31m", "\udcff\udcfe" * 60, "{pid}"]
    with folder() as d, Agent(d, rules) as agent, contextlib.ExitStack() as stack:
        for name in names:
            p = subprocess.Popen(["sleep", "1000"], env={"PATH": os.environ["PATH"], variable: name})
            stack.callback(stop, p, signal.SIGKILL)
        found = agent.wait_instances(len(names) - 1)
        for i in found:
            for text in (i["service"], i["instance"]):
                check(0 < len(text) <= 70, f"{len(text)} characters: {text}")
                check(all(ord(c) >= 32 and ord(c) != 127 for c in text), repr(text))
        check(len([i for i in found if i["service"] == "x" * 70]) == 1, found)
        check("{pid}" in {i["instance"] for i in found}, "a value was taken for a template")
        text = agent.ask("metrics")["text"]
        check(all(re.fullmatch(r'spanprof_\w+(\{.*\})? \S+|# .*', t) for t in text.splitlines()), "the metrics are broken")
        agent.process.send_signal(signal.SIGTERM)
        check(agent.process.wait(20) == 0, "exit status")
        log = agent.text()
        check(not any(t.startswith("event=forged") for t in log.splitlines()) and "\x1b" not in log, log)


def reload(agent, rules):
    """The lines that it logs."""
    before, looked = metric(agent, "reloads_total"), len(agent.command.err.seen)
    agent.write(rules)
    agent.process.send_signal(signal.SIGHUP)
    wait_until(lambda: metric(agent, "reloads_total") == before + 1, "the reload")
    agent.command.err.drain(0.1)
    return agent.command.err.seen[looked:]


@test
def reload_names_what_waits_for_a_restart():
    changed = RULES.replace("DIR/store.db", "DIR/other.db") + "limits: {snapshots: 100}\n"
    backend = "backends: [{name: oap, kind: skywalking, addresses: ['127.0.0.1:1'], token: secret}]\n"
    steps = [(RULES + "limits: {cpu: 50%}\n", None),
             (changed, 'keys="agent.store, limits.snapshots"'),
             (changed, 'keys="agent.store, limits.snapshots"'),  # not only once: it is still so
             (RULES + backend, r'keys="backends\[0\]"'),
             (RULES, None)]
    with folder() as d, Agent(d) as agent:
        for rules, pattern in steps:
            said = [t for t in reload(agent, rules) if "event=restart_needed" in t]
            check(len(said) == bool(pattern) and all(re.search(pattern, t) for t in said), f"{said} {pattern}")
        check("secret" not in "\n".join(agent.command.err.seen), "a secret in the log")


def compile_target(program, source, *options):
    need_program("gcc")
    subprocess.run(["gcc", *options, "-x", "c", "-", "-o", program], input=source, text=True, check=True)


WINDING = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int right(int depth);
__attribute__((noipa)) static int left(int depth) { return depth ? 1 + (random() & 1 ? left(depth - 1) : right(depth - 1)) : usleep(100); }
__attribute__((noipa)) static int right(int depth) { return depth ? 2 + (random() & 1 ? left(depth - 1) : right(depth - 1)) : usleep(100); }
__attribute__((noipa)) int request(void) { int sum = 0; for (int i = 0; i < 100; i++) sum += left(250); return sum; }
int main(void) { getchar(); for (;;) request(); }
"""


@test
def tables_over_the_memory_limit_are_made_anew():
    """Hardly two stacks are the same: the tables that keep each once grow. The task goes on with empty ones."""
    with folder() as d:
        program = d / "winding"
        compile_target(program, WINDING, "-O1")
        rules = RULES + f'- {{name: winding, match: [{{exe: "{program}"}}], endpoints: [{{spec: request}}]}}\n' + \
            "limits: {memory: 16M, cpu: 100%}\n"
        with subprocess.Popen([program], stdin=subprocess.PIPE) as target, Agent(d, rules) as agent, \
                contextlib.ExitStack() as stack:
            stack.callback(target.kill)
            agent.wait_instances(1)
            task = agent.create(service="winding", duration="0", threshold="1ms", period="1ms")
            agent.wait_attached(1)
            target.stdin.write(b"\n")
            target.stdin.flush()
            agent.command.err.wait_for("event=engine_renewed.*over their limit", 60)
            agent.wait_attached(1)
            newest = agent.spans()[0]["span"]
            wait_until(lambda: agent.spans()[0]["span"] > newest + 3, "spans after that")
            check(metric(agent, "engine_renewed_total") >= 1, "no counter")
            check(agent.task(task)["state"] == "running", agent.task(task))


def debug_file_of_libc():
    maps = pathlib.Path("/proc/self/maps").read_text()
    libc = next((t.split()[-1] for t in maps.splitlines() if t.endswith("/libc.so.6")), None)
    notes = subprocess.run(["readelf", "-n", libc], capture_output=True, text=True, check=False).stdout if libc else ""
    found = re.search(r"Build ID: (\w\w)(\w+)", notes)
    return found and pathlib.Path(f"/usr/lib/debug/.build-id/{found[1]}/{found[2]}.debug")


@test
def debug_information_over_its_limit():
    file = debug_file_of_libc()
    if not file or not file.exists():
        raise Skip("the C library's debug file (libc6-dbg) is not installed")
    sections = subprocess.run(["readelf", "-SW", str(file)], capture_output=True, text=True, check=False).stdout
    if not re.search(r"\.debug_info .* C ", sections):
        raise Skip("the C library's debug file is not packed")
    for limit, left_out in (("1M", True), ("60M", False)):
        with folder() as d, caller(3) as target, Agent(d, RULES + f"limits: {{debug_info: {limit}}}\n") as agent:
            agent.wait_instances(1)
            agent.create(duration="60s")
            agent.wait_attached(1)
            target.go()
            span = agent.wait_spans(3)[0]["span"]
            if left_out:
                agent.command.err.wait_for(r'event=debug_left_out file="\S*/libc.so.6"')
            number = metric(agent, re.escape('events_total{kind="debug_left_out",loss="0"}'))
            check(number == left_out, f"{limit}: {number} files left out")
            status, out, err = spanprof("report", "--store", d / "store.db", "--span", span)
            check(status == 0 and "nanosleep" in out, f"{out} {err}")


@test
def names_of_debug_information_over_its_limit():
    """The endpoint that needs it is refused, and told why; the other one is profiled."""
    with folder() as d:
        program = d / "large"
        fields = "".join(f"int pad_{i * 2654435761 % 2**32:x}[{1 + i % 97}];\n" for i in range(100000))
        source = fields + """
#include <stdio.h>
#include <unistd.h>
struct request { int number; const char *uri; };
__attribute__((noinline)) int named(struct request *r) { usleep(60000); return r->number + *r->uri; }
__attribute__((noinline)) int plain(const char *text) { usleep(60000); return *text; }
int main(void) { struct request r = {0, "/uri"}; r.number = *(volatile const char *)r.uri; getchar(); named(&r); plain("text"); getchar(); return 0; }
"""
        compile_target(program, source, "-g", "-gz", "-O1", "-fno-ipa-pure-const")
        rules = RULES + f'- {{name: large, match: [{{exe: "{program}"}}], endpoints: [{{spec: named(str(r->uri))}}, {{spec: plain(str(arg0))}}]}}\n'
        for limit, names in (("1M", {"text"}), ("32M", {"/uri", "text"})):
            with subprocess.Popen([program], stdin=subprocess.PIPE) as target, \
                    Agent(d, rules + f"limits: {{debug_info: {limit}}}\n") as agent:
                agent.wait_instances(1)
                task = agent.create(service="large", duration="60s")
                agent.wait_attached(1)
                target.stdin.write(b"\n")
                target.stdin.flush()
                instance = agent.ask("instance.list")["instances"][0]["instance"]
                found = {s["name"] for s in agent.wait_spans(len(names), instance=instance)}
                check(found == names, f"{limit}: {found}")
                said = json.dumps(agent.ask("task.log", id=task))
                told = re.search(rf"{program} takes \d+ MB of memory, more than limits.debug_info \(1 MB\)", said)
                check(bool(told) == ("/uri" not in names), f"{limit}: {said}")
                agent.ask("task.cancel", id=task)  # the next agent has the same store
                agent.wait_state(task, "finished")
                target.stdin.close()


if __name__ == "__main__":
    main(needs=[need_bpf])
