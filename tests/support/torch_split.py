#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times torch.fx's split_module on the graphs of bench/split.cpp, one thread: lines "KIND NODES SECONDS".

    python3 torch_split.py [NODES...]        by default 1000 3000 10000 30000
"""
import sys
import time

import torch
from torch.fx import Graph, GraphModule
from torch.fx.passes.split_module import split_module

MASK = 2**64 - 1


def splitmix(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def opaque(*args):
    return args[0]


def chain(n):
    return [[i - 1] if i else [] for i in range(n)]


def random_dag(n):
    random = splitmix(1)
    reads = []
    for i in range(n):
        count = 1 + next(random) % 3
        reads.append([i - 1 - next(random) % min(i, 50) for _ in range(count)] if i else [])
    return reads


def seconds(reads, parts=8):
    graph = Graph()
    x = graph.placeholder("x")
    nodes, part = [], {}
    for i, operands in enumerate(reads):
        node = graph.call_function(opaque, tuple(nodes[j] for j in operands) or (x,))
        nodes.append(node)
        part[node] = i * parts // len(reads)
    graph.output(nodes[-1])
    module = GraphModule(torch.nn.Module(), graph)
    begin = time.process_time()
    split_module(module, torch.nn.Module(), lambda n: part[n])
    return time.process_time() - begin


if __name__ == "__main__":
    sys.setrecursionlimit(100_000)
    torch.set_num_threads(1)
    for size in [int(a) for a in sys.argv[1:]] or [1_000, 3_000, 10_000, 30_000]:
        for kind, make in (("chain", chain), ("random DAG", random_dag)):
            print(f"{kind.replace(' ', '_')} {size} {seconds(make(size)):.4f}", flush=True)
