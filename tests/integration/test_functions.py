#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of real servers that could be endpoints, several at a time, under load with errors.

What each counts is known from what the clients did; a call that is left by an error has no end.
"""
import re
import socket
import subprocess
import sys
import threading

from harness import (TARGETS, Lines, Skip, Spanprof, Target, cases, check, folder, load, main, need_bpf, need_program,
                     profiling, spanprof, stop, test)
from more_servers import ApachePhp, Nginx, PhpFpm, certificate
from servers import Apache, MariaDB, Postgres, Redis, Server, free_port, run

OPTIONS = ("--min-duration", "100ms", "--period", "10ms")
PYTHON = "/usr/bin/python3"


class Counts:
    """The endpoints of one run, in the order in which they were given."""

    def __init__(self, path, specs):
        self.profile = load(path)
        names = list(specs)
        rows = self.profile.endpoints
        check(len(rows) == len(names), f"{len(rows)} endpoints of {len(names)}")
        self.rows = dict(zip(names, rows))
        self.bad = []

    def expect(self, name, calls, ended=None, names=None, fast="", late=0, still_open=0):
        """ended: None is all of them; late: so many may end before their return site is known.

        still_open: so many may end after what the client gets of them, and after the run.
        names: of the slow calls; fast: a pattern of the others' names, some of which a stalled machine makes slow.
        """
        row = self.rows[name]
        ended = calls if ended is None else ended
        if row["calls"] != calls or not ended - late - still_open <= row["ended"] <= ended:
            self.bad.append(f"{name}: {row['calls']} calls and {row['ended']} ends instead of {calls} and {ended}")
        if not 0 <= row["calls"] - row["ended"] - row["end_unknown"] - row["unwound"] <= still_open:
            self.bad.append(f"{name}: {row['calls'] - row['ended']} calls did not end; {row['end_unknown']} are counted "
                            f"as unknown, {row['unwound']} as unwound")
        got = {n["name"] for n in row["names"]}
        if names is not None and (names - got or not all(re.fullmatch(fast, n) for n in got - names)):
            self.bad.append(f"{name}: names {got} instead of {names} and some like {fast!r}")

    def end(self):
        check(not self.bad, "\n".join(self.bad))


def watched(server, specs, work, options=OPTIONS):
    """Counts of the endpoints of a dictionary {name: spec} while work() is done."""
    words = [o for s in specs.values() for o in ("--endpoint", s)]
    with folder() as path:
        with profiling(path / "out.json", "-p", server.pid, *words, *options):
            work()
        return Counts(path / "out.json", specs)


def all_at_once(*works):
    """Each in a thread of its own; the first failure is raised."""
    failures = []

    def guard(work):
        try:
            work()
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=guard, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


POSTGRES = {
    "portal": "PortalRun(str(*(arg0+56)))",
    "parse": "pg_parse_query(str(arg0))",
    "executor": "standard_ExecutorRun(str(*(arg0+16)))",
    "utility": "ProcessUtility(str(arg1))",
    "usdt": "usdt:postgresql:query__start(str(arg0));end=usdt:postgresql:query__done",
    "transaction": "usdt:postgresql:transaction__start;leave=retsite",
}


@test
def postgres():
    """Errors jump over the frames of the functions (siglongjmp), and over the end of the USDT pair."""
    plain, failing, syntax, utility, several = 100, 40, 20, 10, 10
    script = ("select 1;\n" * plain + "select 1/(g-1) from generate_series(1, 1) g;\n" * failing + "selec 1;\n" * syntax +
              "set work_mem = '4MB';\n" * utility + "select 1\\; select 2\\; select 3;\n" * several +
              "select pg_sleep(0.15);\n" + "do $$ begin perform pg_sleep(0.15); end $$;\n")
    with Postgres() as server:
        counted = []
        c = watched(server, POSTGRES, lambda: all_at_once(
            lambda: server.sql(script), lambda: counted.append(server.bench("select 2;", clients=3, transactions=200))))
    n = counted[0] + plain + 1
    strings = n + failing + syntax + utility + several + 1
    slow, block = "select pg_sleep(0.15);", "do $$ begin perform pg_sleep(0.15); end $$;"
    c.expect("portal", n + failing + utility + 3 * several + 1, n + utility + 3 * several + 1, {slow, block}, "se.*")
    c.expect("parse", strings, strings - syntax)
    # the block has a statement of its own, in an executor run or by way of an expression
    inside = c.rows["executor"]["calls"] - (n + failing + 3 * several)
    check(inside in (0, 1), f"{inside} runs of the executor inside the block")
    # It is reached by a jump, so that its callers are not known ahead: those of the first moments are missed.
    c.expect("executor", n + failing + 3 * several + inside, n + 3 * several + inside, late=n)
    c.expect("utility", utility + 1, names={block}, fast="set .*")
    c.expect("usdt", strings, strings - failing - syntax, {slow, block}, "se.*")
    c.expect("transaction", strings + 5)  # one more for each connection, pgbench's first one included
    c.end()


@test
def postgres_protocols():
    with Postgres() as server:
        script = server.dir / "script.sql"
        script.write_text("select 3;\n")

        def bench(mode):
            run(["pgbench", "-n", "-M", mode, "-f", script, "-c", 2, "-t", 100, "-h", server.dir, "-U", "postgres", "postgres"])

        c = watched(server, {k: POSTGRES[k] for k in ("portal", "parse", "executor")},
                    lambda: [bench(m) for m in ("simple", "extended", "prepared")])
    c.expect("portal", 600)
    c.expect("executor", 600, late=600)
    c.expect("parse", 402)  # a prepared statement is parsed once in a session
    c.end()


@test
def postgres_functions_that_are_not_exported():
    with Postgres() as server:
        status, _, err = spanprof("run", "-p", server.pid, "--endpoint", "exec_simple_query", "--for", "1s")
        check(status == 1 and "no such function" in err, err)


MARIADB = {
    "dispatch": "'dispatch_command(enum_server_command, THD*, *'(map(arg0&0xff, 1=\"QUIT\", 3=\"\") str(arg2, arg3&0xffffffff))",
    "execute": "'mysql_execute_command(THD*, bool)'(str(*(arg0+104), u32(arg0+112)))",
    "parse": "'mysql_parse(THD*, *'(str(arg1))",
    "do": "'do_command(THD*, bool)'",
}
PROCEDURE = """create database shop;
create procedure shop.two() begin set @a = 1; select sleep(0.15); end;
"""


@cases(["one-thread-per-connection", "pool-of-threads"])
def mariadb(handling):
    plain, failing, syntax = 150, 30, 10

    class Server(MariaDB):
        def command(self):
            return [*super().command(), f"--thread-handling={handling}", "--thread-pool-size=2"]

    script = "select 1;\n" * plain + "select nosuch from nosuch.nosuch;\n" * failing + "selec 1;\n" * syntax
    with Server() as server:
        server.sql("delimiter //\n" + PROCEDURE.replace(";\ncreate", "//\ncreate").replace("end;", "end//"))
        server.wait_for_quits()

        def work():
            run(["mariadb", "--no-defaults", "-S", server.socket, "-B", "-N", "--force"], text=script)

        def all_work():
            all_at_once(work_without_status(work), work_without_status(work), work_without_status(work),
                        lambda: server.sql("call shop.two();\n"))
            server.wait_for_quits()

        c = watched(server, MARIADB, all_work)
    n = 3 * (plain + failing + syntax) + 1
    slow = {"call shop.two()"}
    c.expect("dispatch", n + 4, names=slow, fast="sel.*|QUIT.*")
    c.expect("parse", n, names=slow, fast="sel.*")
    c.expect("execute", n - 3 * syntax + 2, names=slow | {"select sleep(0.15)"}, fast="se.*")
    if handling != "pool-of-threads":
        # The first packet of a connection is awaited before the loop, the last one is the quit.
        c.expect("do", n + 4)
    c.end()


def work_without_status(work):
    """mariadb --force says at the end that there were errors."""

    def quiet():
        try:
            work()
        except Exception as failure:  # pylint: disable=broad-except
            check("ERROR" in str(failure), str(failure))

    return quiet


def resp(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def redis_client(server, requests, n_replies):
    """Sends all at once, as a pipeline, and reads that many simple replies."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(str(server.socket))
        s.sendall(requests)
        data = b""
        while data.count(b"\r\n") < n_replies:
            more = s.recv(65536)
            check(more, f"the server has closed the connection: {data[-200:]}")
            data += more


@cases([1, 3])
def redis(io_threads):
    pipelined, unknown, queued, inline = 500, 20, 10, 30

    class Server(Redis):
        def command(self):
            return [*super().command(), "--io-threads", io_threads, "--io-threads-do-reads", "yes"]

    with Server() as server:
        name = server.name_expression()
        specs = {"command": f"processCommand(lower({name}))", "call": f"call(lower({name}))"}
        multi = resp(b"MULTI") + resp(b"SET", b"a", b"1") * queued + resp(b"EXEC")
        script = resp(b"EVAL", b"redis.call('set', 'b', '2') return 7", b"0")

        def client():
            redis_client(server, resp(b"INCR", b"k") * pipelined, pipelined)

        c = watched(server, specs, lambda: all_at_once(
            client, client, client,
            lambda: redis_client(server, resp(b"NoSuch", b"x") * unknown, unknown),
            lambda: redis_client(server, multi, 1 + queued + 1 + queued),
            lambda: redis_client(server, b"PING\r\n" * inline + script, inline + 1),
            lambda: redis_client(server, resp(b"DEBUG", b"SLEEP", b"0.15"), 1)))
    n = 3 * pipelined + inline + 2
    fast = "[a-z]+"
    c.expect("command", n + unknown + queued + 2, names={"debug"}, fast=fast)
    # A transaction's commands are called by EXEC, the script's one by EVAL; unknown ones are not called.
    c.expect("call", n + queued + 2 + 1, names={"debug"}, fast=fast)
    c.end()


APACHE = {"async": "ap_process_async_request(str(*(arg0+112)) \" \" str(*(arg0+336)))",
          "sync": "ap_process_request(str(*(arg0+336)))",
          "handler": "ap_invoke_handler(str(*(arg0+336)))"}
FAST = "/index.html|/nosuch"


def ask(server, path, times):
    """The statuses of GETs on one connection each."""
    found = []
    for _ in range(times):
        with socket.create_connection(("127.0.0.1", server.port), 20) as s:
            s.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            data = b""
            while more := s.recv(65536):
                data += more
        found.append(int(data.split()[1]))
    return found


@cases(["prefork", "worker", "event"])
def apache(mpm):
    with Apache(mpm) as server:
        counted = []
        c = watched(server, APACHE, lambda: all_at_once(
            lambda: counted.append(server.bench("/index.html", requests=400, clients=4)),
            lambda: check(ask(server, "/nosuch", 30) == [404] * 30, "the errors are errors"),
            lambda: check(ask(server, "/cgi/sleep", 1) == [200], "the slow request is served")))
    n = counted[0] + 31
    # On a kept connection the client has its answer before the function returns.
    c.expect("async", n, names={"GET /cgi/sleep"}, fast=f"GET ({FAST})", still_open=1)
    if mpm == "event":
        c.expect("sync", 0)
    else:
        c.expect("sync", n, names={"/cgi/sleep"}, fast=FAST, still_open=1)
    c.expect("handler", n, names={"/cgi/sleep"}, fast=FAST, still_open=1)
    c.end()


@test
def apache_http2():
    """A request runs on another thread than its connection, and may return when its answer has long arrived."""
    need_program("curl")
    if "HTTP2" not in run(["curl", "--version"]):
        raise Skip("this curl knows no HTTP/2")

    class Server(Apache):
        def prepare(self):
            super().prepare()
            with open(self.dir / "httpd.conf", "a", encoding="utf-8") as conf:
                conf.write("LoadModule http2_module /usr/lib/apache2/modules/mod_http2.so\nProtocols h2c http/1.1\n")

    with Server("event") as server:
        def work():
            for path in ["/index.html"] * 30 + ["/cgi/sleep"]:
                out = run(["curl", "-s", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_version} %{http_code}",
                           server.url(path)])
                check(out == "2 200", out)

        c = watched(server, APACHE, work)
    c.expect("async", 31, names={"GET /cgi/sleep"}, fast=f"GET ({FAST})", still_open=1)
    c.expect("handler", 31, names={"/cgi/sleep"}, fast=FAST, still_open=1)
    c.end()


PHP_SCRIPTS = {
    "uncaught": "<?php throw new Exception('uncaught');",
    "memory": "<?php ini_set('memory_limit', '2M'); $a = str_repeat('x', 100000000);",
    "syntax": "<?php this is no PHP",
    "time": "<?php set_time_limit(1); while (true);",
}


class Fpm(PhpFpm):
    def prepare(self):
        super().prepare()
        for name, text in PHP_SCRIPTS.items():
            (self.dir / f"{name}.php").write_text(text)


PHP_FPM = {
    "script": "php_execute_script(str(*(global(sapi_globals)+8)) \" \" str(*(global(sapi_globals)+48)));normalize=path",
    "request": "php_request_startup;end=php_request_shutdown;leave-name=str(*(global(sapi_globals)+48));normalize=path",
    "usdt": "usdt:php:request__startup(str(arg2) \" \" str(arg1));end=usdt:php:request__shutdown;normalize=path",
}


@test
def php_fpm():
    """Whatever ends a script: the calls end. A script that does not exist is a request, but no script."""
    with Fpm() as server:
        def work():
            for how in ["how=plain"] * 40 + ["how=fatal"] * 10 + ["how=exit"] * 10 + ["how=slow"]:
                server.request(how)
            for name in ("uncaught", "memory", "syntax"):
                for _ in range(5):
                    server.request("", script=f"{name}.php")
            server.request("", script="time.php")
            for _ in range(5):
                check(b"404" in server.request("", script="nosuch.php"), "there is no such script")

        specs = {k: s for k, s in PHP_FPM.items() if k != "usdt" or server.has_usdt()}
        c = watched(server, specs, lambda: all_at_once(work, work), ("--min-duration", "300ms"))
    n = 2 * (40 + 10 + 10 + 1 + 15 + 1)
    fast = r"(GET )?/\w+\.php"
    c.expect("script", n, names={"GET /index.php", "GET /time.php"}, fast=fast)
    c.expect("request", n + 10, names={"/index.php", "/time.php"}, fast=fast, still_open=2)
    if "usdt" in specs:
        c.expect("usdt", n + 10, names={"GET /index.php", "GET /time.php"}, fast=fast, still_open=2)
    c.end()


MOD_PHP = {"script": "'libphp*.so*':php_execute_script(str(*(global(sapi_globals)+8)) \" \" str(*(global(sapi_globals)+48)))",
           "request": "ap_process_async_request(str(*(arg0+336)))"}


@test
def mod_php():
    class Server(ApachePhp):
        def prepare(self):
            super().prepare()
            for name, text in PHP_SCRIPTS.items():
                (self.dir / f"htdocs/{name}.php").write_text(text)

    with Server() as server:
        counted = []

        def errors():
            for name in ("uncaught", "memory", "syntax"):
                check(ask(server, f"/{name}.php", 5) == [500] * 5, f"{name} is an error")

        c = watched(server, MOD_PHP, lambda: all_at_once(
            errors, errors, lambda: counted.append(server.bench("/index.php", requests=200, clients=2)),
            lambda: check(ask(server, "/index.php?how=slow", 1) == [200], "the slow one is served")),
                    ("--min-duration", "300ms"))
    n = counted[0] + 31
    fast = r"(GET )?/\w+\.php"
    c.expect("script", n, names={"GET /index.php"}, fast=fast)
    # On a kept connection the client has its answer before the function returns.
    c.expect("request", n, names={"/index.php"}, fast=fast, still_open=1)
    c.end()


NGINX = {"process": "ngx_http_process_request", "create": "ngx_http_create_request", "free": "ngx_http_free_request"}


@test
def nginx():
    with Nginx() as server:
        counted = []
        c = watched(server, NGINX, lambda: all_at_once(
            lambda: counted.append(server.bench("/index.html", requests=400, clients=4)),
            lambda: check(ask(server, "/nosuch", 30) == [404] * 30, "the errors are errors")))
    n = counted[0] + 30
    # The client has its answer before the function returns, and before its request is freed.
    c.expect("process", n, still_open=1)
    # Kept connections have a request in waiting, which may be freed at their end.
    for name, late in ("create", 0), ("free", 1):
        row = c.rows[name]
        check(n - late <= row["calls"] == row["ended"] <= n + 4, f"{name}: {row['calls']} calls, {row['ended']} ends of {n}")
    c.end()


class Memcached(Server):
    def prepare(self):
        need_program("memcached")
        self.binary = "/usr/bin/memcached"
        self.socket = self.dir / "memcached.sock"

    def command(self):
        return [self.binary, "-u", "root", "-s", self.socket, "-t", 2, "-m", 16]

    def ask(self, requests):
        """Each request alone; the answers in one text."""
        answers = b""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(str(self.socket))
            for request in requests:
                s.sendall(request)
                answers += s.recv(4096)
        return answers

    def answers(self):
        try:
            return b"VERSION" in self.ask([b"version\r\n"])
        except OSError:
            return False


@test
def memcached():
    """It has neither symbols nor USDT probes: from the read of a request to the answer, by the C library."""
    requests = [b"set k 0 0 1\r\nx\r\n", b"get k\r\n", b"nosuch\r\n"] * 100
    with Memcached() as server:
        c = watched(server, {"request": "libc.so.6:read;end=libc.so.6:sendmsg"}, lambda: all_at_once(
            lambda: server.ask(requests), lambda: server.ask(requests)))
    row = c.rows["request"]
    n = 2 * len(requests)
    check(row["ended"] == n, f"{row['ended']} answers to {n} requests")
    # A connection has two more reads: of the message that hands it to a thread, and of its end.
    check(n <= row["calls"] <= n + 4, f"{row['calls']} reads for {n} requests of two connections")


AUDIT = """
import sys, time
print("ready", flush=True)
sys.stdin.readline()
class App:
    def __call__(self, n):
        sys.audit("ep.begin /orders/%d" % n)
        try:
            time.sleep(0.15 if n == 7 else 0)
            return n // (n % 10 != 3)
        finally:
            sys.audit("ep.end")
orders, errors = map(App(), range(100)), 0
while True:
    try:
        next(orders)
    except StopIteration:
        break
    except ZeroDivisionError:
        errors += 1
assert errors == 10
print("done", flush=True)
sys.stdin.readline()
"""
CPYTHON = {
    "audit": "usdt:python:audit(str(arg0));if=str(arg0)^=\"ep.begin\";end=usdt:python:audit;end-if=str(arg0)^=\"ep.end\"",
    "return": "usdt:python:function__return;if=str(arg1)==\"__call__\";leave=retsite",
    "frame": "_PyEval_EvalFrameDefault(str(*(*(arg1+0x20)+0x80)+48));if=str(*(*(arg1+0x20)+0x78)+48)==\"__call__\"",
}


@test
def cpython():
    """A program that tells of its requests by sys.audit(); and by frames, whose place is that of 3.11. Some raise."""
    if run([PYTHON, "-c", "import sys; print(sys.version_info[:2])"]).strip() != "(3, 11)":
        raise Skip("the frames of another Python are laid out differently")
    with subprocess.Popen([PYTHON, "-c", AUDIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            lines = Lines(process.stdout)
            lines.wait_for("^ready$")

            def work():
                process.stdin.write(b"go\n")
                process.stdin.flush()
                lines.wait_for("^done$")

            c = watched(process, CPYTHON, work)
        finally:
            stop(process)
    c.expect("audit", 100, names={"ep.begin /orders/7"}, fast=r"ep.begin /orders/\d+")
    c.expect("frame", 100, names={"App.__call__"})
    c.expect("return", 100)  # tells of the function's end only; function__entry is never hit in 3.11
    c.end()


HTTPS = """
import http.server, ssl, sys
c = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
c.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(404 if "nosuch" in self.path else 200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\\n")
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
server.socket = c.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
"""


@test
def curl():
    """A client: what it writes by TLS, and its own notion of a transfer; it is a command that spanprof starts.

    Some transfers end with an error of the server, some without a connection.
    """
    need_program("curl")
    with folder() as path:
        certificate(path)
        port = free_port()
        with subprocess.Popen([PYTHON, "-c", HTTPS, str(path), str(port)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE) as server:
            try:
                Lines(server.stdout).wait_for("^ready$")
                specs = {"write": "'libssl.so*':SSL_write(str(arg1, 30))", "transfer": "'libcurl.so*':curl_easy_perform"}
                words = [o for s in specs.values() for o in ("--endpoint", s)]
                urls = [f"https://127.0.0.1:{p}/{t}" for p, t in ((port, "item?n=[1-50]"), (port, "nosuch?n=[1-10]"),
                                                                    (free_port(), "item?n=[1-5]"))]
                with Spanprof("run", "-o", path / "out.json", "--format", "json", *words, "--", "curl", "-s", "-k",
                              "--http1.1", *[w for u in urls for w in ("-o", "/dev/null", u)]) as command:
                    status = command.finish(None)
                    check(status == 7, f"the last one has no connection: {status} {command.stderr}")
            finally:
                stop(server)
        c = Counts(path / "out.json", specs)
        c.expect("write", 60)
        c.expect("transfer", 65)
        c.end()


MICROHTTPD = {"handler": "on_request(str(arg2))", "route": "'Api::route*'(stdstring(arg2))"}


@test
def microhttpd():
    """C++ within a C library: the handler is called by pointer, twice for each request; errors are exceptions."""
    if not (TARGETS / "httpd").exists():
        raise Skip("libmicrohttpd-dev is not installed (tools/setup --servers)")
    port, warm, plain, failing = free_port(), 6, 100, 30
    with Target("httpd", port) as server:
        server.port = port

        def work():
            # The handler's caller is known by its first call, and probed while the next ones are under way.
            check(ask(server, "/slow", warm) == [200] * warm, "the slow ones are served")
            all_at_once(*[lambda: check(ask(server, "/item?id=7", plain) == [200] * plain, "all are served")] * 2,
                        lambda: check(ask(server, "/nosuch", failing) == [404] * failing, "the errors are errors"))

        c = watched(server, MICROHTTPD, work)
        check(server.end() == 0, "the server ends by itself")
    n = warm + 2 * plain + failing
    c.expect("handler", 2 * n, names={"/slow"}, fast="/item|/nosuch", late=2 * warm)
    c.expect("route", n, n - failing, names={"/slow"}, fast="/item|/nosuch")
    c.end()


sys.dont_write_bytecode = True
main(needs=[need_bpf])
