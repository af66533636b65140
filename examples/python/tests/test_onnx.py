# SPDX-License-Identifier: MIT
"""ONNX models in stages, and the pipeline of threads that runs them."""

from pathlib import Path

import numpy as np
import pytest

import cleave
import cleave.onnx
from cleave.__main__ import tool

MODEL = Path(__file__).resolve().parents[2] / "models" / "googlenet.onnx"
if not MODEL.exists():  # in an sdist
    pytest.skip("the model of the checkout is missing: ONNX is not tested", allow_module_level=True)
if not tool.exists():
    pytest.skip("the package was built without the tool: ONNX is not tested", allow_module_level=True)


def test_stages_and_bound(tmp_path: Path) -> None:
    plan = cleave.onnx.split_onnx(MODEL, 3, out=tmp_path)
    assert [s.file.name for s in plan.stages] == ["stage_0.onnx", "stage_1.onnx", "stage_2.onnx"]
    assert all(s.file.exists() for s in plan.stages)
    assert plan.bound is not None and plan.bound <= plan.bottleneck == max(s.load for s in plan.stages)
    assert plan.gap is not None and plan.gap < 0.1


@pytest.mark.parametrize("costs", [None, "measured"])
def test_results_are_those_of_the_whole(tmp_path: Path, costs: str | None) -> None:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: stages are not run")
    plan = cleave.onnx.split_onnx(MODEL, 3, costs=costs, out=tmp_path)
    whole = ort.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    batches = [cleave.onnx.example_inputs(whole, seed=i) for i in range(20)]
    with cleave.onnx.Runner(plan) as runner:
        results = list(runner.map(batches))
    assert len(results) == 20
    for batch, result in zip(batches, results):
        for name, value in zip([o.name for o in whole.get_outputs()], whole.run(None, batch)):
            np.testing.assert_allclose(result[name], value, rtol=1e-5, atol=1e-6)


def test_errors_reach_the_caller(tmp_path: Path) -> None:
    with pytest.raises(cleave.SplitError, match="cannot be opened"):
        cleave.onnx.split_onnx(tmp_path / "none.onnx", 2)
    with pytest.raises(cleave.OptionError, match="k is 0"):
        cleave.onnx.split_onnx(MODEL, 0)
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: stages are not run")
    plan = cleave.onnx.split_onnx(MODEL, 2, out=tmp_path)
    with cleave.onnx.Runner(plan) as runner, pytest.raises(KeyError, match="input"):
        list(runner.map([{}]))
    with pytest.raises(cleave.OptionError, match="1 providers for 2 stages"):
        cleave.onnx.Runner(plan, providers=["CPUExecutionProvider"])
