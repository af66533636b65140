# SPDX-License-Identifier: MIT
"""The scripts beside the package run, and print what their pages say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

scripts = Path(__file__).resolve().parent.parent


def printed(name: str, *words: str) -> str:
    done = subprocess.run([sys.executable, str(scripts / name), *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_tour() -> None:
    out = printed("tour.py")
    assert "node 0 in part 3" in out and "one_sided_edge 0 0" in out and "the first cut will do" in out
    assert "2 parts too many, in 2 nets" in out
    assert "saved: x - run again: h\nsaved: x h - run again:\n" in out


def test_cut_a_scipy_mesh() -> None:
    pytest.importorskip("scipy")
    out = printed("cut_a_scipy_mesh.py", "3000", "4")
    assert "4 parts: cut" in out and "sound" in out and "% of the entries lie in the blocks" in out


def test_compare_partitioners() -> None:
    pytest.importorskip("scipy")
    out = printed("compare_partitioners.py", "-k", "4", "--repeats", "1")
    assert "10,000 nodes, 19,800 edges, 4 parts" in out and "cleave quality" in out
    for package in ("pymetis", "kaminpar", "mtkahypar"):
        assert f"\n{package}" in out or f"skipped: {package} is not installed" in out


def test_pipeline_a_llama() -> None:
    pytest.importorskip("torch", reason="torch is not installed: the pipeline of a Llama is not run")
    pytest.importorskip("transformers", reason="transformers is not installed: the pipeline of a Llama is not run")
    words = [sys.executable, "-W", "ignore", str(scripts / "pipeline_a_llama.py"), "ZBV", "-m", "4"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "largest load of a rank" in done.stdout and "ZBVZeroBubble, 2 ranks: losses differ by at most" in done.stdout
    apart = float(done.stdout.rsplit("gradients by ", 1)[1].split()[0])
    assert apart <= 1e-6


def test_save_or_run_again() -> None:
    pytest.importorskip("torch", reason="torch is not installed: passes are not cut")
    words = [sys.executable, "-W", "ignore", str(scripts / "save_or_run_again.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    page = (scripts / "save_or_run_again.py").read_text()
    assert len(done.stdout.splitlines()) == 5
    for line in done.stdout.splitlines():
        assert f"    {line}\n" in page
