# SPDX-License-Identifier: MIT
"""Whatever is passed, an exception names what is wrong, or sound parts come back. The interpreter never crashes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cleave
from conftest import grid

indptr, indices = grid(4, 4)
ones = np.ones(len(indices))


def changed(array: Any, at: int, to: Any) -> Any:
    """Returns a copy with another entry."""
    copy = np.array(array)
    copy[at] = to
    return copy


def both_ends(first: int, second: int, to: float) -> Any:
    """Returns weights of the grid's edges, one of which is changed at both of its ends."""
    weights = ones.copy()
    for a, b in ((first, second), (second, first)):
        weights[indptr[a] + list(indices[indptr[a] : indptr[a + 1]]).index(b)] = to
    return weights


graph_faults: list[tuple[Any, str, str]] = [
    ((indptr, changed(indices, 3, 16)), "no_such_node", "neighbour 16, but the graph has only 16 nodes"),
    ((indptr, changed(indices, 3, -1)), "no_such_node", "neighbour -1"),
    ((indptr, changed(indices, 0, 5)), "one_sided_edge", r"A \+ A\.T"),
    ((indptr, indices, changed(ones, 0, 2)), "one_sided_edge", "list each edge at both ends"),
    ((indptr, indices, both_ends(0, 1, -1)), "bad_edge_weight", "finite and not negative"),
    ((indptr, indices, both_ends(0, 1, np.nan)), "bad_edge_weight", "nan"),
    ((indptr, indices, both_ends(0, 1, np.inf)), "bad_edge_weight", "inf"),
    ((indptr, indices, both_ends(0, 1, 1.5e308)), "edges_too_heavy", "larger unit"),
    ((indptr, indices, np.full(len(indices), 2**60)), "edges_too_heavy", "larger unit"),
    ((indptr, indices, ones[1:]), "wrong_length", "data has 47 entries"),
    ((changed(indptr, 0, 1), indices), "offsets_out_of_range", r"indptr\[0\] is 1"),
    ((changed(indptr, 4, -5), indices), "offsets_out_of_range", r"indptr\[4\] is -5"),
    ((indptr[:-1], indices), "offsets_out_of_range", r"there are 48 arcs"),
    (([], []), "offsets_out_of_range", "indptr is empty"),
    (np.ones((3, 4)), "not_square", r"\(3, 4\)"),
    (np.triu(np.ones((3, 3))), "one_sided_edge", r"A \+ A\.T"),
    ((indptr, indices.astype(np.uint64) + np.uint64(2**63)), "no_such_node", "2\\^63"),
]


@pytest.mark.parametrize(("given", "what", "words"), graph_faults, ids=lambda x: x if isinstance(x, str) else "")
def test_a_broken_graph_is_named(given: Any, what: str, words: str) -> None:
    for call in (
        lambda: cleave.partition(given, 2),
        lambda: cleave.refine(given, np.zeros(16, int), 2),
        lambda: cleave.verify(given, np.zeros(16, int), 2),
        lambda: cleave.repartition(given, np.zeros(16, int), 2),
    ):
        try:
            call()
            raised: Any = None
        except cleave.OptionError:  # the labels do not fit the other number of nodes
            continue
        except cleave.Error as e:
            raised = e
        assert isinstance(raised, cleave.GraphError) and isinstance(raised, ValueError)
        assert raised.what == what and re.search(words, str(raised)), str(raised)


option_faults: list[tuple[dict[str, Any], str, type[Exception]]] = [
    ({"k": 0}, "k is 0", cleave.OptionError),
    ({"k": -1}, "k is -1", cleave.OptionError),
    ({"k": 17}, "a part needs a node", cleave.OptionError),
    ({"k": 2**40}, "k is 1099511627776", cleave.OptionError),
    ({"k": 2.0}, "whole number", TypeError),
    ({"k": "2"}, "whole number", TypeError),
    ({"eps": -0.1}, "eps is -0.1", cleave.OptionError),
    ({"eps": float("nan")}, "eps is nan", cleave.OptionError),
    ({"eps": float("inf")}, "eps is inf", cleave.OptionError),
    ({"eps": (0.1, 0.1)}, "nodes have 1 weight", cleave.OptionError),
    ({"eps": "much"}, "expected a number", TypeError),
    ({"eps": []}, "eps has 0 numbers", cleave.OptionError),
    ({"preset": "best"}, "'fast', 'standard', 'quality'", cleave.OptionError),
    ({"weights": [1] * 15}, r"shape \(15,\)", cleave.OptionError),
    ({"weights": changed(np.ones(16), 3, -1)}, "node #3 weighs -1", cleave.GraphError),
    ({"weights": changed(np.ones(16), 3, np.nan)}, "node #3 weighs", cleave.GraphError),
    ({"weights": np.full(16, 2**60)}, "larger unit", cleave.GraphError),
    ({"weights": np.full((16, 2), -1.0)}, "weigh", cleave.Error),
    ({"weights": np.full((16, 0), 1.0)}, "shape", cleave.OptionError),
    ({"weights": np.array([1j] * 16)}, "complex128", TypeError),
    ({"weights": ["heavy"] * 16}, "expected integers or floats", TypeError),
    ({"weights": [[1], [2, 3]]}, "no array of numbers", TypeError),
    ({"weights": "size"}, "NetworkX", TypeError),
    ({"weights": {0: 1}}, "no entry for node 1", cleave.OptionError),
    ({"fixed": [5] * 16}, "node #0 the part 5", cleave.OptionError),
    ({"fixed": [-2] * 16}, "expected a part below 2", cleave.OptionError),
    ({"fixed": [0] * 3}, "3 entries", cleave.OptionError),
    ({"fixed": [0.0] * 16}, "float64", TypeError),
    ({"fixed": {16: 0}}, "not a node", cleave.OptionError),
    ({"fixed": {"a": 0}}, "not a node", cleave.OptionError),
    ({"shares": [1]}, "1 shares for 2 parts", cleave.OptionError),
    ({"shares": [1, -1]}, "share 1 is negative", cleave.OptionError),
    ({"shares": [0, 0]}, "all shares are 0", cleave.OptionError),
    ({"shares": [1, np.nan]}, "share 1", cleave.OptionError),
    ({"seed": -1}, "seed is -1", cleave.OptionError),
    ({"seed": 2**64}, "seed is", cleave.OptionError),
    ({"threads": 0}, "threads is 0", cleave.OptionError),
    ({"threads": 10**6}, "expected 1 to 1024", cleave.OptionError),
    ({"progress": 3}, "expected a function", TypeError),
    ({"values": "real"}, "'weights', 'ignored'", cleave.OptionError),
]


@pytest.mark.parametrize(
    ("options", "words", "kind"), option_faults, ids=lambda x: str(x)[:30] if isinstance(x, dict) else ""
)
def test_a_wrong_argument_is_named(options: dict[str, Any], words: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=words):
        cleave.partition((indptr, indices), **{"k": 2, **options})


@pytest.mark.parametrize("given", [None, 3, object(), [1, 2], (1,), (1, 2, 3, 4), {0: [1]}, b"x"], ids=repr)
def test_what_is_no_graph_is_refused(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="no graph|dimensions|embedded"):
        cleave.partition(given, 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((indptr.astype(float), indices), "indptr has dtype float64"),
        ((indptr, indices.astype(float)), "indices has dtype float64"),
        ((indptr, np.array(["1"] * 48)), "indices has dtype <U1"),
        ((indptr, indices, ones.astype(object)), "data has dtype object"),
        ((indptr, indices, ones.astype(np.longdouble)), "convert it to float64"),
    ],
)
def test_a_wrong_dtype_is_named(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        cleave.partition(given, 2)


def test_a_bad_file_is_named_with_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cleave.partition(tmp_path / "missing.graph", 2)
    file = tmp_path / "bad.graph"
    file.write_text("2 1\n2\nx\n")
    with pytest.raises(cleave.FileError, match="bad.graph: line 3, column 1") as fault:
        cleave.partition(file, 2)
    assert (fault.value.line, fault.value.column) == (3, 1)
    with pytest.raises(cleave.FileError):
        cleave.partition(tmp_path, 2)
    dag = tmp_path / "operations.dag"
    dag.write_text("dag 0 0\n")
    with pytest.raises(cleave.GraphError, match="python -m cleave partition"):
        cleave.partition(dag, 2)
    with pytest.raises(cleave.HypergraphError, match="known suffixes"):
        cleave.partition_hypergraph(file, 2)


def test_a_broken_hypergraph_is_named() -> None:
    with pytest.raises(cleave.HypergraphError, match="pin 1, of net #0, is not a node") as fault:
        cleave.partition_hypergraph([[0, -1], [1]], 2)
    assert fault.value.what == "no_such_node" and fault.value.net == 0 and fault.value.pin == 1
    with pytest.raises(cleave.HypergraphError, match="not a node"):
        cleave.partition_hypergraph([[0, 9]], 2, nodes=4)
    with pytest.raises(cleave.HypergraphError, match="net #1 is negative"):
        cleave.partition_hypergraph([[0, 1], [1, 2]], 2, net_weights=[1, -1])
    with pytest.raises(cleave.HypergraphError, match="length"):
        cleave.partition_hypergraph([[0, 1], [1, 2]], 2, net_weights=[1])
    with pytest.raises(TypeError, match="net 1"):
        cleave.partition_hypergraph([[0, 1], ["a"]], 2)  # type: ignore[list-item]
    many: list[tuple[Any, dict[str, Any]]] = [
        ([[2**40]], {}),
        ([[0, 1]], {"nodes": 2**31 - 1}),
        ([[0, 1]], {"nodes": -1}),
    ]
    for nets, more in many:  # gigabytes for nodes in no net
        with pytest.raises(cleave.HypergraphError, match="at most 10485"):
            cleave.partition_hypergraph(nets, 2, **more)
    with pytest.raises(cleave.OptionError, match="objective"):
        cleave.partition_hypergraph([[0, 1]], 2, objective="edges")  # type: ignore[arg-type]


def test_repartition_into_very_many_parts_takes_little_memory() -> None:
    code = """
import resource
import numpy as np
import cleave
n = np.arange(5000)
indptr = np.concatenate([[0, 1], np.arange(3, 9999, 2), [9998]])
indices = np.concatenate([[1], np.stack([n[1:-1] - 1, n[1:-1] + 1], 1).ravel(), [4998]])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20),) * 2)  # a byte for each pair of parts needs 4 GiB
for old in (n % 60_000, n * 13):
    moved = cleave.repartition((indptr, indices), old, 65_000, preset="fast")
    assert moved.k == 65_000 and (moved.labels == old).all(), moved
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_graph_of_ones_own_may_have_lists() -> None:
    own = cleave.Graph(indptr.tolist(), indices.tolist(), None, [1] * 16)  # type: ignore[arg-type]
    assert (cleave.partition(own, 2).labels == cleave.partition((indptr, indices), 2).labels).all()
    with pytest.raises(TypeError, match="indices has dtype float64"):
        cleave.Graph(indptr, [0.5])  # type: ignore[arg-type]


hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as some  # noqa: E402

numbers = some.one_of(
    some.integers(-3, 12),
    some.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, -(2**31), -(2**63)]),
    some.floats(allow_nan=True, allow_infinity=True),
)
dtypes = some.sampled_from(
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 bool complex64 object".split()
)


@some.composite
def arrays(draw: Any) -> Any:
    """Any list of numbers, as a list or as an array of any dtype, order and dimension."""
    values = draw(some.lists(numbers, max_size=12))
    if draw(some.booleans()):
        return values
    with np.errstate(all="ignore"):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                array = np.array(values, dtype="float64").astype(draw(dtypes))
            except (OverflowError, ValueError, TypeError):
                return values
    return draw(
        some.sampled_from(
            [array, array[::-1], array[::2], array.reshape(-1, 1), array.astype(array.dtype.newbyteorder(">"))]
        )
    )


@some.composite
def graphs(draw: Any) -> Any:
    """A sound graph of few nodes, most arrays of which may be changed at one place."""
    count = draw(some.integers(0, 9))
    pairs = (
        draw(
            some.lists(
                some.tuples(some.integers(0, max(count - 1, 0)), some.integers(0, max(count - 1, 0))), max_size=20
            )
        )
        if count
        else []
    )
    ends = [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs if a != b]
    ends.sort()
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount([a for a, _ in ends], minlength=count)[:count] if count else [], out=first[1:])
    to = np.array([b for _, b in ends], np.int64)
    data = np.array(
        [(min(a, b) * 3 + max(a, b)) % 4 for a, b in ends], draw(some.sampled_from(["int64", "float64", "float32"]))
    )
    parts: list[Any] = [first, to, data]
    for i in range(3):
        parts[i] = parts[i].astype(draw(some.sampled_from(["int32", "int64"]))) if i < 2 else parts[i]
        if len(parts[i]) and draw(some.integers(0, 5)) == 0:
            with np.errstate(all="ignore"):
                try:
                    parts[i][draw(some.integers(0, len(parts[i]) - 1))] = draw(numbers)
                except (OverflowError, ValueError):
                    pass
    return tuple(parts[: draw(some.sampled_from([2, 3]))])


options = some.fixed_dictionaries(
    {},
    optional={
        "eps": some.one_of(numbers, arrays()),
        "preset": some.sampled_from(["fast", "standard", "quality"]),
        "weights": some.one_of(arrays(), some.none()),
        "fixed": some.one_of(arrays(), some.dictionaries(numbers, numbers, max_size=3)),
        "shares": arrays(),
        "connected": some.booleans(),
        "seed": numbers,
        "threads": some.integers(-1, 3),
    },
)
named = (cleave.Error, TypeError, ValueError)


@settings(max_examples=400, deadline=None)
@given(graphs(), some.one_of(some.integers(1, 4), numbers), options)
def test_fuzzed_graphs_give_sound_parts_or_an_error(graph: Any, k: Any, more: dict[str, Any]) -> None:
    try:
        parts = cleave.partition(graph, k, **more)
    except named as e:
        assert str(e)
        return
    assert parts.labels.shape == (parts.graph.nodes,)
    report = parts.verify()
    assert {f.what for f in report.findings} <= {"overweight", "empty_part", "disconnected_part"}
    assert np.isclose(float(report.cut), float(parts.cut))
    parts.refine(preset="fast")


@settings(max_examples=300, deadline=None)
@given(some.tuples(arrays(), arrays()) | some.tuples(arrays(), arrays(), arrays()) | arrays(), numbers, options)
def test_fuzzed_arrays_give_an_error_or_parts(graph: Any, k: Any, more: dict[str, Any]) -> None:
    try:
        cleave.partition(graph, k, **more)
    except named as e:
        assert str(e)


@settings(max_examples=300, deadline=None)
@given(
    graphs(),
    arrays(),
    some.one_of(some.none(), numbers),
    some.one_of(some.none(), arrays()),
    some.one_of(some.none(), arrays()),
    options,
)
def test_fuzzed_labels_give_an_error_or_parts(
    graph: Any, labels: Any, k: Any, loads: Any, stays: Any, more: dict[str, Any]
) -> None:
    for call in (
        lambda: cleave.refine(graph, labels, k, **more),
        lambda: cleave.repartition(graph, labels, k, bytes=loads, stays=stays, **more),
        lambda: cleave.verify(graph, labels, k),
    ):
        try:
            call()
        except named as e:
            assert str(e)


@settings(max_examples=300, deadline=None)
@given(
    some.one_of(some.lists(some.lists(some.integers(-1, 9), max_size=5), max_size=8), some.lists(arrays(), max_size=4)),
    some.one_of(some.integers(1, 4), numbers),
    some.one_of(some.none(), arrays()),
    some.one_of(some.none(), numbers),
    some.sampled_from(["connectivity", "cut_nets"]),
    options,
)
def test_fuzzed_hypergraphs_give_sound_parts_or_an_error(
    nets: Any, k: Any, net_weights: Any, nodes: Any, objective: Any, more: dict[str, Any]
) -> None:
    more.pop("connected", None)
    try:
        parts = cleave.partition_hypergraph(nets, k, net_weights=net_weights, nodes=nodes, objective=objective, **more)
    except named as e:
        assert str(e)
        return
    report = parts.verify()
    assert {f.what for f in report.findings} <= {"overweight", "empty_part"}
    assert np.isclose(float(report.cut), float(parts.cut))


@settings(max_examples=200, deadline=None)
@given(
    some.sampled_from(["graph", "mtx", "edges", "dimacs", "hgr", "u"]),
    some.binary(max_size=60) | some.text("0123456789 -.%epn\n", max_size=60),
)
def test_fuzzed_files_give_an_error_or_parts(suffix: str, content: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"g.{suffix}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        try:
            cleave.partition_hypergraph(file, 2) if suffix in ("hgr", "u") else cleave.partition(file, 2)
        except named as e:
            assert str(e)
