# SPDX-License-Identifier: MIT
"""PyTorch modules in stages: equal bits, names of state, ties, buffers, open sizes, pipelines, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cleave

torch = pytest.importorskip("torch", reason="torch is not installed: PyTorch modules are not tested")
from torch import nn  # noqa: E402

from cleave.pytorch import capability_partition, ddp_buckets, split_module  # noqa: E402

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def names_in(split: Any) -> list[set[str]]:
    return [set(stage.state_dict()) for stage in split.stages]


class Tied(nn.Module):
    """An embedding that is the head's weight as well, and a parameter that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight
        self.unused = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        h = self.embed(x)
        for layer in self.layers:
            h = torch.relu(layer(h))
        return self.head(h)


class Residual(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(n, n, 3, padding=1), nn.BatchNorm2d(n), nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.conv(x))
        y += x
        return self.relu(y)


def tokens() -> Any:
    return torch.randint(50, (2, 7))


def test_bits_and_gradients_are_equal() -> None:
    model, x = Tied(), tokens()
    split = cleave.split(model, (x,), 3)
    whole, parts = model(x), split(x)
    assert torch.equal(whole, parts)
    trained = [p for n, p in model.named_parameters() if n != "unused"]
    for a, b in zip(torch.autograd.grad(whole.sum(), trained), torch.autograd.grad(parts.sum(), trained)):
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-6)


def test_state_has_the_names_of_the_model() -> None:
    model, x = Tied(), tokens()
    split = cleave.split(model, (x,), 3)
    assert set().union(*names_in(split)) == set(model.state_dict())
    assert split.stages[0].get_parameter("embed.weight") is model.embed.weight
    again = copy.deepcopy(split.stages[0])
    assert torch.equal(again(x)[0], split.stages[0](x)[0])
    assert again.get_parameter("embed.weight") is not model.embed.weight


def test_tied_parameters() -> None:
    model, x = Tied(), tokens()
    sent = cleave.split(model, (x,), 3, tied="send")
    assert sent.ties == [] and sum("embed.weight" in names for names in names_in(sent)) == 1
    kept = cleave.split(model, (x,), 3, tied="copy")
    assert kept.ties == [[(0, "embed.weight"), (2, "embed.weight")]]
    assert torch.equal(kept(x), sent(x))
    with pytest.raises(
        cleave.InfeasibleError, match="only 1 nodes or groups"
    ):  # the ends of the model, and all between
        cleave.split(model, (x,), 3, tied="together")
    with pytest.raises(cleave.OptionError, match="tied is 'x'"):
        cleave.split(model, (x,), 3, tied="x")


def test_buffers_and_memory_written_in_place() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), *(Residual(8) for _ in range(4)), nn.Flatten(), nn.Linear(8 * 14 * 14, 10)
    )
    whole, x = copy.deepcopy(model), torch.randn(2, 3, 16, 16)
    split = cleave.split(model, (x,), 4)
    assert torch.equal(split(x), whole(x))
    for a, b in zip(model.buffers(), whole.buffers()):
        assert torch.equal(a, b)
    assert set().union(*names_in(split)) == set(model.state_dict())


class Open(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("shift", torch.ones(8), persistent=False)

    def forward(self, x: Any, *, scale: Any) -> Any:
        n = x.shape[0]
        h = (self.a(x) + self.shift).reshape(n * x.shape[1], 8)
        h = torch.relu(self.b(h)).view(n, -1, 8) * scale
        return {"y": self.c(h), "mean": h.sum() / n}


def test_keywords_open_sizes_and_guards() -> None:
    model, scale = Open(), torch.tensor(2.0)
    rows = torch.export.Dim("rows", min=2, max=64)
    split = cleave.split(
        model, (torch.randn(4, 5, 8),), 3, kwargs={"scale": scale}, dynamic_shapes={"x": {0: rows}, "scale": {}}
    )
    for n in (4, 2, 9):
        x = torch.randn(n, 5, 8)
        whole, parts = model(x, scale=scale), split(x, scale=scale)
        assert list(whole) == list(parts)
        assert all(torch.equal(whole[key], parts[key]) for key in whole)
    with pytest.raises(AssertionError, match="Guard failed"):
        split(torch.randn(100, 5, 8), scale=scale)
    with pytest.raises(cleave.SplitError, match="the arguments are nested"):
        split(torch.randn(4, 5, 8))
    assert "shift" not in set().union(*names_in(split))


def test_random_operations_keep_their_order() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3)) for _ in range(6)))
    x = torch.randn(4, 16)
    split = cleave.split(model, (x,), 3)
    torch.manual_seed(5)
    whole = model(x)
    torch.manual_seed(5)
    assert torch.equal(whole, split(x))


def test_graphs_of_torch_fx() -> None:
    model, x = Tied(), tokens()
    split = cleave.split(torch.fx.symbolic_trace(model), (x,), 3)
    assert torch.equal(model(x), split(x))
    assert split.ties == [[(0, "embed.weight"), (2, "embed.weight")]]  # modules that are called whole keep them
    assert "gradients must be added" in split.report()


def test_exported_programs() -> None:
    model, x = Tied(), tokens()
    split = cleave.split(torch.export.export(model, (x,)), (x,), 2)
    assert torch.equal(model(x), split(x))


def test_costs() -> None:
    model, x = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6))), torch.randn(4, 16)
    assert "counted by operator" in cleave.split(model, (x,), 3).report()
    measured = cleave.split(model, (x,), 3, costs="measured")
    assert "measured in one run with backward passes" in measured.report()
    heavy = cleave.split(model, (x,), 2, costs=lambda n: 5.0 if n.name == "linear" else 1.0)
    assert [row.nodes for row in heavy.plan.rows] == [1, 5] and heavy.plan.gap == 0
    with pytest.raises(cleave.OptionError, match="names 'conv', which is no call"):
        cleave.split(model, (x,), 3, costs={"conv": 1.0})


def test_plans_and_given_stages() -> None:
    model, x = Tied(), tokens()
    split = cleave.split(model, (x,), 3)
    again = cleave.split(model, (x,), plan=pickle.loads(pickle.dumps(split.plan)))
    assert again.plan == split.plan and torch.equal(again(x), split(x))
    asked = cleave.split(
        nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))),
        (torch.randn(2, 4),),
        2,
        stage_of={"linear": 0, "linear_1": 1},
    )
    assert asked.plan.stage_of["linear_1"] == 1
    with pytest.raises(cleave.SplitError, match="the plan is not of this model"):
        cleave.split(nn.Bilinear(4, 4, 4), (torch.randn(2, 4), torch.randn(2, 4)), plan=asked.plan)


def test_memory_and_schedules() -> None:
    model, x = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6))), torch.randn(4, 16)
    assert [row.state for row in cleave.split(model, (x,), 3, memory=3000).plan.rows] == [2176] * 3
    with pytest.raises(cleave.InfeasibleError, match="limit is 2000 bytes"):
        cleave.split(model, (x,), 3, memory=2000)
    split = cleave.split(model, (x,), 2, schedule="ZBV")
    assert split.plan.rank_of == (0, 1, 1, 0) and len(split.stages) == 4
    with pytest.raises(cleave.OptionError, match="several copies of the model"):
        cleave.split(model, (x,), schedule=cleave.schedule("DualPipe", 2, 4))


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else x * 2


class WritesInput(nn.Module):
    def forward(self, x: Any) -> Any:
        x.add_(1)
        return x * 2


class WritesBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        y = self.a(x)
        self.seen.add_(y.detach().mean(0))
        return self.b(y) + self.seen


def test_what_is_refused() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(cleave.SplitError, match="torch.export cannot export Branching") as e:
        cleave.split(Branching(), (x,), 1)
    assert e.value.module == "Branching"
    with pytest.raises(cleave.SplitError, match="writes the input 'x' in place") as e:
        cleave.split(WritesInput(), (x,), 1)
    assert e.value.node == "add_"
    with pytest.raises(cleave.SplitError, match="use memory that one of them writes in place"):
        cleave.split(WritesBuffer(), (x,), 2, stage_of={"add_": 0, "add": 1})
    whole, model = WritesBuffer(), WritesBuffer()
    model.load_state_dict(whole.state_dict())
    assert torch.equal(cleave.split(model, (x,), 2)(x), whole(x)) and torch.equal(model.seen, whole.seen)
    with pytest.raises(TypeError, match="not int"):
        cleave.split(3, (x,), 2)
    with pytest.raises(TypeError, match="must be a tuple"):
        cleave.split(nn.Linear(4, 4), x, 1)


def test_the_cut_is_made_with_its_schedule() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(14)], nn.Linear(64, 900))
    x = torch.randn(256, 64)
    split = cleave.split(model, (x,), 3, schedule="search", microbatches=6)
    assert torch.equal(split(x), model(x))
    order = split.schedule
    assert order is not None and (order.ranks, order.stages, order.microbatches) == (3, 3, 6) and order.verify() == []
    assert [row.nodes > 0 for row in split.plan.rows] == [True] * 3 and split.plan.gap >= 0
    assert "cut and schedule made together" in split.report() and "of 6 microbatches takes" in split.report()
    same = cleave.split(model, (x,), 3, schedule="search", microbatches=6)
    assert same.plan == split.plan and same.schedule == order
    assert order == cleave.read_schedule(order.to_torch_csv())  # what other processes get
    other = cleave.split(model, (x,), schedule=cleave.read_schedule(order.to_torch_csv()), plan=split.plan)
    assert torch.equal(other(x), model(x))
    held = sum(p.numel() * 4 for p in model.parameters())
    capped = cleave.split(model, (x,), 3, schedule="search", memory=held * 2 // 3)
    convolutions = nn.Sequential(*[nn.Conv2d(4, 4, 3, padding=1) for _ in range(6)])
    for cut in (split, capped, cleave.split(convolutions, (torch.randn(1, 4, 8, 8),), 2, schedule="search", microbatches=8)):
        assert cut.schedule is not None and max(cut.schedule.simulate().kept) <= cut.schedule.ranks + 1
    assert max(row.state for row in capped.plan.rows) <= held * 2 // 3
    with pytest.raises(cleave.InfeasibleError, match="limit"):
        cleave.split(model, (x,), 3, schedule="search", memory=held // 4)
    with pytest.raises(cleave.InfeasibleError, match="only 1 nodes or groups"):
        cleave.split(nn.Linear(64, 4), (x,), 2, schedule="search")
    for more in ({"plan": split.plan}, {"speed": 2.0}, {"stage_of": {"linear": 1}}):
        with pytest.raises(cleave.OptionError):
            cleave.split(model, (x,), 3, schedule="search", **more)
    with pytest.raises(cleave.OptionError, match="k is missing"):
        cleave.split(model, (x,), schedule="search")


@pytest.mark.parametrize("training", [True, False])
def test_stages_keep_the_mode_of_the_model(training: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Linear(8, 8))
    x = torch.randn(16, 8)
    model.train(training)
    whole = copy.deepcopy(model)
    split = cleave.split(model, (x,), 3, stage_of={"batch_norm": 0, "dropout": 1, "linear_2": 2})
    for rows in (x[:16], x.flip(0)):
        torch.manual_seed(1)
        wanted = whole(rows)
        torch.manual_seed(1)
        assert torch.equal(split(rows), wanted)
    for name, b in whole.named_buffers():
        assert torch.equal(b, model.get_buffer(name))
    assert int(model.get_buffer("1.num_batches_tracked")) == (2 if training else 0)
    for stage, node in ((split.stages[0], "batch_norm"), (copy.deepcopy(split.stages[1]), "dropout")):
        assert stage.training == training and stage.train(training) is stage
        with pytest.raises(cleave.SplitError, match=f"captured with training={training} and keeps that") as e:
            stage.train(not training)
        assert e.value.node == node
    assert not split.stages[2].eval().training and split.stages[2].train().training  # which is the same in both


def test_stages_move_to_their_devices() -> None:
    model, x = Tied(), tokens()
    whole = model(x)
    split = cleave.split(model, (x,), 3, devices=["cpu", torch.device("cpu"), "cpu:0"])
    assert torch.equal(split(x), whole)
    split = cleave.split(model, (x,), 3, devices=["cpu", "meta", "meta"])
    where = [{t.device.type for t in [*s.parameters(), *s.buffers()]} for s in split.stages]
    assert where[0] == {"cpu"} and where[1] == {"meta"} and where[2] <= {"meta"}
    made = split(x)
    assert made.device.type == "meta" and made.shape == whole.shape
    with pytest.raises(cleave.OptionError, match="2 devices for 3 stages"):
        cleave.split(Tied(), (x,), 3, devices=["cpu", "cpu"])
    with pytest.raises(RuntimeError, match="abacus"):
        cleave.split(Tied(), (x,), 3, devices=["cpu", "abacus", "cpu"])


def test_split_module_and_capability() -> None:
    model, x = Tied(), tokens()
    traced = torch.fx.symbolic_trace(model)
    parts = split_module(traced, cleave.split(traced, (x,), 3).plan)
    assert torch.equal(parts(x), model(x))
    assert [n.target for n in parts.graph.nodes if n.op == "call_module"] == ["submod_0", "submod_1", "submod_2"]
    with pytest.raises(cleave.SplitError, match="read each other's results") as e:
        split_module(traced, lambda n: 1 if n.name == "layers_1" else 0)
    assert e.value.node == "layers_1"
    groups = capability_partition(traced, lambda n: n.op == "call_module" and n.name != "layers_2")
    assert [[n.name for n in group] for group in groups] == [
        ["embed", "layers_0"],
        ["layers_1"],
        ["layers_3"],
        ["head"],
    ]


def test_buckets_of_gradients() -> None:
    model, x = Tied(), tokens()
    filled = ddp_buckets(model, (x,), cap=2000, first_cap=500)
    assert filled[-1].parameters == ("layers.3.weight", "layers.3.bias")
    sent = sorted(name for bucket in filled for name in bucket.parameters)
    assert sent == sorted(name for name, _ in model.named_parameters() if name != "unused")
    best = ddp_buckets(model, (x,), bandwidth=1e9, latency=1e-6)
    assert sum(bucket.bytes for bucket in best) == sum(bucket.bytes for bucket in filled)


def test_a_llama_with_a_cache_is_cut_without_it() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: its models are not tested")
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64))  # fmt: skip
    assert model.config.use_cache
    x = torch.randint(1, 96, (2, 8))
    split = cleave.split(model, kwargs={"input_ids": x}, k=2)
    assert torch.equal(split(input_ids=x).logits, model(input_ids=x).logits) and model.config.use_cache
    assert "use_cache=False" in split.report()


@pytest.mark.parametrize("ranks", [2, 4])
def test_pipelines_of_hugging_face(ranks: int) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: its models are not tested")
    orders = ["1F1B", "Interleaved1F1B", "ZBV"] + (["1F1B:lowered", "ZBV:lowered"] if ranks == 2 else [])
    check_pipelines(ranks, ["gpt2", "llama", "bert", "t5"], orders)


def test_pipelines_with_copies_of_shared_parameters() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: its models are not tested")
    check_pipelines(2, ["gpt2", "t5"], ["1F1B:copy", "ZBV:copy"])


def test_pipelines_keep_the_statistics_of_microbatches() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: its models are not tested")
    check_pipelines(2, ["normed"], ["1F1B", "ZBV"])


def test_pipelines_of_open_sizes() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: its models are not tested")
    check_pipelines(2, ["gpt2", "llama"], ["1F1B:open", "ZBV:open"])


def test_pipelines_whose_schedule_is_searched_for() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: its models are not tested")
    check_pipelines(2, ["llama", "t5"], ["search", "search:lowered", "ZBH1:searched"])


def check_pipelines(ranks: int, models: list[str], orders: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "pipeline_ranks.py"), str(ranks), ",".join(models), ",".join(orders)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(models) * len(orders)
    for answer in answers:
        assert answer["losses"] == 8 and answer["missing"] == [], answer
        assert answer["loss"] < 1e-12 and answer["gradient"] < 1e-12, answer
