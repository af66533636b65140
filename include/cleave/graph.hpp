// SPDX-License-Identifier: MIT
#pragma once

/// Reads graphs: the members of an adapter, the snapshot that algorithms run on, orders, checks, and
/// undirected graphs.

/// The concepts of an adapter: one for each ability.
#include "cleave/graph/concepts.hpp"
/// Compile-time checks that report adapter members with a wrong signature.
#include "cleave/graph/check_graph_concepts.hpp"
/// Run-time checks that an adapter keeps its promises.
#include "cleave/graph/adapter_fault.hpp"
/// Finds operands that no list of the graph names.
#include "cleave/graph/unlisted_values.hpp"
/// Ranges of numbers, for adapters whose nodes are numbered.
#include "cleave/graph/counted.hpp"
/// Lists of pointers, for adapters of IRs whose lists are not ranges.
#include "cleave/graph/collected.hpp"
/// The flat arrays that every algorithm runs on.
#include "cleave/graph/snapshot_arrays.hpp"
/// Reads a graph into these arrays, once.
#include "cleave/graph/snapshot.hpp"
/// Computes a topological order or finds a cycle, and lists the producers of given nodes, producers first.
#include "cleave/graph/order.hpp"
/// Derives the order of nodes from the memory and other resources that they read and write.
#include "cleave/graph/effect_order.hpp"
/// Finds which memory is written, and which of it is viewed through several handles at once.
#include "cleave/graph/memory.hpp"
/// Scopes: state such as autocast that marker nodes enter and leave.
#include "cleave/graph/scopes.hpp"
/// Undirected graphs in CSR arrays, as METIS takes them: the checks, and construction from a list of edges.
#include "cleave/graph/adjacency.hpp"
/// The concepts of an adapter of an undirected graph, and the reader that turns it into CSR arrays.
#include "cleave/graph/neighbours.hpp"
