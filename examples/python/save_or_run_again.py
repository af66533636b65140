#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains transformer blocks with torch.compile, and has the forward pass save fewer bytes for the backward pass.

    python save_or_run_again.py

Needs torch 2.15, and prints with it (times are counted from the shapes):

    only views again          3.18 MB saved,  27 operations again, 0.00 ms
    a MB for 0.2 ms           2.91 MB saved,  39 operations again, 0.05 ms
    no product again          2.70 MB saved,  55 operations again, 0.15 ms
    within a third            1.05 MB saved, 102 operations again, 1.51 ms
    fewest bytes              0.07 MB saved, 187 operations again, 3.02 ms
"""

from __future__ import annotations

import torch
from functorch.compile import nop
from torch._dynamo.backends.common import aot_autograd

import cleave.pytorch

torch.manual_seed(1)
model = torch.nn.Sequential(
    *[torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True) for _ in range(4)]
)
x = torch.randn(8, 32, 64)


def gradients() -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


model(x).square().mean().backward()
eager = gradients()


def train(name: str, partitioner: cleave.pytorch.JointPartitioner) -> cleave.JointCut:
    """Runs a step with the partitioner, compares its gradients with eager PyTorch, and prints what it saves."""
    # [compile]
    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=nop, partition_fn=partitioner)  # nop: a compiler that returns the graph
    compiled = torch.compile(model, backend=backend)
    model.zero_grad()
    compiled(x).square().mean().backward()
    # [compile]
    apart = max(float((a - b).abs().max()) for a, b in zip(gradients(), eager))
    assert apart < 1e-5, apart
    cut = partitioner.cuts[0].cut
    print(f"{name:24} {cut.bytes / 1e6:5.2f} MB saved, {len(cut.again):3} operations again, {1e3 * cut.cost:4.2f} ms")
    return cut


# [partitioners]
every = train("only views again", cleave.pytorch.joint_partitioner(bytes_per_cost=1e300))
train("a MB for 0.2 ms", cleave.pytorch.joint_partitioner(bytes_per_cost=5e9))
train("no product again", cleave.pytorch.joint_partitioner(products_again=False))
train("within a third", cleave.pytorch.joint_partitioner(most_bytes=every.bytes // 3))
train("fewest bytes", cleave.pytorch.joint_partitioner())
# [partitioners]
