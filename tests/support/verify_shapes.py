#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the shapes that `cleave inspect --shapes` infers are those of a run in onnxruntime.

    ./dev verify-shapes DIR|MODEL.onnx... [--dim NAME=N]... [--random N] [--seed S]

Each value of a model becomes an output; its element type, its rank and every known dimension must be as in the run, and no
dimension may be larger than its upper bound. Inputs come from the sidecar MODEL.json, or are pseudo-random. `--random N` checks
N small random models too, which compute shapes themselves. An unknown shape is counted and is no fault.

Needs onnxruntime, onnx and numpy. Prints a line a model, ends with `N passed, N failed`; exit status 0 if none failed.
"""
import argparse, json, os, pathlib, random, subprocess, sys, tempfile
import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import verify_onnx, verify_stages

AT_ONCE = 400  # outputs of one run, which onnxruntime keeps in memory


def inferred(path, dims):
    words = [os.environ.get("CLEAVE_TOOL", "cleave"), "inspect", str(path), "--shapes", "--json"]
    said = subprocess.run(words + [w for d in dims.items() for w in ("--dim", "%s=%d" % d)], capture_output=True, text=True)
    if said.returncode: raise ValueError(said.stderr.strip())
    return json.loads(said.stdout)["shapes"]


def run(model, shapes, feed):
    """Yields name and value of everything that `shapes` has."""
    have = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in shapes if n not in have)
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    o.log_severity_level = 4
    verify_onnx.without_names(model)
    session = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    for i in range(0, len(names), AT_ONCE): yield from zip(names[i:i + AT_ONCE], session.run(names[i:i + AT_ONCE], feed))


def faults(shapes, values, count):
    for name, value in values:
        said = shapes.get(name)
        if not isinstance(value, (np.ndarray, np.generic)): continue
        if said is None or said.endswith("unknown rank") or said.split()[0] not in verify_stages.DTYPE:
            count["unknown"] += 1
            continue
        element, text = said.split(" ", 1)
        dims = [] if text == "scalar" else text.split("x")
        fits = element == str(value.dtype) and len(dims) == value.ndim
        for d, size in zip(dims, value.shape):
            fits &= int(d) == size if d.isdigit() else size <= int(d[2:]) if d.startswith("<=") else True
        exact = all(d.isdigit() for d in dims)
        count["known" if exact else "bounded" if all(d[0] in "<0123456789" for d in dims) else "unknown"] += 1
        if not fits: yield "%r is %s %s in the run, but %s by inference" % (name, value.dtype, list(value.shape), said)


def random_model(seed):
    """A chain of operators whose shapes depend on numbers that the model computes."""
    r = random.Random(seed)
    nodes, made = [], [("x", [r.randint(1, 4) for _ in range(r.randint(1, 4))])]
    first, count = made[0][1], [0]
    def name():
        count[0] += 1
        return "v%d" % count[0]
    def node(op, *operands, outputs=1, **attributes):
        names = [name() for _ in range(outputs)]
        nodes.append(helper.make_node(op, list(operands), names, **attributes))
        return names[0] if outputs == 1 else names
    def numbers(values, kind=np.int64):
        return node("Constant", value=numpy_helper.from_array(np.array(values, kind)))
    def computed(values):
        """The numbers, but in a way that they follow from a shape: through arithmetic on the shape of x."""
        size = node("ReduceProd", node("Shape", "x"), keepdims=1)
        way = r.randrange(4)
        if way == 0: return numbers(values)
        if way == 1: return node("Add", numbers([v - int(np.prod(first)) for v in values]), size)
        if way == 2 and values:
            parts = [node("Unsqueeze", node("Gather", numbers(values), numbers(i)), numbers([0])) for i in range(len(values))]
            return node("Concat", *parts, axis=0)
        real = node("Cast", numbers(values), to=TensorProto.FLOAT)
        return node("Cast", node("Floor", node("Mul", real, numbers(1.0, np.float32))), to=TensorProto.INT64)
    def small(values): return len(values) <= 5 and np.prod(values, dtype=int) <= 4000
    for _ in range(r.randint(3, 10)):
        v, dims = r.choice(made)
        axis, op = r.randrange(len(dims)) if dims else 0, r.randrange(17)
        if op == 0:
            rest = int(np.prod(dims))
            to = []
            while rest > 1 and len(to) < 3:
                d = r.choice([i for i in range(1, rest + 1) if rest % i == 0])
                to.append(d)
                rest //= d
            if 0 in dims: continue
            to = to + [rest]
            if r.randrange(2): to[r.randrange(len(to))] = -1
            v = node("Reshape", v, computed(to))
        elif op == 1: v = node("Expand", v, computed([r.randint(1, 3)] + [d if d != 1 else r.randint(1, 3) for d in dims]))
        elif op == 2 and dims: v = node("Tile", v, computed([r.randint(0, 2) for _ in dims]))
        elif op == 3 and dims:
            step = r.choice([-2, -1, 1, 2])
            v = node("Slice", v, computed([r.randint(-5, 5)]), computed([r.randint(-5, 5)]), numbers([axis - len(dims)]), computed([step]))
        elif op == 4 and dims: v = node("Pad", v, computed([r.randint(0, 2) for _ in range(2 * len(dims))]))
        elif op == 5 and dims: v = node("TopK", v, computed([r.randint(0, dims[axis])]), axis=axis, outputs=2)[r.randrange(2)]
        elif op == 6 and dims and dims[axis] > 0:
            cut = r.randint(0, dims[axis])
            v = node("Split", v, computed([cut, dims[axis] - cut]), axis=axis, outputs=2)[1]
        elif op == 7: v = node("Unsqueeze", v, numbers([r.choice([0, -1])]))
        elif op == 8: v = node("Squeeze", v)
        elif op == 9 and dims and 0 not in dims:
            v = node(r.choice(["ReduceMax", "ReduceMean", "ReduceSum"]), v, numbers([axis]), keepdims=r.randrange(2))
        elif op == 10 and dims: v = node("Concat", v, v, axis=axis)
        elif op == 11: v = node("Cast", node("NonZero", v), to=TensorProto.FLOAT)
        elif op == 12 and len(dims) == 4 and 0 not in dims:
            v = node("Resize", v, "", numbers([1, 1, r.choice([0.5, 1.7, 2]), 1.3], np.float32), mode="nearest")
        elif op == 13: v = node("ConstantOfShape", computed([r.randint(0, 4) for _ in range(r.randint(0, 3))]))
        elif op == 14:
            a, b, s = r.randint(-9, 9), r.randint(-9, 9), r.choice([-3, -1, 1, 2])
            single = [node("Squeeze", computed([x])) for x in (a, b, s)]
            v = node("Cast", node("Range", *single), to=TensorProto.FLOAT)
        elif op == 15:
            yes, no = helper.make_graph([helper.make_node("Relu", [v], ["yes"])], "yes", [], [onnx.ValueInfoProto(name="yes")]), \
                helper.make_graph([helper.make_node("Unsqueeze", [v, "axis0"], ["no"])], "no", [], [onnx.ValueInfoProto(name="no")])
            which = node("Equal", node("Size", v), numbers(r.choice([int(np.prod(dims)), 1])))
            v = node("If", which, then_branch=yes, else_branch=no)
        elif op == 16:
            body = helper.make_graph([helper.make_node("Identity", ["go"], ["goes"]), helper.make_node(r.choice(["Relu", "Tanh"]), ["in"], ["out"]),
                                      helper.make_node("Relu", ["in"], ["each"])], "body",
                                     [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                                      helper.make_tensor_value_info("in", TensorProto.FLOAT, None)],
                                     [onnx.ValueInfoProto(name=n) for n in ("goes", "out", "each")])
            v = node("Loop", node("Squeeze", computed([r.randint(0, 3)])), "", v, body=body, outputs=2)[r.randrange(2)]
        else: continue
        if op == 5: v = node("Cast", v, to=TensorProto.FLOAT)
        shape = shape_of(nodes, v, first)  # None: onnxruntime does not compute it
        if shape is None:
            while nodes and v not in nodes[-1].output: nodes.pop()
            nodes.pop()
            continue
        if small(shape): made.append((v, shape))
    return finished(nodes, made[-1][0], first)


def finished(nodes, last, first):
    axis = helper.make_node("Constant", [], ["axis0"], value=numpy_helper.from_array(np.array([0], np.int64)))
    g = helper.make_graph([axis, *nodes], "random", [helper.make_tensor_value_info("x", TensorProto.FLOAT, first)], [onnx.ValueInfoProto(name=last)])
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def shape_of(nodes, last, first):
    try: return list(dict(run(finished(nodes, last, first), [], {"x": np.ones(first, np.float32)}))[last].shape)
    except Exception: return None


def feed_of(path, model, dims):
    """The inputs of the first run in the sidecar, or made-up ones."""
    side = verify_onnx.sidecar_of(path)
    if side is None: return verify_onnx.made_up_inputs(model, dims)
    return {s["name"]: verify_stages.fill(s) for s in side["runs"][0]["inputs"]}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("models", nargs="*", type=pathlib.Path)
    options.add_argument("--dim", type=verify_onnx.dimension, metavar="NAME=N", action="append", default=[])
    options.add_argument("--random", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    options = options.parse_args()
    dims = dict(options.dim)
    passed = failed = 0
    count = {"known": 0, "bounded": 0, "unknown": 0}
    def check(label, path, feed):
        nonlocal passed, failed
        mine = dict.fromkeys(count, 0)
        try:
            model, shapes = verify_onnx.read(path), inferred(path, dims)
            wrong = list(faults(shapes, run(model, shapes, feed(model)), mine))
        except Exception as e:
            wrong = [(str(e) or type(e).__name__).splitlines()[0]]
        passed, failed = passed + (not wrong), failed + bool(wrong)
        for k in count: count[k] += mine[k]
        if label or wrong: print("%s: %s" % (label or path, "; ".join(wrong[:5]) or ", ".join("%d %s" % (v, k) for k, v in mine.items())))
    for each in options.models:
        for path in sorted(p for p in (each.iterdir() if each.is_dir() else [each]) if p.name.endswith((".onnx", ".onnx.gz"))):
            check(path.name, path, lambda model: feed_of(path, model, dims))
    with tempfile.TemporaryDirectory() as scratch:
        for i in range(options.random):
            path = pathlib.Path(scratch) / ("random_%d.onnx" % (options.seed + i))
            model = random_model(options.seed + i)
            path.write_bytes(model.SerializeToString())
            x = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
            check("", path, lambda _: {"x": np.random.default_rng(options.seed + i).uniform(-1, 1, x).astype(np.float32)})
    print("values: %s" % ", ".join("%d %s" % (v, k) for k, v in count.items()))
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__": sys.exit(main())
