# SPDX-License-Identifier: MIT
"""Runs the terminal sessions of a page: console.py PAGE ROOT TOOL. Exits with 1 where a command prints something else.

A session is a block ```console. A line `$ COMMAND` is run by bash; lines `> ...` below it continue a here-document.
The lines after it are its output: `...` alone stands for any lines, `…` within a line for any text. All commands of
a page share one new folder, in which `examples`, `include`, `bench` and `dev` stand for those of the project.
`./dev cleave` and `./dev partition` there run TOOL without building it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

page, root, tool = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
SHIM = """#!/usr/bin/env bash
set -euo pipefail
case $1 in
  cleave) exec "{tool}" "${{@:2}}" ;;
  partition) exec "{tool}" "$@" ;;
  *) if [[ $2 == partition ]]; then exec "{tool}" bench "${{@:3}}"; fi; echo "dev: no '$*' in a test" >&2; exit 2 ;;
esac
"""


def sessions(text):
    """Yields (line, command, expected output lines)."""
    found, inside = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif inside and line.startswith("> ") and not found[-1][2]:
            found[-1][1].append(line[2:])
        elif inside:
            found[-1][2].append(line)
    return found


def plain(line):
    return re.sub("[\u00a0\u2009\u202f]", " ", line.rstrip())  # narrow spaces before units look like spaces


def pattern(lines):
    made = ""
    for line in lines:
        made += "(?:[^\n]*\n)*" if line == "..." else ".*".join(re.escape(p) for p in plain(line).split("…")) + "\n"
    return made


def main():
    found = sessions(page.read_text())
    if not found:
        return f"{page.name} has no terminal session"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples", "include", "bench"):
            os.symlink(root / name, pathlib.Path(folder, name))
        shim = pathlib.Path(folder, "dev")
        shim.write_text(SHIM.format(tool=tool))
        shim.chmod(0o755)
        for number, command, expected in found:
            run = subprocess.run(["bash", "-c", "\n".join(command)], cwd=folder, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=240)
            printed = "".join(plain(line) + "\n" for line in run.stdout.splitlines())
            if not re.fullmatch(pattern(expected), printed):
                return f"{page.name}:{number}: {command[0]}\nprints (exit {run.returncode})\n{printed}\nThe page says\n" + "\n".join(expected)
    print(f"{page.name}: {len(found)} commands")
    return 0


sys.exit(main())
