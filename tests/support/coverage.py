#!/usr/bin/env python3
"""Prints how many lines and branches of the headers the tests reach, by folder, and writes the others to a file.

usage: coverage.py ROOT LLVM_FOLDER BUILD_FOLDER LEAST_LINES LEAST_BRANCHES
"""
import collections
import json
import pathlib
import subprocess
import sys


def main(root, llvm, build, least_lines, least_branches):
    raw = sorted(map(str, (build / "raw").glob("*.profraw")))
    if not raw:
        sys.exit("coverage: no test wrote a profile to %s" % (build / "raw"))
    profile = str(build / "all.profdata")
    (build / "raw.txt").write_text("\n".join(raw))
    subprocess.run([llvm / "llvm-profdata", "merge", "-sparse", "-f", build / "raw.txt", "-o", profile], check=True)
    programs = [str(p) for p in sorted((build / "bin").iterdir()) if p.is_file() and p.stat().st_mode & 0o100]
    call = [str(llvm / "llvm-cov"), "export", "-instr-profile=" + profile, programs[0]]
    for program in programs[1:]:
        call += ["-object", program]
    headers = root / "include" / "cleave"  # llvm-cov's own filter misses files that the compiler was given by relative paths
    summary = json.loads(subprocess.run(call + ["-summary-only"], check=True, stdout=subprocess.PIPE).stdout)
    folders = collections.defaultdict(lambda: collections.Counter())
    for file in summary["data"][0]["files"]:
        name = pathlib.Path(file["filename"])
        parts = name.relative_to(headers).parts if name.is_relative_to(headers) else ("generated",)
        if "generated" in parts:
            continue
        for name in (parts[0] if len(parts) > 1 else "(umbrellas)", "all"):
            for kind in ("lines", "branches"):
                folders[name][kind] += file["summary"][kind]["count"]
                folders[name][kind + " reached"] += file["summary"][kind]["covered"]
    print("| folder | lines | reached | branches | reached |\n|---|---|---|---|---|")
    shares = {}
    for name, counts in sorted(folders.items(), key=lambda f: (f[0] == "all", f[0])):
        shares = {kind: 100 * counts[kind + " reached"] / max(1, counts[kind]) for kind in ("lines", "branches")}
        print("| %s | %d | %.1f %% | %d | %.1f %% |" % (name, counts["lines"], shares["lines"], counts["branches"], shares["branches"]))
    report = subprocess.run(call + ["-format=lcov"], check=True, stdout=subprocess.PIPE, text=True).stdout
    unreached, file = [], None
    for line in report.split("\n"):
        if line.startswith("SF:"):
            file = pathlib.Path(line[3:])
            file = file.relative_to(root) if file.is_relative_to(headers) and "generated" not in file.parts else None
        elif file and line.startswith("DA:") and line.endswith(",0"):
            number = int(line[3:].split(",")[0])
            unreached.append("%s:%d: %s" % (file, number, (root / file).read_text().split("\n")[number - 1].strip()))
    (build / "unreached.txt").write_text("\n".join(unreached) + "\n")
    print("%d lines that no test reaches are listed in %s" % (len(unreached), (build / "unreached.txt").relative_to(root)))
    if shares["lines"] < least_lines or shares["branches"] < least_branches:
        sys.exit("coverage: at least %g %% of the lines and %g %% of the branches are wanted" % (least_lines, least_branches))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]), *map(float, sys.argv[4:6]))
