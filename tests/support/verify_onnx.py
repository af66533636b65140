#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do the stages that `cleave split` writes compute what the whole model computes?

    ./dev verify-onnx DIR [--stages K]                    every MODEL.onnx and MODEL.onnx.gz in DIR, split by the built
                                                          tool in K, or else in 2, 3, 4 and 8
    ./dev verify-onnx MODEL.onnx FOLDER [--stages K]      stages that are there already

Each split is checked twice. First its structure (`--stages K`): FOLDER holds stage_0.onnx … stage_(K-1).onnx and no other
stage, each has a node, every node that an output depends on is there exactly once and unaltered, constants apart
(they are initializers of each stage that reads them, with the data of the model), nothing else is there, and every value is read
after it is made. Then verify_stages.py runs whole and stages with onnxruntime, on the inputs of the sidecar MODEL.json, and demands
equal bits. A model without a sidecar is run once, on pseudo-random inputs (an unknown dimension is 1, whole numbers are 0 or 1).
In a folder, a model with fewer than K live nodes has one stage for each.

onnxruntime is quadratic in the readers of one value, so it needs minutes for a value with thousands of readers. Such a model and its
stages are computed by onnx's own reference evaluator instead, compared with each other bit by bit and with the sidecar.

Needs onnxruntime, onnx and numpy. Prints a line a model, ends with `N passed, N failed`; exit status 0 if none failed.
"""
import argparse, collections, concurrent.futures, gzip, json, os, pathlib, re, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
VERIFY_STAGES = HERE.parent / "models" / "verify_stages.py"
sys.path.insert(0, str(VERIFY_STAGES.parent))
import numpy as np, onnx
import verify_stages

MOST_READERS = 5000  # of one value, for onnxruntime


def read(path):
    data = pathlib.Path(path).read_bytes()
    return onnx.ModelProto.FromString(gzip.decompress(data) if str(path).endswith(".gz") else data)


def bodies(node):
    for a in node.attribute:
        if a.HasField("g"): yield a.g
        yield from a.graphs


def reads(node):
    """The names that a node reads, and those that its bodies take from outside. (Bodies nest at most 33 deep.)"""
    names = set(node.input)
    for g in bodies(node):
        inside = {o.name for o in g.output}.union(*map(reads, g.node))
        names |= inside - {i.name for i in g.input} - {t.name for t in g.initializer} - {o for n in g.node for o in n.output}
    return names - {""}


def unnamed(node):
    """A node without names that stages may change: of nodes, which are labels, and of values inside bodies."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    def strip(n, renamed):
        n.name = ""
        for g in bodies(n):
            local = [v.name for v in g.input] + [t.name for t in g.initializer] + [o for m in g.node for o in m.output if o]
            inside = {**renamed, **{name: "local %d" % (len(renamed) + i) for i, name in enumerate(local)}}
            for named in [*g.input, *g.output, *g.initializer, *g.value_info]: named.name = inside.get(named.name, named.name)
            for m in g.node:
                m.input[:] = [inside.get(v, v) for v in m.input]
                m.output[:] = [inside.get(v, v) for v in m.output]
                strip(m, inside)
    strip(copy, {})
    return copy.SerializeToString(deterministic=True)


class Whole:
    """What of a model must be in its stages."""

    def __init__(self, model):
        g = model.graph
        self.model = model
        self.maker = {o: n for n in g.node for o in n.output if o}
        self.inputs = {i.name for i in g.input}
        self.outputs = [o.name for o in g.output]
        self.weights = {t.name: t for t in g.initializer}
        self.overridable = {n for n in self.weights if n in self.inputs and model.ir_version >= 4}
        self.constants = {}  # name -> array, of what a stage may hold as an initializer
        for name, t in self.weights.items(): self.constants[name] = onnx.numpy_helper.to_array(t)
        for n in g.node:
            if n.domain not in ("", "ai.onnx") or len(n.output) != 1: continue
            if n.op_type == "Constant": self.constants[n.output[0]] = constant(n)
            if n.op_type == "Identity" and n.input[0] in self.constants and n.input[0] not in self.overridable:
                self.constants[n.output[0]] = self.constants[n.input[0]]
        self.live, todo = {}, list(self.outputs)
        while todo:
            v = todo.pop()
            n = self.maker.get(v)
            if n is None or id(n) in self.live: continue
            self.live[id(n)] = n
            todo += reads(n)

    def is_constant(self, node):
        """Whether stages hold its result as an initializer. One that is an output of the model has to be made."""
        return len(node.output) == 1 and node.output[0] in self.constants and node.output[0] not in self.outputs

    def stages(self, k):
        return min(k, sum(not self.is_constant(n) for n in self.live.values()))


def constant(node):
    a = node.attribute[0]
    if a.name == "value": return onnx.numpy_helper.to_array(a.t)
    kind = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}.get(a.name, object)
    return np.array(onnx.helper.get_attribute_value(a), kind)


def structure_faults(whole, folder, k):
    """What is wrong with the files as a cut of the model, as sentences."""
    found = sorted(int(m.group(1)) for p in pathlib.Path(folder).glob("stage_*") if (m := re.fullmatch(r"stage_(\d+)\.onnx(\.gz)?", p.name)))
    if found != list(range(k)): yield "expected stage_0 … stage_%d, found %s" % (k - 1, found)
    made, count = {}, collections.Counter()
    known = collections.Counter(unnamed(n) for n in whole.live.values())
    for p in verify_stages.stage_files(folder):
        stage = read(p)
        g = stage.graph
        if not g.node: yield "%s has no node" % p.name
        held = {t.name for t in g.initializer}
        for t in g.initializer:
            if t.name not in whole.constants: yield "%s: initializer %r is no constant of the model" % (p.name, t.name)
            elif not same(onnx.numpy_helper.to_array(t), whole.constants[t.name]): yield "%s: initializer %r has other data than in the model" % (p.name, t.name)
        for name in held & whole.overridable:
            if name not in {i.name for i in g.input}: yield "%s: %r can be overridden, but is no input" % (p.name, name)
        here = held | {i.name for i in g.input}
        for i in g.input:
            if i.name not in held and i.name not in made and i.name not in whole.inputs: yield "%s reads %r, which no stage before it makes" % (p.name, i.name)
        names = [n.name for n in g.node if n.name]
        if len(names) != len(set(names)): yield "%s: two nodes have one name" % p.name
        used = set()
        for n in g.node:
            key = unnamed(n)
            if key not in known: yield "%s: a %s that makes %s is not in the model, or reaches no output" % (p.name, n.op_type, list(n.output))
            count[key] += 1
            inside = reads(n)
            used |= inside
            for v in inside:
                if v not in here: yield "%s: %r is read and neither made before nor an input" % (p.name, v)
            here.update(n.output)
            for o in n.output:
                if o: made[o] = p.name
        for i in g.input:
            if i.name not in used: yield "%s: input %r is read by nobody" % (p.name, i.name)
        for o in g.output:
            if o.name not in here: yield "%s: output %r is not made" % (p.name, o.name)
    for key, n in {unnamed(n): n for n in whole.live.values()}.items():
        if whole.is_constant(n):
            if count[key]: yield "%r is a constant, but %d stages make it" % (n.output[0], count[key])
        elif count[key] != known[key]:
            yield "%s is made %d times" % (list(n.output), count[key])
    for o in whole.outputs:
        if o not in made and o not in whole.inputs and o not in whole.constants: yield "output %r comes from no stage" % o


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def evaluated_faults(whole, folder, side):
    """As verify_stages.py, but by onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator
    def evaluate(model, env):
        made = ReferenceEvaluator(model).run(None, {i.name: env[i.name] for i in model.graph.input})
        return dict(zip((o.name for o in model.graph.output), made))
    for r, one in enumerate(side["runs"]):
        env = {s["name"]: verify_stages.fill(s) for s in one["inputs"]}
        want = evaluate(whole.model, env)
        for p in verify_stages.stage_files(folder): env.update(evaluate(read(p), env))
        for o in one["outputs"]:
            name = o["name"]
            if not verify_stages.against_sidecar(name, want[name], o): yield "run %d: whole model: output %r differs from the sidecar" % (r, name)
            if name not in env: yield "run %d: output %r comes from no stage" % (r, name)
            elif not same(np.asarray(want[name]), np.asarray(env[name])): yield "run %d: output %r: stages differ from whole" % (r, name)


def sidecar_of(path, model, scratch):
    """The sidecar beside a model, or one made up for it."""
    found = pathlib.Path(re.sub(r"\.onnx(\.gz)?$", ".json", str(path)))
    if found.exists(): return found
    inputs, held = [], {t.name for t in model.graph.initializer}
    for seed, i in enumerate(i for i in model.graph.input if i.name not in held):
        t = i.type.tensor_type
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(t.elem_type))
        if dtype not in verify_stages.DTYPE: raise ValueError("input %r has elements for which there is no data: it needs a sidecar" % i.name)
        fill = {"kind": "lcg_float", "seed": seed} if dtype.startswith("float") else {"kind": "lcg_int", "seed": seed, "lo": 0, "hi": 2}
        inputs.append({"name": i.name, "dtype": dtype, "shape": [max(1, d.dim_value) for d in t.shape.dim], "fill": fill})
    names = [n.name for n in model.graph.node if n.name]
    made_up = {"onnxruntime": {"runs": len(names) == len(set(names))}, "runs": [{"inputs": inputs, "outputs": []}]}
    made = pathlib.Path(scratch) / "made_up_sidecar.json"
    made.write_text(json.dumps(made_up))
    return made


def run_faults(path, folder, sidecar, whole, tolerance):
    side = json.loads(pathlib.Path(sidecar).read_text())
    readers = collections.Counter(v for n in whole.model.graph.node for v in set(n.input))
    if readers and max(readers.values()) > MOST_READERS:
        yield from evaluated_faults(whole, folder, side)
        return
    stages = [str(folder)] if verify_stages.stage_files(folder) else []  # a model without nodes has none
    done = subprocess.run([sys.executable, VERIFY_STAGES, path, *stages, "--sidecar", sidecar, "--tolerance", str(tolerance)],
                          capture_output=True, text=True)
    if done.returncode:
        said = [l for l in done.stdout.splitlines() if l.startswith("FAIL ")] + done.stderr.splitlines()[-1:]
        yield "; ".join(said[:3])


def check(path, folder, k, sidecar=None, tolerance=0):
    whole = Whole(read(path))
    if k is not None: yield from structure_faults(whole, folder, k)
    with tempfile.TemporaryDirectory() as scratch:
        yield from run_faults(path, folder, sidecar or sidecar_of(path, whole.model, scratch), whole, tolerance)


def check_model(args, path):
    """Splits one model each way; returns (parts, faults) pairs."""
    results, whole = [], Whole(read(path))
    with tempfile.TemporaryDirectory() as scratch:
        for k in args.parts:
            out = pathlib.Path(scratch) / ("stages_%d" % k)
            done = subprocess.run([args.cleave, "split", path, "-k", str(k), "--out", out], capture_output=True, text=True)
            if done.returncode: faults = ["cleave split ends with %d: %s" % (done.returncode, done.stderr.strip())]
            else:
                out.mkdir(exist_ok=True)
                try: faults = list(check(path, out, whole.stages(k)))
                except Exception as e: faults = ["%s: %s" % (type(e).__name__, e)]
            results.append((k, faults))
    return results


def check_folder(args):
    models = sorted(p for p in args.model.iterdir() if re.search(r"\.onnx(\.gz)?$", p.name))
    if not models: sys.exit("no MODEL.onnx in %s" % args.model)
    if args.stages is not None: args.parts = [args.stages]
    passed = failed = 0
    start = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        longest_first = sorted(models, key=lambda p: (p.suffix != ".gz", p.name))
        asked = {p: pool.submit(check_model, args, p) for p in longest_first}
        for p in models:
            try: results = asked[p].result()
            except Exception as e: results = [(k, [str(e)]) for k in args.parts]
            bad = [(k, faults) for k, faults in results if faults]
            passed += len(results) - len(bad)
            failed += len(bad)
            print("%-28s %s" % (p.name, "  ".join("%d %s" % (k, "FAIL" if f else "ok") for k, f in results)), flush=True)
            for k, faults in bad:
                for why in faults[:5]: print("  -k %d: %s" % (k, why), flush=True)
    print("%d s" % (time.monotonic() - start))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=pathlib.Path, help="a folder of models, or one model")
    ap.add_argument("folder", type=pathlib.Path, nargs="?", help="of one model's stages")
    ap.add_argument("--stages", type=int, metavar="K", help="there must be K files, which hold every live node once")
    ap.add_argument("--sidecar", type=pathlib.Path)
    ap.add_argument("--tolerance", type=float, default=0)
    ap.add_argument("--cleave", default=os.environ.get("CLEAVE_TOOL", HERE.parent.parent / "build" / "ci" / "bin" / "cleave"))
    ap.add_argument("--parts", type=lambda s: [int(k) for k in s.split(",")], default=[2, 3, 4, 8])
    ap.add_argument("--jobs", type=int, default=2)
    args = ap.parse_args()
    if args.model.is_dir(): return check_folder(args)
    if args.folder is None: ap.error("a model needs the folder of its stages")
    faults = list(check(args.model, args.folder, args.stages, args.sidecar, args.tolerance))
    for why in faults: print("FAIL", why)
    print("%d passed, %d failed" % (not faults, bool(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
