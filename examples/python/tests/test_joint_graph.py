# SPDX-License-Identifier: MIT
"""The passes of a graph of forward and backward operations, with known answers; and lists that are none."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import cleave

LAYERS = 4


def layers() -> dict[str, Any]:
    """Products with a gelu behind each. A value of a layer has 100 bytes, one behind a gelu 50."""
    names, size = ["x"], [10]
    reads: list[list[int]] = [[]]
    values, weights = [0], []

    def node(name: str, bytes_: int, *read: int) -> int:
        names.append(name)
        reads.append(list(read))
        size.append(bytes_)
        return len(names) - 1

    for i in range(LAYERS):
        weights.append(node(f"w{i}", 1000))
        values.append(node(f"h{i}", 100, values[-1], weights[-1]))
        values.append(node(f"y{i}", 50, values[-1]))
    gradient = arrives = node("dy", 50)
    returned = []
    for i in reversed(range(LAYERS)):
        gradient = node(f"dh{i}", 100, gradient, values[2 * i + 1])
        returned.append(node(f"dw{i}", 1000, gradient, values[2 * i]))
        gradient = node(f"dx{i}", 50, gradient, weights[i])
    return {
        "reads": reads,
        "bytes": size,
        "names": names,
        "inputs": [0],
        "parameters": weights,
        "gradients": [arrives],
        "results": [values[-1]],
        "input_gradients": [gradient],
        "weight_gradients": returned,
    }


def names_of(graph: dict[str, Any], nodes: tuple[int, ...]) -> list[str]:
    return [graph["names"][n] for n in nodes]


def test_prices() -> None:
    g = layers()
    dear = cleave.cut_joint_graph(**g, bytes_per_cost=1e6)
    assert dear.again == () and dear.cost == 0 and dear.least
    assert names_of(g, dear.saved) == ["x", "h0", "y0", "h1", "y1", "h2", "y2", "h3"]
    assert dear.saved_bytes == dear.bytes == 10 + 4 * 100 + 3 * 50 == dear.bound
    assert dear.weight == dear.kept == () and dear.kept_bytes == 0
    few = cleave.cut_joint_graph(**g)
    assert names_of(g, few.saved) == ["x"] and few.bytes == 10 and few.cost == len(few.again) == 7 and few.least
    assert set(few.again) == set(few.forward) & set(few.backward)
    assert str(few) == "10 bytes, 7 operations again at a cost of 7, the least"
    some = cleave.cut_joint_graph(**g, bytes_per_cost=60)
    assert some.bound == some.bytes + 60 * some.cost < min(dear.bytes, few.bytes + 7 * 60)
    assert pickle.loads(pickle.dumps(some)) == some
    costs = np.ones(len(g["reads"]))
    costs[few.again[0]] = 1e9
    assert few.again[0] not in cleave.cut_joint_graph(**g, cost=costs, bytes_per_cost=1).again


def test_limits_and_copies() -> None:
    g = layers()
    for copies in (1, 3):
        last = 0.0
        for limit in (560, 400, 300, 200, 110, 60, 10):
            cut = cleave.cut_joint_graph(**g, most_bytes=limit * copies, in_flight=copies)
            assert cut.bytes == copies * cut.saved_bytes <= copies * limit and cut.cost >= last >= 0
            assert cut.bound <= cut.cost and (not cut.least or cut.bound >= cut.cost * (1 - 1e-6))
            last = cut.cost
        assert last == 7
    with pytest.raises(cleave.InfeasibleError, match="the limit of 9 bytes is too low: 10 bytes are needed"):
        cleave.cut_joint_graph(**g, most_bytes=9)
    split = cleave.cut_joint_graph(**g, bytes_per_cost=1e6, in_flight=4, weights_in_flight=2)
    assert {names_of(g, (n,))[0][:2] for n in split.weight} == {"dw"}
    assert split.bytes == 4 * split.saved_bytes + 2 * split.kept_bytes and split.kept_bytes > 0


def test_run_once_and_unsavable() -> None:
    g = layers()
    every = cleave.cut_joint_graph(**g)
    run_once = np.zeros(len(g["reads"]), bool)
    run_once[[g["names"].index("h1"), g["names"].index("y2")]] = True
    cut = cleave.cut_joint_graph(**g, run_once=run_once)
    assert cut.bytes > every.bytes and not set(np.flatnonzero(run_once)) & set(cut.again)
    assert cut == cleave.cut_joint_graph(**g, run_once=np.flatnonzero(run_once))
    gelu = g["names"].index("y0")
    made = cleave.cut_joint_graph(**g, unsavable=[gelu], bytes_per_cost=1e6)
    assert made.again == (gelu,)
    with pytest.raises(cleave.InfeasibleError, match=r"node y0 \(#3\)"):
        cleave.cut_joint_graph(**g, run_once=[gelu], unsavable=[gelu])


def test_what_is_no_joint_graph() -> None:
    g = layers()

    def refused(what: str, match: str, **change: Any) -> cleave.GraphError:
        with pytest.raises(cleave.GraphError, match=match) as e:
            cleave.cut_joint_graph(**{**g, **change})
        assert e.value.what == what
        return e.value

    late = [list(row) for row in g["reads"]]
    late[2] = [3]
    assert refused("late_read", r"node h0 \(#2\) reads a node that does not precede it", reads=late).node == 2
    late[2] = [-1]
    refused("late_read", "does not precede it", reads=late)
    refused("wrong_length", "one entry per node", bytes=[1, 2])
    refused("wrong_length", "one entry per node", names=["x"])
    assert refused("bad_cost", "must be finite", cost=[-1.0] * len(g["reads"])).node == 0
    refused("bad_cost", "must be finite", cost=[float("nan")] * len(g["reads"]))
    assert refused("no_such_node", "results lists node #99", results=[99]).node == 99
    refused("no_such_node", "run_once lists node #-1", run_once=[-1])
    assert refused("two_sources", "gradients lists node #0", gradients=[0]).node == 0
    refused("reading_source", "is an input, a parameter or a gradient, but reads", inputs=[0, 2])
    refused("late_result", "depends on a gradient", results=[len(g["reads"]) - 1])
    refused("bad_bytes", "bytes of node #0", bytes=[-1] * len(g["reads"]))
    refused("too_many_bytes", "exceed", bytes=[2**62] * len(g["reads"]))
    wrong: list[dict[str, Any]] = [
        {"most_bytes": -1},
        {"bytes_per_cost": -1.0},
        {"bytes_per_cost": float("nan")},
        {"in_flight": 0},
        {"weights_in_flight": 2**21},
        {"run_once": [True]},
    ]
    for options in wrong:
        with pytest.raises(cleave.OptionError) as e:
            cleave.cut_joint_graph(**g, **options)
        assert [e.value.option] == list(options)
    with pytest.raises(TypeError):
        cleave.cut_joint_graph(**{**g, "bytes": [1.5] * len(g["reads"])})
    with pytest.raises(TypeError):
        cleave.cut_joint_graph(**{**g, "reads": [["x"]]})
    empty = cleave.cut_joint_graph([], [])
    assert empty.forward == empty.backward == () and empty.bytes == 0 and empty.least
