#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts page.css and page.js into page.html and writes it as C source: what stands before the data
and what stands after it. usage: embed.py page.html page.css page.js OUTPUT.c"""

import sys


def c_array(name, data):
    rows = [", ".join("0x%02x" % b for b in data[i:i + 16]) for i in range(0, len(data), 16)]
    return ("const unsigned char %s[] = {\n\t%s\n};\nconst size_t %s_bytes = sizeof(%s);\n"
            % (name, ",\n\t".join(rows), name, name))


page, css, js = (open(p, encoding="utf-8").read() for p in sys.argv[1:4])
assert "</" not in css and "</script" not in js and "<!--" not in js
page = page.replace("@CSS@", css.strip()).replace("@JS@", js.strip())
before, after = page.split("@DATA@")
with open(sys.argv[4], "w", encoding="utf-8") as out:
    out.write("/* Generated from page.html, page.css and page.js. */\n")
    out.write('#include "export/html_page.h"\n\n')
    out.write(c_array("html_page_before", before.encode()))
    out.write(c_array("html_page_after", after.encode()))
