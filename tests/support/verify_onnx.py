#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the stages that `cleave split` writes compute what the whole model computes, and measures their balance.

    ./dev verify-onnx DIR [--stages K] [--measured]       every MODEL.onnx and MODEL.onnx.gz in DIR and below, split by
                                                          the built tool in K, or else in 2, 3, 4 and 8; with
                                                          --measured also by the costs of a profile (./dev profile-onnx)
    ./dev verify-onnx MODEL.onnx FOLDER [--stages K]      stages that are there already

Each split is checked twice. First its structure: FOLDER holds stage_0.onnx … stage_(K-1).onnx and no other stage, each
has a node, and every node that an output depends on is there exactly once and unaltered. Two kinds of nodes are not:
results of Constant are initializers of each stage that reads them, and nodes that depend on weights alone are in each
stage that reads them, and are never sent. Initializers, sparse ones too, have the data of the model, nothing else is
there, and every value is read after it is made. Then onnxruntime runs whole and stages, without optimisations, and the
outputs must be equal in every bit.

Inputs are those of the sidecar MODEL.json, if there is one with `runs`. Else the model is run once, on pseudo-random
inputs: an unknown dimension is 1, or what --dim says; whole numbers are 0 or 1. External data in the model's folder
is linked or copied to that of the stages. In half precision, onnxruntime computes in float32 and leaves out pairs of casts,
which a border between stages keeps. Such a model is compared with a whole that has the values between stages as further
outputs, and an Identity on the way to each reader in another stage, so that both round alike. The outputs of a model
with random operators are not compared.

onnxruntime is quadratic in the readers of one value, so it needs minutes for a value with thousands of readers. Such a
model and its stages are computed by onnx's own reference evaluator instead, and compared bit by bit.

Prints a table with a line for each split:

    seconds, MB     CPU time and peak memory of `cleave split`
    sent            bytes that go from stage to stage in a run, each value once for each stage that reads it
    weights alone   of these, results of nodes that depend on weights alone; any is a fault
    costs           estimated by the tool, or measured: of a profile
    predicted       the largest cost of a stage, divided by the mean, as the tool says
    measured        the same of the CPU time of the stages in onnxruntime, optimised, least of --repeats runs
    bits            equal, or why not

Ends with `N passed, N failed`, and with the number of models that onnxruntime cannot run, if any; exit status 0 if none
failed. Needs onnxruntime, onnx and numpy.
"""
import argparse, collections, concurrent.futures, gzip, json, os, pathlib, re, shutil, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))
import numpy as np, onnx
import verify_stages

MOST_READERS = 5000  # of one value, for onnxruntime
SECONDS = 1800  # for a run of whole and stages
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
HALF = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}


def read(path):
    data = pathlib.Path(path).read_bytes()
    return onnx.ModelProto.FromString(gzip.decompress(data) if str(path).endswith(".gz") else data)


def bodies(node):
    for a in node.attribute:
        if a.HasField("g"): yield a.g
        yield from a.graphs


def nested(nodes):
    """All nodes, and those of their bodies. (Bodies nest at most 33 deep.)"""
    for n in nodes:
        yield n
        for g in bodies(n): yield from nested(g.node)


def initializer_names(g):
    return [t.name for t in g.initializer] + [t.values.name for t in g.sparse_initializer]


def reads(node):
    """The names that a node reads, and those that its bodies take from outside."""
    names = set(node.input)
    for g in bodies(node):
        inside = {o.name for o in g.output}.union(*map(reads, g.node))
        names |= inside - {i.name for i in g.input} - set(initializer_names(g)) - {o for n in g.node for o in n.output}
    return names - {""}


def unnamed(node):
    """A node without names that stages may change: of nodes, which are labels, and of values inside bodies."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    def strip(n, renamed):
        n.name = ""
        for g in bodies(n):
            local = [v.name for v in g.input] + initializer_names(g) + [o for m in g.node for o in m.output if o]
            inside = {**renamed, **{name: "local %d" % (len(renamed) + i) for i, name in enumerate(local)}}
            sparse = [t.values for t in g.sparse_initializer]
            for named in [*g.input, *g.output, *g.initializer, *sparse, *g.value_info]: named.name = inside.get(named.name, named.name)
            for m in g.node:
                m.input[:] = [inside.get(v, v) for v in m.input]
                m.output[:] = [inside.get(v, v) for v in m.output]
                strip(m, inside)
    strip(copy, {})
    return copy.SerializeToString(deterministic=True)


def rename_reads(node, to):
    """Gives the values that a node and its bodies read from outside other names."""
    node.input[:] = [to.get(v, v) for v in node.input]
    for g in bodies(node):
        local = {i.name for i in g.input} | set(initializer_names(g)) | {o for n in g.node for o in n.output}
        outside = {v: name for v, name in to.items() if v not in local}
        for n in g.node: rename_reads(n, outside)
        for o in g.output: o.name = outside.get(o.name, o.name)


def data_of(t):
    """The bytes of an initializer without its name: tensors with external data name a place in a file."""
    copy = type(t)()
    copy.CopyFrom(t)
    (copy.values if isinstance(t, onnx.SparseTensorProto) else copy).name = ""
    if isinstance(t, onnx.SparseTensorProto) or t.data_location == onnx.TensorProto.EXTERNAL: return copy.SerializeToString(deterministic=True)
    a = onnx.numpy_helper.to_array(t)
    return (a.dtype.str, a.shape, a.tolist() if a.dtype == object else a.tobytes())


def constant(node):
    a = node.attribute[0]
    if a.name == "value": return a.t
    if a.name == "sparse_value": return None  # stays a node
    kind = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}.get(a.name, object)
    return onnx.numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(a), kind))


class Whole:
    """The parts of a model that must be in its stages."""

    def __init__(self, model):
        g = model.graph
        self.model = model
        self.maker = {o: n for n in g.node for o in n.output if o}
        self.inputs = {i.name for i in g.input}
        self.outputs = [o.name for o in g.output]
        self.weights = {**{t.name: t for t in g.initializer}, **{t.values.name: t for t in g.sparse_initializer}}
        self.overridable = {n for n in self.weights if n in self.inputs and model.ir_version >= 4}
        self.constants = dict(self.weights)  # name -> tensor, of what a stage may hold as an initializer
        self.functions = {(f.domain, f.name): f for f in model.functions}
        for n in g.node:
            if n.domain in ("", "ai.onnx") and n.op_type == "Constant" and len(n.attribute) == 1 and (t := constant(n)) is not None:
                self.constants[n.output[0]] = t
        self.live, todo = {}, list(self.outputs)
        while todo:
            v = todo.pop()
            n = self.maker.get(v)
            if n is None or id(n) in self.live: continue
            self.live[id(n)] = n
            todo += reads(n)
        self.find_copied()

    def find_copied(self):
        """`of_weights`: nodes that depend on weights alone and give the same results each time. Repeats until none is new."""
        known, self.of_weights, todo = set(self.constants) - self.overridable, {}, list(self.model.graph.node)
        before = -1
        while before != len(self.of_weights):  # twice, if the file is sorted
            before = len(self.of_weights)
            for n in todo:
                if not reads(n) <= known or self.is_random(n): continue
                known |= set(n.output)
                self.of_weights[id(n)] = n
            todo = [n for n in todo if id(n) not in self.of_weights]
        self.of_weights = {i: n for i, n in self.of_weights.items() if not self.is_constant(n)}
        self.values_of_weights = {o for n in self.of_weights.values() for o in n.output if o}

    def version(self):
        return max((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), default=10**6)

    def is_random(self, node):
        """Returns true if a node, or one inside it, may give other results for equal operands."""
        for n in nested([node]):
            f = self.functions.get((n.domain, n.op_type))
            if f is not None:
                if any(map(self.is_random, f.node)): return True
            elif n.domain == "com.microsoft":
                if n.op_type not in ("QuantizeLinear", "DequantizeLinear"): return True
            elif n.domain not in ("", "ai.onnx", "ai.onnx.ml"): return True
            elif n.op_type == "Dropout" and not self.is_off(n, n is node): return True
            elif n.op_type in RANDOM and n.domain != "ai.onnx.ml": return True
        return False

    def is_off(self, dropout, outside):
        if self.version() < 7: return any(a.name == "is_test" and a.i for a in dropout.attribute)
        if self.version() < 12 or len(dropout.input) < 3 or not dropout.input[2]: return True
        t = self.constants.get(dropout.input[2]) if outside and dropout.input[2] not in self.overridable else None
        return isinstance(t, onnx.TensorProto) and t.data_location != onnx.TensorProto.EXTERNAL and not onnx.numpy_helper.to_array(t).any()

    def draws(self):
        """Returns true if the results differ from run to run."""
        everything = [*nested(self.model.graph.node), *(n for f in self.model.functions for n in nested(f.node))]
        return any(n.op_type in RANDOM and n.domain in ("", "ai.onnx") for n in everything) or \
            any(n.op_type == "Dropout" and self.is_random(n) for n in everything)

    def is_half(self):
        """Returns true if a tensor may be of half precision."""
        g = self.model.graph
        if any(isinstance(t, onnx.TensorProto) and t.data_type in HALF for t in self.constants.values()): return True
        if any(v.type.tensor_type.elem_type in HALF for v in [*g.input, *g.output, *g.value_info]): return True
        return any(a.name in ("to", "dtype") and a.i in HALF for n in nested(g.node) for a in n.attribute)

    def is_constant(self, node):
        """Returns true if stages hold the node's result as an initializer. An output of the model has to be made."""
        return node.op_type == "Constant" and len(node.output) == 1 and node.output[0] in self.constants and node.output[0] not in self.outputs

    def stages(self, k):
        placed = sum(not self.is_constant(n) and id(n) not in self.of_weights for n in self.live.values())
        return min(k, placed) if placed or not self.live else 1 if any(not self.is_constant(n) for n in self.live.values()) else 0


def structure_faults(whole, folder, k):
    """Yields a sentence for each fault of the files as a cut of the model."""
    found = sorted(int(m.group(1)) for p in pathlib.Path(folder).glob("stage_*") if (m := re.fullmatch(r"stage_(\d+)\.onnx(\.gz)?", p.name)))
    if k is not None and found != list(range(k)): yield "expected stage_0 … stage_%d, found %s" % (k - 1, found)
    made, count = {}, collections.Counter()
    known = {unnamed(n): n for n in whole.live.values()}
    for p in verify_stages.stage_files(folder):
        stage = read(p)
        g = stage.graph
        if not g.node: yield "%s has no node" % p.name
        tensors = {**{t.name: t for t in g.initializer}, **{t.values.name: t for t in g.sparse_initializer}}
        for name, t in tensors.items():
            if name not in whole.constants: yield "%s: initializer %r is no constant of the model" % (p.name, name)
            elif data_of(t) != data_of(whole.constants[name]): yield "%s: initializer %r has other data than in the model" % (p.name, name)
        for name in set(tensors) & whole.overridable:
            if name not in {i.name for i in g.input}: yield "%s: %r can be overridden, but is no input" % (p.name, name)
        here = set(tensors) | {i.name for i in g.input}
        for i in g.input:
            if i.name in tensors or i.name in whole.inputs: continue
            if i.name not in made: yield "%s reads %r, which no stage before it makes" % (p.name, i.name)
            if i.name in whole.values_of_weights: yield "%s is sent %r, which depends on weights alone" % (p.name, i.name)
        names = [n.name for n in g.node if n.name]
        if len(names) != len(set(names)): yield "%s: two nodes have one name" % p.name
        used, seen = set(), set()
        for n in g.node:
            key = unnamed(n)
            if key not in known: yield "%s: a %s that makes %s is not in the model, or reaches no output" % (p.name, n.op_type, list(n.output))
            if key in seen: yield "%s: has %s twice" % (p.name, list(n.output))
            seen.add(key)
            count[key] += 1
            inside = reads(n)
            used |= inside
            for v in inside:
                if v not in here: yield "%s: %r is read and neither made before nor an input" % (p.name, v)
            here.update(n.output)
        needed = used | {o.name for o in g.output}
        for n in g.node:
            if not needed & set(n.output): yield "%s: makes %s, which nothing reads" % (p.name, list(n.output))
            for o in n.output:
                if o: made[o] = p.name
        for i in g.input:
            if i.name not in used: yield "%s: nothing reads input %r" % (p.name, i.name)
        for o in g.output:
            if o.name not in here: yield "%s: output %r is not made" % (p.name, o.name)
    for key, n in known.items():
        if whole.is_constant(n):
            if count[key]: yield "%r is a constant, but %d stages make it" % (n.output[0], count[key])
        elif count[key] != 1 and (count[key] == 0 or id(n) not in whole.of_weights):
            yield "%s is made %d times" % (list(n.output), count[key])
    for o in whole.outputs:
        if o not in made and o not in whole.inputs and o not in whole.constants: yield "output %r comes from no stage" % o


def same(a, b):
    if isinstance(a, list) or isinstance(b, list): return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype: return False
    return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()


def size(value):
    if isinstance(value, list): return sum(map(size, value))
    return sum(map(len, map(str, value.ravel()))) if np.asarray(value).dtype == object else np.asarray(value).nbytes


def dimensions(given, shape):
    return [d.dim_value if d.dim_value > 0 else given.get(d.dim_param, 1) for d in shape.dim]


def made_up_inputs(model, given):
    """Pseudo-random inputs, the same each time."""
    held, env = set(initializer_names(model.graph)), {}
    for seed, i in enumerate(i for i in model.graph.input if i.name not in held):
        if not i.type.HasField("tensor_type"): raise ValueError("input %r is no tensor: it needs a sidecar" % i.name)
        t, draw = i.type.tensor_type, np.random.default_rng(seed)
        dtype, shape = onnx.helper.tensor_dtype_to_np_dtype(t.elem_type), dimensions(given, t.shape)
        if dtype == object or dtype.kind in "SU": env[i.name] = np.full(shape, "a", object)
        elif dtype.kind in "iub": env[i.name] = draw.integers(0, 2, shape).astype(dtype)
        else: env[i.name] = draw.uniform(-1, 1, shape).astype(dtype)
    return env


def sidecar_of(path):
    """The sidecar of a model, or None."""
    found = pathlib.Path(re.sub(r"\.onnx(\.gz)?$", ".json", str(path)))
    if not found.exists(): return None
    side = json.loads(found.read_text())
    return side if isinstance(side, dict) and "runs" in side and "onnxruntime" in side else None


def link_external(model, source, folder):
    """onnxruntime follows no symbolic link out of the model's folder."""
    tensors = [t for n in nested(model.graph.node) for a in n.attribute for t in [*a.tensors, *([a.t] if a.HasField("t") else [])]]
    for t in [*model.graph.initializer, *tensors]:
        for entry in t.external_data:
            if entry.key != "location" or (to := pathlib.Path(folder) / entry.value).exists(): continue
            to.parent.mkdir(parents=True, exist_ok=True)
            try: os.link(pathlib.Path(source) / entry.value, to)
            except OSError: shutil.copy(pathlib.Path(source) / entry.value, to)


def session(path, optimised=False):
    import onnxruntime as ort
    o = ort.SessionOptions()
    if not optimised: o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # fusions differ between whole and stages
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 4
    return ort.InferenceSession(str(path), o, providers=["CPUExecutionProvider"])


def without_names(model):
    """onnxruntime refuses a model in which two nodes have one name, ONNX does not."""
    names = [n.name for n in model.graph.node if n.name]
    if len(names) != len(set(names)):
        for n in model.graph.node: n.name = ""


class NotRun(Exception): pass


class Comparison:
    """Runs a model whole and in stages. Files are written to `scratch`, which has the model's external data."""

    def __init__(self, path, folder, scratch, given):
        self.path, self.given = path, given
        self.whole = Whole(read(path))
        self.files = verify_stages.stage_files(folder)
        self.stages = [read(p) for p in self.files]
        self.side = sidecar_of(path)
        self.scratch = pathlib.Path(scratch)
        made = {o for s in self.stages for n in s.graph.node for o in n.output}
        self.sent = [[i.name for i in s.graph.input if i.name in made and i.name not in self.whole.inputs] for s in self.stages]

    def runs(self):
        """The inputs of each run, and what the sidecar says of its outputs."""
        if self.side is None:
            try: yield made_up_inputs(self.whole.model, self.given), []
            except ValueError as e: raise NotRun(str(e))
        for one in self.side["runs"] if self.side else []: yield {s["name"]: verify_stages.fill(s) for s in one["inputs"]}, one["outputs"]

    def add_borders(self, g):
        """Makes the values between stages outputs, and puts an Identity before their readers in other stages."""
        home = {o: i for i, s in enumerate(self.stages) for n in s.graph.node for o in n.output}
        cut = {v for names in self.sent for v in names}
        outputs = {o.name: o for s in self.stages for o in s.graph.output}
        there = {o.name for o in g.output}
        g.output.extend(outputs[v] for v in sorted(cut - there))
        nodes = list(g.node)
        del g.node[:]
        for n in nodes:
            here = {home[o] for o in n.output if o in home}
            rename_reads(n, {v: v + "/border" for v in cut if here and home[v] not in here})
            g.node.append(n)
            for v in cut & set(n.output):  # one alone might be run in float32
                g.node.append(onnx.helper.make_node("Identity", [v], [v + "/half"]))
                g.node.append(onnx.helper.make_node("Identity", [v + "/half"], [v + "/border"]))

    def whole_session(self):
        """The model as a session; of half precision, with borders."""
        model = onnx.ModelProto()
        model.CopyFrom(self.whole.model)
        without_names(model)
        if self.whole.is_half(): self.add_borders(model.graph)
        to = self.scratch / "whole.onnx"
        to.write_bytes(model.SerializeToString())
        link_external(model, self.path.parent, self.scratch)
        try: return session(to)
        except Exception as e: raise NotRun(str(e).splitlines()[0])

    def staged_values(self, sessions, env):
        for p, s in zip(self.files, sessions):
            if not s.get_outputs(): continue
            for name, v in verify_stages.run(s, env).items():
                if name in env and name in self.whole.outputs and not same(env[name], v): raise ValueError("%s makes %r again, differently" % (p.name, name))
                env[name] = v
        return env

    def faults(self):
        """Yields a sentence for each difference. Sets `bytes_sent` and `bytes_of_weights`."""
        whole, sessions = self.whole_session(), [session(p) for p in self.files]
        constant = {name: t for name, t in self.whole.constants.items() if isinstance(t, onnx.TensorProto)}
        for r, (env, recorded) in enumerate(self.runs()):
            try: want = verify_stages.run(whole, env)
            except Exception as e: raise NotRun(str(e).splitlines()[0])
            for o in recorded:
                if not verify_stages.against_sidecar(o["name"], want[o["name"]], o): yield "run %d: whole model: output %r differs from the sidecar" % (r, o["name"])
            have = self.staged_values(sessions, dict(env))
            if r == 0:
                self.bytes_sent = sum(size(have[v]) for names in self.sent for v in names)
                self.bytes_of_weights = sum(size(have[v]) for names in self.sent for v in names if v in self.whole.values_of_weights)
            if self.bytes_of_weights: yield "run %d: %d bytes that depend on weights alone are sent" % (r, self.bytes_of_weights)
            if self.whole.draws(): continue
            for name, v in want.items():
                other = have[name] if name in have else onnx.numpy_helper.to_array(constant[name], str(self.path.parent)) if name in constant else None
                if other is None and name in self.whole.outputs: yield "run %d: output %r comes from no stage" % (r, name)
                elif other is not None and not same(v, other): yield "run %d: %r differs by %g" % (r, name, verify_stages.diff(v, other))

    def evaluated_faults(self):
        """As `faults`, but by onnx's reference evaluator."""
        from onnx.reference import ReferenceEvaluator
        def evaluate(model, env):
            made = ReferenceEvaluator(model).run(None, {i.name: env[i.name] for i in model.graph.input})
            return dict(zip((o.name for o in model.graph.output), made))
        for r, (env, recorded) in enumerate(self.runs()):
            want = evaluate(self.whole.model, env)
            for s in self.stages: env.update(evaluate(s, env))
            for o in recorded:
                if not verify_stages.against_sidecar(o["name"], want[o["name"]], o): yield "run %d: whole model: output %r differs from the sidecar" % (r, o["name"])
            for name in self.whole.outputs:
                if name not in env: yield "run %d: output %r comes from no stage" % (r, name)
                elif not same(want[name], env[name]): yield "run %d: %r differs" % (r, name)

    def times(self, repeats):
        """The CPU seconds of each stage, optimised; the least of some runs."""
        env, least = next(self.runs())[0], []
        for p in self.files:
            s = session(p, optimised=True)
            env.update(verify_stages.run(s, env))
            best = float("inf")
            for _ in range(repeats):
                start = time.thread_time()
                verify_stages.run(s, env)
                best = min(best, time.thread_time() - start)
            least.append(best)
        return least

    def run(self, repeats):
        readers = collections.Counter(v for n in self.whole.model.graph.node for v in set(n.input))
        self.bytes_sent = self.bytes_of_weights = None
        if readers and max(readers.values()) > MOST_READERS: return {"faults": list(self.evaluated_faults())}
        said = {"faults": list(self.faults()), "sent": self.bytes_sent, "of_weights": self.bytes_of_weights}
        said["bits"] = "random operators: not compared" if self.whole.draws() else "equal, with borders in the whole" if self.whole.is_half() and self.stages else "equal"
        if repeats and self.stages and not said["faults"]: said["times"] = self.times(repeats)
        return said


def compare(args, path, folder):
    """Runs a comparison in a process of its own, which may crash; returns what it said."""
    words = [sys.executable, __file__, path, folder, "--run-only", "--repeats", str(args.repeats)]
    words += [w for name, n in args.dim for w in ("--dim", "%s=%d" % (name, n))]
    try: done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired: return {"faults": ["does not end within %d s" % SECONDS]}
    lines = done.stdout.splitlines()
    if done.returncode or not lines: return {"faults": ["run ends with %d: %s" % (done.returncode, (done.stderr.splitlines() or ["no message"])[-1])]}
    return json.loads(lines[-1])


def check(args, path, folder, k):
    """Faults of a split, and what its run said."""
    whole = Whole(read(path))
    faults = list(structure_faults(whole, folder, k))
    said = compare(args, path, folder) if not faults else {"faults": []}
    return faults + said["faults"], said


def memory_of(pid):
    """The peak memory of a running program so far in MB, or None."""
    try: found = re.search(r"VmHWM:\s*(\d+)", pathlib.Path("/proc/%d/status" % pid).read_text())
    except OSError: return None
    return int(found.group(1)) / 1024 if found else None


def profile(args, path, whole, scratch, level):
    """Measures a model as onnxruntime optimises it; returns the file of its costs, and why there is none."""
    scratch, out = pathlib.Path(scratch), pathlib.Path(scratch) / "costs.json"
    if path.suffix == ".gz":
        model = scratch / path.stem
        model.write_bytes(gzip.decompress(path.read_bytes()))
        link_external(whole.model, path.parent, scratch)
        side = pathlib.Path(re.sub(r"\.onnx\.gz$", ".json", str(path)))
        if side.exists(): shutil.copy(side, scratch / side.name)
        path = model
    inputs = {d.dim_param for v in whole.model.graph.input for d in v.type.tensor_type.shape.dim}
    words = [sys.executable, HERE / "profile_onnx.py", path, "-o", out, "--optimize", level]
    words += [w for name, n in args.dim if name in inputs for w in ("--dim", "%s=%d" % (name, n))]
    try: done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired: return None, "profile-onnx does not end within %d s" % SECONDS
    return (out, None) if done.returncode == 0 else (None, (done.stderr.splitlines() or ["profile-onnx ends with %d" % done.returncode])[-1])


def split(args, path, k, out, costs=None):
    """Runs the tool for `k` stages, or its own number if `k` is 0; returns what it prints as JSON, or a fault, its CPU
    seconds and its peak memory in MB."""
    words = [args.cleave, "split", path, *(["-k", str(k)] if k else []), "--json", "--out", out, *(["--costs", costs] if costs else [])]
    words += [w for name, n in args.dim if name in args.symbols for w in ("--dim", "%s=%d" % (name, n))]
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        pid = os.posix_spawnp(str(words[0]), [str(w) for w in words], os.environ,
                              file_actions=[(os.POSIX_SPAWN_DUP2, stdout.fileno(), 1), (os.POSIX_SPAWN_DUP2, stderr.fileno(), 2)])
        memory, done = 0, 0
        while not done:  # the peak in `used` counts this process too, from which the tool was started
            memory = memory_of(pid) or memory
            time.sleep(0.002)
            done, status, used = os.wait4(pid, os.WNOHANG)
        stdout.seek(0), stderr.seek(0)
        code = os.waitstatus_to_exitcode(status)
        said = json.loads(stdout.read()) if code == 0 else "cleave split ends with %d: %s" % (code, stderr.read().decode().strip())
    return said, used.ru_utime + used.ru_stime, memory


def imbalance(costs):
    return "%.2f" % (max(costs) * len(costs) / sum(costs)) if costs and sum(costs) > 0 else ""


def check_split(args, path, whole, k, costs):
    """Splits one model in one way; returns a row of the table. A cut that the tool refuses for unknown types is not run."""
    with tempfile.TemporaryDirectory() as out:
        said, seconds, memory = split(args, path, whole.stages(k), pathlib.Path(out) / "stages", costs)
        row = {"k": k, "costs": "measured" if costs else "estimated", "seconds": "%.2f" % seconds, "MB": "%.0f" % memory if memory else "", "faults": [said]}
        if isinstance(said, str):
            if "types are not known" in said or costs and str(costs) in said: row["faults"], row["not run"] = [], said
            return row
        folder = pathlib.Path(out) / "stages"
        folder.mkdir(exist_ok=True)
        link_external(whole.model, path.parent, folder)
        row["predicted"] = imbalance([s["cost"] for s in said["stages"]])
        try: row["faults"], ran = check(args, path, folder, whole.stages(k))
        except Exception as e: row["faults"], ran = ["%s: %s" % (type(e).__name__, e)], {}
        if ran.get("sent") is not None: row["sent"], row["weights alone"] = "%.2f MB" % (ran["sent"] / 1e6), "%d B" % ran["of_weights"]
        row["measured"] = imbalance(ran.get("times"))
        row["bits"], row["not run"] = ran.get("bits", "equal"), ran.get("not run")
        return row


def check_model(args, path):
    """Splits one model each way; returns rows of the table."""
    whole = Whole(read(path))
    args.symbols = {d.dim_param for v in [*whole.model.graph.input, *whole.model.graph.output, *whole.model.graph.value_info]
                    for d in v.type.tensor_type.shape.dim}
    rows = [check_split(args, path, whole, k, None) for k in args.parts]
    if not args.measured: return rows
    with tempfile.TemporaryDirectory() as scratch:
        for level in ("all", "none"):  # too much time of fused nodes may belong to none of the model's
            costs, why = profile(args, path, whole, scratch, level)
            measured = [check_split(args, path, whole, k, costs) if costs else {"k": k, "costs": "measured", "faults": [], "not run": why}
                        for k in args.parts]
            if not any("less optimization" in (row.get("not run") or "") for row in measured): break
    return [row for both in zip(rows, measured) for row in both]


COLUMNS = ["k", "costs", "seconds", "MB", "sent", "weights alone", "predicted", "measured"]


def print_row(name, row):
    cells = "".join("  %*s" % (max(len(c), 8), row.get(c, "")) for c in COLUMNS)
    said = "NOT RUN: " + row["not run"] if row.get("not run") else "FAIL" if row["faults"] else row["bits"]
    print("%-28s%s  %s" % (name, cells, said), flush=True)
    for why in row["faults"][:5]: print("    " + why, flush=True)


def is_stage(path):
    return re.fullmatch(r"stage_\d+\.onnx(\.gz)?", path.name) and any(p.key == "cleave.stage" for p in read(path).metadata_props)


def check_folder(args):
    models = sorted(p for p in args.model.rglob("*.onnx*") if re.search(r"\.onnx(\.gz)?$", p.name) and not is_stage(p))
    if not models: sys.exit("no MODEL.onnx in %s" % args.model)
    if args.stages is not None: args.parts = [args.stages]
    count = collections.Counter()
    start = time.monotonic()
    print("%-28s%s  bits" % ("model", "".join("  %*s" % (max(len(c), 8), c) for c in COLUMNS)), flush=True)
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        longest_first = sorted(models, key=lambda p: (p.suffix != ".gz", p.name))
        asked = {p: pool.submit(check_model, args, p) for p in longest_first}
        for p in models:
            try: rows = asked[p].result()
            except Exception as e: rows = [{"k": k, "faults": ["%s: %s" % (type(e).__name__, e)]} for k in args.parts]
            for row in rows:
                count["failed" if row["faults"] else "not run" if row.get("not run") else "passed"] += 1
                print_row(str(p.relative_to(args.model)), row)
    print("%d s" % (time.monotonic() - start))
    print("%d passed, %d failed%s" % (count["passed"], count["failed"], ", %d not run" % count["not run"] if count["not run"] else ""))
    return 1 if count["failed"] else 0


def dimension(text):
    name, _, size = text.partition("=")
    return name, int(size)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=pathlib.Path, help="a folder of models, or one model")
    ap.add_argument("folder", type=pathlib.Path, nargs="?", help="of one model's stages")
    ap.add_argument("--stages", type=int, metavar="K", help="there must be K files, which hold every live node once")
    ap.add_argument("--dim", type=dimension, metavar="NAME=N", action="append", default=[], help="size of a symbolic dimension; may be repeated")
    ap.add_argument("--cleave", default=os.environ.get("CLEAVE_TOOL", HERE.parent.parent / "build" / "ci" / "bin" / "cleave"))
    ap.add_argument("--parts", type=lambda s: [int(k) for k in s.split(",")], default=[2, 3, 4, 8])
    ap.add_argument("--repeats", type=int, default=3, help="runs of each stage whose time is taken; 0: none")
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--measured", action="store_true", help="split by measured costs too: profile each model first")
    ap.add_argument("--run-only", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.model.is_dir(): return check_folder(args)
    if args.folder is None: ap.error("a model needs the folder of its stages")
    if args.run_only:
        with tempfile.TemporaryDirectory() as scratch:
            try: said = Comparison(args.model, args.folder, scratch, dict(args.dim)).run(args.repeats)
            except NotRun as e: said = {"faults": [], "not run": str(e)}
            print(json.dumps(said))
        return 0
    faults, said = check(args, args.model, args.folder, args.stages)
    for why in faults: print("FAIL", why)
    if said.get("not run"): print("not run:", said["not run"])
    print("%d passed, %d failed" % (not faults and not said.get("not run"), bool(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
