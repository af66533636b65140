// SPDX-License-Identifier: MIT
#pragma once

/// Cuts a graph into stages: reads it, chooses its parts, and builds the stages. cut.hpp is the part of it
/// that most adapters need. Every other subject has a front of its own: modules, pipe, backward, schedule,
/// run, draw, formats, checkpoint, and the partitioners kway, acyclic, exact and repartition. Fronts that
/// need another library: onnx, bgl, range_v3, bytes, processes, mpi, cuda.

#include "cleave/core/bytes.hpp"
#include "cleave/graph.hpp"
#include "cleave/partition.hpp"
#include "cleave/split.hpp"
