# SPDX-License-Identifier: MIT
"""Stages of a computation: nodes with costs, values with bytes, and limits of memory. Needs no framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _native
from ._numbers import most_bytes, real, reals, whole, wholes
from ._schedule import Schedule
from .errors import GraphError, InfeasibleError, OptionError

__all__ = ["Node", "Plan", "StageRow", "plan"]

most_cost = 1e100


@dataclass
class Node:
    """A node of a computation. It makes one value, which has the name of the node."""

    name: str
    reads: Sequence[str] = ()
    """Names of earlier nodes, of inputs, or of entries of `state`."""
    cost: float = 0.0
    """The time that it takes, in any one unit."""
    bytes: int = 0
    """The size of its value; 0 if unknown. Values of unknown size are sent for free."""
    replicable: bool = False
    """Whether each stage that needs its value may make it again, for nothing."""
    portable: bool = True
    """Whether its value can be sent. If not, the nodes that read it are in its stage."""
    after: Sequence[str] = ()
    """Nodes that it must follow although it reads none of their values."""


@dataclass(frozen=True)
class StageRow:
    """A stage of a plan. Costs are in the unit of the plan, sizes in bytes."""

    stage: int
    rank: int
    nodes: int
    cost: float
    load: float
    """The cost, with what the stage spends on sending and receiving."""
    state: int
    """The bytes of its parameters and buffers."""
    received: int
    sent: int


@dataclass(frozen=True)
class Plan:
    """The stage of each node, and how good the cut is. Plain data: processes may send it to each other."""

    stage_of: dict[str, int]
    """The stage of each node. Nodes that stages make again are not in it."""
    replicated: tuple[str, ...]
    """The nodes that each stage that needs them makes again."""
    k: int
    """The number of stages."""
    rank_of: tuple[int, ...]
    """The rank of each stage."""
    rows: tuple[StageRow, ...]
    rank_loads: tuple[float, ...]
    """The load of each rank: the costs of its stages, and what it sends and receives."""
    bottleneck: float
    """The largest load of a rank."""
    bound: float
    """No assignment of the nodes to the ranks has a smaller bottleneck."""
    unsized: int
    """Values of unknown size that are sent; they count as free."""
    unit: str = ""
    """The unit of costs and loads."""
    cost_origin: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def gap(self) -> float:
        """The bottleneck is at most this share above the optimum: 0.03 is 3 %."""
        if self.bottleneck <= self.bound:
            return 0.0
        return self.bottleneck / self.bound - 1 if self.bound > 0 else float("inf")

    def report(self) -> str:
        """Returns the stages as a table, with the bound, for people."""
        ranked = any(rank != stage for stage, rank in enumerate(self.rank_of))
        heading = [
            "stage",
            *(["rank"] if ranked else []),
            "nodes",
            "cost",
            "of mean",
            "state",
            "received",
            "sent",
            "load",
        ]
        mean = sum(row.cost for row in self.rows) / max(1, len(self.rows))
        lines = [heading]
        for row in self.rows:
            share = f"{100 * row.cost / mean:.0f} %" if mean > 0 else "-"
            lines.append(
                [
                    str(row.stage),
                    *([str(row.rank)] if ranked else []),
                    str(row.nodes),
                    _amount(row.cost, self.unit),
                    share,
                ]
                + [_bytes(row.state), _bytes(row.received), _bytes(row.sent), _amount(row.load, self.unit)]
            )
        widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
        text = "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)
        who = "rank" if ranked else "stage"
        text += f"\nlargest load of a {who}: {_amount(self.bottleneck, self.unit)}; "
        text += f"no cut is below {_amount(self.bound, self.unit)}: "
        text += "optimal" if self.gap == 0 else f"at most {100 * self.gap:.1f} % above the optimum"
        if self.cost_origin:
            text += f"\ncosts: {self.cost_origin}"
        return text + "".join(f"\n{note}" for note in self.notes)

    def __str__(self) -> str:
        return self.report()


def plan(
    nodes: Sequence[Node],
    k: int | None = None,
    *,
    inputs: Mapping[str, int] | Sequence[str] = (),
    outputs: Sequence[str] = (),
    state: Mapping[str, int] | None = None,
    schedule: Schedule | None = None,
    memory: int | Sequence[int] | None = None,
    speed: float | Sequence[float] | None = None,
    cost_per_byte: float = 0.0,
    relayed: bool = False,
    together: Sequence[Sequence[str]] = (),
    fixed: Mapping[str, int] | None = None,
    unit: str = "",
    seed: int = 1,
) -> Plan:
    """Cuts a computation into stages whose largest load is least.

    nodes     in an order in which they can run
    k         the number of stages; not needed with a schedule
    inputs    names of what the caller gives, with their bytes if they are known
    outputs   names of the values that the caller gets back
    state     names of parameters and buffers, with their bytes; each stage that reads one holds it
    schedule  the schedule that runs the stages: if its ranks have several, the loads of ranks are balanced
    memory    bytes of state that a rank can hold: one for all, or one for each
    speed     cost that a rank can do in a unit of time: one for all, or one for each
    cost_per_byte  what a byte costs that a stage sends or receives
    relayed   whether a stage sends to the next one alone, so that those in between hand values on
    together  lists of nodes that must share a stage
    fixed     the stage of some nodes

    Raises `InfeasibleError` if the memory is too small or there are too few nodes, and `GraphError` for a name that
    does not exist.
    """
    state = dict(state or {})
    sizes = dict(inputs) if isinstance(inputs, Mapping) else dict.fromkeys(inputs, 0)
    number: dict[str, int] = {}
    for name in [node.name for node in nodes] + list(sizes) + list(state):
        if name in number:
            raise GraphError(f"two nodes, inputs or states are called {name!r}; give each a name of its own", node=name)
        number[name] = len(number)
    position = {node.name: n for n, node in enumerate(nodes)}

    def numbers(names: Sequence[str], by: str, of: Mapping[str, int]) -> list[int]:
        for name in names:
            if name not in of:
                raise GraphError(f"{by} names {name!r}, which does not exist", node=name)
        return [of[name] for name in names]

    for n, node in enumerate(nodes):
        for read in node.reads:
            if position.get(read, -1) >= n:
                raise GraphError(f"node {node.name!r} reads {read!r}, which is not before it", node=node.name)
    sized = [(node.name, node.bytes) for node in nodes] + list(sizes.items()) + list(state.items())
    values = [whole(size, f"the size of {name!r} in bytes", 0, most_bytes) for name, size in sized]
    lists = {
        "names": [node.name for node in nodes],
        "operands": [numbers(node.reads, f"node {node.name!r}", number) for node in nodes],
        "after": [numbers(node.after, f"node {node.name!r}", position) for node in nodes],
        "costs": [real(node.cost, f"the cost of node {node.name!r}", most_cost) for node in nodes],
        "bytes": values,
        "storage": list(range(len(values))),
        "inputs": [number[name] for name in sizes],
        "state": [number[name] for name in state],
        "outputs": numbers(outputs, "outputs", number),
        "replicable": [n for n, node in enumerate(nodes) if node.replicable],
        "unportable": [n for n, node in enumerate(nodes) if not node.portable],
    }
    sets = [numbers(group, "together", position) for group in together]
    stages_of = None
    if fixed:
        numbers(list(fixed), "fixed", position)
        chosen = {name: whole(stage, f"the stage of node {name!r}", 0, 65_534) for name, stage in fixed.items()}
        stages_of = [chosen.get(node.name, -1) for node in nodes]
    result = cut_lists(
        lists, k, schedule=schedule, memory=memory, speed=speed, cost_per_byte=cost_per_byte, relayed=relayed,
        together=sets, fixed=stages_of, seed=seed,
    )  # fmt: skip
    return plan_of(lists, result, unit=unit, cost_origin="")


def cut_lists(
    lists: dict[str, Any],
    k: int | None,
    *,
    schedule: Schedule | None,
    memory: int | Sequence[int] | None,
    speed: float | Sequence[float] | None,
    cost_per_byte: float,
    relayed: bool,
    together: Sequence[Sequence[int]],
    fixed: Sequence[int] | None,
    seed: int,
) -> dict[str, Any]:
    """Cuts a computation given as lists of numbers; what `plan` and `split` share."""
    if k is None and schedule is None:
        raise OptionError("k is missing: give the number of stages, or a schedule", option="k")
    if schedule is not None and k is not None and k not in (schedule.stages, schedule.ranks):
        raise OptionError(
            f"k is {k}, but the schedule has {schedule.stages} stages on {schedule.ranks} ranks; leave it out",
            option="k",
        )
    stages = schedule.stages if schedule is not None else k
    if not isinstance(stages, int) or isinstance(stages, bool):
        raise TypeError(f"k must be an integer, not {stages!r}")
    if not 1 <= stages <= 65_535:
        raise OptionError(f"k is {stages}; it must be from 1 to 65535", option="k")
    rank_of = list(range(stages)) if schedule is None else list(schedule.rank_of)
    several = len(set(rank_of)) < stages
    options = {
        "cost_per_byte": real(cost_per_byte, "cost_per_byte", most_cost),
        "memory": [] if memory is None else wholes(memory, "memory", 0, most_bytes),
        "speed": [] if speed is None else reals(speed, "speed", most_cost),
        "relayed": relayed and not several,
        "together": [list(group) for group in together],
        "fixed": [] if fixed is None or several else list(fixed),
        "node_memory": lists.get("node_memory", []) if memory is not None else [],
        "seed": whole(seed, "seed", 0, 2**64 - 1),
    }
    graph = _native.computation(lists)
    if several:
        if fixed is not None and any(stage >= 0 for stage in fixed):
            raise OptionError("nodes cannot be fixed if ranks have several stages", option="fixed")
        assert schedule is not None
        result = _native.balance_ranks(graph, rank_of, schedule.ranks, options)
    else:
        result = _native.balance(graph, stages, options)
    result["rank_of"] = rank_of
    result["graph"] = graph
    if result["k"] < stages:
        raise InfeasibleError(
            f"k is {stages}, but only {result['k']} nodes or groups can be placed; choose a smaller k", k=result["k"]
        )
    return result


def plan_of(
    lists: dict[str, Any], result: dict[str, Any], *, unit: str, cost_origin: str, notes: Sequence[str] = ()
) -> Plan:
    """Returns a result of `cut_lists` as a plan, with the rows of its stages."""
    labels: list[int] = result["labels"]
    k: int = result["k"]
    names: list[str] = lists["names"]
    nodes, costs = [0] * k, [0.0] * k
    state_of: list[set[int]] = [set() for _ in range(k)]
    received, sent = [0] * k, [0] * k
    readers: dict[int, set[int]] = {}
    held = set(lists["state"])
    for n, stage in enumerate(labels):
        if stage < 0:
            continue
        nodes[stage] += 1
        costs[stage] += lists["costs"][n]
        for value in lists["operands"][n]:
            if value in held:
                state_of[stage].add(value)
            elif value < len(labels) and labels[value] != stage and labels[value] >= 0:
                readers.setdefault(value, set()).add(stage)
    for value, stages in readers.items():
        sent[labels[value]] += lists["bytes"][value]
        for stage in stages:
            received[stage] += lists["bytes"][value]

    held_by_nodes = lists.get("node_memory") or [0] * len(labels)

    def state_bytes(values: set[int], stage: int) -> int:
        own = sum(size for size, label in zip(held_by_nodes, labels) if label == stage)
        by_storage: dict[int, int] = {lists["storage"][v]: lists["bytes"][v] for v in values}
        return int(own + sum(by_storage.values()))

    rows = tuple(
        StageRow(
            s,
            result["rank_of"][s],
            nodes[s],
            costs[s],
            result["loads"][s],
            state_bytes(state_of[s], s),
            received[s],
            sent[s],
        )
        for s in range(k)
    )
    return Plan(
        stage_of={names[n]: stage for n, stage in enumerate(labels) if stage >= 0},
        replicated=tuple(names[n] for n, stage in enumerate(labels) if stage < 0),
        k=k,
        rank_of=tuple(result["rank_of"]),
        rows=rows,
        rank_loads=tuple(result["rank_loads"]),
        bottleneck=result["bottleneck"],
        bound=result["bound"],
        unsized=result["unsized"],
        unit=unit,
        cost_origin=cost_origin,
        notes=tuple(notes),
    )


def _amount(x: float, unit: str) -> str:
    if unit == "s":
        for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if x >= scale or name == "µs":
                return f"{x / scale:.3g} {name}"
    return f"{x:.4g} {unit}".rstrip()


def _bytes(n: int) -> str:
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
