# SPDX-License-Identifier: MIT
"""Times a pipeline of two gloo processes with 1F1B: torch's own `pipeline()`, cut between layers, and cleave's cut.

    python bench/pipeline_torch.py [--model text] [--blocks 8] [--width 192] [--words 16000] [--steps 5]

`text` is a transformer whose head costs as much as several layers; `images` is a network of convolutions whose first
blocks see large images, and its last ones small ones. For each cut the script prints the time of a step, and what each
rank computes: its CPU time in a step. The slowest rank is what a pipeline on machines of their own is as fast as. Of
several steps the fastest counts; the first one is not counted. `searched` is split(schedule="search"), whose order
is not 1F1B.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn

import cleave

RANKS, MICROBATCHES, ROWS, LENGTH = 2, 8, 2, 64


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = 4
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class Model(nn.Module):
    def __init__(self, blocks: int, width: int, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Convolutions(nn.Module):
    def __init__(self, blocks: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, stride=2 if i in (blocks // 2, 3 * blocks // 4) else 1),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            )
            for i in range(blocks)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.embed(images)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))


def model_of(asked: Any) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The model, a batch, and its target."""
    torch.manual_seed(1)
    numbers = torch.Generator().manual_seed(2)
    if asked.model == "images":
        images = torch.randn(MICROBATCHES * ROWS, 3, 32, 32, generator=numbers)
        target = torch.randint(10, (MICROBATCHES * ROWS,), generator=numbers)
        return Convolutions(asked.blocks, asked.width // 4), images, target
    words = torch.randint(asked.words, (MICROBATCHES * ROWS, LENGTH + 1), generator=numbers)
    return Model(asked.blocks, asked.width, asked.words), words[:, :-1].contiguous(), words[:, 1:].contiguous()


def loss_of(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, -2), target.flatten())


def run_rank(rank: int, meeting: str, how: str, plan: Any, asked: Any, answer: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    model, batch, target = model_of(asked)
    if how == "torch":
        from torch.distributed.pipelining import Schedule1F1B, SplitPoint, pipeline

        spec = {f"layers.{asked.blocks // 2}": SplitPoint.BEGINNING}
        stage = pipeline(model, (batch[:ROWS],), split_spec=spec).build_stage(rank, torch.device("cpu"))
        schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss_of)
        parameters = list(stage.submod.parameters())

        def step() -> list[torch.Tensor]:
            losses: list[torch.Tensor] = []
            if rank == 0:
                schedule.step(batch)
            else:
                schedule.step(target=target, losses=losses)
            return losses
    else:
        found, order = plan
        split = cleave.split(model, (batch[:ROWS],), schedule=cleave.read_schedule(order), plan=found)
        pipe = split.pipeline(loss_fn=loss_of)
        parameters = pipe.parameters()

        def step() -> list[torch.Tensor]:
            return pipe.step(batch, target=target)

    wall, work, loss = [], [], 0.0
    for _ in range(asked.steps + 1):
        for p in parameters:
            p.grad = None
        dist.barrier()
        begin, spent = time.perf_counter(), time.process_time()
        losses = step()
        work.append(time.process_time() - spent)
        dist.barrier()
        wall.append(time.perf_counter() - begin)
        loss = sum(x.item() for x in losses) / MICROBATCHES
    torch.save((min(wall[1:]), min(work[1:]), loss), f"{answer}.{rank}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=["text", "images"], default="text")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--words", type=int, default=16_000)
    parser.add_argument("--steps", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model, batch, _ = model_of(asked)
    example = (batch[:ROWS],)
    order = cleave.schedule("1F1B", RANKS, MICROBATCHES)
    plans = {}
    for name, options in {
        "cleave, counted": {"schedule": order},
        "cleave, measured": {"schedule": order, "costs": "measured"},
        "cleave, searched": {"schedule": "search", "k": RANKS, "microbatches": MICROBATCHES},
    }.items():
        split = cleave.split(model, example, **options)
        assert split.schedule is not None
        plans[name] = (split.plan, split.schedule.to_torch_csv())
        print(f"{name}:\n{split.report()}\n")
    print(f"{'cut':18}{'step, ms':>10}{'CPU of ranks, ms':>20}{'slowest':>9}{'of torch':>10}{'loss':>10}")
    slowest_of_torch = 0.0
    for name in ("torch, by layers", *plans):
        with tempfile.TemporaryDirectory() as folder:
            given = (
                str(Path(folder) / "meeting"),
                name.split(",")[0],
                plans.get(name),
                asked,
                str(Path(folder) / "answer"),
            )
            processes.start_processes(run_rank, given, RANKS, start_method="spawn")
            answers = [torch.load(f"{given[-1]}.{rank}") for rank in range(RANKS)]
        work = [1000 * a[1] for a in answers]
        slowest_of_torch = slowest_of_torch or max(work)
        print(
            f"{name:18}{1000 * max(a[0] for a in answers):10.0f}{' : '.join(f'{w:.0f}' for w in work):>20}"
            f"{max(work):9.0f}{max(work) / slowest_of_torch:10.2f}{answers[-1][2]:10.5f}"
        )


if __name__ == "__main__":
    main()
