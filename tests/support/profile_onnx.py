#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the nodes of a model in onnxruntime and writes a profile for `cleave split --costs`.

    ./dev profile-onnx MODEL.onnx [--dim NAME=N]... [-o FILE] [--runs 10] [--optimize all]

Runs the model with one thread. Inputs are those of the sidecar MODEL.json, or pseudo-random: real numbers in [-1, 1), whole numbers
0 or 1. With --dim, shapes are those of the model, not of the sidecar. A symbolic dimension without a size is 1. FILE (default: MODEL.profile.json in the current folder) is the profile
that SessionOptions.enable_profiling writes, without the fields that cleave does not read. A run without optimization adds the shapes
of all results. An existing file is replaced only if it is such a profile.

--optimize is onnxruntime's level of graph optimization: none, basic, extended or all. Measure with the level with which the stages
will run. With `none` each node is measured alone; with the others, nodes that are fused share the time of the fused node.

Needs onnxruntime, onnx and numpy. Exit status: 0 if the file is written, 2 if the model cannot be run or an option is wrong.
"""
import argparse, json, os, pathlib, re, sys, tempfile
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_onnx

LEVELS = {"none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL, "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
          "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}
KEPT = ("op_name", "node_index", "output_type_shape")


class Wrong(Exception):
    """An option or a model that cannot be used."""


def dimension(text):
    name, equal, size = text.rpartition("=")
    if not equal or not name or not size.isdigit() or int(size) < 1: raise argparse.ArgumentTypeError("expected NAME=N, found %r" % text)
    return name, int(size)


def is_profile(path):
    """Returns true if a file is a profile, as this script or onnxruntime writes it."""
    with open(path, errors="replace") as f: head = f.read(4096).replace(" ", "")
    return head.startswith('[\n{"cat":"Session"')


def inputs_of(session, model, dims):
    known = {d for i in session.get_inputs() for d in i.shape if isinstance(d, str)}
    for name in dims:
        if name not in known: raise Wrong("--dim %s: no input has this dimension; there are: %s" % (name, ", ".join(sorted(known)) or "none"))
    return run_onnx.inputs_of(session, model, 0, dims)


def profile(model, dims, runs, level):
    """The events of a profile."""
    with tempfile.TemporaryDirectory() as scratch:
        o = ort.SessionOptions()
        o.graph_optimization_level = LEVELS[level]
        o.intra_op_num_threads = o.inter_op_num_threads = 1
        o.log_severity_level = 4
        o.enable_profiling, o.profile_file_prefix = True, os.path.join(scratch, "profile")
        session = ort.InferenceSession(str(model), o, providers=["CPUExecutionProvider"])
        env = inputs_of(session, model, dims)
        for _ in range(runs): session.run(None, env)
        return json.loads(pathlib.Path(session.end_profiling()).read_text())


def shapes(model, dims):
    """The shapes of all results, as events without a time: fused nodes hide those of the nodes that they took in."""
    seen = {}
    for e in profile(model, dims, 1, "none"):
        if e.get("cat") == "Node" and "output_type_shape" in e["args"]: seen.setdefault(e["name"], e["args"]["output_type_shape"])
    return [{"cat": "Shape", "name": name, "args": {"output_type_shape": shape}} for name, shape in seen.items()]


def line_of(event):
    if "args" in event: event["args"] = {k: v for k, v in event["args"].items() if k in KEPT}
    return json.dumps({k: event[k] for k in ("cat", "name", "ph", "ts", "dur", "tid", "args") if k in event})


def main():
    ap = argparse.ArgumentParser(prog="profile-onnx", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=pathlib.Path)
    ap.add_argument("-o", "--out", type=pathlib.Path)
    ap.add_argument("--dim", type=dimension, action="append", default=[], metavar="NAME=N")
    ap.add_argument("--runs", type=int, default=10)
    ap.add_argument("--optimize", choices=LEVELS, default="all")
    args = ap.parse_args()
    out = args.out or pathlib.Path(re.sub(r"\.onnx$", "", args.model.name) + ".profile.json")
    try:
        if args.runs < 1: raise Wrong("--runs takes a number from 1 up")
        if out.exists() and not (out.is_file() and is_profile(out)): raise Wrong("%s: exists and is no profile; choose another file with -o" % out)
        events = profile(args.model, dict(args.dim), args.runs, args.optimize)
        if args.optimize != "none": events += shapes(args.model, dict(args.dim))
        made = out.with_name(out.name + ".unfinished")
        made.write_text("[\n" + ",\n".join(map(line_of, events)) + "\n]\n")
        made.replace(out)
    except Exception as e:
        print("%s: %s" % (args.model, str(e).splitlines()[0] if str(e) else type(e).__name__), file=sys.stderr)
        return 2
    nodes = {e["name"] for e in events if e.get("cat") == "Node"}
    print("%s: %d nodes, %d runs, onnxruntime %s, optimization %s" % (out, len(nodes), args.runs, ort.__version__, args.optimize))
    return 0


if __name__ == "__main__":
    sys.exit(main())
