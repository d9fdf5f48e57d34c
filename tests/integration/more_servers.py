# SPDX-License-Identifier: Apache-2.0
"""More real servers, for the presets: PHP-FPM with a small FastCGI client, PHP in Apache, nginx."""
import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import struct

from harness import Failure, Skip, need_program
from servers import Apache, Server, free_port, run

SCRIPT = """<?php
if (($_GET['how'] ?? '') == 'fatal') { undefined_function(); }
if (($_GET['how'] ?? '') == 'exit') { echo 'bye'; exit(0); }
if (($_GET['how'] ?? '') == 'slow') { usleep(430000); }
echo 'hello';
"""


class PhpFpm(Server):
    stop_signal = signal.SIGTERM

    def prepare(self):
        found = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not found:
            raise Skip("php-fpm is not installed (tools/setup --servers)")
        self.binary = found[-1]
        self.socket = self.dir / "php.sock"
        (self.dir / "index.php").write_text(SCRIPT)
        self.dir.chmod(0o755)
        (self.dir / "fpm.conf").write_text(
            f"[global]\nerror_log = {self.dir}/error.log\ndaemonize = no\npid = {self.dir}/pid\n"
            f"[www]\nuser = www-data\ngroup = www-data\nlisten = {self.socket}\nlisten.mode = 0666\n"
            "pm = static\npm.max_children = 2\n")

    def has_usdt(self):
        """Debian 12's PHP was built with probes, Debian 13's without."""
        return b"request__startup" in pathlib.Path(self.binary).read_bytes()

    def command(self):
        return [self.binary, "-n", "-y", self.dir / "fpm.conf", "-F"]

    def answers(self):
        try:
            return b"hello" in self.request("")
        except OSError:
            return False

    def request(self, query, script="index.php"):
        """One FastCGI request; what the script has written."""
        params = {"SCRIPT_FILENAME": f"{self.dir}/{script}", "REQUEST_METHOD": "GET",
                  "REQUEST_URI": f"/shop/4711?{query}", "QUERY_STRING": query, "SERVER_PROTOCOL": "HTTP/1.1",
                  "SCRIPT_NAME": f"/{script}", "CONTENT_LENGTH": "0"}
        body = b"".join(bytes([len(k), len(v)]) + k.encode() + v.encode() for k, v in params.items())

        def record(kind, data):
            return struct.pack(">BBHHBB", 1, kind, 1, len(data), 0, 0) + data

        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(str(self.socket))
            s.sendall(record(1, struct.pack(">HB5x", 1, 0)) + record(4, body) + record(4, b"") + record(5, b""))
            answer = b""
            while data := s.recv(65536):
                answer += data
        return answer


class ApachePhp(Apache):
    """Apache prefork with PHP inside."""

    def __init__(self):
        super().__init__("prefork")

    def prepare(self):
        found = sorted(glob.glob("/usr/lib/apache2/modules/libphp*.so"))
        if not found:
            raise Skip("libapache2-mod-php is not installed (tools/setup --servers)")
        super().prepare()
        (self.dir / "htdocs/index.php").write_text(SCRIPT)
        with open(self.dir / "httpd.conf", "a", encoding="utf-8") as conf:
            conf.write(f"LoadModule php_module {found[-1]}\n<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n"
                       "</FilesMatch>\n")


class Nginx(Server):
    stop_signal = signal.SIGQUIT
    also = ""  # what else its server has, with {port} and {h2_port}

    def prepare(self):
        need_program("/usr/sbin/nginx", "ab")
        self.binary = "/usr/sbin/nginx"
        self.version = re.search(r"nginx/(\d+\.\d+)", os.popen("/usr/sbin/nginx -v 2>&1").read())[1]
        self.port, self.h2_port = free_port(), free_port()
        (self.dir / "html").mkdir()
        (self.dir / "html/index.html").write_text("hello\n")
        self.dir.chmod(0o755)
        (self.dir / "nginx.conf").write_text(
            f"daemon off;\npid {self.dir}/pid;\nerror_log {self.dir}/error.log;\nworker_processes 1;\n"
            "events { worker_connections 64; }\nhttp { access_log off;\n"
            + "".join(f"{k}_temp_path {self.dir}/{k};\n"
                      for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")) +
            f"server {{ listen 127.0.0.1:{self.port}; root {self.dir}/html;\n"
            + self.also.replace("{port}", str(self.port)).replace("{h2_port}", str(self.h2_port)) + "} }\n")

    def command(self):
        return [self.binary, "-p", self.dir, "-c", self.dir / "nginx.conf"]

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
                return b"200" in s.recv(4096)
        except OSError:
            return False

    def bench(self, path, requests, clients):
        out = run(["ab", "-q", "-k", "-n", requests, "-c", clients, f"http://127.0.0.1:{self.port}{path}"])
        return int(re.search(r"Complete requests:\s*(\d+)", out)[1])


def certificate(path):
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed")
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path / "key.pem", "-out",
         path / "cert.pem", "-days", "1", "-subj", "/CN=localhost"])
    if not (path / "cert.pem").exists():
        raise Failure("openssl made no certificate")
