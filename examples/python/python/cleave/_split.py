# SPDX-License-Identifier: MIT
"""The entry to `cleave.pytorch` that does not import torch before it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._plan import Plan
from ._schedule import Schedule

if TYPE_CHECKING:
    from .pytorch import Split

__all__ = ["split"]


def split(
    module: Any,
    args: tuple[Any, ...] = (),
    k: int | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    schedule: Schedule | str | None = None,
    microbatches: int | None = None,
    memory: int | Sequence[int] | None = None,
    speed: float | Sequence[float] | None = None,
    costs: str | Callable[[Any], float] | Mapping[str, float] | None = None,
    bandwidth: float | None = None,
    training: bool = True,
    tied: str = "send",
    devices: Sequence[Any] | None = None,
    stage_of: Mapping[str, int] | Callable[[Any], int | None] | None = None,
    plan: Plan | None = None,
    seed: int = 1,
) -> Split:
    """Cuts a PyTorch module into stages of about equal cost, which run as a pipeline. Needs torch.

    module          an nn.Module, which torch.export captures; or an ExportedProgram, or a GraphModule of torch.fx
    args, kwargs    an example of the inputs, of the size of one microbatch: costs are those of these sizes
    k               the number of stages; with the name of a schedule, of ranks
    dynamic_shapes  which sizes may differ from the example, as torch.export takes it
    schedule        the schedule that will run the stages, or its name. Ranks that run several stages are balanced.
                    `search` makes cut and schedule together, for the shortest step of k ranks with a stage each
    microbatches    of a schedule given by name; twice the ranks by default
    memory          bytes of parameters and buffers that a rank can hold: one for all, or one for each
    speed           how fast each rank is, relative to the others
    costs           `flops` counts operations by operator (the default), `measured` runs each operation a few times on
                    the example; or the cost of each node by name, or a function of nodes
    bandwidth       bytes per second (or per unit of the costs given) between stages; 10 GB/s by default
    training        whether `measured` includes backward passes
    tied            parameters that several operations read, in different stages. `send`: one stage owns the parameter
                    and sends its value along, and its gradient comes back. `together`: these operations share a stage.
                    `copy`: each stage holds it, and the gradients must be added (`Split.sum_tied_gradients`)
    devices         a device for each stage, to which it is moved
    stage_of        the stage of some nodes, by name or as a function of nodes (None is free)
    plan            the plan of another process or an earlier run, instead of a new one

    Returns a `cleave.pytorch.Split`. The stages have the parameters of the module, not copies, under their names.
    Raises `SplitError` for a module that torch.export cannot capture, an input that is written in place, and memory
    that stages would share; `InfeasibleError` if the memory is too small.
    """
    from .pytorch import split as split_module

    return split_module(
        module, args, k, kwargs=kwargs, dynamic_shapes=dynamic_shapes, schedule=schedule, microbatches=microbatches,
        memory=memory, speed=speed, costs=costs, bandwidth=bandwidth, training=training, tied=tied, devices=devices,
        stage_of=stage_of, plan=plan, seed=seed,
    )  # fmt: skip
