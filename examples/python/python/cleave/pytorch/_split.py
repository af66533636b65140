# SPDX-License-Identifier: MIT
"""Cuts a module into stages, and runs them in the pipeline of torch.distributed.pipelining."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from .._plan import Plan, cut_lists, plan_of
from .._schedule import Schedule, ScheduledCut
from .._schedule import schedule as make_schedule
from .._scheduled_cut import cut_with_schedule
from ..errors import OptionError, SplitError
from ._costs import BYTES, costs_of
from ._stages import Stage, StagePlan, make_stages, move, ties_of
from ._trace import (
    DATA_CHECKS,
    Captured,
    CostFunction,
    attribute,
    bytes_of,
    capture,
    function_name,
    is_sendable,
    module_of,
    replicable_calls,
    storage_key,
    written_arguments,
    written_groups,
)

TIES = ("send", "together", "copy")


class Split:
    """A model in stages. Call it to run all stages here, one after another."""

    def __init__(
        self, c: Captured, plan: Plan, stages: list[Stage], schedule: Schedule | None, example: tuple[Any, ...]
    ) -> None:
        self.plan = plan
        """The stage of each node, loads, bound and gap. Other processes can pass it to `split`."""
        self.stages = stages
        """The stages as modules, which take and return tensors by position."""
        self.schedule = schedule
        self.ties = ties_of(stages)
        """Parameters that several stages hold (with tied="copy"): for each, the stages and its name in them. Their
        gradients must be added, as `sum_tied_gradients` does."""
        self._captured = c
        self._example = example

    def report(self) -> str:
        """Returns the stages as a table, with the bound."""
        return self.plan.report()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the stages one after another, and returns what the model returns."""
        c = self._captured
        if c.guards is not None:
            c.guards(*self._leaves(args, kwargs))
        values: Any = self.flat_inputs(*args, **kwargs)
        for stage in self.stages:
            own = next((t.device for t in [*stage.parameters(), *stage.buffers()]), None)
            if own is not None:
                values = tuple(v.to(own) for v in values)
            made = stage(*values)
            values = made if isinstance(made, tuple) else (made,)
        return self.output(values)

    def _leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        c = self._captured
        if c.in_spec is None:
            if kwargs:
                raise SplitError("a graph of torch.fx takes arguments by position; pass them so")
            leaves = list(args)
        else:
            names = c.in_spec.child(1).context if c.in_spec.num_children == 2 else []
            ordered = {name: kwargs[name] for name in names if name in kwargs} | dict(kwargs)
            leaves, spec = pytree.tree_flatten((tuple(args), ordered))
            if spec != c.in_spec:
                raise SplitError(
                    f"the arguments are nested as {spec}, but the model was cut with {c.in_spec}; pass arguments and "
                    "keyword arguments as in the example"
                )
        if len(leaves) != len(c.placeholders):
            raise SplitError(f"the model takes {len(c.placeholders)} arguments, not {len(leaves)}")
        return leaves

    def flat_inputs(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Returns the arguments of the model as the first stage takes them."""
        leaves = self._leaves(args, kwargs)
        return tuple(
            x if isinstance(x, torch.Tensor) else torch.tensor(x)
            for x, n in zip(leaves, self._captured.placeholders)
            if is_sendable(n)
        )

    def output(self, values: Any) -> Any:
        """Returns what the last stage returns in the form of the model's result."""
        values = values if isinstance(values, (tuple, list)) else (values,)
        c = self._captured
        made: dict[fx.Node, Any] = dict(zip(self._returned(), values))
        result = fx.node.map_arg(c.output.args[0], lambda n: made[n])
        if c.out_spec is None:
            return result
        return pytree.tree_unflatten(list(result), c.out_spec)

    def _returned(self) -> list[fx.Node]:
        return list(dict.fromkeys(self._captured.output.all_input_nodes))

    def to(self, devices: Sequence[torch.device | str]) -> Split:
        """Moves each stage to its device."""
        if len(devices) != len(self.stages):
            raise OptionError(
                f"{len(devices)} devices for {len(self.stages)} stages; give one for each", option="devices"
            )
        for stage, device in zip(self.stages, devices):
            move(stage, torch.device(device))
        return self

    def shapes(self, microbatch: tuple[Any, ...] | None = None) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
        """Returns tensors like those that enter and leave each stage, on no device, for a microbatch of inputs as
        `flat_inputs` returns them; by default for the example of `split`."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        inputs = self._example if microbatch is None else microbatch

        def on_meta(t: torch.Tensor) -> torch.Tensor:
            return torch.empty(tuple(t.shape), dtype=t.dtype, device="meta").requires_grad_(t.requires_grad)

        def passed(
            enter: Callable[[torch.Tensor], torch.Tensor],
        ) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
            values: list[torch.Tensor] = [enter(t) for t in inputs]
            found = []
            for stage in self.stages:
                made = stage(*values)
                made = list(made) if isinstance(made, tuple) else [made]
                found.append(([on_meta(t) for t in values], [on_meta(t) for t in made]))
                values = [t.detach().requires_grad_(t.requires_grad) for t in made]
            return found

        # Fake tensors write buffers of a single number for real, such as the count of batches.
        kept = [(t, t.clone()) for stage in self.stages for t in stage.buffers()]
        random = torch.random.get_rng_state()
        try:
            with torch.enable_grad():
                try:
                    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                        return passed(mode.from_tensor)
                except Exception:  # sizes that depend on numbers that stages send: only a run shows them
                    kept += [(p, p.clone()) for s in self.stages for p in s.parameters() if not p.requires_grad]
                    return passed(lambda t: t)
        finally:
            torch.random.set_rng_state(random)
            with torch.no_grad():
                for t, before in kept:
                    t.copy_(before)

    def pipeline_stages(
        self,
        rank: int | None = None,
        *,
        device: Any = None,
        group: Any = None,
        microbatch: tuple[Any, ...] | None = None,
    ) -> list[Any]:
        """Returns the stages of a rank as `torch.distributed.pipelining.PipelineStage`, in order. `microbatch` has
        inputs as `flat_inputs` returns them, if they are not of the sizes of the example of `split`."""
        import torch.distributed as dist

        from ._runtime import RunnableStage

        if rank is None:
            rank = dist.get_rank(group)
        ranks = dist.get_world_size(group)
        if ranks != max(self.plan.rank_of) + 1:
            raise OptionError(
                f"the plan is for {max(self.plan.rank_of) + 1} ranks, but the group has {ranks}", option="schedule"
            )
        made: list[Any] = []
        shapes = self.shapes(microbatch)
        for s, home in enumerate(self.plan.rank_of):
            if home == rank:
                stage = self.stages[s]
                own = next((t.device for t in [*stage.parameters(), *stage.buffers()]), torch.device("cpu"))
                where = torch.device(device) if device is not None else own
                if where != own:
                    move(stage, where)
                takes, gives = shapes[s]
                made.append(
                    RunnableStage(
                        stage,
                        s,
                        len(self.stages),
                        where,
                        scaled=[p for earlier in made for p in earlier.submod.parameters()],
                        input_args=tuple(takes),
                        output_args=tuple(gives),
                        group=group,
                    )
                )
        return made

    def pipeline(
        self,
        *,
        loss_fn: Callable[..., Any] | None = None,
        microbatches: int | None = None,
        microbatch: tuple[Any, ...] | None = None,
        lowered: bool = False,
        device: Any = None,
        group: Any = None,
        **options: Any,
    ) -> Pipeline:
        """Returns this rank's part of the pipeline, in the runtime of torch.distributed.pipelining.

        loss_fn       called with the result of the model, in its own form, and the target of a microbatch
        microbatches  needed if the model was cut without a schedule, which is then 1F1B
        microbatch    inputs as `flat_inputs` returns them, if they are not of the sizes of the example of `split`
        lowered       whether cleave puts the messages into the order; by default torch does
        options       of torch's runtime, such as scale_grads
        """
        from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

        order = self.schedule
        if order is None:
            if microbatches is None:
                raise OptionError(
                    "microbatches is missing: the model was cut without a schedule", option="microbatches"
                )
            order = make_schedule("1F1B", len(self.stages), microbatches)
        elif microbatches not in (None, order.microbatches):
            raise OptionError(
                f"microbatches is {microbatches}, but the schedule has {order.microbatches}; leave it out",
                option="microbatches",
            )
        order = order.lower() if lowered else order
        wrapped = None
        if loss_fn is not None:

            def wrapped(made: Any, target: Any, **more: Any) -> Any:
                return loss_fn(self.output(made), target, **more)

        stages = self.pipeline_stages(device=device, group=group, microbatch=microbatch)
        runtime = _PipelineScheduleRuntime(stages, order.microbatches, loss_fn=wrapped, **options)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "order.csv"
            order.to_torch_csv(file)
            runtime._load_csv(str(file), format=order.torch_format)
        return Pipeline(self, runtime, stages)

    def sum_tied_gradients(self, group: Any = None) -> None:
        """Adds the gradients of parameters that stages of several ranks hold (tied="copy"), on all ranks alike. Call it
        after each step, before the optimizer."""
        import torch.distributed as dist

        me = dist.get_rank(group)
        for tie in self.ties:
            here = [dict(self.stages[s].named_parameters(remove_duplicate=False))[name] for s, name in tie
                    if self.plan.rank_of[s] == me]  # fmt: skip
            s, name = tie[0]
            shape = dict(self.stages[s].named_parameters(remove_duplicate=False))[name]
            whole = torch.zeros_like(shape)
            for p in {id(p): p for p in here}.values():
                if p.grad is not None:
                    whole += p.grad
            dist.all_reduce(whole, group=group)
            for p in here:
                p.grad = whole.clone()


class Pipeline:
    """This rank's part of a pipeline."""

    def __init__(self, split: Split, runtime: Any, stages: list[Any]) -> None:
        self.split = split
        self.runtime = runtime
        """torch's runtime, with the order loaded."""
        self.stages = stages
        """The `PipelineStage`s of this rank."""
        self.is_first = any(s.stage_index == 0 for s in stages)
        self.is_last = any(s.stage_index == len(split.stages) - 1 for s in stages)

    def parameters(self) -> list[nn.Parameter]:
        """The parameters of this rank, for an optimizer."""
        found = {id(p): p for s in self.stages for p in s.submod.parameters()}
        return list(found.values())

    def step(self, *args: Any, target: Any = None, **kwargs: Any) -> list[torch.Tensor]:
        """Runs all microbatches of a batch forward and backward. Arguments and the target are those of the model, for
        the whole batch, and may be given on all ranks. Returns the losses of the microbatches on the rank that has the
        last stage, and an empty list on others."""
        inputs = self.split.flat_inputs(*args, **kwargs) if self.is_first else ()
        losses: list[torch.Tensor] = []
        self.runtime.step(
            *inputs,
            target=target if self.is_last else None,
            losses=losses if self.is_last else None,
            return_outputs=False,
        )
        return losses


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
    costs: str | CostFunction | Mapping[str, float] | None = None,
    bandwidth: float | None = None,
    training: bool = True,
    tied: str = "send",
    devices: Sequence[Any] | None = None,
    stage_of: Mapping[str, int] | Callable[[fx.Node], int | None] | None = None,
    plan: Plan | None = None,
    seed: int = 1,
) -> Split:
    """Cuts a module into stages; see `cleave.split`."""
    if tied not in TIES:
        raise OptionError(f"tied is {tied!r}; it must be one of {', '.join(TIES)}", option="tied")
    if isinstance(args, torch.Tensor):
        raise TypeError("args must be a tuple of arguments; write (x,) for one")
    searched = 0  # the number of ranks, if the schedule is made with the cut
    if isinstance(schedule, str):
        if k is None:
            raise OptionError("k is missing: with the name of a schedule it is the number of ranks", option="k")
        if schedule == "search":
            searched = _ranks_to_search(k, speed, stage_of, plan)
            schedule = None
        else:
            schedule, k = make_schedule(schedule, k, microbatches or 2 * k), None
    if schedule is not None and not schedule.is_chain:
        raise OptionError(
            f"{schedule.name} runs several copies of the model, which torch's runtime cannot", option="schedule"
        )
    given = dict(kwargs or {})
    c = capture(module, args, given, dynamic_shapes)
    leaves = list(args) if c.in_spec is None else pytree.tree_leaves((args, given))
    cost, unit, origin, notes = costs_of(c, costs, leaves, training)
    notes = [*c.notes, *notes]

    groups = written_groups(c)
    written = {n for group in groups for n in group} | {n for n in c.calls if written_arguments(n, c.module)}
    replicable = replicable_calls(c, cost, written)
    shared = _shared_parameters(c)
    carried: dict[fx.Node, fx.Node] = {}
    items: list[fx.Node] = []
    waiting = (
        {first: attributes for attributes, readers in shared.values() for first in readers[:1]}
        if tied == "send"
        else {}
    )
    together_nodes: list[list[fx.Node]] = [list(g) for g in groups]
    for n in c.calls:
        for attributes, readers in shared.values() if n in waiting and tied == "send" else ():
            if readers[0] is n:
                items.append(attributes[0])
                carried |= dict.fromkeys(attributes, attributes[0])
                together_nodes.append([attributes[0], n])
        items.append(n)
    if tied == "together":
        together_nodes += [readers for _, readers in shared.values()]
    for n in c.calls:
        if n.op == "call_function" and function_name(n) in DATA_CHECKS:
            makers = [m for m in n.all_input_nodes if m.op.startswith("call_")]
            together_nodes.append([*makers[:1], n])

    lists, position = _lists_of(c, items, carried, cost, replicable)
    fixed = None
    if plan is not None:
        stage_of = plan.stage_of
        missing = [n.name for n in items if n.name not in plan.stage_of and n.name not in plan.replicated]
        if missing:
            raise SplitError(f"the plan is not of this model: it has no stage for node {missing[0]!r}", node=missing[0])
    if stage_of is not None and plan is None:
        say = stage_of.get if isinstance(stage_of, Mapping) else None
        asked = [say(n.name) if say else stage_of(n) for n in items]  # type: ignore[operator]
        fixed = [-1 if s is None else int(s) for s in asked]
        _require_written_together(groups, dict(zip(items, fixed)))
    sets = [[position[n] for n in dict.fromkeys(group) if n in position] for group in together_nodes]
    sets = [group for group in sets if len(group) > 1]
    if plan is None:
        per_byte = 0.0
        if unit == "s" or bandwidth is not None:
            per_byte = (2.0 if training and costs == "measured" else 1.0) / (
                bandwidth if bandwidth is not None else BYTES
            )
        result = cut_lists(
            lists, k, schedule=schedule, memory=memory, speed=speed, cost_per_byte=per_byte, relayed=True,
            together=sets, fixed=fixed, seed=seed,
        )  # fmt: skip
        if searched:
            both = training and costs == "measured"  # costs of forward and backward passes
            fixed, found = cut_with_schedule(
                lists, sets, ranks=searched, microbatches=microbatches or 2 * searched, memory=memory,
                cost_per_byte=per_byte / (2 if both else 1), forward=1 / 3 if both else 1.0, seed=seed,
            )  # fmt: skip
            schedule, bound = found.found.schedule, result["bound"]
            result = cut_lists(
                lists, None, schedule=schedule, memory=memory, speed=speed, cost_per_byte=per_byte, relayed=True,
                together=sets, fixed=fixed, seed=seed,
            )  # fmt: skip
            result["bound"] = bound  # of all cuts, not of this one
            notes = [*notes, _account_of(found, unit)]
        plan = plan_of(lists, result, unit=unit, cost_origin=origin, notes=notes)
    labels = {n: plan.stage_of[n.name] for n in items if n.name in plan.stage_of}
    replicated = {n for n in items if n.name in set(plan.replicated)}
    stages = make_stages(
        StagePlan(c, labels, replicated, carried, plan.k), module if isinstance(module, nn.Module) else c.module
    )
    if not c.output.all_input_nodes:
        raise SplitError("the model returns no tensor, so that no stage is the last one")
    example = tuple(
        x if isinstance(x, torch.Tensor) else torch.tensor(x) for x, n in zip(leaves, c.placeholders) if is_sendable(n)
    ) or tuple(n.meta["val"] for n in c.placeholders if isinstance(n.meta.get("val"), torch.Tensor))
    # Modules that are called whole keep their parameters.
    if tied != "copy" and (
        kept := [" and ".join(f"{name} of stage {s}" for s, name in tie) for tie in ties_of(stages)]
    ):
        plan = replace(
            plan, notes=(*plan.notes, f"held by several stages, whose gradients must be added: {'; '.join(kept)}")
        )
    if isinstance(module, nn.Module) and c.in_spec is not None:
        for stage in stages:
            stage.keep_mode(module.training)
    made = Split(c, plan, stages, schedule, example)
    return made.to(devices) if devices is not None else made


def _ranks_to_search(k: int, speed: Any, stage_of: Any, plan: Plan | None) -> int:
    for option, given in (("speed", speed), ("stage_of", stage_of)):
        if given is not None:
            raise OptionError(f'schedule="search" cuts for ranks of one speed, without {option}', option=option)
    if plan is not None:
        raise OptionError(
            "the plan was made with its schedule: pass read_schedule(csv), with csv of split.schedule.to_torch_csv()",
            option="schedule",
        )
    return k


def _account_of(found: ScheduledCut, unit: str) -> str:
    def time(x: float) -> str:
        return f"{x:.3g} {unit}".rstrip()

    order = found.found
    text = f"cut and schedule made together, B twice as long as F: a step of {order.schedule.microbatches} microbatches "
    text += f"takes {time(order.makespan)}, and no schedule of these stages less than {time(order.bound)}"
    if found.bottleneck is not None:
        text += f"; with the least bottleneck it takes {time(found.bottleneck.makespan)}"
    return text


def _require_written_together(groups: list[list[fx.Node]], stage: dict[fx.Node, int]) -> None:
    for group in groups:
        asked = [(n, stage.get(n, -1)) for n in group if stage.get(n, -1) >= 0]
        for n, s in asked:
            if s != asked[0][1]:
                raise SplitError(
                    f"node {n.name!r} in stage {s} and node {asked[0][0].name!r} in stage {asked[0][1]} use memory "
                    "that one of them writes in place; give both one stage, or write the model without it",
                    node=n.name,
                    module=module_of(n),
                )


def _shared_parameters(c: Captured) -> dict[Any, tuple[list[fx.Node], list[fx.Node]]]:
    """The parameters that several calls read: their attributes and their readers, in order."""
    found: dict[Any, tuple[list[fx.Node], list[fx.Node]]] = {}
    for n in c.attributes:
        t = attribute(c.module, str(n.target))
        if isinstance(t, nn.Parameter):
            found.setdefault(storage_key(t), ([], []))[0].append(n)
    order = {n: i for i, n in enumerate(c.calls)}
    for attributes, readers in found.values():
        users = {u for a in attributes for u in a.users if u in order}
        readers += sorted(users, key=lambda u: order[u])
    return {
        key: (attributes, readers)
        for key, (attributes, readers) in found.items()
        if len(readers) > 1 and len({tuple(attribute(c.module, str(a.target)).shape) for a in attributes}) == 1
    }


def _lists_of(
    c: Captured,
    items: list[fx.Node],
    carried: dict[fx.Node, fx.Node],
    cost: dict[fx.Node, float],
    replicable: set[fx.Node],
) -> tuple[dict[str, Any], dict[fx.Node, int]]:
    position = {n: i for i, n in enumerate(items)}
    number: dict[fx.Node, int] = dict(position)
    storages: dict[Any, int] = {}
    bytes_list: list[int] = []
    storage: list[int] = []

    def attribute_bytes(n: fx.Node) -> int:
        t = attribute(c.module, str(n.target))
        return t.numel() * t.dtype.itemsize if isinstance(t, torch.Tensor) else 0

    for n in items:
        bytes_list.append(attribute_bytes(n) if n.op == "get_attr" else bytes_of(n))
        storage.append(storages.setdefault(("item", n), len(storages)))
    inputs, state = [], []
    for n in c.placeholders:
        number[n] = len(bytes_list)
        inputs.append(number[n])
        bytes_list.append(bytes_of(n))
        storage.append(storages.setdefault(("input", n), len(storages)))
    for n in c.attributes:
        if n in carried:
            continue
        number[n] = len(bytes_list)
        state.append(number[n])
        bytes_list.append(attribute_bytes(n))
        storage.append(storages.setdefault(storage_key(attribute(c.module, str(n.target))), len(storages)))
    modules: dict[str, int] = {}

    def operands(n: fx.Node) -> list[int]:
        if n.op == "get_attr":
            return []
        read = [number[carried.get(o, o)] for o in n.all_input_nodes]
        if n.op == "call_module":  # whose parameters are state as well
            for p in [
                *c.module.get_submodule(str(n.target)).parameters(),
                *c.module.get_submodule(str(n.target)).buffers(),
            ]:
                key = str(id(p))
                if key not in modules:
                    modules[key] = len(bytes_list)
                    state.append(modules[key])
                    bytes_list.append(p.numel() * p.dtype.itemsize)
                    storage.append(storages.setdefault(storage_key(p), len(storages)))
                read.append(modules[key])
        return list(dict.fromkeys(read))

    read = [operands(n) for n in items]
    random: list[int] = []
    after: list[list[int]] = []
    for i, n in enumerate(items):
        is_random = isinstance(n.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in n.target.tags
        after.append(random[-1:] if is_random else [])
        if is_random:
            random.append(i)
    returned = [number[carried.get(n, n)] for n in dict.fromkeys(c.output.all_input_nodes)]
    lists = {
        "names": [n.name for n in items],
        "operands": read,
        "after": after,
        "costs": [0.0 if n.op == "get_attr" else cost.get(n, 0.0) for n in items],
        "bytes": bytes_list,
        "storage": storage,
        "inputs": inputs,
        "state": state,
        "outputs": list(dict.fromkeys(returned)),
        "replicable": [i for i, n in enumerate(items) if n in replicable],
        "unportable": [i for i, n in enumerate(items) if n.op != "get_attr" and not is_sendable(n)],
        "node_memory": [bytes_list[i] if n.op == "get_attr" else 0 for i, n in enumerate(items)],
    }
    return lists, position
