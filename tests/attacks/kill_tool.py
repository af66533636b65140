#!/usr/bin/env python3
"""Kills the tool at random moments while it writes, and looks at what is left.

After each kill no process of the run may live for long, every output must be whole: the one that was there before, or the
new one. The next run must remove all unfinished files, and write what a run that nobody disturbed writes.
"""
import argparse
import pathlib
import random
import signal
import sys
import tempfile
import time
import uuid

import running

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Each call writes below OUT; the first and the second differ, so that old and new outputs can be told apart.
CALLS = {
    "split --out": ("split MODEL -k 3 --out OUT/stages", "split MODEL -k 5 --out OUT/stages"),
    "split --weights": ("split MODEL -k 2 --out OUT/stages --weights split", "split MODEL -k 4 --out OUT/stages --weights split"),
    "split --map --report": ("split MODEL -k 3 --map OUT/map --report OUT/page", "split MODEL -k 4 --map OUT/map --report OUT/page"),
    "schedule --out": ("schedule 1F1B -p 8 -m 64 --json -o OUT/plan", "schedule 1F1B -p 16 -m 64 --json -o OUT/plan"),
    "instances": ("instances OUT/graphs rgg2d:20k", "instances OUT/graphs rgg2d:20k"),
    "bench --out": ("bench --instances rgg2d:2k -k 2 --algos fast -o OUT/table", "bench --instances rgg2d:2k -k 4 --algos fast -o OUT/table"),
}


def words_of(call, tool, model, out):
    return [str(tool)] + [str(model) if w == "MODEL" else w.replace("OUT", str(out), 1) if w.startswith("OUT") else w for w in call.split()]


def without_times(files):
    """Outputs with the times of a bench are compared by name alone."""
    return {name: "" if name == "table" else content for name, content in files.items()}


def is_unfinished(name):
    return name.endswith((".unfinished", ".part"))


def main():
    parser = argparse.ArgumentParser(prog="./dev attack kill", description=__doc__)
    parser.add_argument("--tool", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=500, help="number of kills (500)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments (1)")
    parser.add_argument("model", nargs="?", type=pathlib.Path, default=ROOT / "examples" / "models" / "gpt2.onnx", help="ONNX model to split")
    args = parser.parse_args()
    running.without_core_dumps()
    chance = random.Random(args.seed)
    table = running.Table("call", "kills", "before the end", "unfinished files", "old and new", "flaws")
    with tempfile.TemporaryDirectory(prefix="cleave-attack-", dir=args.tool.parents[1]) as folder:
        expected, seconds = {}, {}
        for name, pair in CALLS.items():
            for i, call in enumerate(pair):
                out = pathlib.Path(folder) / ("%d %s" % (i, name.replace("--", "")))
                out.mkdir()
                ran = running.run(words_of(call, args.tool, args.model, out))
                if ran.status:
                    sys.exit("cleave %s: %s" % (call, ran.err.decode()))
                expected[name, i] = without_times(running.files_in(out))
                seconds[name, i] = ran.seconds
        for number in range(args.count):
            name, i = chance.choice(sorted(CALLS)), chance.randrange(2)
            out, mark, flaws = pathlib.Path(folder) / ("kill %d" % number), str(uuid.uuid4()), []
            out.mkdir()
            old = expected[name, 1 - i]
            if CALLS[name][0] != CALLS[name][1] and chance.random() < 0.7:
                running.run(words_of(CALLS[name][1 - i], args.tool, args.model, out))
            else:
                old = {}
            words = words_of(CALLS[name][i], args.tool, args.model, out)
            after = seconds[name, i] * chance.uniform(0, 1.2)
            ran = running.run(words, kill_after_s=after, signal_number=chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)), mark=mark)
            limit = time.monotonic() + 5
            while running.marked_processes(mark) and time.monotonic() < limit:
                time.sleep(0.01)
            if running.marked_processes(mark):
                flaws.append("a process of it lives after 5 s")
            left = without_times(running.files_in(out))
            unfinished = [n for n in left if is_unfinished(n)]
            whole = {n: c for n, c in left.items() if not is_unfinished(n)}
            new = expected[name, i]
            for n, content in whole.items():
                if content not in (old.get(n), new.get(n)):
                    flaws.append("%s is neither the old one nor the new one" % n)
            for n in old:
                if n in new and n not in whole:
                    flaws.append("%s is gone" % n)
            again = running.run(words)
            if again.status:
                flaws.append("the next run is refused: " + again.err.decode(errors="replace").strip())
            elif without_times(running.files_in(out)) != new:
                flaws.append("the next run leaves %s" % ", ".join(sorted(running.files_in(out))))
            table.add(name, **{"kills": 1, "before the end": ran.status < 0, "unfinished files": len(unfinished),
                               "old and new": bool(whole not in (old, new, {}) and not flaws), "flaws": len(flaws)})
            for flaw in flaws:
                print("kill %d, %s after %.4f s: %s" % (number, name, after, flaw), file=sys.stderr)
            if sys.stderr.isatty():
                print("\r%d of %d" % (number + 1, args.count), end="", file=sys.stderr)
    table.print()
    return 1 if table.total("flaws") else 0


if __name__ == "__main__":
    sys.exit(main())
