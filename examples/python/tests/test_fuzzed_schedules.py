# SPDX-License-Identifier: MIT
"""Schedules and plans of any input: a sound result, or an exception that says what is wrong. Never a crash."""

from __future__ import annotations

from typing import Any

import pytest

import cleave

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as some  # noqa: E402

named = (cleave.Error, TypeError, OverflowError, MemoryError)

counts = some.one_of(
    some.integers(-1, 9), some.integers(-1, 9), some.sampled_from([2**31, 2**32, 2**64, 1.5, True, None])
)
times = some.one_of(
    some.integers(0, 9),
    some.floats(0, 10),
    some.sampled_from([-1.0, 1e-320, 1e100, 1e308, float("nan"), float("inf"), None]),
)
sizes = some.one_of(some.integers(0, 99), some.sampled_from([-1, 2**63, 2**64, 1.5, "3KiB", "x", None]))
names = some.sampled_from(cleave.schedule_names()) | some.sampled_from(
    ["zbv", "ScheduleGPipe", "1f1", "", "\0", "é" * 99]
)
one_cost = some.one_of(
    times,
    some.dictionaries(some.sampled_from(["F", "B", "I", "W", "X"]), times, max_size=4),
    some.fixed_dictionaries({"F": some.floats(0, 9), "B": some.floats(0, 9), "stash": sizes}),
)
costs = some.one_of(
    some.lists(one_cost, max_size=6),
    some.fixed_dictionaries(
        {"stages": some.lists(one_cost, max_size=6)},
        optional={
            "edges": some.lists(some.dictionaries(some.sampled_from(["activation", "gradient"]), sizes), max_size=5),
            "hop": times,
            "unit": some.text(max_size=3),
            "link": some.dictionaries(some.sampled_from(["latency", "bandwidth"]), times),
            "links": some.lists(some.dictionaries(some.sampled_from(["from", "to", "latency"]), sizes), max_size=3),
        },
    ),
)


def is_sound(order: cleave.Schedule) -> None:
    assert order.verify() == []
    assert order.simulate().makespan > 0
    if order.is_chain:
        assert cleave.read_schedule(order.to_torch_csv()).rows == order.rows


@settings(max_examples=300, deadline=None)
@given(names, counts, counts, counts, costs, times)
def test_fuzzed_names_and_costs(name: str, ranks: Any, microbatches: Any, per_rank: Any, table: Any, hop: Any) -> None:
    try:
        order = cleave.schedule(name, ranks, microbatches, per_rank)
    except named as e:
        assert str(e)
        return
    is_sound(order)
    try:
        run = order.simulate(table, hop=hop)
        assert run.makespan >= max(run.busy)
        order.chart(table, hop=hop)
        order.to_svg(table, hop=hop)
    except named as e:
        assert str(e)


@settings(max_examples=300, deadline=None)
@given(
    some.text('0123FBIWSENDRECV_,\n ;()"', max_size=40) | some.text(max_size=20),
    some.sampled_from([None, "compute_only", "compute_comms"]),
    counts,
)
def test_fuzzed_csv(text: str, form: str | None, ranks: Any) -> None:
    try:
        order = cleave.read_schedule(text + "\n", format=form, ranks=ranks)
        if order.verify():
            return
        order.simulate()
        order.lower()
        order.chart()
    except named as e:
        assert str(e)


@settings(max_examples=200, deadline=None)
@given(
    counts, counts, costs, some.one_of(some.none(), sizes, some.lists(sizes, max_size=4)),
    some.one_of(some.none(), some.lists(sizes, max_size=6)), some.one_of(some.none(), some.lists(counts, max_size=6)),
    some.sampled_from(["whole", "split", "either", "none"]),
)  # fmt: skip
def test_fuzzed_searches(
    ranks: Any, microbatches: Any, table: Any, memory: Any, resident: Any, some_counts: Any, backward: str
) -> None:
    def search() -> None:
        found = cleave.search_schedule(
            ranks, microbatches, table, memory=memory, resident=resident, rank_of=some_counts, backward=backward,
            effort=2000,
        )  # fmt: skip
        assert found.schedule.verify() == [] and found.bound <= found.makespan * (1 + 1e-9)

    def cut() -> None:
        best = cleave.cut_for_schedule(
            ranks, microbatches, table, memory=memory, resident=resident, stages_per_rank=some_counts or 1,
            backward=backward, effort=2000,
        )  # fmt: skip
        assert best.found.schedule.verify() == [] and best.found.bound <= best.found.makespan * (1 + 1e-9)
        assert best.cut == sorted(set(best.cut)) and len(best.cut) == best.found.schedule.stages + 1

    for call in (search, cut):
        try:
            call()
        except named as e:
            assert str(e)


@some.composite
def computations(draw: Any) -> tuple[list[cleave.Node], dict[str, Any]]:
    """A computation of few nodes, which may read what does not exist."""
    count = draw(some.integers(0, 7))
    value = some.sampled_from([f"n{i}" for i in range(8)] + ["x", "w", "ä"])
    nodes = [
        cleave.Node(
            f"n{i}" if draw(some.integers(0, 30)) else "x",
            draw(
                some.lists(
                    some.sampled_from([f"n{j}" for j in range(i)] + ["x", "w"]) if draw(some.integers(0, 9)) else value,
                    max_size=3,
                )
            ),
            draw(times if draw(some.integers(0, 9)) == 0 else some.floats(0, 9)),
            draw(sizes if draw(some.integers(0, 9)) == 0 else some.integers(0, 99)),
            replicable=draw(some.booleans()) and draw(some.booleans()),
            portable=bool(draw(some.integers(0, 5))),
            after=[f"n{draw(some.integers(0, max(i - 1, 0)))}"] if i > 0 and draw(some.integers(0, 5)) == 0 else [],
        )
        for i in range(count)
    ]
    more = draw(
        some.fixed_dictionaries(
            {
                "inputs": some.sampled_from([["x"], {"x": 5}, ["x", "x"], {"x": -1}]),
                "state": some.sampled_from([{"w": 7}, {"w": 2**64}, None]),
            },
            optional={
                "outputs": some.lists(value, max_size=2),
                "memory": sizes | some.lists(sizes, max_size=3),
                "speed": times | some.lists(times, max_size=3),
                "cost_per_byte": times,
                "relayed": some.booleans(),
                "together": some.lists(some.lists(value, max_size=3), max_size=2),
                "fixed": some.dictionaries(value, counts, max_size=2),
                "seed": counts,
            },
        )
    )
    return nodes, more


@settings(max_examples=600, deadline=None)
@given(computations(), counts, some.booleans())
def test_fuzzed_plans(computation: tuple[list[cleave.Node], dict[str, Any]], k: Any, ranked: bool) -> None:
    nodes, more = computation
    if ranked:
        more["schedule"] = cleave.schedule("ZBV", 2, 4)
        k = None
    try:
        made = cleave.plan(nodes, k, **more)
    except named as e:
        assert str(e)
        return
    assert set(made.stage_of) | set(made.replicated) == {node.name for node in nodes}
    assert all(0 <= stage < made.k for stage in made.stage_of.values())
    assert made.bound <= made.bottleneck * (1 + 1e-9) and len(made.rows) == made.k
    for node in nodes:
        for read in node.reads:
            if node.name in made.stage_of and read in made.stage_of:
                assert made.stage_of[read] <= made.stage_of[node.name]
    assert made.report()
