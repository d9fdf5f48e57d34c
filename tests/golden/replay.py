#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Replays a capture of the golden target to text and folded and compares with the stored files.

usage: replay.py SPANPROF MAKE_CAPTURE TARGET FOLDER [--update]
"""
import difflib
import pathlib
import subprocess
import sys
import tempfile


def main():
    spanprof, make_capture, target, folder = sys.argv[1:5]
    update = "--update" in sys.argv[5:]
    failed = False
    with tempfile.TemporaryDirectory() as tmp:
        capture = pathlib.Path(tmp) / "golden.capture"
        subprocess.run([make_capture, target, capture], check=True, timeout=30)
        for name in ("text", "folded"):
            got = subprocess.run(
                [spanprof, "report", capture, "--format", name],
                check=True, timeout=60, capture_output=True, text=True).stdout
            want_path = pathlib.Path(folder) / f"replay.{name}"
            if update:
                want_path.write_text(got)
                continue
            want = want_path.read_text()
            diff = list(difflib.unified_diff(want.splitlines(), got.splitlines(),
                                             str(want_path), "got", lineterm=""))
            if diff:
                failed = True
                print("\n".join(diff))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
