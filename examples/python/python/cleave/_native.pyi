# SPDX-License-Identifier: MIT
"""The extension module. The Python files beside it check and convert what users pass; its names may change."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int32] | npt.NDArray[np.int64]
_Weights = npt.NDArray[np.int64] | npt.NDArray[np.float64]
_Labels = npt.NDArray[np.int32]

def partition(
    indptr: _Ints, indices: _Ints, weights: _Weights | None, data: _Weights | None, k: int, options: dict[str, Any]
) -> dict[str, Any]: ...
def refine(
    indptr: _Ints,
    indices: _Ints,
    weights: _Weights | None,
    data: _Weights | None,
    labels: _Labels,
    k: int,
    options: dict[str, Any],
) -> dict[str, Any]: ...
def repartition(
    indptr: _Ints,
    indices: _Ints,
    weights: _Weights | None,
    data: _Weights | None,
    old: _Labels,
    old_k: int,
    k: int,
    cost_per_byte: float,
    bytes: npt.NDArray[np.uint64] | None,
    stays: npt.NDArray[np.uint8] | None,
    options: dict[str, Any],
) -> dict[str, Any]: ...
def verify(
    indptr: _Ints,
    indices: _Ints,
    weights: _Weights | None,
    data: _Weights | None,
    labels: _Labels,
    k: int,
    eps: float,
    shares: Sequence[float],
    connected: bool,
) -> dict[str, Any]: ...
def partition_hypergraph(
    nodes: int,
    indptr: _Ints,
    pins: _Ints,
    weights: _Weights | None,
    net_weights: _Weights | None,
    k: int,
    count_cut_nets: bool,
    options: dict[str, Any],
) -> dict[str, Any]: ...
def measure_hypergraph(
    nodes: int,
    indptr: _Ints,
    pins: _Ints,
    weights: _Weights | None,
    net_weights: _Weights | None,
    labels: _Labels,
    k: int,
) -> dict[str, Any]: ...
def read_graph(file: str, values: int, first_node: int) -> dict[str, Any]: ...
def read_hypergraph(file: str, is_patoh: bool) -> dict[str, Any]: ...
