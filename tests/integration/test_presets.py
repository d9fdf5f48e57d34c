#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every preset on its server from Debian packages: calls equal what the clients count, names are right."""
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading

from harness import (SPANPROF, TARGETS, Lines, Skip, Spanprof, Target, cases, check, folder, load, main, need_bpf,
                     need_program, profiling, spanprof, stop, test)
from more_servers import ApachePhp, Nginx, PhpFpm, certificate
from servers import Apache, MariaDB, Postgres, Redis, Valkey, run

PYTHON = "/usr/bin/python3"
ALL = ("--min-duration", "1ns", "--max-samples", "0", "--max-parallel", "1000")


def names(profile):
    return {s.name for s in profile.spans}


def check_names(profile, slow, fast):
    """The slow call has this name; a machine that stalls makes others slow, too, whose names are like the pattern."""
    got = names(profile)
    check(slow in got and all(n == slow or re.fullmatch(fast, n) for n in got), f"names {got} instead of {slow!r}")


def preset(name, server, *options):
    return ("--preset", name, "-p", server.pid, *options)


@test
def postgres():
    with Postgres() as server, folder() as path:
        with profiling(path / "out.json", *preset("postgres", server, "--min-duration", "100ms")):
            server.sql("select 7;\n" * 200 + "select 1/0;\n" * 20 + "select pg_sleep(0.3), 'secret';\n")
        profile = load(path / "out.json")
        check(profile.calls() == 221, f"{profile.calls()} calls instead of 200 + 20 with errors + 1")
        endpoint = profile.endpoints[0]
        check(endpoint["ended"] == 221, f"{endpoint['ended']} ends instead of 221")
        check_names(profile, "select pg_sleep(?), ?", r"select \?.*")
        # foreign: a tick at which SP is above the frame of the begin call
        check(all(x.stop in ("complete", "none", "foreign") for s in profile.spans for x in s.samples),
              "stacks of a begin and end pair are complete")


@test
def postgres_prepared():
    with Postgres() as server, folder() as path:
        with profiling(path / "out.json", *preset("postgres", server)):
            script = server.dir / "script.sql"
            script.write_text("select 3;\n")
            run(["pgbench", "-n", "-M", "prepared", "-f", script, "-c", 1, "-t", 300, "-h", server.dir, "-U",
                 "postgres", "postgres"])
        calls = load(path / "out.json").calls()
        check(300 <= calls <= 305, f"{calls} calls for 300 executions")


@test
def postgres_parallel_worker():
    """A worker never reports that it is idle again: its span ends where it begins to exit."""
    with Postgres() as server, folder() as path:
        with profiling(path / "out.json", *preset("postgres", server, "--min-duration", "100ms")):
            server.sql("set max_parallel_workers_per_gather = 2;\n"
                       "select set_config(name, 'on', false) from pg_settings"
                       " where name in ('force_parallel_mode', 'debug_parallel_query');\n"
                       "select count(pg_sleep(0.3));\n")
        spans = load(path / "out.json").named("select count(pg_sleep(?))")
        check(len({s.pid for s in spans}) == len(spans) == 2, f"{len(spans)} spans instead of leader and worker")
        check({s.reason for s in spans} == {"end_probe"}, f"ends {[s.reason for s in spans]}")
        stops = {x.stop for s in spans for x in s.samples}
        check(stops <= {"complete", "none"}, f"stops {stops}")


@test
def postgres_usdt():
    """A USDT pair with semaphores; errors skip the end, the next query shows it."""
    with Postgres() as server, folder() as path:
        with profiling(path / "out.json", "-p", server.pid, "--endpoint",
                       "usdt:postgresql:query__start(str(arg0));end=usdt:postgresql:query__done", *ALL):
            server.sql("select 8;\n" * 50 + "select pg_sleep(0.1);\n")
        profile = load(path / "out.json")
        check(profile.calls() == 51, f"{profile.calls()} calls instead of 51")
        check(profile.endpoints[0]["ended"] == 51, f"{profile.endpoints[0]['ended']} ends")
        check("select pg_sleep(0.1);" in names(profile), f"names {names(profile)}")


@test
def mariadb():
    with MariaDB() as server, folder() as path:
        with profiling(path / "out.json", *preset("mariadb", server, "--min-duration", "100ms")):
            server.sql("select 1;\n" * 100 + "select sleep(0.3), 'secret', 1, \"se\\\"cret\";\n")
        profile = load(path / "out.json")
        # The client does not wait for its quit, which may come after the end of the run.
        check(profile.calls() in (101, 102), f"{profile.calls()} calls instead of 100 + 1 and the quit")
        check_names(profile, "select sleep(?), ?", r"select \?|QUIT.*")


@test
def mariadb_statements():
    with MariaDB() as server, folder() as path:
        with profiling(path / "out.json", *preset("mariadb-statements", server, "--min-duration", "100ms")):
            server.sql("prepare p from 'select sleep(?)';\nset @t = 0.3;\nexecute p using @t;\n")
        check("select sleep(?)" in names(load(path / "out.json")), f"names {names(load(path / 'out.json'))}")


@test
def mysql():
    """With MySQL's function and structures, as Debian has no server of it."""
    with folder() as path, Target("mysqld", 5) as target:
        with profiling(path / "out.json", "--preset", "mysql", "-p", target.pid, "--min-duration", "1ms", "--period", "1ms"):
            target.play()
        check(target.end() == 0, "the target's own checks")
        profile = load(path / "out.json")
        check(profile.calls() == 20 and profile.endpoints[0]["ended"] == 20, f"{profile.calls()} calls of 20")
        got = {n["name"] for n in profile.endpoints[0]["names"]}
        check(got == {"select ?", "PREPARE select ? from tables", "INIT DB shop", "PING ?"}, f"names {got}")


@cases(["redis", "valkey"])
def redis(kind):
    with {"redis": Redis, "valkey": Valkey}[kind]() as server, folder() as path:
        server.name_expression()  # or the preset does not know it either
        before = server.commands_processed()
        with profiling(path / "out.json", *preset(server.name, server, "--min-duration", "100ms")):
            server.bench(500, clients=4)
            server.cli("DEBUG", "sleep", "0.3")
        counted = server.commands_processed() - before - 1
        profile = load(path / "out.json")
        check(profile.calls() == counted, f"{profile.calls()} calls instead of {counted}")
        check_names(profile, "debug", "[a-z]+")


class FutureRedis(Redis):
    """The same program, but what it says of its version is one that nobody knows."""

    def prepare(self):
        super().prepare()
        program = pathlib.Path(self.binary).read_bytes()
        digits = rb"[0-9]{8}"
        changed, n = re.subn(rb"\d\.\d(\.\d+" + digits + rb")", rb"9.9\1", program)
        check(n, "the program has its build ID")
        self.binary = self.program = str(self.dir / "redis-server")
        pathlib.Path(self.binary).write_bytes(changed)
        os.chmod(self.binary, 0o755)


@test
def an_unknown_version_is_profiled_without_names():
    with FutureRedis() as server, folder() as path:
        with profiling(path / "out.json", *preset("redis", server, "--min-duration", "100ms")) as command:
            server.bench(100, clients=1)
            server.cli("DEBUG", "sleep", "0.3")
        check("cannot name endpoints of this build, profiling without names" in command.stderr, command.stderr)
        check("what its name expression reads" not in command.stderr, f"a second reason: {command.stderr}")
        profile = load(path / "out.json")
        check(profile.calls() > 200 and names(profile) == {"command"}, f"{profile.calls()} {names(profile)}")


def counted_and_named(name, server, fast, slow):
    """fast: path, requests, clients. Each request is a call; only the one that is slow has a span, of its path's name."""
    with folder() as path:
        with profiling(path / "out.json", *preset(name, server, "--min-duration", "300ms")):
            counted = server.bench(*fast) + server.bench(slow, 1, 1, keepalive=False)
        profile = load(path / "out.json")
        check(profile.calls() == counted, f"{profile.calls()} calls instead of {counted}")
        check_names(profile, "GET " + slow.split("?")[0], "GET " + re.escape(fast[0]))


@cases(["prefork", "worker", "event"])
def apache(mpm):
    with Apache(mpm) as server:
        counted_and_named("apache", server, ("/index.html", 300, 4), "/cgi/sleep?id=12")


@test
def php_fpm():
    with PhpFpm() as server, folder() as path:
        with profiling(path / "out.json", *preset("php-fpm", server, "--min-duration", "300ms")):
            for how in ["how=plain"] * 30 + ["how=fatal"] * 5 + ["how=exit"] * 5 + ["how=slow"]:
                server.request(how)
        profile = load(path / "out.json")
        check(profile.calls() == 41, f"{profile.calls()} calls instead of 41")
        check(profile.endpoints[0]["ended"] == 41, f"{profile.endpoints[0]['ended']} ends")
        check(names(profile) == {"GET /index.php"}, f"names {names(profile)}")


@test
def php_usdt():
    with PhpFpm() as server, folder() as path:
        if not server.has_usdt():
            raise Skip("this php-fpm was built without USDT probes")
        with profiling(path / "out.json", "-p", server.pid, "--endpoint",
                       "usdt:php:request__startup(str(arg2) \" \" str(arg1));end=usdt:php:request__shutdown", *ALL):
            for _ in range(20):
                server.request("how=plain")
        profile = load(path / "out.json")
        check(profile.calls() == 20, f"{profile.calls()} calls instead of 20")


@test
def mod_php():
    with ApachePhp() as server:
        counted_and_named("mod_php", server, ("/index.php", 100, 2), "/index.php?how=slow")


@test
def nginx():
    with Nginx() as server, folder() as path:
        with profiling(path / "out.json", *preset("nginx", server, *ALL)):
            counted = server.bench("/index.html?x=1", requests=200, clients=2)
        profile = load(path / "out.json")
        check(profile.calls() == counted, f"{profile.calls()} calls instead of {counted}")
        if server.version in ("1.18", "1.22", "1.26", "1.30"):
            # the calls are so short that a run in which no tick met one has no names
            check(names(profile) <= {"GET /index.html"}, f"names {names(profile)}")
            _, explained, _ = spanprof("presets", "nginx")
            spec = re.search(r"^endpoints +(.*)$", explained, re.M)[1]
            with under_load(server):
                status, out, err = spanprof("probes", "-p", server.pid, "--for", "2s", "--check", spec)
            check(status == 0 and re.search(r"^names +GET /index\.html$", out, re.M), out + err)


@test
def nginx_in_front_of_others():
    """By a proxy, by FastCGI, by HTTP/2: a call for each request, whoever answers it, also with an error."""
    need_program("curl")

    class Front(Nginx):
        also = ("listen 127.0.0.1:{h2_port} ssl http2; ssl_certificate CERT/cert.pem; ssl_certificate_key CERT/key.pem;\n"
                "location /proxy/ { proxy_pass http://127.0.0.1:{port}/; }\n"
                "location /php { fastcgi_pass unix:PHP/php.sock; fastcgi_param SCRIPT_FILENAME PHP/index.php;\n"
                "fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string; }\n"
                "location /gone { proxy_pass http://127.0.0.1:1/; }\n")

    with PhpFpm() as php, folder() as path:
        certificate(path)
        Front.also = Front.also.replace("PHP", str(php.dir)).replace("CERT", str(path))
        with Front() as server:
            def ask(url, *options):
                """The HTTP version and status of each answer; [1-N] in the URL makes N requests of one connection."""
                return run(["curl", "-s", "-k", *options, "-o", "/dev/null", "-w", "%{http_version}/%{http_code} ",
                            url]).split()

            with profiling(path / "out.json", *preset("nginx", server, *ALL)):
                counted = 2 * server.bench("/proxy/index.html", requests=100, clients=2)  # it is its own upstream
                for where, n, want in (("/php?how=plain&n=[1-20]", 20, "1.1/200"), ("/php?how=fatal&n=[1-5]", 5, "1.1/200"),
                                       ("/php?how=slow", 1, "1.1/200"), ("/gone?n=[1-5]", 5, "1.1/502"),
                                       ("/nosuch?n=[1-5]", 5, "1.1/404")):
                    got = ask(f"http://127.0.0.1:{server.port}{where}")
                    check(got == [want] * n, f"{where}: {got}")
                    counted += n
                if "HTTP2" in run(["curl", "--version"]):
                    check(ask(f"https://127.0.0.1:{server.h2_port}/index.html?n=[1-60]", "--http2", "--parallel") ==
                          ["2/200"] * 60, "HTTP/2")
                    counted += 60
        endpoint, = load(path / "out.json").endpoints
        # A client has its answer before the function returns.
        check(endpoint["calls"] == counted and counted - 1 <= endpoint["ended"] <= counted,
              f"{endpoint['calls']} calls, {endpoint['ended']} ends instead of {counted}")


SQLITE = """
import sqlite3, sys, time
db = sqlite3.connect(":memory:")
db.create_function("nap", 1, lambda s: time.sleep(s))
print("ready", flush=True)
sys.stdin.readline()
for i in range(10):
    db.execute("select nap(0.05), 'secret', %d" % i).fetchall()
print("done", flush=True)
sys.stdin.readline()
"""

TLS = """
import socket, ssl, sys, threading, time
c = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
c.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
k = ssl.create_default_context()
k.check_hostname, k.verify_mode = False, ssl.CERT_NONE
a, b = socket.socketpair()
def serve():
    with c.wrap_socket(a, server_side=True) as s:
        while data := s.recv(100):
            time.sleep(0.03 if data == b"slow" else 0)
            s.sendall(data)
t = threading.Thread(target=serve, daemon=True)
t.start()
with k.wrap_socket(b) as s:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(40):
        s.sendall(b"secret" if i else b"slow")
        s.recv(100)
    print("done", flush=True)
    sys.stdin.readline()
"""


def play(path, source, *options, args=()):
    """Runs a Python program that waits for a line before its work, and profiles it."""
    with subprocess.Popen([PYTHON, "-c", source, *map(str, args)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        try:
            lines = Lines(process.stdout)
            lines.wait_for("^ready$")
            with profiling(path / "out.json", "-p", process.pid, *options):
                process.stdin.write(b"go\n")
                process.stdin.flush()
                lines.wait_for("^done$")
        finally:
            stop(process)
    return load(path / "out.json")


@test
def sqlite():
    with folder() as path:
        profile = play(path, SQLITE, "--preset", "sqlite", "--min-duration", "20ms")
        naps = [s for s in profile.spans if s.name == "select nap(?), ?"]
        check(len(naps) == 10, f"{len(naps)} statements of 10; names {names(profile)}")
        check(profile.calls() == 20, f"{profile.calls()} steps: a row and the end, ten times")


@test
def openssl():
    with folder() as path:
        certificate(path)
        profile = play(path, TLS, "--preset", "openssl", "--min-duration", "1s", args=[path])
        calls = {e["name"]: e["calls"] for e in profile.endpoints}
        writes = calls.get("SSL_write", 0) + calls.get("SSL_write_ex", 0)
        check(writes == 80, f"{writes} writes instead of 40 of each side; {calls}")


@test
def values_that_are_filled_in_by_the_call():
    """The buffer's address is read at entry, what is in it and how much of it at leave."""
    with folder() as path:
        certificate(path)
        profile = play(path, TLS, "--endpoint", "'libssl.so*':SSL_read_ex;leave-name=str(entry(arg1), *entry(arg3))",
                       "--min-duration", "20ms", args=[path])
        check("slow" in names(profile), f"names {names(profile)}")


FOUND = {
    "postgres": (Postgres, lambda s: s.bench("select 1", 1, 50)),
    "mariadb": (MariaDB, lambda s: s.sql("select 1;" * 50), "mariadb-statements"),
    "redis": (Redis, lambda s: s.bench(100, clients=1)),
    "apache": (Apache, lambda s: s.bench("/index.html", 50, 1)),
    "php-fpm": (PhpFpm, lambda s: [s.request("how=plain") for _ in range(50)]),
    "mod_php": (ApachePhp, lambda s: s.bench("/index.php", 50, 1)),
    "nginx": (Nginx, lambda s: s.bench("/index.html", 50, 1)),
}


@cases(list(FOUND))
def servers_are_found(name):
    """No process is named: the preset finds it, and so does another one for the same server."""
    make, work, *others = FOUND[name]
    with make() as server, folder() as path:
        for preset_name in (name, *others):
            with profiling(path / "out.json", "--preset", preset_name, "--min-duration", "200ms"):
                work(server)
            calls = sum(e["calls"] for e in load(path / "out.json").endpoints)
            check(calls >= 50, f"{preset_name}: {calls} calls of this server")


@cases(["found", "-p"])
def two_presets(how):
    """Each server has the endpoints of its own preset, none is asked for those of the other."""
    with Redis() as redis, Apache("event") as apache, folder() as path:
        target = () if how == "found" else ("-p", f"{redis.pid},{apache.pid}")
        with profiling(path / "out.json", "--preset", "redis", "--preset", "apache", "--preset", "redis", *target,
                       "--min-duration", "200ms") as command:
            redis.bench(100, clients=1)
            redis.cli("debug", "sleep", "0.25")
            apache.bench("/index.html", 50, 1)
            apache.bench("/cgi/sleep", 1, 1, keepalive=False)
        profile = load(path / "out.json")
        check(not command.stderr.count("warning"), command.stderr)
        calls = {e["name"]: e["calls"] for e in profile.endpoints if e["calls"]}
        check(set(calls) == {"redis command", "apache request"} and min(calls.values()) >= 51, f"{calls}")
        modules = {s.pid: {m for x in s.raw["samples"] for m in files_of(profile, x)} for s in profile.spans}
        check(set(map(len, modules.values())) == {1}, f"{modules}")
        check({n for m in modules.values() for n in m} == {"redis-check-rdb", "apache2"}, f"{modules}")


@cases(["found", "-p"])
def two_presets_for_one_server(how):
    """It has the endpoints of both; of a third one, for a library that it does not have, there is a word."""
    with ApachePhp() as server, folder() as path:
        target = () if how == "found" else ("-p", server.pid)
        with profiling(path / "out.json", "--preset", "apache", "--preset", "mod_php", "--preset", "sqlite", *target,
                       "--min-duration", "200ms") as command:
            server.bench("/index.php", 50, 1)
        calls = {e["name"]: e["calls"] for e in load(path / "out.json").endpoints if e["calls"]}
        check(set(calls) == {"apache request", "mod_php request"} and min(calls.values()) >= 50, f"{calls}")
        check("warning: preset 'sqlite': no process had its endpoints" in command.stderr, command.stderr)
        check(command.stderr.count("warning: preset") == 1, command.stderr)
        check(command.stderr.count("has no file 'libsqlite3.so*' mapped") == 1, "said once, not for each process: "
              + command.stderr)


def files_of(profile, sample):
    """The program in which the endpoint of a sample's stack is."""
    root = profile.raw["stacks"][sample["stack"]]["locations"][-1]
    return {os.path.basename(profile.raw["modules"][profile.raw["locations"][root]["module"]]["path"])}


@test
def a_preset_file_of_ones_own():
    with Redis() as server, folder() as path:
        (path / "mine").write_text("[mine]\nsummary = my own\nexe = redis-*\nendpoint = processCommand;as=mine\n")
        with profiling(path / "out.json", "--preset-file", path / "mine", "--preset", "mine", "-p", server.pid):
            server.bench(100, clients=1)
        check(load(path / "out.json").endpoints[0]["name"] == "mine", "the endpoint is called as the preset says")


@test
def an_endpoint_for_another_build_is_left_out():
    """Of two that are called the same: no second row, and one warning of an idle server, not two."""
    with Postgres() as server, folder() as path:
        with profiling(path / "out.json", *preset("postgres", server, "--min-duration", "100ms")) as command:
            command.err.wait_for("no call of 'query' was seen")
            server.sql("select 1;\n")
        check(command.stderr.count("no call of") == 1, command.stderr)
        check("has the call begun before" in command.stderr, command.stderr)
        names_of_all = [e["name"] for e in load(path / "out.json").endpoints]
        check(names_of_all == ["query"], f"endpoints {names_of_all}")


VARIANTS = """[mine]
summary = x
exe = NAME
endpoint = request;as=here;file=*/NAME
endpoint = phase_pipe;as=elsewhere;file=!*/NAME
"""


@cases(["-p", "--exe", "--exe link", "command", "found"])
def variants(how):
    """By whatever the programs are named, endpoints for other ones are no part of the result."""
    name = f"variants-{os.getpid()}"  # what other tests run side by side is not found
    with folder() as path:
        program = pathlib.Path(shutil.copy(TARGETS / "phases-gcc-O2", path / name))
        (path / "mine").write_text(VARIANTS.replace("NAME", name))
        (path / "link").symlink_to(program)
        with Target(program, "-w", "a=sleep:30") as target:
            named = {"-p": ["-p", target.pid], "--exe": ["--exe", program], "--exe link": ["--exe", path / "link"],
                     "command": ["--", program, "a=sleep:30"], "found": []}[how]
            options = ["--preset-file", path / "mine", "--preset", "mine", "--min-duration", "1ms", *named]
            with Spanprof("run", "-o", path / "out.json", "--format", "json", *options) as command:
                command.wait_attached()
                if how != "command":
                    target.play()
                status = command.finish(None if how == "command" else signal.SIGINT)
        check(status == 0, command.stderr)
        profile = load(path / "out.json")
        check([e["name"] for e in profile.endpoints] == ["here"], f"{profile.endpoints}")
        check(profile.calls() == 1, f"{profile.calls()} calls")


class HiddenRedis(Redis):
    """Its program is on a file system that only its own mount namespace has, as in a container."""

    def command(self):
        need_program("unshare")
        hidden = self.dir / "hidden"
        hidden.mkdir()
        words = shlex.join(map(str, super().command()[1:]))
        script = f"mount -t tmpfs none {hidden} && cp {self.binary} {hidden}/redis-hidden && exec {hidden}/redis-hidden {words}"
        return ["unshare", "--mount", "sh", "-c", script]


@test
def a_server_in_a_container_is_found():
    with HiddenRedis() as server, folder() as path:
        check(not (server.dir / "hidden/redis-hidden").exists(), "the program is not there for spanprof")
        (path / "mine").write_text("[mine]\nsummary = x\nexe = redis-hidden\nendpoint = processCommand\n")
        with profiling(path / "out.json", "--preset-file", path / "mine", "--preset", "mine", "--min-duration", "1s"):
            server.bench(100, clients=1)
        check(load(path / "out.json").calls() >= 200, "the calls of this server are there")


@test
def mistakes():
    with folder() as path:
        (path / "bad").write_text("[mine]\nsummary = x\nexe = x\nendpoint = f(\n")
        status, _, err = spanprof("presets", "--preset-file", path / "bad")
        check(status == 1 and "bad:4:14" in err, err)
        status, _, err = spanprof("run", "--preset", "nosuch", "--for", "1s")
        check(status == 2 and "postgres" in err, err)
        status, _, err = spanprof("presets", "posgres")
        check(status == 2 and "no preset 'posgres'; did you mean 'postgres'? there are: " in err, err)


@test
def commands():
    for command in (["presets"], ["presets", "postgres"], ["doctor"], ["doctor", "--json"]):
        done = subprocess.run([SPANPROF, *command], capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == 0 and done.stdout, f"{command}: {done.returncode} {done.stderr}")


@test
def probes_of_a_server():
    with Redis() as server:
        status, out, err = spanprof("probes", "-p", server.pid, "processC*")
        check(status == 0 and "processCommand" in out, out + err)
        check("known, see 'spanprof presets': --preset redis" in err, err)
        status, out, err = spanprof("probes", "-p", server.pid, "no_such_thing*")
        check(status == 1 and "no function" in err, err)
        status, out, err = spanprof("probes", "-p", server.pid, "--check", "processComand")
        check(status == 1 and "processCommand" in err, f"the nearest name is told: {err}")
        status, out, err = spanprof("run", "-p", server.pid, "--endpoint", "processComand")
        check(status == 1 and "--preset redis" in err, err)


def rows_of_count(server, work, *words):
    """probes --count while two clients work: the functions in its order, each with its columns."""
    done = threading.Event()

    def client():
        while not done.is_set():
            work()

    threads = [threading.Thread(target=client) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        status, out, err = spanprof("probes", "-p", server.pid, "--count", "3s", *words, seconds=120)
    finally:
        done.set()
        for t in threads:
            t.join()
    check(status == 0, err)
    return {row.split("  (too busy")[0].split()[-1]: row.split() for row in out.splitlines()[1:]}


COUNTED = {
    "php-fpm": (PhpFpm, lambda s: s.request("how=plain"), ("php_execute_script", "php_request_startup")),
    "mariadb": (MariaDB, lambda s: s.sql("select 1;\n" * 50), ("dispatch_command",)),
    "redis": (Redis, lambda s: s.bench(200, clients=2), ("processCommand",)),
}


@cases(list(COUNTED))
def endpoints_are_found_by_counting(name):
    """Without a pattern: those that serve the requests are among the first, with the rate of the requests."""
    make, work, wanted = COUNTED[name]
    with make() as server:
        rows = rows_of_count(server, lambda: work(server))
        first = list(rows)[:10]
        check(set(wanted) <= set(first), f"{wanted} are not among {first}")
        for function in wanted:
            calls, ends = int(rows[function][1]), int(rows[function][2])
            check(calls > 20 and 0.7 * calls <= ends <= calls + 2, f"{rows[function]}")


@cases(["threads", "prefork"])
def what_serves_requests_comes_before_housekeeping(kind):
    """What one thread does, a timer or a poll, has more time in it than what the two workers do together."""
    with Target("housekeeping", *[kind] * (kind == "prefork")) as target:
        status, out, err = spanprof("probes", "-p", target.pid, "--count", "3s", seconds=120)
    check(status == 0, err)
    check(out.splitlines()[0].split()[-3] == "threads", out)
    rows = [row.split() for row in out.splitlines()[1:]]
    check([row[-1] for row in rows] == ["handle_request", "process_poll_event", "process_timer_query"], out)
    check([row[-3] for row in rows] == ["2", "1", "1"], out)
    check(float(rows[1][-5]) > float(rows[0][-5]), f"the poll has more time in it: {out}")
    check(int(rows[0][2]) > 50 and int(rows[1][2]) > 10 and int(rows[2][2]) > 0, out)


@test
def probes_of_postgres():
    """USDT probes with their semaphores are listed, and a dry run of one shows its place and the names that it reads."""
    with Postgres() as server:
        status, out, err = spanprof("probes", "-p", server.pid, "query__*")
        check(status == 0, out + err)
        for leave, what in (("end", "start  1 argument"), ("retsite", "done  1 argument")):
            check(re.search(f"(?m)^cheap +{leave} +- +usdt:postgresql:query__{what}, semaphore .postgres.$", out), out)
        status, out, err = spanprof("probes", "-p", server.pid)
        sort = [t for t in out.splitlines() if "usdt:postgresql:sort__start " in t]
        check(status == 0 and len(sort) == 1 and " places " in sort[0], f"{sort} {err}")
        status, out, err = spanprof("doctor", "-p", server.pid)
        check(status == 0 and f"spanprof run -p {server.pid} --preset postgres" in out, out + err)
        done = threading.Event()

        def work():
            while not done.is_set():
                server.sql("".join(f"select {i};\n" for i in range(20)))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            status, out, err = spanprof("probes", "-p", server.pid, "--check", "usdt:postgresql:query__start(str(arg0))")
        finally:
            done.set()
            thread.join()
        check(status == 0 and "semaphore" in out and "leave      end" in out, out + err)
        check(re.search("(?m)^reads +at entry: text at r[a-z0-9]+$", out), out)
        names_read = [t[11:] for t in out[out.index("names"):].splitlines()]
        check(len(names_read) == 10 and all(n.startswith("select ") for n in names_read), f"{names_read}")


class ChurningApache(Apache):
    """Its workers serve a few connections each, so that most of them are forked while it is watched."""

    def prepare(self):
        super().prepare()
        with open(self.dir / "httpd.conf", "a", encoding="utf-8") as conf:
            conf.write("MaxConnectionsPerChild 5\n")


@contextlib.contextmanager
def under_load(server, **options):
    """Requests until the block ends."""
    done = threading.Event()

    def work():
        while not done.is_set():
            server.bench("/index.html", 100, 2, **options)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@test
def probes_see_workers_that_are_forked_later():
    with ChurningApache("prefork") as server, under_load(server, keepalive=False):
        status, out, err = spanprof("probes", "-p", server.pid, "--count", "3s", "ap_process_*request")
        check(status == 0, err)
        rows = {row.split()[-1]: row.split() for row in out.splitlines()[1:]}
        check("ap_process_async_request" in rows, out)
        rate, calls, ends = (float(x) for x in rows["ap_process_async_request"][:3])
        # Two workers of 5 connections each cannot have served these.
        check(calls > 10, f"the calls of later workers are counted: {out}")
        check(ends > calls * 0.7, f"ends are seen: {out}")
        check(int(rows["ap_process_async_request"][-3]) > 2, f"each worker is a thread: {out}")
        check(calls / 12 < rate <= calls / 3 + 1, f"calls are divided by the time in which they were counted: {out}")
        status, out, err = spanprof("probes", "-p", server.pid, "--for", "3s", "--check",
                                    "ap_process_async_request(str(*(arg0+336)))")
        check(status == 0 and "/index.html" in out, out + err)
        calls, ends = (int(x) for x in re.search(r"(\d+) calls .* (\d+) with an end", out).groups())
        check(calls > 10 and ends > calls * 0.7, out)


sys.dont_write_bytecode = True
main(needs=[need_bpf])
