#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times PyTorch on the tensors of bench/gpu/sums.cpp, on the same GPU, and compares with the times that are in the
files it left: _foreach_add_ of 1,000 tensors of f32, and the loop main_grad.add_(grad) over 10,000 small ones of bf16.

    python3 torch_sums.py FOLDER
"""
import os
import statistics
import sys
import time

import torch


def read(folder, name):
    lines = open(os.path.join(folder, name + ".sizes")).read().split()
    return float(lines[0]), [int(n) for n in lines[1:]]


def seconds(call, runs=15):
    call()
    torch.cuda.synchronize()
    samples = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        samples.append(time.perf_counter() - begin)
    return samples


def row(what, least, samples, ours):
    median = statistics.median(samples)
    times = median / ours
    text = f"{times:.2f} times ours: {1e6 * median:.0f} us ({1e6 * min(samples):.0f} to {1e6 * max(samples):.0f}), ours {1e6 * ours:.0f} us"
    expected = f"{least} times ours or more" if least else ""
    verdict = "seen" if not least else "met" if times >= least else "missed"
    print(f"{verdict:8} {what}: {text}", flush=True)
    if "CLEAVE_GPU_ROWS" in os.environ:
        with open(os.environ["CLEAVE_GPU_ROWS"], "a") as rows:
            rows.write("\t".join(["torch " + torch.__version__, what, expected, text, verdict, f"{times:.6g}"]) + "\n")


def main(folder):
    ours, sizes = read(folder, "foreach")
    sums = [torch.zeros(n, device="cuda") for n in sizes]
    grads = [torch.ones(n, device="cuda") for n in sizes]
    row(f"_foreach_add_, {len(sizes)} log-normal tensors of f32", 1.2, seconds(lambda: torch._foreach_add_(sums, grads)), ours)
    del sums, grads
    ours, sizes = read(folder, "loop")
    sums = [torch.zeros(n, device="cuda") for n in sizes]
    grads = [torch.ones(n, device="cuda", dtype=torch.bfloat16) for n in sizes]

    def loop():
        for total, grad in zip(sums, grads):
            total.add_(grad)

    row(f"main_grad.add_(grad), {len(sizes)} small tensors, bf16 to f32", 3, seconds(loop), ours)
    row(f"_foreach_add_, {len(sizes)} small tensors, bf16 to f32", None, seconds(lambda: torch._foreach_add_(sums, grads)), ours)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("this torch has no GPU")
    main(sys.argv[1])
