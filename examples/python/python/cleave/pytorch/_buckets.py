# SPDX-License-Identifier: MIT
"""Other cuts of a graph of torch.fx: into given parts, by what a device can run, and into buckets of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.split_module import split_module as outline

from .. import _native
from .._plan import Plan
from ..errors import SplitError
from ._costs import costs_of
from ._split import _lists_of
from ._trace import Captured, attribute, capture, function_name, module_of, written_groups


def _captured(graph_module: fx.GraphModule) -> Captured:
    if not isinstance(graph_module, fx.GraphModule):
        raise TypeError(
            f"graph_module must be a GraphModule, not {type(graph_module).__name__}; torch.fx traces modules"
        )
    return Captured(graph_module, None, None, None)


def split_module(
    graph_module: fx.GraphModule, part_of: Plan | Mapping[str, int] | Callable[[fx.Node], int]
) -> fx.GraphModule:
    """Cuts a graph of torch.fx into parts as modules that one graph calls in turn, `submod_0`, `submod_1`, and so on.

    part_of  a plan, the part of each node by name, or a function of nodes. Parts may be in any order, but values must
             not go round in a circle between parts, and memory that is written in place must be in one part: else
             `SplitError`, which names the node.
    """
    c = _captured(graph_module)
    if isinstance(part_of, Plan):
        part_of = {**dict.fromkeys(part_of.replicated, 0), **part_of.stage_of}
    if isinstance(part_of, Mapping):
        table = part_of
        missing = [n.name for n in c.calls if n.name not in table]
        if missing:
            raise SplitError(f"node {missing[0]!r} has no part", node=missing[0])
        parts = {n: int(table[n.name]) for n in c.calls}
    else:
        parts = {n: int(part_of(n)) for n in c.calls}
    for group in written_groups(c):
        for n in group:
            if parts[n] != parts[group[0]]:
                raise SplitError(
                    f"node {n.name!r} in part {parts[n]} and node {group[0].name!r} in part {parts[group[0]]} use "
                    "memory that one of them writes in place; give both one part",
                    node=n.name,
                    module=module_of(n),
                )
    _require_no_circle(c, parts)
    return outline(graph_module, graph_module, lambda n: parts[n], keep_original_order=False)


def _require_no_circle(c: Captured, parts: Mapping[fx.Node, int]) -> None:
    reads: dict[int, dict[int, fx.Node]] = {part: {} for part in parts.values()}
    for n in c.calls:
        for o in n.all_input_nodes:
            if o in parts and parts[o] != parts[n]:
                reads[parts[n]].setdefault(parts[o], n)
    state: dict[int, int] = {}

    def visit(part: int, path: list[int]) -> None:
        state[part] = 1
        for other, n in reads[part].items():
            if state.get(other) == 1:
                circle = [*path[path.index(other) :], part] if other in path else [other, part]
                raise SplitError(
                    f"parts {circle} read each other's results: node {n.name!r} of part {part} reads part {other}; "
                    "no order can run them",
                    node=n.name,
                    module=module_of(n),
                )
            if other not in state:
                visit(other, [*path, part])
        state[part] = 2

    for part in reads:
        if part not in state:
            visit(part, [])


def capability_partition(
    graph_module: fx.GraphModule,
    supports: Callable[[fx.Node], bool],
    *,
    connected: bool = False,
    as_torch_fx: bool = False,
    least: int = 0,
) -> list[list[fx.Node]]:
    """Groups the calls that a device can run, in as few groups as possible.

    supports     whether the device can run a call
    connected    whether the nodes of a group must be connected by values
    as_torch_fx  form the groups of torch.fx's CapabilityBasedPartitioner, of which there are often more
    least        smaller groups are dropped
    """
    c = _captured(graph_module)
    lists, position = _lists_of(c, c.calls, {}, dict.fromkeys(c.calls, 1.0), set())
    lists["unportable"] = []
    together = [[position[n] for n in group] for group in written_groups(c)]
    groups = _native.capability_groups(
        _native.computation(lists),
        [bool(supports(n)) for n in c.calls],
        together,
        [n.op == "call_function" and function_name(n) == "getitem" for n in c.calls],
        least,
        connected,
        as_torch_fx,
    )
    return [[c.calls[i] for i in group] for group in groups]


@dataclass(frozen=True)
class Bucket:
    """Parameters whose gradients are sent together."""

    parameters: tuple[str, ...]
    bytes: int
    nodes: tuple[str, ...]
    """The calls whose backward pass makes them."""


def ddp_buckets(
    module: nn.Module,
    args: tuple[Any, ...] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    cap: int = 25 * 2**20,
    first_cap: int | None = None,
    bandwidth: float | None = None,
    latency: float = 0.0,
    costs: Any = None,
) -> list[Bucket]:
    """Returns the buckets of gradients for DistributedDataParallel, from the front of the model to its end; they are
    sent in the opposite order.

    Without `bandwidth`, buckets are filled up to `cap` bytes (the first one that is sent up to `first_cap`), as
    PyTorch's DDPOptimizer does. With `bandwidth` in bytes per second, and `latency` in seconds for each bucket, they
    are those whose gradients have all arrived first, given how long the backward pass of each call takes: twice its
    cost, which `costs` gives as in `split`.
    """
    c = capture(module, args, dict(kwargs or {}), None)
    leaves = torch.utils._pytree.tree_leaves((args, dict(kwargs or {})))
    cost, _, _, _ = costs_of(c, costs, leaves, training=False)
    lists, _ = _lists_of(c, c.calls, {}, cost, set())
    trained: dict[int, str] = {}
    names = {id(p): name for name, p in module.named_parameters()}
    attributes = {a: attribute(c.module, str(a.target)) for a in c.attributes}
    offset = len(c.calls) + len(c.placeholders)
    kept = []
    for i, a in enumerate(c.attributes):
        t = attributes[a]
        if isinstance(t, nn.Parameter) and t.requires_grad:
            trained[offset + i] = names.get(id(t), str(a.target))
            kept.append(offset + i)
    lists["state"] = [v for v in lists["state"] if v in trained or v >= offset + len(c.attributes)]
    if any(n.op == "call_module" for n in c.calls):
        for n in c.calls:
            if n.op == "call_module":
                raise SplitError(f"node {n.name!r} calls a module whole; pass the model itself", node=n.name)
    graph = _native.computation(lists)
    if bandwidth is None:
        found = _native.fill_buckets(graph, cap, first_cap)
    else:
        found = _native.fill_optimal_buckets(graph, [2 * x for x in lists["costs"]], float(bandwidth), float(latency))
    return [
        Bucket(tuple(trained[v] for v in values), bytes, tuple(c.calls[n].name for n in sorted(nodes)))
        for nodes, values, bytes in found
    ]
