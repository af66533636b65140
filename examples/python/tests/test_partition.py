# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cleave
from conftest import grid, metis_file


def test_parts_of_a_grid_are_balanced_and_sound() -> None:
    parts = cleave.partition(grid(40, 60), 6)
    assert parts.labels.shape == (2400,) and parts.labels.dtype == np.int32
    assert parts.k == 6 and parts.cut > 0 and parts.imbalance <= 0.03 and parts.within_limits
    assert parts.part_weights.sum() == 2400
    report = parts.verify()
    assert report and report.sound and report.cut == parts.cut and report.part_sizes == np.bincount(parts).tolist()
    assert [len(m) for m in parts.members()] == report.part_sizes
    assert repr(parts).startswith("<Parts: 2,400 nodes in 6 parts, cut ")


def test_arrays_are_used_in_place() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    for index in (np.int32, np.int64):
        for weight in (np.int64, np.float64):
            indptr, indices = (a.astype(index) for a in grid(5, 5))
            data = np.ones(len(indices), weight)
            for given in (
                (indptr, indices, data),
                scipy.csr_array((data, indices, indptr), shape=(25, 25)),
                scipy.csc_matrix((data, indices, indptr), shape=(25, 25)),
            ):
                g = cleave.as_graph(given)
                assert np.shares_memory(g.indices, getattr(given, "indices", indices))
                assert np.shares_memory(g.indptr, getattr(given, "indptr", indptr))
                assert np.shares_memory(g.data, getattr(given, "data", data) if not isinstance(given, tuple) else data)
                assert g.data is not None
                before = [a.copy() for a in (g.indptr, g.indices, g.data)]
                parts = cleave.partition(g, 5)
                assert parts.graph.indices is g.indices and parts.verify()
                assert all((a == b).all() for a, b in zip(before, (g.indptr, g.indices, g.data)))


def test_a_call_takes_less_memory_than_a_copy_of_the_arrays() -> None:
    script = """
import resource, sys
import numpy as np, cleave
n, degree = 2000, 2000  # 4 million entries in few nodes: coarse levels are small
offsets = np.arange(n + 1, dtype=np.int64) * (degree - 1)
indices = np.concatenate([np.delete(np.arange(n, dtype=np.int32), i) for i in range(n)])
labels = np.repeat(np.arange(2, dtype=np.int32), n // 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cleave.verify((offsets, indices), labels, 2)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, indices.nbytes)
"""
    grown, size = map(
        int, subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    )
    assert grown < size / 2


def test_all_forms_of_a_graph_give_the_same_parts(tmp_path: Path) -> None:
    scipy = pytest.importorskip("scipy.sparse")
    networkx = pytest.importorskip("networkx")
    indptr, indices = grid(30, 30)
    want = cleave.partition((indptr, indices), 4).labels
    ones = np.ones(len(indices), bool)
    matrix = scipy.csr_array((ones, indices, indptr), shape=(900, 900))

    class Tensor:
        """An array of another library."""

        def __init__(self, of: Any) -> None:
            self.of = of

        def __dlpack__(self, **options: Any) -> Any:
            return self.of.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            device: tuple[int, int] = self.of.__dlpack_device__()
            return device

    forms: list[Any] = [
        matrix,
        matrix.tocsc(),
        matrix.tocoo(),
        matrix.tolil(),
        scipy.csr_matrix(matrix),
        matrix.toarray(),
        networkx.from_scipy_sparse_array(matrix, edge_attribute="none"),
        networkx.Graph(networkx.from_scipy_sparse_array(matrix)).subgraph(range(900)),
        (indptr.tolist(), indices.tolist()),
        (indptr.astype(np.int64), indices),
        (indptr, indices.astype(np.int64)),
        (indptr.astype(np.uint64), indices.astype(np.uint16)),
        (indptr.astype(">i4"), np.repeat(indices, 2)[::2]),
        (Tensor(indptr), Tensor(indices)),
        (indptr, indices, np.ones(len(indices))),
        (indptr, indices, np.ones(len(indices), np.float32)),
        (indptr, indices, -np.ones(len(indices))),
        str(metis_file(tmp_path / "grid.graph", cleave.Graph(indptr, indices))),
        tmp_path / "grid.graph",
        cleave.Graph(indptr, indices),
        cleave.as_graph(matrix),
    ]
    for form in forms:
        values: Any = "ignored" if isinstance(form, tuple) and len(form) == 3 and form[2][0] < 0 else None
        assert (cleave.partition(form, 4, values=values).labels == want).all(), type(form)


def test_networkx_graphs_keep_their_names_and_weights() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    graph["a"]["b"]["weight"] = 10
    graph["c"]["d"]["weight"] = 10
    parts = cleave.partition(graph, 2)
    assert parts.cut == 2 and parts.by_name()["a"] == parts.by_name()["b"] != parts.by_name()["c"]
    assert cleave.partition(graph, 2, edge_weight=None, fixed={"a": 0, "b": 1, "c": 1, "d": 0}).cut == 2
    networkx.set_node_attributes(graph, {"a": 3, "b": 1, "c": 1, "d": 1}, "size")
    by_size = cleave.partition(graph, 2, weights="size", eps=0)
    assert sorted(by_size.part_weights.tolist()) == [3, 3]
    assert (cleave.partition(graph, 2, weights={"a": 3, "b": 1, "c": 1, "d": 1}, eps=0).labels == by_size.labels).all()

    several = networkx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 3), (2, 3), (3, 0)])
    assert cleave.partition(several, 2).cut == 2

    graph["b"]["c"]["weight"] = -1
    with pytest.raises(cleave.GraphError, match=r"node #1 is 'b'") as fault:
        cleave.partition(graph, 2)
    assert fault.value.what == "bad_edge_weight" and fault.value.witness["name"] == "b"
    with pytest.raises(cleave.GraphError, match="to_undirected"):
        cleave.partition(networkx.DiGraph(graph), 2)


def test_weights_fixed_nodes_and_shares() -> None:
    rng = np.random.default_rng(3)
    graph = grid(30, 30)
    both = rng.integers(1, 9, (900, 2))
    parts = cleave.partition(graph, 4, weights=both, eps=(0.05, 0.1))
    assert parts.imbalance <= 0.05 and len(parts.further) == 1 and parts.further[0].imbalance <= 0.1
    assert parts.part_weights.tolist() == [both[parts.labels == p, 0].sum() for p in range(4)]
    assert parts.verify() and parts.refine().verify()

    fixed = np.full(900, -1)
    fixed[:3], fixed[-1] = 2, 0
    held = cleave.partition(graph, 4, fixed=fixed)
    assert held.labels[:3].tolist() == [2, 2, 2] and held.labels[-1] == 0 and held.verify()
    assert cleave.partition(graph, 4, fixed={0: 2, 1: 2, 2: 2, 899: 0}).labels.tolist() == held.labels.tolist()

    uneven = cleave.partition(graph, 3, shares=[1, 1, 2])
    assert uneven.part_weights[2] > 420 and uneven.verify()
    assert cleave.partition(graph, 4, connected=True).verify().pieces == [1, 1, 1, 1]


def test_refine_takes_parts_from_anywhere() -> None:
    graph = grid(30, 30)
    rough = np.arange(900) % 3
    before = cleave.verify(graph, rough)
    better = cleave.refine(graph, rough, preset="quality")
    assert before.sound and better.cut < before.cut / 5 and better.verify()
    again = better.refine()
    assert again.cut <= better.cut and again.options.preset == "quality"


def test_verify_lists_faults() -> None:
    graph = grid(10, 10)
    report = cleave.verify(graph, np.zeros(100, int), 2)
    assert not report and [f.what for f in report.findings] == ["overweight", "empty_part"]
    assert report.findings[0].amount == 100 and "part 0 weighs 100" in str(report.findings[0])
    assert [f.what for f in cleave.verify(graph, np.arange(100) // 50, 2, fixed={99: 0}).findings] == ["not_fixed"]
    assert [f.what for f in cleave.verify(graph, np.full(100, -1), 2).findings][:1] == ["no_such_part"]
    stripes = cleave.verify(graph, np.arange(100) // 10 % 2, 2, connected=True)
    assert [f.what for f in stripes.findings] == ["disconnected_part", "disconnected_part"] and stripes.pieces == [5, 5]


def test_repartition_moves_little() -> None:
    graph = grid(40, 40)
    old = cleave.partition(graph, 4)
    weights = np.ones(1600, int)
    weights[:200] = 3
    new = cleave.repartition(graph, old, weights=weights, bytes=np.full(1600, 8), cost_per_byte=0.01)
    assert new.k == 4 and new.within_limits and new.verify() and new.way != "kept"
    moved = (new.labels != old.labels).sum()
    assert new.moved_nodes == moved and new.moved_bytes == 8 * moved
    assert math.isclose(new.objective, new.cut + 0.01 * new.moved_bytes)
    stays = old.labels == 0
    held = cleave.repartition(graph, old, 5, stays=stays)
    assert held.k == 5 and (held.labels[stays] == 0).all()


def test_reads_fractional_weights_of_nets(tmp_path: Path) -> None:
    file = tmp_path / "fractional.hgr"
    file.write_text("2 4 1\n1.5 1 2\n2.5 2 3 4\n")
    parts = cleave.partition_hypergraph(file, 2)
    assert parts.connectivity == 2.5


def test_hypergraphs(tmp_path: Path) -> None:
    nets = [[0, 1, 2], [2, 3], [3, 4, 5], [5, 0]]
    parts = cleave.partition_hypergraph(nets, 2)
    assert parts.connectivity == parts.cut_nets == parts.cut == 2 and parts.verify()
    assert cleave.partition_hypergraph(nets, 2, nodes=8).labels.shape == (8,)
    assert (
        cleave.partition_hypergraph(nets, 2, objective="cut_nets", net_weights=[1, 9, 1, 9], weights=[1] * 6).cut >= 1
    )
    file = tmp_path / "small.hgr"
    file.write_text("4 6\n1 2 3\n3 4\n4 5 6\n6 1\n")
    assert (cleave.partition_hypergraph(file, 2).labels == parts.labels).all()
    scipy = pytest.importorskip("scipy.sparse")
    dense = np.zeros((4, 6))
    for e, net in enumerate(nets):
        dense[e, net] = 1
    assert (cleave.partition_hypergraph(scipy.csr_array(dense), 2).labels == parts.labels).all()
    assert "2 parts" in repr(parts)


def test_a_seed_gives_the_parts_of_the_command_line(tool: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    indptr, indices = grid(50, 40)
    weights = rng.integers(1, 5, 2000)
    ends = np.repeat(np.arange(2000), np.diff(indptr))
    data = (np.minimum(ends, indices) * 7 + np.maximum(ends, indices)) % 5 + 1
    file = metis_file(tmp_path / "g.graph", cleave.Graph(indptr, indices, data, weights))
    for preset in ("fast", "standard", "quality"):
        for seed in (1, 2**63):
            command = [
                tool,
                "partition",
                str(file),
                "-k",
                "7",
                "--preset",
                preset,
                "--seed",
                str(seed),
                "--eps",
                "0.02",
            ]
            out = subprocess.run([*command, "--out", "-"], check=True, capture_output=True, text=True).stdout
            options: Any = {"preset": preset, "seed": seed, "eps": 0.02}
            want = list(map(int, out.split()))
            assert (
                cleave.partition((indptr, indices, data), 7, weights=weights, threads=2, **options).labels.tolist()
                == want
            )
            assert cleave.partition(file, 7, **options).labels.tolist() == want
    hyper = tmp_path / "h.hgr"
    hyper.write_text("4 6\n1 2 3\n3 4\n4 5 6\n6 1\n")
    out = subprocess.run(
        [tool, "partition", str(hyper), "-k", "2", "--out", "-"], check=True, capture_output=True, text=True
    ).stdout
    assert cleave.partition_hypergraph(hyper, 2).labels.tolist() == list(map(int, out.split()))


def test_the_package_runs_the_tool(tool: str) -> None:
    done = subprocess.run([sys.executable, "-m", "cleave", "--version"], capture_output=True, text=True)
    if "built without the tool" in done.stderr:
        pytest.skip("the package was built without the tool")
    assert done.returncode == 0 and done.stdout == f"cleave {cleave.__version__}\n"
    assert subprocess.run([sys.executable, "-m", "cleave", "partition"], capture_output=True).returncode == 2


def test_progress_is_told_and_may_end_the_call() -> None:
    steps: list[tuple[str, int, int]] = []
    graph = cleave.as_graph(grid(60, 60))
    parts = cleave.partition(graph, 8, progress=lambda *step: steps.append(step))
    names = {name for name, _, _ in steps}
    assert {"coarsened", "first_cut", "refined"} <= names <= {"coarsened", "first_cut", "projected", "refined"}
    assert steps[-1][1] == 3600
    assert (cleave.partition(graph, 8).labels == parts.labels).all()

    class Enough(Exception):
        pass

    def stop(name: str, nodes: int, gained: int) -> None:
        raise Enough(name)

    for threads in (1, 2):
        with pytest.raises(Enough):
            cleave.partition(graph, 8, progress=stop, threads=threads)
        with pytest.raises(Enough):
            cleave.repartition(graph, parts, 8, progress=stop, preset="quality", threads=threads)
    assert (cleave.partition(graph, 8).labels == parts.labels).all()


def test_other_threads_run_meanwhile() -> None:
    graph = cleave.as_graph(grid(400, 400))
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    while ticks == 0:
        time.sleep(0.001)
    before = ticks
    cleave.partition(graph, 16, preset="quality")
    after = ticks
    done.set()
    thread.join()
    assert after - before > 5


@pytest.mark.parametrize("threads", [1, 4])
def test_progress_of_a_hypergraph_is_told_and_may_end_the_call(threads: int) -> None:
    nets = [[n, n + 1, n + 50] for n in range(2400 - 50)]
    steps: list[tuple[str, int, int]] = []
    cut = cleave.partition_hypergraph(
        nets, 8, preset="quality", threads=threads, progress=lambda *step: steps.append(step)
    )
    assert (cut.labels == cleave.partition_hypergraph(nets, 8, preset="quality").labels).all()
    assert {name for name, *_ in steps} == {"coarsened", "first_cut", "projected", "refined"}
    assert steps[0][:2] == ("coarsened", 2400) and steps[-1][:2] == ("refined", 2400)

    def stop(step: str, nodes: int, gained: int) -> None:
        raise TimeoutError(step)

    with pytest.raises(TimeoutError, match="coarsened"):
        cleave.partition_hypergraph(nets, 8, threads=threads, progress=stop)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals come to the main thread")
@pytest.mark.parametrize("kind", ["graph", "hypergraph"])
def test_interrupts_end_the_call(kind: str) -> None:
    side = 1200 if kind == "graph" else 400  # which takes seconds
    graph = cleave.as_graph(grid(side, side))
    ended: list[str] = []

    def work() -> None:
        if kind == "graph":
            cleave.partition(graph, 32, preset="quality", progress=lambda name, *_: ended.append(name))
        else:
            pairs = np.stack([np.repeat(np.arange(graph.nodes), np.diff(graph.indptr)), graph.indices], 1)
            h = cleave.Hypergraph(graph.nodes, np.arange(len(pairs) + 1) * 2, pairs.ravel().astype(np.int64))
            cleave.partition_hypergraph(h, 32, preset="standard", progress=lambda name, *_: ended.append(name))

    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        work()
        timer.cancel()
        pytest.fail("the call ended before the interrupt")
    timer.join()
    steps = len(ended)
    time.sleep(1)
    assert len(ended) == steps  # nothing of the call goes on


def test_errors_can_be_sent_to_other_processes() -> None:
    with pytest.raises(cleave.GraphError) as fault:
        cleave.partition((np.array([0, 1, 1]), np.array([1])), 2)
    copy = pickle.loads(pickle.dumps(fault.value))
    assert type(copy) is cleave.GraphError and str(copy) == str(fault.value) and copy.witness == fault.value.witness
    assert copy.what == "one_sided_edge" and copy.node == 0 and copy.arc == 0 and "A + A.T" in str(copy)


def test_parts_can_be_sent_to_other_processes() -> None:
    parts = cleave.partition(grid(10, 10), 2)
    copy = pickle.loads(pickle.dumps(parts))
    assert (copy.labels == parts.labels).all() and copy.verify() and copy.graph.nodes == 100
