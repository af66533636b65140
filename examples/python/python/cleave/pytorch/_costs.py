# SPDX-License-Identifier: MIT
"""Costs of the nodes of a graph: counted from shapes by operator, or measured by one run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_map_only

from ..errors import OptionError
from ._trace import Captured, CostFunction, attribute, elements_of, function_name, tensors_of

FLOPS = 5e10
"""Operations a second of the model that counts. Only the ratio to `BYTES` matters for a cut."""
BYTES = 1e10
"""Bytes a second of the memory and of links in that model."""
LAUNCH = 2e-6
"""Seconds to start an operation."""


def counted_costs(c: Captured) -> tuple[dict[fx.Node, float], list[str]]:
    """Returns the seconds of each call by a model: its floating-point operations, which torch's counter for each aten
    operator gives, or the bytes that it reads and writes, whichever take longer. Also returns the calls that could not
    be counted."""
    from torch.utils.flop_counter import FlopCounterMode

    costs: dict[fx.Node, float] = {}
    unknown: list[str] = []

    def value_of(n: fx.Node) -> Any:
        if n.op == "get_attr":
            return attribute(c.module, str(n.target))
        if "val" not in n.meta:
            raise LookupError(n.name)
        return n.meta["val"]

    mode = _fake_mode_of(c)
    for n in c.calls:
        made = tensors_of(n)
        if _is_view(n):
            costs[n] = 0.0
            continue
        operations = 0.0
        try:
            args, kwargs = fx.node.map_arg((n.args, n.kwargs), value_of)
            if mode is not None:
                args, kwargs = (
                    tree_map_only(
                        torch.Tensor,
                        lambda t: mode.from_tensor(t) if type(t) is not type(made[0]) else t,
                        (args, kwargs),
                    )
                    if made
                    else (args, kwargs)
                )
                with mode, FlopCounterMode(display=False) as counter, torch.no_grad():
                    _run(c, n, args, kwargs)
                operations = float(counter.get_total_flops())
        except Exception:
            if made:
                unknown.append(n.name)
        moved = sum(elements_of(t, n) * t.dtype.itemsize for t in made)
        if function_name(n) != "embedding":  # which reads a few rows of its table
            for read in n.all_input_nodes:
                if read.op == "get_attr":
                    t = attribute(c.module, str(read.target))
                    moved += t.numel() * t.dtype.itemsize if isinstance(t, torch.Tensor) else 0
                else:
                    moved += sum(elements_of(t, read) * t.dtype.itemsize for t in tensors_of(read))
        else:
            moved *= 2
        costs[n] = max(operations / FLOPS, moved / BYTES, LAUNCH if made else 0.0)
    return costs, unknown


def _fake_mode_of(c: Captured) -> Any:
    for n in [*c.placeholders, *c.calls]:
        for t in tensors_of(n):
            if hasattr(t, "fake_mode"):
                return t.fake_mode
    return None


def _run(c: Captured, n: fx.Node, args: Any, kwargs: Any) -> Any:
    if n.op == "call_function":
        return n.target(*args, **kwargs)
    if n.op == "call_method":
        return getattr(args[0], str(n.target))(*args[1:], **kwargs)
    return c.module.get_submodule(str(n.target))(*args, **kwargs)


VIEWS = {"getitem", "contiguous", "detach", "alias", "sym_size", "flatten", "reshape", "view", "size"}


def _is_view(n: fx.Node) -> bool:
    if function_name(n) in VIEWS or function_name(n).startswith("sym_"):
        return True
    if not isinstance(n.target, torch._ops.OpOverload):
        return False
    returns = n.target._schema.returns
    return (
        bool(returns)
        and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        and not (function_name(n) == "to" or function_name(n).startswith("_to"))
    )


def measured_costs(c: Captured, inputs: list[Any], training: bool, repeats: int = 3) -> dict[fx.Node, float]:
    """Returns the seconds that each call takes in one run with these inputs; with `training`, its backward pass too."""
    costs: dict[fx.Node, float] = {}

    def differentiable(t: torch.Tensor) -> bool:
        return t.is_floating_point() or t.is_complex()

    class Timing(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            if not n.op.startswith("call_") or n in written:
                begin = time.perf_counter()
                result = super().run_node(n)
                if n.op.startswith("call_"):
                    costs[n] = time.perf_counter() - begin
                return _detached(result)
            best = float("inf")
            result = None
            for _ in range(repeats):
                _wait(result)
                begin = time.perf_counter()
                result = super().run_node(n)
                _wait(result)
                spent = time.perf_counter() - begin
                if training:
                    spent += self._backward(n)
                best = min(best, spent)
            costs[n] = best
            return _detached(result)

        def _backward(self, n: fx.Node) -> float:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            leaves = []

            def leaf(t: torch.Tensor) -> torch.Tensor:
                if not differentiable(t):
                    return t
                own = t.detach().requires_grad_()
                leaves.append(own)
                return own

            args, kwargs = tree_map_only(torch.Tensor, leaf, (args, kwargs))
            parameters = list(self.submodules[str(n.target)].parameters()) if n.op == "call_module" else []
            leaves += [p for p in parameters if p.requires_grad]
            try:
                with torch.enable_grad():
                    made = _run(c, n, args, kwargs)
                    flat = [t for t in tree_flatten(made)[0] if isinstance(t, torch.Tensor) and t.grad_fn is not None]
                    if not flat or not leaves:
                        return 0.0
                    ones = [torch.ones_like(t) for t in flat]
                    begin = time.perf_counter()
                    torch.autograd.grad(flat, leaves, ones, allow_unused=True)
                    _wait(made)
                    return time.perf_counter() - begin
            except RuntimeError:  # a function without a derivative
                return 0.0

    from ._trace import written_arguments

    written = {n for n in c.calls if written_arguments(n, c.module)}
    state = {k: v.detach().clone() for k, v in c.module.state_dict().items()} if written else {}
    random = torch.random.get_rng_state()
    with torch.no_grad():
        Timing(c.module).run(*inputs)
        for name, saved in state.items():
            c.module.state_dict()[name].copy_(saved)
    torch.random.set_rng_state(random)
    return costs


def _detached(result: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda t: t.detach(), result)


def _wait(result: Any) -> None:
    for t in tree_flatten(result)[0]:
        if isinstance(t, torch.Tensor) and t.device.type == "cuda":
            torch.cuda.synchronize(t.device)
            return


def costs_of(
    c: Captured, costs: str | CostFunction | Mapping[str, float] | None, inputs: list[Any], training: bool
) -> tuple[dict[fx.Node, float], str, str, list[str]]:
    """Returns the cost of each call, their unit, their origin, and remarks."""
    if costs is None or costs == "flops":
        found, unknown = counted_costs(c)
        remarks = [f"not counted: {', '.join(unknown[:4])}{' …' if len(unknown) > 4 else ''}"] if unknown else []
        return found, "s", "counted by operator from the shapes", remarks
    if costs == "measured":
        found = measured_costs(c, inputs, training)
        return found, "s", "measured in one run" + (" with backward passes" if training else ""), []
    if isinstance(costs, str):
        raise OptionError(
            f"costs is {costs!r}; it must be 'flops', 'measured', a mapping or a function", option="costs"
        )
    if callable(costs):
        return {n: float(costs(n)) for n in c.calls}, "", "given by a function", []
    names = {n.name for n in c.calls}
    for name in costs:
        if name not in names:
            raise OptionError(f"costs names {name!r}, which is no call of the graph", option="costs")
    return {n: float(costs.get(n.name, 0.0)) for n in c.calls}, "", "given", []
