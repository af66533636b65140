#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares cleave with the partitioners of PyPI that are installed: pymetis, kaminpar and mtkahypar.

    python compare_partitioners.py [GRAPH] [-k 8] [--eps 0.03] [--repeats 3]

Each starts with the same SciPy matrix and ends with a NumPy array of labels; what it takes to convert the one into its
own graph counts. All use one thread. Cuts and imbalances are counted by `cleave.verify`, which shares no code with the
partitioner.
"""

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import cleave

Labels = Any


def with_cleave(preset: Any) -> Callable[[Any, int, float, int], Labels]:
    return lambda A, k, eps, seed: cleave.partition(A, k, eps=eps, preset=preset, seed=seed).labels


def with_pymetis(A: Any, k: int, eps: float, seed: int) -> Labels:
    import pymetis

    options = pymetis.Options(ufactor=round(1000 * eps), seed=seed)
    _, labels = pymetis.part_graph(k, pymetis.CSRAdjacency(A.indptr, A.indices), options=options)
    return np.asarray(labels)


def with_kaminpar(context: str) -> Callable[[Any, int, float, int], Labels]:
    def cut(A: Any, k: int, eps: float, seed: int) -> Labels:
        import kaminpar

        kaminpar.reseed(seed)
        with tempfile.TemporaryDirectory() as folder:  # its Python package takes graphs from files only
            file = os.path.join(folder, "graph.parhip")
            places = A.indptr.astype(np.uint64) * 8 + 8 * (3 + len(A.indptr))
            with open(file, "wb") as out:
                for part in (np.array([3, A.shape[0], A.nnz], np.uint64), places, A.indices.astype(np.uint64)):
                    out.write(part.tobytes())
            graph = kaminpar.load_graph(file, kaminpar.GraphFileFormat.PARHIP)
        return np.asarray(kaminpar.KaMinPar(1, kaminpar.context_by_name(context)).compute_partition(graph, k, eps))

    return cut


started: dict[str, Any] = {}


def with_mtkahypar(preset: str) -> Callable[[Any, int, float, int], Labels]:
    def cut(A: Any, k: int, eps: float, seed: int) -> Labels:
        import mtkahypar

        if "mtk" not in started:  # once in a process
            started["mtk"] = mtkahypar.initialize(1, False)
        mtk = started["mtk"]
        mtkahypar.set_seed(seed)
        context = mtk.context_from_preset(getattr(mtkahypar.PresetType, preset))
        context.set_partitioning_parameters(k, eps, mtkahypar.Objective.CUT)
        context.logging = False
        half = scipy.sparse.triu(A, 1, format="coo")
        edges = list(zip(half.row.tolist(), half.col.tolist()))
        graph = mtk.create_graph(context, A.shape[0], len(edges), edges)
        cut = graph.partition(context)
        return np.asarray(cut.get_partition())

    return cut


partitioners: dict[str, tuple[str, Callable[[Any, int, float, int], Labels]]] = {
    "cleave fast": ("cleave", with_cleave("fast")),
    "cleave standard": ("cleave", with_cleave("standard")),
    "cleave quality": ("cleave", with_cleave("quality")),
    "pymetis": ("pymetis", with_pymetis),
    "kaminpar default": ("kaminpar", with_kaminpar("default")),
    "kaminpar strong": ("kaminpar", with_kaminpar("strong")),
    "mtkahypar default": ("mtkahypar", with_mtkahypar("DEFAULT")),
    "mtkahypar quality": ("mtkahypar", with_mtkahypar("QUALITY")),
}


class Row(NamedTuple):
    """What a partitioner made of a graph."""

    name: str
    cut: float
    imbalance: float
    seconds: float


def compare(A: Any, k: int, eps: float = 0.03, repeats: int = 3) -> tuple[list[Row], list[str]]:
    """Returns a row for each partitioner, with the least time of all repeats and the mean cut, and what is missing."""
    rows, missing = [], []
    for name, (package, cut) in partitioners.items():
        if importlib.util.find_spec(package) is None:
            if package not in missing:
                missing.append(package)
            continue
        times, cuts, worst = [], [], 0.0
        for repeat in range(repeats):
            begin = time.perf_counter()
            labels = cut(A, k, eps, repeat + 1)
            times.append(time.perf_counter() - begin)
            report = cleave.verify(A, labels, k, eps=eps, values="ignored")
            cuts.append(report.cut)
            worst = max(worst, report.imbalance)
        rows.append(Row(name, float(np.mean(cuts)), worst, min(times)))
    return rows, missing


def matrix_of(graph: cleave.Graph) -> Any:
    """Returns the pattern of a graph as a SciPy matrix whose entries are 1."""
    ones = np.ones(len(graph.indices), np.int64)
    return scipy.sparse.csr_array((ones, graph.indices, graph.indptr), shape=(graph.nodes, graph.nodes))


def grid(side: int) -> Any:
    """Returns the matrix of a square grid."""
    line = scipy.sparse.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1], shape=(side, side))
    one = scipy.sparse.eye_array(side)
    matrix = (scipy.sparse.kron(line, one) + scipy.sparse.kron(one, line)).tocsr().astype(np.int64)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("graph", nargs="?", help="a file that cleave reads; without it, a grid of 100 x 100 nodes")
    words.add_argument("-k", type=int, default=8, help="number of parts (8)")
    words.add_argument("--eps", type=float, default=0.03, help="how far a part may exceed its share (0.03)")
    words.add_argument("--repeats", type=int, default=3, help="runs of each, with different seeds (3)")
    given = words.parse_args()
    A = matrix_of(cleave.read_graph(given.graph)) if given.graph else grid(100)
    rows, missing = compare(A, given.k, given.eps, given.repeats)
    print(f"{A.shape[0]:,} nodes, {A.nnz // 2:,} edges, {given.k} parts")
    for row in rows:
        excess = "" if row.imbalance <= given.eps + 1e-9 else "  above --eps"
        print(
            f"{row.name:18} cut {row.cut:10,.0f}  imbalance {100 * row.imbalance:5.2f} %  "
            f"{1000 * row.seconds:8.1f} ms{excess}"
        )
    for package in missing:
        print(f"skipped: {package} is not installed (pip install {package})")


if __name__ == "__main__":
    main()
