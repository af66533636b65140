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

class Order:
    name: str

def schedule_names() -> list[str]: ...
def make_schedule(name: str, ranks: int, microbatches: int, stages_per_rank: int | None) -> Order: ...
def schedule_from_csv(text: str, with_communication: bool, ranks: int) -> Order: ...
def schedule_csv(order: Order) -> str: ...
def lower_schedule(order: Order) -> Order: ...
def schedule_rows(order: Order) -> list[list[str]]: ...
def schedule_shape(order: Order) -> dict[str, Any]: ...
def verify_schedule(order: Order, most_kept: int) -> list[tuple[str, int, int, str]]: ...
def simulate_schedule(order: Order, costs: str, hop: float, noise: float, seed: int) -> dict[str, Any]: ...
def draw_schedule(order: Order, costs: str, hop: float, form: str) -> str: ...
def search_schedule(
    ranks: int,
    microbatches: int,
    costs: str,
    memory: list[int],
    resident: list[int],
    rank_of: list[int],
    stages: int,
    backward: str,
    effort: int,
    seed: int,
    two_copies: bool,
) -> tuple[Order, dict[str, Any]]: ...
def cut_for_schedule(
    ranks: int,
    microbatches: int,
    costs: str,
    stages_per_rank: list[int],
    memory: list[int],
    resident: list[int],
    backward: str,
    effort: int,
    seed: int,
) -> tuple[
    list[int], tuple[Order, dict[str, Any]], tuple[list[int], tuple[Order, dict[str, Any]]] | None, int
]: ...

def cut_joint_graph(graph: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]: ...

class Computation: ...

def computation(lists: dict[str, Any]) -> Computation: ...
def balance(graph: Computation, k: int, options: dict[str, Any]) -> dict[str, Any]: ...
def balance_ranks(graph: Computation, rank_of: list[int], ranks: int, options: dict[str, Any]) -> dict[str, Any]: ...
def measure_stages(graph: Computation, labels: list[int], k: int, options: dict[str, Any]) -> dict[str, Any]: ...
def capability_groups(
    graph: Computation,
    supported: list[bool],
    together: list[list[int]],
    projection: list[bool],
    least: int,
    connected: bool,
    merge_walk: bool,
) -> list[list[int]]: ...
def fill_buckets(graph: Computation, cap: int, first_cap: int | None) -> list[tuple[list[int], list[int], int]]: ...
def fill_optimal_buckets(
    graph: Computation, times: list[float], bandwidth: float, latency: float
) -> list[tuple[list[int], list[int], int]]: ...
