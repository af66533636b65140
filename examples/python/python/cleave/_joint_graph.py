# SPDX-License-Identifier: MIT
"""Cuts a graph of forward and backward operations into its passes. Needs no framework."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._graph import flat, int_array
from ._numbers import most_bytes as most_number
from ._numbers import real, whole
from .errors import GraphError, OptionError

__all__ = ["JointCut", "cut_joint_graph"]

most_copies = 2**20


@dataclass(frozen=True)
class JointCut:
    """The passes of a joint graph. Lists of nodes ascend. Parameters stay on the rank and are in none."""

    forward: tuple[int, ...]
    """The operations that the forward pass runs."""
    backward: tuple[int, ...]
    """Those of the backward pass, with those that it runs again."""
    weight: tuple[int, ...]
    """Those of the weight pass; empty if there is none."""
    saved: tuple[int, ...]
    """The values that the forward pass leaves for the other passes."""
    kept: tuple[int, ...]
    """The values that stay, or are left, for the weight pass after the backward pass."""
    saved_bytes: int
    """The bytes of `saved`, for one microbatch."""
    kept_bytes: int
    """The bytes of `kept`, for one microbatch."""
    bytes: int
    """The bytes of all microbatches in flight."""
    again: tuple[int, ...]
    """The operations that run more than once."""
    cost: float
    """The cost of their additional runs."""
    bound: float
    """A lower bound on what was minimised: with `most_bytes` the cost, else the bytes plus the cost times
    `bytes_per_cost`."""
    least: bool
    """Whether nothing better exists."""

    def __str__(self) -> str:
        return (
            f"{self.bytes:,} bytes, {len(self.again)} operations again at a cost of {self.cost:g}"
            f"{', the least' if self.least else ''}"
        )


def cut_joint_graph(
    reads: Sequence[Iterable[int]],
    bytes: Any,
    *,
    inputs: Any = (),
    parameters: Any = (),
    gradients: Any = (),
    results: Any = (),
    input_gradients: Any = (),
    weight_gradients: Any = (),
    cost: Any = None,
    run_once: Any = (),
    unsavable: Any = (),
    names: Sequence[str] = (),
    most_bytes: int | None = None,
    bytes_per_cost: float = 0.0,
    in_flight: int = 1,
    weights_in_flight: int = 0,
    steps: int = 50_000_000,
    branches: int = 64,
    gap: float = 0.002,
) -> JointCut:
    """Chooses the values that a forward pass saves for its backward pass, and the operations that run again instead.

    Nodes have the numbers of their places in `reads`. Each makes one value. Lists of nodes are numbers, or an array of
    booleans with one entry for each node.

    Args:
        reads: for each node, the nodes before it whose values it reads.
        bytes: for each node, the size of its value.
        inputs: the nodes that are inputs of the forward pass.
        parameters: those that stay on the rank, so that they are saved for nothing.
        gradients: those that arrive for the backward pass. All other nodes are operations.
        results: the nodes that the forward pass returns.
        input_gradients: those that the backward pass returns.
        weight_gradients: those that the weight pass returns; without one, the backward pass.
        cost: for each node, what a run costs; None: 1 for each operation.
        run_once: operations that may run only once, such as random ones.
        unsavable: nodes whose values cannot be saved, such as the tuple of an operation with several results.
        names: for each node, a name for messages.
        most_bytes: limit of the bytes of all microbatches in flight; the least cost within it is sought.
        bytes_per_cost: without a limit, the bytes that a unit of cost must save.
        in_flight: microbatches between their forward and their backward pass.
        weights_in_flight: microbatches between their backward and their weight pass; 0: there is no weight pass.
        steps: limit of each minimum cut.
        branches: with `most_bytes`, parts of the search space that are solved one by one.
        gap: with `most_bytes`, the search ends once the cost is at most this share above its lower bound.

    Raises:
        GraphError: the lists are no joint graph, with `what` and `node`.
        InfeasibleError: the limit is too low, or a value can neither be saved nor be made again.
    """
    rows = [_numbers(row, f"reads of node #{n}") for n, row in enumerate(reads)]
    count = len(rows)
    source = np.zeros(count, np.uint8)
    for role, (name, given) in enumerate([("inputs", inputs), ("parameters", parameters), ("gradients", gradients)], 1):
        nodes = _nodes(given, name, count)
        if (source[nodes] != 0).any():
            node = int(nodes[np.flatnonzero(source[nodes] != 0)[0]])
            raise GraphError(
                f"{name} lists node #{node}, which is in another of inputs, parameters and gradients",
                what="two_sources",
                node=node,
            )
        source[nodes] = role
    graph = {
        "counts": np.fromiter(map(len, rows), np.int64, count),
        "reads": np.fromiter(chain.from_iterable(rows), np.int64),
        "source": source,
        "bytes": _sizes(bytes),
        "cost": None if cost is None else flat(cost, "cost").astype(np.float64),
        "run_once": _marks(run_once, "run_once", count),
        "unsavable": _marks(unsavable, "unsavable", count),
        "results": _nodes(results, "results", count),
        "input_gradients": _nodes(input_gradients, "input_gradients", count),
        "weight_gradients": _nodes(weight_gradients, "weight_gradients", count),
        "names": list(names),
    }
    options = {
        "most_bytes": None if most_bytes is None else whole(most_bytes, "most_bytes", 0, most_number),
        "bytes_per_cost": real(bytes_per_cost, "bytes_per_cost", 1e300),
        "in_flight": whole(in_flight, "in_flight", 1, most_copies),
        "weights_in_flight": whole(weights_in_flight, "weights_in_flight", 0, most_copies),
        "steps": whole(steps, "steps", 0, most_number),
        "branches": whole(branches, "branches", 0, most_number),
        "gap": real(gap, "gap", 1.0),
    }
    found = _native.cut_joint_graph(graph, options)
    members: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in found.items()}
    return JointCut(**members)


def _numbers(given: Iterable[int], name: str) -> list[int]:
    numbers: list[int] = int_array(given if hasattr(given, "__len__") else list(given), name).tolist()
    return numbers


def _sizes(given: Any) -> npt.NDArray[np.int64]:
    sizes = int_array(given, "bytes").astype(np.int64)
    wrong = np.flatnonzero(sizes < 0)
    if len(wrong):
        node = int(wrong[0])
        raise GraphError(f"the bytes of node #{node} are negative", what="bad_bytes", node=node)
    return sizes


def _nodes(given: Any, name: str, count: int) -> npt.NDArray[np.int64]:
    """Returns nodes from numbers or booleans."""
    array = flat(given, name)
    if array.dtype.kind == "b":
        if len(array) != count:
            raise OptionError(
                f"{name} has {len(array)} booleans for {count} nodes: give one for each, or the numbers of nodes",
                option=name,
                where=len(array),
            )
        return np.flatnonzero(array).astype(np.int64)
    nodes = int_array(array, name).astype(np.int64)
    wrong = nodes[(nodes < 0) | (nodes >= count)]
    if len(wrong):
        raise GraphError(
            f"{name} lists node #{wrong[0]}, but there are {count} nodes", what="no_such_node", node=int(wrong[0])
        )
    return nodes


def _marks(given: Any, name: str, count: int) -> npt.NDArray[np.uint8]:
    marks = np.zeros(count, np.uint8)
    marks[_nodes(given, name, count)] = 1
    return marks
