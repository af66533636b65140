// SPDX-License-Identifier: MIT
#pragma once

/// What it takes to cut a graph: how it is read, which part each node belongs to, and the stages that follow.
/// Every other subject has a header of its own: modules, pipe, backward, schedule, run, draw, formats,
/// checkpoint, and the partitioners kway, acyclic, exact, repartition; what needs another library has one
/// too: onnx, bgl, range_v3, bytes, processes, mpi, cuda.

#include "cleave/core/bytes.hpp"
#include "cleave/graph.hpp"
#include "cleave/partition.hpp"
#include "cleave/split.hpp"
