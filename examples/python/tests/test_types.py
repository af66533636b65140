# SPDX-License-Identifier: MIT
"""The package and code that uses it pass mypy --strict, and the stubs name what the extension has."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cleave
from cleave import _native

here = Path(__file__).resolve().parent


def run(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=here.parent, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_accepts_the_package_and_its_users(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    cache = ("--cache-dir", str(tmp_path))
    run("mypy", "--strict", *cache, "-p", "cleave")
    run("mypy", "--strict", *cache, "tests", "tour.py")


def test_the_stubs_are_those_of_the_extension() -> None:
    stubs = ast.parse((here.parent / "python/cleave/_native.pyi").read_text())
    stated = {f.name: [a.arg for a in f.args.args] for f in stubs.body if isinstance(f, ast.FunctionDef)}
    found = {}
    for name in dir(_native):
        if not name.startswith("_") and not inspect.isclass(getattr(_native, name)):
            signature = re.sub(r"\[[^][]*\]", "", getattr(_native, name).__nb_signature__[0][0])
            signature = re.sub(r"\([^()]*\)", "", signature.split("(", 1)[1].rsplit(")", 1)[0])
            found[name] = re.findall(r"(\w+): ", signature)
    assert found == stated


def test_everything_public_is_documented() -> None:
    documented: list[Any] = [cleave, cleave.errors]
    for name in cleave.__all__:
        thing = getattr(cleave, name)
        documented.append(thing)
        if inspect.isclass(thing):
            documented += [
                m
                for key, m in vars(thing).items()
                if not key.startswith("_") and (callable(m) or isinstance(m, property))
            ]
    for thing in documented:
        assert inspect.getdoc(thing), thing
    for name in ("partition", "refine", "repartition", "verify", "partition_hypergraph"):
        text, parameters = (
            inspect.getdoc(getattr(cleave, name)) or "",
            inspect.signature(getattr(cleave, name)).parameters,
        )
        first = inspect.getdoc(cleave.partition) or ""
        for parameter in parameters:
            assert f"{parameter}:" in text or f"{parameter}:" in first, (name, parameter)


def test_units_of_results() -> None:
    parts = cleave.partition(np.ones((4, 4), bool), 2)
    assert isinstance(parts.cut, int) and isinstance(parts.imbalance, float)
    assert isinstance(cleave.partition(np.ones((4, 4)), 2).cut, float)
