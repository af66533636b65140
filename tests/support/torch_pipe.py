#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times torch.fx's split_module, the first step of torch's Pipe, on the programs of bench/pipe.cpp, one thread.

    python3 torch_pipe.py [NODES...]         by default 3000 6000 12500
"""
import sys
import time

import torch
from torch.fx import Graph, GraphModule
from torch.fx.passes.split_module import split_module


def opaque(*args):
    return args[0]


def seconds(nodes, stages=16):
    root, graph = torch.nn.Module(), Graph()
    root.blocks = torch.nn.Module()
    for b in range(nodes // 10):
        block = torch.nn.Module()
        block.weight = torch.nn.Parameter(torch.zeros(1))
        root.blocks.add_module(str(b), block)
    weights = [graph.get_attr(f"blocks.{b}.weight") for b in range(nodes // 10)]
    last = graph.placeholder("x")
    given, part = [last], {}
    for n in range(nodes):
        reads = [last]
        if n % 10 == 0:
            reads.append(weights[n // 10])
        if n % 50 == 49:
            reads.append(given[len(given) // 2])
        last = graph.call_function(opaque, tuple(reads))
        part[last] = n * stages // nodes
        if n % 10 == 9:
            given.append(last)
    graph.output(last)
    module = GraphModule(root, graph)
    begin = time.process_time()
    split_module(module, root, lambda n: part[n])
    return time.process_time() - begin


if __name__ == "__main__":
    sys.setrecursionlimit(100_000)
    torch.set_num_threads(1)
    for size in map(int, sys.argv[1:] or ["3000", "6000", "12500"]):
        print(f"torch.fx {torch.__version__}, split_module alone: {size} operations in {seconds(size):.2f} s", flush=True)
