#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the stages of a model as a pipeline with onnxruntime, and the whole model.

    run_onnx.py MODEL.onnx FOLDER [--inputs INPUTS.json] [--microbatches 8] [--out RUN.json] [--tolerance 0]

FOLDER holds stage_0.onnx, stage_1.onnx, …, values are wired by name. Each stage has a thread of its own; between two stages
at most `--capacity` microbatches wait. Inputs are pseudo-random, a different draw for each microbatch, shaped by the sidecar
MODEL.json where there is one (its first run), else by the model's own declarations (an unknown dimension is 1). INPUTS.json has
them instead: a list for each microbatch, of inputs as sidecars describe them.

Prints one JSON object, to --out where given, times in seconds since the pipeline began:

    {"engine": "onnxruntime 1.31.1", "stages": 4, "microbatches": 8, "largest_difference": 0.0,
     "whole_seconds": …, "stage_seconds": [… of a microbatch, nothing else running], "pipeline_seconds": …, "bars": [{"stage": 0, "microbatch": 0, "begin": …, "end": …}, …]}

Exit status: 0 if no output differs by more than the tolerance, 1 if one does, 2 if the model cannot be run. Needs onnxruntime and numpy.
"""
import argparse, gzip, json, pathlib, queue, re, sys, threading, time
import numpy as np, onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from verify_stages import fill

DTYPE = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}


def session(path):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # fusions differ between whole and stages
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 4
    model = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else str(path)
    return ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])


def stage_files(folder):
    found = [(int(m.group(1)), p) for p in folder.iterdir() if (m := re.fullmatch(r"stage_(\d+)\.onnx", p.name))]
    return [p for _, p in sorted(found)]


def inputs_of(whole, model, batch, dims={}):
    """One microbatch. Whole numbers are 0 or 1, or what the sidecar allows: they are indices more often than not.

    With sizes of symbolic dimensions in `dims`, the sidecar's shapes and listed values are not used.
    """
    side = pathlib.Path(re.sub(r"\.onnx$", ".json", str(model)))
    try: specs = {s["name"]: s for s in json.loads(side.read_text())["runs"][0]["inputs"]}
    except (OSError, ValueError, LookupError, TypeError): specs = {}  # a file of that name need not be a sidecar
    draw, env = np.random.default_rng(batch), {}
    for i in whole.get_inputs():
        spec = specs.get(i.name, {})
        shape = [d if isinstance(d, int) and d >= 0 else dims.get(d, 1) for d in i.shape]
        if not dims: shape = spec.get("shape", shape)
        kind, dtype = spec.get("fill", {}), DTYPE.get(i.type)
        if dtype is None: raise ValueError("input %r is a %s, for which there is no data" % (i.name, i.type))
        if kind.get("kind") == "constant": env[i.name] = np.full(shape, kind["value"], dtype)
        elif kind.get("kind") == "values" and not dims: env[i.name] = np.array(kind["values"], dtype).reshape(shape)
        elif kind.get("kind") == "iota": env[i.name] = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
        elif np.issubdtype(dtype, np.floating): env[i.name] = draw.uniform(-1, 1, shape).astype(dtype)
        else: env[i.name] = draw.integers(kind.get("lo", 0), kind.get("hi", 2), shape).astype(dtype)
    return env


def run(s, env):
    names = [o.name for o in s.get_outputs()]
    return dict(zip(names, s.run(names, {i.name: env[i.name] for i in s.get_inputs()})))


def pipeline(stages, batches, capacity):
    """Each stage adds what it makes to the microbatch's values. Returns the values, the bars and the time of all."""
    links = [queue.Queue(capacity) for _ in stages] + [queue.Queue()]
    bars, failed, start = [[] for _ in stages], [], time.perf_counter()
    def work(i):
        while (item := links[i].get()) is not None:
            batch, env = item
            begin = time.perf_counter() - start
            try:
                if not failed: env.update(run(stages[i], env))
            except Exception as e:
                failed.append("stage %d, microbatch %d: %s" % (i, batch, str(e).splitlines()[0]))
            bars[i].append({"stage": i, "microbatch": batch, "begin": begin, "end": time.perf_counter() - start})
            links[i + 1].put((batch, env))
        links[i + 1].put(None)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(stages))]
    for t in threads: t.start()
    for batch, env in enumerate(batches): links[0].put((batch, dict(env)))
    links[0].put(None)
    for t in threads: t.join()
    if failed: raise RuntimeError(failed[0])
    done = [links[-1].get()[1] for _ in batches]
    return done, [b for each in bars for b in each], time.perf_counter() - start


def alone(stages, batches):
    """The mean time of each stage, one after the other."""
    total = [0.0] * len(stages)
    for env in map(dict, batches):
        for i, s in enumerate(stages):
            start = time.perf_counter()
            env.update(run(s, env))
            total[i] += time.perf_counter() - start
    return [t / max(len(batches), 1) for t in total]


def difference(a, b):
    if isinstance(a, list): return max(map(difference, a, b), default=0.0) if len(a) == len(b) else float("inf")
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype: return float("inf")
    if a.tobytes() == b.tobytes(): return 0.0
    if a.dtype.kind not in "biufc": return float("inf")
    d = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float("inf") if np.isnan(d).any() else float(d.max())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=pathlib.Path)
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("--inputs", type=pathlib.Path)
    ap.add_argument("--microbatches", type=int, default=8)
    ap.add_argument("--repeats", type=int, default=1, help="the times are those of the fastest run")
    ap.add_argument("--capacity", type=int, default=1)
    ap.add_argument("--tolerance", type=float, default=0)
    ap.add_argument("--out", type=pathlib.Path)
    args = ap.parse_args()
    try:
        whole = session(args.model)
        stages = [session(p) for p in stage_files(args.folder)]
        if args.inputs:
            batches = [{s["name"]: fill(s) for s in specs} for specs in json.loads(args.inputs.read_text())]
        else:
            batches = [inputs_of(whole, args.model, b) for b in range(args.microbatches)]
        run(whole, batches[0])  # both are warm before the clock runs
        pipeline(stages, batches[:1], args.capacity)
        whole_seconds, stage_seconds, fastest, worst = float("inf"), [float("inf")] * len(stages), None, 0.0
        for _ in range(args.repeats):
            start = time.perf_counter()
            wanted = [run(whole, env) for env in batches]
            whole_seconds = min(whole_seconds, time.perf_counter() - start)
            stage_seconds = [min(a, b) for a, b in zip(stage_seconds, alone(stages, batches))]
            made, bars, seconds = pipeline(stages, batches, args.capacity)
            if fastest is None or seconds < fastest[1]: fastest = bars, seconds
            # an output that is an initializer comes from no stage: whoever runs the stages has it
            worst = max([worst] + [difference(v, have[k]) for want, have in zip(wanted, made) for k, v in want.items() if k in have])
        bars, pipeline_seconds = fastest
    except Exception as e:
        print("%s: %s" % (args.model, str(e).splitlines()[0]), file=sys.stderr)
        return 2
    # JSON has no infinity
    report = {"engine": "onnxruntime " + ort.__version__, "stages": len(stages), "microbatches": len(batches),
              "largest_difference": min(worst, sys.float_info.max), "whole_seconds": whole_seconds,
              "stage_seconds": stage_seconds, "pipeline_seconds": pipeline_seconds, "bars": bars}
    text = json.dumps(report)
    args.out.write_text(text) if args.out else print(text)
    return 0 if worst <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
