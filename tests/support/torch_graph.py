# SPDX-License-Identifier: MIT
"""Checks the graphs that run_cleave_plan.py writes of models, and cuts made from them.

    sh tests/support/with_torch.sh distributed/pipelining tests/support/torch_graph.py TOOL

Small layers have costs that can be counted by hand. A Llama with random weights (if transformers is there), and the
example's transformer, are exported, split by the tool, and run stage after stage: the result must be that of the model,
to the bit. The mask and the cosines must be in all stages and never sent.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/frameworks/pytorch"))
import run_cleave_plan as plan  # noqa: E402

failures = 0


def check(what, good):
    global failures
    failures += not good
    print(f"{'ok    ' if good else 'FAILED'} {what}")


def costs_of(model, *example, export=True):
    """The cost of each node, by its function."""
    traced = plan.exported(model, *example) if export else torch.fx.symbolic_trace(model)
    graph = json.loads(plan.graph_json(traced, *([] if export else example)))
    found = {}
    for node in graph["nodes"]:
        if "cost" in node:
            function = "module" if node["op"] == "call_module" else node["target"]
            found.setdefault(function, []).append(node["cost"])
    return found


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(6))
        self.weight = nn.Parameter(torch.zeros(5, 6))

    def forward(self, x):  # 3 x 5
        y = torch.addmm(self.bias, x, self.weight)  # 3 x 6
        return torch.matmul(y.t(), x).sum() + y.mean()  # 6 x 5; results without dimensions


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.register_buffer("scale", torch.arange(64.0))

    def forward(self, x):
        steps = torch.arange(64, device=x.device)
        mask = (steps[:, None] >= steps[None, :]).float()
        wave = torch.cos(self.scale * 0.1)
        noise = torch.rand(64)
        for layer in self.layers:
            x = layer(x) @ mask * wave + noise
        return x


def small_costs():
    tokens = torch.zeros(2, 7, dtype=torch.long)
    found = costs_of(nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 9)), tokens)
    check("aten.linear is priced by its weight", found["linear"] == [2 * 7 * 9 + 2 * 2 * 7 * 9 * 4])
    check("aten.embedding is priced by its result", found["embedding"] == [2 * 7 * 4])
    modules = costs_of(nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 9)), tokens, export=False)
    check("called modules cost the same", modules["module"] == [2 * 7 * 4, 2 * 7 * 9 + 2 * 2 * 7 * 9 * 4])
    found = costs_of(Products(), torch.zeros(3, 5))
    check("aten.addmm and aten.matmul are priced by what they sum over",
          (found["addmm"], found["matmul"]) == ([18 + 2 * 18 * 5], [30 + 2 * 30 * 3]))
    check("results without dimensions have a cost", found["sum"] == [1] and found["mean"] == [1] and found["t"] == [0])
    for export in (True, False):
        image = torch.zeros(1, 3, 8, 8)
        found = costs_of(nn.Sequential(nn.Conv2d(3, 10, 3, padding=1)), image, export=export)
        check("a convolution is priced by its weight" + ("" if export else ", as a module"),
              next(iter(found.values())) == [640 + 2 * 640 * 27])
        found = costs_of(nn.Sequential(nn.ConvTranspose2d(3, 10, 2, stride=2)), image, export=export)
        # 16 x 16 x 10 results; each of the 192 elements is multiplied with 10 x 2 x 2 weights
        check("a transposed convolution is priced by its input" + ("" if export else ", as a module"),
              next(iter(found.values())) == [2560 + 2 * 192 * 40])


def marks():
    graph = json.loads(plan.graph_json(plan.exported(Masked(), torch.zeros(512, 64))))
    marked = {n["target"] for n in graph["nodes"] if n.get("replicable")}
    check("masks and tables are replicable", {"arange", "ge", "cos"} <= marked)
    check("random numbers and all that reads the input are not", not {"rand", "linear", "matmul"} & marked)
    kinds = {a["kind"] for a in graph["attributes"].values()}
    check("parameters and buffers are told apart", {"parameter", "buffer"} <= kinds)


def stages_of(tool, traced, count, folder):
    """The stages that the tool makes, as modules, and the map of them."""
    (folder / "graph.json").write_text(plan.graph_json(traced))
    subprocess.run([tool, "split", folder / "graph.json", "-k", str(count), "--map", folder / "map.json",
                    "--report", folder / "report.html", "--overwrite"], check=True, stdout=subprocess.DEVNULL)
    stages = plan.read_stage_map(folder / "map.json", list(range(count)))
    return plan.cut(traced, stages), stages


def staged(tool, name, model, example, counts):
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        traced = plan.exported(model, example)
        expected = traced(example)
        check(f"{name}: the exported graph gives what the model gives",
              torch.equal(expected, getattr(model(example), "logits", expected)))
        for count in counts:
            parts, stages = stages_of(tool, traced, count, Path(folder))
            values = (example,)
            for part in parts:
                made = part(*values)
                values = made if isinstance(made, tuple) else (made,)
            check(f"{name} in {count} stages: equal bits", torch.equal(values[0], expected))
            marked = {n["name"] for n in json.loads((Path(folder) / "graph.json").read_text())["nodes"]
                      if n.get("replicable")}
            sent = {name for stage in stages[1:] for name in stage["inputs"]}
            check(f"{name} in {count} stages: nothing is sent that a stage can make itself", not sent & marked)
            yield count, set.intersection(*({*s["nodes"], *s.get("constants", [])} for s in stages))


def main():
    tool = sys.argv[1]
    small_costs()
    marks()
    torch.manual_seed(1)
    list(staged(tool, "the example's transformer", plan.make_model(), plan.make_batch(2)[0], (2, 4)))
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        print("skipped: transformers is not installed; Llama is left out")
        return failures
    config = LlamaConfig(vocab_size=1000, hidden_size=96, intermediate_size=256, num_hidden_layers=6,
                         num_attention_heads=4, num_key_value_heads=2, use_cache=False)
    llama = LlamaForCausalLM(config).eval()
    tokens = torch.randint(1000, (2, 32))
    graph = json.loads(plan.graph_json(plan.exported(llama, tokens)))
    products = sum(n["cost"] for n in graph["nodes"] if n.get("target") == "linear")
    weights = sum(p.numel() for n, p in llama.named_parameters() if "norm" not in n and "embed" not in n)
    check("Llama: linear layers cost two operations for each weight and token",
          abs(products / (2 * 64 * weights) - 1) < 0.02)
    for count, copied in staged(tool, "Llama", llama, tokens, (2, 4)):
        check(f"Llama in {count} stages: the cosines are made in each stage", bool({"cos", "sin"} & copied))
    return failures


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
