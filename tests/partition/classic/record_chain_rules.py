#!/usr/bin/env python3
"""Records what the real rules for chains answer, as tests/partition/classic/chain_rules.csv.

    record_chain_rules.py [--torchgpipe DIR] [--deepspeed DIR] [--accelerate DIR] [--pipedream DIR] > chain_rules.csv

DIR is the folder of the package or of the checkout (msr-fiddle/pipedream). With none, packages are looked for as Python does.
What is not there is left out, and said so. Recorded with torchgpipe 0.0.7, DeepSpeed 0.19.8, Accelerate 1.15.0 on PyTorch
2.15.0, PipeDream 7db6a1c, numpy 2.4.6, CPython 3.11 (since 3.12 `sum` adds more exactly, and torchgpipe with it).

Each line: rule, parts, numbers of the layers, answer; fields are parted by semicolons, numbers by blanks. An answer is the
bounds of the parts, or for accelerate the device of each layer (-1: on the host); `forever`, `overlap` and `refused` are answers too.
"""
import argparse, ast, importlib.util, os, random, signal, sys

def functions_of(package, folder, file, names):
    """The named functions of a file, without importing the package (its other imports may be heavy)."""
    if folder is None and package:
        spec = importlib.util.find_spec(package)
        folder = spec.submodule_search_locations[0] if spec else None
    path = folder and os.path.join(folder, file)
    if not path or not os.path.exists(path):
        print(f'{package or file}: not found, left out', file=sys.stderr)
        return None
    source = ast.parse(open(path).read())
    source.body = [s for s in source.body if isinstance(s, ast.FunctionDef) and s.name in names
                   or isinstance(s, ast.ImportFrom) and s.module in ('typing', '__future__') or isinstance(s, ast.Import) and s.names[0].name == 'math']
    scope = {}
    exec(compile(source, path, 'exec'), scope)
    return scope

class Forever(Exception):
    pass

def in_time(seconds, call):
    def ring(*_):
        raise Forever
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)

def weights_of(dice, layers):
    kinds = [lambda: float(dice.randrange(5)), lambda: float(dice.randrange(1, 100)), dice.random,
             lambda: float(dice.choice([0, 0, 0, 1])), lambda: dice.expovariate(1) ** 3]
    kind = dice.choice(kinds)
    return [kind() for _ in range(layers)]

def write(rule, parts, numbers, answer):
    print(rule, parts, ' '.join(map(repr, numbers)), answer if isinstance(answer, str) else ' '.join(map(str, answer)), sep=';')

def record_torchgpipe(solve):
    kept = {'forever': 0, 'overlap': 0}
    for seed in range(400):
        dice = random.Random(seed)
        n = dice.randrange(1, 14) if seed < 380 else dice.randrange(20, 60)
        w, k = weights_of(dice, n), dice.randrange(1, n + 1)
        try:
            parts = in_time(1, lambda: solve(list(w), k))
            ends = [sum(map(len, parts[:s])) for s in range(k + 1)]
            answer = ends if [x for p in parts for x in p] == w else 'overlap'
        except Forever:
            answer = 'forever'
        if seed < 150 or isinstance(answer, str) or seed >= 380:
            write('torchgpipe', k, w, answer)

def record_deepspeed(functions):
    for seed in range(150):
        dice = random.Random(1000 + seed)
        n = dice.randrange(1, 16)
        w, k = weights_of(dice, n), dice.randrange(1, n + 3)
        write('deepspeed balanced', k, w, functions['partition_balanced'](w, k))
        if seed % 5 == 0:
            write('deepspeed uniform', k, [1.0] * n, functions['partition_uniform'](n, k))

def record_accelerate(folder):
    if folder:
        sys.path.insert(0, os.path.dirname(os.path.abspath(folder)))
    if not importlib.util.find_spec('accelerate') or not importlib.util.find_spec('torch'):
        return print('accelerate: not found (or no torch), left out', file=sys.stderr)
    import logging, torch
    logging.disable(logging.CRITICAL)
    from accelerate.inference import generate_device_map
    class Layer(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(size, dtype=torch.uint8, device='meta'), requires_grad=False)
    for seed in range(150):
        dice = random.Random(2000 + seed)
        n, k, scale = dice.randrange(1, 14), dice.randrange(2, 7), 10 ** dice.choice([1, 3, 5, 6, 8])
        w = [dice.choice([1, 2, 5, dice.randrange(1, 9), dice.randrange(0, 3)]) * scale + dice.choice([0, dice.randrange(scale)]) for _ in range(n)]
        try:
            where = generate_device_map(torch.nn.Sequential(*map(Layer, w)), num_processes=k, no_split_module_classes=['Layer'])
            where = [where[str(i)] for i in range(n)]
            answer = [-1 if d in ('cpu', 'disk') else d for d in where]
        except ValueError:
            answer = 'refused'
        write('accelerate', k, w, answer)

def record_pipedream(functions):
    """One line a case: layers as time, activation, parameters in turn; parts are machines. The rule's name says the options:
    straight, fewer, memory=…, compression=…, bandwidth=…. The answer: time, then begin and machines of each stage."""
    for seed in range(200):
        dice = random.Random(3000 + seed)
        n, machines = dice.randrange(1, 9), dice.randrange(1, 6)
        layers = [(float(dice.randrange(1, 20)), float(dice.randrange(0, 50)), float(dice.randrange(0, 50))) for _ in range(n)]
        if seed % 2:
            layers = [tuple(x * dice.random() for x in layer) for layer in layers]
        straight, fewer = dice.random() < 0.3, dice.random() < 0.3
        memory = float(dice.randrange(50, 400)) if dice.random() < 0.4 else None
        compression = dice.choice([1.0, 2.0]) if dice.random() < 0.5 else None
        bandwidth = dice.choice([1.0, 10.0, 100.0])
        functions.update(straight_pipeline=straight, use_fewer_machines=fewer, use_memory_constraint=memory is not None,
                         memory_size=memory, activation_compression_ratio=compression)
        before = [[0.0], [0.0], [0.0]]
        for layer in layers:
            for b, x in zip(before, layer):
                b.append(b[-1] + x)
        rows = [[[b[j + 1] - b[i] if j >= i else None for j in range(n)] for i in range(n + 1)] for b in before]
        try:
            A = functions['compute_partitioning'](rows[0], rows[1], rows[2], [l[1] for l in layers],
                                                  [list(range(j)) for j in range(n)], machines, 1, bandwidth)
        except TypeError:
            continue                                                            # it compares None with a number
        rule = ['pipedream'] + ['straight'] * straight + ['fewer'] * fewer + [f'bandwidth={bandwidth}']
        rule += [f'memory={memory}'] * (memory is not None) + [f'compression={compression}'] * (compression is not None)
        found = A[0][n - 1][machines - 1]
        if found[0] is None:
            answer = 'refused'
        else:
            answer, stages = [repr(found[0])], []
            while found[1] is not None:
                stages.append((found[1][0] + 1, found[2]))
                found = A[0][found[1][0]][found[1][1]]
            stages.append((0, found[2]))
            for stage in reversed(stages):
                answer += stage
        write(' '.join(rule), machines, [x for layer in layers for x in layer], answer)

options = argparse.ArgumentParser()
for package in ('torchgpipe', 'deepspeed', 'accelerate', 'pipedream'):
    options.add_argument('--' + package)
chosen = options.parse_args()
gpipe = functions_of('torchgpipe', chosen.torchgpipe, 'balance/blockpartition.py', ('solve',))
if gpipe:
    record_torchgpipe(gpipe['solve'])
deepspeed = functions_of('deepspeed', chosen.deepspeed, 'runtime/utils.py', ('partition_uniform', 'partition_balanced'))
if deepspeed:
    record_deepspeed(deepspeed)
record_accelerate(chosen.accelerate)
pipedream = functions_of(None, chosen.pipedream, 'optimizer/optimizer_graph_hierarchical.py', ('compute_partitioning',))
if pipedream:
    record_pipedream(pipedream)
