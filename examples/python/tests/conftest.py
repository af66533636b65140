# SPDX-License-Identifier: MIT
"""What the tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cleave

here = Path(__file__).resolve().parent


def grid(rows: int, columns: int) -> tuple[Any, Any]:
    """Returns a grid of nodes as CSR arrays of int32."""
    number = np.arange(rows * columns).reshape(rows, columns)
    pairs = np.concatenate(
        [
            np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1),
            np.stack([number[:-1].ravel(), number[1:].ravel()], 1),
        ]
    )
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    indptr = np.zeros(rows * columns + 1, np.int32)
    np.cumsum(np.bincount(both[:, 0], minlength=rows * columns), out=indptr[1:])
    return indptr, both[:, 1].astype(np.int32)


def metis_file(path: Path, graph: cleave.Graph) -> Path:
    """Writes a graph with integer weights as a METIS file."""
    fmt = f"{int(graph.weights is not None)}{int(graph.data is not None)}"
    lines = [f"{graph.nodes} {graph.edges} {fmt}"]
    for n in range(graph.nodes):
        row = [] if graph.weights is None else [str(graph.weights[n])]
        for arc in range(graph.indptr[n], graph.indptr[n + 1]):
            row.append(str(graph.indices[arc] + 1))
            if graph.data is not None:
                row.append(str(graph.data[arc]))
        lines.append(" ".join(row))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def tool() -> str:
    """The command-line tool: that of the package, of CLEAVE_TOOL or of PATH."""
    from cleave.__main__ import tool as own

    for candidate in (os.environ.get("CLEAVE_TOOL"), str(own), shutil.which("cleave")):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    pytest.skip("no cleave tool: the package was built without it, and CLEAVE_TOOL is not set")
