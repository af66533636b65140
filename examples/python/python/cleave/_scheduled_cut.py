# SPDX-License-Identifier: MIT
"""Cuts a computation into stages together with their schedule, in the order of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ._schedule import ScheduledCut, cut_for_schedule, search_schedule
from .errors import InfeasibleError

UNITS = 64
"""Into how many units the share of a rank is divided. A stage can end only between two units."""


def cut_with_schedule(
    lists: dict[str, Any],
    together: Sequence[Sequence[int]],
    *,
    ranks: int,
    microbatches: int,
    memory: int | Sequence[int] | None,
    cost_per_byte: float,
    forward: float,
    seed: int,
) -> tuple[list[int], ScheduledCut]:
    """Cuts a computation given as lists of numbers, in the order of its nodes, for the shortest step.

    cost_per_byte  what a byte costs that a stage sends to the next one
    forward        the share of the costs that is the forward pass; the backward pass takes twice that

    Returns the stage of each node, -1 for nodes that stages make again, and what was found. A rank keeps the activations
    of `ranks` + 1 microbatches at most, one more than in 1F1B: orders that keep all are seldom shorter.
    """
    places = _places(lists, together, ranks)
    if len(places) <= ranks:
        raise InfeasibleError(
            f"k is {ranks}, but the nodes can be separated into {len(places) - 1} stages only; choose a smaller k",
            k=len(places) - 1,
        )
    sent = _sent(lists)
    replicable = set(lists["replicable"])
    resident = _resident(lists)
    stages = []
    for begin, end in zip(places, places[1:]):
        time = forward * sum(lists["costs"][n] for n in range(begin, end) if n not in replicable)
        stages.append({"F": time, "B": 2 * time})
    costs: dict[str, Any] = {
        "stages": stages,
        "edges": [{"activation": sent[p], "gradient": sent[p]} for p in places[1:-1]],
    }
    if cost_per_byte > 0:
        costs["link"] = {"bandwidth": 1 / cost_per_byte}
    # Torch's passes for inputs and for weights together take longer than one for both. Without bytes, a stage keeps 1 for
    # each microbatch.
    if memory is None:
        found = cut_for_schedule(ranks, microbatches, costs, memory=ranks + 1, backward="whole", seed=seed)
    else:
        held = [sum(resident[begin:end]) for begin, end in zip(places, places[1:])]
        sized = {**costs, "stages": [{**stage, "stash": 0} for stage in stages]}
        found = cut_for_schedule(ranks, microbatches, sized, memory=memory, resident=held, backward="whole", seed=seed)
        ends = list(zip(found.cut, found.cut[1:]))
        times = [sum(stage["F"] for stage in stages[first:last]) for first, last in ends]
        chosen = {
            **costs,
            "stages": [{"F": time, "B": 2 * time} for time in times],
            "edges": [costs["edges"][last - 1] for _, last in ends[:-1]],
        }
        order = search_schedule(
            ranks, microbatches, chosen, rank_of=found.found.schedule.rank_of, memory=ranks + 1, backward="whole",
            seed=seed,
        )  # fmt: skip
        found = replace(found, found=order)
    labels = [-1] * len(lists["names"])
    for stage, (first, last) in enumerate(zip(found.cut, found.cut[1:])):
        for n in range(places[first], places[last]):
            if n not in replicable:
                labels[n] = stage
    return labels, found


def _last_reads(lists: dict[str, Any]) -> dict[int, int]:
    """For each value that is read, the last node that reads it. Results are read after the last node."""
    last: dict[int, int] = {}
    for n, read in enumerate(lists["operands"]):
        last.update(dict.fromkeys(read, n))
    last.update(dict.fromkeys(lists["outputs"], len(lists["names"])))
    return last


def _sent(lists: dict[str, Any]) -> list[int]:
    """For each place between nodes, the bytes that are made before it, or are inputs, and read after it."""
    nodes = len(lists["names"])
    change = [0] * (nodes + 2)
    replicable, inputs = set(lists["replicable"]), set(lists["inputs"])
    for value, last in _last_reads(lists).items():
        if value in replicable or (value >= nodes and value not in inputs):
            continue
        made = value if value < nodes else -1
        change[made + 1] += lists["bytes"][value]
        change[last + 1] -= lists["bytes"][value]
    sent, total = [], 0
    for place in range(nodes + 1):
        total += change[place]
        sent.append(total)
    return sent


def _resident(lists: dict[str, Any]) -> list[int]:
    """For each node, the bytes of the state that it is the first to read."""
    first: dict[int, int] = {}
    for n, read in enumerate(lists["operands"]):
        for value in read:
            first.setdefault(value, n)
    resident = list(lists.get("node_memory") or [0] * len(lists["names"]))
    seen = set()
    for value in lists["state"]:
        if value in first and lists["storage"][value] not in seen:
            seen.add(lists["storage"][value])
            resident[first[value]] += lists["bytes"][value]
    return resident


def _places(lists: dict[str, Any], together: Sequence[Sequence[int]], ranks: int) -> list[int]:
    """The places where units begin, and the end: of those with about the same cost before them, the one that sends
    least. Nodes that must share a stage are in one unit."""
    nodes = len(lists["names"])
    replicable = set(lists["replicable"])
    joined = [(min(group), max(group)) for group in together if group]
    last = _last_reads(lists)
    joined += [(v, min(last[v], nodes - 1)) for v in lists["unportable"] if v in last and v not in replicable]
    change = [0] * (nodes + 1)
    for begin, end in joined:
        change[begin + 1] += 1
        change[end + 1] -= 1
    sent = _sent(lists)
    total = sum(cost for n, cost in enumerate(lists["costs"]) if n not in replicable)
    allowed: list[int] = []
    best: dict[int, int] = {}
    open_groups, before = change[0], 0.0
    for place in range(1, nodes):
        before += lists["costs"][place - 1] if place - 1 not in replicable else 0.0
        open_groups += change[place]
        if open_groups > 0:
            continue
        allowed.append(place)
        bucket = int(before / total * ranks * UNITS) if total > 0 else 0
        if bucket not in best or sent[place] < sent[best[bucket]]:
            best[bucket] = place
    chosen = sorted(best.values())
    return [0, *(chosen if len(chosen) >= ranks - 1 else allowed), nodes]
