# SPDX-License-Identifier: Apache-2.0
"""What the Python benches share: the harness of the integration tests, and tables."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

# pylint: disable=wrong-import-position,unused-import
from harness import (BUILD, SPANPROF, TARGETS, Failure, Spanprof, Target, folder, load, need_bpf,  # noqa: E402,F401
                     profiling, wait_until)


def table(head, rows):
    cells = [[str(c) for c in r] for r in [head, *rows]]
    widths = [max(len(r[i]) for r in cells) for i in range(len(head))]
    for r in cells:
        print("  " + r[0].ljust(widths[0]) + "".join("  " + c.rjust(w) for c, w in zip(r[1:], widths[1:])))
