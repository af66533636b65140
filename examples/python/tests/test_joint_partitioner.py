# SPDX-License-Identifier: MIT
"""Train steps whose passes cleave cut: outputs and gradients of eager PyTorch, and no more bytes than torch saves."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import cleave

torch = pytest.importorskip("torch", reason="torch is not installed: the partitioner for AOTAutograd is not tested")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from functorch.compile import make_boxed_func  # noqa: E402

from cleave.pytorch import joint_partitioner  # noqa: E402

aot = pytest.importorskip("torch._functorch.aot_autograd", reason="this torch has no AOTAutograd")
partitioners = pytest.importorskip("torch._functorch.partitioners", reason="this torch has no partitioners")

ALL_BANS = ("used_far_apart", "long_fusible_chains", "materialized_backward", "not_in_allowlist", "reductions")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


class Block(nn.Module):
    """A transformer block with attention in separate operations."""

    def __init__(self, dropout: float, wide: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norms = nn.ModuleList(nn.LayerNorm(wide) for _ in range(2))
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x: Any) -> Any:
        batch, rows, wide = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, rows, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        shares = torch.softmax(qkv[0] @ qkv[1].transpose(-2, -1) * (wide // self.heads) ** -0.5, -1)
        mixed = F.dropout(shares, self.dropout, self.training) @ qkv[2]
        x = x + F.dropout(self.out(mixed.transpose(1, 2).reshape(batch, rows, wide)), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norms[1](x)))), self.dropout, self.training)


def perceptron() -> tuple[Any, Any]:
    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8)), (64, 16)


def images() -> tuple[Any, Any]:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.Flatten(), nn.Linear(512, 4),
    ), (4, 3, 16, 16)  # fmt: skip


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "perceptron": perceptron,
    "block": lambda: (nn.Sequential(Block(0.0), Block(0.0)), (2, 16, 32)),
    "dropout": lambda: (nn.Sequential(Block(0.2), Block(0.2)), (2, 16, 32)),
    "images": images,
}


def bytes_saved(module: Any, results: int, held: int) -> int:
    """Counts what a forward module returns for the backward one, but for its first `held` inputs."""
    static = set(list(module.graph.find_nodes(op="placeholder"))[:held])
    (output,) = module.graph.find_nodes(op="output")
    return sum(partitioners._size_of(n) for n in output.args[0][results:] if n not in static)


class Recorded:
    """A partitioner that counts what another one saves, and lists what both modules run."""

    def __init__(self, partitioner: Any, held: int) -> None:
        self.partitioner, self.held = partitioner, held
        self.bytes: list[int] = []
        self.random: list[set[str]] = []

    def __call__(self, joint: Any, inputs: Any, *, num_fwd_outputs: int, **options: Any) -> Any:
        options["static_lifetime_input_indices"] = list(range(self.held))
        made = self.partitioner(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        self.bytes.append(bytes_saved(made[0], num_fwd_outputs, self.held))
        self.random = [{n.name for n in m.graph.nodes if partitioners.is_rng_op(n)} for m in made]
        return made


def train_step(model: Any, shape: Any, partitioner: Any) -> tuple[list[Any], Any]:
    """Returns the output, the gradients and the buffers of one step, and the record of the partitioner if there is."""
    model = copy.deepcopy(model)
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1)).requires_grad_()
    recorded = None
    call = model
    if partitioner is not None:
        recorded = Recorded(partitioner, len(list(model.parameters())) + len(list(model.buffers())))
        call = aot.aot_module(model, fw_compiler=lambda g, _: make_boxed_func(g.forward), partition_fn=recorded)
    torch.manual_seed(7)
    y = call(x)
    y.square().mean().backward()
    return [y.detach(), x.grad, *(p.grad for p in model.parameters()), *model.buffers()], recorded


def check_equal(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_train_steps(name: str) -> None:
    model, shape = MODELS[name]()
    wanted, _ = train_step(model, shape, None)
    # torch without bans computes batch normalization again from statistics that the forward pass has written.
    bans = {} if name == "images" else {f"ban_recompute_{ban}": False for ban in ALL_BANS}
    with torch._functorch.config.patch(aggressive_recomputation=bool(bans), **bans):
        _, torch_own = train_step(model, shape, partitioners.min_cut_rematerialization_partition)
    saved, part = {}, {}
    kinds: dict[str, dict[str, Any]] = {
        "nothing again": {"bytes_per_cost": 1e300},
        "at a price": {"bytes_per_cost": 1e9},
        "no product again": {"products_again": False},
        "fewest bytes": {},
    }
    for kind, options in kinds.items():
        part[kind] = joint_partitioner(**options)
        found, recorded = train_step(model, shape, part[kind])
        check_equal(found, wanted)
        (cut,) = part[kind].cuts
        assert recorded.bytes == [cut.cut.saved_bytes] and cut.cut.least
        saved[kind] = cut.cut.saved_bytes
        assert not recorded.random[0] & recorded.random[1] and not recorded.random[1]
        assert bool(recorded.random[0]) == (name == "dropout")
    assert part["nothing again"].cuts[0].cut.cost == 0
    assert saved["nothing again"] >= saved["at a price"] >= saved["fewest bytes"]
    assert saved["nothing again"] > saved["no product again"] >= saved["fewest bytes"]
    assert torch_own.bytes[0] >= saved["no product again"]

    last = 0.0
    for share in (0.9, 0.6, 0.3):
        limit = int(saved["fewest bytes"] + share * (saved["nothing again"] - saved["fewest bytes"]))
        within = joint_partitioner(most_bytes=limit)
        found, recorded = train_step(model, shape, within)
        check_equal(found, wanted)
        chosen = within.cuts[0].cut
        assert recorded.bytes == [chosen.saved_bytes] and chosen.saved_bytes <= limit
        assert chosen.cost >= last * (1 - 1e-9)
        last = chosen.cost
    with pytest.raises(cleave.InfeasibleError, match="the limit of .* is too low"):
        train_step(model, shape, joint_partitioner(most_bytes=saved["fewest bytes"] - 1))


def test_a_second_step_draws_the_numbers_of_eager() -> None:
    model, shape = MODELS["dropout"]()
    x = torch.randn(*shape)
    call = aot.aot_module(
        copy.deepcopy(model), fw_compiler=lambda g, _: make_boxed_func(g.forward), partition_fn=joint_partitioner()
    )
    found = []
    for f in (model, call):
        torch.manual_seed(3)
        for _ in range(2):
            y = f(x)
            y.sum().backward()
        found.append(y)
    assert torch.allclose(*found, rtol=1e-5, atol=1e-6)


def test_costs_and_nodes_run_once_are_those_of_the_caller() -> None:
    model, shape = MODELS["perceptron"]()
    first = joint_partitioner()
    train_step(model, shape, first)
    asked = []

    def run_once(n: Any) -> bool:
        asked.append(n.name)
        return "gelu" in n.name

    second = joint_partitioner(bytes_per_cost=1.0, cost=lambda n: 1e9 if "tanh" in n.name else 0.0, run_once=run_once)
    train_step(model, shape, second)
    names = [set(p.cuts[0].again) for p in (first, second)]
    assert {"gelu", "tanh"} <= names[0] and not {"gelu", "tanh"} & names[1] and names[1] and asked
    assert {"gelu", "tanh"} & set(second.cuts[0].saved)
    assert second.uuid() is None and first.uuid() == joint_partitioner().uuid() != joint_partitioner(2**30).uuid()


def test_torch_compile_and_open_sizes() -> None:
    common = pytest.importorskip("torch._dynamo.backends.common", reason="this torch has no torch.compile")
    from functorch.compile import nop

    model, shape = MODELS["block"]()
    part = joint_partitioner()
    compiled = torch.compile(
        copy.deepcopy(model), backend=common.aot_autograd(fw_compiler=nop, partition_fn=part), dynamic=True
    )
    for rows in (16, 24):
        x = torch.randn(shape[0], rows, shape[2], requires_grad=True)
        again = x.detach().clone().requires_grad_()
        y, z = model(x), compiled(again)
        y.square().sum().backward()
        z.square().sum().backward()
        check_equal([z.detach(), again.grad], [y.detach(), x.grad])
    assert part.cuts and part.cuts[0].saved


def test_marks_of_checkpoint_are_kept() -> None:
    common = pytest.importorskip("torch._dynamo.backends.common", reason="this torch has no torch.compile")
    from functorch.compile import nop
    from torch.utils.checkpoint import checkpoint

    model, shape = MODELS["block"]()
    compiled_model = copy.deepcopy(model)
    part = joint_partitioner(bytes_per_cost=1e300)

    def marked(x: Any) -> Any:
        return checkpoint(compiled_model[0], x, use_reentrant=False)

    compiled = torch.compile(marked, backend=common.aot_autograd(fw_compiler=nop, partition_fn=part))
    x = torch.randn(*shape, requires_grad=True)
    again = x.detach().clone().requires_grad_()
    y, z = model[0](x), compiled(again)
    y.square().sum().backward()
    z.square().sum().backward()
    check_equal([z.detach(), again.grad], [y.detach(), x.grad])
    assert any("gelu" in name for name in part.cuts[0].again)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing, which Inductor calls")
def test_inductor() -> None:
    config = pytest.importorskip("torch._inductor.config", reason="this torch has no Inductor")
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 8))
    x = torch.randn(32, 16)
    found = []
    kinds: list[dict[str, Any]] = [{"bytes_per_cost": 1e300}, {"products_again": False}]
    for options in kinds:
        part = joint_partitioner(**options)
        torch.compiler.reset()
        model.zero_grad()
        torch.manual_seed(3)
        with config.patch(custom_partitioner_fn=part, force_disable_caches=True):
            torch.compile(model)(x).square().mean().backward()
        found.append([p.grad.clone() for p in model.parameters()])
        (cut,) = part.cuts
        assert any("inductor_random" in n for n in cut.again) == ("products_again" in options)
        assert not any("inductor_seeds" in n for n in cut.again)
    check_equal(*found)


def test_a_torch_without_the_private_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    from cleave.pytorch._joint import _parts_of_torch

    _parts_of_torch.cache_clear()
    monkeypatch.delattr(partitioners, "classify_nodes")
    with pytest.raises(ImportError, match=r"lacks classify_nodes: .* was tried with torch 2\.15"):
        joint_partitioner()
    with pytest.raises(cleave.OptionError, match="most_bytes"):
        joint_partitioner(most_bytes=-1)
