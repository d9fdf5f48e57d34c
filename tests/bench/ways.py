# SPDX-License-Identifier: Apache-2.0
"""How servers are probed and watched by the benches of idle cost: not at all, with programs that do
nothing, by spanprof, by bpftrace; and what the servers' requests cost meanwhile."""
import contextlib
import glob
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
# pylint: disable=wrong-import-position
from harness import BUILD, Lines, Skip, Spanprof, stop  # noqa: E402
from servers import Apache, Postgres  # noqa: E402

CPUS = sorted(os.sched_getaffinity(0))


@contextlib.contextmanager
def on_cpus(cpus):
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, CPUS)


@contextlib.contextmanager
def by_spanprof(pid, *args):
    with Spanprof("run", *args, "-p", pid, "--min-duration", "30s") as command:
        command.wait_attached()
        yield
        command.finish()


BUDGET = "spanprof, 1 %"  # --max-overhead: probes in turns


@contextlib.contextmanager
def by_nothing(pid, *specs):
    """The floor: the same places, and programs that do nothing."""
    with subprocess.Popen([BUILD / "tests/bench/bare_probes", str(pid), *specs], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        try:
            Lines(process.stdout).wait_for("ready")
            yield
        finally:
            process.stdin.close()
            process.wait()


@contextlib.contextmanager
def by_bpftrace(program):
    program = f'BEGIN {{ printf("ready\\n"); }} {program}'
    with subprocess.Popen(["bpftrace", "-e", program], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        try:
            Lines(process.stdout).wait_for("ready")
            yield
        finally:
            stop(process)


def returns(function, name=""):
    """bpftrace's pair for a function, which reads the name too if there is one."""
    save, forget = (f"@n[tid] = {name}; ", " delete(@n[tid]);") if name else ("", "")
    return (f"uprobe:BINARY:{function} {{ @s[tid] = nsecs; {save}}} uretprobe:BINARY:{function} "
            f"/@s[tid]/ {{ @ns = hist(nsecs - @s[tid]); delete(@s[tid]);{forget} }}")


class CpuGroup:
    """A control group: the CPU time of all processes that were ever in it, the dead ones too."""

    KINDS = (("/sys/fs/cgroup/cpuacct", "cpuacct.usage", r"(\d+)", 1),
             ("/sys/fs/cgroup", "cpu.stat", r"usage_usec (\d+)", 1000))

    def __enter__(self):
        root, name, self.pattern, self.unit_ns = next(k for k in self.KINDS if os.path.exists(f"{k[0]}/{k[1]}"))
        self.home = pathlib.Path(root)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-bench-", dir=root))
        self.file = self.dir / name
        return self

    def __exit__(self, *_):
        self.dir.rmdir()

    @contextlib.contextmanager
    def inside(self):
        (self.dir / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.home / "cgroup.procs").write_text(str(os.getpid()))

    def used_ns(self):
        return int(re.search(self.pattern, self.file.read_text())[1]) * self.unit_ns


def confidence(values):
    """Of the median, 95 %: by the binomial distribution of how many values lie below it."""
    n, values = len(values), sorted(values)
    k = 0
    while k < n // 2 and 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2 ** n < 0.05:
        k += 1
    return (values[k - 1], values[n - k]) if k else None


def change(values, base):
    """In percent: the median, and where it is for sure."""
    each = [100 * (a / b - 1) for a, b in zip(values, base)]
    sure = confidence(each)
    return f"{statistics.median(each):+6.1f} % " + (
        f"({sure[0]:+.1f} to {sure[1]:+.1f})" if sure else "(too few rounds)").ljust(18)


REDIS = ("redis", "processCommand", returns("processCommand"),
         returns("processCommand", "str(*(*(*(arg0 + 80)) + 8))"))


class PostgresToBench(Postgres):
    started = False

    def answers(self):
        if not super().answers():
            return False
        if not self.started:
            self.sql("create table t(id int primary key, v int);"
                     "insert into t select i, i from generate_series(1, 10000) i; analyze t")
            self.started = True
        return True


def activity(name=""):
    """bpftrace's pair for PostgreSQL: both ends are calls of the same function."""
    save, forget = (f"@n[tid] = {name}; ", " delete(@n[tid]);") if name else ("", "")
    probe = "uprobe:BINARY:pgstat_report_activity"
    return (f"{probe} /arg0 == 2/ {{ @s[tid] = nsecs; {save}}} {probe} /arg0 != 2 && @s[tid]/ "
            f"{{ @ns = hist(nsecs - @s[tid]); delete(@s[tid]);{forget} }}")


POSTGRES = ("postgres", "pgstat_report_activity;if=arg0==2;once;end=pgstat_report_activity;end-if=arg0!=2",
            activity(), activity("str(arg1)"))


APACHE = ("apache", "ap_process_async_request", returns("ap_process_async_request"),
          returns("ap_process_async_request", "str(*(arg0 + 336))"))


class ApacheToBench(Apache):
    """With PHP in it, and a script that takes as long as it is told."""

    def __init__(self):
        super().__init__("prefork")

    def prepare(self):
        super().prepare()
        found = sorted(glob.glob("/usr/lib/apache2/modules/libphp*.so"))
        if not found:
            raise Skip("libapache2-mod-php is not installed (tools/setup --servers)")
        (self.dir / "htdocs/loop.php").write_text("<?php for ($i = (int)$_GET['n']; $i > 0; $i--); echo 'ok';")
        with open(self.dir / "httpd.conf", "a", encoding="utf-8") as config:
            config.write(f"LoadModule php_module {found[-1]}\n"
                         "<FilesMatch php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n")


READ_ROW = "\\set id random(1, 10000)\nselect v from t where id = :id;\n"
SUM = "select sum(i) from generate_series(1, {}) i;\n"


def ways_of(kind, server):
    preset, nameless, traced, traced_names = kind
    ways = {"none": contextlib.nullcontext,
            "none again": contextlib.nullcontext,
            "empty programs": lambda: by_nothing(server.pid, nameless),
            "spanprof": lambda: by_spanprof(server.pid, "--preset", preset),
            BUDGET: lambda: by_spanprof(server.pid, "--preset", preset, "--max-overhead", "1%"),
            "spanprof, no names": lambda: by_spanprof(server.pid, "-e", nameless)}
    if shutil.which("bpftrace"):
        ways["bpftrace"] = lambda: by_bpftrace(traced_names.replace("BINARY", str(server.binary)))
        ways["bpftrace, no names"] = lambda: by_bpftrace(traced.replace("BINARY", str(server.binary)))
    return ways
