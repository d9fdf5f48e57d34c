# SPDX-License-Identifier: Apache-2.0
"""Real servers from Debian packages, each an instance of its own: own folder, own socket or port.

Each class is a context manager that starts the server, waits until it answers, and stops it by id.
"""
import contextlib
import glob
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from harness import DEADLINE, Failure, Skip, check, need_program, stop, wait_until


# Below those that the kernel gives to clients: no connection has one until its server is there. None comes twice.
PORTS = iter(random.sample(range(20000, 32768), 1000))


def free_port():
    for port in PORTS:
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port
    raise Failure("no port is free")


def run(command, seconds=DEADLINE, text=None):
    """A client command to its end; its standard output."""
    done = subprocess.run([str(c) for c in command], input=text, capture_output=True, text=True,
                          timeout=seconds, check=False)
    if done.returncode:
        raise Failure(f"{command[0]}: exit status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def try_run(command):
    return subprocess.run([str(c) for c in command], capture_output=True, timeout=DEADLINE,
                          check=False).returncode == 0


class Server:
    """The frame of all: folder, process, log."""

    stop_signal = signal.SIGTERM

    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-server-"))
        self.process = None
        try:
            self.prepare()
            with open(self.dir / "log", "wb") as log:
                # Its own session: Apache ends with a signal to its whole process group.
                self.process = subprocess.Popen([str(c) for c in self.command()],
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                start_new_session=True)
            self.pid = self.process.pid
            wait_until(self.answers_or_died, f"{type(self).__name__} answers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            stop(self.process, self.stop_signal)
        shutil.rmtree(self.dir, ignore_errors=True)

    def answers_or_died(self):
        if self.process.poll() is not None:
            raise Failure(f"{type(self).__name__} ended: {self.log()[-800:]}")
        return self.answers()

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def prepare(self):
        pass


class Postgres(Server):
    """Runs as the user postgres: it refuses root."""

    stop_signal = signal.SIGINT

    def prepare(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
        if not found:
            raise Skip("postgresql is not installed (tools/setup --servers)")
        need_program("pgbench", "psql", "setpriv")
        self.binary = found[-1]
        user = pwd.getpwnam("postgres")
        os.chown(self.dir, user.pw_uid, user.pw_gid)
        self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                        "--clear-groups"]
        initdb = pathlib.Path(self.binary).with_name("initdb")
        run([*self.as_user, initdb, "-D", self.dir / "data", "--no-sync", "-A", "trust", "-E", "UTF8",
             "--no-locale"])

    def command(self):
        return [*self.as_user, self.binary, "-D", self.dir / "data", "-k", self.dir, "-c",
                "listen_addresses=", "-c", "autovacuum=off", "-c", "fsync=off", "-c", "jit=off",
                "-c", "max_parallel_workers_per_gather=0"]

    def answers(self):
        return try_run(["psql", "-h", self.dir, "-U", "postgres", "-c", "select 1"])

    def sql(self, text):
        """Statements in one session, each a request of its own."""
        return run(["psql", "-X", "-q", "-A", "-t", "-h", self.dir, "-U", "postgres", "-f", "-"],
                   text=text)

    def bench(self, statement, clients, transactions):
        """pgbench with one statement a transaction; the number that it counted."""
        script = self.dir / "script.sql"
        script.write_text(statement + "\n")
        out = run(["pgbench", "-n", "-f", script, "-c", clients, "-j", 1, "-t", transactions, "-h",
                   self.dir, "-U", "postgres", "postgres"])
        return int(re.search(r"actually processed: (\d+)", out)[1])


# The offset of argv in a client.
ARGV = {"redis 6.0": 80, "redis 6.2": 80, "redis 7.0": 80, "redis 7.2": 96, "redis 7.4": 96, "redis 8.0": 96, "valkey 8.1": 32}


class Redis(Server):
    name = "redis"

    def prepare(self):
        need_program(*(f"{self.name}-{p}" for p in ("server", "cli", "benchmark")))
        self.program = f"{self.name}-server"
        self.binary = os.path.realpath(shutil.which(self.program))
        self.socket = self.dir / "redis.sock"
        self.version = re.search(r"v=(\d+\.\d+)", run([self.program, "--version"]))[1]

    def command(self):
        return [self.program, "--port", 0, "--unixsocket", self.socket, "--save", "", "--appendonly",
                "no", "--dir", self.dir, "--enable-debug-command", "yes"]

    def answers(self):
        return try_run([f"{self.name}-cli", "-s", self.socket, "ping"])

    def name_expression(self):
        """Where the command's name is: behind the client's argv."""
        argv = ARGV.get(f"{self.name} {self.version}")
        if not argv:
            raise Skip(f"the place of the names in {self.name} {self.version} is not known")
        return f"str(*(*(*(arg0+{argv}))+8))"

    def cli(self, *words):
        return run([f"{self.name}-cli", "-s", self.socket, *words])

    def commands_processed(self):
        """The server's own count, without the command that asks."""
        return int(re.search(r"total_commands_processed:(\d+)", self.cli("info", "stats"))[1])

    def bench(self, requests, clients):
        run([f"{self.name}-benchmark", "-s", self.socket, "-n", requests, "-c", clients, "-t", "set,get",
             "-q"])


class Valkey(Redis):
    name = "valkey"


class MariaDB(Server):
    def prepare(self):
        need_program("/usr/sbin/mariadbd", "mariadb", "mariadb-install-db")
        self.binary = "/usr/sbin/mariadbd"
        self.socket = self.dir / "mariadb.sock"
        run(["mariadb-install-db", "--no-defaults", f"--datadir={self.dir}/data", "--user=root",
             "--auth-root-authentication-method=normal", "--skip-test-db"])

    def command(self):
        return [self.binary, "--no-defaults", f"--datadir={self.dir}/data", "--user=root",
                f"--socket={self.socket}", "--skip-networking", "--skip-log-bin",
                f"--pid-file={self.dir}/pid", "--innodb-buffer-pool-size=32M",
                "--innodb-flush-log-at-trx-commit=0"]

    def answers(self):
        return try_run(["mariadb", "--no-defaults", "-S", self.socket, "-e", "select 1"]) and self.is_alone()

    def sql(self, text):
        """Statements in one session in batch mode, each a command; a quit follows."""
        return run(["mariadb", "--no-defaults", "-S", self.socket, "-B", "-N"], text=text)

    def is_alone(self):
        sockets = pathlib.Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
        return sum(s.endswith(str(self.socket)) for s in sockets) == 1  # it listens

    def wait_for_quits(self):
        """A client does not wait for the answer to its quit; the server closes the connection behind it."""
        wait_until(self.is_alone, "connections are closed")


CGI = """#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
sleep 0.4
echo slept
"""


class Apache(Server):
    """mpm: prefork, worker or event."""

    def __init__(self, mpm="event"):
        self.mpm = mpm

    def prepare(self):
        need_program("/usr/sbin/apache2", "ab")
        self.binary = "/usr/sbin/apache2"
        self.port = free_port()
        cgi = "cgi" if self.mpm == "prefork" else "cgid"
        for name in ("htdocs", "cgi"):
            (self.dir / name).mkdir()
        (self.dir / "htdocs/index.html").write_text("hello\n")
        (self.dir / "cgi/sleep").write_text(CGI)
        (self.dir / "cgi/sleep").chmod(0o755)
        self.dir.chmod(0o755)
        modules = {f"mpm_{self.mpm}": f"mpm_{self.mpm}", "authz_core": "authz_core", "alias": "alias",
                   "dir": "dir", cgi: cgi}
        loads = "".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{f}.so\n"
                        for m, f in modules.items())
        sock = f"ScriptSock {self.dir}/cgisock\n" if cgi == "cgid" else ""
        (self.dir / "httpd.conf").write_text(
            f"{loads}{sock}ServerRoot {self.dir}\nServerName localhost\nListen 127.0.0.1:{self.port}\n"
            f"PidFile {self.dir}/pid\nDefaultRuntimeDir {self.dir}\nUser www-data\nGroup www-data\n"
            f"ErrorLog {self.dir}/error.log\nStartServers 2\nDocumentRoot {self.dir}/htdocs\n"
            f"ScriptAlias /cgi/ {self.dir}/cgi/\nKeepAlive On\nMaxKeepAliveRequests 0\n")

    def command(self):
        return [self.binary, "-d", self.dir, "-f", self.dir / "httpd.conf", "-D", "FOREGROUND"]

    def log(self):
        path = self.dir / "error.log"
        return super().log() + (path.read_text(errors="replace") if path.exists() else "")

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
                return b"200" in s.recv(4096)
        except OSError:
            return False

    def bench(self, path, requests, clients, keepalive=True):
        """ab; the number of complete requests that it counted."""
        options = ["-k"] if keepalive else []
        out = run(["ab", "-q", "-n", requests, "-c", clients, *options, self.url(path)])
        failed = int(re.search(r"Non-2xx responses:\s*(\d+)", out)[1]) if "Non-2xx" in out else 0
        check(failed == 0, f"ab: {failed} requests failed")
        return int(re.search(r"Complete requests:\s*(\d+)", out)[1])


def symbol(binary, pattern):
    """The one dynamic symbol that matches, for names that are mangled."""
    out = run(["nm", "-D", "--defined-only", binary])
    found = [t.split()[-1] for t in out.splitlines() if re.search(pattern, t.split()[-1])]
    if len(found) != 1:
        raise Skip(f"{binary} has {len(found)} symbols like {pattern}")
    return found[0]
