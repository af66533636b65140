// SPDX-License-Identifier: MIT
// The kernels of cleave: in exactly one source of a program, one that nvcc compiles.
#include <cleave/cuda/kernels.cuh>
