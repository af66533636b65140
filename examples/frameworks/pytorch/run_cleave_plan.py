#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs plans of cleave in PyTorch's own pipeline runtime, and compares each with the uncut model.

    ./dev pytorch [SCHEDULE...] [-p RANKS] [-v STAGES] [-m MICROBATCHES] [--export]

For each schedule: the model's graph is written as JSON, `cleave schedule` writes the order, `cleave split` the stage
map, and as many local processes as there are ranks run one step with gloo, twice: with the messages that PyTorch puts
into the order, and with those that cleave has put into it (--lower). Losses and gradients must be those of the uncut
model. README.md beside this file tells how to do the same with a model of one's own.
"""
import argparse
import collections
import copy
import datetime
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.fx.passes.shape_prop import ShapeProp

SCHEDULES = ["GPipe", "1F1B", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV"]
EQUAL = 1e-12  # for doubles; another order of summation changes less
DEADLINE = datetime.timedelta(seconds=60)


# The model: a small transformer. A skip connection adds the embedding again before the head, and the head shares the
# embedding's weight.


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, inner = heads, 4 * width
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.join, self.up, self.down = nn.Linear(width, width), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        h = self.before(x)
        q, k, v = (f(h).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for f in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(mixed.transpose(-2, -3).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class SmallTransformer(nn.Module):
    def __init__(self, words=40, length=8, width=16, heads=2, blocks=8):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(0.1 * torch.randn(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        start = x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x + start)


def make_model():
    torch.manual_seed(1)
    return SmallTransformer().double()


def make_batch(rows):
    words = torch.randint(40, (rows, 9), generator=torch.Generator().manual_seed(2))
    return words[:, :-1], words[:, 1:]


def loss_of(logits, target):
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


# From PyTorch to cleave: a traced or exported model in the format of docs/graph_json.md.

# Functions whose results cost nothing: they change how a tensor is read, or take a result apart.
FREE = {"view", "reshape", "unflatten", "flatten", "transpose", "permute", "unsqueeze", "squeeze", "expand", "slice",
        "select", "narrow", "split", "split_with_sizes", "chunk", "unbind", "getitem", "getattr", "t", "alias", "detach",
        "contiguous", "size", "sym_size", "sendable"}
NOT_TENSORS = {"_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range",
               "sym_constrain_range_for_size"}
CHEAP = 0.01  # a node may be copied if it and all that it reads cost less than this share of the whole


def exported(model, *example):
    """The graph that torch.export makes of a model, in the form that `graph_json` and `cut` take: without guards and
    assertions, and with one output that is a tensor."""
    traced = torch.export.export(model, example).module()
    for n in reversed(traced.graph.nodes):
        if n.op == "call_module" and n.target == "_guards_fn" or n.op == "call_function" and name_of(n) in NOT_TENSORS:
            traced.graph.erase_node(n)
    traced.graph.eliminate_dead_code()  # what only guards and assertions read
    output = next(n for n in reversed(traced.graph.nodes) if n.op == "output")
    results = output.all_input_nodes
    if len(results) != 1:
        raise PlanError(f"the model returns {len(results)} tensors; wrap it in a module that returns one, or their sum")
    output.args = (results[0],)
    traced.graph.set_codegen(torch.fx.graph.CodeGen())  # arguments and results without the nesting of the model
    traced.recompile()
    return traced


def name_of(n):
    """The name of the function, method or class that a call runs: `linear` of aten.linear.default."""
    if n.op == "call_method":
        return n.target
    if n.op == "call_module":
        return "module"
    return n.target._schema.name.split("::")[-1] if hasattr(n.target, "_schema") else n.target.__name__


def extent(size):
    """The size of a dimension; of one that torch.export leaves open, the size in the example."""
    if isinstance(size, int):
        return size
    if size.node.hint is None:
        raise PlanError(f"the size {size} of a tensor depends on data; costs need example sizes")
    return int(size.node.hint)


def tensors_of(n):
    """The shapes and bytes per element of the tensors that a node makes."""
    made = n.meta.get("val", n.meta.get("tensor_meta"))
    list_of = made if isinstance(made, (list, tuple)) and not hasattr(made, "dtype") else [made]
    return [([extent(d) for d in t.shape], t.dtype.itemsize) for t in list_of if hasattr(t, "dtype")]


def shape_of(n):
    tensors = tensors_of(n) if isinstance(n, torch.fx.Node) else []
    return tensors[0][0] if tensors else None


def product(shape):
    return math.prod(shape)  # 1 for a tensor without dimensions


def operations_of(n, modules):
    """The floating-point operations of a call. Products count twice their multiplications, views nothing, and all
    else one for each element of the result."""
    made = sum(product(shape) for shape, _ in tensors_of(n))
    function = name_of(n)
    shapes = [shape for shape in map(shape_of, n.args) if shape is not None]
    if n.op == "call_module":
        module, weight = modules[n.target], getattr(modules[n.target], "weight", None)
        if isinstance(module, nn.Embedding) or weight is None or weight.dim() < 2:
            return made
        function, shapes = "conv" if weight.dim() > 2 else "linear", [*shapes[:1], list(weight.shape)]
        if getattr(module, "transposed", False):
            function = "conv_transpose"
    if function in FREE or function.startswith("sym_"):
        return 0
    if function in ("linear", "matmul", "mm", "bmm") and len(shapes) >= 2:
        return made + 2 * made * (shapes[1][-1] if function == "linear" else shapes[0][-1])
    if function in ("addmm", "baddbmm") and len(shapes) >= 3:
        return made + 2 * made * shapes[1][-1]
    if function.lstrip("_").startswith("conv") and len(shapes) >= 2:
        is_transposed = "transpose" in function or function == "convolution" and True in n.args[6:7]
        each = product(shapes[1][1:])  # multiplications for each element of the result, or of the input
        return made + 2 * each * (product(shapes[0]) if is_transposed else made)
    if "scaled_dot_product" in function and len(shapes) >= 3:
        query, key = shapes[:2]
        return made + 2 * key[-2] * (product(query) + made)
    return made


def is_deterministic(n):
    """Whether running a call again gives the same result and changes nothing."""
    if not isinstance(n.target, torch._ops.OpOverload):
        return False  # a Python function or a module may do anything
    return not n.target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in n.target.tags


def graph_json(traced, *example):
    """The graph to plan: nodes, their operands, costs in operations, bytes of results, and which nodes a stage may run
    again. `traced` is a graph of torch.fx, with an example of its inputs, or what `exported` returns."""
    if example:
        ShapeProp(traced).propagate(*example)
    modules, parameters = dict(traced.named_modules()), dict(traced.named_parameters(remove_duplicate=False))
    buffers = dict(traced.named_buffers(remove_duplicate=False))
    nodes, attributes, cost, whole = [], {}, {}, {}
    for n in traced.graph.nodes:
        node = {"name": n.name, "op": n.op}
        if n.op in ("call_module", "get_attr"):
            node["target"] = n.target
            attributes[n.target] = {"kind": "module" if n.op == "call_module" else
                                    "parameter" if n.target in parameters else
                                    "buffer" if n.target in buffers else "tensor"}
        elif n.op.startswith("call"):
            node["target"] = name_of(n)
        if n.op not in ("placeholder", "get_attr"):
            node["operands"] = [o.name for o in n.all_input_nodes]
        if n.op != "output" and (tensors := tensors_of(n)):
            node["bytes"] = sum(product(shape) * size for shape, size in tensors)
        if n.op.startswith("call"):
            node["cost"] = cost[n] = operations_of(n, modules)
        # What the node and all that it reads cost, if none of it is an input, a parameter or random.
        known = n.op == "get_attr" and n.target not in parameters or n.op == "call_function" and is_deterministic(n)
        if known and all(o in whole for o in n.all_input_nodes):
            whole[n] = cost.get(n, 0) + sum(whole[o] for o in n.all_input_nodes)
        nodes.append(node)
    for n, node in zip(traced.graph.nodes, nodes):
        if n.op == "call_function" and whole.get(n, math.inf) <= CHEAP * sum(cost.values()):
            node["replicable"] = True
    meta = {"cost_unit": "flop", "cost_origin": "counted from the shapes by run_cleave_plan.py"}
    return json.dumps({"format": "cleave graph 1", "nodes": nodes, "attributes": attributes, "meta": meta})


# From cleave to PyTorch: the stage map and the schedule.


class PlanError(Exception):
    pass


def read_stage_map(file, ranks_in_order):
    """Returns the stages of a map in order, each {rank, nodes, …}; `ranks_in_order` has the schedule's rank of each stage."""
    said = json.loads(Path(file).read_text())
    if said.get("format") != "cleave stage map 1":
        raise PlanError(f"{file}: expected the format 'cleave stage map 1'")
    stages = {}
    for entry in said["stages"]:
        number = entry["stage"]
        if number in stages:
            raise PlanError(f"{file}: stage {number} is on ranks {stages[number]['rank']} and {entry['rank']}")
        stages[number] = entry
    if sorted(stages) != list(range(len(ranks_in_order))):
        raise PlanError(f"{file}: stages {sorted(stages)}, but the schedule has {len(ranks_in_order)}, numbered from 0")
    for number, rank in enumerate(ranks_in_order):
        if stages[number]["rank"] != rank:
            raise PlanError(f"{file}: stage {number} is on rank {stages[number]['rank']}, the schedule has it on {rank}")
    return [stages[number] for number in range(len(stages))]


def read_order(file):
    """Reads a CSV: the rank of each stage, the number of microbatches, and which of PyTorch's two formats it has."""
    rank_of, microbatches, format = {}, 0, "compute_only"
    for rank, row in enumerate(Path(file).read_text().splitlines()):
        for stage, kind, microbatch in re.findall(r"(\d+)([A-Z_]+)(\d*)", row):
            if rank_of.setdefault(int(stage), rank) != rank:
                raise PlanError(f"{file}: stage {stage} is on ranks {rank_of[int(stage)]} and {rank}")
            if kind not in "FBIW":
                format = "compute_comms"
            elif kind == "F":
                microbatches = max(microbatches, int(microbatch) + 1)
    return [rank_of[s] for s in sorted(rank_of)], microbatches, format


def cut(traced, stages):
    """The stages as modules in a chain. PyTorch sends from a stage to the next one only, so each also hands on what is
    made before it and read after it."""
    listed = [name for stage in stages for name in stage["nodes"]]
    # Nodes that several stages run, each for itself.
    copied = {name for stage in stages for name in stage.get("constants", [])}
    copied |= {name for name, times in collections.Counter(listed).items() if times > 1}
    for n in traced.graph.nodes:
        for read in n.all_input_nodes if n.name in copied else []:
            if read.op != "get_attr" and read.name not in copied:
                raise PlanError(f"node '{n.name}' is in several stages but reads '{read.name}', which is in one")
    nodes = [n for n in traced.graph.nodes if n.op != "get_attr" and n.name not in copied]
    stage_of = {name: number for number, stage in enumerate(stages) for name in stage["nodes"]}
    for n in nodes:
        if n.op not in ("placeholder", "output") and n.name not in stage_of:
            raise PlanError(f"the map assigns no stage to node '{n.name}'")
    first = {n: -1 if n.op == "placeholder" else stage_of.get(n.name, len(stages) - 1) for n in nodes}
    last = {n: max((first[user] for user in n.users), default=first[n]) for n in nodes}
    for n in nodes:
        if any(first[user] < first[n] for user in n.users):
            raise PlanError(f"node '{n.name}' of stage {first[n]} is read in an earlier stage")
    return [cut_out(traced, [n for n in nodes if first[n] == s], s == len(stages) - 1,
                    taken=[n for n in nodes if first[n] < s and (last[n] >= s or s == 0)],
                    given=[n for n in nodes if first[n] <= s < last[n]])
            for s in range(len(stages))]


class Sendable(torch.autograd.Function):
    """A contiguous copy, as gloo needs it, in both directions. The runtime may reuse its receive buffers."""

    @staticmethod
    def forward(ctx, x):
        return x.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous()


def sendable(x):
    return Sendable.apply(x)


def cut_out(traced, nodes, is_last, taken, given):
    graph, copy_of = torch.fx.Graph(), {}
    for n in taken:
        copy_of[n] = graph.call_function(sendable, (graph.placeholder(n.name),))

    def in_stage(n):
        if n not in copy_of:  # a parameter, which each stage reads itself, or a node that each stage runs itself
            copy_of[n] = graph.node_copy(n, in_stage)
        return copy_of[n]

    for n in nodes:
        copy_of[n] = graph.node_copy(n, in_stage)
    if not is_last:
        graph.output(tuple(graph.call_function(sendable, (copy_of[n],)) for n in given))
    return copy.deepcopy(torch.fx.GraphModule(traced, graph))  # own copies of shared parameters


# One step, uncut and in a pipeline.


def uncut_step(rows, microbatches):
    """Returns the losses of the microbatches and the gradients of their mean."""
    model, (tokens, target) = make_model(), make_batch(rows)
    losses = [loss_of(model(x), y) for x, y in zip(tokens.chunk(microbatches), target.chunk(microbatches))]
    torch.stack(losses).mean().backward()
    return [loss.item() for loss in losses], {name: p.grad for name, p in model.named_parameters()}


def staged_step(rank, map_file, csv_file, trace):
    """Returns this rank's share of them: losses if it has the last stage, and gradients of its stages."""
    rank_of, microbatches, format = read_order(csv_file)
    parts = cut(trace(), read_stage_map(map_file, rank_of))
    stages = [PipelineStage(part, s, len(parts), torch.device("cpu"))
              for s, part in enumerate(parts) if rank_of[s] == rank]
    schedule = _PipelineScheduleRuntime(stages, microbatches, loss_fn=loss_of)
    schedule._load_csv(str(csv_file), format=format)
    tokens, target = make_batch(2 * microbatches)
    inputs, losses = [tokens] if rank_of[0] == rank else [], []
    schedule.step(*inputs, target=target if rank_of[-1] == rank else None, losses=losses)
    gradients = [(name, p.grad) for stage in stages for name, p in stage.submod.named_parameters()]
    return [loss.item() for loss in losses], gradients


def trace_model():
    return torch.fx.symbolic_trace(make_model())


def export_model():
    return exported(make_model(), make_batch(2)[0])


def run_rank(rank, ranks, meeting, plans, answers, trace):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=DEADLINE)
    for plan in plans:
        torch.save(staged_step(rank, *plan, trace), answers / f"{plan[1].name}.{rank}")
    dist.destroy_process_group()


def difference(csv_file, ranks, answers):
    """Returns the largest differences from the uncut step, of losses and of gradients."""
    _, microbatches, _ = read_order(csv_file)
    losses, gradients = uncut_step(2 * microbatches, microbatches)
    model = make_model()
    own_name = {p: name for name, p in model.named_parameters()}
    own_name = {name: own_name[p] for name, p in model.named_parameters(remove_duplicate=False)}
    staged_losses, staged = [], {}
    for rank in range(ranks):
        some_losses, some_gradients = torch.load(answers / f"{csv_file.name}.{rank}")
        staged_losses += some_losses
        for name, gradient in some_gradients:  # each stage has a share of the gradient of a shared weight
            name = own_name[name]
            staged[name] = staged[name] + gradient if name in staged else gradient
    if staged.keys() != gradients.keys() or len(staged_losses) != len(losses):
        raise PlanError(f"{csv_file.name}: losses are missing, or gradients of {gradients.keys() ^ staged.keys()}")
    return (max(abs(a - b) for a, b in zip(losses, staged_losses)),
            max((gradients[name] - staged[name]).abs().max().item() for name in gradients))


# The program.


def cleave(*words):
    tool = shlex.split(os.environ.get("CLEAVE_TOOL", "cleave"))
    done = subprocess.run([*tool, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise PlanError(done.stderr.strip())


def make_plans(name, asked, folder):
    """Returns the plan of one schedule in two files: without messages and with."""
    counts = ["-p", asked.ranks, "-m", asked.microbatches, *(["-v", asked.stages] if asked.stages else [])]
    orders = [folder / f"{name}.csv", folder / f"{name}.lowered.csv"]
    cleave("schedule", name, *counts, "--csv", "-o", orders[0])
    cleave("schedule", name, *counts, "--lower", "--csv", "-o", orders[1])
    map_file = folder / f"{name}.map.json"
    cleave("split", folder / "graph.json", "--schedule", orders[0], "--map", map_file)
    return [(map_file, order) for order in orders]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("schedules", nargs="*", default=SCHEDULES, metavar="SCHEDULE", help="names of schedules (a selection)")
    parser.add_argument("-p", dest="ranks", type=int, default=2, help="number of ranks (2)")
    parser.add_argument("-v", dest="stages", type=int, help="stages per rank (as the schedule needs, or 2)")
    parser.add_argument("-m", dest="microbatches", type=int, default=8, help="number of microbatches (8)")
    parser.add_argument("--export", action="store_true", help="take the graph from torch.export instead of torch.fx")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        text = graph_json(export_model()) if asked.export else graph_json(trace_model(), make_batch(2)[0])
        (folder / "graph.json").write_text(text)
        plans = [plan for name in asked.schedules for plan in make_plans(name, asked, folder)]
        given = (asked.ranks, folder / "meeting", plans, folder, export_model if asked.export else trace_model)
        processes.start_processes(run_rank, given, asked.ranks, start_method="fork")  # fork, so that torch is imported once
        print(f"torch {torch.__version__}, {asked.ranks} ranks, {asked.microbatches} microbatches; "
              "largest difference from the uncut model")
        print(f"{'schedule':24}{'messages of':>12}{'loss':>12}{'gradients':>12}")
        different = 0
        for _, order in plans:
            loss, gradient = difference(order, asked.ranks, folder)
            different += not (loss < EQUAL and gradient < EQUAL)
            by = "cleave" if ".lowered" in order.name else "PyTorch"
            print(f"{order.name.split('.')[0]:24}{by:>12}{loss:12.1e}{gradient:12.1e}")
    return f"{different} of {len(plans)} runs differ from the uncut model" if different else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PlanError as e:
        sys.exit(f"run_cleave_plan.py: {e}")
    except processes.ProcessRaisedException as e:
        sys.exit(f"run_cleave_plan.py: rank {e.error_index}: {str(e).strip().splitlines()[-1]}")
