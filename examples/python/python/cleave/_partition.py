# SPDX-License-Identifier: MIT
"""Partitioners of undirected graphs and hypergraphs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from . import _native
from ._graph import (
    Graph,
    GraphLike,
    Hypergraph,
    HypergraphLike,
    Values,
    as_graph,
    as_hypergraph,
    fixed_parts,
    flat,
    int_array,
    node_weights,
)
from ._numbers import real, whole
from .errors import GraphError, OptionError

Preset: TypeAlias = Literal["fast", "standard", "quality"]
Phase: TypeAlias = Literal["coarsened", "first_cut", "projected", "refined"]
Progress: TypeAlias = Callable[[Phase, int, int], object]
Objective: TypeAlias = Literal["connectivity", "cut_nets"]
Eps: TypeAlias = "float | Sequence[float]"

presets = ("fast", "standard", "quality")
most_parts = 2**31 - 1
most_eps = 1e9


@dataclass(frozen=True)
class Finding:
    """A fault of parts. `str()` describes it in a sentence."""

    what: str
    """Its kind: `overweight`, `empty_part`, `no_such_part`, `wrong_length`, `disconnected_part`, `not_fixed`."""
    node: int
    """The node, if it is about one, else 0."""
    part: int
    """The part, if it is about one, else 0."""
    amount: float
    """What was found, such as the weight of the part."""
    limit: float
    """What is allowed."""
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `verify` measured. It shares no code with the partitioners. It is true if there are no findings."""

    cut: int | float
    """The weight of the edges between parts."""
    cut_edges: int
    """The number of edges between parts."""
    imbalance: float
    """The largest excess of a part over its share: 0.03 is 3 %."""
    part_weights: list[int] | list[float]
    """The weight of each part."""
    part_sizes: list[int]
    """The number of nodes of each part."""
    pieces: list[int]
    """The connected pieces of each part."""
    findings: list[Finding]
    """All faults."""

    @property
    def sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.sound

    def __repr__(self) -> str:
        verdict = "sound" if self.sound else f"{len(self.findings)} findings, first: {self.findings[0]}"
        return f"<Report: cut {_number(self.cut)}, imbalance {100 * self.imbalance:.2f} %, {verdict}>"


@dataclass(frozen=True)
class Balance:
    """The balance of parts in one of several weights of the nodes."""

    part_weights: list[float]
    """The weight of each part."""
    imbalance: float
    """The largest excess of a part over its share: 0.03 is 3 %."""


@dataclass(frozen=True)
class Options:
    """The arguments with which parts were made."""

    eps: tuple[float, ...]
    preset: Preset
    fixed: npt.NDArray[np.int32] | None
    shares: tuple[float, ...]
    connected: bool
    seed: int
    threads: int

    def for_native(self, further: Sequence[npt.NDArray[np.float64]], progress: Progress | None) -> dict[str, Any]:
        """Returns the options as the extension takes them, with the further weights of the nodes."""
        eps = self.eps if len(self.eps) > 1 else self.eps * (len(further) + 1)
        return {
            "preset": presets.index(self.preset),
            "eps": eps[0],
            "shares": list(self.shares),
            "fixed": self.fixed,
            "further": [(weights, eps[i + 1]) for i, weights in enumerate(further)],
            "connected": self.connected,
            "seed": self.seed,
            "threads": self.threads,
            "progress": progress,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """The parts of a graph, with their cut and balance. `np.asarray` gives the labels."""

    labels: npt.NDArray[np.int32]
    """The part of each node, from 0; shape (nodes,)."""
    k: int
    """The number of parts."""
    cut: int | float
    """The weight of the edges between parts, each edge counted once."""
    imbalance: float
    """The largest excess of a part over its share: 0.03 is 3 %."""
    part_weights: Weights
    """The weight of each part; shape (k,)."""
    within_limits: bool
    """False if no parts within the limits were found."""
    further: tuple[Balance, ...]
    """The balance of each weight of the nodes beyond the first."""
    graph: Graph
    """The graph that was cut."""
    options: Options
    """How it was cut."""

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.graph.nodes:,} nodes in {self.k:,} parts, cut {_number(self.cut)}, "
            f"imbalance {100 * self.imbalance:.2f} %{'' if self.within_limits else ', limits exceeded'}>"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.labels.astype(dtype or self.labels.dtype, copy=bool(copy))

    def members(self) -> list[npt.NDArray[np.int64]]:
        """Returns the node numbers of each part, ascending."""
        order = np.argsort(self.labels, kind="stable").astype(np.int64, copy=False)
        return np.split(order, np.cumsum(np.bincount(self.labels, minlength=self.k))[:-1])

    def by_name(self) -> dict[Hashable, int]:
        """Returns the part of each node, by the node of the NetworkX graph, or else by its number."""
        names = range(self.graph.nodes) if self.graph.names is None else self.graph.names
        return dict(zip(names, self.labels.tolist()))

    def verify(self) -> Report:
        """Measures the parts anew, and lists their faults. It shares no code with the partitioner."""
        return _verify(self.graph, self.labels, self.k, self.options)

    def refine(
        self,
        *,
        eps: Eps | None = None,
        preset: Preset = "quality",
        seed: int | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Parts:
        """Returns better parts, found from these. With `preset="quality"`, the cut does not grow if limits hold.

        Arguments that are None, and fixed nodes, shares and `connected`, are as before.
        """
        made = self.options
        options = _options(
            self.graph,
            self.k,
            made.eps if eps is None else eps,
            preset,
            made.fixed,
            made.shares,
            made.connected,
            made.seed if seed is None else seed,
            made.threads if threads is None else threads,
            1 + len(self.graph.further),
        )
        return _refine(self.graph, self.labels, self.k, options, progress)


@dataclass(frozen=True, eq=False, repr=False)
class Repartition(Parts):
    """New parts of a graph, with what moves from the old ones."""

    moved_nodes: int
    """The number of nodes that had a part and changed it."""
    moved_bytes: int
    """Their bytes."""
    objective: float
    """The cut plus the cost of the moved bytes."""
    way: str
    """How they were found: `kept`, `refined`, `remapped` or `with_migration_edges`."""


@dataclass(frozen=True, eq=False, repr=False)
class HypergraphParts:
    """The parts of a hypergraph, with their cut and balance. `np.asarray` gives the labels."""

    labels: npt.NDArray[np.int32]
    """The part of each node, from 0; shape (nodes,)."""
    k: int
    """The number of parts."""
    connectivity: int | float
    """For each net, its weight times the number of its parts minus 1."""
    cut_net_weight: int | float
    """The weight of the nets with pins in several parts."""
    cut_nets: int
    """The number of these nets."""
    imbalance: float
    """The largest excess of a part over its share: 0.03 is 3 %."""
    part_weights: Weights
    """The weight of each part; shape (k,)."""
    within_limits: bool
    """False if no parts within the limits were found."""
    objective: Objective
    """What was minimized."""
    hypergraph: Hypergraph
    """The hypergraph that was cut."""
    options: Options
    """How it was cut."""

    @property
    def cut(self) -> int | float:
        """What was minimized: the connectivity, or the weight of the cut nets."""
        return self.connectivity if self.objective == "connectivity" else self.cut_net_weight

    def __repr__(self) -> str:
        return (
            f"<HypergraphParts: {self.hypergraph.nodes:,} nodes in {self.k:,} parts, "
            f"{self.objective} {_number(self.cut)}, "
            f"imbalance {100 * self.imbalance:.2f} %{'' if self.within_limits else ', limits exceeded'}>"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.labels.astype(dtype or self.labels.dtype, copy=bool(copy))

    def verify(self) -> Report:
        """Measures the parts anew, and lists their faults. `cut` is what was minimized, `cut_edges` the cut nets."""
        h = self.hypergraph
        nodes = Graph(np.zeros(h.nodes + 1, np.int32), np.empty(0, np.int32), None, h.weights)
        balance = _verify(nodes, self.labels, self.k, self.options)
        cut = _native.measure_hypergraph(h.nodes, h.indptr, h.pins, h.weights, h.net_weights, self.labels, self.k)
        total = cut["connectivity" if self.objective == "connectivity" else "cut_net_weight"]
        return replace(balance, cut=total, cut_edges=cut["cut_nets"], pieces=[])


Weights: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64]"


def _number(x: float) -> str:
    return f"{x:,}" if isinstance(x, int) else f"{x:,.6g}"


def _options(
    graph: Graph | Hypergraph,
    k: int,
    eps: Eps,
    preset: str,
    fixed: Any,
    shares: Any,
    connected: bool,
    seed: int,
    threads: int,
    weights: int = 1,
) -> Options:
    if preset not in presets:
        raise OptionError(f"preset is {preset!r}; expected {', '.join(map(repr, presets))}", option="preset", where=0)
    if isinstance(eps, (str, bytes)) or (hasattr(eps, "__len__") and not np.ndim(eps)):
        raise TypeError(f"eps is {eps!r}; expected a number, or one for each weight of the nodes")
    each = tuple(real(e, "eps", most_eps) for e in (np.atleast_1d(np.asarray(eps, object)).tolist()))
    if len(each) not in (1, weights):
        raise OptionError(
            f"eps has {len(each)} numbers, but nodes have {weights} weight{'s' if weights > 1 else ''}; "
            "give one, or one for each",
            option="eps",
            where=len(each),
        )
    listed: tuple[float, ...] = ()
    if shares is not None and len(shares):
        listed = tuple(float(s) for s in flat(shares, "shares"))
        if len(listed) != k:
            raise OptionError(f"there are {len(listed)} shares for {k} parts", option="shares", where=len(listed))
    names = graph.names if isinstance(graph, Graph) else None
    return Options(
        each,
        preset,  # type: ignore[arg-type]
        fixed_parts(fixed, graph.nodes, names, k),
        listed,
        bool(connected),
        whole(seed, "seed", 0, 2**64 - 1),
        whole(threads, "threads", 1, 1024),
    )


def _parts(made: dict[str, Any], graph: Graph, options: Options) -> dict[str, Any]:
    further = tuple(Balance(f["part_weights"], f["imbalance"]) for f in made.pop("further"))
    return {**made, "further": further, "graph": graph, "options": options}


class _NamingNodes:
    """Adds the name of the node to an error that has its number."""

    def __init__(self, graph: Graph) -> None:
        self.names = graph.names

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, e: BaseException | None, trace: Any) -> None:
        if isinstance(e, GraphError) and self.names is not None and "node" in e.witness:
            name = self.names[e.node] if e.node < len(self.names) else None
            raise type(e)(f"{e} (node #{e.node} is {name!r})", **e.witness, name=name) from None


def _with_weights(A: GraphLike, weights: Any, values: Values | None, edge_weight: str | None) -> Graph:
    graph = as_graph(A, values=values, edge_weight=edge_weight)
    if isinstance(weights, str):  # an attribute of the nodes
        if not hasattr(A, "is_directed"):
            raise TypeError("weights is a string, which names a node attribute of a NetworkX graph; expected an array")
        found: dict[Hashable, Any] = dict(cast(Any, A).nodes(data=weights))
        missing = next((node for node, weight in found.items() if weight is None), None)
        if missing is not None:
            raise OptionError(f"node {missing!r} has no attribute {weights!r}", option="weights")
        weights = list(found.values())
    first, further = node_weights(weights, graph)
    return Graph(graph.indptr, graph.indices, graph.data, first, further, graph.names)


def partition(
    A: GraphLike,
    k: int,
    *,
    eps: Eps = 0.03,
    preset: Preset = "standard",
    weights: Any = None,
    fixed: Any = None,
    shares: Sequence[float] | None = None,
    connected: bool = False,
    seed: int = 1,
    threads: int = 1,
    values: Values | None = None,
    edge_weight: str | None = "weight",
    progress: Progress | None = None,
) -> Parts:
    """Cuts an undirected graph into k parts of equal weight with few edges between them.

    A seed gives the same parts with any number of threads, and as `cleave partition` on the command line.
    Other Python threads run meanwhile. Ctrl-C ends the call after the present step.

    Args:
        A: a symmetric SciPy sparse matrix, a NetworkX graph, `(indptr, indices[, data])`, a square array, a path or
            a `Graph`; see `as_graph`. Entries of a matrix are edge weights, of at least 0. The diagonal is ignored.
        k: number of parts, from 1 to the number of nodes.
        eps: how far a part may exceed its share, which is rounded up: 0.03 is 3 %. With several weights of the nodes
            one number for all, or one for each.
        preset: "fast" takes about the time of METIS, "standard" twice that for smaller cuts, "quality" much longer.
        weights: weight of each node, shape (nodes,), at least 0. Shape (nodes, w): parts balance each of the w
            weights. For NetworkX also the name of a node attribute, or a dictionary. None: all weigh 1.
        fixed: part of each fixed node and -1 for the others, shape (nodes,); or a dictionary from nodes to parts.
        shares: share of each part in the total weight, shape (k,), in any unit. None: equal shares.
        connected: whether the nodes of a part must be connected.
        seed: seed of the random choices.
        threads: number of threads, at most 1024. The parts do not depend on it.
        values: use of a matrix's entries; see `as_graph`.
        edge_weight: edge attribute of a NetworkX graph that is the weight; None: all weigh 1.
        progress: called after each step with its name ("coarsened", "first_cut", "projected" or "refined"), the
            number of nodes of the level and the decrease of the cut. What it raises ends the call.

    Returns:
        The parts: `.labels`, `.cut`, `.imbalance`, `.part_weights`, `.verify()`, `.refine()`.

    Raises:
        GraphError: the graph is not undirected, or a weight is negative, infinite or NaN. `node` and `arc` say where.
        OptionError: an argument does not fit. `option` says which.
        FileError: the file is not in its format. `line` and `column` say where.
        TypeError: an argument has the wrong type.
    """
    graph = _with_weights(A, weights, values, edge_weight)
    parts = whole(k, "k", 1, most_parts)
    options = _options(graph, parts, eps, preset, fixed, shares, connected, seed, threads, 1 + len(graph.further))
    _require_callable(progress)
    if parts > graph.nodes:
        raise OptionError(
            f"k is {parts}, but the graph has {graph.nodes} nodes; a part needs a node", option="k", where=parts
        )
    with _NamingNodes(graph):
        made = _native.partition(
            graph.indptr, graph.indices, graph.weights, graph.data, parts, options.for_native(graph.further, progress)
        )
    return Parts(**_parts(made, graph, options))


def _require_callable(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is {progress!r}; expected a function of the step, the nodes and the gain")


def _labels(given: Any, graph_nodes: int) -> npt.NDArray[np.int32]:
    if isinstance(given, Parts):
        return given.labels
    labels = int_array(given, "labels")
    if len(labels) != graph_nodes:
        raise OptionError(
            f"labels has {len(labels)} entries, but the graph has {graph_nodes} nodes",
            option="labels",
            where=len(labels),
        )
    if len(labels) and (int(labels.max()) >= most_parts or int(labels.min()) < -1):
        raise OptionError(
            "labels has numbers that are no parts: expected 0 or more, or -1 for none", option="labels", where=0
        )
    return labels.astype(np.int32, copy=False)


def _count(labels: npt.NDArray[np.int32], k: int | None) -> int:
    """Returns the number of parts. Far more than nodes would only make large, mostly empty tables."""
    most = min(len(labels) + 65_536, most_parts)
    if k is not None:
        return whole(k, "k", 1, most)
    count = int(labels.max(initial=0)) + 1
    if count > most:
        where = int(labels.argmax())
        raise OptionError(
            f"labels gives node #{where} the part {count - 1}; expected less than {most}", option="labels", where=where
        )
    return count


def _refine(graph: Graph, labels: npt.NDArray[np.int32], k: int, options: Options, progress: Progress | None) -> Parts:
    _require_callable(progress)
    with _NamingNodes(graph):
        made = _native.refine(
            graph.indptr,
            graph.indices,
            graph.weights,
            graph.data,
            labels,
            k,
            options.for_native(graph.further, progress),
        )
    return Parts(**_parts(made, graph, options))


def refine(
    A: GraphLike,
    labels: Any,
    k: int | None = None,
    *,
    eps: Eps = 0.03,
    preset: Preset = "standard",
    weights: Any = None,
    fixed: Any = None,
    shares: Sequence[float] | None = None,
    connected: bool = False,
    seed: int = 1,
    threads: int = 1,
    values: Values | None = None,
    edge_weight: str | None = "weight",
    progress: Progress | None = None,
) -> Parts:
    """Improves parts from any source: brings them within the limits and reduces their cut.

    Args:
        labels: the part of each node, shape (nodes,), or `Parts`.
        k: number of parts; None: the largest label plus 1.

    The other arguments, and what is raised, are those of `partition`.
    """
    graph = _with_weights(A, weights, values, edge_weight)
    start = _labels(labels, graph.nodes)
    count = _count(start, labels.k if k is None and isinstance(labels, Parts) else k)
    options = _options(graph, count, eps, preset, fixed, shares, connected, seed, threads, 1 + len(graph.further))
    return _refine(graph, start, count, options, progress)


def repartition(
    A: GraphLike,
    old: Any,
    k: int | None = None,
    *,
    cost_per_byte: float = 1.0,
    bytes: Any = None,
    stays: Any = None,
    eps: float = 0.03,
    preset: Preset = "standard",
    weights: Any = None,
    fixed: Any = None,
    shares: Sequence[float] | None = None,
    connected: bool = False,
    seed: int = 1,
    threads: int = 1,
    values: Values | None = None,
    edge_weight: str | None = "weight",
    progress: Progress | None = None,
) -> Repartition:
    """Makes new parts of a graph whose weights, edges or number of parts changed, so that little data moves.

    It minimizes the cut plus `cost_per_byte` times the bytes of the nodes that change their part.

    Args:
        old: the old part of each node, shape (nodes,), -1 for new nodes; or `Parts`.
        k: the new number of parts; None: the old one.
        cost_per_byte: cost of moving a byte, in the unit of the edge weights.
        bytes: bytes that move with each node, shape (nodes,), whole numbers; None: one byte each.
        stays: whether each node must stay, shape (nodes,) of bool; None: all may move.

    The other arguments, and what is raised, are those of `partition`.
    """
    graph = _with_weights(A, weights, values, edge_weight)
    if graph.further:
        raise OptionError(
            "repartition balances one weight of the nodes; pass weights of shape (nodes,)", option="weights", where=0
        )
    before = _labels(old, graph.nodes)
    old_count = _count(before, old.k if isinstance(old, Parts) else None)
    count = old_count if k is None else _count(before, k)
    options = _options(graph, count, eps, preset, fixed, shares, connected, seed, threads)
    _require_callable(progress)
    cost = real(cost_per_byte, "cost_per_byte", np.finfo(np.float64).max)
    loads = None if bytes is None else _bytes(bytes)
    held = None if stays is None else flat(stays, "stays").astype(bool).view(np.uint8)
    with _NamingNodes(graph):
        made = _native.repartition(
            graph.indptr,
            graph.indices,
            graph.weights,
            graph.data,
            before,
            old_count,
            count,
            cost,
            loads,
            held,
            options.for_native((), progress),
        )
    return Repartition(**_parts(made, graph, options))


def _bytes(given: Any) -> npt.NDArray[np.uint64]:
    array = flat(given, "bytes")
    if array.dtype.kind not in "iu":
        raise TypeError(f"bytes has dtype {array.dtype}; expected integers")
    if array.size and int(array.min()) < 0:
        where = int(array.argmin())
        raise OptionError(f"bytes of node #{where} is {array[where]}; expected at least 0", option="bytes", where=where)
    return array.astype(np.uint64, copy=False)


def _verify(graph: Graph, labels: npt.NDArray[np.int32], k: int, options: Options) -> Report:
    total = sum(options.shares)
    shares = [s / total for s in options.shares] if total > 0 else []
    eps = options.eps if len(options.eps) > 1 else options.eps * (1 + len(graph.further))
    found: list[Finding] = []
    reports = []
    for i, weights in enumerate((graph.weights, *graph.further)):
        if (
            i > 0
            and weights is not None
            and bool((np.floor(weights) == weights).all())
            and float(weights.sum()) < 2**53
        ):
            weights = weights.astype(np.int64)  # shares of whole weights are rounded up
        with _NamingNodes(graph):
            r = _native.verify(
                graph.indptr,
                graph.indices,
                weights,
                graph.data,
                labels,
                k,
                eps[i],
                shares if i == 0 else [],
                options.connected and i == 0,
            )
        reports.append(r)
        for finding in r["findings"]:
            if i == 0 or finding[0] == "overweight":
                what, node, part, amount, limit, message = finding
                found.append(
                    Finding(what, node, part, amount, limit, message if i == 0 else f"weight {i + 1}: {message}")
                )
    if options.fixed is not None and len(options.fixed) == len(labels):
        for node in np.flatnonzero((options.fixed >= 0) & (options.fixed != labels)).tolist():
            part, meant = int(labels[node]), int(options.fixed[node])
            found.append(
                Finding("not_fixed", node, part, part, meant, f"node #{node} is in part {part}, but fixed to {meant}")
            )
    first = reports[0]
    return Report(
        first["cut"],
        first["cut_edges"],
        first["imbalance"],
        first["part_weights"],
        first["part_sizes"],
        first["pieces"],
        found,
    )


def verify(
    A: GraphLike,
    labels: Any,
    k: int | None = None,
    *,
    eps: Eps = 0.03,
    weights: Any = None,
    fixed: Any = None,
    shares: Sequence[float] | None = None,
    connected: bool = False,
    values: Values | None = None,
    edge_weight: str | None = "weight",
) -> Report:
    """Measures parts from any source, and lists their faults. It shares no code with the partitioners.

    Args:
        labels: the part of each node, shape (nodes,), or `Parts`.
        k: number of parts; None: the largest label plus 1.

    The other arguments, and what is raised, are those of `partition`. Faults of the parts are returned, not raised.
    """
    graph = _with_weights(A, weights, values, edge_weight)
    given = _labels(labels, graph.nodes)
    count = _count(given, labels.k if k is None and isinstance(labels, Parts) else k)
    options = _options(graph, count, eps, "standard", fixed, shares, connected, 1, 1, 1 + len(graph.further))
    return _verify(graph, given, count, options)


def partition_hypergraph(
    H: HypergraphLike,
    k: int,
    *,
    objective: Objective = "connectivity",
    eps: float = 0.03,
    preset: Preset = "standard",
    weights: Any = None,
    net_weights: Any = None,
    nodes: int | None = None,
    fixed: Any = None,
    shares: Sequence[float] | None = None,
    seed: int = 1,
    threads: int = 1,
    progress: Progress | None = None,
) -> HypergraphParts:
    """Cuts a hypergraph into k parts of equal weight, so that few nets have pins in several parts.

    A seed gives the same parts with any number of threads, and as `cleave partition` on the command line.
    Other Python threads run meanwhile, and Ctrl-C ends the call after the present step.

    Args:
        H: a SciPy sparse matrix with a row for each net and a column for each node, a list of nets (lists of node
            numbers), the path of a `.hgr`, `.u` or `.patoh` file, or a `Hypergraph`; see `as_hypergraph`.
        k: number of parts, from 1 to the number of nodes.
        objective: "connectivity" (λ - 1): a net in λ parts costs its weight times λ - 1; "cut_nets": it costs its
            weight if λ is above 1.
        net_weights: weight of each net, shape (nets,), at least 0. None: all weigh 1.
        nodes: number of nodes, for a list of nets whose last nodes are in no net.

    The other arguments are those of `partition`. The gain that `progress` gets is that of the objective, or of a cut
    while the hypergraph is cut as a graph; with several threads it gets the steps of the calling one.

    Raises:
        HypergraphError: a pin is not a node, or a weight is negative, infinite or NaN. `net`, `pin`, `node` say where.
        OptionError, FileError, TypeError: as `partition`.
    """
    if objective not in ("connectivity", "cut_nets"):
        raise OptionError(
            f"objective is {objective!r}; expected 'connectivity' or 'cut_nets'", option="objective", where=0
        )
    _require_callable(progress)
    h = as_hypergraph(H, nodes=nodes, weights=weights, net_weights=net_weights)
    parts = whole(k, "k", 1, most_parts)
    options = _options(h, parts, eps, preset, fixed, shares, False, seed, threads)
    if parts > h.nodes:
        raise OptionError(
            f"k is {parts}, but the hypergraph has {h.nodes} nodes; a part needs a node", option="k", where=parts
        )
    made = _native.partition_hypergraph(
        h.nodes,
        h.indptr,
        h.pins,
        h.weights,
        h.net_weights,
        parts,
        objective == "cut_nets",
        options.for_native((), progress),
    )
    return HypergraphParts(**made, objective=objective, hypergraph=h, options=options)
