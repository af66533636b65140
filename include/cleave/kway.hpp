// SPDX-License-Identifier: MIT
#pragma once

/// Partitions undirected graphs into k parts with few edges between them, as METIS and KaMinPar do.

/// The nodes of each part.
#include "cleave/partition/model/partition.hpp"
/// A graph in CSR arrays, from a list of edges too.
#include "cleave/graph/adjacency.hpp"
/// Balance, preset, seed, threads, fixed nodes.
#include "cleave/partition/kway/options.hpp"
/// Partitions such arrays or a graph of yours, and refines what is there.
#include "cleave/partition/kway/kway.hpp"
/// Those that cleave::compiled has.
#include "cleave/partition/kway/compiled.hpp"
