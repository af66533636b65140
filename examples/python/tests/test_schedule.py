# SPDX-License-Identifier: MIT
"""Schedules: those of the tool, PyTorch's CSV, faults, times, pictures, and the search within limits of memory."""

from typing import Any

import pytest

import cleave

CHAIN_NAMES = [name for name in cleave.schedule_names() if name not in ("DualPipe", "Chimera")]


def test_rows_and_shape() -> None:
    s = cleave.schedule("1F1B", ranks=2, microbatches=4)
    assert s.rows == [
        ["0F0", "0F1", "0B0", "0F2", "0B1", "0F3", "0B2", "0B3"],
        ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2", "1F3", "1B3"],
    ]
    assert (s.ranks, s.stages, s.microbatches, s.rank_of) == (2, 2, 4, [0, 1])
    assert s.is_chain and not s.has_messages and s.torch_format == "compute_only"
    assert "1F1B" in repr(s)


@pytest.mark.parametrize("name", cleave.schedule_names())
def test_all_names_can_run(name: str) -> None:
    s = cleave.schedule(name, ranks=4, microbatches=8)
    assert s.name == name
    assert s.verify() == []
    assert s.lower().verify() == []
    assert s.simulate().makespan > 0


@pytest.mark.parametrize("name", CHAIN_NAMES)
def test_csv_comes_back(name: str) -> None:
    s = cleave.schedule(name, ranks=2, microbatches=4)
    for one in (s, s.lower()):
        again = cleave.read_schedule(one.to_torch_csv())
        assert again == one
        assert again.rows == one.rows
        assert again.torch_format == one.torch_format


def test_names_of_torch() -> None:
    assert cleave.schedule("ScheduleZBVZeroBubble", 2, 4) == cleave.schedule("zbv", 2, 4)
    assert cleave.schedule("ScheduleGPipe", 2, 4) == cleave.schedule("GPIPE", 2, 4)


def test_csv_says_chains_alone() -> None:
    with pytest.raises(cleave.OptionError, match="not one chain"):
        cleave.schedule("DualPipe", 2, 4).to_torch_csv()


def test_bad_names_and_counts() -> None:
    with pytest.raises(cleave.ScheduleError, match="no schedule is called") as e:
        cleave.schedule("1F1C", 2, 4)
    assert "1F1B" in e.value.nearest
    with pytest.raises(cleave.ScheduleError, match="each rank must have 2 stages") as e:
        cleave.schedule("ZBV", 2, 4, 3)
    assert (e.value.got, e.value.needed) == (3, 2)
    with pytest.raises(cleave.OptionError, match="ranks is 0"):
        cleave.schedule("1F1B", 0, 4)
    with pytest.raises(TypeError, match="microbatches must be an integer"):
        cleave.schedule("1F1B", 2, 1.5)  # type: ignore[arg-type]
    with pytest.raises(cleave.ScheduleError, match="too many"):
        cleave.schedule("1F1B", 2**31, 2**31)


def test_bad_text() -> None:
    with pytest.raises(cleave.ScheduleError, match="unknown kind") as e:
        cleave.read_schedule("0F0,0B0\n1F0,1Q0\n")
    assert (e.value.rank, e.value.position) == (1, 1)
    with pytest.raises(cleave.ScheduleError, match="2 rows for 3 ranks"):
        cleave.read_schedule("0F0,0B0\n1F0,1B0\n", ranks=3)
    with pytest.raises(cleave.OptionError, match="format is 'csv'"):
        cleave.read_schedule("0F0,0B0\n", format="csv")


def test_faults_have_a_place() -> None:
    wrong = cleave.read_schedule("0F0,0B0\n1B0,1F0\n")
    faults = wrong.verify()
    assert faults[0].code == "out-of-order" and faults[0].rank == 1
    assert "1B0" in faults[0].message
    with pytest.raises(cleave.ScheduleError, match="wait forever"):
        wrong.simulate()
    kept = cleave.schedule("GPipe", 2, 8).verify(most_kept=4)
    assert {fault.code for fault in kept} == {"memory"}


def test_times() -> None:
    s = cleave.schedule("1F1B", ranks=4, microbatches=8)
    t = s.simulate()
    assert t.makespan == 3 * (8 + 3) and t.unit == "F"
    assert t.bubble == pytest.approx(3 / 11)
    assert t.kept == [4, 3, 2, 1]
    assert len(t.spans[0]) == len(s.rows[0])
    slow = s.simulate([{"F": 1, "B": 2}] * 3 + [{"F": 2, "B": 4, "stash": 1024}])
    assert slow.makespan > t.makespan
    assert slow.peak_bytes[3] == 1024
    assert s.simulate([1.0] * 4).makespan == t.makespan
    assert s.simulate(hop=1).makespan > t.makespan
    assert s.simulate({"unit": "ms", "stages": {"F": 2}}).unit == "ms"
    with pytest.raises(cleave.Error, match="3 costs for 4 stages"):
        s.simulate([1.0] * 3)
    with pytest.raises(cleave.Error, match="unknown key"):
        s.simulate({"stages": [{"F": 1, "G": 2}] * 4})


def test_pictures() -> None:
    s = cleave.schedule("ZBV", ranks=4, microbatches=8)
    assert s._repr_svg_().lstrip().startswith("<svg")
    assert "<html" in s.to_html()
    assert "F7" in s.chart()


def test_a_cut_for_the_schedule_beats_all_cuts_with_named_ones() -> None:
    forward = [3.0, 1.0, 1.0, 2.0, 1.0, 4.0, 1.0, 1.0]
    units: dict[str, Any] = {
        "stages": [{"F": f, "B": 2 * f, "I": f, "W": f, "stash": 10} for f in forward],
        "edges": [{"activation": 2, "gradient": 2}] * 7,
        "link": {"bandwidth": 10, "latency": 0.1},
    }
    best = cleave.cut_for_schedule(2, 4, units, effort=300_000)
    assert best.cut[0] == 0 and best.cut[-1] == 8 and len(best.cut) == 3
    order = best.found.schedule
    assert order.verify() == [] and (order.ranks, order.stages, order.microbatches) == (2, 2, 4)
    assert best.found.bound <= best.found.makespan and 0 <= best.gain < 1 and best.cuts == 7

    def costs(place: int) -> dict[str, Any]:
        times = [sum(forward[:place]), sum(forward[place:])]
        return {**units, "stages": [{"F": f, "B": 2 * f, "I": f, "W": f} for f in times], "edges": units["edges"][:1]}

    assert order.simulate(costs(best.cut[1])).makespan == pytest.approx(best.found.makespan)
    for place in range(1, 8):
        for name in ("GPipe", "1F1B"):
            named = cleave.schedule(name, 2, 4)
            assert named.simulate(costs(place)).makespan >= best.found.makespan - 1e-9
    assert cleave.cut_for_schedule(2, 4, units, effort=300_000).found.schedule == order
    several = cleave.cut_for_schedule(2, 4, units, stages_per_rank=[1, 2], effort=300_000)
    assert several.found.makespan <= best.found.makespan

    capped = cleave.cut_for_schedule(2, 4, units, resident=[100, 0, 0, 0, 0, 0, 0, 100], memory=200, effort=100_000)
    assert max(capped.found.peak_bytes) <= 200
    with pytest.raises(cleave.InfeasibleError, match="limit"):
        cleave.cut_for_schedule(2, 4, units, resident=[100] * 8, memory=200)
    with pytest.raises(cleave.Error, match="fewer units than the 9"):
        cleave.cut_for_schedule(9, 4, units)
    with pytest.raises(cleave.Error, match="3 edges for 8 units"):
        cleave.cut_for_schedule(2, 4, {**units, "edges": units["edges"][:3]})
    with pytest.raises(cleave.Error, match="resident: 2 entries for 8 units"):
        cleave.cut_for_schedule(2, 4, units, resident=[1, 2])
    with pytest.raises(cleave.OptionError, match="stages_per_rank is empty"):
        cleave.cut_for_schedule(2, 4, units, stages_per_rank=[])


def test_search_with_a_cap_of_memory() -> None:
    costs = {"stages": [{"F": 1, "I": 1, "W": 1, "stash": 100, "weight_stash": 100}] * 8}
    free = cleave.search_schedule(4, 8, costs, effort=100_000)
    assert free.schedule.verify() == []
    assert free.bound <= free.makespan
    assert free.gap == pytest.approx(free.makespan / free.bound - 1)
    capped = cleave.search_schedule(4, 8, costs, memory=500, effort=100_000)
    assert max(capped.peak_bytes) <= 500 < max(free.peak_bytes)
    assert capped.makespan >= free.bound
    same = cleave.search_schedule(4, 8, costs, memory=500, effort=100_000)
    assert same.schedule == capped.schedule
    with pytest.raises(cleave.InfeasibleError, match="needs 200 bytes at least") as e:
        cleave.search_schedule(4, 8, costs, memory=150)
    assert (e.value.needed, e.value.limit) == (200, 150)  # type: ignore[attr-defined]
    placed = cleave.search_schedule(2, 4, costs, rank_of=[0, 1, 1, 0, 0, 1, 1, 0], effort=1000)
    assert placed.schedule.rank_of == [0, 1, 1, 0, 0, 1, 1, 0]
