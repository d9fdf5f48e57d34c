#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon while somebody sets the wall clock: by days, ahead and back, with a task that runs."""
import contextlib
import struct
import time

from agentlib import Agent, caller
from harness import SLOW, Skip, TARGETS, check, folder, main, need_bpf, test, wait_until

DAY = 86400
STEPS = (2 * DAY, -3 * DAY, 365 * DAY, -3600, 0)


class Clock:
    """What the agent's wall clock is ahead of the machine's."""

    def __init__(self, directory):
        if SLOW > 1:
            raise Skip("a sanitizer's library wants to be loaded first")
        self.path = directory / "clock"
        self.path.write_bytes(bytes(8))
        self.env = {"LD_PRELOAD": str(TARGETS / "clockstep.so"), "CLOCKSTEP": str(self.path)}
        self.ahead = 0

    def set(self, seconds):
        self.ahead = seconds
        with open(self.path, "r+b") as file:
            file.write(struct.pack("<q", int(seconds * 1e9)))

    def now_ms(self):
        return (time.time() + self.ahead) * 1000


def agent_with(stack):
    d = stack.enter_context(folder())
    clock = Clock(d)
    return clock, stack.enter_context(Agent(d, env=clock.env))


@test
def spans_have_the_time_of_day_that_is():
    with contextlib.ExitStack() as stack:
        clock, agent = agent_with(stack)
        target = stack.enter_context(caller(1000, ms=60, gap=10))
        agent.wait_instances(1)
        task = agent.create(duration="10m")
        agent.wait_attached(1)
        target.go()
        agent.wait_spans(2)
        for ahead in STEPS:
            clock.set(ahead)
            wait_until(lambda: abs(agent.spans()[0]["start_ms"] - clock.now_ms()) < 5000,
                       f"spans with the times of a clock that is {ahead} s ahead", 20)
            check(agent.task(task)["state"] == "running", "the task ended when the clock was set")
            check(all(55 < s["duration_ms"] < 2000 for s in agent.spans()), "a span's duration follows the wall clock")
        spans = agent.spans()
        check([s["span"] for s in spans] == sorted((s["span"] for s in spans), reverse=True), "newest first")
        check(agent.events(task) == ["received", "started"], agent.events(task))


@test
def starts_by_the_wall_clock_and_ends_by_the_other():
    with contextlib.ExitStack() as stack:
        clock, agent = agent_with(stack)
        stack.enter_context(caller())
        agent.wait_instances(1)
        task = agent.create(duration="2s", start_ms=int(clock.now_ms() + 3600e3))
        check(agent.task(task)["state"] == "queued", agent.task(task))
        clock.set(-DAY)
        second = agent.create(duration="60s", endpoint="other")
        agent.wait_state(second, "running")
        check(agent.task(task)["state"] == "queued", agent.task(task))
        clock.set(2 * 3600)
        begin = time.monotonic()
        agent.wait_state(task, "running")
        clock.set(-DAY)
        agent.wait_state(task, "finished")
        took = time.monotonic() - begin
        check(took > 1.5, f"2 s took {took} s")
        check(agent.task(second)["state"] == "running", "the other one ended, too")
        # It does not run beside one that it overlaps, whatever the clock says now.
        reply = agent.request("task.create", task={"service": "svc", "endpoint": "other", "duration": "60s"})
        check(not reply["ok"] and "overlaps" in reply["error"]["message"], reply)


@test
def a_restart_with_another_clock():
    """Time that has passed is known by the wall clock then: too much of it ends a task, a clock set back does not."""
    with contextlib.ExitStack() as stack:
        clock, agent = agent_with(stack)
        target = stack.enter_context(caller(1000, ms=60, gap=10))
        agent.wait_instances(1)
        task = agent.create(duration="10m")
        agent.wait_attached(1)
        target.go()
        kept = len(agent.wait_spans(2))
        for ahead, event in ((-DAY, "resumed"), (DAY, "interrupted")):
            agent.process.kill()
            agent.process.wait()
            clock.set(ahead)
            agent.start()
            wait_until(lambda event=event: event in agent.events(task), event)
            check(len(agent.spans()) >= kept - 1, "spans of the store are gone")


if __name__ == "__main__":
    main(needs=[need_bpf])
