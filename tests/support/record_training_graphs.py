#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes ONNX training graphs: models with loss and backward pass, as onnxruntime's training tools make them.

    python tests/support/record_training_graphs.py FOLDER [NAME...]

The files in tests/backward/training_graphs were made by onnxruntime-training 1.19.2 with onnx 1.16.2 (and torch, which
it imports but which makes nothing here). Each model is written here by hand, node after node, with opset 15 and IR
version 8; onnxruntime adds the loss, the backward pass and the accumulation of gradients. Parameters are inputs of a
training graph, so the files have no weights. Where a model says `gradients_of_inputs`, there are gradients of its
floating inputs too, as a stage in the middle of a pipeline needs them.

A file is written only if its graph is well-formed by definition: each value that a node reads is an input, an
initializer or the result of an earlier node, and each gradient asked for is computed. A second run writes the same
bytes.
"""
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.training import artifacts, onnxblock

OPSET, IR_VERSION = 15, 8


class Builder:
    """A graph under construction. `node` returns the name of the node's (first) result."""

    def __init__(self, name):
        self.name, self.nodes, self.weights, self.constants, self.inputs = name, [], [], [], []
        self.random = np.random.default_rng(1)

    def input(self, name, *shape, integer=False):
        kind = TensorProto.INT64 if integer else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, name, *shape):
        value = self.random.standard_normal(shape) / np.sqrt(shape[0])
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, *reads, results=1, name=None, **attributes):
        name = name or f"{op.lower()}_{len(self.nodes)}"
        made = [name] if results == 1 else [f"{name}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(op, reads, made, name=name, **attributes))
        return made[0] if results == 1 else made

    def linear(self, x, name, wide, out):
        product = self.node("MatMul", x, self.weight(f"{name}.weight", wide, out), name=f"{name}.product")
        return self.node("Add", product, self.weight(f"{name}.bias", out), name=f"{name}.result")

    def layer_norm(self, x, name, wide):
        """Layer normalization as opset 15 has it: in nine nodes."""
        mean = self.node("ReduceMean", x, axes=[-1], keepdims=1, name=f"{name}.mean")
        centred = self.node("Sub", x, mean, name=f"{name}.centred")
        square = self.node("Mul", centred, centred, name=f"{name}.square")
        variance = self.node("ReduceMean", square, axes=[-1], keepdims=1, name=f"{name}.variance")
        safe = self.node("Add", variance, self.constant(f"{name}.epsilon", np.float32(1e-5)), name=f"{name}.safe")
        root = self.node("Sqrt", safe, name=f"{name}.root")
        unit = self.node("Div", centred, root, name=f"{name}.unit")
        scaled = self.node("Mul", unit, self.weight(f"{name}.weight", wide), name=f"{name}.scaled")
        return self.node("Add", scaled, self.weight(f"{name}.bias", wide), name=f"{name}.result")

    def gelu(self, x, name):
        half = self.node("Mul", x, self.constant(f"{name}.root_half", np.float32(0.5**0.5)), name=f"{name}.half")
        erf = self.node("Erf", half, name=f"{name}.erf")
        plus = self.node("Add", erf, self.constant(f"{name}.one", np.float32(1)), name=f"{name}.plus")
        product = self.node("Mul", x, plus, name=f"{name}.product")
        return self.node("Mul", product, self.constant(f"{name}.a_half", np.float32(0.5)), name=f"{name}.result")

    def attention(self, x, name, rows, wide, heads, mask=None):
        each = wide // heads
        shape = self.constant(f"{name}.heads", np.array([0, rows, heads, each], np.int64))

        def split(part, order):
            y = self.node("Reshape", self.linear(x, f"{name}.{part}", wide, wide), shape, name=f"{name}.{part}.split")
            return self.node("Transpose", y, perm=order, name=f"{name}.{part}.turned")

        q, k, v = split("q", [0, 2, 1, 3]), split("k", [0, 2, 3, 1]), split("v", [0, 2, 1, 3])
        scores = self.node("MatMul", q, k, name=f"{name}.scores")
        scale = self.constant(f"{name}.scale", np.float32(each**0.5))
        scores = self.node("Div", scores, scale, name=f"{name}.scaled")
        if mask:
            scores = self.node("Where", mask, scores, self.constant(f"{name}.never", np.float32(-1e9)),
                               name=f"{name}.masked")
        shares = self.node("Softmax", scores, axis=-1, name=f"{name}.shares")
        mixed = self.node("MatMul", shares, v, name=f"{name}.mixed")
        mixed = self.node("Transpose", mixed, perm=[0, 2, 1, 3], name=f"{name}.back")
        mixed = self.node("Reshape", mixed, self.constant(f"{name}.joined", np.array([0, rows, wide], np.int64)),
                          name=f"{name}.join")
        return self.linear(mixed, f"{name}.out", wide, wide)

    def block(self, x, name, rows, wide, heads, mask=None):
        y = self.attention(self.layer_norm(x, f"{name}.norm_1", wide), f"{name}.attention", rows, wide, heads, mask)
        x = self.node("Add", x, y, name=f"{name}.sum_1")
        y = self.linear(self.layer_norm(x, f"{name}.norm_2", wide), f"{name}.up", wide, 4 * wide)
        y = self.linear(self.gelu(y, f"{name}.gelu"), f"{name}.down", 4 * wide, wide)
        return self.node("Add", x, y, name=f"{name}.sum_2")

    def model(self, result, *shape):
        outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, outputs, self.weights + self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                  producer_name="record_training_graphs")
        onnx.checker.check_model(model, full_check=True)
        return model


def mlp(b):
    x = b.input("x", "batch", 32)
    for i in range(3):
        x = b.node("Relu", b.linear(x, f"layer_{i}", 32, 32), name=f"layer_{i}.relu")
    return b.model(b.linear(x, "head", 32, 8), "batch", 8)


def conv_net(b):
    def conv(x, name, channels, out, stride=1):
        x = b.node("Conv", x, b.weight(f"{name}.weight", out, channels, 3, 3), b.weight(f"{name}.bias", out),
                   name=f"{name}.conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[stride, stride])
        return b.node("Relu", x, name=f"{name}.relu")

    x = conv(b.input("image", 4, 3, 16, 16), "stem", 3, 8)
    x = b.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    for i in range(2):
        y = conv(conv(x, f"block_{i}.a", 8, 8), f"block_{i}.b", 8, 8)
        x = b.node("Add", x, y, name=f"block_{i}.sum")
    x = b.node("GlobalAveragePool", x, name="mean")
    return b.model(b.linear(b.node("Flatten", x, name="flat"), "head", 8, 10), 4, 10)


def batch_norm_net(b):
    x, channels = b.input("image", 4, 3, 16, 16), 3
    for i in range(2):
        x = b.node("Conv", x, b.weight(f"layer_{i}.weight", 8, channels, 3, 3), kernel_shape=[3, 3],
                   pads=[1, 1, 1, 1], name=f"layer_{i}.conv")
        mean, variance = (b.constant(f"layer_{i}.running_{what}", np.full(8, value + 0.1 * i, np.float32))
                          for what, value in (("mean", 0), ("variance", 1)))  # equal constants would be merged
        x, _, _ = b.node("BatchNormalization", x, b.weight(f"layer_{i}.scale", 8), b.weight(f"layer_{i}.shift", 8),
                         mean, variance, results=3, training_mode=1, name=f"layer_{i}.norm")
        x, channels = b.node("Relu", x, name=f"layer_{i}.relu"), 8
    x = b.node("Flatten", b.node("GlobalAveragePool", x, name="mean"), name="flat")
    return b.model(b.linear(x, "head", 8, 10), 4, 10)


def transformer(b):
    x = b.input("hidden", 2, 16, 32)
    for i in range(2):
        x = b.block(x, f"block_{i}", 16, 32, 4)
    return b.model(b.layer_norm(x, "norm", 32), 2, 16, 32)


def gpt2(b):
    """Two blocks with a causal mask, dropout, and one weight that both embeds the tokens and makes the logits."""
    tokens = b.input("tokens", 2, 16, integer=True)
    table = b.weight("embedding", 50, 32)
    x = b.node("Gather", table, tokens, axis=0, name="embedded")
    x = b.node("Add", x, b.weight("positions", 16, 32), name="placed")
    x, _ = b.node("Dropout", x, b.constant("ratio", np.float32(0.1)), b.constant("training", np.bool_(True)),
                  results=2, name="dropped", seed=1)
    mask = b.constant("causal", np.tril(np.ones((16, 16), np.bool_)))
    for i in range(2):
        x = b.block(x, f"block_{i}", 16, 32, 4, mask)
    x = b.layer_norm(x, "norm", 32)
    logits = b.node("MatMul", x, b.node("Transpose", table, perm=[1, 0], name="table_turned"), name="logits")
    logits = b.node("Reshape", logits, b.constant("rows", np.array([32, 50], np.int64)), name="flat_logits")
    return b.model(logits, 32, 50)


MODELS = {  # the function that builds a model, its loss, and whether the gradients of its inputs are wanted
    "mlp": (mlp, onnxblock.loss.MSELoss, False),
    "mlp_stage": (mlp, onnxblock.loss.MSELoss, True),
    "conv_net": (conv_net, onnxblock.loss.CrossEntropyLoss, False),
    "batch_norm_net": (batch_norm_net, onnxblock.loss.CrossEntropyLoss, True),
    "transformer_stage": (transformer, onnxblock.loss.MSELoss, True),
    "gpt2": (gpt2, onnxblock.loss.CrossEntropyLoss, False),
}


def training_graph(name):
    make, loss, gradients_of_inputs = MODELS[name]
    builder = Builder(name)
    model = make(builder)
    wanted = [w.name for w in builder.weights]
    if gradients_of_inputs:
        wanted += [i.name for i in builder.inputs if i.type.tensor_type.elem_type == TensorProto.FLOAT]
    onnxblock._graph_utils._GRAPH_TOKEN = 0  # else names depend on the models before
    with tempfile.TemporaryDirectory() as folder:
        artifacts.generate_artifacts(model, requires_grad=wanted, loss=loss(), artifact_directory=folder)
        return onnx.load(os.path.join(folder, "training_model.onnx")), wanted


def check(graph, wanted):
    known = {i.name for i in graph.input} | {i.name for i in graph.initializer} | {""}
    for node in graph.node:
        unknown = [read for read in node.input if read not in known]
        assert not unknown, f"{node.name} reads {unknown}, which nothing before it makes"
        known.update(node.output)
    missing = [w for w in wanted if f"{w}_grad" not in known]
    assert not missing, f"no gradients of {missing}"


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        model, wanted = training_graph(name)
        check(model.graph, wanted)
        onnx.save(model, str(folder / f"{name}.onnx"))
        print(f"{name}: {len(model.graph.node)} nodes, {model.ByteSize()} bytes, IR version {model.ir_version}, "
              + ", ".join(f"{i.domain or 'ai.onnx'} {i.version}" for i in model.opset_import))


if __name__ == "__main__":
    main()
