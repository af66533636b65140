#!/usr/bin/env python3
"""Runs the partitioners that cleave is compared with, on METIS graph files, and checks their results itself.

    peers.py run GRAPH... -k 2,8,32 [--peers metis,cleave-fast] [--seeds 1,2,3] [--threads 1] [--eps 0.03] [--csv OUT] [--parts DIR]
    peers.py eval GRAPH PART -k 8           cut and balance of a partition made elsewhere (one block number a line)
    peers.py eval CSV --graphs DIR --parts DIR   recomputes every row from its kept part file, PART or PART.xz
    peers.py table CSV...                   medians over seeds, as ratios to METIS k-way; per class of graph, too
    peers.py best CSV... --of cleave-standard [--peers kmp-default,mtk-default] [--within 2] [--clock kmp-default]   one beside the best of others
    peers.py probe                          what each peer does with k = 1, isolated nodes, zero weights, ...
    peers.py missing                        which peers cannot run here, and what they need

Only the call that partitions is timed: the graph is in memory, in the peer's own form. Each call has its own process, so
a crash, a hang or process-wide state (seed, threads) of one peer cannot touch another.
"""
import argparse, collections, ctypes, ctypes.util, glob, importlib.util, json, math, os, re, resource, select, signal, statistics, subprocess, sys, tempfile, time

for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
    os.environ.setdefault(name, '1')
import numpy as np

COLUMNS = ['peer', 'graph', 'n', 'm', 'k', 'eps', 'seed', 'threads', 'wall_s', 'cpu_s', 'cut', 'imbalance', 'empty',
           'memory_csr', 'claimed_cut', 'status']
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CLASSES = {'grids and roads': ('grid2d', 'grid3d', 'mesh2d', 'road'), '27-point meshes': ('mesh3d',),
           'geometric and Delaunay': ('del2d', 'fem2d', 'fem3d', 'rgg2d', 'rgg3d'), 'hyperbolic': ('rhyp',),
           'power law': ('rmat', 'ba'), 'planted': ('sbm',)}

def class_of(graph):
    return next((name for name, families in CLASSES.items() if graph.split('_')[0] in families), 'other graphs')


# ---- graphs -------------------------------------------------------------------------------------------------------

class Graph:
    """An undirected graph as CSR: every edge is stored at both ends. Weights are None where all are 1."""
    def __init__(self, xadj, adj, vwgt=None, ewgt=None, path=None):
        self.xadj, self.adj, self.vwgt, self.ewgt, self.path = xadj, adj, vwgt, ewgt, path
        self.n, self.m = len(xadj) - 1, len(adj) // 2

    def csr_bytes(self):
        return sum(4 * len(a) for a in (self.xadj, self.adj, self.vwgt, self.ewgt) if a is not None)


def read_metis(path):
    text = open(path, 'rb').read()
    lines = text.split(b'\n', 1)
    while lines[0].startswith(b'%'):
        lines = lines[1].split(b'\n', 1)
    head, body = lines[0].split(), lines[1]
    if b'%' in body:
        body = b'\n'.join(l for l in body.split(b'\n') if not l.startswith(b'%'))
    n, fmt = int(head[0]), int(head[2]) if len(head) > 2 else 0
    if fmt >= 100 or (len(head) > 3 and int(head[3]) != 1):
        raise ValueError(f'{path}: node sizes and several constraints are not supported')
    raw = np.frombuffer(body, dtype=np.uint8)
    in_token = raw > 32
    starts = np.flatnonzero(in_token & ~np.concatenate(([False], in_token[:-1])))
    ends = np.flatnonzero(raw == 10)
    if len(ends) < n:
        ends = np.concatenate((ends, [len(raw)]))
    per_line = np.searchsorted(starts, ends[:n])                       # tokens before the end of line i
    tokens = np.fromstring(body, dtype=np.int64, sep=' ')[:per_line[-1] if n else 0]
    first = np.concatenate(([0], per_line[:-1])) if n else per_line
    vwgt = ewgt = None
    if fmt // 10 % 10:
        vwgt = tokens[first].astype(np.int32)
        tokens = np.delete(tokens, first)
        per_line = per_line - np.arange(1, n + 1)
    if fmt % 10:
        ewgt, tokens, per_line = tokens[1::2].astype(np.int32), tokens[::2], per_line // 2
    return Graph(np.concatenate(([0], per_line)).astype(np.int32), (tokens - 1).astype(np.int32), vwgt, ewgt, path)


def write_metis(path, g):
    fmt = f'{int(g.vwgt is not None)}{int(g.ewgt is not None)}'
    with open(path, 'w') as out:
        out.write(f'{g.n} {g.m}' + (f' 0{fmt}' if fmt != '00' else '') + '\n')
        adj = (g.adj + 1).tolist()
        row = [' '.join(map(str, z)) for z in zip(adj, g.ewgt.tolist())] if g.ewgt is not None else list(map(str, adj))
        x = g.xadj.tolist()
        for u in range(g.n):
            head = [str(g.vwgt[u])] if g.vwgt is not None else []
            out.write(' '.join(head + row[x[u]:x[u + 1]]) + '\n')


def evaluate(g, part, k):
    """cut, imbalance (heaviest block / ceil(total/k) - 1), empty blocks; an invalid partition is a ValueError."""
    part = np.asarray(part, dtype=np.int64)
    if len(part) != g.n:
        raise ValueError(f'{len(part)} entries for {g.n} nodes')
    if g.n and (part.min() < 0 or part.max() >= k):
        raise ValueError(f'block numbers {part.min()}..{part.max()} for k={k}')
    source = np.repeat(part, np.diff(g.xadj))
    crossing = source != part[g.adj]
    cut = int((crossing if g.ewgt is None else g.ewgt[crossing].astype(np.int64)).sum()) // 2
    weight = np.bincount(part, weights=g.vwgt, minlength=k)
    total = int(weight.sum())
    return cut, (weight.max() / max(1, -(-total // k)) - 1 if total else 0.0), int((np.bincount(part, minlength=k) == 0).sum())


def evaluate_dag(path, part, k):
    """cut and imbalance of the work, empty blocks, and the largest load: work, and each tensor that enters or leaves at the dearest of its edges."""
    words = np.loadtxt(open(path).read().split(), dtype=float)
    n, m = int(words[0]), int(words[1])
    work, edges = words[2:2 + 2 * n:2], words[2 + 2 * n:2 + 2 * n + 3 * m].reshape(m, 3)
    part = np.asarray(part, dtype=np.int64)
    if len(part) != n or part.min() < 0 or part.max() >= k:
        raise ValueError(f'{len(part)} entries for {n} nodes, or block numbers beyond {k}')
    a, b, cost = edges[:, 0].astype(int), edges[:, 1].astype(int), edges[:, 2]
    dearest = np.zeros(n)
    np.maximum.at(dearest, a, cost)
    crossing = part[a] != part[b]
    load = np.bincount(part, weights=work, minlength=k)
    imbalance = load.max() * k / work.sum() - 1 if work.sum() else 0.0
    readers = np.unique(np.stack((a[crossing], part[b[crossing]])), axis=1)
    np.add.at(load, readers[1], dearest[readers[0]])
    senders = np.unique(a[crossing])
    np.add.at(load, part[senders], dearest[senders])
    return cost[crossing].sum(), imbalance, int((np.bincount(part, minlength=k) == 0).sum()), load.max()


# ---- peers: prepare(graph, k, eps, seed, threads) returns the call to be timed; the call returns (part, claimed cut) ---

def pointer(a):
    return None if a is None else a.ctypes.data_as(ctypes.c_void_p)

def ref(value, kind=ctypes.c_int):
    return ctypes.byref(kind(value))

def library(name):
    path = ctypes.util.find_library(name)
    if not path:
        raise RuntimeError(f'lib{name} is not installed')
    return ctypes.CDLL(path)

def metis_ufactor(eps, k, recursive):                                  # recursion compounds the slack of each bisection
    return max(1, int(1000 * ((1 + eps) ** (1 / max(1, math.ceil(math.log2(max(k, 2))))) - 1 if recursive else eps) + 1e-6))

def metis(recursive=False, contiguous=False):
    def prepare(g, k, eps, seed, threads):
        lib = library('metis')                                         # Debian: 32-bit indices
        options = np.full(40, -1, np.int32)
        options[8], options[16], options[11] = seed, metis_ufactor(eps, k, recursive), int(contiguous)
        part, cut = np.zeros(g.n, np.int32), ctypes.c_int(-1)
        f = lib.METIS_PartGraphRecursive if recursive else lib.METIS_PartGraphKway
        def call():
            code = f(ref(g.n), ref(1), pointer(g.xadj), pointer(g.adj), pointer(g.vwgt), None, pointer(g.ewgt), ref(k), None,
                     None, pointer(options), ctypes.byref(cut), pointer(part))
            if code != 1:
                raise RuntimeError(f'METIS returned {code}')
            return part, cut.value
        return call
    return prepare

def cleave_library():
    """libcleave_peer.so, compiled anew where a header of the library is younger."""
    if 'CLEAVE_PEER' in os.environ:
        return os.environ['CLEAVE_PEER']
    made, source, include = (os.path.join(ROOT, *p) for p in (('build', 'peers', 'libcleave_peer.so'), ('bench', 'peers', 'cleave_peer.cpp'), ('include',)))
    newest = max(os.path.getmtime(f) for f in [source, *glob.glob(os.path.join(include, 'cleave', '**', '*.hpp'), recursive=True)])
    if not os.path.exists(made) or os.path.getmtime(made) < newest:
        os.makedirs(os.path.dirname(made), exist_ok=True)
        unfinished = f'{made}.{os.getpid()}'
        flags = ['-O3', '-DNDEBUG', '-std=c++20', '-pthread', '-shared', '-fPIC']
        done = subprocess.run([os.environ.get('CXX', 'g++'), *flags, '-I', include, source, '-o', unfinished], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError('cleave cannot be compiled: ' + next((l for l in done.stderr.splitlines() if 'error' in l), done.stderr))
        os.replace(unfinished, made)
    return made

def cleave(preset):
    def prepare(g, k, eps, seed, threads):
        f = ctypes.CDLL(cleave_library()).cleave_partition
        part, cut, message = np.zeros(g.n, np.int32), ctypes.c_int64(-1), ctypes.create_string_buffer(400)
        def call():
            if f(ctypes.c_int32(g.n), pointer(g.xadj), pointer(g.adj), pointer(g.vwgt), pointer(g.ewgt), ctypes.c_int32(k), ctypes.c_double(eps),
                 ctypes.c_int32(preset), ctypes.c_uint64(seed), ctypes.c_int32(threads), ctypes.byref(cut), pointer(part), message, ctypes.c_size_t(400)):
                raise RuntimeError(message.value.decode())
            return part, cut.value
        return call
    return prepare

def pymetis(recursive=False):
    def prepare(g, k, eps, seed, threads):
        import pymetis
        kind = pymetis.zero_copy_dtype()
        wide = [None if a is None else a.astype(kind) for a in (g.xadj, g.adj, g.vwgt, g.ewgt)]
        options = pymetis.Options(seed=seed, ufactor=metis_ufactor(eps, k, recursive))
        def call():
            cut, part = pymetis.part_graph(k, xadj=wide[0], adjncy=wide[1], vweights=wide[2], eweights=wide[3],
                                           recursive=recursive, options=options)
            return part, cut
        return call
    return prepare

def kaffpa(mode):
    def prepare(g, k, eps, seed, threads):
        import kahip.kahip as module                                   # the wheel exports KaHIP's C interface
        lib = ctypes.CDLL(module.__file__)
        part, cut = np.zeros(g.n, np.int32), ctypes.c_int(-1)
        def call():
            lib.kaffpa(ref(g.n), pointer(g.vwgt), pointer(g.xadj), pointer(g.ewgt), pointer(g.adj), ref(k),
                       ref(eps, ctypes.c_double), ctypes.c_bool(True), ctypes.c_int(seed), ctypes.c_int(mode),
                       ctypes.byref(cut), pointer(part))
            return part, cut.value
        return call
    return prepare

def degree_ordered(g):
    """The graph as KaMinPar's C++ and command-line interfaces prepare it, which its Python interface does not: isolated nodes cut off,
    the others in order of degree buckets (1, 2-3, 4-7, ...). Without it power-law graphs come out 7 to 50 % worse.
    Returns the graph, on file beside the original, and old ids in the new order, isolated ones last."""
    degree = np.diff(g.xadj)
    order = np.argsort(np.where(degree, np.floor(np.log2(np.maximum(degree, 1))), 99), kind='stable').astype(np.int32)
    if g.vwgt is not None or (order == np.arange(g.n)).all():
        return g, np.arange(g.n)
    path, kept = g.path.removesuffix('.graph') + '.by-degree.graph', int((degree > 0).sum())
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(g.path):
        new = np.empty(g.n, np.int32)
        new[order] = np.arange(g.n)
        source, head = np.repeat(new, degree), new[g.adj]
        by = np.lexsort((head, source))
        write_metis(path, Graph(np.concatenate(([0], np.cumsum(degree[order[:kept]]))).astype(np.int32), head[by], None, None if g.ewgt is None else g.ewgt[by]))
    return Graph(np.zeros(kept + 1, np.int32), g.adj, path=path), order

def kaminpar(preset):
    def prepare(g, k, eps, seed, threads):
        import kaminpar
        kaminpar.reseed(seed)
        solver = kaminpar.KaMinPar(threads, kaminpar.context_by_name(preset))
        core, order = degree_ordered(g)
        limit = int((1 + eps) * -(-g.n // k))
        slack = eps if core.n in (0, g.n) else limit / -(-core.n // k) - 1
        core = g if core.n == 0 else core
        graph = kaminpar.load_graph(core.path, kaminpar.GraphFileFormat.METIS)
        def call():
            part = np.array(solver.compute_partition(graph, k, slack), np.int64)
            if core is g:
                return part, None
            full, lonely = np.empty(g.n, np.int64), g.n - core.n
            full[order[:core.n]] = part
            load = np.bincount(part, minlength=k)
            even = np.maximum(-(-g.n // k) - load, 0)                  # isolated nodes fill up to the average, then up to the limit
            fill = np.concatenate((np.repeat(np.arange(k), even), np.repeat(np.arange(k), np.maximum(limit - load - even, 0))))
            full[order[core.n:]] = fill[:lonely]
            return full, None
        return call
    return prepare

def mtkahypar(preset):
    def prepare(g, k, eps, seed, threads):
        import mtkahypar
        start = mtkahypar.initialize(threads, False)
        context = start.context_from_preset(getattr(mtkahypar.PresetType, preset))
        context.set_partitioning_parameters(k, eps, mtkahypar.Objective.CUT)
        context.logging = False
        mtkahypar.set_seed(seed)
        graph = start.graph_from_file(g.path, context, mtkahypar.FileFormat.METIS)
        def call():
            result = graph.partition(context)
            return result.get_partition(), result.cut()
        return call
    return prepare

def scotch(strategy):
    def prepare(g, k, eps, seed, threads):
        os.environ['SCOTCH_PTHREAD_NUMBER'] = str(threads)             # else it takes every core and differs from run to run
        lib = library('scotch')
        lib.SCOTCH_graphAlloc.restype = lib.SCOTCH_stratAlloc.restype = ctypes.c_void_p
        graph, plan = ctypes.c_void_p(lib.SCOTCH_graphAlloc()), ctypes.c_void_p(lib.SCOTCH_stratAlloc())
        lib.SCOTCH_randomSeed(ctypes.c_int(seed)); lib.SCOTCH_randomReset()
        lib.SCOTCH_graphInit(graph); lib.SCOTCH_stratInit(plan)
        code = lib.SCOTCH_graphBuild(graph, 0, g.n, pointer(g.xadj), None, pointer(g.vwgt), None, len(g.adj), pointer(g.adj), pointer(g.ewgt))
        code |= lib.SCOTCH_stratGraphMapBuild(plan, strategy, k, ctypes.c_double(eps))
        part = np.zeros(g.n, np.int32)
        def call():
            if code or lib.SCOTCH_graphPart(graph, k, plan, pointer(part)):
                raise RuntimeError('Scotch returned an error')
            return part, None
        return call
    return prepare

PEERS = {
    'cleave-fast': cleave(0), 'cleave-standard': cleave(1), 'cleave-quality': cleave(2),
    'metis': metis(), 'metis-rb': metis(recursive=True), 'metis-contig': metis(contiguous=True),
    'pymetis': pymetis(), 'pymetis-rb': pymetis(recursive=True),
    'kahip-fast': kaffpa(0), 'kahip-eco': kaffpa(1), 'kahip-strong': kaffpa(2),
    'kahip-fastsocial': kaffpa(3), 'kahip-ecosocial': kaffpa(4), 'kahip-strongsocial': kaffpa(5),
    **{f'kmp-{p}': kaminpar(p) for p in ('fast', 'default', 'eco', 'strong', 'largek', 'terapart', 'jet')},
    'mtk-default': mtkahypar('DEFAULT'), 'mtk-det': mtkahypar('DETERMINISTIC'), 'mtk-quality': mtkahypar('QUALITY'),
    'mtk-highest': mtkahypar('HIGHEST_QUALITY'), 'mtk-largek': mtkahypar('LARGE_K'),
    'scotch': scotch(0), 'scotch-speed': scotch(2), 'scotch-quality': scotch(1),
}


# ---- one run, in a process of its own ------------------------------------------------------------------------------

def peak_kib():
    return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM'))

def part_file(folder, row):
    """Where the parts of a row are kept; `cleave bench` uses the same names."""
    return os.path.join(folder, f'{row["graph"]}.{row["peer"]}.k{row["k"]}.eps{float(row["eps"]):g}.seed{row["seed"]}.threads{row["threads"]}.part')

def measure(peer, g, k, eps, seed, threads, keep):
    call = PEERS[peer](g, k, eps, seed, threads)
    try:
        ctypes.CDLL(None).malloc_trim(0)                               # else the call could use unseen what was freed before
        open('/proc/self/clear_refs', 'w').write('5')                  # the peak counts from here
    except (OSError, AttributeError):
        pass
    memory = peak_kib()
    cpu = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    c0, w0 = cpu(), time.perf_counter()
    part, claimed = call()
    w1, c1 = time.perf_counter(), cpu()
    memory = (peak_kib() - memory) * 1024 / g.csr_bytes() if g.csr_bytes() else 0
    cut, imbalance, empty = evaluate(g, part, k)
    if keep:
        np.savetxt(keep, np.asarray(part), fmt='%d')
    return dict(wall_s=round(w1 - w0, 4), cpu_s=round(c1 - c0, 4), cut=cut, imbalance=round(imbalance, 4), empty=empty,
                memory_csr=round(memory, 1), claimed_cut='' if claimed is None else claimed,
                status='ok' if claimed in (None, cut) else 'cut reported wrongly')

def run_apart(peer, g, k, eps, seed, threads, timeout, keep=None):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1); os.dup2(null, 2)
            try:
                answer = measure(peer, g, k, eps, seed, threads, keep)
            except BaseException as error:
                message = re.sub(r'\x1b\[[0-9;]*m', '', str(error)).strip().split('\n')[0]
                answer = dict(status=f'{type(error).__name__}: {message}')
            os.write(writer, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writer)
    answer = b''
    if select.select([reader], [], [], timeout)[0]:
        answer = os.read(reader, 1 << 16)
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    code = os.waitpid(child, 0)[1]
    if answer:
        return json.loads(answer)
    if code == signal.SIGKILL:
        return dict(status=f'no answer in {timeout:g} s')
    return dict(status=signal.Signals(code & 127).name if code & 127 else f'exit {code >> 8}, no result')


# ---- commands ------------------------------------------------------------------------------------------------------

def numbers(text):
    return [int(x) for x in text.split(',')]

def command_run(a):
    if any(p.startswith('cleave') for p in a.peers.split(',')):
        cleave_library()                                               # compiled before, not within a run's time limit
    if a.parts:
        os.makedirs(a.parts, exist_ok=True)
    out = open(a.csv, 'a') if a.csv else sys.stdout
    if out.tell() == 0 if a.csv else True:
        print(','.join(COLUMNS), file=out, flush=True)
    for path in a.graphs:
        g = read_metis(path)
        for k in numbers(a.k):
            for seed in numbers(a.seeds):                              # peers side by side: ratios hold on a noisy machine
                for peer in a.peers.split(','):
                    row = dict(peer=peer, graph=os.path.basename(path).removesuffix('.graph'), n=g.n, m=g.m, k=k, eps=a.eps,
                               seed=seed, threads=a.threads)
                    row |= run_apart(peer, g, k, a.eps, seed, a.threads, a.timeout, a.parts and part_file(a.parts, row))
                    print(','.join(str(row.get(c, '')).replace(',', ';') for c in COLUMNS), file=out, flush=True)

def read_rows(paths):
    for path in paths:
        try:
            lines = open(path).read().splitlines()
        except OSError as error:
            sys.exit(f'{path}: {error.strerror}; give the table of a run, as in peers.py table out.csv')
        if not lines or 'peer' not in lines[0].split(','):
            sys.exit(f'{path}: not the table of a run: its first line has no column "peer"')
        for line in lines[1:]:
            row = dict(zip(lines[0].split(','), line.split(',')))
            if row['peer'] != 'peer':
                yield row

def command_eval(a):
    if a.what.endswith('.csv'):
        return evaluate_rows(a)
    if not a.part or not a.k:
        sys.exit('peers.py eval GRAPH PART -k 8')
    g, part = read_metis(a.what), np.loadtxt(a.part, dtype=np.int64, ndmin=1)
    cut, imbalance, empty = evaluate(g, part, int(a.k))
    print(f'cut={cut} imbalance={imbalance:.4f} empty={empty}')

def evaluate_rows(a):
    """Every row whose parts were kept is counted anew; what differs is told, and is an error."""
    graphs, right, wrong, without = {}, 0, 0, 0
    for row in read_rows([a.what]):
        if not row['cut']:
            continue
        if row.get('metric') not in (None, '', 'edge-cut'):            # hypergraphs.py recounts those
            without += 1
            continue
        path = part_file(a.parts, row)
        if not os.path.exists(path):
            path += '.xz'
        if not os.path.exists(path):
            without += 1
            continue
        part, k, near = np.loadtxt(path, dtype=np.int64, ndmin=1), int(row['k']), lambda x, text, by=1e-9: abs(x - float(text)) <= by * max(1, abs(x))
        dag = os.path.join(a.graphs, row['graph'] + '.dag')
        try:
            if os.path.exists(dag):
                cut, imbalance, empty, load = evaluate_dag(dag, part, k)
            else:
                if row['graph'] not in graphs:
                    graphs = {row['graph']: read_metis(os.path.join(a.graphs, row['graph'] + '.graph'))}
                (cut, imbalance, empty), load = evaluate(graphs[row['graph']], part, k), None
            same = near(cut, row['cut']) and empty == int(row['empty']) and near(imbalance, row['imbalance'], 1e-4)
            same = same and (load is None or not row.get('bottleneck') or near(load, row['bottleneck']))
            found = f'cut={cut} imbalance={imbalance:.4f} empty={empty}' + (f' bottleneck={load}' if load is not None else '')
        except ValueError as error:
            same, found = False, str(error)
        right, wrong = right + same, wrong + (not same)
        if not same:
            print(f'{os.path.basename(path)}: the row says cut={row["cut"]} imbalance={row["imbalance"]} empty={row["empty"]}, the parts say {found}')
    print(f'{right} rows recomputed, {wrong} wrong, {without} without parts')
    sys.exit(1 if wrong or not right else 0)

def command_table(a):
    rows = collections.defaultdict(list)
    for r in read_rows(a.csv):
        rows[int(r['threads']), int(r['k']), r['graph'], r['peer']].append(r)
    everywhere = collections.defaultdict(list)                         # ratios by threads, class and peer, over all k
    geo = lambda xs: math.exp(sum(map(math.log, xs)) / len(xs))
    def mean_cell(ratios):
        if not ratios:
            return '-'
        cuts, times = zip(*ratios)
        return f'{geo(cuts):.3f} / {geo(times):.2f} ({min(cuts):.3f}-{max(cuts):.3f}; {len(cuts)})'
    median = lambda rs, c: statistics.median(float(r[c]) for r in rs)
    for threads in sorted({t for t, *_ in rows}):
        time_column = 'cpu_s' if threads == 1 else 'wall_s'
        for k in sorted({key[1] for key in rows if key[0] == threads}):
            here = {key[2:]: [r for r in rs if r['status'] == 'ok'] for key, rs in rows.items() if key[:2] == (threads, k)}
            graphs = list(dict.fromkeys(g for g, _ in here))
            peers = [p for p in dict.fromkeys([*PEERS, *(p for _, p in here)]) if p != a.anchor and any((g, p) in here for g in graphs)]
            print(f'\n### k = {k}, {threads} thread{"s" * (threads > 1)}: cut / {"CPU" if threads == 1 else "wall"} time, as ratios to {a.anchor}\n')
            print(f'| graph | {a.anchor}: cut, s | ' + ' | '.join(peers) + ' |\n|' + '---|' * (len(peers) + 2))
            means = collections.defaultdict(list)
            for g in graphs:
                base = here.get((g, a.anchor)) or [r for r in rows.get((1, k, g, a.anchor), []) if r['status'] == 'ok']
                if not base:
                    continue
                cut, seconds = median(base, 'cut'), median(base, time_column)
                cells = []
                for p in peers:
                    rs = here.get((g, p))
                    if not rs:
                        cells.append('fails' if (g, p) in here else '-')
                        continue
                    ratio = median(rs, 'cut') / cut if cut else math.nan, median(rs, time_column) / seconds
                    if ratio[0] > 0:                                   # no ratio to a cut of 0, and none of one
                        means[p].append(ratio)
                        everywhere[threads, class_of(g), p].append(ratio)
                    eps, worst, empty = float(rs[0]['eps']), max(float(r['imbalance']) for r in rs), max(int(r['empty']) for r in rs)
                    cells.append((f'{ratio[0]:.3f}' if cut else f'cut {median(rs, "cut"):.0f}') + f' / {ratio[1]:.2f}' + (f' imb {worst:.3f}' if worst > eps + 1e-3 else '') + (f' {empty} empty' if empty else ''))
                print(f'| {g} | {cut:.0f}, {seconds:.2f} | ' + ' | '.join(cells) + ' |')
            print('| **geomean** | | ' + ' | '.join(mean_cell(means[p]) for p in peers) + ' |')
        classes = [c for c in [*CLASSES, 'other graphs'] if any(key[:2] == (threads, c) for key in everywhere)]
        peers = [p for p in dict.fromkeys(key[2] for key in everywhere if key[0] == threads)]
        print(f'\n### by class, over all k, {threads} thread{"s" * (threads > 1)}: geometric means of cut / time to {a.anchor} (least and greatest cut; how many)\n')
        print('| class | ' + ' | '.join(peers) + ' |\n|' + '---|' * (len(peers) + 1))
        for c in classes:
            print(f'| {c} | ' + ' | '.join(mean_cell(everywhere[threads, c, p]) for p in peers) + ' |')
        print('| **all** | ' + ' | '.join(mean_cell([r for c in classes for r in everywhere[threads, c, p]]) for p in peers) + ' |')

def command_best(a):
    """Compares one partitioner with the best of others, problem by problem; medians over seeds of the runs that count."""
    found = {}
    for row in read_rows(a.csv):
        if row['status'] == 'ok':
            found.setdefault((row['graph'], int(row['k'])), {}).setdefault(row['peer'], []).append((float(row['cut']), float(row['cpu_s'])))
    cuts, times = [], []
    for problem, runs in found.items():
        of = {peer: tuple(statistics.median(column) for column in zip(*rows)) for peer, rows in runs.items()}
        if a.of not in of:
            continue
        cut, seconds = of.pop(a.of)
        others = [v for peer, v in of.items() if not peer.startswith('cleave-') and (a.peers is None or peer in a.peers.split(','))
                  and (a.within is None or v[1] <= a.within * seconds)]
        if others:
            cuts.append((cut / max(min(c for c, _ in others), 1), problem))
        if a.clock in of:
            times.append((seconds / of[a.clock][1], problem))
    if not cuts:
        sys.exit(f'no problem has rows of {a.of} and of a peer; see the first column of {" ".join(a.csv)}')
    mean = lambda values: math.exp(sum(math.log(v) for v in values) / len(values))
    print(f'{a.of}: {mean([c for c, _ in cuts]):.3f} of the least cut, {len(cuts)} problems; behind on {sum(c > 1 for c, _ in cuts)}, '
          + ', '.join(f'by more than {x} % on {sum(c > 1 + x / 100 for c, _ in cuts)}' for x in (2, 5)))
    last = lambda pairs: ', '.join(f'{g} k={k} {x:.3f}' for x, (g, k) in sorted(pairs)[:-6:-1])
    print(f'  furthest behind: {last(cuts)}')
    if times:
        print(f'  {mean([t for t, _ in times]):.2f} of the time of {a.clock}; slower on {sum(t > 1 for t, _ in times)}: {last(times)}')

def path_graph(n, vwgt=None, ewgt=None):
    u = np.arange(n)
    adj = np.stack((u - 1, u + 1), 1).ravel()
    keep = (adj >= 0) & (adj < n)
    degree = keep.reshape(-1, 2).sum(1)
    g = Graph(np.concatenate(([0], degree.cumsum())).astype(np.int32), adj[keep].astype(np.int32))
    g.vwgt = None if vwgt is None else np.full(n, vwgt, np.int32)
    g.ewgt = None if ewgt is None else np.full(len(g.adj), ewgt, np.int32)
    return g

def from_lists(lists, vwgt=None):
    return Graph(np.cumsum([0] + [len(l) for l in lists]).astype(np.int32), np.array([v for l in lists for v in l], np.int32),
                 None if vwgt is None else np.array(vwgt, np.int32))

def probes():
    """name, graph, k, what a careful partitioner answers (checked by eye: the table prints cut, imbalance, empty blocks)"""
    two = path_graph(64)
    cut_at = two.xadj[32]
    yield 'k = 1', path_graph(64), 1, 'cut 0'
    yield 'k = n', path_graph(64), 64, 'cut 63, none empty'
    yield 'k > n', path_graph(3), 8, 'cut 2, 5 empty, or an error'
    yield 'one node', path_graph(1), 2, 'cut 0, 1 empty'
    yield 'no node', Graph(np.zeros(1, np.int32), np.zeros(0, np.int32)), 2, 'cut 0'
    yield 'no edge', Graph(np.zeros(65, np.int32), np.zeros(0, np.int32)), 4, 'cut 0, none empty'
    yield 'two components', from_lists([[v for v in (u - 1, u + 1) if 0 <= v < 64 and (v < 32) == (u < 32)] for u in range(64)]), 2, 'cut 0'
    yield 'zero node weights', path_graph(64, vwgt=0), 4, 'a valid partition'
    yield 'half the weights zero', from_lists([[v for v in (u - 1, u + 1) if 0 <= v < 64] for u in range(64)], [u % 2 for u in range(64)]), 4, 'cut 3'
    yield 'one node heavier than a block', from_lists([[v for v in (u - 1, u + 1) if 0 <= v < 64] for u in range(64)], [1000] + [1] * 63), 4, 'none empty'
    yield 'node weights summing past 2^31', path_graph(64, vwgt=2**30), 4, 'cut 3, balanced'
    yield 'edge weights summing past 2^31', path_graph(64, ewgt=2**30), 4, 'cut 3 * 2^30'
    yield 'zero edge weights', path_graph(64, ewgt=0), 4, 'balanced'
    yield 'self-loops', from_lists([[u] + [v for v in (u - 1, u + 1) if 0 <= v < 64] for u in range(64)]), 4, 'cut 3, or an error'
    yield 'double edges', from_lists([[v for v in (u - 1, u - 1, u + 1, u + 1) if 0 <= v < 64] for u in range(64)]), 4, 'cut 6'
    yield 'edge at one end only', from_lists([[u + 1] if u < 63 else [] for u in range(64)]), 4, 'an error'
    yield 'star, 5000 leaves', from_lists([list(range(1, 5001))] + [[0]] * 5000), 8, 'none empty, 3 %'
    yield 'clique, 300', from_lists([[v for v in range(300) if v != u] for u in range(300)]), 7, '3 %, none empty'
    yield 'path, 1 000 000', path_graph(1_000_000), 2, 'cut 1'
    yield 'k = 5000 of 10000', path_graph(10_000), 5000, 'cut 4999, none empty'

def command_probe(a):
    peers = a.peers.split(',')
    print('| case | right answer | ' + ' | '.join(peers) + ' |\n|' + '---|' * (len(peers) + 2))
    with tempfile.TemporaryDirectory() as folder:
        for name, g, k, right in probes():
            g.path = os.path.join(folder, 'probe.graph')
            write_metis(g.path, g)
            cells = []
            for peer in peers:
                r = run_apart(peer, g, k, 0.03, 1, 1, a.timeout)
                text = r['status'][:90] if 'cut' not in r else f'cut {r["cut"]}' + (f' (says {r["claimed_cut"]})' if r['status'] != 'ok' else '') + (
                    f', imb {r["imbalance"]:.2f}' if r['imbalance'] > 0.031 else '') + (f', {r["empty"]} empty' if r['empty'] else '') + (
                    f', {r["wall_s"]:.1f} s' if r['wall_s'] > 2 else '')
                cells.append(text)
            print(f'| {name}, k={k} | {right} | ' + ' | '.join(cells) + ' |', flush=True)

def command_missing(a):
    """Names what is not here, so that nobody looks for its rows."""
    lacking = [f'lib{name} (Debian: lib{name}-dev): {peers}' for name, peers in (('metis', 'metis, metis-rb, metis-contig'), ('scotch', 'scotch, scotch-speed, scotch-quality'))
               if not ctypes.util.find_library(name)]
    lacking += [f'the Python package {name}: {peers}' for name, peers in (('pymetis', 'pymetis, pymetis-rb'), ('kahip', 'kahip-...'), ('kaminpar', 'kmp-...'), ('mtkahypar', 'mtk-...'))
                if not importlib.util.find_spec(name)]
    try:
        cleave_library()
    except RuntimeError as error:
        lacking.append(f'{error}: cleave-...')
    print('\n'.join('missing: ' + line for line in lacking) or f'all {len(PEERS)} peers can run here')

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    fast = 'cleave-fast,cleave-standard,metis,metis-rb,kmp-fast,kmp-default,kahip-fast'
    run = commands.add_parser('run'); run.set_defaults(do=command_run)
    run.add_argument('graphs', nargs='+'); run.add_argument('-k', required=True); run.add_argument('--peers', default=fast, help=', '.join(PEERS))
    run.add_argument('--seeds', default='1,2,3'); run.add_argument('--threads', type=int, default=1)
    run.add_argument('--eps', type=float, default=0.03); run.add_argument('--timeout', type=float, default=300); run.add_argument('--csv'); run.add_argument('--parts', help='a folder to keep the parts of each run in')
    one = commands.add_parser('eval'); one.set_defaults(do=command_eval)
    one.add_argument('what'); one.add_argument('part', nargs='?'); one.add_argument('-k')
    one.add_argument('--graphs', default='.'); one.add_argument('--parts', default='.')
    table = commands.add_parser('table'); table.set_defaults(do=command_table)
    table.add_argument('csv', nargs='+'); table.add_argument('--anchor', default='metis')
    best = commands.add_parser('best'); best.set_defaults(do=command_best)
    best.add_argument('csv', nargs='+'); best.add_argument('--of', default='cleave-standard'); best.add_argument('--peers', help='compare with these only')
    best.add_argument('--within', type=float, help='compare only with peers that take at most this multiple of its time'); best.add_argument('--clock', default='metis', help='compare the time with that of this peer')
    probe = commands.add_parser('probe'); probe.set_defaults(do=command_probe)
    probe.add_argument('--peers', default='cleave-fast,cleave-standard,cleave-quality,metis,metis-rb,kahip-fast,kmp-default,mtk-default,scotch'); probe.add_argument('--timeout', type=float, default=20)
    missing = commands.add_parser('missing'); missing.set_defaults(do=command_missing)
    a = parser.parse_args()
    a.do(a)

main()
