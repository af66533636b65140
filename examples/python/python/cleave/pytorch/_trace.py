# SPDX-License-Identifier: MIT
"""From a module to the lists that a planner reads: nodes, values, what is written in place, what may be made again."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn

from ..errors import SplitError

Arguments = tuple[Any, ...]

# Checks that torch.export adds. They hold for every run with these types, and on other devices they do not.
METADATA_CHECKS = {"_assert_tensor_metadata"}
DATA_CHECKS = {"_assert_async", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size"}
# Functions that may return an argument itself although their schemas do not say so.
PASSING = {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "getitem", "rrelu"}


class Captured:
    """A model as a graph, with the interface of the model."""

    def __init__(self, graph_module: fx.GraphModule, in_spec: Any, out_spec: Any, guards: nn.Module | None) -> None:
        self.module = graph_module
        self.in_spec = in_spec
        """The nesting of the arguments (args, kwargs), or None if placeholders are the arguments."""
        self.out_spec = out_spec
        self.guards = guards
        nodes = list(graph_module.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self.output = next(n for n in reversed(nodes) if n.op == "output")
        self.attributes = [n for n in nodes if n.op == "get_attr"]
        self.calls = [n for n in nodes if n.op.startswith("call_")]
        self.notes: list[str] = []
        """Remarks on how the model was captured."""


def capture(module: Any, args: Arguments, kwargs: Mapping[str, Any], dynamic_shapes: Any) -> Captured:
    """Returns the graph of a module, of an exported program, or of a graph that torch.fx traced."""
    if isinstance(module, torch.export.ExportedProgram):
        return _unlifted(module)
    if isinstance(module, fx.GraphModule) and not isinstance(module.graph._codegen, fx.graph._PyTreeCodeGen):
        if kwargs:
            raise SplitError("a graph of torch.fx takes arguments by position; pass them in args")
        graph_module = fx.GraphModule(module, _copied(module.graph))
        _infer(graph_module, args)
        return Captured(graph_module, None, None, None)
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"module must be an nn.Module, a GraphModule or an ExportedProgram, not {type(module).__name__}"
        )
    caching = [c for m in module.modules() if getattr(c := getattr(m, "config", None), "use_cache", None) is True]
    notes = []
    try:
        try:
            program = torch.export.export(module, args, dict(kwargs) or None, dynamic_shapes=dynamic_shapes)
        except Exception:
            if not caching:
                raise
            notes = ["captured with use_cache=False, since torch.export refuses the model with its cache"]
            with _set(caching, "use_cache", False):
                program = torch.export.export(module, args, dict(kwargs) or None, dynamic_shapes=dynamic_shapes)
    except Exception as e:
        first = next((line.strip() for line in str(e).splitlines() if line.strip()), type(e).__name__)
        raise SplitError(
            f"torch.export cannot export {type(module).__name__}: {first[:300]}; "
            "torch.export.draft_export(module, args) lists all obstacles",
            module=type(module).__name__,
        ) from e
    captured = _unlifted(program)
    captured.notes += notes
    return captured


def _unlifted(program: torch.export.ExportedProgram) -> Captured:
    try:
        unlifted = program.module()
    except Exception as e:
        first = next((line.strip() for line in str(e).splitlines() if line.strip()), type(e).__name__)
        raise SplitError(f"torch.export cannot make a module of the exported program: {first[:300]}") from e
    assert isinstance(unlifted, fx.GraphModule)
    info = unlifted.graph._codegen.pytree_info
    guards = None
    for n in reversed(list(unlifted.graph.nodes)):
        if n.op == "call_module" and n.target == "_guards_fn":
            guards = unlifted.get_submodule("_guards_fn")
            unlifted.graph.erase_node(n)
        elif n.op == "call_function" and function_name(n) in METADATA_CHECKS:
            unlifted.graph.erase_node(n)
    unlifted.graph.set_codegen(fx.graph.CodeGen())
    _drop_unused_attributes(unlifted)
    return Captured(unlifted, info.in_spec, info.out_spec, guards)


@contextmanager
def _set(objects: list[Any], name: str, value: Any) -> Iterator[None]:
    """Sets an attribute of all objects for a while."""
    before = [getattr(o, name) for o in objects]
    try:
        for o in objects:
            setattr(o, name, value)
        yield
    finally:
        for o, old in zip(objects, before):
            setattr(o, name, old)


def _drop_unused_attributes(graph_module: fx.GraphModule) -> None:
    unused = [n for n in graph_module.graph.nodes if n.op == "get_attr" and not n.users]
    for n in unused:
        graph_module.graph.erase_node(n)


def _copied(graph: fx.Graph) -> fx.Graph:
    copied = fx.Graph()
    result = copied.graph_copy(graph, {})
    copied.output(result)
    return copied


def _infer(graph_module: fx.GraphModule, args: Arguments) -> None:
    """Gives each node of a graph of torch.fx an example of its value, without running the model."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    if not args:
        return
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]

        class Inferring(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                n.meta["val"] = result = super().run_node(n)
                return result

        try:
            Inferring(graph_module).run(*fakes)
        except Exception:  # a module that runs with real tensors alone
            for n in graph_module.graph.nodes:
                n.meta.pop("val", None)
            _infer_by_running(graph_module, args)


def _infer_by_running(graph_module: fx.GraphModule, args: Arguments) -> None:
    class Running(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            n.meta["val"] = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to("meta"), result)
            return result

    with torch.no_grad():
        Running(graph_module).run(*args)


def function_name(n: fx.Node) -> str:
    """The name of the function, method or class that a call runs: `linear` of aten.linear.default."""
    if n.op == "call_method":
        return str(n.target)
    if n.op == "call_module":
        return "module"
    if isinstance(n.target, torch._ops.OpOverload):
        return n.target._schema.name.split("::")[-1]
    return getattr(n.target, "__name__", str(n.target))


def module_of(n: fx.Node) -> str:
    """The path of the module that a node comes from; empty if it is not known."""
    stack = n.meta.get("nn_module_stack")
    if not stack:
        return str(n.target) if n.op == "call_module" else ""
    path = list(stack.values())[-1][0]
    return str(path).removeprefix("L['self'].").removeprefix("L['self']")


def tensors_of(n: fx.Node) -> list[Any]:
    """The tensors that a node makes, as examples without data."""
    made = n.meta.get("val")
    several = made if isinstance(made, (list, tuple)) else [made]
    return [t for t in several if isinstance(t, torch.Tensor)]


def extent(size: Any, n: fx.Node) -> int:
    """The size of a dimension; of one that is open, the size in the example."""
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    if hint is None:
        raise SplitError(
            f"the size {size} of node {n.name!r} depends on data, so that its stage cannot be planned; "
            "give the model an input of that size, or bound it with torch._check",
            node=n.name,
            module=module_of(n),
        )
    return int(hint)


def elements_of(t: Any, n: fx.Node) -> int:
    product = 1
    for size in t.shape:
        product *= extent(size, n)
    return product


def bytes_of(n: fx.Node) -> int:
    made = n.meta.get("val")
    if isinstance(made, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
        return 8
    return sum(elements_of(t, n) * t.dtype.itemsize for t in tensors_of(n))


def is_sendable(n: fx.Node) -> bool:
    made = n.meta.get("val")
    if made is None:
        return True  # a graph without examples: taken for a tensor
    return isinstance(made, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def attribute(root: nn.Module, path: str) -> Any:
    found: Any = root
    for step in path.split("."):
        found = getattr(found, step)
    return found


def storage_key(t: Any) -> Any:
    if isinstance(t, torch.Tensor):
        try:
            return (t.untyped_storage().data_ptr() or id(t), str(t.device))
        except (RuntimeError, NotImplementedError):
            return id(t)
    return id(t)


def written_arguments(n: fx.Node, root: nn.Module) -> list[fx.Node]:
    """The arguments whose memory a call writes."""
    if n.op == "call_module":
        called = root.get_submodule(str(n.target))
        return [a for a in n.args[:1] if isinstance(a, fx.Node)] if getattr(called, "inplace", False) else []
    if n.op == "call_method":
        name = str(n.target)
        in_place = name.endswith("_") and not name.endswith("__") or name in ("__setitem__", "__iadd__", "__imul__")
        return [a for a in n.args[:1] if isinstance(a, fx.Node)] if in_place else []
    if isinstance(n.target, torch._ops.OpOverload):
        if not n.target._schema.is_mutable:
            return []
        written: list[fx.Node] = []
        for i, parameter in enumerate(n.target._schema.arguments):
            if parameter.alias_info is None or not parameter.alias_info.is_write:
                continue
            given = n.args[i] if i < len(n.args) else n.kwargs.get(parameter.name)
            several = given if isinstance(given, (list, tuple)) else [given]
            written += [a for a in several if isinstance(a, fx.Node)]
        return written
    in_place = n.kwargs.get("inplace") is True or n.target in (
        operator.setitem, operator.iadd, operator.imul, operator.isub, operator.itruediv,
    )  # fmt: skip
    return [a for a in n.args[:1] if isinstance(a, fx.Node)] if in_place else []


def _aliases(n: fx.Node) -> list[fx.Node]:
    """The arguments whose memory the result of a call may share."""
    everything = [a for a in n.all_input_nodes]
    if n.op == "call_module":
        return everything[:1]
    if isinstance(n.target, torch._ops.OpOverload):
        if function_name(n) in PASSING:
            return everything[:1]
        shared: list[fx.Node] = []
        returned = {name for r in n.target._schema.returns if r.alias_info for name in r.alias_info.before_set}
        for i, parameter in enumerate(n.target._schema.arguments):
            if parameter.alias_info and returned & (parameter.alias_info.before_set | {"*"}):
                given = n.args[i] if i < len(n.args) else n.kwargs.get(parameter.name)
                several = given if isinstance(given, (list, tuple)) else [given]
                shared += [a for a in several if isinstance(a, fx.Node)]
        return shared
    return everything


def written_groups(c: Captured) -> list[list[fx.Node]]:
    """Lists of calls that must share a stage since memory is written in place: from the call that makes it to the
    last one that writes it, with all that read it in between. Later readers read the last content, which can be sent.

    Raises `SplitError` if an input of the model is written, which other stages would not see.
    """
    roots: dict[fx.Node, set[Any]] = {}
    touched: dict[Any, list[tuple[int, fx.Node]]] = defaultdict(list)
    last_write: dict[Any, int] = {}
    held: set[Any] = set()
    for n in c.placeholders:
        roots[n] = {n}
    for n in c.attributes:
        key = ("state", storage_key(attribute(c.module, str(n.target))))
        roots[n] = {key}
        held.add(key)
    for at, n in enumerate(c.calls):
        mine: set[Any] = set()
        for a in _aliases(n):
            mine |= roots.get(a, set())
        for a in n.all_input_nodes:
            for root in roots.get(a, set()):
                touched[root].append((at, n))
        writes = written_arguments(n, c.module)
        for a in writes:
            for root in roots.get(a, set()):
                if isinstance(root, fx.Node) and root.op == "placeholder":
                    raise SplitError(
                        f"node {n.name!r} ({function_name(n)}) writes the input {root.name!r} in place, "
                        "which neither the caller nor other stages would see; clone the input in the model",
                        node=n.name,
                        module=module_of(n),
                    )
                last_write[root] = at
        roots[n] = mine or {n}
        touched[n].append((at, n))
    groups = []
    for root, at in last_write.items():
        # What a run writes into state, the next run reads.
        group = [n for place, n in touched[root] if place <= at or root in held]
        group = list(dict.fromkeys(group))
        if len(group) > 1:
            groups.append(group)
    return groups


def is_deterministic(n: fx.Node, root: nn.Module) -> bool:
    """Whether running a call again gives the same result and changes nothing."""
    if n.op != "call_function":
        return False
    if isinstance(n.target, torch._ops.OpOverload):
        tags = n.target.tags
        if function_name(n) in (
            "dropout",
            "bernoulli",
            "rand",
            "randn",
            "randint",
            "multinomial",
            "scaled_dot_product_attention",
        ):
            return function_name(n) == "dropout" and n.args[2:3] == (False,)
        return not n.target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in tags
    if isinstance(n.target, torch._ops.HigherOrderOperator):
        bodies = [attribute(root, str(a.target)) for a in n.all_input_nodes if a.op == "get_attr"]
        bodies = [b for b in bodies if isinstance(b, fx.GraphModule)]
        return bool(bodies) and all(
            is_deterministic(m, b) for b in bodies for m in b.graph.nodes if m.op.startswith("call_")
        )
    return getattr(n.target, "__module__", "") in ("_operator", "operator", "math")


def replicable_calls(c: Captured, costs: Mapping[fx.Node, float], written: set[fx.Node]) -> set[fx.Node]:
    """The calls that stages may make again: those that read neither inputs nor parameters, are not random, write
    nothing, and together with all that they read cost less than a hundredth of the whole."""
    cheap = 0.01 * sum(costs.values())
    whole: dict[fx.Node, float] = {}
    for n in c.attributes:
        t = attribute(c.module, str(n.target))
        if not isinstance(t, nn.Parameter):
            whole[n] = 0.0
    for n in c.calls:
        if n in written or not is_deterministic(n, c.module):
            continue
        if all(o in whole for o in n.all_input_nodes):
            whole[n] = costs.get(n, 0.0) + sum(whole[o] for o in n.all_input_nodes)
    return {n for n in c.calls if whole.get(n, float("inf")) <= cheap}


def names_of_state(root: nn.Module) -> dict[int, list[str]]:
    """All names of each parameter and buffer, by its identity."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, p in root.named_parameters(remove_duplicate=False):
        names[id(p)].append(name)
    for name, b in root.named_buffers(remove_duplicate=False):
        names[id(b)].append(name)
    return names


CostFunction = Callable[[fx.Node], float]
