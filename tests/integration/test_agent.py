#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon, through its control socket, its rules file and its store."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time

from agentlib import Agent, EXE, RULES, caller, metric, private_copy
from harness import (Skip, Target, changed_code, check, folder, main, need_bpf, need_program, spanprof, stop, test, wait_until, SLOW,
                     SPANPROF, TARGETS)

SCENES = private_copy(TARGETS / "scenes")


@test
def task_for_one_of_two_instances():
    with folder() as d, caller() as one, caller() as two, Agent(d) as agent:
        agent.wait_instances(2)
        task = agent.create(instance=f"i-{one.pid}", duration="60s")
        agent.wait_attached(1)
        one.go()
        two.go()
        one.wait_done()
        two.wait_done()
        spans = agent.wait_spans(5)
        check(len(spans) == 5, f"{len(spans)} spans instead of 5")
        check({s["instance"] for s in spans} == {f"i-{one.pid}"}, "spans of another instance")
        check({s["pid"] for s in spans} == {one.pid}, "spans of another process")
        for s in spans:
            check(s["name"] == "a" and s["task"] == task, f"a span of another call or task: {s}")
            check(s["blocked_ms"] > 90 and s["snapshots_kept"] == s["snapshots_due"] > 0, f"{s}")
        agent.ask("task.cancel", id=task)
        agent.wait_state(task, "finished")
        agent.wait_attached(0)
        check(agent.events(task) == ["received", "started", "cancelled"], agent.events(task))
        log = agent.ask("task.log", id=task)["log"]
        check({e["instance"] for e in log if e["event"] != "received"} == {f"i-{one.pid}"}, log)


NO_SCANS = RULES.replace("scan_interval: 100ms", "scan_interval: 1h")


@test
def processes_are_told_by_the_kernel():
    """Without scans: starts (by file, by environment), forks and ends; a waiting task begins with the process."""
    name = f"SPANPROF_TEST_{os.getpid()}_A"  # no process of another test has it
    rules = NO_SCANS + f'- {{name: "{{env:{name}}}", match: [{{env: [{name}]}}], group: process}}\n'
    script = "import os\nos.read(0, 1)\nif os.fork() == 0:\n os.read(0, 1)\n os._exit(0)\nprint(os.wait()[0], flush=True)\nos.read(0, 1)"
    with folder() as d, Agent(d, rules) as agent:
        task = agent.create(duration="60s")
        with caller(3) as target:
            agent.wait_attached(1)
            target.go()
            agent.wait_spans(3)
        agent.wait_instances(0)
        check("lost" in agent.events(task), agent.events(task))
        env = {**os.environ, name: "by-env", name[:-1]: "x" * 300}
        python = subprocess.Popen(["/usr/bin/python3", "-c", script], env=env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        try:
            agent.wait_instances(1)  # or a scan would have to find what it forks
            python.stdin.write("x")
            python.stdin.flush()
            names = {i["service"] for i in agent.wait_instances(2)}
            check(names == {"by-env"}, names)
            python.stdin.write("x")
            python.stdin.flush()
            child = int(python.stdout.readline())
            (left,) = agent.wait_instances(1)
            check(left["pid"] == python.pid != child, left)
        finally:
            python.stdin.close()
            stop(python)
        agent.wait_instances(0)


@test
def busy_host():
    """Hundreds of programs that are nobody's business: not told, or limited; ours is found all the same."""
    true = shutil.which("true")

    def churn():
        for _ in range(300):
            subprocess.run([true], check=True)

    filtered = NO_SCANS + "- {name: env, match: [{env: [SPANPROF_TEST_NAME=a*, PATH]}]}\n"
    with folder() as d, Agent(d, filtered) as agent:
        subprocess.run([true], check=True)
        told = metric(agent, "process_events_total")
        churn()
        # Other programs may start on this host meanwhile, each new file once.
        check(metric(agent, "process_events_total") < told + 100, "programs that cannot match were told")
    with folder() as d, Agent(d, NO_SCANS + "- {name: any, match: [{cmdline: 'spanprof-none*'}]}\n") as agent:
        churn()
        check(metric(agent, "process_events_untold_total") > 100, "no limit")
        check(metric(agent, "process_events_total") < 200, "too many were told")
        with caller(1) as target:
            wait_until(lambda: [i["pid"] for i in agent.ask("instance.list")["instances"]] == [target.pid],
                       "the instance, whatever else is going on")


@test
def selector_is_a_pattern_and_new_instances_join():
    with folder() as d, caller() as one, Agent(d) as agent:
        agent.wait_instances(1)
        task = agent.create(instance="i-*", duration="60s")
        agent.wait_attached(1)
        with caller() as late:
            agent.wait_attached(2)
            late.go()
            agent.wait_spans(5, instance=f"i-{late.pid}")
        wait_until(lambda: "lost" in agent.events(task), "the loss of the late instance")
        one.go()
        agent.wait_spans(5, instance=f"i-{one.pid}")
        check(agent.task(task)["state"] == "running", "the task goes on with the other instance")


@test
def names_and_counts():
    scripts = ["-w", "-n", "6", "-g", "10", "a=sleep:80", "b=sleep:80", "fast=sleep:1"]
    with folder() as d, Target(EXE, *scripts) as target, Agent(d) as agent:
        agent.wait_instances(1)
        task = agent.create(endpoint="b", spans=3, end_by_count=True, duration="60s")
        agent.wait_attached(1)
        target.go()
        agent.wait_state(task, "finished")
        spans = agent.spans()
        check([s["name"] for s in spans] == ["b"] * 3, f"{[s['name'] for s in spans]}")
        agent.wait_attached(0)


@test
def parallel_limit_of_the_rules():
    """Of four threads' slow calls one at a time is profiled; each of the others is counted."""
    scripts = ["-w", "-n", "40", "-t", "4", "-g", "1", "a=sleep:10,sleep:10"]
    with folder() as d, Target(EXE, *scripts) as target:
        with Agent(d, RULES + "limits: {parallel: 1}\n") as agent:
            agent.wait_instances(1)
            agent.create(threshold="5ms")
            agent.wait_attached(1)
            target.play()

            def refused():
                return agent.ask("top")["losses"].get("parallel_limit", 0)

            wait_until(lambda: len(agent.spans()) + refused() == 160, "160 slow calls, profiled or counted")
            check(len(agent.spans()) >= 10 and refused() >= 80, f"{len(agent.spans())} spans, {refused()} refused")


@test
def task_starts_at_its_time():
    with folder() as d, caller() as target, Agent(d) as agent:
        agent.wait_instances(1)
        at = int(time.time() * 1000) + 2500
        task = agent.create(start_ms=at, duration="60s")
        check(agent.task(task)["state"] == "queued", agent.task(task))
        agent.wait_state(task, "running")
        late = agent.task(task)["started_ms"] - at
        check(late >= 0, f"started {-late} ms before its time")
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(5)


@test
def task_ends_by_time_while_a_call_is_open():
    with folder() as d, caller(1, ms=60000) as target, Agent(d) as agent:
        agent.wait_instances(1)
        task = agent.create(duration="2s")
        agent.wait_attached(1)
        target.go()
        agent.wait_state(task, "finished")
        (span,) = agent.wait_spans(1)
        check(span["end"] == "unfinished", span)
        check(50 < span["duration_ms"] < 60000, span)


@test
def reload_keeps_tasks_and_refuses_mistakes():
    with folder() as d, caller(100, gap=10) as target, Agent(d) as agent:
        agent.wait_instances(1)
        task = agent.create(duration="0")
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(1)

        agent.write(RULES.replace("services:", "servces:"))
        agent.process.send_signal(signal.SIGHUP)
        agent.command.err.wait_for("event=reload_failed.*unknown key 'servces'")
        check(agent.task(task)["state"] == "running", "a broken file changed something")

        more = "- {name: other, match: [{exe: /nonexistent}]}\n"
        agent.write(RULES + more)
        agent.process.send_signal(signal.SIGHUP)
        agent.command.err.wait_for("event=reloaded")
        number = len(agent.spans())
        agent.wait_spans(number + 2)
        check(agent.task(task)["state"] == "running", "the reload ended the task")

        agent.write(RULES.replace("spec:", "name: renamed, spec:") + more)
        agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any(s["endpoint"] == "renamed" for s in agent.spans()), "spans under the new name")

        agent.write(RULES + '  deny: ["i-*"]\n')
        agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "cancelled" in agent.events(task), "the end of the task on a denied instance")
        agent.wait_attached(0)
        reply = agent.ask("instance.list")["instances"]
        check([i["accepts"] for i in reply] == [False], reply)


@test
def endpoint_has_one_name_whatever_runs():
    """What tasks call an endpoint is what its spans say, before and after other tasks come and go."""
    rules = RULES.replace("spec:", "name: order, spec:") + "tasks:\n- {name: always, service: svc, threshold: 50ms}\n"
    with folder() as d, caller(1000, gap=5, ms=60) as target, Agent(d, rules) as agent:
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(2)
        first = agent.create(endpoint="order", threshold="20ms")
        agent.wait_spans(2, id=first)
        agent.ask("task.cancel", id=first)
        number = len(agent.spans())
        agent.wait_spans(number + 2)
        names = {s["endpoint"] for s in agent.spans()}
        check(names == {"order"}, names)


@test
def endpoint_is_called_what_its_function_is_called():
    """Without a name: a pattern's spans have the function's name, which a task can give, the first one, too."""
    rules = RULES.replace("request(str(arg0))", "req?est")
    with folder() as d, caller(1000, gap=5, ms=60) as target, Agent(d, rules) as agent:
        agent.wait_instances(1)
        task = agent.create(endpoint="request")
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(2, id=task)
        agent.create(endpoint="*", threshold="20ms")
        agent.wait_spans(8)
        names = {(s["endpoint"], s["name"]) for s in agent.spans()}
        check(names == {("request", "request")}, names)


@test
def tasks_that_take_the_same_calls():
    """Each has its own threshold in the report; a call that both have taken counts once in that of all."""
    with folder() as d, caller(3) as target, Agent(d) as agent:
        agent.wait_instances(1)
        low = agent.create(endpoint="a", threshold="20ms", duration="60s")
        high = agent.create(endpoint="*", threshold="80ms", duration="60s")
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(6)

        def report(*options):
            status, out, err = spanprof("report", "--store", d / "store.db", "--format", "json", *options)
            check(status == 0, err)
            (endpoint,) = [e for e in json.loads(out)["endpoints"] if e]
            return endpoint["threshold_ns"] // 10**6, endpoint["slow"], len(json.loads(out)["spans"]) - 1

        status, out, _ = spanprof("spans", "--socket", d / "sock", "--slowest")
        check(status == 0 and out.count(low) == 3 and out.count(high) == 3, out)
        took = [s["duration_ms"] for s in agent.spans(slowest=True)]
        check(took == sorted(took, reverse=True), took)

        check(report("--task", low) == (20, 3, 3), report("--task", low))
        check(report("--task", high) == (80, 3, 3), report("--task", high))
        check(report() == (20, 3, 3), report())
        check(report("--service", "svc") == (20, 3, 3), report("--service", "svc"))
        status, _, err = spanprof("report", "--store", d / "store.db", "--service", "other")
        check(status == 1 and "no such span" in err, err)


@test
def instances_have_thresholds_of_their_own():
    """A later task for another instance says nothing about this one's spans."""
    with folder() as d, caller(1000, gap=5, ms=60) as low, caller(1000, gap=5, ms=60) as high, Agent(d) as agent:
        agent.wait_instances(2)
        first = agent.create(instance=f"i-{low.pid}", threshold="20ms")
        agent.wait_attached(1)
        second = agent.create(instance=f"i-{high.pid}", threshold="5s")
        agent.wait_attached(2)
        low.go()
        high.go()
        agent.wait_spans(3, id=first)
        check(not agent.spans(id=second), "spans below the threshold")


@test
def tasks_in_the_rules_file():
    rules = RULES + "tasks:\n- {name: always, service: svc, threshold: 50ms}\n"
    with folder() as d, caller(200, gap=10) as target, Agent(d, rules) as agent:
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(2)
        agent.write(rules.replace("50ms", "99h").replace("99h", "20h"))
        agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: sorted(t["state"] for t in agent.ask("task.list")["tasks"]) == ["finished", "running"],
                   "the old task finished, the edited one running")
        agent.write(RULES)
        agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: {t["state"] for t in agent.ask("task.list")["tasks"]} == {"finished"},
                   "no task left")
        agent.wait_attached(0)


@test
def killed_agent():
    """Targets are unharmed, the store is readable, a running task goes on after the restart."""
    with folder() as d, caller(300, ms=60, gap=10) as target, Agent(d) as agent:
        agent.wait_instances(1)
        task = agent.create(duration="60s")
        short = agent.create(duration="1s", endpoint="none")
        started = agent.task(short)["started_ms"]
        agent.wait_attached(1)
        target.go()
        before = len(agent.wait_spans(3))
        agent.process.kill()
        agent.process.wait()
        check(target.process.poll() is None, "the target died with the agent")
        status, out, err = spanprof("spans", "--store", d / "store.db", "--json")
        check(status == 0, err)
        kept = len(json.loads(out)["spans"]) - 1
        check(kept >= 1, "nothing is left in the store")
        until = started + 1200  # the short task's time passes while no agent runs
        wait_until(lambda: time.time() * 1000 > until, "the end of the short task's time")
        agent.start()
        wait_until(lambda: "resumed" in agent.events(task), "the task to be resumed")
        number = len(agent.spans(id=task))
        check(number >= kept, f"{kept} spans before, {number} after the restart")
        spans = agent.wait_spans(max(number, before) + 2)
        check(len({s["span"] for s in spans}) == len(spans), "span ids are not unique")
        wait_until(lambda: "interrupted" in agent.events(short), "the other one to be told as interrupted")
        check(target.process.poll() is None and changed_code(target.pid, EXE) > 0, "the target goes on, with its probes")


@test
def span_count_survives_a_restart():
    with folder() as d, caller(20, gap=2000) as target, Agent(d) as agent:
        env = {"SPANPROF_SOCKET": str(d / "sock")}
        agent.wait_instances(1)
        task = agent.create(duration="10m", spans=2, end_by_count=True)
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(1)
        agent.process.kill()  # what span.list showed is committed
        agent.process.wait()
        agent.start()
        wait_until(lambda: "resumed" in agent.events(task), "the task to be resumed")
        check(agent.task(task)["n_spans"] >= 1, f"counted anew: {agent.task(task)}")
        agent.wait_state(task, "finished")
        shown = agent.task(task)
        check(shown["n_spans"] == len(agent.spans()) == 2, f"{shown} {agent.spans()}")
        status, out, _ = spanprof("task", "show", task, env=env)
        check(status == 0 and f"on i-{target.pid}: finished, 2 spans" in out, out)


@test
def endpoints_of_another_service():
    """Two services, one with an endpoint that the other's program has not: it is not looked for there."""
    rules = RULES + f"""- name: other
  match: [{{exe: {SCENES}}}]
  endpoints: [{{spec: body_sleep}}]
"""
    with folder() as d, caller(2) as target, Target(str(SCENES), "returns") as other, Agent(d, rules) as agent:
        agent.wait_instances(2)
        two = agent.create(service="other", duration="60s")
        agent.wait_attached(1)
        one = agent.create(duration="60s")
        agent.wait_attached(2)
        target.go()
        agent.wait_spans(2)
        for task in (one, two):
            check("note" not in agent.events(task), agent.ask("task.log", id=task))


@test
def report_from_the_store():
    with folder() as d, caller(2) as target, Agent(d) as agent:
        agent.wait_instances(1)
        task = agent.create()
        agent.wait_attached(1)
        target.go()
        span = agent.wait_spans(2)[0]["span"]
        for options in (["--span", span], ["--task", task], []):
            status, out, err = spanprof("report", "--store", d / "store.db", *options)
            check(status == 0 and "request" in out and "blocked" in out, f"{out} {err}")
            check(re.search(r"\d kept spans?\b", out) and "call" not in out.splitlines()[2], out)
        output = d / "x.json"
        status, _, err = spanprof("report", "--store", d / "store.db", "-q", "-o", output)
        check(status == 0, err)
        spans = [s for s in json.loads(output.read_text())["spans"] if s]
        check(sorted(int(s["id"]) for s in spans) == sorted(s["span"] for s in agent.spans()), f"other ids: {spans}")
        check(json.loads(output.read_text())["run"]["population"] == "kept spans", "the population")
        check(len(spans) == 2 and all(s["on_cpu_ns"] + s["run_queue_ns"] + s["blocked_ns"] == s["duration_ns"]
                                      for s in spans), f"{spans}")


@test
def command_line():
    with folder() as d, caller() as target, Agent(d) as agent:
        env = {"SPANPROF_SOCKET": str(d / "sock")}
        agent.wait_instances(1)
        status, out, err = spanprof("task", "create", "--service", "svc", "--duration", "1h", "--id", "mine", env=env)
        check(status == 0 and out.strip() == "mine", f"{out} {err}")
        agent.wait_attached(1)
        status, out, _ = spanprof("task", "list", env=env)
        check(status == 0 and "mine" in out and "running" in out, out)
        for words in (["task", "show", "mine"], ["task", "log", "mine"], ["top"], ["top", "--metrics"],
                      ["spans"], ["task", "list", "--json"]):
            status, out, err = spanprof(*words, env=env)
            check(status == 0 and out and not err, f"{words}: {status} {out} {err}")
        refused = [(["task", "create", "--service", "nope"], "there are: svc"),
                   (["task", "create", "--service", "svc", "--period", "1us"], "at least 1 ms"),
                   (["task", "create", "--service", "svc", "--duration", "1h"], "overlaps with task 'mine'"),
                   (["task", "cancel", "none"], "there is no task 'none'")]
        for words, text in refused:
            status, _, err = spanprof(*words, env=env)
            check(status == 1 and text in err, f"{words}: {status} {err}")
        status, _, err = spanprof("task", "cancel", "mine", env=env)
        check(status == 0, err)
        status, out, _ = spanprof("agent", "--check", "-c", agent.config)
        check(status == 0 and f"svc / i-{target.pid}" in out, out)


@test
def check_of_the_rules():
    """Every mistake is one line with its place; what matches nothing is said to."""
    with folder() as d, caller() as target:
        def run(rules):
            (d / "rules.yaml").write_text(rules.replace("DIR", str(d)))
            return spanprof("agent", "--check", "-c", d / "rules.yaml")

        none = '- name: none\n  match: [{exe: "no-such-program"}]\n'
        status, out, err = run(RULES + none)
        check(status == 0 and not err and f"svc / i-{target.pid}" in out, f"{out} {err}")
        check("  none: nothing matches\n    exe 'no-such-program' cannot" in out, out)
        check("svc: nothing" not in out and "'*/no-such-program'" in out and "needs root" not in out, out)
        status, out, err = run(RULES.replace("DIR/store.db", "/var/lib/spanprof/agent.db"))
        check(status == 0 and ("systemd makes it" in err) == (not os.path.isdir("/var/lib/spanprof")), err)
        mistakes = [(RULES.replace("request(str(arg0))", "request(str(arg0"), r":7: services\[0\].endpoints\[0\].spec: "),
                    (RULES.replace('spec: "request(str(arg0))"', "preset: postgers"),
                     r":7: services\[0\].endpoints\[0\].preset: .*postgers"),
                    (RULES + none + "  endpoints:\n  - preset: redis\n  - name: x\n    spec: '('\n",
                     r":13: services\[1\].endpoints\[1\].spec: "),
                    (RULES.replace("DIR/store.db", "DIR/nowhere/store.db"), ":2: agent.store: .*no folder")]
        for rules, where in mistakes:
            status, out, err = run(rules)
            check(status == 1 and not out and re.search(r"rules.yaml" + where, err), f"{where}: {status} {out} {err}")
            check(len(err.splitlines()) == 1, f"more than a line: {err}")


@test
def check_against_the_processes():
    """What the processes that match do not have is said, with the nearest names; it is no mistake of the file."""
    tasks = """tasks:
- {name: far, service: svc, instance: "web-*"}
- {name: lost, service: svc, endpoint: nope}
"""
    with folder() as d, caller() as target:
        def run(rules):
            (d / "rules.yaml").write_text(rules.replace("DIR", str(d)))
            status, out, err = spanprof("agent", "--check", "-c", d / "rules.yaml")
            check(status == 0 and not err, f"{status} {err}")
            return out

        out = run(RULES.replace("request", "reqest") + tasks)
        check(f"svc / i-{target.pid}: process {target.pid}: endpoint 'reqest" in out and "names: request" in out, out)
        check("task 'far': no instance of 'svc' is called 'web-*'" in out, out)
        check("task 'lost'" not in out, "spans may have any name there")
        check("task 'lost': service 'svc' has no endpoint 'nope'" in run(RULES.replace("(str(arg0))", "") + tasks), out)
        out = run(RULES.replace('spec: "request(str(arg0))"', "preset: postgresql"))
        check(len(re.findall("nothing of preset 'postgresql' is there: endpoint '", out)) == 1, out)
        out = run(RULES + """- name: "{env:NO_SUCH_VARIABLE}"
  match: [{env: [NO_SUCH_VARIABLE]}]
  endpoints: [{spec: request}]
tasks: [{name: slip, service: scv}]
""")
        check("task 'slip': nothing that matches now is service 'scv', and no rule names it" in out, out)
        out = run(RULES)
        check("process" not in out.replace("processes", "") and "missing" not in out, out)


@test
def endpoint_that_a_process_has_not():
    """The reason is a warning, and stands below the task as long as it runs; a slip in a task is refused."""
    with folder() as d, caller(), Agent(d, RULES.replace("request(str(arg0))", "reqest")) as agent:
        agent.wait_instances(1)
        task = agent.create(duration="60s")
        agent.command.err.wait_for("warning: event=task_note .*nearest names: request")
        agent.command.err.wait_for(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z spanprof: ")
        wait_until(lambda: agent.task(task)["trouble"], "the reason")
        status, out, _ = spanprof("task", "list", "--socket", d / "sock")
        check(status == 0 and re.search(f"^{task} +running.*\n  ! endpoint 'reqest'", out, re.MULTILINE), out)
        reply = agent.request("task.create", task={"service": "svc", "endpoint": "request", "duration": "1s"})
        check("service 'svc' has no endpoint 'request' in the rules; there are: reqest" in reply["error"]["message"], reply)
        agent.ask("task.cancel", id=task)
        agent.wait_state(task, "finished")
        status, out, _ = spanprof("task", "list", "--socket", d / "sock")
        check(re.search(f"^{task} +cancelled", out, re.MULTILINE) and "!" not in out, out)


@test
def second_agent_on_the_same_socket():
    with folder() as d, Agent(d) as agent:
        status, _, err = spanprof("agent", "-c", agent.config)
        check(status == 1 and "another agent listens" in err, err)
        agent.ask("ping")


@test
def flood_and_stall():
    """Clients that flood, stall or talk rubbish do not hold up the others."""
    with folder() as d, caller(3) as target, Agent(d) as agent, contextlib.ExitStack() as stack:
        agent.wait_instances(1)
        for i in range(24):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.connect(str(d / "sock"))
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                if i % 3 == 0:
                    s.send(b'{"v":1,"cmd":"top"}\n' * 5000)  # never reads a reply
                elif i % 3 == 1:
                    s.send(b"\0\xff rubbish " * 4000)  # no end of line
                else:
                    s.send(b'{"v":1')  # half a request
        agent.create()
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(3)
        check(agent.rss() < (200 << 20 if SLOW > 1 else 60 << 20), f"memory {agent.rss()}")


@test
def other_users_are_refused():
    need_program("setpriv")
    rules = RULES.replace("{socket:", '{socket_mode: "0666", socket:')
    with folder() as d, Agent(d, rules) as agent:
        os.chmod(d, 0o755)
        code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{d}/sock'); print(s.recv(4096))"
        out = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", code],
                             capture_output=True, text=True, check=False)
        check('"code":"permission"' in out.stdout, f"{out}")
        os.chmod(d / "sock", 0o600)
        shutil.copy(SPANPROF, d / "spanprof")
        out = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", d / "spanprof", "task", "list", "--socket",
                              d / "sock"], capture_output=True, text=True, check=False)
        check(out.returncode == 1 and "agent.socket_users" in out.stderr, f"{out}")
        os.chmod(d / "rules.yaml", 0o644)
        out = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", d / "spanprof", "agent", "--check", "-c",
                              d / "rules.yaml"], capture_output=True, text=True, check=False)
        check(out.returncode == 0 and "svc: nothing" in out.stdout and "needs root" in out.stdout, f"{out}")
        agent.ask("ping")


def stored_tasks(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return [row[0] for row in db.execute("SELECT id FROM tasks")]


@test
def full_disk():
    need_program("mount", "umount")
    with folder() as d:
        disk = d / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320k", "none", str(disk)], check=False).returncode:
            raise Skip("cannot mount a small tmpfs")
        try:
            with caller(400, ms=55, gap=1) as target, \
                    Agent(d, RULES.replace("DIR/store.db", "DIR/disk/store.db")) as agent:
                agent.wait_instances(1)
                agent.create(duration="0")
                agent.wait_attached(1)
                (disk / "filler").write_bytes(b"x" * (os.statvfs(disk).f_bavail * 4096 - 8192))
                target.go()

                def store():
                    return next(x for x in agent.ask("top")["links"] if x["name"] == "store")

                wait_until(lambda: store()["dropped"] > 0 and store()["state"] == "failing", "a store that fails")
                agent.command.err.wait_for('event=store_failing error="database or disk is full"')
                agent.process.terminate()
                agent.process.wait(30)
                (disk / "more").write_bytes(b"")
                with contextlib.suppress(OSError), open(disk / "more", "ab", buffering=0) as f:
                    while f.write(b"x" * 4096):
                        pass
                agent.start()
                agent.command.err.wait_for("event=store_failing")
                check(store()["state"] == "failing", store())
                unsaved = agent.create(duration="0", id="while-full", endpoint="b")
                (disk / "filler").unlink()
                (disk / "more").unlink()
                wait_until(lambda: store()["state"] == "ready", "the store to recover", 40)
                agent.command.err.wait_for("event=store_recovered lost_spans=")
                agent.spans()
                # What came while it could not be written has been written since: another start knows it.
                wait_until(lambda: "while-full" in stored_tasks(disk / "store.db"),
                           "the task to be saved", 20)
                agent.process.kill()
                agent.process.wait(30)
                agent.start()
                check(agent.task(unsaved)["id"] == "while-full", "the task is lost")
                check(target.process.poll() is None, "the target died")
        finally:
            subprocess.run(["umount", str(disk)], check=False)


@test
def one_agent_for_one_store():
    """The second one names the first, not a lock of the database; its socket is another."""
    with folder() as d, Agent(d) as agent:
        status, _, err = spanprof("agent", "-c", agent.config, "--socket", d / "other")
        check(status == 1 and "another agent" in err and "locked" not in err, f"{status} {err}")
        agent.ask("ping")


@test
def budget_raises_the_periods():
    rules = RULES + "limits: {cpu: 0.1%}\n"
    script = ["-w", "-n", "100000", "-t", "4", "a=spin:5"]
    with folder() as d, Target(EXE, *script) as target, Agent(d, rules) as agent:
        agent.wait_instances(1)
        agent.create(threshold="0", period="1ms", duration="0", parallel=1000)
        agent.wait_attached(1)
        target.go()
        wait_until(lambda: agent.ask("top")["period_factor"] >= 4, "longer dump periods")
        agent.command.err.wait_for("event=budget.*limit=0.1%")


@test
def life_under_systemd():
    """Type=notify with a watchdog, and the privileges of the unit under a user of its own."""
    need_program("setpriv")
    caps = "+perfmon,+bpf,+sys_ptrace,+dac_read_search,+checkpoint_restore,+syslog"
    with folder() as d, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, caller(2) as target:
        notify.bind(str(d / "notify"))
        notify.settimeout(30 * SLOW)
        shutil.chown(d, 65534, 65534)
        os.chmod(d / "notify", 0o666)
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps={caps}",
                  f"--ambient-caps={caps}", "--bounding-set", f"-all,{caps}"]
        env = {"NOTIFY_SOCKET": str(d / "notify"), "WATCHDOG_USEC": "400000"}
        with Agent(d, env=env, prefix=prefix) as agent:
            def hear(word):
                wait_until(lambda: notify.recv(4096).decode() == word, word)

            hear("READY=1")
            hear("WATCHDOG=1")
            agent.wait_instances(1)
            agent.create()
            agent.wait_attached(1)
            target.go()
            check(agent.wait_spans(2), "no spans")
            status = pathlib.Path(f"/proc/{agent.process.pid}/status").read_text()
            check("NoNewPrivs:\t1" in status and "Seccomp:\t2" in status, status)
            check("Uid:\t65534" in status, status)
            check(int(re.search(r"CapBnd:\s*([0-9a-f]+)", status)[1], 16) >> 21 & 1 == 0, "CAP_SYS_ADMIN is kept")
            agent.process.send_signal(signal.SIGHUP)
            hear("RELOADING=1")
            hear("READY=1")
            agent.process.send_signal(signal.SIGTERM)
            hear("STOPPING=1")
            check(agent.process.wait(20) == 0, "exit status")
        check(not (d / "sock").exists(), "the socket is left behind")


@test
def ten_thousand_short_processes():
    """A running task, a churn of other matching processes: memory stays as it is."""
    rules = RULES + '- {name: churn, match: [{exe: "*/true"}], instance: "t-{pid}", endpoints: [{spec: main}]}\n'
    true = os.path.realpath(shutil.which("true"))

    def churn(number, until):
        done = 0
        while done < number and time.monotonic() < until:
            batch = [subprocess.Popen([true]) for _ in range(20)]
            for p in batch:
                p.wait()
            done += len(batch)
        return done

    with folder() as d, caller(2000, ms=60, gap=5) as target, Agent(d, rules) as agent:
        agent.wait_instances(1)
        agent.create(duration="0")
        agent.wait_attached(1)
        target.go()
        churn(1000, time.monotonic() + 60)
        before = agent.rss()
        done = churn(10000, time.monotonic() + 100)
        grown = agent.rss() - before
        check(done >= 2000, f"only {done} processes in the time given")
        check(grown < (40 << 20 if SLOW > 1 else 2 << 20), f"memory grew by {grown} bytes with {done} processes")
        top = agent.ask("top")
        check(top["instances"] <= 25, f"{top['instances']} instances are left")
        print(f"# {done} processes, memory {before / 1e6:.1f} MB {grown / 1e6:+.1f} MB")


if __name__ == "__main__":
    main(needs=[need_bpf])
