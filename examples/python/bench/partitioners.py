#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures calls of cleave, pymetis, kaminpar and mtkahypar from Python, in one process, with conversion.

    python bench/partitioners.py [--repeats 3]

Prints the tables of docs/python.md. All start with one SciPy matrix and end with NumPy labels; one thread each.
The last table starts with NetworkX graphs.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import scipy.sparse

import cleave

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from compare_partitioners import compare, matrix_of
from cut_a_scipy_mesh import matrix_of_mesh


def with_ones(matrix: Any) -> Any:
    """Returns the pattern without the diagonal, with entries 1 and indices of 32 bits."""
    matrix = scipy.sparse.csr_array(matrix)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.data = np.ones(matrix.nnz, np.int64)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--repeats", type=int, default=3, help="runs of each, with different seeds (3)")
    repeats = words.parse_args().repeats
    network = networkx.barabasi_albert_graph(20_000, 5, seed=1)
    graphs = {
        "mesh, 20,000": with_ones(matrix_of_mesh(20_000)),
        "mesh, 200,000": with_ones(matrix_of_mesh(200_000)),
        "network, 20,000": matrix_of(cleave.as_graph(network)),
    }
    cells: dict[str, list[str]] = {}
    missing: list[str] = []
    for name, A in graphs.items():
        for k in (8, 64):
            rows, missing = compare(A, k, repeats=repeats)
            for row in rows:
                over = " (!)" if row.imbalance > 0.03 + 1e-9 else ""
                cells.setdefault(row.name, []).append(f"{row.cut:,.0f}{over} / {1000 * row.seconds:,.0f}")
    print("| cut / ms | " + " | ".join(f"{name}, k = {k}" for name in graphs for k in (8, 64)) + " |")
    print("|---" * (1 + 2 * len(graphs)) + "|")
    for name, row_cells in cells.items():
        print(f"| {name} | " + " | ".join(row_cells) + " |")
    for package in missing:
        print(f"skipped: {package} is not installed")

    print("\n| NetworkX graph | ms to convert | ms in all, k = 8 |\n|---|---|---|")
    named = {
        "grid_2d_graph(141, 141), named by pairs": networkx.grid_2d_graph(141, 141),
        "random_geometric_graph(20,000, 0.013)": networkx.random_geometric_graph(20_000, 0.013, seed=1),
        "barabasi_albert_graph(20,000, 5)": network,
    }
    for name, G in named.items():
        best = [float("inf")] * 2
        for _ in range(repeats):
            begin = time.perf_counter()
            cleave.as_graph(G)
            best[0] = min(best[0], time.perf_counter() - begin)
            begin = time.perf_counter()
            cleave.partition(G, 8)
            best[1] = min(best[1], time.perf_counter() - begin)
        print(f"| {name} | {1000 * best[0]:.0f} | {1000 * best[1]:.0f} |")


if __name__ == "__main__":
    main()
