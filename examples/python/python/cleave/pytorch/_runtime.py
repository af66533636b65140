# SPDX-License-Identifier: MIT
"""A stage in the runtime of torch.distributed.pipelining."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._backward import stage_backward_weight

from ._stages import Stage


class RunnableStage(PipelineStage):
    """torch's `PipelineStage`, which also runs stages that torch's own would get wrong."""

    def __init__(self, stage: Stage, *args: Any, scaled: Collection[nn.Parameter], **options: Any) -> None:
        """`scaled` are parameters that another stage of the rank has, and scales."""
        super().__init__(stage, *args, **options)
        self._scaled = {id(p) for p in scaled}

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divides gradients by the factor. A parameter that two stages of a rank share is divided once."""
        for p in self.submod.parameters():
            if p.grad is not None and id(p) not in self._scaled and grad_scale_factor != 1:
                p.grad.div_(grad_scale_factor)

    def backward_maybe_with_nosync(self, backward_type: Any, bwd_kwargs: Any, last_backward: bool = False) -> Any:
        """Runs a backward pass. That for weights may visit an operation from several groups of weights, such as one
        whose result several layers read, so what it saved is kept to the end of the pass."""
        if backward_type != "weight" or not isinstance(self.submod, Stage):
            return super().backward_maybe_with_nosync(backward_type, bwd_kwargs, last_backward=last_backward)
        stage_backward_weight(self.submod.parameters(), _joined(bwd_kwargs["param_groups"]), retain_graph=True)
        return (), None


def _joined(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Joins the groups of weights that have a weight in common. torch may leave a weight in two groups, by the order of
    a set, and would add a part of its gradient twice. Operations that got no gradient are left out."""
    joined: list[tuple[set[Any], dict[Any, Any]]] = []
    for group in groups:
        weights = set(group["params"])
        gradients = {n: g for n, g in zip(group["intermediates"], group.get("grads") or ()) if g is not None}
        apart = []
        for other in joined:
            if weights & other[0]:
                weights |= other[0]
                gradients = {**other[1], **gradients}
            else:
                apart.append(other)
        joined = [*apart, (weights, gradients)]
    return [
        {"params": weights, "intermediates": list(gradients), "grads": list(gradients.values())}
        for weights, gradients in joined
        if gradients
    ]
