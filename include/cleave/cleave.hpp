// SPDX-License-Identifier: MIT
#pragma once

/// Cuts a graph into stages: how graphs are read, how parts are chosen, and how stages are made of them.
/// Every other subject has a header of its own: modules, pipe, backward, schedule, run, draw, formats,
/// checkpoint, and the partitioners kway, acyclic, exact, repartition; what needs another library has one
/// too: onnx, bgl, range_v3, bytes, processes, mpi, cuda.

#include "cleave/core/bytes.hpp"
#include "cleave/graph.hpp"
#include "cleave/partition.hpp"
#include "cleave/split.hpp"
