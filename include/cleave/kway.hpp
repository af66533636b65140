// SPDX-License-Identifier: MIT
#pragma once

/// Partitions undirected graphs into k balanced parts with a small edge cut, as METIS and KaMinPar do.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// A partition: the part of each node.
#include "cleave/partition/model/partition.hpp"
/// Undirected graphs in CSR arrays, and their construction from a list of edges.
#include "cleave/graph/adjacency.hpp"
/// The options: imbalance, preset, seed, threads, fixed nodes.
#include "cleave/partition/kway/options.hpp"
/// Partitions CSR arrays or an adapted graph, and refines a given partition.
#include "cleave/partition/kway/kway.hpp"
/// Declares the instantiations that the library cleave::compiled contains.
#include "cleave/partition/kway/compiled.hpp"
