// SPDX-License-Identifier: MIT
#pragma once

/// Partitions hypergraphs into k balanced parts, as hMETIS, PaToH and KaHyPar do.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// A partition: the part of each node.
#include "cleave/partition/model/partition.hpp"
/// Hypergraphs in CSR arrays.
#include "cleave/graph/hypergraph.hpp"
/// The cost of a partition of a hypergraph.
#include "cleave/partition/kway/hypergraph_cut.hpp"
/// The options: objective, imbalance, preset, seed, threads, fixed nodes.
#include "cleave/partition/kway/hypergraph_options.hpp"
/// Partitions a hypergraph.
#include "cleave/partition/kway/partition_hypergraph.hpp"
/// Converts a computation to a hypergraph: a value and its readers become a net.
#include "cleave/partition/kway/hypergraph_of.hpp"
