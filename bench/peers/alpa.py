#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records the plans of Alpa (Zheng et al., OSDI 2022) for Piper's workloads.

    ./dev bench peers alpa OUT [--repository FOLDER] [NAME MEMORY DEVICES]...

Fetches github.com/alpa-projects/alpa into a temporary folder (or uses FOLDER) and runs its `training_dp_2`, which cuts a row
of layers into stages on submeshes, unchanged. Alpa profiles slices of layers on real devices. Here their times and memory
come from the workloads of Piper in bench/data/piper. A submesh is 1, 2, 4 or 8 devices, or whole hosts of 8, a power of two
of them. Its devices split each microbatch into `width` equal shares, `shards` devices run each share, and all layers of a
stage run again in the backward pass, or none. OUT receives one JSON object a line, for each workload, memory in GiB and
number of devices. bench/recorded/alpa.jsonl was made so.
"""
import ast
import json
import time

import numba
import numpy

import plans

SOURCE = "https://github.com/alpa-projects/alpa"
COMMIT = "b8078a9f75cb4c90cabb4550ee48c99ef394e209"
FUNCTIONS = ["get_optimal_submeshes", "training_dp_impl_2", "training_dp_2"]
SETTINGS = [("bert32a100", m, k) for m in (2, 8, 80) for k in (8, 16, 32, 64)]
BANDWIDTH = 25 * (1 << 30)
DEVICES_OF_A_HOST = 8


class NoTimer:
    def start(self): pass
    def stop(self): pass


def training_dp_of(repository):
    """Returns Alpa's function, without the packages that the rest of its file imports."""
    path = repository / "alpa" / "pipeline_parallel" / "stage_construction.py"
    tree = ast.parse(path.read_text())
    tree.body = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name in FUNCTIONS]
    scope = {"np": numpy, "maybe_numba_jit": numba.njit, "timers": lambda name: NoTimer()}
    exec(compile(tree, str(path), "exec"), scope)
    return scope["training_dp_2"]


def layers_in_order(workload):
    """Returns the layers in the order of bench/piper.cpp: each after those that it reads."""
    by_id = {n["id"]: n for n in workload["nodes"]}
    before = {i: [] for i in by_id}
    for e in workload["edges"]:
        before[e["destId"]].append(e["sourceId"])
    order, listed = [], set()

    def list_layer(i):
        if i in listed:
            return
        listed.add(i)
        for b in before[i]:
            list_layer(b)
        order.append(by_id[i])

    for i in sorted(by_id):
        list_layer(i)
    return order


def submeshes(devices):
    shapes = [(1, 1 << i) for i in range(4) if 1 << i <= devices]
    hosts = 2
    while hosts * DEVICES_OF_A_HOST <= devices:
        shapes.append((hosts, DEVICES_OF_A_HOST))
        hosts *= 2
    return shapes


def slice_costs(workload, memory, shapes):
    """Returns the cost of each slice on each submesh in each configuration, and how many stages may follow it."""
    layers, microbatches = layers_in_order(workload), workload["mbsInBatch"]
    edge = {(e["sourceId"], e["destId"]): e["communicationCost"] for e in workload["edges"]}
    configurations = [(int(t), again) for t in layers[0]["TMPCs"] for again in (0, 1)]
    n = len(layers)
    cost = numpy.full((n, n, len(shapes), len(configurations)), numpy.inf)
    followers = numpy.full(cost.shape, -1, dtype=numpy.int64)
    for begin in range(n):
        for end in range(begin, n):
            inside = {layer["id"] for layer in layers[begin:end + 1]}
            for c, (shards, again) in enumerate(configurations):
                ways = [layer["TMPCs"].get(str(shards)) for layer in layers[begin:end + 1]]
                if not all(ways):
                    continue
                ways = [w[min(again, len(w) - 1)] for w in ways]
                sent = sum(2 * (edge[int(j), layer["id"]] + b) for layer, w in zip(layers[begin:end + 1], ways)
                           for j, b in w["syncTimeFw"].items() if int(j) not in inside)
                sent += sum(2 * (edge[layer["id"], int(j)] + b) for layer, w in zip(layers[begin:end + 1], ways)
                            for j, b in w["syncTimeBw"].items() if int(j) not in inside)
                seconds = sum(w["timePerSample"] for w in ways) + sent / BANDWIDTH
                weights, saved, held = (sum(w[k] for w in ways) for k in ("parameterSize", "memoryUsageA", "memoryUsageB"))
                for m, (hosts, of_each) in enumerate(shapes):
                    width, rest = divmod(hosts * of_each, shards)
                    if rest:
                        continue
                    sums = 4 * (width - 1) * weights / width / BANDWIDTH
                    in_flight = int((memory - held) * width // saved) if saved else microbatches
                    if in_flight >= 1:
                        cost[begin, end, m, c] = seconds / width + sums / microbatches
                        followers[begin, end, m, c] = in_flight - 1
    return layers, configurations, cost, followers


def planner_of(repository):
    training_dp = training_dp_of(repository)

    def plan(name, memory, devices):
        workload = json.loads((plans.WORKLOADS / f"{name}.json").read_text())
        shapes = submeshes(devices)
        layers, configurations, cost, followers = slice_costs(workload, memory * (1 << 30), shapes)
        begin = time.process_time()
        try:
            total, stages = training_dp(devices, workload["mbsInBatch"], shapes, cost, followers)
        except AssertionError as e:
            if "Unable to find any solution" not in str(e):
                raise
            return {"seconds": round(time.process_time() - begin, 3), "stages": []}
        row = {"seconds": round(time.process_time() - begin, 3), "stages": [], "cost": float(total)}
        for (first, last), shape, configuration in stages:
            shards, again = configurations[configuration]
            width = shapes[shape][0] * shapes[shape][1] // shards
            nodes = [layer["id"] for layer in layers[first:last]]
            row["stages"].append({"nodes": nodes, "width": width, "shards": shards, "again": bool(again)})
        return row

    plan("bert32a100", 80, 1)  # numba compiles it, so that no plan's time has that in it
    return plan


if __name__ == "__main__":
    plans.record(__doc__, SOURCE, COMMIT, SETTINGS, planner_of)
