# SPDX-License-Identifier: Apache-2.0
"""A running spanprof agent, as the tests of the daemon use it."""
import atexit
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

from harness import Spanprof, Target, check, stop, wait_until, SLOW, SPANPROF, TARGETS


def private_copy(program):
    """A program of this test's own: what others run of it, side by side, is none of its agent's business."""
    directory = tempfile.mkdtemp(prefix="spanprof-test-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return pathlib.Path(shutil.copy(program, directory))


EXE = private_copy(TARGETS / "phases-gcc-O2")
RULES = f"""
agent: {{socket: DIR/sock, store: DIR/store.db, scan_interval: 100ms}}
services:
- name: svc
  match: [{{exe: {EXE}}}]
  instance: "i-{{pid}}"
  endpoints: [{{spec: "request(str(arg0))"}}]
"""


# A sanitizer looks for leaks with system calls and rights that an agent has given up.
UNGUARDED = ["--keep-privileges"] if SLOW > 1 else []


class Agent:
    """A running agent in a folder of its own; ask() is one request on one connection."""

    def __init__(self, directory, rules=RULES, env=None, prefix=(), options=()):
        self.dir = pathlib.Path(directory)
        self.config = self.dir / "rules.yaml"
        self.env, self.prefix, self.options = env, prefix, [*options, *UNGUARDED]
        self.write(rules)
        self.start()

    def write(self, rules):
        self.config.write_text(rules.replace("DIR", str(self.dir)))

    def launch(self):
        if self.prefix:
            self.log = open(self.dir / "log", "wb")
            self.process = subprocess.Popen(
                [*self.prefix, SPANPROF, "agent", "-c", str(self.config), *self.options],
                stdin=subprocess.DEVNULL, stderr=self.log, env={**os.environ, **(self.env or {})})
        else:
            self.command = Spanprof("agent", "-c", self.config, *self.options, env=self.env)
            self.process = self.command.process

    def start(self):
        self.launch()
        if self.prefix:
            wait_until(lambda: "event=started" in (self.dir / "log").read_text(), "the agent's start")
        else:
            self.command.err.wait_for("event=started")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        running = kind is None and self.process.poll() is None
        if running:
            refused = metric(self, "refused_calls_total")
        status = stop(self.process)
        if kind and issubclass(kind, AssertionError):
            print("\n".join(f"# {line}" for line in self.text().splitlines()[-40:]))
        if running:
            check(refused == 0, f"the agent made {refused} system calls that its filter refuses")
            check(status == 0, f"exit status {status}: {self.text()[-3000:]}")

    def text(self):
        """What it has logged."""
        if self.prefix:
            return (self.dir / "log").read_text(errors="replace")
        return self.command.err.drain(5)

    def request(self, cmd, **members):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.dir / "sock"))
            s.settimeout(30 * SLOW)
            s.sendall(json.dumps({"v": 1, "cmd": cmd, **members}).encode() + b"\n")
            return json.loads(s.makefile("rb").readline())

    def ask(self, cmd, **members):
        reply = self.request(cmd, **members)
        check(reply["ok"], f"{cmd}: {reply}")
        return reply["result"]

    def create(self, **task):
        task = {"service": "svc", "endpoint": "*", "threshold": "50ms", "period": "10ms", **task}
        return self.ask("task.create", task=task)["id"]

    def task(self, task_id):
        return self.ask("task.show", id=task_id)

    def wait_state(self, task_id, state):
        wait_until(lambda: self.task(task_id)["state"] == state, f"task {task_id} {state}")

    def wait_attached(self, number=1):
        wait_until(lambda: self.ask("top")["attached_processes"] == number, f"{number} processes attached")

    def wait_instances(self, number):
        found = []

        def are_there():
            found[:] = self.ask("instance.list")["instances"]
            return len(found) == number

        wait_until(are_there, f"{number} instances")
        return found

    def spans(self, **members):
        return self.ask("span.list", limit=1000, **members)["spans"]

    def wait_spans(self, number, **members):
        return wait_until(lambda: len(self.spans(**members)) >= number and self.spans(**members),
                          f"{number} spans {members}")

    def events(self, task_id):
        return [e["event"] for e in reversed(self.ask("task.log", id=task_id)["log"])]

    def rss(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) * 1024


def caller(calls=5, name="a", ms=100, gap=20):
    """Makes this many slow calls once it is told to, and stays."""
    return Target(EXE, "-w", "-n", calls, "-g", gap, f"{name}=sleep:{ms}")


def metric(agent, name):
    text = agent.ask("metrics")["text"]
    return float(re.search(rf"^spanprof_{name} (\S+)$", text, re.MULTILINE)[1])
