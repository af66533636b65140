// SPDX-License-Identifier: MIT
#pragma once

/// Partitions undirected graphs into k parts with few edges between them, as METIS and KaMinPar do.

/// The nodes of each part.
#include "cleave/partition/model/partition.hpp"
/// A graph in CSR arrays.
#include "cleave/graph/adjacency.hpp"
/// Balance, preset, seed, threads, fixed nodes.
#include "cleave/partition/kway/options.hpp"
/// Partitions, and refines what is there.
#include "cleave/partition/kway/kway.hpp"
/// The same of a graph of yours.
