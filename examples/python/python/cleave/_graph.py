# SPDX-License-Identifier: MIT
"""Turns what users have into CSR arrays, without a copy where the types allow it."""

from __future__ import annotations

import operator
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from . import _native
from .errors import GraphError, HypergraphError, OptionError

Ints: TypeAlias = "npt.NDArray[np.int32] | npt.NDArray[np.int64]"
Weights: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64]"
Values: TypeAlias = Literal["weights", "ignored"]

if TYPE_CHECKING:

    class SupportsTocsr(Protocol):
        """A sparse matrix or array of SciPy, in any of its formats."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        def tocsr(self) -> Any: ...

    class SupportsAdjacency(Protocol):
        """An undirected graph of NetworkX."""

        @property
        def adj(self) -> Any: ...
        def is_directed(self) -> bool: ...


GraphLike: TypeAlias = Union[
    "Graph",
    str,
    "os.PathLike[str]",
    "SupportsTocsr",
    "SupportsAdjacency",
    "npt.NDArray[Any]",
    "tuple[Any, Any]",
    "tuple[Any, Any, Any]",
]
HypergraphLike: TypeAlias = Union["Hypergraph", str, "os.PathLike[str]", "SupportsTocsr", "Sequence[Iterable[int]]"]

formats_of_hypergraphs = (".hgr", ".u", ".patoh")
formats_of_operations = (".dag", ".json")
nodes_in_no_net = 2**20  # more are taken for a mistake, before memory is allocated for them


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph in CSR arrays, ready for any number of calls.

    `as_graph` and `read_graph` make one. Each edge is listed at both of its ends with the same weight.
    """

    indptr: Ints
    """Where the neighbours of node n begin in `indices`; shape (nodes + 1,)."""
    indices: Ints
    """The neighbours of all nodes, one node after the other; shape (2 x edges,)."""
    data: Weights | None = None
    """The weight of each entry of `indices`; None: all edges weigh 1."""
    weights: Weights | None = None
    """The weight of each node, shape (nodes,); None: all nodes weigh 1."""
    further: tuple[npt.NDArray[np.float64], ...] = ()
    """More weights of the nodes, each of shape (nodes,), that parts balance too."""
    names: list[Hashable] | None = field(default=None, repr=False)
    """The names of the nodes, in the order of their numbers; None: the numbers are the names."""

    def __post_init__(self) -> None:
        first, to = same_integers(int_array(self.indptr, "indptr"), int_array(self.indices, "indices"))
        object.__setattr__(self, "indptr", first)
        object.__setattr__(self, "indices", to)
        for name in ("data", "weights"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, weight_array(getattr(self, name), name))

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return max(len(self.indptr) - 1, 0)

    @property
    def edges(self) -> int:
        """The number of edges, where an edge from a node to itself counts half."""
        return len(self.indices) // 2

    def __repr__(self) -> str:
        return f"<Graph: {self.nodes:,} nodes, {self.edges:,} edges>"


@dataclass(frozen=True, eq=False)
class Hypergraph:
    """A hypergraph in CSR arrays: nets that each join any number of nodes, their pins."""

    nodes: int
    """The number of nodes."""
    indptr: Ints
    """Where the pins of net e begin in `pins`; shape (nets + 1,)."""
    pins: Ints
    """The nodes of all nets, one net after the other."""
    weights: Weights | None = None
    """The weight of each node, shape (nodes,); None: all nodes weigh 1."""
    net_weights: Weights | None = None
    """The weight of each net, shape (nets,); None: all nets weigh 1."""

    def __post_init__(self) -> None:
        first, pins = same_integers(int_array(self.indptr, "indptr"), int_array(self.pins, "pins"))
        object.__setattr__(self, "indptr", first)
        object.__setattr__(self, "pins", pins if first.dtype == pins.dtype else pins.astype(np.int64))
        for name in ("weights", "net_weights"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, weight_array(getattr(self, name), name))
        nodes, most = operator.index(self.nodes), len(pins) + nodes_in_no_net
        if not 0 <= nodes <= most:
            raise HypergraphError(
                f"there are {nodes} nodes, but the nets have only {len(pins)} pins; at most {most} nodes are expected, "
                "since nearly all would be in no net",
                what="too_large",
            )

    @property
    def nets(self) -> int:
        """The number of nets."""
        return max(len(self.indptr) - 1, 0)

    def __repr__(self) -> str:
        return f"<Hypergraph: {self.nodes:,} nodes, {self.nets:,} nets, {len(self.pins):,} pins>"


def as_array(given: Any, name: str) -> npt.NDArray[Any]:
    """Returns a list of numbers as an array: in place if it is one, or if it has `__dlpack__` and is in host memory."""
    if not isinstance(given, np.ndarray) and hasattr(given, "__dlpack__"):
        try:
            given = np.from_dlpack(given)
        except (BufferError, RuntimeError, TypeError, ValueError) as e:
            raise TypeError(
                f"{name} cannot be read in host memory through DLPack ({e}); copy it to the CPU first"
            ) from e
    try:
        array = np.asarray(given)
    except ValueError as e:  # rows of different lengths
        raise TypeError(f"{name} is no array of numbers: {e}") from e
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}; expected integers or floats")
    return array


def flat(given: Any, name: str) -> npt.NDArray[Any]:
    """Returns a list of numbers as a contiguous array of one dimension."""
    array = as_array(given, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions; expected 1")
    return np.ascontiguousarray(array)


def int_array(given: Any, name: str) -> Ints:
    """Returns an array of int32 or int64; others are converted."""
    array = flat(given, name)
    if array.dtype == np.int32 or array.dtype == np.int64:
        return array
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; expected integers")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max()) > np.iinfo(np.int64).max:
        raise GraphError(f"{name} has the entry {array.max()}, which exceeds 2^63 - 1", what="no_such_node")
    narrow = array.dtype.itemsize < 4 or (array.dtype.itemsize == 4 and array.dtype.kind == "i")
    return array.astype(np.int32) if narrow else array.astype(np.int64)


def weight_array(given: Any, name: str) -> Weights:
    """Returns an array of int64 or float64; others are converted. Booleans count as 0 and 1."""
    array = flat(given, name)
    if array.dtype == np.int64 or array.dtype == np.float64:
        return array
    if array.dtype.kind == "f":
        if array.dtype.itemsize > 8:
            raise TypeError(f"{name} has dtype {array.dtype}; convert it to float64")
        return array.astype(np.float64)
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise OptionError(f"{name} has the entry {array.max()}, which exceeds 2^63 - 1: use a larger unit", option=name)
    return array.astype(np.int64)


def same_integers(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Returns offsets and indices, the offsets as wide as the indices at least."""
    if first.dtype == np.int32 and second.dtype == np.int64:
        return first.astype(np.int64), second
    return first, second


def _of_csr(indptr: Any, indices: Any, data: Any, values: Values | None) -> Graph:
    first, to = same_integers(int_array(indptr, "indptr"), int_array(indices, "indices"))
    weights = None if data is None or values == "ignored" else weight_array(data, "data")
    if weights is not None and len(weights) != len(to):
        raise GraphError(
            f"data has {len(weights)} entries, but indices has {len(to)}: give one weight for each",
            what="wrong_length",
        )
    if len(first) == 0:
        raise GraphError("indptr is empty; it has one entry more than there are nodes", what="offsets_out_of_range")
    return Graph(first, to, weights)


def _of_matrix(matrix: Any, values: Values | None) -> Graph:
    shape = tuple(matrix.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(
            f"the matrix has the shape {shape}; the matrix of a graph is square. "
            "For rows that are nets of columns, call partition_hypergraph",
            what="not_square",
        )
    # The columns of a symmetric matrix are its rows, and the library finds out whether it is symmetric.
    rows = matrix if getattr(matrix, "format", "") in ("csr", "csc") else matrix.tocsr()
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    if data.dtype.kind == "b" and bool(data.all()):
        data = None
    end = int(indptr[-1]) if len(indptr) else 0  # SciPy allows room behind the last entry
    if data is not None and 0 <= end < len(data):
        data = data[:end]
    return _of_csr(indptr, indices[:end] if 0 <= end < len(indices) else indices, data, values)


def _of_dense(matrix: npt.NDArray[Any], values: Values | None) -> Graph:
    array = as_array(matrix, "the matrix")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise GraphError(
            f"the array has the shape {array.shape}; the matrix of a graph is square. "
            "CSR arrays are passed as a tuple (indptr, indices)",
            what="not_square",
        )
    rows, columns = np.nonzero(array)
    indptr = np.zeros(array.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=array.shape[0]), out=indptr[1:])
    data = None if array.dtype.kind == "b" else array[rows, columns]
    return _of_csr(indptr, columns.astype(np.int32), data, values)


def _of_networkx(graph: Any, values: Values | None, edge_weight: str | None) -> Graph:
    if graph.is_directed():
        raise GraphError("the graph is directed; pass G.to_undirected()", what="directed")
    adjacency = getattr(graph, "_adj", None)
    rows = list((graph.adj if adjacency is None else adjacency).values())
    names = list(graph.adj if adjacency is None else adjacency)
    count = len(rows)
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, count), out=indptr[1:])
    arcs = int(indptr[-1])
    neighbours = chain.from_iterable(rows)
    if names == list(range(count)):
        indices = np.fromiter(neighbours, np.int32, arcs)
        known = None
    else:
        number = dict(zip(names, range(count)))
        indices = np.fromiter(map(number.__getitem__, neighbours), np.int32, arcs)
        known = names
    if arcs < 2**31:
        indptr = cast(Any, indptr.astype(np.int32))
    data = None if values == "ignored" else _networkx_weights(graph, rows, edge_weight)
    return Graph(indptr, indices, data, None, (), known)


def _networkx_weights(graph: Any, rows: list[Any], name: str | None) -> Weights | None:
    """Returns the weights of edges, where those without one weigh 1, or None if all weigh 1."""
    facts = chain.from_iterable(row.values() for row in rows)
    if graph.is_multigraph():  # each value is a dictionary of parallel edges
        if name is None:
            return np.fromiter(map(len, facts), np.int64)
        return weight_array([sum(d.get(name, 1) for d in edges.values()) for edges in facts], "the weights of edges")
    if name is None or not any(facts):
        return None
    listed = [d.get(name) for row in rows for d in row.values()]
    if all(w is None for w in listed):
        return None
    return weight_array([1 if w is None else w for w in listed], f"the edge attribute {name!r}")


def path_of(given: object) -> str | None:
    """Returns the path if a file is meant. \\throws OSError if there is none."""
    if not isinstance(given, (str, os.PathLike)):
        return None
    path = os.fsdecode(os.fspath(given))
    if "\0" in path:
        raise ValueError("the path has a zero byte")
    os.stat(path)
    return path


def read_graph(path: str | os.PathLike[str], *, values: Values | None = None, first_node: Literal[0, 1] = 0) -> Graph:
    """Reads a graph from a file.

    Formats are METIS (`.graph`), Matrix Market (`.mtx`), lists of edges (`.edges`, `.txt`) and DIMACS (`.dimacs`,
    `.col`, `.gr`). The operations of `.dag` and `.json` files lose their directions.

    Args:
        path: the file; its suffix or its first words say the format.
        values: use of the entries of a matrix: "weights", "ignored", or None for weights if they are integers.
        first_node: the number of the first node in a list of edges.

    Raises:
        OSError: there is no such file.
        FileError: the file is not in its format, with `line` and `column`.
    """
    known = (None, "weights", "ignored")
    if values not in known:
        raise OptionError(f"values is {values!r}; expected 'weights', 'ignored' or None", option="values")
    if first_node not in (0, 1):
        raise OptionError(f"first_node is {first_node!r}; expected 0 or 1", option="first_node")
    file = path_of(path)
    if file is None:
        raise TypeError(f"expected a path, found {type(path).__name__}")
    read = _native.read_graph(file, known.index(values), first_node)
    return Graph(read["indptr"], read["indices"], read["data"], read["weights"], tuple(read["further"]))


def as_graph(A: GraphLike, *, values: Values | None = None, edge_weight: str | None = "weight") -> Graph:
    """Converts a graph once, for several calls. All functions for graphs take what this one takes.

    Arrays of int32 and int64 (structure), and int64 and float64 (weights) are used in place and not copied. Do not
    change them from another thread during a call.

    Args:
        A: one of
            - a sparse matrix or array of SciPy, symmetric; CSR and CSC are used in place, others are converted;
            - an undirected graph of NetworkX; nodes are numbered in the order of `G.nodes`;
            - a tuple `(indptr, indices)` or `(indptr, indices, data)` of arrays, or of tensors with `__dlpack__`;
            - a square NumPy array, the adjacency matrix;
            - the path of a file, as for `read_graph`, which is not a `.dag` or `.json` file;
            - a `Graph`.
        values: use of a matrix's entries: "weights" or "ignored". None stands for "weights", but in files
            for weights only if they are integers.
        edge_weight: the edge attribute of a NetworkX graph that is the weight; edges without it weigh 1.

    Raises:
        GraphError: `A` is not square, directed, or has arrays of lengths that do not fit.
        TypeError: `A` is something else, or an array has a wrong dtype.
    """
    if values not in (None, "weights", "ignored"):
        raise OptionError(f"values is {values!r}; expected 'weights', 'ignored' or None", option="values")
    if isinstance(A, Graph):
        return A
    path = path_of(A)
    if path is not None:
        if path.endswith(formats_of_operations):
            raise GraphError(
                f"{path} has a graph of operations, whose directions matter; cut it with `python -m cleave partition`, "
                "or drop the directions with cleave.read_graph",
                what="directed",
            )
        return read_graph(path, values=values)
    if hasattr(A, "tocsr") and hasattr(A, "shape"):
        return _of_matrix(A, values)
    if hasattr(A, "is_directed") and hasattr(A, "adj"):
        return _of_networkx(A, values, edge_weight)
    if isinstance(A, tuple) and len(A) in (2, 3):
        return _of_csr(A[0], A[1], A[2] if len(A) == 3 else None, values)
    if isinstance(A, np.ndarray) or hasattr(A, "__dlpack__"):
        return _of_dense(cast(Any, A), values)
    raise TypeError(
        f"{type(A).__name__} is no graph; expected a SciPy sparse matrix, a NetworkX graph, a tuple (indptr, indices) "
        "or (indptr, indices, data), a square array or a path"
    )


def as_hypergraph(
    H: HypergraphLike, *, nodes: int | None = None, weights: Any = None, net_weights: Any = None
) -> Hypergraph:
    """Converts a hypergraph once, for several calls.

    Args:
        H: one of
            - a sparse matrix of SciPy with a row for each net and a column for each node; entries other than 0 are
              pins, whatever their value;
            - a list of nets, each a list of node numbers;
            - the path of a file: hMETIS (`.hgr`) or PaToH (`.u`, `.patoh`);
            - a `Hypergraph`.
        nodes: the number of nodes, if the last ones may be in no net; for lists only.
        weights: the weight of each node, shape (nodes,); None: those of `H`, or 1.
        net_weights: the weight of each net, shape (nets,); None: those of `H`, or 1.

    Raises:
        HypergraphError: a length does not fit.
        FileError: the file is not in its format, with `line` and `column`.
        TypeError: `H` is something else, or an array has a wrong dtype.
    """
    path = path_of(H)
    if path is not None:
        if not path.endswith(formats_of_hypergraphs):
            raise HypergraphError(f"{path} is no hypergraph; known suffixes are {', '.join(formats_of_hypergraphs)}")
        read = _native.read_hypergraph(path, not path.endswith(".hgr"))
        base = Hypergraph(read["nodes"], read["indptr"], read["pins"], read["weights"], read["net_weights"])
    elif isinstance(H, Hypergraph):
        base = H
    elif hasattr(H, "tocsr") and hasattr(H, "shape"):
        rows = cast(Any, H).tocsr()
        if len(rows.shape) != 2:
            raise HypergraphError(f"the matrix has the shape {rows.shape}; expected nets x nodes")
        if rows.nnz and not bool(rows.data.all()):
            rows = rows.copy()
            rows.eliminate_zeros()
        base = Hypergraph(rows.shape[1], rows.indptr, rows.indices[: int(rows.indptr[-1])])
    elif isinstance(H, (list, tuple)):
        base = _of_nets(cast("Sequence[Iterable[int]]", H), nodes)
    else:
        raise TypeError(
            f"{type(H).__name__} is no hypergraph; expected a SciPy sparse matrix of nets x nodes, a list of nets "
            "or a path"
        )
    if nodes is not None and operator.index(nodes) != base.nodes:
        raise HypergraphError(f"nodes is {nodes}, but the hypergraph has {base.nodes} nodes")
    return Hypergraph(
        base.nodes,
        base.indptr,
        base.pins,
        base.weights if weights is None else weight_array(weights, "weights"),
        base.net_weights if net_weights is None else weight_array(net_weights, "net_weights"),
    )


def _of_nets(nets: Sequence[Iterable[int]], nodes: int | None) -> Hypergraph:
    indptr = np.zeros(len(nets) + 1, np.int64)
    lists = []
    for number, net in enumerate(nets):
        try:
            pins = np.fromiter(map(operator.index, net), np.int64)
        except (TypeError, OverflowError) as e:
            raise TypeError(f"net {number} is no list of node numbers: {e}") from e
        lists.append(pins)
        indptr[number + 1] = indptr[number] + len(pins)
    every = np.concatenate(lists) if lists else np.empty(0, np.int64)
    count = int(every.max(initial=-1)) + 1 if nodes is None else operator.index(nodes)
    return Hypergraph(count, indptr, every)


def node_weights(given: Any, graph: Graph) -> tuple[Weights | None, tuple[npt.NDArray[np.float64], ...]]:
    """Returns the first weight of the nodes, and the further ones, from an array of one or two dimensions."""
    if given is None:
        return graph.weights, graph.further
    if isinstance(given, Mapping):
        names: Iterable[Hashable] = range(graph.nodes) if graph.names is None else graph.names
        try:
            given = [given[name] for name in names]
        except KeyError as e:
            raise OptionError(f"weights has no entry for node {e.args[0]!r}", option="weights") from None
    array = as_array(given, "weights")
    if array.ndim not in (1, 2) or array.shape[0] != graph.nodes or (array.ndim == 2 and array.shape[1] == 0):
        raise OptionError(
            f"weights has the shape {array.shape}; expected ({graph.nodes},), or ({graph.nodes}, number of weights)",
            option="weights",
        )
    if array.ndim == 1:
        return weight_array(array, "weights"), ()
    columns = [weight_array(array[:, i], "weights") for i in range(array.shape[1])]
    return columns[0], tuple(c.astype(np.float64) for c in columns[1:])


def fixed_parts(given: Any, graph_nodes: int, names: list[Hashable] | None, k: int) -> npt.NDArray[np.int32] | None:
    """Returns the part of each fixed node and -1 for the others, from an array or a dictionary."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        number = None if names is None else {name: i for i, name in enumerate(names)}
        parts = np.full(graph_nodes, -1, np.int64)
        for name, part in given.items():
            node: Any = name if number is None else number.get(name)
            if (
                isinstance(node, (str, bytes))
                or not hasattr(node, "__index__")
                or not 0 <= operator.index(node) < graph_nodes
            ):
                raise OptionError(f"fixed names {name!r}, which is not a node", option="fixed")
            parts[operator.index(node)] = operator.index(part)
        given = parts
    array = int_array(given, "fixed")
    if len(array) != graph_nodes:
        raise OptionError(
            f"fixed has {len(array)} entries for a graph of {graph_nodes} nodes: give one per node, -1 for free ones",
            option="fixed",
            where=len(array),
        )
    wrong = np.flatnonzero((array < -1) | (array >= k))
    if len(wrong):
        node = int(wrong[0])
        raise OptionError(
            f"fixed gives node #{node} the part {array[node]}; expected a part below {k}, or -1",
            option="fixed",
            where=node,
        )
    return array.astype(np.int32, copy=False)
