# SPDX-License-Identifier: MIT
"""Runs pipelines of models of Hugging Face in local processes and compares them with the whole models, in doubles.

python pipeline_ranks.py RANKS MODELS SCHEDULES        names with commas; prints a line of JSON for each pipeline

A schedule is a name, or `search`, and may be followed by `:lowered` (cleave puts in the messages), `:copy` (stages hold
copies of what they share, and add the gradients), `:open` (rows are longer than those that the model was cut with) or
`:searched` (the cut is that of `search`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
import transformers

import cleave

WORDS, ROWS, LENGTH = 96, 8, 8


class Normed(torch.nn.Module):
    """Layers with batch normalization, whose statistics each microbatch changes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, 32)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(32) for _ in range(4))
        self.head = torch.nn.Linear(32, WORDS)

    def forward(self, input_ids: torch.Tensor) -> Any:
        x = self.embed(input_ids)
        for layer, norm in zip(self.layers, self.norms):
            x = x + norm(layer(x).transpose(1, 2)).transpose(1, 2).relu()
        return self.head(x)


def model_called(name: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """A small model with random weights, and a batch of inputs."""
    torch.manual_seed(0)
    tokens = torch.randint(1, WORDS, (ROWS, LENGTH))
    inputs = {"input_ids": tokens}
    model: Any
    if name == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, use_cache=False))  # fmt: skip
    elif name == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=WORDS, n_embd=32, n_layer=4, n_head=4, n_positions=64, use_cache=False, resid_pdrop=0,
            embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0))  # fmt: skip
    elif name == "bert":
        model = transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
            hidden_dropout_prob=0, attention_probs_dropout_prob=0, max_position_embeddings=64))  # fmt: skip
        inputs["attention_mask"] = torch.ones(ROWS, LENGTH, dtype=torch.long)
    elif name == "normed":
        model = Normed()
    else:
        model = transformers.T5ForConditionalGeneration(transformers.T5Config(
            vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0, use_cache=False,
            decoder_start_token_id=0, pad_token_id=0))  # fmt: skip
        inputs["decoder_input_ids"] = tokens.roll(1, 1)
    return model.double(), inputs


def loss_of(made: Any, target: torch.Tensor) -> torch.Tensor:
    words = made if isinstance(made, torch.Tensor) else made.logits
    return torch.nn.functional.cross_entropy(words.flatten(0, 1), target.flatten())


def rows_of(inputs: dict[str, torch.Tensor], first: int, last: int) -> dict[str, torch.Tensor]:
    return {name: t[first:last] for name, t in inputs.items()}


def run_rank(rank: int, ranks: int, folder: str, names: list[str], schedules: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    for name in names:
        for order in schedules:
            family, _, way = order.partition(":")
            model, inputs = model_called(name)
            example = rows_of(inputs, 0, 1)
            shapes, microbatch = None, None
            if way == "open":
                length = torch.export.Dim("length", min=2, max=64)
                example = {key: t[:, :5] for key, t in example.items()}
                shapes = {key: {1: length} for key in example}
            plan = None
            if way == "searched":
                plan = cleave.split(model, kwargs=example, schedule="search", k=ranks, microbatches=ROWS).plan
            split = cleave.split(
                model, kwargs=example, dynamic_shapes=shapes, tied="copy" if way == "copy" else "send",
                schedule="search" if family == "search" else cleave.schedule(family, ranks, ROWS),
                k=ranks if family == "search" else None, microbatches=ROWS, plan=plan,
            )  # fmt: skip
            if way == "open":
                microbatch = split.flat_inputs(**rows_of(inputs, 0, 1))
            pipeline = split.pipeline(loss_fn=loss_of, lowered=way == "lowered", microbatch=microbatch)
            losses = pipeline.step(**inputs, target=inputs["input_ids"])
            if way == "copy":
                assert split.ties, "no parameter is held by two stages"
                split.sum_tied_gradients()
            gradients = {n: p.grad for s in pipeline.stages for n, p in s.submod.named_parameters()}
            statistics = {n: b for s in pipeline.stages for n, b in s.submod.named_buffers()}
            torch.save(([x.item() for x in losses], gradients, statistics), f"{folder}/{name}.{order}.{rank}")
    dist.destroy_process_group()


def main() -> None:
    ranks, names, schedules = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3].split(",")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        processes.start_processes(run_rank, (ranks, folder, names, schedules), ranks, start_method="fork")
        for name in names:
            model, inputs = model_called(name)
            whole = [loss_of(model(**rows_of(inputs, i, i + 1)), inputs["input_ids"][i : i + 1]) for i in range(ROWS)]
            torch.stack(whole).mean().backward()
            wanted = {n: p.grad for n, p in model.named_parameters()}
            for order in schedules:
                losses: list[float] = []
                unlike: list[str] = []
                got: dict[str, torch.Tensor] = {}
                for rank in range(ranks):
                    some, gradients, statistics = torch.load(Path(folder) / f"{name}.{order}.{rank}")
                    losses += some
                    for n, b in model.named_buffers():
                        if n in statistics and not torch.allclose(statistics[n], b, rtol=1e-12):
                            unlike.append(n)
                    for n, gradient in gradients.items():
                        if gradient is not None:
                            copied = order.endswith(":copy") and n in got
                            assert not copied or torch.equal(got[n], gradient), f"copies of {n} have two gradients"
                            assert copied or n not in got, f"two stages own {n}"
                            got[n] = gradient
                answer = {
                    "model": name, "schedule": order, "losses": len(losses),
                    "loss": max((abs(a.item() - b) for a, b in zip(whole, losses)), default=None),
                    "missing": sorted(wanted.keys() ^ got.keys()) + unlike,
                    "gradient": max(((got[n] - g).abs().max() / g.abs().max().clamp_min(1e-12)).item()
                                    for n, g in wanted.items() if n in got),
                }  # fmt: skip
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
