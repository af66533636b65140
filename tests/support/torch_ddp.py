#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times PyTorch's DistributedDataParallel on the task of bench/ddp.cpp, over gloo, with a process for each of two
replicas. Prints rows of its table.

    python3 torch_ddp.py [LAYERS [MEBIBYTES [MILLISECONDS]]]   of a layer: its gradient, its backward pass
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

REPLICAS, STEPS = 2, 9


def wait(seconds, on_device):
    if on_device:
        time.sleep(seconds)
        return
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class Layer(torch.autograd.Function):
    """Passes `x` on. Its backward pass takes some time, and gives the weight its own value as gradient."""

    @staticmethod
    def forward(ctx, x, weight, seconds, on_device):
        ctx.save_for_backward(weight)
        ctx.how = seconds, on_device
        return x + 0

    @staticmethod
    def backward(ctx, gradient):
        wait(*ctx.how)
        return gradient, ctx.saved_tensors[0].clone(), None, None


class Layers(nn.Module):
    def __init__(self, count, elements, seconds, on_device):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(elements)) for _ in range(count))
        self.how = seconds, on_device

    def forward(self, x):
        for weight in self.weights:
            x = Layer.apply(x, weight, *self.how)
        return x


def median(step):
    """Seconds of a step on the slower rank: least, median, most."""
    took = []
    for i in range(STEPS + 1):
        dist.barrier()
        begin = time.perf_counter()
        step()
        t = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(t, dist.ReduceOp.MAX)
        if i:
            took.append(t.item())
    took.sort()
    return took[0], took[len(took) // 2], took[-1]


def run(rank, file, count, mebibytes, milliseconds):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=REPLICAS)
    for on_device in True, False:
        def model():
            return Layers(count, int(mebibytes * 2**18), milliseconds / 1e3, on_device)
        x = torch.ones(1, requires_grad=True)

        def backward(m):
            m.zero_grad(set_to_none=False)
            m(x).sum().backward()

        def show(plan, number, t, at_end=None):
            if rank:
                return
            hidden = "– | –"
            if at_end:
                hides = at_end - t[1]
                hidden = f"{1e3 * hides:.1f} | {hides / could:.2f}"
            print(f"| {'device' if on_device else 'processor'} | gloo | {plan} | {number} | "
                  f"{1e3 * t[1]:.1f} ({1e3 * t[0]:.1f} to {1e3 * t[2]:.1f}) | {hidden} |", flush=True)

        whole = DistributedDataParallel(model(), bucket_cap_mb=25)

        def without():
            with whole.no_sync():
                backward(whole)

        plain = model()

        def after():
            backward(plain)
            flat = torch.cat([p.grad for p in plain.parameters()])
            dist.all_reduce(flat)
            for p, g in zip(plain.parameters(), flat.split([p.numel() for p in plain.parameters()])):
                p.grad.copy_(g)

        none, one = median(without), median(after)
        could = min(one[1] - none[1], none[1] * (count - 1) / count)
        show("DDP: no_sync", 0, none)
        show("one sum after the pass", 1, one)
        for cap in 25, 1, mebibytes:
            m = DistributedDataParallel(model(), bucket_cap_mb=cap)
            t = median(lambda: backward(m))
            sizes = m._get_ddp_logging_data().get("rebuilt_bucket_sizes") or m._get_ddp_logging_data()["bucket_sizes"]
            show(f"DDP: bucket_cap_mb={cap:g}", len(str(sizes).split(",")), t, one[1])
    dist.destroy_process_group()


def main():
    arguments = [float(a) for a in sys.argv[1:]] + [24, 0.5, 6][len(sys.argv) - 1:]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (os.path.join(folder, "meet"), int(arguments[0]), *arguments[1:]), nprocs=REPLICAS)


if __name__ == "__main__":
    main()
