#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the daemon at any point of its life, again and again beside the same targets.

After each kill the targets live and their code is what their files say (no breakpoint is left in it), the store is
sound, and the next agent takes up each task or tells that it was interrupted. At the end the targets, which know
themselves what they did, have done all of it in order.
"""
import contextlib
import json
import random
import signal
import sqlite3
import time

from agentlib import Agent, EXE, caller
from harness import SLOW, Target, changed_code, check, folder, main, need_bpf, spanprof, test, wait_until

TARGETS = 2
CALL_MS, GAP_MS = 15, 2
SETTLED = {"finished", "cancelled", "lost", "interrupted", "started", "resumed"}


class World:
    """Targets that call all the time, and agents that are killed."""

    def __init__(self, directory, stack):
        self.dir, self.tasks, self.n_kills = directory, [], 0
        self.targets = [stack.enter_context(
            Target(EXE, "-w", "-n", 0, "-g", GAP_MS, f"a=sleep:{CALL_MS}", truth=directory / f"truth-{i}"))
            for i in range(TARGETS)]
        for t in self.targets:
            check(changed_code(t.pid) == 0, "the comparison itself is wrong")
            t.go()
        self.agent = Agent(directory)

    def create(self, **task):
        self.tasks.append(self.agent.create(**{"duration": "10m", "threshold": "5ms", "spans": 1000000, **task}))
        return self.tasks[-1]

    def kill(self):
        self.agent.process.kill()
        self.agent.process.wait()
        self.n_kills += 1
        for t in self.targets:
            check(t.process.poll() is None, f"target {t.pid} ended with {t.process.poll()}")
            wait_until(lambda t=t: changed_code(t.pid) == 0, "the code to be as in the file", 10)
        with contextlib.closing(sqlite3.connect(self.dir / "store.db")) as store:
            check(store.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the store is damaged")
        status, out, err = spanprof("spans", "--store", self.dir / "store.db", "--json")
        check(status == 0 and json.loads(out), f"{out} {err}")

    def start_again(self):
        self.agent.command.__exit__()
        self.agent.start()
        for task in self.tasks:
            shown = self.agent.request("task.show", id=task)
            # A kill right after the request may come before the task was written.
            if not shown["ok"]:
                check(shown["error"]["code"] == "not_found", shown)
                continue
            wait_until(lambda task=task: self.agent.events(task)[-1] in SETTLED, f"task {task} taken up or told of")
        self.tasks = [t["id"] for t in self.agent.ask("task.list")["tasks"] if t["state"] != "finished"]

    def clear(self):
        for task in self.tasks:
            self.agent.ask("task.cancel", id=task)
        for task in self.tasks:
            self.agent.wait_state(task, "finished")
        self.tasks = []
        self.agent.wait_attached(0)

    def at(self, seconds):
        time.sleep(seconds * SLOW)  # the point in time is what is tested
        self.kill()
        self.start_again()


def while_it_attaches(w, seconds):
    w.create()
    w.at(seconds)


def while_it_profiles(w, seconds):
    w.create()
    w.agent.wait_attached(TARGETS)
    w.agent.wait_spans(1)
    w.at(seconds)


def while_it_detaches(w, seconds):
    task = w.create()
    w.agent.wait_attached(TARGETS)
    w.agent.ask("task.cancel", id=task)
    w.at(seconds)


def while_a_task_ends_by_itself(w, seconds):
    w.create(duration="300ms")
    w.agent.wait_attached(TARGETS)
    w.at(0.25 + seconds)


def while_it_stops(w, seconds):
    w.create()
    w.agent.wait_attached(TARGETS)
    w.agent.process.send_signal(signal.SIGTERM)
    w.at(seconds)


def while_it_reloads(w, seconds):
    w.create()
    w.agent.wait_attached(TARGETS)
    w.agent.process.send_signal(signal.SIGHUP)
    w.at(seconds)


POINTS = [(while_it_attaches, (0, 0.002, 0.006, 0.012, 0.025, 0.05)),
          (while_it_profiles, (0, 0.05, 0.3, 0.5, 0.52)),
          (while_it_detaches, (0, 0.003, 0.01, 0.03, 0.1)),
          (while_a_task_ends_by_itself, (0, 0.04, 0.06)),
          (while_it_stops, (0, 0.005, 0.02, 0.05)),
          (while_it_reloads, (0, 0.01))]


@test
def killed_at_any_point():
    with folder() as d, contextlib.ExitStack() as stack:
        w = World(d, stack)
        stack.callback(lambda: w.agent.__exit__(RuntimeError))
        for where, times in POINTS:
            for seconds in times:
                where(w, seconds)
                w.clear()
        check(len(w.agent.spans()) > 20, "hardly any spans were kept")
        ids = [s["span"] for s in w.agent.spans()]
        check(len(set(ids)) == len(ids), "ids of spans are not unique")
        for t in w.targets:
            check(t.end() == 0, "the target's own check")
            calls = t.truth("call")
            check(len(calls) > w.n_kills, f"{len(calls)} calls in all")
            check(all(c.duration >= CALL_MS * 1_000_000 for c in calls), "a call was cut short")
            check(all(a.end <= b.start for a, b in zip(calls, calls[1:])), "a call was entered twice")
        print(f"# {w.n_kills} kills")


@test
def killed_while_it_starts():
    """Again and again in its first moments: the BPF programs, the store and the socket are half made."""
    rules = {"service": "svc", "endpoint": "*", "threshold": "5ms", "duration": "10m"}
    with folder() as d, caller(1000, ms=15, gap=2) as target, Agent(d) as agent:
        task = agent.ask("task.create", task=rules)["id"]
        agent.wait_attached(1)
        target.go()
        agent.process.kill()
        agent.process.wait()
        random.seed(1)
        for _ in range(12):
            agent.launch()
            time.sleep(random.uniform(0.005, 0.4) * SLOW)  # the point in time is what is tested
            agent.process.kill()
            agent.process.wait()
            check(target.process.poll() is None, "the target died")
            wait_until(lambda: changed_code(target.pid) == 0, "the code to be as in the file", 10)
        agent.start()
        wait_until(lambda: agent.events(task)[-1] in SETTLED, "the task to be taken up")
        agent.wait_spans(1)


if __name__ == "__main__":
    main(needs=[need_bpf])
