# SPDX-License-Identifier: MIT
"""Plans of computations that no framework made."""

import pickle

import pytest

import cleave
from cleave import Node


def chain(costs: list[float]) -> list[Node]:
    nodes = [Node("op0", ["x", "w0"], costs[0], 8)]
    for i, cost in enumerate(costs[1:], 1):
        nodes.append(Node(f"op{i}", [f"op{i - 1}", f"w{i}"], cost, 8))
    return nodes


def state(n: int) -> dict[str, int]:
    return {f"w{i}": 100 for i in range(n)}


def test_balanced_and_bounded() -> None:
    p = cleave.plan(chain([1, 1, 1, 3]), 2, inputs=["x"], state=state(4), outputs=["op3"])
    assert p.stage_of == {"op0": 0, "op1": 0, "op2": 0, "op3": 1}
    assert (p.bottleneck, p.bound, p.gap) == (3, 3, 0)
    assert [row.state for row in p.rows] == [300, 100]
    assert [row.sent for row in p.rows] == [8, 0]
    assert "optimal" in p.report() and str(p) == p.report()
    assert pickle.loads(pickle.dumps(p)) == p


def test_memory() -> None:
    p = cleave.plan(chain([1, 1, 1, 3]), 2, inputs=["x"], state=state(4), memory=200)
    assert [row.state for row in p.rows] == [200, 200]
    with pytest.raises(cleave.InfeasibleError, match="limit is 100 bytes"):
        cleave.plan(chain([1, 1, 1, 3]), 2, inputs=["x"], state=state(4), memory=100)


def test_speeds() -> None:
    p = cleave.plan(chain([1] * 6), 2, inputs=["x"], state=state(6), speed=[1, 2])
    assert [row.nodes for row in p.rows] == [2, 4]


def test_ranks_of_a_schedule() -> None:
    order = cleave.schedule("ZBV", ranks=2, microbatches=4)
    p = cleave.plan(chain([1, 1, 1, 1, 1, 3]), schedule=order, inputs=["x"], state=state(6))
    assert p.rank_of == (0, 1, 1, 0)
    assert sorted(p.rank_loads) == [4, 4]
    assert p.gap == 0


def test_replicable_nodes_are_in_no_stage() -> None:
    nodes = [
        Node("mask", [], 0.1, 10**6, replicable=True),
        Node("a", ["x", "mask"], 1, 8),
        Node("b", ["a", "mask"], 1, 8),
    ]
    p = cleave.plan(nodes, 2, inputs=["x"], cost_per_byte=1)
    assert p.replicated == ("mask",)
    assert p.stage_of == {"a": 0, "b": 1}
    assert p.rows[0].sent == 8


def test_together_and_fixed() -> None:
    p = cleave.plan(chain([1, 1, 1, 1]), 2, inputs=["x"], state=state(4), together=[["op0", "op2"]])
    assert p.stage_of == {"op0": 0, "op1": 0, "op2": 0, "op3": 1}
    p = cleave.plan(chain([1, 1, 1, 1]), 2, inputs=["x"], state=state(4), fixed={"op1": 1})
    assert p.stage_of["op0"] == 0 and p.stage_of["op1"] == 1


def test_bad_input() -> None:
    with pytest.raises(cleave.GraphError, match="names 'y', which does not exist"):
        cleave.plan([Node("a", ["y"])], 1)
    with pytest.raises(cleave.GraphError, match="not before it"):
        cleave.plan([Node("a", ["b"]), Node("b")], 1)
    with pytest.raises(cleave.GraphError, match="are called 'a'"):
        cleave.plan([Node("a"), Node("a")], 1)
    with pytest.raises(cleave.Error, match="the cost of node 'a' is -1.0; expected 0"):
        cleave.plan([Node("a", [], -1)], 1)
    with pytest.raises(cleave.OptionError, match="k is missing"):
        cleave.plan([Node("a")])
    with pytest.raises(cleave.OptionError, match="k is 0"):
        cleave.plan([Node("a")], 0)
    with pytest.raises(cleave.InfeasibleError, match="only 1 nodes"):
        cleave.plan([Node("a")], 2)
    with pytest.raises(TypeError, match="k must be an integer"):
        cleave.plan([Node("a")], 1.5)  # type: ignore[arg-type]
