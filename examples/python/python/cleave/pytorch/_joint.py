# SPDX-License-Identifier: MIT
"""A partitioner for AOTAutograd: what the forward pass saves, and what the backward pass runs again."""

from __future__ import annotations

import functools
import hashlib
import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .._joint_graph import JointCut, cut_joint_graph
from .._numbers import most_bytes as most_number
from .._numbers import real, whole
from ._costs import BYTES, FLOPS, LAUNCH

TRIED = "2.15"
"""The versions of torch with which the tests have passed."""

NEEDED = (
    "_extract_fwd_bwd_modules",
    "_extract_fwd_bwd_outputs",
    "_is_assert_only_symbool",
    "_is_bwd_seed_offset",
    "_is_primal",
    "_is_tangent",
    "_must_be_in_backward",
    "_must_be_in_forward",
    "_size_of",
    "CheckpointPolicy",
    "classify_nodes",
    "cleanup_recompute_tags",
    "config",
    "default_partition",
    "estimate_runtime",
    "force_save_bw_mutation_src",
    "force_save_collectives",
    "force_save_effectful_ops",
    "functionalize_rng_ops",
    "fx_graph_cse",
    "has_recomputable_ops",
    "has_recomputable_rng_ops",
    "is_opaque_node",
    "is_rng_op",
    "is_sym_node",
    "must_recompute",
    "raise_getitems",
    "reordering_to_mimic_autograd_engine",
    "thread_graphsafe_rng_from_hops",
)
"""What is called of torch._functorch.partitioners, which is private."""


@functools.cache
def _parts_of_torch() -> Any:
    """Returns the module with torch's own partitioners. \\throws ImportError if something of it is missing"""
    try:
        from torch._functorch import partitioners
    except ImportError:
        missing = ["torch._functorch.partitioners"]
    else:
        missing = [name for name in NEEDED if not hasattr(partitioners, name)]
        if not missing and "extra_node_key" in inspect.signature(partitioners.fx_graph_cse).parameters:
            return partitioners
        missing = missing or ["the argument extra_node_key of fx_graph_cse"]
    raise ImportError(
        f"torch {torch.__version__} lacks {', '.join(missing)}: joint_partitioner calls private functions of torch, "
        f"and was tried with torch {TRIED}"
    )


@dataclass(frozen=True)
class JointPartition:
    """A joint graph that was cut. Plain data."""

    names: tuple[str, ...]
    """The names of the nodes of the joint graph, by the numbers in `cut`."""
    cut: JointCut

    @property
    def saved(self) -> tuple[str, ...]:
        """The values that the forward pass saves, but for parameters."""
        return tuple(self.names[n] for n in self.cut.saved)

    @property
    def again(self) -> tuple[str, ...]:
        """The operations that the backward pass runs again."""
        return tuple(self.names[n] for n in self.cut.again)


class JointPartitioner:
    """Cuts the joint graphs of AOTAutograd. `joint_partitioner` makes one."""

    cuts: list[JointPartition]
    """What was cut, in the order of the calls."""

    def __init__(
        self,
        options: dict[str, Any],
        cost: Callable[[fx.Node], float] | None,
        run_once: Callable[[fx.Node], bool] | None,
        products_again: bool,
    ) -> None:
        _parts_of_torch()
        self._options, self._cost, self._run_once, self._products_again = options, cost, run_once, products_again
        self.cuts = []

    @property
    def _torch(self) -> Any:
        return _parts_of_torch()

    def __deepcopy__(self, memo: Any) -> JointPartitioner:
        return self  # Inductor copies its configuration; what the copy cuts is listed in `cuts` too

    def uuid(self) -> Any:
        """Returns a key for the caches of Inductor, or None, which they take for no caching."""
        if self._cost is not None or self._run_once is not None:
            return None
        from .. import __version__

        key = repr((__version__, sorted(self._options.items()), self._products_again))
        return hashlib.sha256(key.encode()).hexdigest()

    def __call__(
        self,
        joint_module: fx.GraphModule,
        joint_inputs: Any,
        compiler: str = "",
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: list[int] | None = None,
        **_: Any,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Returns the forward and the backward module, as torch's `min_cut_rematerialization_partition` does."""
        p = self._torch
        if p.config.enable_activation_offloading:
            raise NotImplementedError("joint_partitioner does not offload; unset config.enable_activation_offloading")
        # The same steps as in torch's function, but for the choice of what is saved.
        joint_module.graph.eliminate_dead_code()
        joint_module.recompile()
        if p.config.cse:
            _merge_equal_nodes(p, joint_module, num_fwd_outputs)
        tagged, random_again = p.has_recomputable_ops(joint_module), p.has_recomputable_rng_ops(joint_module)
        if tagged:
            joint_module = p.cleanup_recompute_tags(joint_module, is_default_partition=False)
        if not p.config.unsafe_allow_optimization_of_collectives:
            p.force_save_collectives(joint_module)
        p.force_save_effectful_ops(joint_module)
        p.force_save_bw_mutation_src(joint_module)
        info = p.classify_nodes(joint_module, static_lifetime_input_indices or [], num_fwd_outputs)
        if not info.required_bw_nodes:
            return p.default_partition(
                joint_module,
                joint_inputs,
                num_fwd_outputs=num_fwd_outputs,
                static_lifetime_input_indices=static_lifetime_input_indices or [],
                static_lifetime_input_nodes=info.static_lifetime_input_nodes,
            )

        saved = self._choose(joint_module, info, num_fwd_outputs)
        symbols = [n for n in saved if p.is_sym_node(n) and not p._is_assert_only_symbool(n)]
        forward, backward = p._extract_fwd_bwd_modules(
            joint_module,
            [n for n in saved if not p.is_sym_node(n) and not p.is_opaque_node(n)],
            saved_sym_nodes=symbols,
            saved_opaque_nodes=[n for n in saved if p.is_opaque_node(n)],
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_nodes=info.static_lifetime_input_nodes,
        )
        for module in (forward, backward):  # random operations that nothing reads would draw numbers
            module.graph.eliminate_dead_code(lambda n: n.is_impure(impure_random=False))
        if tagged and random_again:
            forward, backward = p.functionalize_rng_ops(joint_module, forward, backward, len(symbols))
        backward = p.reordering_to_mimic_autograd_engine(backward)
        forward, backward = p.raise_getitems(forward), p.raise_getitems(backward)
        return (
            p.thread_graphsafe_rng_from_hops(forward, is_backward=False),
            p.thread_graphsafe_rng_from_hops(backward, is_backward=True),
        )

    def _choose(self, joint_module: fx.GraphModule, info: Any, num_fwd_outputs: int) -> list[fx.Node]:
        """Returns the nodes whose values the forward pass saves, with the parameters that the backward pass reads."""
        p = self._torch
        nodes: list[Any] = [n for n in joint_module.graph.nodes if n.op != "output"]
        if any(p._must_be_in_backward(n) for n in nodes):
            nodes.insert(0, None)  # a gradient of no bytes, on which operations depend that may not run before
        number = {n: i for i, n in enumerate(nodes)}
        given, asked, told, _ = p._extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)
        written = _written_inputs(p, joint_module.graph, told)
        costs = self._costs(nodes)
        reads: list[list[int]] = []
        bytes_, inputs, parameters, gradients = [], [], [], []
        run_once, unsavable, results, returned = [], [], [], []
        for i, n in enumerate(nodes):
            reads.append([] if n is None else [number[m] for m in n.all_input_nodes])
            bytes_.append(0 if n is None else self._bytes(n))
            if n is None or p._is_tangent(n) or p._is_bwd_seed_offset(n):
                gradients.append(i)
            elif n in written:
                inputs.append(i)
                unsavable.append(i)
            elif n.op == "get_attr" or n in info.static_lifetime_input_nodes:
                parameters.append(i)
            elif n.op == "placeholder":
                inputs.append(i)
            else:
                if self._runs_once(n):
                    run_once.append(i)
                if p.must_recompute(n) or not self._can_be_saved(n):
                    unsavable.append(i)
                if p._must_be_in_backward(n):
                    reads[i].append(0)
                    returned.append(i)
                elif p._must_be_in_forward(n):
                    results.append(i)
        results += [number[n] for n in given if isinstance(n, fx.Node) and n not in info.tangents_closure]
        returned += [number[n] for n in asked if isinstance(n, fx.Node)]
        names = tuple("backward" if n is None else n.name for n in nodes)
        cut = cut_joint_graph(
            reads,
            bytes_,
            inputs=inputs,
            parameters=parameters,
            gradients=gradients,
            results=results,
            input_gradients=returned,
            cost=costs,
            run_once=run_once,
            unsavable=unsavable,
            names=names,
            **self._options,
        )
        self.cuts.append(JointPartition(names, cut))
        read = {m for n in cut.backward for m in reads[n]} | set(returned)
        kept = {n for n in parameters if n in read and nodes[n].op == "placeholder"}
        return [nodes[n] for n in sorted(kept.union(cut.saved))]

    def _bytes(self, n: fx.Node) -> int:
        value = n.meta.get("val")
        if isinstance(value, torch.Tensor) or self._torch.is_sym_node(n):
            return int(self._torch._size_of(n))
        return 0

    def _can_be_saved(self, n: fx.Node) -> bool:
        value = n.meta.get("val")
        return isinstance(value, torch.Tensor) or self._torch.is_sym_node(n) or self._torch.is_opaque_node(n)

    def _runs_once(self, n: fx.Node) -> bool:
        """Whether the operation may run only once."""
        p = self._torch
        if n.meta.get("recompute") == p.CheckpointPolicy.MUST_SAVE or p._must_be_in_forward(n):
            return True
        if p.must_recompute(n):
            return False
        if p.is_rng_op(n) or isinstance(n.target, torch._ops.HigherOrderOperator):
            return True
        if n.is_impure(impure_random=False) or (not self._products_again and _is_product(n)):
            return True
        return self._run_once is not None and bool(self._run_once(n))

    def _costs(self, nodes: list[Any]) -> list[float]:
        if self._cost is not None:
            return [float(self._cost(n)) if n is not None and n.op == "call_function" else 0.0 for n in nodes]
        with self._torch.config.patch(activation_memory_budget_runtime_estimator="flops"):
            return [self._seconds(n) for n in nodes]

    def _seconds(self, n: Any) -> float:
        """Returns the seconds of an operation by the model with which `cleave.split` counts."""
        if n is None or n.op != "call_function" or n.target is operator.getitem or _is_view(n):
            return 0.0
        value = n.meta.get("val")
        if isinstance(value, torch.Tensor):
            moved = self._bytes(n)
        elif isinstance(value, (tuple, list)) and any(isinstance(v, torch.Tensor) for v in value):
            moved = int(self._torch._size_of(n))
        else:
            return 0.0
        moved += sum(self._bytes(m) for m in n.all_input_nodes)
        operations = float(self._torch.estimate_runtime(n)) if _is_product(n) else 0.0
        return max(operations / FLOPS, moved / BYTES, LAUNCH)


def _merge_equal_nodes(p: Any, joint_module: fx.GraphModule, num_fwd_outputs: int) -> None:
    """Merges equal nodes, but none of the forward pass alone with one that gradients depend on."""
    _, asked, *_ = p._extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)
    open_nodes = [n for n in asked if isinstance(n, fx.Node)]
    needed = set()
    while open_nodes:
        n = open_nodes.pop()
        if n not in needed:
            needed.add(n)
            open_nodes += n.all_input_nodes
    joint_module.graph = p.fx_graph_cse(joint_module.graph, extra_node_key=needed.__contains__)


def _written_inputs(p: Any, graph: fx.Graph, told: list[Any]) -> set[fx.Node]:
    """Returns the inputs that the forward pass writes, in the graph or after it: the backward pass cannot read what
    they were. `told` says what the results of the forward pass are."""
    descriptions = [d.mutated_input for d in told if hasattr(d, "mutated_input")]
    written = {
        n
        for n in graph.find_nodes(op="placeholder")
        if n.meta.get("aot_runtime_epilogue_input_mutation", False) or n.meta.get("desc", n) in descriptions
    }
    for n in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        if p._must_be_in_forward(n) and isinstance(n.args[0], fx.Node) and n.args[0].op == "placeholder":
            written.add(n.args[0])
    return written


def _is_product(n: fx.Node) -> bool:
    """Whether torch counts floating-point operations for it: products, convolutions and attention."""
    from torch.utils.flop_counter import flop_registry

    return getattr(n.target, "_overloadpacket", None) in flop_registry


def _is_view(n: fx.Node) -> bool:
    return getattr(n.target, "is_view", False) or n.target is torch.ops.aten._unsafe_view.default


def joint_partitioner(
    most_bytes: int | None = None,
    bytes_per_cost: float = 0.0,
    *,
    in_flight: int = 1,
    products_again: bool = True,
    cost: Callable[[fx.Node], float] | None = None,
    run_once: Callable[[fx.Node], bool] | None = None,
) -> JointPartitioner:
    """Returns a partitioner for AOTAutograd, in place of torch's `min_cut_rematerialization_partition`.

        part = cleave.pytorch.joint_partitioner(most_bytes=2 * 2**30)
        backend = torch._dynamo.backends.common.aot_autograd(fw_compiler=…, partition_fn=part)
        torch._inductor.config.custom_partitioner_fn = part     # or in torch.compile with Inductor

    Random operations run once, as do operations that write memory or communicate. Inputs that torch calls static, such
    as parameters, count no bytes. What `torch.utils.checkpoint` marks is run again or saved as marked.

    Args:
        most_bytes: limit of what one graph saves; the least cost within it is sought.
        bytes_per_cost: without a limit, the bytes that a second of an operation must save. 0: the fewest bytes.
        in_flight: microbatches that wait for their backward pass; the limit is for all of them.
        products_again: whether products, convolutions and attention may run again.
        cost: the cost of a node; None: its seconds, counted from its operations and its bytes as `cleave.split` counts.
        run_once: which further operations may run only once.

    Raises:
        ImportError: this torch lacks what is called of its private functions. It was tried with torch 2.15.
        cleave.InfeasibleError: in a call, `most_bytes` is too low.
    """
    options = {
        "most_bytes": None if most_bytes is None else whole(most_bytes, "most_bytes", 0, most_number),
        "bytes_per_cost": real(bytes_per_cost, "bytes_per_cost", 1e300),
        "in_flight": whole(in_flight, "in_flight", 1, 2**20),
    }
    made = JointPartitioner(options, cost, run_once, products_again)
    try:  # Inductor takes only what is one of these
        from torch._inductor.custom_graph_pass import CustomPartitionerFn
    except ImportError:
        return made
    CustomPartitionerFn.register(JointPartitioner)
    return made
