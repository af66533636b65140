#!/usr/bin/env python3
"""What machine-learning frameworks answer when asked for balanced pipeline stages, on the dnn-partitioning workloads.

    stages.py table WORKLOAD.json|DIR ...   bottleneck of each policy, beside exact slicing and the recorded optimum
    stages.py speed                         seconds of each policy on lists of n weights

The frameworks' own functions run (DeepSpeed, torchgpipe, Accelerate; each is left out where it is not installed). All of them
see a list of layers, in the order of the model's file; none sees edges. Costs are judged here, by one model:

    load of a stage = computing time + cost of every tensor that touches the stage and is not wholly inside it

which charges a tensor once to its producer's stage and once to each stage that consumes it. The answer's quality is the
largest load, in ms. Forward and backward nodes of one layer stay together; only forward order restricts a split.
"""
import ast, glob, heapq, importlib.util, json, os, random, sys, time
import numpy as np

RANDOM_ORDERS = 40
RECORDED = {  # optimum over contiguous splits as the exact ideals search reports it (one CPU allowed beside the accelerators)
    'LayerGraphs/bert24_inference': 17.790, 'LayerGraphs/bert24_training': 41.746, 'LayerGraphs/resnet50_inference': 33.775,
    'LayerGraphs/resnet50_training': 78.632, 'OperatorGraphs/bert_l-3_inference': 27.919, 'OperatorGraphs/bert_l-3_training': 65.303,
    'OperatorGraphs/bert_l-12_inference': 147.478, 'OperatorGraphs/bert_L-12_training': 437.998,
    'OperatorGraphs/resnet50_inference': 124.349, 'OperatorGraphs/resnet50_training': 255.194}


# ---- workloads ----------------------------------------------------------------------------------------------------

def components(successors):
    """Strongly connected components, numbered so that every edge goes from a lower to a higher number or stays inside."""
    n, index, low, number, stack, count, found = len(successors), {}, {}, {}, [], 0, 0
    for root in range(n):
        work = [(root, iter(successors[root]))] if root not in index else []
        if work:
            index[root] = low[root] = count; count += 1; stack.append(root)
        while work:
            u, rest = work[-1]
            for v in rest:
                if v not in index:
                    index[v] = low[v] = count; count += 1; stack.append(v); work.append((v, iter(successors[v])))
                    break
                if v not in number:
                    low[u] = min(low[u], index[v])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[u])
                if low[u] == index[u]:
                    while True:
                        v = stack.pop(); number[v] = found
                        if v == u:
                            break
                    found += 1
    return [found - 1 - number[u] for u in range(n)], found


class Workload:
    """Units that may not be parted: one colour class each, then one cycle of classes each."""
    def __init__(self, path):
        data = json.load(open(path))
        nodes, at = data['nodes'], {x['id']: i for i, x in enumerate(data['nodes'])}
        colour = {}
        unit = [colour.setdefault(x.get('colorClass', ('alone', x['id'])), len(colour)) for x in nodes]
        backward = [bool(x['isBackwardNode']) for x in nodes]
        order = [set() for _ in colour]
        has_forward = {unit[i] for i in range(len(nodes)) if not backward[i]}
        for e in data['edges']:
            u, v = at[e['sourceId']], at[e['destId']]
            if unit[u] != unit[v]:
                if not backward[u] and not backward[v]:
                    order[unit[u]].add(unit[v])
                elif backward[u] and backward[v] and not {unit[u], unit[v]} <= has_forward:
                    order[unit[v]].add(unit[u])                         # a gradient with no forward node goes where its mirror would
        merged, self.n = components([sorted(s) for s in order])
        self.unit = [merged[u] for u in unit]
        self.id_of = {x['id']: self.unit[i] for i, x in enumerate(nodes)}
        self.time, self.bytes = np.zeros(self.n), np.zeros(self.n)
        self.successors = [set() for _ in range(self.n)]
        for i, x in enumerate(nodes):
            self.time[self.unit[i]] += x['fpgaLatency']; self.bytes[self.unit[i]] += x['size']
        for u, after in enumerate(order):
            self.successors[merged[u]] |= {merged[v] for v in after if merged[v] != merged[u]}
        cost, users = {}, {}
        for e in data['edges']:
            u = at[e['sourceId']]
            cost[u] = max(cost.get(u, 0), e['cost'])
            users.setdefault(u, {self.unit[u]}).add(self.unit[at[e['destId']]])
        self.tensors = [(cost[u], sorted(users[u])) for u in cost if len(users[u]) > 1]
        self.first_id = [min(at[x['id']] for i, x in enumerate(nodes) if self.unit[i] == u) for u in range(self.n)]
        self.devices, self.memory = data['maxFPGAs'], data['maxSizePerFPGA']

    def orders(self):
        incoming = [0] * self.n
        for s in self.successors:
            for v in s:
                incoming[v] += 1
        def walk(take, put, start):
            left, order = incoming[:], []
            ready = start
            while ready:
                u = take(ready); order.append(u)
                for v in sorted(self.successors[u]):
                    left[v] -= 1
                    if not left[v]:
                        put(ready, v)
            return order
        sources = [u for u in range(self.n) if not incoming[u]]
        listed = walk(lambda r: heapq.heappop(r)[1], lambda r, v: heapq.heappush(r, (self.first_id[v], v)), sorted((self.first_id[u], u) for u in sources))
        found = {'file': listed, 'breadth': walk(lambda r: r.pop(0), list.append, sources[:]), 'depth': walk(list.pop, list.append, sources[::-1])}
        found['postorder'] = list(range(self.n))                        # as the component search numbered them: each source just before its user
        for seed in range(RANDOM_ORDERS):                               # half breadth-like (a random ready unit), half depth-like
            dice = random.Random(seed)
            found[f'random {seed}'] = walk(lambda r: r.pop(dice.randrange(len(r)) if seed % 2 else dice.randrange(max(0, len(r) - 3), len(r))), list.append, sources[:])
        return found

    def loads(self, part, k):
        """(load, computing time, bytes) of each stage, for a stage number per unit."""
        load = np.bincount(part, weights=self.time, minlength=k)
        computing = load.copy()
        for cost, units in self.tensors:
            stages = {part[u] for u in units}
            if len(stages) > 1:
                for s in stages:
                    load[s] += cost
        return load, computing, np.bincount(part, weights=self.bytes, minlength=k)

    def interval_loads(self, order):
        """L[i, j] = load of units i..j-1 of the order. A set q1 < ... < qr of positions meets an interval once more than the
        consecutive pairs it has inside, so every term is 'pair (a, b) lies inside', and all L are one double prefix sum."""
        n, position = self.n, np.empty(self.n, int)
        position[order] = np.arange(n)
        inside = np.zeros((n + 1, n + 1))
        for u in range(n):
            inside[position[u], position[u] + 1] += self.time[u]
        for cost, units in self.tensors:
            q = sorted(position[u] for u in units)
            for a in q:
                inside[a, a + 1] += cost
            for a, b in zip(q, q[1:]):
                inside[a, b + 1] -= cost
            inside[q[0], q[-1] + 1] -= cost
        return inside[::-1].cumsum(0)[::-1].cumsum(1)


# ---- policies: weights of the layers in order, k -> k + 1 boundaries ------------------------------------------------

def functions_of(package, file, names):
    """The named functions of an installed package's file, without importing the package (its other imports may be heavy)."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    source = ast.parse(open(os.path.join(spec.submodule_search_locations[0], file)).read())
    source.body = [s for s in source.body if isinstance(s, ast.FunctionDef) and s.name in names
                   or isinstance(s, ast.ImportFrom) and s.module in ('typing', '__future__')]
    scope = {}
    exec(compile(source, file, 'exec'), scope)
    return scope

def sliced_exactly(weights, k):
    """The least possible largest sum: bisection over prefix sums."""
    prefix = np.concatenate(([0], np.cumsum(weights)))
    def cuts(bound):
        ends = [0]
        while ends[-1] < len(weights) and len(ends) <= k:
            end = int(np.searchsorted(prefix, prefix[ends[-1]] + bound, side='right')) - 1
            if end == ends[-1]:
                return None
            ends.append(end)
        return ends if ends[-1] == len(weights) else None
    low, high = max(float(np.max(weights)), prefix[-1] / k), float(np.max(weights)) + prefix[-1] / k
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if cuts(middle) else (middle, high)
    ends = cuts(high * (1 + 1e-12))
    return ends + [len(weights)] * (k + 1 - len(ends))

def policies():
    found = {}
    deepspeed = functions_of('deepspeed', 'runtime/utils.py', ('partition_uniform', 'partition_balanced'))
    if deepspeed:
        found['deepspeed uniform'] = ('ones', lambda w, k: deepspeed['partition_uniform'](len(w), k))
        found['deepspeed parameters'] = ('bytes', lambda w, k: deepspeed['partition_balanced'](list(w), k))
        found['deepspeed on time'] = ('time', lambda w, k: deepspeed['partition_balanced'](list(w), k))
    gpipe = functions_of('torchgpipe', 'balance/blockpartition.py', ('solve',)) or functions_of('fairscale', 'nn/pipe/balance/blockpartition.py', ('solve',))
    if gpipe:
        def blocks(w, k):
            return [0] + list(np.cumsum([len(b) for b in gpipe['solve'](list(w), k)]))
        found['torchgpipe size'] = ('bytes', blocks)
        found['torchgpipe time'] = ('time', blocks)
    if importlib.util.find_spec('accelerate') and importlib.util.find_spec('torch'):
        def device_map(w, k):
            import torch
            from accelerate.inference import generate_device_map
            class Layer(torch.nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.weight = torch.nn.Parameter(torch.empty(int(size), dtype=torch.uint8, device='meta'), requires_grad=False)
            mapping = generate_device_map(torch.nn.Sequential(*[Layer(x) for x in w]), num_processes=k, no_split_module_classes=['Layer'])
            stage = [mapping[str(i)] if str(i) in mapping else mapping[f'{i}.weight'] for i in range(len(w))]
            return [(k if s in ('cpu', 'disk') else s) for s in stage]           # k: did not fit, left on the host
        found['accelerate'] = ('bytes', device_map)
    found['exact on time'] = ('time', sliced_exactly)
    return found

def slice_with_transfers(load, k, fits):
    """Least largest load over contiguous slices of one order: f[t][j] = min over i of max(f[t-1][i], L[i, j])."""
    n = load.shape[0] - 1
    cost = np.where(fits, load, np.inf)
    cost[np.tril_indices(n + 1)] = np.inf
    best, back = np.full(n + 1, np.inf), []
    best[0] = 0
    answers = []
    for _ in range(k):
        table = np.maximum(best[:, None], cost)
        back.append(table.argmin(0)); best = table.min(0)
        answers.append(best[n])
    t, j, ends = int(np.argmin(answers)), n, [n]
    for step in range(t, -1, -1):
        j = int(back[step][j]); ends.append(j)
    return ends[::-1] + [n] * (k - 1 - t)

def spread(order, ends, n):
    part = np.zeros(n, int)
    for s, (a, b) in enumerate(zip(ends, ends[1:])):
        part[np.array(order[a:b], int)] = s
    return part

def table(paths):
    chosen, rows, columns = policies(), [], []
    for path in paths:
        name = os.path.join(os.path.basename(os.path.dirname(os.path.abspath(path))), os.path.basename(path)).removesuffix('.json')
        w, row = Workload(path), {}
        k, orders = w.devices, w.orders()
        weights = {'time': w.time[orders['file']], 'bytes': w.bytes[orders['file']], 'ones': np.ones(w.n)}
        def judge(column, part, seconds):
            load, _, size = w.loads(part, max(k, max(part) + 1))
            left = int((np.asarray(part) >= k).sum())
            row[column] = (load[:k].max(), seconds, size[:k].max() > w.memory, int((np.bincount(part, minlength=k)[:k] == 0).sum()), left)
        for column, (what, policy) in chosen.items():
            begin = time.process_time()
            try:
                answer = policy(weights[what], k)
            except Exception as error:
                row[column] = f'{type(error).__name__}'
                continue
            seconds = time.process_time() - begin
            part = np.zeros(w.n, int)
            if len(answer) == k + 1 and column != 'accelerate':
                part = spread(orders['file'], answer, w.n)
            else:
                part[orders['file']] = answer
            judge(column, part, seconds)
        expert = os.path.join(os.path.dirname(os.path.abspath(path)), '..', '..', 'human-experts', os.path.basename(path).replace('.json', '_expert.json'))
        if os.path.exists(expert) and 'LayerGraphs' in path:
            part = np.full(w.n, -1)
            for s, device in enumerate(json.load(open(expert))['fpgas']):
                for node in device['nodes']:
                    part[w.id_of[node]] = s
            if part.min() >= 0:
                judge('experts', part, 0)
        best, begin = None, time.process_time()
        for label, order in orders.items():
            load = w.interval_loads(order)
            size = np.concatenate(([0], np.cumsum(w.bytes[order])))
            ends = slice_with_transfers(load, k, size[None, :] - size[:, None] <= w.memory)
            part = spread(order, ends, w.n)
            if label == 'file':
                judge('slices, transfers, file order', part, 0)
            if best is None or w.loads(part, k)[0].max() < w.loads(best, k)[0].max():
                best = part
            if label == 'postorder':
                judge('slices, transfers, best of 4 orders', best, 0)
        judge(f'slices, transfers, best of {len(orders)} orders', best, time.process_time() - begin)
        rows.append((name, k, w, row, RECORDED.get(name)))
        columns += [c for c in row if c not in columns]
    columns.sort(key=lambda c: c.startswith('slices'))
    print('| workload (units, k) | ' + ' | '.join(columns) + ' | optimum |\n|' + '---|' * (len(columns) + 2))
    for name, k, w, row, optimum in rows:
        def cell(c):
            if c not in row or isinstance(row[c], str):
                return row.get(c, '-')
            load, seconds, over, empty, left = row[c]
            return f'{load:.2f}' + (f', {empty} empty' if empty else '') + (' over memory' if over else '') + (f', {left} not placed' if left else '') + (f' ({seconds:.2f} s)' if seconds >= 0.1 else '')
        print(f'| {name} ({w.n}, {k}) | ' + ' | '.join(map(cell, columns)) + f' | {optimum or "-"} |')

def speed():
    names = {'deepspeed on time': (100, 300, 1000), 'torchgpipe time': (100, 1000, 10_000), 'exact on time': (1000, 10_000, 100_000, 1_000_000)}
    found = policies()
    print('| policy | n | k | s | largest sum / exact |\n|---|---|---|---|---|')
    for name, sizes in names.items():
        if name not in found:
            continue
        for n in sizes:
            for k in (8, 64):
                weights = np.exp(np.random.default_rng(n).normal(size=n))
                begin = time.process_time()
                ends = found[name][1](weights, k)
                seconds = time.process_time() - begin
                prefix = np.concatenate(([0], np.cumsum(weights)))
                exact = np.diff(prefix[sliced_exactly(weights, k)]).max()
                print(f'| {name} | {n} | {k} | {seconds:.4f} | {np.diff(prefix[list(ends)]).max() / exact:.4f} |', flush=True)
                if seconds > 60:
                    break

def workloads(words):
    """Files as they are; of a folder (the throughput-inputs of github.com/msr-fiddle/dnn-partitioning) all .json in it."""
    return [path for word in words
            for path in (sorted(glob.glob(os.path.join(word, '**', '*.json'), recursive=True)) if os.path.isdir(word) else [word])]

if sys.argv[1:2] == ['table'] and len(sys.argv) > 2:
    table(workloads(sys.argv[2:]))
elif sys.argv[1:] == ['speed']:
    speed()
else:
    sys.exit(__doc__)
