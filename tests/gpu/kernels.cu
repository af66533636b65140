// SPDX-License-Identifier: MIT
// The one source of a program that has the kernels.
#include "cleave/cuda/kernels.cuh"
