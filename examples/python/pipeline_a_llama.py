#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small Llama of Hugging Face, with random weights, as a pipeline of local processes.

    python pipeline_a_llama.py [SCHEDULE] [-p RANKS] [-m MICROBATCHES]

Needs torch and transformers. Each process cuts the model by the same plan and runs its own stages with gloo. At the end
the losses and gradients are compared with those of the whole model.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from transformers import LlamaConfig, LlamaForCausalLM

import cleave

WORDS, LENGTH = 512, 16


def make_model() -> Any:
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            use_cache=False,
        )  # fmt: skip
    )


def make_batch(microbatches: int) -> torch.Tensor:
    return torch.randint(WORDS, (microbatches, LENGTH), generator=torch.Generator().manual_seed(2))


# [loss]
def loss_of(result: Any, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(result.logits[:, :-1].flatten(0, 1), target[:, 1:].flatten())


# [loss]


def run_rank(rank: int, ranks: int, folder: str, order: cleave.Schedule, plan: cleave.Plan) -> None:
    """Runs one step of this rank's stages, and saves losses and gradients."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    tokens = make_batch(order.microbatches)
    model = make_model()
    # [rank]
    split = cleave.split(model, kwargs={"input_ids": tokens[:1]}, schedule=order, plan=plan)
    pipeline = split.pipeline(loss_fn=loss_of)
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)

    optimizer.zero_grad()
    losses = pipeline.step(input_ids=tokens, target=tokens)  # empty but on the rank of the last stage
    # [rank]
    gradients = {name: p.grad for stage in pipeline.stages for name, p in stage.submod.named_parameters()}
    torch.save(([loss.item() for loss in losses], gradients), f"{folder}/answer.{rank}")
    optimizer.step()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("schedule", nargs="?", default="1F1B")
    parser.add_argument("-p", dest="ranks", type=int, default=2)
    parser.add_argument("-m", dest="microbatches", type=int, default=8)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    name, ranks, microbatches = asked.schedule, asked.ranks, asked.microbatches
    model, tokens = make_model(), make_batch(microbatches)
    # [plan]
    order = cleave.schedule(name, ranks=ranks, microbatches=microbatches)
    split = cleave.split(model, kwargs={"input_ids": tokens[:1]}, schedule=order)  # one microbatch as the example
    print(split.report())
    assert torch.equal(split(input_ids=tokens[:1]).logits, model(input_ids=tokens[:1]).logits)  # to the bit
    # [plan]
    with tempfile.TemporaryDirectory() as folder:
        processes.start_processes(run_rank, (ranks, folder, order, split.plan), ranks, start_method="fork")
        answers = [torch.load(Path(folder) / f"answer.{rank}") for rank in range(ranks)]
    whole = [loss_of(model(input_ids=row[None]), row[None]) for row in tokens]
    torch.stack(whole).mean().backward()
    losses = [loss for some, _ in answers for loss in some]
    apart = max(abs(a.item() - b) for a, b in zip(whole, losses, strict=True))
    gradients = {name: g for _, some in answers for name, g in some.items()}
    furthest = max(
        ((gradients[name] - p.grad).abs().max() / p.grad.abs().max()).item() for name, p in model.named_parameters()
    )
    print(
        f"{order.name}, {ranks} ranks: losses differ by at most {apart:.1e}, gradients by {furthest:.1e} of the largest"
    )


if __name__ == "__main__":
    main()
