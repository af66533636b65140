// SPDX-License-Identifier: MIT
#pragma once

/// Partitions graphs that are too large for memory: their nodes are read one by one.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The totals of a graph, and a view of arrays.
#include "cleave/graph/adjacency.hpp"
/// Partitions a stream of nodes, each alone (LDG, Fennel) or together with those of a buffer.
#include "cleave/partition/kway/stream_partitioner.hpp"
/// Reads a METIS file row by row.
#include "cleave/formats/graph_files/metis_rows.hpp"
