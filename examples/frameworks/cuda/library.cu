// SPDX-License-Identifier: MIT
// Instantiates the kernels of cleave. Compile this with nvcc in exactly one source file of a program.
#include <cleave/cuda/kernels.cuh>
