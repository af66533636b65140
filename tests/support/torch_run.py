#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times PyTorch's pipeline runtime on the schedules of bench/run.cpp, with stages that do next to nothing (they add a
parameter to one number), gloo, a process a rank, a thread each. After comments, which begin with #, lines of

    SCHEDULE RANKS STAGES_A_RANK MICROBATCHES ACTIONS LEAST MEDIAN MOST

ACTIONS are those of all ranks, messages and waits too; the others are microseconds of a step, which ends where the last
rank ends. 1F1B and Interleaved1F1B are carried out action by action; Schedule1F1B is PyTorch's class for that one
schedule, which has no list of actions: it is given that of 1F1B.

    python3 torch_run.py [STEPS]         by default 10
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import _Action, _PipelineScheduleRuntime

MICROBATCHES = 64


class NearlyNothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.added = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.added


def one_forward_one_backward(ranks):
    """Of each rank its list of 1F1B."""
    lists = {}
    for rank in range(ranks):
        ahead, all_of_them = ranks - rank - 1, range(MICROBATCHES)
        cells = [f"{rank}F{i}" for i in all_of_them[:ahead]]
        for i in all_of_them:
            cells += [f"{rank}F{i + ahead}"] * (i + ahead < MICROBATCHES) + [f"{rank}B{i}"]
        lists[rank] = [_Action.from_str(cell) for cell in cells]
    return lists


def make_schedule(name, rank, ranks):
    of_each = 2 if name == "Interleaved1F1B" else 1
    stages = [PipelineStage(NearlyNothing(), s, ranks * of_each, torch.device("cpu"))
              for s in range(rank, ranks * of_each, ranks)]
    loss = lambda y, target: (y - target).sum()
    if name == "Schedule1F1B":
        return Schedule1F1B(stages[0], MICROBATCHES, loss_fn=loss, scale_grads=False)
    if name == "Interleaved1F1B":
        return ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_fn=loss, scale_grads=False)
    schedule = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=loss, scale_grads=False)
    schedule.pipeline_order = one_forward_one_backward(ranks)
    schedule._prepare_schedule_with_comms(schedule.pipeline_order)
    return schedule


def timed_steps(schedule, rank, ranks, steps):
    """Microseconds of each step on the slowest rank, after two that are not timed."""
    x, times = torch.ones(MICROBATCHES, 1), []
    for _ in range(2 + steps):
        dist.barrier()
        begin = time.perf_counter()
        schedule.step(*([x] if rank == 0 else []), target=x if rank == ranks - 1 else None, return_outputs=False)
        took = torch.tensor([1e6 * (time.perf_counter() - begin)])
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        times.append(took.item())
    return sorted(times[2:])


def run_rank(rank, ranks, meeting, steps):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    for name in ("1F1B", "Schedule1F1B", "Interleaved1F1B"):
        schedule = make_schedule(name, rank, ranks)
        times = timed_steps(schedule, rank, ranks, steps)
        if name != "Schedule1F1B":
            actions = sum(len(row) for row in schedule.pipeline_order_with_comms.values())
        if rank == 0:
            spread = " ".join(f"{t:.0f}" for t in (times[0], times[len(times) // 2], times[-1]))
            print(name, ranks, 2 if name == "Interleaved1F1B" else 1, MICROBATCHES, actions, spread, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    load = " ".join(f"{x:.2f}" for x in os.getloadavg())
    print(f"# torch {torch.__version__}, gloo, {os.cpu_count()} processors, load averages before {load}", flush=True)
    for ranks in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            given = (ranks, os.path.join(folder, "meeting"), int(sys.argv[1]) if sys.argv[1:] else 10)
            processes.start_processes(run_rank, given, ranks, start_method="fork")
