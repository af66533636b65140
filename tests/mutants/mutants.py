#!/usr/bin/env python3
"""Changes single operators, constants and statements of headers, and lists the changes that no test notices.

A changed header is compiled with the tests that reach it, the nearest first. A change that a test
notices, that does not compile, or that makes a test hang is killed. The others survive: the tests lack a case, or the
change has no effect. Changes whose reason is in survivors.txt are listed as explained.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"

# What is replaced by what. Only code is changed: no comments, strings, includes or template parameters.
OPERATORS = [
    (r"(?<![<\-=])<=(?!>)", "<"), (r">=", ">"), (r"==", "!="), (r"!=", "=="), (r" < ", " <= "), (r" < ", " >= "), (r" > ", " >= "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \* (?=[\w(])", " / "), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\+\+", "--"), (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"(?<=[ (])!(?=[\w(])", ""), (r"(?<![\w.])0(?![\w.])", "1"),
    (r"(?<![\w.])1(?![\w.])", "0"), (r"(?<![\w.])1(?![\w.])", "2"), (r"\bcontinue;", "break;"), (r"\bbreak;", "continue;"),
    (r"\(std::min\)", "(std::max)"), (r"\(std::max\)", "(std::min)"), (r"lower_bound", "upper_bound"), (r"\bif \((?!constexpr)", "if (!("),
]
STATEMENT = re.compile(r"^\s+[\w:.>\[\]()-]+(\([^;{}]*\)| [-+]?= [^;{}]*);$")
NO_CODE = re.compile(r'//.*$|"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|^\s*#.*$|'
                     r'\btemplate <.*|\boperator\S+|\bstatic_assert.*|\bCLEAVE_\w+\(.*|\bnoexcept\(.*|\brequires\b.*|= default|->')


class Mutant:
    """A header with one line changed, or removed if `changed` is empty."""

    def __init__(self, header, number, line, changed):
        self.header, self.number, self.line, self.changed = header, number, line, changed

    def name(self):
        return "%s: %s  =>  %s" % (self.header, self.line.strip(), self.changed.strip() or "(removed)")


def blanked(line):
    """The line with all that is not code replaced by characters that no rule matches."""
    return NO_CODE.sub(lambda m: "\0" * len(m.group()), line)


def with_closed_condition(line, at):
    """Turns `if (c` at `at` into `if (!(c)`, or returns nothing if the condition ends on another line."""
    depth = 0
    for i in range(line.index("(", at), len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0:
            begin = line.index("(", at)
            if ";" in line[begin:i]:
                return None
            return line[:begin] + "(!" + line[begin:i + 1] + ")" + line[i + 1:]
    return None


def mutants_of(header):
    """Returns all changes that the rules make to a header."""
    found, lines = [], (INCLUDE / header).read_text().split("\n")
    for number, line in enumerate(lines):
        code = blanked(line)
        for pattern, replacement in OPERATORS:
            for match in re.finditer(pattern, code):
                if replacement == "if (!(":
                    changed = with_closed_condition(line, match.start())
                else:
                    changed = line[:match.start()] + replacement + line[match.end():]
                if changed:
                    found.append(Mutant(header, number, line, changed))
        if "\0" not in code and STATEMENT.match(code) and not code.strip().startswith("return"):
            found.append(Mutant(header, number, line, ""))
    return found


NOT_ALONE = ("house", "fuzz", "gpu", "cuda", "mpi", "conformance_runner", "tool", "freeze", "attacks", "corpora", "mutants", "support")
INCLUDED = re.compile(r'#include ["<](cleave/[^">]+)[">]')


class Tests:
    """The tests that reach a header, the nearest first: by the number of headers between, then by folder."""

    def __init__(self):
        self.includers = {}
        for header in INCLUDE.rglob("*.hpp"):
            for name in INCLUDED.findall(header.read_text()):
                self.includers.setdefault(name, []).append(str(header.relative_to(INCLUDE)))
        self.of_header = {}
        for test in sorted((ROOT / "tests").rglob("*.cpp")):
            if test.relative_to(ROOT / "tests").parts[0] not in NOT_ALONE:
                for name in INCLUDED.findall(test.read_text(errors="replace")):
                    self.of_header.setdefault(name, []).append(test)

    def reaching(self, header, most):
        found, level, seen = [], [header], {header}
        while level and len(found) < most:
            tests = {t for name in level for t in self.of_header.get(name, [])} - set(found)
            near = pathlib.Path(header).relative_to("cleave").with_suffix("").parts

            def distance(test):
                parts = test.relative_to(ROOT / "tests").with_suffix("").parts
                return -sum(a == b for a, b in zip(near, parts)), -(near[-1] in parts[-1]), str(test)

            found += sorted(tests, key=distance)
            level = sorted({i for name in level for i in self.includers.get(name, [])} - seen)
            seen.update(level)
        return found[:most]


def flags_of(test):
    text = test.read_text(errors="replace")
    flags = ["-lpthread", "-lsodium"]
    if "onnx" in text:
        flags += ["-DONNX_NAMESPACE=onnx", "-DONNX_ML=1", "-lonnx", "-lonnx_proto", "-lprotobuf"]
    return flags + ["-DXXH_INLINE_ALL", '-DCLEAVE_TEST_DATA="%s"' % (ROOT / "tests"), '-DCLEAVE_SOURCE_DIR="%s"' % ROOT, '-DCLEAVE_BINARY_DIR="%s"' % ROOT]


def notices(test, overlay, folder, main, seconds):
    """Compiles and runs a test with the headers in `overlay` before the others; returns whether it fails."""
    program = folder / (test.stem + ".run")
    call = ["g++", "-std=c++20", "-O0", "-w", "-I", overlay, "-I", INCLUDE, "-I", ROOT / "tests", test, main, "-o", program]
    compiled = subprocess.run(call + flags_of(test), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if compiled.returncode:
        return "does not compile" if b"undefined reference" not in compiled.stderr else ""
    try:
        ran = subprocess.run([program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds, cwd=folder)
    except subprocess.TimeoutExpired:
        return "hangs"
    return "" if ran.returncode == 0 else "noticed by %s" % test.relative_to(ROOT)


def main():
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="number of changes, drawn from all (40)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the drawing (1)")
    parser.add_argument("--most-tests", type=int, default=8, help="most test files to try for a change (8)")
    parser.add_argument("--seconds", type=float, default=60, help="most seconds for a test (60)")
    parser.add_argument("paths", nargs="*", help="headers or folders below include/, as in cleave/split (core, split, schedule/verify, run/program)")
    args = parser.parse_args()
    paths = args.paths or ["cleave/core", "cleave/split", "cleave/schedule", "cleave/run/program"]
    headers = sorted({str(h.relative_to(INCLUDE)) for p in paths
                      for h in ([INCLUDE / p] if (INCLUDE / p).is_file() else (INCLUDE / p).rglob("*.hpp"))})
    if not headers:
        sys.exit("mutants: no headers in %s" % ", ".join(paths))
    explained = {}
    for line in (pathlib.Path(__file__).parent / "survivors.txt").read_text().split("\n"):
        if line and not line.startswith("#"):
            name, reason = line.rsplit("  ::  ", 1)
            explained[name] = reason
    chance = random.Random(args.seed)
    everything = [m for h in headers for m in mutants_of(h)]
    drawn = chance.sample(everything, min(args.count, len(everything)))
    all_tests = Tests()
    counts = {"killed": 0, "survived": 0, "explained": 0, "without a test": 0}
    with tempfile.TemporaryDirectory(prefix="cleave-mutants-") as scratch:
        main_object = pathlib.Path(scratch) / "main.o"
        subprocess.run(["g++", "-std=c++20", "-c", ROOT / "tests" / "main.cpp", "-o", main_object], check=True)

        def fate_of(numbered):
            number, mutant = numbered
            folder = pathlib.Path(scratch) / str(number)
            overlay = folder / "include"
            target = overlay / mutant.header
            target.parent.mkdir(parents=True)
            lines = (INCLUDE / mutant.header).read_text().split("\n")
            lines[mutant.number] = mutant.changed
            target.write_text("\n".join(lines))
            tests = all_tests.reaching(mutant.header, args.most_tests)
            for test in tests:
                how = notices(test, overlay, folder, main_object, args.seconds)
                if how:
                    return mutant, "killed", how
            if mutant.name() in explained:
                return mutant, "explained", explained[mutant.name()]
            return mutant, "survived" if tests else "without a test", ", ".join(str(t.relative_to(ROOT / "tests")) for t in tests)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
            for mutant, fate, how in workers.map(fate_of, enumerate(drawn)):
                counts[fate] += 1
                if fate != "killed":
                    print("%s: line %d of %s\n  (tried: %s)" % (fate, mutant.number + 1, mutant.name(), how), flush=True)
                if sys.stderr.isatty():
                    print("\r%d of %d" % (sum(counts.values()), len(drawn)), end="", file=sys.stderr)
    print("%d of %d possible changes in %d headers: %s" % (len(drawn), len(everything), len(headers), ", ".join("%d %s" % (n, f) for f, n in counts.items())))
    return 1 if counts["survived"] + counts["without a test"] else 0


if __name__ == "__main__":
    sys.exit(main())
