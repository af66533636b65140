# SPDX-License-Identifier: MIT
"""Cuts ONNX models into stages, and runs the stages as a pipeline of threads with onnxruntime.

    import cleave.onnx
    stages = cleave.onnx.split_onnx("model.onnx", 4, costs="measured")
    with cleave.onnx.Runner(stages) as runner:
        for outputs in runner.map(batches):     # dictionaries of NumPy arrays, in order
            ...

The tool in the package does the cutting; only running and measuring need onnxruntime.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .__main__ import tool
from .errors import Error, OptionError, SplitError

__all__ = ["OnnxPlan", "OnnxStage", "Runner", "profile_onnx", "split_onnx"]

_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class OnnxStage:
    """A stage: a model in a file of its own. Costs are in seconds, sizes in bytes."""

    file: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[str, ...]
    cost: float
    load: float
    """The cost, with what the stage spends on sending and receiving."""
    weight_bytes: int
    in_bytes: int
    out_bytes: int
    carried: Mapping[str, str]
    """What the stage keeps for its next run: the name of an output, and that of the input that it becomes, such as
    `{"present.0.key": "past_key_values.0.key"}`."""


@dataclass(frozen=True)
class OnnxPlan:
    """The stages of a model, and how good the cut is."""

    model: Path
    stages: tuple[OnnxStage, ...]
    bottleneck: float
    """The largest load, in seconds."""
    bound: float | None
    """No cut into as many stages has a smaller one. None if too many costs are unknown."""
    remarks: tuple[str, ...]

    @property
    def gap(self) -> float | None:
        """The bottleneck is at most this share above the optimum."""
        return None if not self.bound else self.bottleneck / self.bound - 1


def split_onnx(
    path: str | os.PathLike[str],
    k: int,
    *,
    costs: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    memory: int | Sequence[int] | None = None,
    speed: float | Sequence[float] | None = None,
    dims: Mapping[str, int] | None = None,
    weights: str = "reference",
) -> OnnxPlan:
    """Cuts an ONNX model into k stages, each a model in a file.

    costs    None estimates them from shapes; "measured" runs the model first (`profile_onnx`); or the path of a profile
             of onnxruntime, or of a CSV file with lines `name,time`
    out      the folder of the stages; by default one beside the model, called after it
    memory   bytes of weights that a stage can hold: one for all, or one for each
    speed    how fast each stage's device is, relative to the others
    dims     sizes of symbolic dimensions
    weights  weights in files of their own: `reference`, `split` by stage, or `link`

    Raises `SplitError` with what the tool says if the model cannot be read or cut.
    """
    model = Path(path)
    folder = Path(out) if out is not None else model.with_suffix("").with_name(model.stem + f".stages{k}")
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise OptionError(f"k is {k!r}; it must be an integer from 1", option="k")
    if weights not in ("reference", "split", "link"):
        raise OptionError(f"weights is {weights!r}; it must be 'reference', 'split' or 'link'", option="weights")
    with tempfile.TemporaryDirectory() as temporary:
        if costs is not None and str(costs) == "measured":
            costs = profile_onnx(model, Path(temporary) / "profile.json", dims=dims)
        words = ["split", str(model), "-k", str(k), "--out", str(folder), "--overwrite", "--json", "--weights", weights]
        words += [] if costs is None else ["--costs", str(costs)]
        words += [] if memory is None else ["--memory", _list(memory, "B")]
        words += [] if speed is None else ["--speed", _list(speed, "")]
        for name, size in (dims or {}).items():
            words += ["--dim", f"{name}={size}"]
        said = json.loads(_run_tool(words))
    stages = tuple(
        OnnxStage(
            Path(s["file"]), tuple(s["inputs"]), tuple(s["outputs"]), tuple(s["names"]), s["cost"], s["load"],
            s["weight_bytes"] or 0, s["in_bytes"] or 0, s["out_bytes"] or 0,
            {v["present"]: v["past"] for v in said["carried"] if v["stage"] == i},
        )
        for i, s in enumerate(said["stages"])
    )  # fmt: skip
    return OnnxPlan(model, stages, said["bottleneck"], said["bound"], tuple(map(str, said["remarks"])))


def _list(x: Any, unit: str) -> str:
    return ",".join(f"{each}{unit}" for each in (x if isinstance(x, Sequence) else [x]))


def _run_tool(words: Sequence[str]) -> str:
    program = os.environ.get("CLEAVE_TOOL") or str(tool)
    if not Path(program).exists():
        raise Error(
            "this package was built without the tool, which cuts ONNX models; build it with CLEAVE_PYTHON_TOOL=ON"
        )
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SplitError(done.stderr.strip().removeprefix("cleave: "))
    return done.stdout


def example_inputs(session: Any, dims: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Any]:
    """Returns pseudo-random inputs of a session. Symbolic dimensions without a size in `dims` are 1; integers are 0."""
    random = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for i in session.get_inputs():
        if i.type not in _TYPES:
            raise SplitError(f"input {i.name!r} is a {i.type}, for which there is no example; pass inputs", node=i.name)
        shape = [size if isinstance(size, int) else (dims or {}).get(size, 1) for size in i.shape]
        dtype = np.dtype(_TYPES[i.type])
        made[i.name] = random.random(shape).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype)
    return made


def profile_onnx(
    path: str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    inputs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    runs: int = 10,
    threads: int = 1,
) -> Path:
    """Measures the nodes of a model with onnxruntime and writes its profile to `file`, which it returns."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.enable_profiling = True
    options.intra_op_num_threads = threads
    options.profile_file_prefix = str(Path(file).with_suffix(""))
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = dict(inputs) if inputs is not None else example_inputs(session, dims)
    for _ in range(runs):
        session.run(None, feed)
    return Path(session.end_profiling()).replace(Path(file))


class Runner:
    """Runs stages as a pipeline: a thread and a session for each, and a queue before each. While stage 1 has one batch,
    stage 0 has the next. Results stay on the device that made them until another stage reads them (IO binding)."""

    def __init__(
        self,
        plan: OnnxPlan | Sequence[OnnxStage],
        *,
        providers: Sequence[Any] | None = None,
        threads: int = 1,
        depth: int = 2,
    ) -> None:
        """providers  for each stage, what onnxruntime takes: "CPUExecutionProvider", ("CUDAExecutionProvider",
                   {"device_id": 1}); by default the processor
        threads    threads of each session
        depth      batches that may wait before a stage"""
        import onnxruntime as ort

        self._stages = list(plan.stages if isinstance(plan, OnnxPlan) else plan)
        places = list(providers) if providers is not None else ["CPUExecutionProvider"] * len(self._stages)
        if len(places) != len(self._stages):
            raise OptionError(
                f"{len(places)} providers for {len(self._stages)} stages; give one for each", option="providers"
            )
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._sessions = [
            ort.InferenceSession(str(s.file), options, providers=[p]) for s, p in zip(self._stages, places)
        ]
        self._devices = [_device_of(p) for p in places]
        made = {name: s for s, stage in enumerate(self._stages) for name in stage.outputs}
        read_later = [
            {name for later in self._stages[s + 1 :] for name in later.inputs} for s in range(len(self._stages))
        ]
        self._results = [o for o in made if not any(o in stage.inputs for stage in self._stages)]
        self._read_later = read_later
        self._queues: list[queue.Queue[Any]] = [queue.Queue(depth) for _ in range(len(self._stages) + 1)]
        self._threads = [
            threading.Thread(target=self._run_stage, args=(s,), daemon=True) for s in range(len(self._stages))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def outputs(self) -> list[str]:
        """The names of the results: what stages make and no later one reads."""
        return list(self._results)

    def _run_stage(self, s: int) -> None:
        session, (device, number) = self._sessions[s], self._devices[s]
        outputs = [o.name for o in session.get_outputs()]
        while True:
            values = self._queues[s].get()
            if isinstance(values, dict):
                try:
                    binding = session.io_binding()
                    for i in session.get_inputs():
                        value = values[i.name]
                        if hasattr(value, "device_name"):
                            binding.bind_ortvalue_input(i.name, value)
                        else:
                            binding.bind_cpu_input(i.name, value)
                    for name in outputs:
                        binding.bind_output(name, device, number)
                    session.run_with_iobinding(binding)
                    binding.synchronize_outputs()
                    made = dict(zip(outputs, binding.get_outputs()))
                    kept = self._read_later[s] | set(self._results)
                    values = {name: v for name, v in {**values, **made}.items() if name in kept}
                except Exception as e:  # goes to the caller, who waits at the end
                    values = e
            self._queues[s + 1].put(values)
            if values is None:
                return

    def map(self, batches: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yields the results of each batch, a dictionary of NumPy arrays, in order. Batches are dictionaries of the
        inputs of the model."""
        waiting, most = 0, len(self._sessions) * 2
        for batch in batches:
            self._queues[0].put(dict(batch))
            waiting += 1
            while waiting >= most or (waiting and not self._queues[-1].empty()):
                waiting -= 1
                yield self._next()
        for _ in range(waiting):
            yield self._next()

    def _next(self) -> dict[str, Any]:
        values = self._queues[-1].get()
        if isinstance(values, Exception):
            raise values
        return {
            name: values[name].numpy() if hasattr(values[name], "numpy") else values[name] for name in self._results
        }

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._queues[0].put(None)
        for thread in self._threads:
            thread.join(timeout=10)


def _device_of(provider: Any) -> tuple[str, int]:
    name, options = provider if isinstance(provider, tuple) else (provider, {})
    return ("cuda", int(options.get("device_id", 0))) if name.startswith(("CUDA", "Tensorrt")) else ("cpu", 0)
