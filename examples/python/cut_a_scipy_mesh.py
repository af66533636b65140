#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cuts the mesh of a finite-element matrix into parts for 8 processes. Needs SciPy.

python cut_a_scipy_mesh.py [points] [parts]
"""

import sys

import numpy as np
import scipy.sparse
import scipy.spatial

import cleave


def matrix_of_mesh(points: int) -> scipy.sparse.csr_array:
    """Returns the pattern of a finite-element matrix: a row for each point of a triangulation of the unit square."""
    triangles = scipy.spatial.Delaunay(np.random.default_rng(1).random((points, 2))).simplices
    rows, columns = triangles[:, [0, 1, 2, 1, 2, 0]].ravel(), triangles[:, [1, 2, 0, 0, 1, 2]].ravel()
    matrix = scipy.sparse.coo_array((np.ones(len(rows), np.int32), (rows, columns)), shape=(points, points)).tocsr()
    matrix.data[:] = 1  # an edge of two triangles is listed twice
    return matrix


def main() -> None:
    points, k = [int(a) for a in sys.argv[1:]] + [20_000, 8][len(sys.argv) - 1 :]
    A = matrix_of_mesh(points)

    # [mesh]
    parts = cleave.partition(A, k, eps=0.03, seed=1)
    print(f"{k} parts: cut {parts.cut}, the largest {100 * parts.imbalance:.1f} % above its share")

    better = parts.refine(preset="quality")
    print("refined: cut", better.cut)

    report = better.verify()  # shares no code with the partitioner
    print("sound" if report else report.findings)
    # [mesh]

    # [permute]
    order = np.concatenate(better.members())  # the rows of part 0, then those of part 1, ...
    blocks = A[order][:, order]
    # [permute]
    ends = np.cumsum([len(m) for m in better.members()])
    inside = sum(blocks[a:b, a:b].nnz for a, b in zip([0, *ends[:-1]], ends))
    print(f"{100 * inside / A.nnz:.1f} % of the entries lie in the blocks on the diagonal")

    # [weights]
    work = A.sum(axis=1)  # entries of each row
    even = cleave.partition(A, k, weights=work)
    print("entries of each part:", even.part_weights.tolist())
    # [weights]


if __name__ == "__main__":
    main()
