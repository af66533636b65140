#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares cleave with Mt-KaHyPar on hypergraphs: the connectivity (lambda - 1) and the CPU time of one thread.

    hypergraphs.py DIR [FILE.hgr|NAME ...] [-k 2,8,32] [--presets fast,standard] [--peers default,quality,deterministic]
                   [--csv OUT] [--parts PARTS]
    hypergraphs.py DIR --eval CSV --parts PARTS

A NAME is made in DIR: nets:NODES:NETS:SEED (random), netlist:NODES:NETS:SEED, rows:INSTANCE (the rows of a matrix as
nets) or values:INSTANCE (the values of a computation and their readers as nets); `cleave instances` lists each INSTANCE.
Without files and names, it takes a list of its own. Each result is recomputed here from the parts, which --parts keeps in a
folder. --eval recomputes the rows of a table from kept parts and from the hypergraphs in DIR. Times are those of the
partitioning call alone. CLEAVE_TOOL names the tool.
"""
import argparse, csv, lzma, math, os, random, re, subprocess, sys, time


COLUMNS = ['peer', 'graph', 'n', 'm', 'k', 'eps', 'seed', 'threads', 'wall_s', 'cpu_s', 'cut', 'imbalance', 'status', 'metric']


def in_columns(row):
    """A row as `cleave report` reads it; m is the number of nets, and wall seconds are not measured."""
    name, hypergraph, nodes, nets, k, cost, imbalance, seconds = row
    return [name, hypergraph, nodes, nets, k, 0.03, 1, 1, '', seconds, cost, imbalance, 'ok', 'connectivity']


def write(path, nodes, nets):
    nets = [e for e in (sorted(set(e)) for e in nets) if len(e) > 1]
    with open(path, 'w') as f:
        f.write(f'{len(nets)} {nodes}\n')
        f.writelines(' '.join(str(n + 1) for n in e) + '\n' for e in nets)


def random_nets(nodes, nets, seed):
    r = random.Random(seed)
    return [[r.randrange(nodes) for _ in range(r.choice((2, 3, 3, 4, 5)))] for _ in range(nets)]


def netlist(nodes, nets, seed):
    """Short nets among near nodes, fewer over long distances, and four nets with a twentieth of all nodes (clocks)."""
    r = random.Random(seed)
    made = []
    for _ in range(nets):
        size = 2 if r.random() < .55 else 3 if r.random() < .5 else min(40, 3 + int(r.expovariate(.25)))
        at, span = r.randrange(nodes), max(4, int(2 ** (r.random() ** 2 * 13)))
        made.append([at] + [(at + r.randrange(-span, span + 1)) % nodes for _ in range(size - 1)])
    return made + [[r.randrange(nodes) for _ in range(nodes // 20)] for _ in range(4)]


def rows_of_graph(path):
    lines = open(path).read().split('\n')
    nodes = int(lines[0].split()[0])
    return nodes, [[i] + [int(x) - 1 for x in lines[i + 1].split()] for i in range(nodes)]


def values_of_dag(path):
    lines = open(path).read().split('\n')
    nodes, arcs = map(int, lines[0].split())
    nets = [[n] for n in range(nodes)]
    for line in lines[nodes + 1:nodes + 1 + arcs]:
        producer, consumer = line.split()[:2]
        nets[int(producer)].append(int(consumer))
    return nodes, nets


OWN = {'random': 'nets:10000:15000:1', 'netlist_12k': 'netlist:12000:13000:2', 'netlist_40k': 'netlist:40000:44000:3',
       **{'rows_' + name: 'rows:' + name for name in ('fem2d_10k', 'rhyp_14', 'grid3d_27k', 'ba_14')},
       **{'values_' + name: 'values:' + name for name in ('tfm_L64_H16', 'layered_10k', 'moe_32x64', 'inception_3k')}}


def made(tool, folder, name, file=None):
    """Writes the hypergraph of a name into the folder; returns its path."""
    os.makedirs(folder, exist_ok=True)
    path = f'{folder}/{file or name.replace(":", "_")}.hgr'
    kind, _, rest = name.partition(':')
    if kind in ('nets', 'netlist'):
        if not re.fullmatch(r'[1-9]\d*:\d+:\d+', rest):
            sys.exit(f'{name}: expected {kind}:NODES:NETS:SEED, such as {kind}:10000:12000:1')
        nodes, count, seed = map(int, rest.split(':'))
        nets = (random_nets if kind == 'nets' else netlist)(nodes, count, seed)
    elif kind in ('rows', 'values'):
        done = subprocess.run([tool, 'instances', folder, rest], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr.strip())
        source = f'{folder}/{rest.replace(":", "_")}.' + ('graph' if kind == 'rows' else 'dag')
        if not os.path.exists(source):
            sys.exit(f'{name}: {source} was not made; rows are of a .graph, values of a .dag')
        nodes, nets = (rows_of_graph if kind == 'rows' else values_of_dag)(source)
    else:
        sys.exit(f'{name}: neither a file nor nets:…, netlist:…, rows:… or values:…')
    write(path, nodes, nets)
    return path


def read_nets(path):
    rows = [line.split() for line in open(path) if line.strip() and not line.startswith('%')]
    if len(rows[0]) > 2:
        sys.exit(f'{path}: weights are not compared here; give a file without fmt')
    return int(rows[0][1]), [[int(x) - 1 for x in row] for row in rows[1:int(rows[0][0]) + 1]]


def judged(nets, nodes, parts, k):
    """The connectivity and the imbalance of parts, counted here."""
    sizes = [0] * k
    for p in parts:
        sizes[p] += 1
    return sum(len({parts[n] for n in e}) - 1 for e in nets), max(sizes) / math.ceil(nodes / k) - 1


def run_cleave(tool, path, k, preset):
    parts = path + '.parts'
    done = subprocess.run([tool, 'partition', path, '-k', str(k), '--preset', preset, '--out', parts, '--overwrite'],
                          check=True, capture_output=True, text=True)
    seconds = float(re.search(r'CPU time ([0-9.e-]+)', done.stdout).group(1))
    result = [int(x) for x in open(parts)]
    os.remove(parts)
    return result, seconds


def run_mtkahypar(path, k, preset):
    program = f'''
import mtkahypar, time
mtk = mtkahypar.initialize(1)
context = mtk.context_from_preset(mtkahypar.PresetType.{preset.upper()})
context.set_partitioning_parameters({k}, 0.03, mtkahypar.Objective.KM1)
context.logging = False
mtkahypar.set_seed(1)
h = mtk.hypergraph_from_file({path!r}, context, mtkahypar.FileFormat.HMETIS)
t = time.process_time()
p = h.partition(context)
print("seconds", time.process_time() - t)
print("parts", *p.get_partition())
'''
    done = subprocess.run([sys.executable, '-c', program], check=True, capture_output=True, text=True)
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.split()}
    return [int(x) for x in lines['parts']], float(lines['seconds'][0])


def part_file(folder, peer, graph, k):
    return f'{folder}/{graph}.{peer}.k{k}.eps0.03.seed1.threads1.part'


def evaluate(a):
    """Recomputes each row of a table; returns the number of rows that are not as recorded."""
    wrong = 0
    if not os.path.exists(a.eval):
        sys.exit(f'{a.eval}: there is no such file; --csv writes one')
    for row in csv.DictReader(open(a.eval)):
        name = f'{row["peer"]}, {row["graph"]}, k = {row["k"]}'
        graph, parts = f'{a.folder}/{row["graph"]}.hgr', part_file(a.parts, row['peer'], row['graph'], row['k'])
        if not os.path.exists(graph):
            sys.exit(f'{graph} is missing; make it first, by its name')
        found = next((f for f in (parts, parts + '.xz') if os.path.exists(f)), None)
        if found is None:
            sys.exit(f'{parts} is missing; it is kept with --parts')
        nodes, nets = read_nets(graph)
        with (lzma.open if found.endswith('.xz') else open)(found, 'rt') as f:
            cost, imbalance = judged(nets, nodes, list(map(int, f)), int(row['k']))
        if cost != int(row['cut']) or abs(imbalance - float(row['imbalance'])) > 1e-4:
            print(f'{name}: recorded {row["cut"]} and {row["imbalance"]}, found {cost} and {imbalance:.4f}')
            wrong += 1
        else:
            print(f'{name}: {cost}, as recorded')
    return wrong


def mean(values):
    return math.exp(sum(math.log(max(v, 1e-9)) for v in values) / len(values))


def main():
    a = argparse.ArgumentParser()
    a.add_argument('folder')
    a.add_argument('files', nargs='*', metavar='FILE.hgr|NAME')
    a.add_argument('-k', default='2,8,32')
    a.add_argument('--presets', default='fast,standard,quality')
    a.add_argument('--peers', default='default,quality,deterministic')
    a.add_argument('--csv')
    a.add_argument('--parts')
    a.add_argument('--eval', metavar='CSV')
    a = a.parse_args()
    if a.eval:
        if not a.parts:
            sys.exit('--eval needs --parts, the folder with the kept parts')
        sys.exit(1 if evaluate(a) else 0)
    if a.parts:
        os.makedirs(a.parts, exist_ok=True)
    tool = os.environ.get('CLEAVE_TOOL') or sys.exit('CLEAVE_TOOL names no tool; use ./dev bench peers hypergraphs')
    try:
        import mtkahypar  # noqa: F401
        peers = a.peers.split(',')
    except ImportError:
        print('mtkahypar is not installed; it is left out', file=sys.stderr)
        peers = []
    runs = [('cleave-' + p, lambda f, k, p=p: run_cleave(tool, f, k, p)) for p in a.presets.split(',')]
    runs += [('mtk-' + p, lambda f, k, p=p: run_mtkahypar(f, k, p)) for p in peers]
    rows = []
    given = [f if os.path.exists(f) else made(tool, a.folder, f) for f in a.files]
    for path in given or [made(tool, a.folder, name, file) for file, name in sorted(OWN.items())]:
        nodes, nets = read_nets(path)
        for k in map(int, a.k.split(',')):
            for name, run in runs:
                parts, seconds = run(path, k)
                cost, imbalance = judged(nets, nodes, parts, k)
                rows.append([name, os.path.basename(path)[:-4], nodes, len(nets), k, cost, round(imbalance, 4), round(seconds, 4)])
                print(*rows[-1], sep=',', flush=True)
                if a.parts:
                    with open(part_file(a.parts, name, rows[-1][1], k), 'w') as f:
                        f.writelines(f'{p}\n' for p in parts)
    if a.csv:
        with open(a.csv, 'w', newline='') as f:
            csv.writer(f, lineterminator='\n').writerows([COLUMNS] + [in_columns(r) for r in rows])
    if 'mtk-default' not in [name for name, _ in runs]:
        return
    of = {(r[0], r[1], r[4]): r for r in rows}
    names, problems = [name for name, _ in runs], sorted({(r[1], r[4]) for r in rows})
    print('\n| hypergraph | k | ' + ' | '.join(names) + ' |\n|---|' + '---|' * (len(names) + 1))
    for h, k in problems:
        base = of['mtk-default', h, k]
        cells = [f'{base[5]}, {base[7]:.3g} s' if n == 'mtk-default' else
                 f'{of[n, h, k][5] / max(base[5], 1):.3f} / {of[n, h, k][7] / base[7]:.2f}' for n in names]
        print(f'| {h} | {k} | ' + ' | '.join(cells) + ' |')
    print('| **mean** | | ' + ' | '.join(
        f'{mean([of[n, h, k][5] / max(of["mtk-default", h, k][5], 1) for h, k in problems]):.3f} / '
        f'{mean([of[n, h, k][7] / of["mtk-default", h, k][7] for h, k in problems]):.2f}' for n in names) + ' |')


main()
