#!/usr/bin/env python3
"""Writes a header of cleave, with all that it includes of cleave, as one file."""
import argparse
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
OWN = re.compile(r'\s*#\s*include\s+["<](cleave/[^">]+)[">]')
CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|endif)\b")


def texts_of(name, seen, depth=0):
    """Yields the lines of a header, each other header of cleave in the place of its first include."""
    seen.add(name)
    for line in (INCLUDE / name).read_text(encoding="utf-8").splitlines():
        condition = CONDITION.match(line)
        if condition:
            depth += -1 if condition.group(1) == "endif" else 1
        own = OWN.match(line)
        if own is None:
            if line.strip() != "#pragma once" and not line.startswith("// SPDX-"):
                yield line
        elif own.group(1) not in seen:
            if depth:  # a later include, outside the condition, would be left out
                yield from texts_of(own.group(1), set(seen), depth)
            else:
                yield from texts_of(own.group(1), seen)


def single_header(name):
    version = re.search(r'CLEAVE_VERSION "(.*)"', (INCLUDE / "cleave/version.hpp").read_text(encoding="utf-8")).group(1)
    lines = []
    for line in texts_of(name, set()):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "// SPDX-License-Identifier: MIT\n// <%s> of cleave %s and all that it includes of cleave.\n#pragma once\n%s\n" % (
        name, version, "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(prog="./dev single-header", description=__doc__)
    parser.add_argument("header", nargs="?", default="cleave", help="as in <cleave/HEADER.hpp> (cleave)")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="file to write (standard output)")
    args = parser.parse_args()
    name = "cleave/%s.hpp" % args.header
    if not (INCLUDE / name).is_file():
        known = ", ".join(sorted(p.stem for p in (INCLUDE / "cleave").glob("*.hpp")))
        sys.exit("single-header: there is no <%s>; known: %s" % (name, known))
    text = single_header(name)
    if args.out is None:
        sys.stdout.write(text)
    else:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
