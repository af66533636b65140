#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares cleave with Mt-KaHyPar on mappings of graphs to machines: the cost of communication (edge weights times
distances) and the CPU time of one thread.

    mapping.py FILE.graph ... [--machine 4:4:4] [--distances 1:10:100] [--presets fast,standard] [--csv OUT]

Costs are recomputed here from the parts. Parts may exceed their share by 3 %; an imbalance above that is marked.
Times are those of the partitioning call alone. CLEAVE_TOOL names the tool.
"""
import argparse, csv, math, os, re, subprocess, sys, time


def read_graph(path):
    lines = open(path).read().split('\n')
    head = lines[0].split()
    nodes, form = int(head[0]), head[2].zfill(3) if len(head) > 2 else '000'
    weights, edges, edge_weights = [1] * nodes, [], []
    for n in range(nodes):
        row = list(map(int, lines[n + 1].split()))
        if form[1] == '1':
            weights[n], row = row[0], row[1:]
        for i in range(0, len(row), 2 if form[2] == '1' else 1):
            if row[i] - 1 > n:
                edges.append((n, row[i] - 1))
                edge_weights.append(row[i + 1] if form[2] == '1' else 1)
    return nodes, weights, edges, edge_weights


def distance(a, b, sizes, lengths):
    group = 1
    for size, length in zip(sizes, lengths):
        group *= size
        if a // group == b // group:
            return 0 if a == b else length


def judge(graph, of, sizes, lengths):
    nodes, weights, edges, edge_weights = graph
    places = math.prod(sizes)
    table = [[distance(a, b, sizes, lengths) for b in range(places)] for a in range(places)]
    cost = sum(w * table[of[a]][of[b]] for (a, b), w in zip(edges, edge_weights))
    load = [0] * places
    for n, part in enumerate(of):
        load[part] += weights[n]
    return cost, max(load) / -(-sum(weights) // places) - 1


def by_cleave(tool, path, preset, machine, distances, parts_file):
    said = subprocess.run([tool, 'partition', path, '--machine', machine, '--distances', distances, '--preset', preset,
                           '--out', parts_file, '--overwrite'], check=True, capture_output=True, text=True).stdout
    seconds = float(re.search(r'CPU time ([0-9.e-]+)', said)[1])
    return [int(x) for x in open(parts_file).read().split()], seconds


def by_mtkahypar(graph, sizes, lengths):
    import mtkahypar
    nodes, weights, edges, edge_weights = graph
    places = math.prod(sizes)
    by_mtkahypar.started = getattr(by_mtkahypar, 'started', None) or mtkahypar.initialize(1)
    started = by_mtkahypar.started
    context = started.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.set_partitioning_parameters(places, 0.03, mtkahypar.Objective.KM1)  # map_onto_graph sets its own objective
    context.logging = False
    mtkahypar.set_seed(1)
    pairs = [(a, b) for a in range(places) for b in range(a + 1, places)]
    target = started.create_target_graph(context, places, len(pairs), pairs, [distance(a, b, sizes, lengths) for a, b in pairs])
    g = started.create_graph(context, nodes, len(edges), edges, weights, edge_weights)
    begin = time.process_time()
    p = g.map_onto_graph(target, context)
    seconds = time.process_time() - begin
    return [p.block_id(n) for n in range(nodes)], seconds


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('files', nargs='+')
    a.add_argument('--machine', default='4:4:4')
    a.add_argument('--distances', default='1:10:100')
    a.add_argument('--presets', default='fast,standard')
    a.add_argument('--csv')
    o = a.parse_args()
    tool = os.environ.get('CLEAVE_TOOL', 'build/ci/bin/cleave')
    sizes, lengths = ([int(x) for x in text.split(':')] for text in (o.machine, o.distances))
    presets = o.presets.split(',')
    rows, ratios = [], {p: ([], []) for p in presets}
    print('| graph | ' + ' | '.join('cleave-' + p for p in presets) + ' | mtk-default |')
    print('|---|' + '---|' * (len(presets) + 1))
    for path in o.files:
        graph, name = read_graph(path), os.path.basename(path).removesuffix('.graph')
        of, peer_seconds = by_mtkahypar(graph, sizes, lengths)
        peer_cost, excess = judge(graph, of, sizes, lengths)
        rows.append(('mtk-default', name, peer_cost, peer_seconds, excess))
        cells = []
        for preset in presets:
            of, seconds = by_cleave(tool, path, preset, o.machine, o.distances, '/tmp/mapping.parts')
            cost, own_excess = judge(graph, of, sizes, lengths)
            rows.append(('cleave-' + preset, name, cost, seconds, own_excess))
            cells.append(f'{cost / peer_cost:.3f} / {seconds / peer_seconds:.2f}' + (' (imbalanced)' if own_excess > .0301 else ''))
            ratios[preset][0].append(cost / peer_cost)
            ratios[preset][1].append(seconds / peer_seconds)
        print(f'| {name} | ' + ' | '.join(cells) + f' | {peer_cost}, {peer_seconds:.2f} s' + (' (imbalanced)' if excess > .0301 else '') + ' |', flush=True)
    mean = lambda list: math.exp(sum(map(math.log, list)) / len(list))
    print('| **mean** | ' + ' | '.join(f'{mean(ratios[p][0]):.3f} / {mean(ratios[p][1]):.2f}' for p in presets) + ' | 1.000 / 1.00 |')
    if o.csv:
        with open(o.csv, 'w', newline='') as f:
            csv.writer(f).writerows([('peer', 'graph', 'cost', 'cpu_s', 'imbalance'), *rows])


if __name__ == '__main__':
    sys.exit(main())
