#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The unit of dist/ under a real systemd, which is process 1 of namespaces of its own.

Its root is an overlay on this machine's, its units are these few, its control group is one below. In a PID
namespace BPF and /proc number processes differently: the target that is profiled has one number for both.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess

from harness import Skip, check, folder, main, need_bpf, need_program, stop, test, wait_until, SPANPROF, TARGETS

SYSTEMD = "/lib/systemd/systemd"
UNIT = pathlib.Path(__file__).resolve().parent.parent.parent / "dist/spanprof-agent.service.in"
TEXT = UNIT.read_text().replace("@bindir@", "/usr/bin")
NAME = UNIT.stem
TWIN = pathlib.Path(__file__).resolve().parent / "twin.py"
RULES = """
agent: {socket: /run/spanprof/agent.sock, store: /var/lib/spanprof/agent.db}
limits: {cpu: 1%, memory: 64M}
services:
- name: svc
  match: [{exe: "*/run/out/phases"}]  # seen from another name space of mounts
  endpoints: [{spec: "request(str(arg0))"}]
- name: nobody
  match: [{exe: /nonexistent}]
  endpoints: [{spec: main}]
"""

# Moves into a control group of its own, makes the root, and becomes systemd. $1: work folder, $2: group's name.
BOOT = r"""
set -ex
mount --make-rprivate /
mkdir -p "$1/groups" "$1/over"
mount -t cgroup2 none "$1/groups"
mkdir "$1/groups/$2"
echo 0 > "$1/groups/$2/cgroup.procs"
umount "$1/groups"
mount -t tmpfs none "$1/over"
mkdir "$1/over/upper" "$1/over/work" "$1/over/root"
mount -t overlay none -o "lowerdir=/,upperdir=$1/over/upper,workdir=$1/over/work" "$1/over/root"
root=$1/over/root
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
for d in run tmp; do mount -t tmpfs none "$root/$d"; done
mkdir "$root/run/out"
mount --bind "$1/out" "$root/run/out"
mkdir -p "$root/units" "$root/etc/spanprof"
cp "$1"/units/* "$root/units/"
cp "$1/agent.yaml" "$root/etc/spanprof/"
rm -f "$root/usr/bin/spanprof"
install -m 755 "$3" "$root/usr/bin/spanprof"
exec unshare --cgroup bash -ec '
mount -t cgroup2 none "$0/sys/fs/cgroup"
exec env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin container=test SYSTEMD_UNIT_PATH=/units \
  chroot "$0" /lib/systemd/systemd --system --unit=test.target --log-target=console --log-level=info
' "$root"
"""

SOCKET = "/run/spanprof/agent.sock"

# What the real ones pull in is of no interest, and might change this machine.
STUBS = ("sysinit.target", "basic.target", "shutdown.target", "umount.target", "network.target", "multi-user.target")
TEST_TARGET = "[Unit]\nWants=spanprof-agent.service\nAfter=spanprof-agent.service\n"
# Only where the log goes, a watchdog that the test can wait for, and that it runs where process numbers are others.
DROP_IN = ("\n[Service]\nStandardError=append:/run/out/agent.log\nWatchdogSec=5\n"
           "Environment=SPANPROF_OTHER_PIDS=1\n")
WATCHDOG_US = 5_000_000


class Booted:
    def __init__(self, directory):
        self.dir = directory
        self.group = f"spanprof-test.{os.getpid()}"
        for d in ("units", "out"):
            (directory / d).mkdir()
        for name in STUBS:
            (directory / "units" / name).write_text("[Unit]\nDefaultDependencies=no\n")
        (directory / "units/test.target").write_text(TEST_TARGET)
        (directory / "units/spanprof-agent.service").write_text(TEXT + DROP_IN)
        (directory / "agent.yaml").write_text(RULES)
        self.console = open(directory / "console", "wb")
        self.process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc",
             "bash", "-c", BOOT, "boot", str(directory), self.group, SPANPROF],
            stdin=subprocess.DEVNULL, stdout=self.console, stderr=self.console)

    def text(self):
        parts = [self.dir / "console", self.dir / "out/agent.log"]
        return "\n".join(p.read_text(errors="replace") for p in parts if p.exists())

    def init(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return children[0] if children else None

    def inside(self, *words):
        return ["nsenter", "-t", self.init(), "-m", "-p", "-u", "-i", "-C", "-r", "-w", *words]

    def twin(self, *words):
        """The same for a process that has one number inside and outside."""
        return [TWIN, self.init(), "nsenter", "-t", self.init(), "-m", "-u", "-i", "-C", "-r", "-w", *words]

    def run(self, *words):
        """A command inside."""
        return subprocess.run(self.inside(*words), capture_output=True, text=True, check=False)

    def metric(self, name):
        text = self.run("spanprof", "top", "--metrics", "--socket", SOCKET).stdout
        found = re.search(rf"^spanprof_{name} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else None

    def show(self, name):
        return self.run("systemctl", "show", "-P", name, "spanprof-agent.service").stdout.strip()

    def wait(self, condition, what):
        try:
            return wait_until(condition, what)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.text()[-6000:]}") from None

    def close(self):
        if self.process.poll() is None and self.init():
            # Process 1 of the namespace: all others in it go with it.
            os.kill(int(self.init()), signal.SIGKILL)
        stop(self.process)
        self.console.close()
        remove_group(self.dir / "group", self.group)


def remove_group(at, name):
    """The control groups that systemd made below ours."""
    at.mkdir()
    if subprocess.run(["mount", "-t", "cgroup2", "none", str(at)], check=False).returncode:
        return
    try:
        for path, _, _ in os.walk(at / name, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)
    finally:
        subprocess.run(["umount", str(at)], check=False)


def need_systemd():
    need_program("unshare", "nsenter", "systemctl")
    if not os.access(SYSTEMD, os.X_OK):
        raise Skip("systemd is not installed")
    probe = "mount --make-rprivate / && mount -t tmpfs none /mnt && mount -t cgroup2 none /mnt"
    if subprocess.run(["unshare", "--pid", "--fork", "--mount", "sh", "-c", probe], check=False,
                      capture_output=True).returncode:
        raise Skip("namespaces with mounts of their own are not allowed here")


@test
def unit_is_understood():
    need_program("systemd-analyze")
    with folder() as d:
        (d / NAME).write_text(TEXT.replace("/usr/bin/spanprof", "/bin/true"))
        run = subprocess.run(["systemd-analyze", "verify", "--man=no", str(d / NAME)], capture_output=True,
                             text=True, check=False)
        ours = [t for t in (run.stdout + run.stderr).splitlines() if NAME in t]
        check(run.returncode == 0 and not ours, f"{run}")


@test
def life_under_a_real_systemd():
    need_systemd()
    with folder() as d, contextlib.ExitStack() as stack:
        os.chmod(d, 0o755)
        system = Booted(d)
        stack.callback(system.close)
        system.wait(system.init, "systemd")
        # Type=notify: active only after READY=1.
        system.wait(lambda: system.show("ActiveState") == "active", "the agent to be active")
        pid = system.show("MainPID")
        status = system.run("cat", f"/proc/{pid}/status").stdout
        check("NoNewPrivs:\t1" in status and "Seccomp:\t2" in status, status)
        uid = int(re.search(r"Uid:\s*(\d+)", status)[1])
        check(uid >= 1000, f"user {uid} is no dynamic one")
        caps = int(re.search(r"CapEff:\s*([0-9a-f]+)", status)[1], 16)
        wanted = sum(1 << c for c in (2, 19, 34, 38, 39, 40))
        check(caps == wanted, f"capabilities {caps:x} instead of {wanted:x}")
        check(caps == int(re.search(r"CapBnd:\s*([0-9a-f]+)", status)[1], 16), status)
        # What the sandbox must leave: names of kernel functions, the store, the socket.
        names = system.run("nsenter", "-t", pid, "-m", "grep", "-c", " T ", "/proc/kallsyms")
        check(names.returncode == 0 and int(names.stdout) > 1000, f"{names}")
        check(system.run("test", "-s", "/var/lib/private/spanprof/agent.db").returncode == 0, system.text())
        top = system.run("spanprof", "top", "--metrics", "--socket", SOCKET)
        check("\nspanprof_refused_calls_total 0\n" in top.stdout, f"{top}\n{system.text()}")
        check(system.run("spanprof", "task", "list", "--socket", SOCKET).returncode == 0, "list")
        # Its signs of life keep the watchdog quiet, for longer than the interval without any.
        first = int(system.show("WatchdogTimestampMonotonic"))
        system.wait(lambda: int(system.show("WatchdogTimestampMonotonic")) > first + WATCHDOG_US, "signs of life")
        check(system.show("MainPID") == pid and system.show("NRestarts") == "0", system.text())
        reload = system.run("systemctl", "reload", "spanprof-agent.service")
        check(reload.returncode == 0, f"{reload}")
        system.wait(lambda: "event=reloaded" in system.text(), "the reload")
        # An agent that hangs is killed and started again.
        system.run("kill", "-STOP", pid)
        system.wait(lambda: system.show("NRestarts") == "1" and system.show("ActiveState") == "active",
                    "a new agent after the watchdog")
        check(system.show("MainPID") != pid, "the same process")
        stopped = system.run("systemctl", "stop", "spanprof-agent.service")
        check(stopped.returncode == 0 and system.show("Result") == "success", system.text())
        check("event=stopped" in system.text(), system.text())


@test
def profiles_in_the_sandbox():
    """With all of the unit's hardening: user, capabilities, name spaces, its filter and the agent's own."""
    need_systemd()
    with folder() as d, contextlib.ExitStack() as stack:
        os.chmod(d, 0o755)
        system = Booted(d)
        stack.callback(system.close)
        shutil.copy(TARGETS / "phases-gcc-O2", d / "out/phases")
        system.wait(system.init, "systemd")
        system.wait(lambda: system.show("ActiveState") == "active", "the agent to be active")
        target = subprocess.Popen(system.twin("/run/out/phases", "-w", "-n", "50", "-g", "5", "a=sleep:5"),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(stop, target, signal.SIGKILL)
        check(target.stdout.readline() == "ready\n", "the target")
        for calls in (True, False):
            task = system.run("spanprof", "task", "create", "--service", "svc", "--threshold", "1ms", "--socket", SOCKET)
            check(task.returncode == 0, f"{task}\n{system.text()}")
            system.wait(lambda: system.metric("attached_processes") == 1, "the probes to be in")
            if calls:  # they meet the probes
                target.stdin.write("go\n")
                target.stdin.flush()
                check(target.stdout.readline() == "done\n", "the target's calls")
                system.wait(lambda: system.metric("spans_total") == 50, "its calls to be profiled")
                report = system.run("spanprof", "report", "--store", "/var/lib/private/spanprof/agent.db", "--format",
                                    "folded")
                check("\na;request;phase_sleep;" in report.stdout and "[blocked: sleep] " in report.stdout, f"{report}")
            cancel = system.run("spanprof", "task", "cancel", task.stdout.strip(), "--socket", SOCKET)
            check(cancel.returncode == 0, f"{cancel}")
            system.wait(lambda: system.metric("attached_processes") == 0, "the probes to be out")
        check(system.metric("attach_failed_total") == 0, system.text())
        check(system.metric("refused_calls_total") == 0, system.text())
        check(target.poll() is None, "the target has ended, and its probes with it")
        target.stdin.close()
        check(target.wait(30) == 0, "the target's end")
        check("denied" not in system.text() and "not permitted" not in system.text(), system.text())


if __name__ == "__main__":
    main(needs=[need_bpf])
