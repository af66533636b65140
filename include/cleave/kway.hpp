// SPDX-License-Identifier: MIT
#pragma once

/// Partitions undirected graphs into k parts with few edges between them, as METIS and KaMinPar do.

/// The nodes of each part.
#include "cleave/partition/model/partition.hpp"
/// Graphs in CSR arrays, and how to make them from a list of edges.
#include "cleave/graph/adjacency.hpp"
/// Balance, preset, seed, threads, fixed nodes.
#include "cleave/partition/kway/options.hpp"
/// Partitions CSR arrays or a graph of yours, and refines a given partition.
#include "cleave/partition/kway/kway.hpp"
/// Instantiations in the library cleave::compiled.
#include "cleave/partition/kway/compiled.hpp"
