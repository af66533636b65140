#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows what the package can do with graphs and hypergraphs. Needs NumPy alone; NetworkX if it is there."""

import importlib.util

import numpy as np

import cleave


def grid(rows: int, columns: int) -> cleave.Graph:
    """Returns a grid of nodes as CSR arrays, made as in any program that has its neighbours."""
    indptr, indices = [0], []
    for r in range(rows):
        for c in range(columns):
            near = [(r - 1, c), (r, c - 1), (r, c + 1), (r + 1, c)]
            indices += [i * columns + j for i, j in near if 0 <= i < rows and 0 <= j < columns]
            indptr.append(len(indices))
    return cleave.as_graph((np.array(indptr, np.int32), np.array(indices, np.int32)))


def networks() -> None:
    """Cuts a graph of NetworkX."""
    # [networkx]
    import networkx

    G = networkx.karate_club_graph()  # its edges have the attribute "weight"
    parts = cleave.partition(G, 2, eps=0.0)
    print(parts)
    print("node 0 is in part", parts.by_name()[0])
    # [networkx]


def arrays() -> None:
    """Cuts CSR arrays."""
    graph = grid(40, 60)
    # [arrays]
    indptr, indices = graph.indptr, graph.indices  # as SciPy's; METIS calls them xadj and adjncy
    parts = cleave.partition((indptr, indices), 6, preset="fast")
    print(parts.labels[:5], parts.part_weights)
    # [arrays]


def weights() -> None:
    """Balances two weights of the nodes, and fixes some."""
    graph = grid(40, 60)
    # [weights]
    rng = np.random.default_rng(1)
    work, memory = rng.integers(1, 9, 2400), rng.integers(1, 9, 2400)
    fixed = np.full(2400, -1)
    fixed[0] = 3  # node 0 is in part 3
    parts = cleave.partition(graph, 4, weights=np.stack([work, memory], axis=1), eps=(0.03, 0.05), fixed=fixed)
    balance = (100 * parts.imbalance, 100 * parts.further[0].imbalance)
    print("work {:.1f} %, memory {:.1f} %,".format(*balance), "node 0 in part", parts.labels[0])
    # [weights]


def changes() -> None:
    """Cuts a graph again after its weights have changed."""
    graph = grid(40, 60)
    # [changes]
    old = cleave.partition(graph, 4)
    grown = np.ones(2400, int)
    grown[:600] = 2
    new = cleave.repartition(graph, old, weights=grown, cost_per_byte=0.1)
    print(f"{new.moved_nodes} nodes move, cut {old.cut} -> {new.cut}")
    # [changes]


def hypergraphs() -> None:
    """Cuts a hypergraph."""
    # [hypergraph]
    nets = [[0, 1, 2], [2, 3], [3, 4, 5], [5, 0]]
    parts = cleave.partition_hypergraph(nets, 2)
    print(parts.connectivity, "parts too many, in", parts.cut_nets, "nets:", parts.labels)
    # [hypergraph]


def passes() -> None:
    """Chooses what a forward pass saves for its backward pass."""
    # [passes]
    names = ["x", "w", "h", "y", "dy", "dh", "dw", "dx"]  # h = x w, y = gelu(h), and the gradients
    reads = [[], [], [0, 1], [2], [], [4, 2], [5, 0], [5, 1]]
    size = [8, 4, 32, 32, 32, 32, 4, 8]
    for price in (0, 100):  # the bytes that a unit of cost must save; each operation costs 1
        cut = cleave.cut_joint_graph(
            reads,
            size,
            inputs=[0],
            parameters=[1],
            gradients=[4],
            results=[3],
            weight_gradients=[6],
            input_gradients=[7],
            bytes_per_cost=price,
        )
        print("saved:", *(names[n] for n in cut.saved), "- run again:", *(names[n] for n in cut.again))
    # [passes]


def errors() -> None:
    """Shows what an error carries."""
    # [errors]
    try:
        cleave.partition((np.array([0, 1, 1]), np.array([1])), 2)  # the edge 0-1 is missing at node 1
    except cleave.GraphError as e:
        print(e)
        print(e.what, e.node, e.arc)
    # [errors]


def progress() -> None:
    """Follows a long call, and ends it."""
    graph = grid(40, 60)

    # [progress]
    def follow(step: str, nodes: int, gained: int) -> None:
        print(f"{step:10} {nodes:6} nodes, the cut fell by {gained}")
        if step == "first_cut":
            raise TimeoutError("the first cut will do")

    try:
        cleave.partition(graph, 8, progress=follow)
    except TimeoutError as e:
        print(e)
    # [progress]


if __name__ == "__main__":
    arrays()
    weights()
    changes()
    hypergraphs()
    passes()
    errors()
    progress()
    if importlib.util.find_spec("networkx"):
        networks()
    else:
        print("skipped: networkx is not installed")
