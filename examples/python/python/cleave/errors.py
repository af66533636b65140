# SPDX-License-Identifier: MIT
"""The exceptions of the package. All derive from `Error`, which is a `ValueError`.

The message says what is wrong, where, and what to do. The place is also there as data: as attributes, and together in
the dictionary `witness`.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "Error",
    "FileError",
    "GraphError",
    "HypergraphError",
    "InfeasibleError",
    "OptionError",
    "ScheduleError",
    "SplitError",
]


class Error(ValueError):
    """The base of all errors about invalid data. `witness` has the place of the fault, by name."""

    witness: dict[str, Any]

    def __init__(self, message: str, **witness: Any) -> None:
        super().__init__(message)
        self.witness = witness
        for name, value in witness.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:  # processes of multiprocessing send errors to each other
        return _restored, (type(self), str(self), self.witness)


def _restored(kind: type[Error], message: str, witness: dict[str, Any]) -> Error:
    return kind(message, **witness)


class GraphError(Error):
    """The arrays are not an undirected graph, or the lists not a joint graph."""

    what: str
    """The broken rule, such as `one_sided_edge`, `no_such_node`, `bad_edge_weight` or `late_read`."""
    node: int
    """The node at which it is broken."""
    arc: int
    """The index in `indices` and `data`, if the fault is that of an edge."""


class HypergraphError(Error):
    """The arrays are not a hypergraph."""

    what: str
    """The broken rule, such as `no_such_node` or `bad_net_weight`."""
    net: int
    pin: int
    """The index in the list of pins."""
    node: int


class OptionError(Error):
    """An argument does not fit the graph or the number of parts."""

    option: str
    """The name of the argument."""
    where: int
    """The part or node at which it is wrong, or the number of its entries."""


class FileError(Error):
    """A file cannot be read, or is not in its format."""

    line: int
    """From 1. Not set if the file could not be read at all."""
    column: int
    """From 1, in bytes. Not set if the file could not be read at all."""


class InfeasibleError(Error):
    """A valid request that cannot be met. The message names the bound."""


class ScheduleError(Error):
    """No schedule has this name or these counts, a text is none, or its ranks wait for each other. The attributes are
    those that apply."""

    nearest: list[str]
    """Names that resemble an unknown one."""
    got: int
    needed: int
    """The count that the schedule requires, in place of `got`."""
    rank: int
    """The row of a text that is no schedule, and the cell in it."""
    position: int
    ranks: list[int]
    """The ranks that wait for each other."""


class SplitError(Error):
    """A model that cannot be cut, or not as asked."""

    node: str
    """The node of the graph at which the fault is, if it is at one."""
    module: str
    """The module that the node belongs to, such as `model.layers.3`."""
