# SPDX-License-Identifier: MIT
"""Cuts PyTorch modules into stages that run as a pipeline. Needs torch; `import cleave` alone does not.

    import cleave
    split = cleave.split(model, (tokens,), schedule=cleave.schedule("1F1B", ranks=2, microbatches=8))
    print(split.report())
    pipeline = split.pipeline(loss_fn=loss)         # on each rank, after init_process_group
    losses = pipeline.step(tokens, target=target)

split                   stage modules, a plan with its bound, and the pipeline for torch.distributed.pipelining
split_module            cuts a graph of torch.fx into the parts that a function says, as modules called in turn
capability_partition    groups of nodes that one device can run
ddp_buckets             parameters whose gradients DistributedDataParallel should send together
joint_partitioner       for torch.compile: what the forward pass saves, and what the backward pass runs again
"""

from __future__ import annotations

from ._buckets import Bucket, capability_partition, ddp_buckets, split_module
from ._joint import JointPartition, JointPartitioner, joint_partitioner
from ._split import Pipeline, Split, split
from ._stages import Stage

__all__ = [
    "Bucket",
    "JointPartition",
    "JointPartitioner",
    "Pipeline",
    "Split",
    "Stage",
    "capability_partition",
    "ddp_buckets",
    "joint_partitioner",
    "split",
    "split_module",
]
