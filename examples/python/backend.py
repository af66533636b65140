# SPDX-License-Identifier: MIT
"""The build backend: scikit-build-core's, whose sdist gets a copy of the project's headers and tool."""

import os
import shutil
from pathlib import Path

from scikit_build_core.build import *  # noqa: F403
from scikit_build_core.build import build_sdist as _build_sdist

here = Path(__file__).resolve().parent
root = here.parent.parent
copy = here / "project"


def build_sdist(sdist_directory, config_settings=None):
    """Makes the sdist. In a checkout, the headers and the tool are copied beside the package first."""
    if not (root / "include" / "cleave" / "cleave.hpp").exists():  # an unpacked sdist, which has its copy
        return _build_sdist(sdist_directory, config_settings)
    if copy.exists():
        shutil.rmtree(copy)
    try:
        shutil.copytree(root / "include", copy / "include")
        shutil.copytree(root / "examples" / "cleave", copy / "examples" / "cleave")
        shutil.copytree(root / "bench" / "instances", copy / "bench" / "instances")
        for name in ("CMakeLists.txt", "LICENSE"):
            shutil.copy(root / name, copy / name)
        return _build_sdist(os.path.abspath(sdist_directory), config_settings)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
