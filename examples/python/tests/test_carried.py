# SPDX-License-Identifier: MIT
"""A decoder in stages, each of which keeps the keys and values of its layers from token to token."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cleave.onnx
from cleave.__main__ import tool

onnx = pytest.importorskip("onnx", reason="onnx is not installed: no decoder is made")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: stages are not run")
if not tool.exists():
    pytest.skip("the package was built without the tool: ONNX is not tested", allow_module_level=True)

WIDE, TOKENS = 16, 32


def decoder(layers: int) -> Any:
    """Returns a decoder of one head, which reads one token and the keys and values of those before it."""
    helper, random = onnx.helper, np.random.default_rng(0)
    nodes, weights = [], []

    def tensor(name: str, *shape: int) -> str:
        values = random.normal(0, 0.3, shape).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(values, name))
        return name

    def value(name: str, type: Any, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, type, shape)

    def node(op: str, out: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    floats = onnx.TensorProto.FLOAT
    inputs, outputs = [value("token", onnx.TensorProto.INT64, 1)], [value("scores", floats, 1, TOKENS)]
    x = node("Gather", "embedded", tensor("embedding", TOKENS, WIDE), "token")
    for i in range(layers):
        query = node("MatMul", f"query{i}", x, tensor(f"wq{i}", WIDE, WIDE))
        seen = {}
        for what in ("key", "value"):
            past, present = f"past_key_values.{i}.{what}", f"present.{i}.{what}"
            inputs.append(value(past, floats, "past", WIDE))
            outputs.append(value(present, floats, "all", WIDE))
            new = node("MatMul", f"new_{what}{i}", x, tensor(f"w_{what}{i}", WIDE, WIDE))
            seen[what] = node("Concat", present, past, new, axis=0)
        turned = node("Transpose", f"turned{i}", seen["key"], perm=[1, 0])
        share = node("Softmax", f"share{i}", node("MatMul", f"score{i}", query, turned), axis=1)
        x = node("Add", f"sum{i}", x, node("MatMul", f"read{i}", share, seen["value"]))
    node("MatMul", "scores", x, tensor("head", WIDE, TOKENS))
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def session(model: Any) -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # so that all bits are equal
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def empty_caches(run: Any) -> dict[str, Any]:
    return {i.name: np.zeros((0, WIDE), np.float32) for i in run.get_inputs() if i.name.startswith("past")}


@pytest.mark.parametrize("k", [2, 3, 4])
def test_stages_generate_the_tokens_of_the_whole(tmp_path: Path, k: int) -> None:
    model = tmp_path / "decoder.onnx"
    onnx.save(decoder(6), str(model))
    plan = cleave.onnx.split_onnx(model, k, dims={"past": 10, "all": 11}, out=tmp_path / "stages")
    kept = [name for stage in plan.stages for name in stage.carried]
    assert sorted(kept) == sorted(f"present.{i}.{what}" for i in range(6) for what in ("key", "value"))

    whole, runs = session(str(model)), [session(str(stage.file)) for stage in plan.stages]
    past, caches = empty_caches(whole), [empty_caches(run) for run in runs]
    token, staged_token, tokens = 3, 3, []
    for _ in range(8):
        names = [o.name for o in whole.get_outputs()]
        found = dict(zip(names, whole.run(names, {"token": np.array([token]), **past})))
        past = {name.replace("present", "past_key_values"): v for name, v in found.items() if name != "scores"}
        token = int(found["scores"].argmax())

        values: dict[str, Any] = {"token": np.array([staged_token])}
        for i, (stage, run) in enumerate(zip(plan.stages, runs)):
            feed = {name: caches[i][name] if name in caches[i] else values[name] for name in stage.inputs}
            made = dict(zip(stage.outputs, run.run(stage.outputs, feed)))
            caches[i] = {past_name: made.pop(name) for name, past_name in stage.carried.items()}
            values.update(made)  # what goes to later stages, and the scores
        np.testing.assert_array_equal(values["scores"], found["scores"])
        staged_token = int(values["scores"].argmax())
        tokens.append(token)
        assert staged_token == token
    assert len(set(tokens)) > 1


def test_a_model_without_past_keeps_nothing(tmp_path: Path) -> None:
    model = tmp_path / "plain.onnx"
    value, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"]), onnx.helper.make_node("Relu", ["y"], ["presented"])]
    graph = onnx.helper.make_graph(
        nodes, "plain", [value("x", floats, [2])], [value("presented", floats, [2])]
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 15)], ir_version=8), str(model)
    )
    plan = cleave.onnx.split_onnx(model, 2, out=tmp_path / "stages")
    assert all(stage.carried == {} for stage in plan.stages)
