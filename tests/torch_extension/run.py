# SPDX-License-Identifier: MIT
"""Builds an extension of PyTorch that includes cleave, as torch.utils.cpp_extension does, and calls it:
run.py BUILD_FOLDER. The status is 77 if no extension can be built here."""
import os
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
here = os.path.dirname(os.path.abspath(__file__))
try:
    import torch
    from torch.utils import cpp_extension
except ImportError as e:
    print("NOT RUN:", e)
    sys.exit(77)

os.makedirs(sys.argv[1], exist_ok=True)
made = cpp_extension.load(
    name="cleave_extension",
    sources=[os.path.join(here, name) for name in ("torch_first.cpp", "cleave_first.cpp")],
    extra_include_paths=[os.path.join(here, "../../include")],
    extra_cflags=["-std=c++20", "-O1", "-Wno-deprecated"],
    build_directory=sys.argv[1],
    with_cuda=False,
    verbose=True,
)
weights = torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
parts = made.parts_of_chain(weights, 2)
assert parts.tolist() == [0, 0, 0, 1, 1, 1], parts
assert made.largest_load(weights, 2) == 6
try:
    made.parts_of_chain(weights, 0)
except RuntimeError as e:
    print("refused:", e)
else:
    sys.exit("0 parts are accepted")
print("passed: an extension of torch", torch.__version__)
