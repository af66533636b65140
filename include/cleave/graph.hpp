// SPDX-License-Identifier: MIT
#pragma once

/// How a graph is read: an adapter's members, the snapshot that algorithms run on, orders, checks, and
/// undirected graphs.

/// The members that an adapter may have: one concept for each ability.
#include "cleave/graph/concepts.hpp"
/// What a compiler says of an adapter that is nearly right.
#include "cleave/graph/check_graph_concepts.hpp"
/// Whether an adapter keeps its promises, at run time.
#include "cleave/graph/adapter_fault.hpp"
/// Operands that no list of the graph names.
#include "cleave/graph/unlisted_values.hpp"
/// Ranges of numbers, for adapters whose nodes are numbered.
#include "cleave/graph/counted.hpp"
/// The flat arrays that every algorithm runs on.
#include "cleave/graph/snapshot_arrays.hpp"
/// Reads a graph into them, once.
#include "cleave/graph/snapshot.hpp"
/// Topological order, or the cycle; lists of nodes put into an order that can run.
#include "cleave/graph/order.hpp"
/// Which write of a memory cell a read sees.
#include "cleave/graph/memory.hpp"
/// Regions that open and close along a graph.
#include "cleave/graph/scopes.hpp"
/// Undirected graphs in CSR arrays, as METIS takes them: what is wrong with them, and how to make them of
/// edges.
#include "cleave/graph/adjacency.hpp"
/// The members that an adapter of an undirected graph may have, and how it is read into such arrays.
#include "cleave/graph/neighbours.hpp"
