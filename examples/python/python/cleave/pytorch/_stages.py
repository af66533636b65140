# SPDX-License-Identifier: MIT
"""From a graph and the stage of each node to modules that run in a chain."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn

from ..errors import SplitError
from ._trace import Captured, attribute, function_name, is_sendable, module_of, names_of_state, storage_key


class _Sendable(torch.autograd.Function):
    """A contiguous copy, as senders need it, in both directions. Runtimes may reuse their receive buffers. The result
    depends on `anchor` too, with no gradient: torch's pass for weights, which comes after that for inputs, visits only
    parameters that share a path to the outputs with an input of the stage."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, anchor: torch.Tensor | None) -> torch.Tensor:
        return x.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient.contiguous(), None


def sendable(x: Any, inputs: Sequence[Any] = ()) -> Any:
    """Returns a value as a tensor that can be sent; numbers become tensors without dimensions."""
    if not isinstance(x, torch.Tensor):
        return torch.tensor(x)
    return _Sendable.apply(x, next((i for i in inputs if i.requires_grad), None) if x.requires_grad else None)


def received(x: Any) -> Any:
    return _Sendable.apply(x, None) if isinstance(x, torch.Tensor) else x


def received_number(x: Any) -> Any:
    return x.item() if isinstance(x, torch.Tensor) else x


def depends_on_mode(n: fx.Node) -> bool:
    """Whether an operation of torch.export does other things in training than in evaluation."""
    if not isinstance(n.target, torch._ops.OpOverload):
        return False
    if "dropout" in function_name(n):
        return len(n.args) < 2 or n.args[1] != 0
    return function_name(n) in ("batch_norm", "instance_norm", "rrelu")


class Stage(nn.Module):
    """A stage of a model. Takes and returns tensors by position; `takes` and `gives` name them. Its parameters and
    buffers have their names in the model, and are those of the model, not copies."""

    def __init__(self, graph_module: fx.GraphModule, index: int, takes: Sequence[str], gives: Sequence[str]) -> None:
        super().__init__()
        self.index = index
        self.takes = list(takes)
        self.gives = list(gives)
        self.__dict__["graph_module"] = graph_module  # not a child, so that names of state have no prefix
        self._parameters = graph_module._parameters
        self._buffers = graph_module._buffers
        self._modules = graph_module._modules
        self._non_persistent_buffers_set = graph_module._non_persistent_buffers_set

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["graph_module"](*args)

    def keep_mode(self, training: bool) -> None:
        """Says in which mode torch.export captured the model, if operations of the stage depend on it."""
        bound = next((n for n in self.__dict__["graph_module"].graph.nodes if depends_on_mode(n)), None)
        self.training = training
        self.__dict__["mode"] = None if bound is None else (training, bound.name)

    def train(self, mode: bool = True) -> Stage:
        """Raises `SplitError` if torch.export captured operations for the other mode, which they keep."""
        kept = self.__dict__.get("mode")
        if kept is not None and kept[0] != mode:
            raise SplitError(
                f"node {kept[1]!r} of stage {self.index} was captured with training={kept[0]} and keeps that; "
                f"call model.{'train' if mode else 'eval'}() and cut the model again",
                node=kept[1],
            )
        super().train(mode)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Stage:
        other = Stage(copy.deepcopy(self.__dict__["graph_module"], memo), self.index, self.takes, self.gives)
        other.training = self.training
        other.__dict__["mode"] = self.__dict__.get("mode")
        return other

    def extra_repr(self) -> str:
        return f"stage {self.index}: {len(self.takes)} tensors in, {len(self.gives)} out"


class StagePlan:
    """Which stage makes each value, and which values enter and leave each stage."""

    def __init__(
        self,
        c: Captured,
        stage_of: dict[fx.Node, int],
        replicated: set[fx.Node],
        carried: dict[fx.Node, fx.Node],
        k: int,
    ) -> None:
        self.c, self.k, self.stage_of, self.replicated = c, k, stage_of, replicated
        self.carried = carried
        """For each attribute that is carried as a value: the attribute that stands for all with this storage."""
        self.first: dict[fx.Node, int] = {n: -1 for n in c.placeholders if is_sendable(n)}
        self.first |= stage_of
        self.last = dict(self.first)
        for n in c.calls:
            if n in replicated:
                continue
            for read in n.all_input_nodes:
                value = carried.get(read, read)
                if value not in self.first:
                    continue
                if self.first[value] > stage_of[n]:
                    raise SplitError(
                        f"node {n.name!r} of stage {stage_of[n]} reads {value.name!r} of the later stage "
                        f"{self.first[value]}; give it that stage or a later one",
                        node=n.name,
                        module=module_of(n),
                    )
                self.last[value] = max(self.last[value], stage_of[n])
        self.returned: list[fx.Node] = []
        for n in c.output.all_input_nodes:
            value = carried.get(n, n)
            if value in self.first:
                self.last[value] = k - 1
            if n not in self.returned:
                self.returned.append(n)
        position = {n: i for i, n in enumerate([*c.placeholders, *c.module.graph.nodes])}
        self.values = sorted(self.first, key=lambda n: position[n])

    def taken(self, s: int) -> list[fx.Node]:
        if s == 0:
            return [n for n in self.values if self.first[n] < 0]
        return [n for n in self.values if self.first[n] < s <= self.last[n]]

    def given(self, s: int) -> list[fx.Node]:
        return [n for n in self.values if self.first[n] <= s < self.last[n]]


def make_stages(plan: StagePlan, model: nn.Module) -> list[Stage]:
    """Returns the stages as modules. Their state is in the order of `model`, so that its names come first."""
    c = plan.c
    names = names_of_state(c.module)
    persistent = set(c.module.state_dict(keep_vars=True))
    used: dict[int, set[int]] = defaultdict(set)  # identity of state: its stages
    built = []
    for s in range(plan.k):
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        attributes: dict[str, Any] = {}
        inputs = []
        for n in plan.taken(s):
            entered = graph.placeholder(n.name)
            inputs.append(entered)
            number = not isinstance(n.meta.get("val"), (torch.Tensor, type(None)))
            enter = received_number if number else received
            copies[n] = graph.call_function(enter, (entered,))

        def in_stage(n: fx.Node) -> fx.Node:
            n_value = plan.carried.get(n, n)
            if n_value not in copies:
                if n.op not in ("get_attr",) and n not in plan.replicated:
                    raise SplitError(f"node {n.name!r} is read in stage {s}, but not sent there", node=n.name)
                if n_value.op == "get_attr":
                    attributes[str(n_value.target)] = attribute(c.module, str(n_value.target))
                copies[n_value] = graph.node_copy(n_value, in_stage)
            return copies[n_value]

        for n in c.module.graph.nodes:
            if plan.stage_of.get(n) == s and n not in copies:
                if n.op == "get_attr":
                    in_stage(n)
                    continue
                if n.op == "call_module":
                    attributes[str(n.target)] = c.module.get_submodule(str(n.target))
                copies[n] = graph.node_copy(n, in_stage)
        if s + 1 < plan.k:
            outputs = plan.given(s)
            leaving = tuple(graph.call_function(sendable, (in_stage(n), tuple(inputs))) for n in outputs)
            graph.output(leaving)
        else:
            outputs = plan.returned
            results = tuple(in_stage(n) for n in outputs)
            graph.output(results[0] if len(results) == 1 else results)
        for value in attributes.values():
            for state in _states_of(value):
                used[id(state)].add(s)
        built.append((attributes, graph, plan.taken(s), outputs))
    _add_other_names(c.module, [attributes for attributes, *_ in built], names, used)
    place = {name: i for i, name in enumerate(_paths(model))}
    stages = []
    for s, (attributes, graph, takes, gives) in enumerate(built):
        root = nn.Module()
        for path in sorted(attributes, key=lambda path: (place.get(path, len(place)), path)):
            _register(root, path, attributes[path], path in persistent)
        module = fx.GraphModule(root, graph, class_name=f"Stage{s}")
        _take_state(module, root)
        stages.append(Stage(module, s, [n.name for n in takes], [n.name for n in gives]))
    return stages


def _paths(model: nn.Module) -> list[str]:
    """The paths of modules, parameters and buffers, in the order in which a module lists its state."""
    paths = []
    for prefix, module in model.named_modules(remove_duplicate=False):
        paths.append(prefix)
        own = [*module._parameters, *module._buffers]
        paths += [f"{prefix}.{name}" if prefix else name for name in own]
    return paths


def _states_of(value: Any) -> list[Any]:
    if isinstance(value, nn.Module):
        return [*value.parameters(), *value.buffers()]
    return [value]


def _register(root: nn.Module, path: str, value: Any, persistent: bool) -> None:
    *steps, last = path.split(".")
    for step in steps:
        if not hasattr(root, step):
            setattr(root, step, nn.Module())
        root = getattr(root, step)
    if hasattr(root, last):
        return
    if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
        root.register_buffer(last, value, persistent=persistent)
    else:
        setattr(root, last, value)


def _add_other_names(
    model: nn.Module, attributes: list[dict[str, Any]], names: dict[int, list[str]], used: dict[int, set[int]]
) -> None:
    """Gives state all its names in the stages that hold it, and state that nothing reads a stage: that of its
    neighbours, or the first."""
    stage_of_parent: dict[str, int] = {}
    objects = {id(t): t for t in [*model.parameters(), *model.buffers()]}
    for key, stages in used.items():
        for name in names.get(key, []):
            stage_of_parent.setdefault(name.rpartition(".")[0], min(stages))
    for key, all_names in names.items():
        stages = used.get(key) or set()
        if not stages:
            parent = all_names[0].rpartition(".")[0]
            while parent and parent not in stage_of_parent:
                parent = parent.rpartition(".")[0]
            stages = {stage_of_parent.get(parent, 0)}
        for s in stages:
            for name in all_names:
                attributes[s].setdefault(name, objects[key])


def _take_state(module: fx.GraphModule, root: nn.Module) -> None:
    """Replaces what a GraphModule has copied by the state of the root, with all names and marks."""
    module._parameters = root._parameters
    module._buffers = root._buffers
    module._modules = root._modules
    module._non_persistent_buffers_set = root._non_persistent_buffers_set


def move(stage: Stage, device: torch.device) -> None:
    """Moves a stage to a device: its state, and the tensors that it makes."""
    stage.to(device)
    module = stage.__dict__["graph_module"]
    for inner in [m for m in module.modules() if isinstance(m, fx.GraphModule)] + [module]:
        for n in inner.graph.nodes:
            if n.op != "call_function" or n.target in (sendable, received, received_number):
                continue
            n.args = tuple(device if isinstance(a, torch.device) else a for a in n.args)
            if isinstance(n.kwargs.get("device"), torch.device):
                n.kwargs = {**n.kwargs, "device": device}
        inner.recompile()


def ties_of(stages: Sequence[Stage]) -> list[list[tuple[int, str]]]:
    """The parameters that several stages hold: for each, the stages and the name in each."""
    found: dict[Any, dict[int, str]] = defaultdict(dict)
    for stage in stages:
        for name, p in stage.named_parameters():
            found[storage_key(p)].setdefault(stage.index, name)
    return [sorted(by_stage.items()) for by_stage in found.values() if len(by_stage) > 1]
