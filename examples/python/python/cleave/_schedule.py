# SPDX-License-Identifier: MIT
"""Pipeline schedules: made by name, read from PyTorch's CSV, or searched for under costs and limits of memory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _native
from ._numbers import most_bytes, whole, wholes
from .errors import OptionError

__all__ = [
    "Fault",
    "FoundSchedule",
    "Schedule",
    "ScheduledCut",
    "Simulation",
    "cut_for_schedule",
    "read_schedule",
    "schedule",
    "schedule_names",
    "search_schedule",
]

Costs = Mapping[str, Any] | Sequence[Mapping[str, float] | float] | str | os.PathLike[str]
"""Costs of stages. A mapping in the format of a costs file (`stages`, `unit`, `hop`, `link`, `links`, `edges`); a list
with an entry for each stage, `{"F": 1.5, "B": 3}` or the time of F alone; or the path of a costs file."""


@dataclass(frozen=True)
class Fault:
    """A reason why a schedule cannot run."""

    code: str
    """Such as `out-of-order`, `deadlock` or `forward-missing`. Codes do not change from version to version."""
    rank: int
    position: int
    """The index in the list of the rank, where the parts of a compound count."""
    message: str


@dataclass(frozen=True)
class Simulation:
    """The times of a schedule, in `unit`."""

    makespan: float
    """The time at which the last rank ends."""
    bubble: float
    """The share of the time of all ranks in which they do not compute, from 0 to 1."""
    busy: list[float]
    """For each rank, the time in which it computes."""
    first: list[float]
    """For each rank, the time at which it begins."""
    last: list[float]
    """For each rank, the time at which it ends."""
    kept: list[int]
    """For each rank, the largest number of forward passes whose activations it keeps at a time."""
    peak_bytes: list[int]
    """For each rank, the most bytes of activations at a time. Empty if the costs have no bytes."""
    spans: list[list[tuple[float, float]]]
    """For each action of `Schedule.rows`, when it begins and ends."""
    unit: str
    """The unit of all times. `F` is what the forward pass of all stages of a rank takes for a microbatch."""


class Schedule:
    """The actions of each rank in one step of training, in order. Made by `schedule`, `read_schedule` and
    `search_schedule`."""

    def __init__(self, order: _native.Order) -> None:
        self._order = order
        shape = _native.schedule_shape(order)
        self.name: str = order.name
        self.ranks: int = shape["ranks"]
        self.stages: int = shape["stages"]
        self.microbatches: int = shape["microbatches"]
        self.rank_of: list[int] = shape["rank_of"]
        """The rank of each stage."""
        self.edges: list[tuple[int, int]] = shape["edges"]
        """The stages that feed each other."""
        self.has_messages: bool = shape["has_messages"]
        """Whether the rows have messages and all else that a run needs, as those of `lower` do."""
        self.is_chain: bool = shape["is_chain"]
        """Whether stage s feeds stage s + 1, and no other."""

    @property
    def rows(self) -> list[list[str]]:
        """For each rank its actions, such as `0F3`: stage, kind, microbatch. An idle step is an empty text."""
        return _native.schedule_rows(self._order)

    def stages_of(self, rank: int) -> list[int]:
        """The stages of a rank, ascending."""
        return [stage for stage, home in enumerate(self.rank_of) if home == rank]

    def to_torch_csv(self, file: str | os.PathLike[str] | None = None) -> str:
        """Returns the rows as the CSV of torch.distributed.pipelining, and writes them to `file` if it is given.

        torch reads them with `_load_csv`; the format is `compute_comms` if the schedule has messages, else
        `compute_only`. CSV can only say a chain of stages.
        """
        if not self.is_chain:
            raise OptionError(
                f"the stages of {self.name} are not one chain, and PyTorch's CSV has no other; choose another schedule",
                option="schedule",
            )
        text = _native.schedule_csv(self._order)
        if file is not None:
            Path(file).write_text(text, newline="")
        return text

    @property
    def torch_format(self) -> str:
        """The format of `to_torch_csv` that torch's `_load_csv` must be told."""
        return "compute_comms" if self.has_messages else "compute_only"

    def lower(self) -> Schedule:
        """Returns the schedule with the messages and all other actions that a run needs."""
        return Schedule(_native.lower_schedule(self._order))

    def verify(self, *, most_kept: int = 0) -> list[Fault]:
        """Returns all faults; an empty list if the schedule can run. `most_kept` limits the forward passes whose
        activations a rank keeps at a time; 0 is no limit."""
        return [Fault(*fault) for fault in _native.verify_schedule(self._order, most_kept)]

    def simulate(
        self, costs: Costs | None = None, *, hop: float | None = None, noise: float = 0, seed: int = 0
    ) -> Simulation:
        """Returns the time of each action. Each rank runs its list in order, each action as soon as it can.

        costs   times of the stages, see `Costs`; by default F, I and W of all stages of a rank take 1, and B takes 2
        hop     the time of each message between ranks; by default that of the costs, or 0
        noise   the largest share by which each time deviates, from 0 to 1
        """
        return Simulation(**_native.simulate_schedule(self._order, _text_of(costs), _hop(hop), noise, seed))

    def to_svg(self, costs: Costs | None = None, *, hop: float | None = None) -> str:
        """Returns a picture in SVG: a row for each rank, a bar for each action, bubbles hatched, memory below."""
        return _native.draw_schedule(self._order, _text_of(costs), _hop(hop), "svg")

    def to_html(self, costs: Costs | None = None, *, hop: float | None = None) -> str:
        """Returns a page with the picture and a table, which needs nothing else."""
        return _native.draw_schedule(self._order, _text_of(costs), _hop(hop), "html")

    def chart(self, costs: Costs | None = None, *, hop: float | None = None) -> str:
        """Returns a picture in text, with a line for each rank."""
        return _native.draw_schedule(self._order, _text_of(costs), _hop(hop), "text")

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self._order == other._order

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.name}: {self.ranks} ranks, {self.stages} stages, {self.microbatches} microbatches>"


@dataclass(frozen=True)
class FoundSchedule:
    """A schedule that was searched for, and what is proven about it. Times are in the unit of the costs."""

    schedule: Schedule
    makespan: float
    bound: float
    """No schedule of this step takes less, on any placement that was allowed."""
    gap: float
    """The makespan is at most this share above the optimum."""
    reason: str
    """What the bound comes from: `work`, `path`, `rank` or `memory`."""
    peak_bytes: list[int]
    """For each rank, the most bytes at a time, resident ones included."""
    began_with: str
    """The schedule from which the search started, and its time `began_at`."""
    began_at: float
    best_family: str
    """The best schedule that has a name; empty if none fits into the memory."""
    best_family_makespan: float


@dataclass(frozen=True)
class ScheduledCut:
    """A row of units cut into stages, with a schedule of them: made together, for the shortest step."""

    cut: list[int]
    """Stage s has the units from `cut[s]` to `cut[s + 1] - 1`."""
    found: FoundSchedule
    bottleneck_cut: list[int] | None
    """The cut whose slowest stage is fastest; None if none of its schedules fits into the memory."""
    bottleneck: FoundSchedule | None
    """What the same search finds for that cut."""
    cuts: int
    """The number of cuts that were tried."""

    @property
    def gain(self) -> float:
        """The share of the time of a step that this cut saves, compared with the bottleneck cut."""
        if self.bottleneck is None or self.bottleneck.makespan <= 0:
            return 0.0
        return 1 - self.found.makespan / self.bottleneck.makespan


def schedule_names() -> list[str]:
    """Returns the names that `schedule` knows."""
    return _native.schedule_names()


def schedule(name: str, ranks: int, microbatches: int, stages_per_rank: int | None = None) -> Schedule:
    """Makes the schedule with this name, such as `1F1B`, `Interleaved1F1B`, `ZBV` or `ScheduleGPipe`, in any case.

    ranks            the number of devices
    microbatches     the number of pieces of a batch
    stages_per_rank  by default what the schedule requires, or 2

    Raises `ScheduleError` for an unknown name (its attribute `nearest` has similar ones) and for counts that the
    schedule does not take (`got`, `needed`).
    """
    counts = {"ranks": ranks, "microbatches": microbatches}
    if stages_per_rank is not None:
        counts["stages_per_rank"] = stages_per_rank
    for option, count in counts.items():
        _require_count(option, count)
    return Schedule(_native.make_schedule(name, ranks, microbatches, stages_per_rank))


def read_schedule(source: str | os.PathLike[str], *, format: str | None = None, ranks: int = 0) -> Schedule:
    """Reads a schedule from PyTorch's CSV: a text with commas or line breaks, or the path of a file.

    format  `compute_only` or `compute_comms`; by default whichever the text is
    ranks   the number of rows that it must have; 0 is any
    """
    text = os.fspath(source)
    if not ("\n" in text or "," in text):
        text = Path(text).read_bytes().decode("utf-8", errors="backslashreplace")
    if format not in (None, "compute_only", "compute_comms"):
        raise OptionError(f"format is {format!r}; it must be 'compute_only' or 'compute_comms'", option="format")
    with_messages = "SEND_" in text or "RECV_" in text or "SHARD" in text
    communicates = with_messages if format is None else format == "compute_comms"
    return Schedule(_native.schedule_from_csv(text, communicates, ranks))


def search_schedule(
    ranks: int,
    microbatches: int,
    costs: Costs,
    *,
    stages: int | None = None,
    rank_of: Sequence[int] | None = None,
    memory: int | Sequence[int] | None = None,
    resident: Sequence[int] | None = None,
    backward: str = "either",
    two_copies: bool = False,
    effort: int = 20_000_000,
    seed: int = 1,
) -> FoundSchedule:
    """Searches for a short schedule that fits into the memory of the ranks, and proves how short one can be.

    costs     for each stage; `stages` says how many there are if one entry is for all. Activations are `stash`, bytes
    rank_of   the rank of each stage; by default the search chooses it
    memory    bytes of each rank, or of all; None is no limit
    resident  bytes that each stage always occupies, such as its weights
    backward  `whole` (B alone), `split` (I and W), or `either`
    two_copies  whether a second copy of the model may run in the opposite direction, as in DualPipe
    effort    passes that are timed; a million takes about 20 ms
    seed      equal seeds give equal schedules

    Raises `InfeasibleError` if nothing fits; its attributes `rank`, `needed` and `limit` say where bytes lack.
    """
    _require_search(ranks, microbatches, backward)
    order, proof = _native.search_schedule(
        ranks,
        microbatches,
        _text_of(costs),
        _limits(memory),
        [] if resident is None else wholes(resident, "resident", 0, most_bytes),
        [] if rank_of is None else wholes(rank_of, "rank_of", 0, ranks - 1),
        whole(stages if stages is not None else ranks if rank_of is None else len(rank_of), "stages", 1, 2**32 - 1),
        backward,
        whole(effort, "effort", 0, 2**64 - 1),
        whole(seed, "seed", 0, 2**64 - 1),
        two_copies,
    )
    return FoundSchedule(Schedule(order), **proof)


def cut_for_schedule(
    ranks: int,
    microbatches: int,
    units: Costs,
    *,
    stages_per_rank: int | Sequence[int] = 1,
    memory: int | Sequence[int] | None = None,
    resident: Sequence[int] | None = None,
    backward: str = "either",
    effort: int = 20_000_000,
    seed: int = 1,
) -> ScheduledCut:
    """Cuts a row of units into stages, and finds their schedule, so that a step takes the least time.

    `plan` and `split` make the slowest rank as fast as they can, which is not yet the shortest step: in 1F1B, say, the
    first and the last stage matter less.

    units     the costs of each unit, such as a layer, in the form of `Costs`; `edges` are the bytes between neighbours
    stages_per_rank  the numbers of stages of a rank to try
    memory    bytes of each rank, or of all; None is no limit
    resident  bytes that each unit always occupies, such as its weights
    backward  `whole` (B alone), `split` (I and W), or `either`
    effort    passes that are timed to compare cuts, and to improve each of two schedules; a million takes about 20 ms
    seed      equal seeds give equal results

    Raises `InfeasibleError` if no cut that was tried fits into the memory.
    """
    _require_search(ranks, microbatches, backward)
    per_rank = [stages_per_rank] if isinstance(stages_per_rank, int) else list(stages_per_rank)
    if not per_rank:
        raise OptionError("stages_per_rank is empty; give at least one number", option="stages_per_rank")
    for count in per_rank:
        _require_count("stages_per_rank", count)
    cut, found, bottleneck, cuts = _native.cut_for_schedule(
        ranks,
        microbatches,
        _text_of(units),
        per_rank,
        _limits(memory),
        [] if resident is None else wholes(resident, "resident", 0, most_bytes),
        backward,
        whole(effort, "effort", 0, 2**64 - 1),
        whole(seed, "seed", 0, 2**64 - 1),
    )

    def read(pair: tuple[_native.Order, dict[str, Any]]) -> FoundSchedule:
        return FoundSchedule(Schedule(pair[0]), **pair[1])

    if bottleneck is None:
        return ScheduledCut(cut, read(found), None, None, cuts)
    return ScheduledCut(cut, read(found), bottleneck[0], read(bottleneck[1]), cuts)


def _require_search(ranks: int, microbatches: int, backward: str) -> None:
    for option, count in (("ranks", ranks), ("microbatches", microbatches)):
        _require_count(option, count)
    if backward not in ("whole", "split", "either"):
        raise OptionError(f"backward is {backward!r}; it must be 'whole', 'split' or 'either'", option="backward")


def _limits(memory: int | Sequence[int] | None) -> list[int]:
    return [] if memory is None else wholes(memory, "memory", 0, most_bytes)


def _require_count(option: str, count: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{option} must be an integer, not {count!r}")
    if not 1 <= count < 2**32:
        raise OptionError(f"{option} is {count}; it must be from 1 to {2**32 - 1}", option=option)


def _hop(hop: float | None) -> float:
    if hop is None:
        return -1.0
    if not 0 <= hop <= 1e100:
        raise OptionError(f"hop is {hop}; it must be a time from 0 to 1e100", option="hop")
    return float(hop)


def _text_of(costs: Costs | None) -> str:
    """Returns costs as the text of a costs file."""
    if costs is None:
        return ""
    if isinstance(costs, (str, os.PathLike)):
        return Path(costs).read_text()
    if isinstance(costs, Mapping):
        return json.dumps(dict(costs))
    stages = [dict(cost) if isinstance(cost, Mapping) else {"F": float(cost)} for cost in costs]
    return json.dumps({"stages": stages})
