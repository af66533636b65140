#!/usr/bin/env python3
"""Runs the tool on thousands of changed inputs of every kind that it reads.

Each run must end with exit 0 to 3, within seconds, without a report of a sanitizer, with a reason of its own where it
refuses, and must leave nothing but what it was told to write, and nothing if it refused.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import sys
import tempfile

import mutations
import running

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The calls for each class of input: @ is the changed file, OUT an empty folder, %2 a random word or 2, all others are unchanged seeds.
CALLS = {
    "ONNX models": [
        "split @ -k 3", "split @ -k 2 --out OUT", "split @ -k 3 --json", "split @ -k 2 --svg", "split @ --by buckets=10KiB",
        "split @ -k 2 --for vllm", "split @ -k 2 --out OUT --weights split", "inspect @ --shapes", "inspect @ --json"],
    "graphs": [
        "partition @ -k 2", "partition @ -k 3 --preset fast --out OUT/parts", "partition @ -k 2 --connected", "partition @ -k 2 --stream",
        "partition @ --machine 2:2 --distances 1:10", "order @ --out OUT/order", "bench @ -k 2 --algos fast"],
    "graphs in JSON": [
        "split @ -k 2", "split @ -k 2 --out OUT", "split @ -k 2 --json", "split @ -k 2 --report OUT/r", "inspect @", "partition @ -k 2"],
    "layers": ["split @ -k 2", "split @ -k 2 --map OUT/map"],
    "parts": ["partition plain.graph -k 4 --verify @", "partition operations.dag -k 2 --verify @", "partition plain.hgr -k 4 --verify @"],
    "schedules": [
        "verify @", "verify @ --transport rendezvous --repair OUT/r.csv", "verify @ --map map.json", "simulate @", "simulate @ --json",
        "simulate @ --svg -o OUT/x", "simulate @ --trace", "split g.json --schedule @"],
    "costs of stages": [
        "schedule 1F1B -p 2 --costs @", "schedule GPipe -p 2 --costs @ --svg", "schedule ZBV -p 2 --costs @ --html", "simulate two.csv --costs @"],
    "measured costs": ["split m.onnx -k 2 --costs @", "split g.json -k 2 --costs @"],
    "stage maps": ["verify two.csv --map @"],
    "assignments": ["split g.json --by file=@", "split g.json --by file=@ --map OUT/map"],
    "plans": ["split m.onnx --by ort-genai=@", "split gpt2.onnx --by ort-genai=@"],
    "hosts": ["split g.json -k 2 --hosts @", "split m.onnx -k 2 --hosts @ --map OUT/map"],
    "tables of runs": [
        "report @", "report @ --out OUT/page", "report @ --profile-svg OUT/p --times-svg OUT/t", "report runs.csv --against @",
        "bench plain.graph -k 2 --algos fast --append -o @"],
    "options": [
        "split m.onnx -k %2 --bandwidth %1GB/s", "split g.json -k 2 --memory %1MiB --speed %1", "split g.json --by %balance",
        "split m.onnx -k 2 --dim %N=3 --shape %input=1x3x8x8", "partition plain.graph -k %2 --eps %0.1 --seed %1",
        "partition plain.graph -k 2 --machine %2:2 --distances %1:10", "partition plain.graph -k 2 --goal %edges --preset %fast",
        "schedule 1F1B -p %2 -m %4 -v %1", "schedule all -p %2 -m %4", "simulate two.csv --hop %1ms --jitter %0.1", "verify two.csv -p %2 --most-kept %2",
        "bench plain.graph -k %2 --eps %0.03 --algos fast --seeds %1", "instances OUT/g %rgg2d:100", "%inspect m.onnx", "split %m.onnx -k %2"],
}
WORDS = [
    "0", "1", "2", "-1", "1e308", "1e-310", "nan", "inf", "", " ", "2,2", "1:2:3", "99999999TiB", "10KiB", "1ms", "0x4", "a=b", "N=3", "1,1", "0.5",
    "18446744073709551616", "4294967295", "100000", "input=1x3x8x8", "balance", "tags", "buckets=0", "buckets=1KiB", "modules=", "capability=Conv",
    "file=", "vllm=1,1", "vllm=", "cut", "quality", "rgg2d:100", "rgg2d:", "split", "inspect", "--json", "--help", "\x1b[31m",
    "\udcff", "\u202e", "a" * 5000]


def make_seeds(tool, folder):
    """Makes unchanged inputs in `folder`, and returns those of each class."""
    def said(*words):
        ran = running.run([tool, *(str(folder / w) if "." in w else w for w in words)])
        if ran.status:
            sys.exit("cleave %s: %s" % (" ".join(words), ran.err.decode()))
        return ran.out

    def put(name, content):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    fuzz = {kind: sorted((ROOT / "tests" / "fuzz" / kind).iterdir()) for kind in ("read_graph", "read_schedule", "read_runs", "read_cost_file")}
    models = [m for m in sorted((ROOT / "tests" / "models" / "onnx").glob("*.onnx")) if m.stat().st_size < 60000]
    for file in fuzz["read_graph"] + fuzz["read_runs"]:
        put(file.name, file.read_bytes())
    put("m.onnx", (ROOT / "tests" / "models" / "onnx" / "names.onnx").read_bytes())
    put("gpt2.onnx", (ROOT / "examples" / "models" / "gpt2.onnx").read_bytes())
    graph = put("g.json", """{"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"},
        {"name": "a", "operands": ["x"], "cost": 1, "bytes": 4}, {"name": "b", "operands": ["a"], "cost": 2},
        {"name": "y", "op": "output", "operands": ["b"]}]}""")
    schedules = [put("two.csv", said("schedule", "1F1B", "-p", "2", "-m", "2", "--csv"))]
    for name in ("1F1B", "ZBV", "Interleaved1F1B"):
        for form in ("csv", "json"):
            schedules.append(put("%s.%s" % (name, form), said("schedule", name, "-p", "2", "-m", "4", "--" + form)))
    said("split", "g.json", "-k", "2", "--map", "map.json", "--overwrite")
    return {
        "ONNX models": models,
        "graphs": [f for f in fuzz["read_graph"] if f.suffix not in (".parts", ".json")],
        "graphs in JSON": [graph] + [f for f in fuzz["read_graph"] if f.suffix == ".json"],
        "layers": [put("layers.csv", "layers.0,1ms,10\nlayers.1,2.5ms,20\nlayers.2,1ms\n")],
        "parts": [put("four.parts", "0\n1\n1\n0\n2\n3\n3\n"), put("two.parts", "0\n0\n1\n1\n")],
        "schedules": schedules + [f for f in fuzz["read_schedule"] if f.stem != "costs"],
        "costs of stages": [put("costs.csv", "stage,F,B,W\n0,1,2,1\n1,1,2,1\n2,1,1,1\n3,1.5,1,1\n")] + [f for f in fuzz["read_schedule"] if f.stem == "costs"],
        "measured costs": [put("times.csv", "#0,1ms\n#1,2ms\n")] + fuzz["read_cost_file"],
        "stage maps": [folder / "map.json"],
        "assignments": [put("by.txt", "a 0\nb 1\n")],
        "plans": [put("pipe.json", '[{"a": {"filename": "a.onnx", "inputs": ["input"], "outputs": ["output"]}}]')],
        "hosts": [put("hosts.txt", "a:3000 slots=2\nb slots=1\n# none\n[::1]:80\n")],
        "tables of runs": fuzz["read_runs"] + [put("table.csv", said("bench", "plain.graph", "-k", "2", "--algos", "fast"))],
        "options": [],
    }


class Attack:
    """One changed input and the call that reads it: all of it follows from its number."""

    def __init__(self, number, args, seeds, folder):
        chance = random.Random("%d %d" % (args.seed, number))
        self.kind = chance.choice(sorted(seeds))
        self.folder = pathlib.Path(folder) / str(number)
        self.out = self.folder / "out"
        self.out.mkdir(parents=True)
        file = None
        if seeds[self.kind]:
            seed, other = chance.choice(seeds[self.kind]), chance.choice(seeds[self.kind])
            file = self.folder / ("input" + seed.suffix)
            file.write_bytes(mutations.change(seed.read_bytes(), other.read_bytes(), seed.suffix == ".onnx", chance))
        self.words = []
        for word in chance.choice(CALLS[self.kind]).split():
            if word.startswith("%"):
                word = chance.choice((word[1:], chance.choice(WORDS)))
            if "@" in word:
                word = word.replace("@", str(file))
            elif word.startswith("OUT"):
                word = str(self.out) + word[3:]
            elif word in args.names:
                word = str(args.inputs / word)
            self.words.append(word)

    def flaw_of(self, args):
        before = set(running.files_in(self.folder))
        ran = running.run([str(args.tool), *self.words], limit_s=3 * args.seconds)
        self.status = ran.status
        flaw = running.find_flaw(ran, args.seconds, args.mebibytes)
        added = set(running.files_in(self.folder)) - before
        if not flaw and any(name.endswith(".unfinished") for name in added):
            flaw = "an unfinished file is left"
        if not flaw and ran.status == 3 and added and not self.words[0] == "bench":
            flaw = "refused, but wrote %s" % ", ".join(sorted(added))
        self.said = ran.err[:400].decode(errors="replace")
        return flaw


def main():
    parser = argparse.ArgumentParser(prog="./dev attack mutate", description=__doc__)
    parser.add_argument("--tool", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=25000, help="number of changed inputs (25000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the changes (1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first; with --count 1, to see one again")
    parser.add_argument("--seconds", type=float, default=10, help="most seconds that a run may take (10)")
    parser.add_argument("--mebibytes", type=int, default=1024, help="most memory that a run may take; 0: any (1024)")
    parser.add_argument("--only", help="only this class of input, as in the table")
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="ONNX models to change as well, of your own")
    args = parser.parse_args()
    running.without_core_dumps()
    table = running.Table("class", "inputs", "accepted", "refused", "flaws")
    with tempfile.TemporaryDirectory(prefix="cleave-attack-") as folder:
        args.inputs = pathlib.Path(folder) / "inputs"
        args.inputs.mkdir()
        seeds = make_seeds(args.tool, args.inputs)
        seeds["ONNX models"] += args.models
        args.names = {file.name for file in args.inputs.iterdir()}
        if args.only:
            seeds = {args.only: seeds[args.only]}

        def attack(number):
            made = Attack(number, args, seeds, folder)
            flaw = made.flaw_of(args)
            if flaw:
                kept = pathlib.Path(args.tool).parents[1] / "attacks" / ("seed-%d-number-%d" % (args.seed, number))
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(made.folder, kept)
                made.words = [w.replace(str(made.folder), str(kept)) for w in made.words]
            shutil.rmtree(made.folder)
            return number, made, flaw

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
            for number, made, flaw in workers.map(attack, range(args.first, args.first + args.count)):
                table.add(made.kind, inputs=1, accepted=made.status in (0, 1), refused=made.status in (2, 3), flaws=bool(flaw))
                if flaw:
                    print("%d: %s: cleave %s\n  %s" % (number, flaw, " ".join(made.words), made.said.strip()), file=sys.stderr)
                if sys.stderr.isatty() and number % 100 == 0:
                    print("\r%d of %d" % (number - args.first, args.count), end="", file=sys.stderr)
    table.rows = dict(sorted(table.rows.items()))
    table.print()
    return 1 if table.total("flaws") else 0


if __name__ == "__main__":
    sys.exit(main())
