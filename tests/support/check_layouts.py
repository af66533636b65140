# SPDX-License-Identifier: MIT
"""Compares the plans of `cleave split --for` with what the frameworks read: check_layouts.py DOWNLOADS MODEL.onnx.

Each plan of random lists of layers is given to the framework's own code, and the stage of each layer that it returns
must be the one that the tool says:

  Megatron-LM   PipelineParallelLayerLayout, which also validates the layout
  torchtitan    _split_module, on a model of these modules
  DeepSpeed     PipelineModule.stage_owner
  vLLM          get_pp_indices
  llama.cpp     has no such function; its rule is written again here, and its source is searched for what the rule is
                made of

onnxruntime-genai reads the pipeline of the model's stages, runs them, and must return the logits of the whole model.

DOWNLOADS has the packages of megatron-core, torchtitan, deepspeed, vllm and llama-cpp-python as pip downloads them. Of
these, single functions and classes are run; nothing is built or installed. The variable CLEAVE_TOOL names the tool."""
import ast
import copy
import functools
import json
import logging
import os
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import types
import typing
import zipfile

import numpy
import onnxruntime
import onnxruntime_genai

downloads, model = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
TOOL = os.environ["CLEAVE_TOOL"]


def source_of(package, file):
    """Returns the text of a file of a downloaded package."""
    found = sorted(p for p in downloads.iterdir() if re.match(package + r"-\d", p.name.replace("_", "-").lower()))
    if not found:
        sys.exit(f"{downloads} has no package {package}; delete the folder, and run the check again")
    if found[-1].suffix == ".whl":
        with zipfile.ZipFile(found[-1]) as wheel:
            return found[-1].name, wheel.read(file).decode()
    with tarfile.open(found[-1]) as packed:
        member = next(m for m in packed if m.name.split("/", 1)[-1] == file)
        return found[-1].name, packed.extractfile(member).read().decode()


def part_of(package, file, name, **known):
    """Runs the definition of a function or a class in a file of a package, and returns it."""
    archive, text = source_of(package, file)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            exec(compile(ast.Module([node], []), f"{archive}/{file}", "exec"), known)
            return known[name]
    sys.exit(f"{archive}: {file} has no {name}; the check has to follow the package")


def plan_of(*words):
    run = subprocess.run([TOOL, "split", *map(str, words), "--json"], text=True, capture_output=True)
    if run.returncode != 0:
        sys.exit(f"cleave split {' '.join(map(str, words))}: {run.stderr}")
    return json.loads(run.stdout)["plan"]


class Module:
    """What torchtitan's function uses of torch.nn.Module, without its weights."""

    def named_children(self):
        return list(vars(self).items())


class ModuleList(Module, list):
    pass


class ModuleDict(Module, dict):
    pass


def megatron():
    layer_type = part_of("megatron-core", "megatron/core/transformer/enums.py", "LayerType", enum=__import__("enum"))
    layout = part_of("megatron-core", "megatron/core/transformer/pipeline_parallel_layer_layout.py",
                     "PipelineParallelLayerLayout", copy=copy, re=re, logging=logging, lru_cache=functools.lru_cache,
                     Optional=typing.Optional, LayerType=layer_type, logger=logging.getLogger("megatron"))

    def stages(text, layers, count):
        read = layout(text, count)
        read.validate_layer_layout(layers, None)
        found = [[rank[0].count(layer_type.decoder) for rank in read.layout]]
        first = next(i for i, rank in enumerate(read.layout) if layer_type.embedding in rank[0])
        last = next(i for i, rank in enumerate(read.layout) if layer_type.loss in rank[0])
        return [first] + [i for i, n in enumerate(found[0]) for _ in range(n)] + [last, last]
    return stages


def torchtitan():
    nn = types.SimpleNamespace(Module=Module, ModuleList=ModuleList, ModuleDict=ModuleDict)
    split = part_of("torchtitan", "torchtitan/distributed/pipeline_parallel.py", "_split_module", nn=nn, copy=copy,
                    ModuleList=ModuleList, ModuleDict=ModuleDict)

    def stages(text, layers, count):
        whole = Module()
        whole.embed, whole.layers, whole.norm, whole.head = "embed", ModuleList(range(layers)), "norm", "head"
        parts = [split(whole, names) for names in ast.literal_eval(text)]
        assert len(parts) == count, f"{len(parts)} parts, not {count}"

        def owner(has):
            found = [i for i, part in enumerate(parts) if has(part)]
            assert len(found) == 1, f"in the parts {found}"
            return found[0]
        return ([owner(lambda p: p.embed)] + [owner(lambda p, i=i: i in p.layers) for i in range(layers)] +
                [owner(lambda p: p.norm), owner(lambda p: p.head)])
    return stages


def deepspeed():
    owner = part_of("deepspeed", "deepspeed/runtime/pipe/module.py", "stage_owner")

    def stages(text, layers, count):
        module = types.SimpleNamespace(_num_layers=layers + 3, num_stages=count, parts=ast.literal_eval(text),
                                       _topo=types.SimpleNamespace(get_dim=lambda _: count))
        return [owner(module, i) for i in range(layers + 3)]
    return stages


def vllm():
    envs = types.SimpleNamespace()
    indices = part_of("vllm", "vllm/distributed/utils.py", "get_pp_indices", envs=envs,
                      logger=logging.getLogger("vllm"))

    def stages(text, layers, count):
        envs.VLLM_PP_LAYER_PARTITION = text
        found = [-1] * layers
        for rank in range(count):
            begin, end = indices(layers, rank, count)
            found[begin:end] = [rank] * (end - begin)
        return [0] + found + [count - 1, count - 1]
    return stages


# What the rule depends on; if one of these is gone, it may be another rule.
LLAMA_MARKS = ("/= split_sum", "n_layer_all + 1 - n_gpu_layers", "upper_bound(splits.begin()", ")/act_gpu_layers",
               "dev_output = get_layer_buft_list(n_layer_all)")


def llama_cpp():
    archive, text = source_of("llama-cpp-python", "vendor/llama.cpp/src/llama-model.cpp")
    for mark in LLAMA_MARKS:
        if mark not in text:
            sys.exit(f"{archive}: llama-model.cpp has no {mark!r}; compare its rule for layers with the one here")

    def stages(text, layers, count):
        single = numpy.float32
        shares = [single(x) for x in re.split("[,/]+", text)]
        assert len(shares) == count, f"{len(shares)} devices, not {count}"
        ends = numpy.cumsum(shares, dtype=single)
        ends /= ends[-1]
        of = [int(numpy.searchsorted(ends, single(i) / single(layers + 1), side="right")) for i in range(layers + 1)]
        return [of[0]] + of + [of[-1]]  # it keeps the embedding on the host
    return stages


def compare(name, stages, rounds=40):
    rng = random.Random(name)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "layers.csv")
        for _ in range(rounds):
            layers = rng.randint(4, 61)
            lines = [("embed", rng.random())] + [(f"layers.{i}", 1 + rng.random()) for i in range(layers)]
            lines += [("norm", rng.random() / 10), ("head", 4 * rng.random())]
            file.write_text("".join(f"{n},{t:.4f},{rng.randrange(10**8)}\n" for n, t in lines))
            count = rng.randint(1, min(layers, 14))
            plan = plan_of(file, "-k", count, "--for", name)
            said = [m["stage"] for m in plan["modules"]]
            read = stages(plan["text"], layers, count)
            if read != said:
                sys.exit(f"{name}: of {plan['text']} the framework makes {read}, the tool {said}")
    print(f"{name}: {rounds} plans are read as they were meant")


def ort_genai():
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(model, "-k", 3, "--for", "ort-genai", "--out", folder)
        whole = onnxruntime.InferenceSession(model)
        tokens = numpy.array([[3, 4, 5, 6, 7, 8, 9, 10]])
        wanted = whole.run(None, {"input_ids": tokens, "attention_mask": numpy.ones_like(tokens)})[0][0, -1]
        sizes = {"head_size": 4, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 4,
                 "num_key_value_heads": 4}
        decoder = {**sizes, "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask"},
                   "outputs": {"logits": whole.get_outputs()[0].name}, "pipeline": json.loads(plan["text"])}
        ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        config = {"model": {"type": "decoder-pipeline", "context_length": 16, "vocab_size": wanted.size, **ends,
                            "decoder": decoder}, "search": {"max_length": 16}}
        path = pathlib.Path(folder, "genai_config.json")
        path.write_text(json.dumps(config))
        loaded = onnxruntime_genai.Model(onnxruntime_genai.Config(folder))
        params = onnxruntime_genai.GeneratorParams(loaded)
        params.set_search_options(max_length=12)
        generator = onnxruntime_genai.Generator(loaded, params)
        generator.append_tokens(tokens.astype(numpy.int32))
        if not numpy.array_equal(generator.get_logits().ravel()[-wanted.size:], wanted):
            sys.exit("ort-genai: the logits of the pipeline are not those of the whole model")
        again = plan_of(model, "--by", f"ort-genai={path}", "--for", "ort-genai")
        if json.loads(again["text"]) != decoder["pipeline"]:
            sys.exit("ort-genai: the pipeline is not read back as it was written")
    print("ort-genai: runs the three stages of the pipeline, with the logits of the whole model")


for known, reader in (("megatron", megatron), ("torchtitan", torchtitan), ("deepspeed", deepspeed), ("vllm", vllm),
                      ("llama.cpp", llama_cpp)):
    compare(known, reader())
ort_genai()
