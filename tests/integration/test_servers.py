#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL, Redis, MariaDB and Apache from Debian packages, under load: every request is counted,
names are right, and the time of a request that sleeps is where it sleeps."""
from harness import Skip, cases, check, folder, load, main, near, need_bpf, profiling, test
from servers import Apache, MariaDB, Postgres, Redis, symbol

MS = 1_000_000
SLEEP = 430 * MS
OPTIONS = ("--min-duration", "100ms", "--period", "10ms")


def slept(profile, name, function=None, length=SLEEP, cause=("sleep", "poll", "condition")):
    """The one span of this name: its time is blocked, below the function."""
    spans = profile.named(name)
    check(len(spans) == 1, f"{len(spans)} spans {name!r} of {[s.name for s in profile.spans]}")
    span = spans[0]
    check(length - 5 * MS < span.duration < length + 300 * MS, f"duration of {name!r}: {span.duration} ns")
    near(span.oncpu + span.runq + span.blocked, span.duration, 2, "parts against the duration")
    blocked = sum(s.wall for s in span.samples if s.kind == "blocked" and s.cause in cause)
    check(blocked > 0.95 * length, f"{blocked} of {span.duration} ns are blocked")
    if function:
        check(span.time_in(function) > 0.95 * length, f"{function}: {span.time_in(function)} of {span.duration} ns")
    return span


def no_losses(profile):
    bad = {k: v for k, v in profile.losses.items() if k.startswith(("ring_full", "unwind_no", "no_storage"))}
    check(not bad, f"losses: {bad}")


@test
def postgres():
    with Postgres() as server, folder() as path:
        with profiling(path / "out.json", "-p", server.pid, "--endpoint", "PortalRun(str(*(arg0+56)))", *OPTIONS):
            counted = server.bench("select 40 + 2;", clients=3, transactions=400)
            server.sql("select pg_sleep(0.43);\nselect 1;\n")
        profile = load(path / "out.json")
        check(profile.calls() == counted + 2, f"{profile.calls()} calls instead of {counted} + 2")
        slept(profile, "select pg_sleep(?);" if profile.named("select pg_sleep(?);") else "select pg_sleep(0.43);",
              "pg_sleep")
        no_losses(profile)


@test
def postgres_behind_a_jump():
    """ExecutorRun ends by jumping to it: its callers are known from the first call of each process on."""
    with Postgres() as server, folder() as path:
        with profiling(path / "out.json", "-p", server.pid, "--endpoint", "standard_ExecutorRun", *OPTIONS):
            counted = server.bench("select 40 + 2;", clients=3, transactions=100)
        profile = load(path / "out.json")
        check(profile.calls() == counted, f"{profile.calls()} calls instead of {counted}")
        check(profile.endpoints[0]["end_unknown"] == 0, f"{profile.endpoints[0]['end_unknown']} ends not seen")
        no_losses(profile)


@test
def postgres_work_and_locks():
    with Postgres() as server, folder() as path:
        server.sql("create table t as select g, md5(g::text) as m from generate_series(1, 60000) g;")
        with profiling(path / "out.json", "-p", server.pid, "--endpoint", "PortalRun(str(*(arg0+56)))",
                       "--min-duration", "20ms", "--period", "5ms"):
            server.sql("select count(*) from t a join t b using (m) where a.m > b.m || 'x' or a.g > 0;")
        profile = load(path / "out.json")
        check(len(profile.spans) == 1, f"spans {[s.name for s in profile.spans]}")
        span = profile.spans[0]
        near(sum(s.wall for s in span.samples), span.duration, 2, "samples against the duration")
        check(span.time_in("standard_ExecutorRun") > 0.5 * span.duration,
              f"the executor's time: {span.time_in('standard_ExecutorRun')} of {span.duration}")
        no_losses(profile)


@test
def redis():
    with Redis() as server, folder() as path:
        name = f"processCommand({server.name_expression()})"
        before = server.commands_processed()
        with profiling(path / "out.json", "-p", server.pid, "--endpoint", name, *OPTIONS):
            server.bench(1000, clients=4)
            server.cli("debug", "sleep", "0.43")
        counted = server.commands_processed() - before - 1
        profile = load(path / "out.json")
        check(profile.calls() == counted, f"{profile.calls()} calls instead of {counted}")
        slept(profile, "debug", "debugCommand")
        no_losses(profile)


@test
def mariadb():
    with MariaDB() as server, folder() as path:
        function = symbol(server.binary, r"^_Z16dispatch_command19enum_server_commandP3THDPcj")
        with profiling(path / "out.json", "-p", server.pid, "--endpoint", f"{function}(str(arg2, arg3))", *OPTIONS):
            server.sql("select 1;\n" * 400 + "select sleep(0.43);\n")
            server.wait_for_quits()
        profile = load(path / "out.json")
        check(profile.calls() == 402, f"{profile.calls()} calls instead of 400 + 1 and the quit")
        name = [s.name for s in profile.spans]
        check(name and "sleep" in name[0], f"spans {name}")
        span = slept(profile, name[0])
        functions = {f for s in span.samples for f in s.functions}
        check(any("mysql_execute_command" in f for f in functions), f"functions {sorted(functions)}")
        no_losses(profile)


@cases(["prefork", "event"])
def apache(mpm):
    with Apache(mpm) as server, folder() as path:
        with profiling(path / "out.json", "-p", server.pid, "--endpoint",
                       "ap_process_async_request(str(*(arg0+336)))", *OPTIONS):
            counted = server.bench("/index.html", requests=500, clients=4)
            counted += server.bench("/cgi/sleep", requests=1, clients=1, keepalive=False)
        profile = load(path / "out.json")
        check(profile.calls() == counted, f"{profile.calls()} calls instead of {counted}")
        span = slept(profile, "/cgi/sleep", "ap_process_async_request", 400 * MS,
                     ("sleep", "poll", "lock", "condition", "net", "io", "child"))
        functions = {f for s in span.samples for f in s.functions}
        check(any(f.startswith("ap_") for f in functions), f"functions {sorted(functions)}")
        no_losses(profile)


main(needs=[need_bpf])
