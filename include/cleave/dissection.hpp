// SPDX-License-Identifier: MIT
#pragma once

/// Finds vertex separators, and orders sparse matrices so that their Cholesky factors fill in little.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Undirected graphs in CSR arrays, and their construction from a list of edges.
#include "cleave/graph/adjacency.hpp"
/// Finds a light set of nodes that separates a graph into two sides.
#include "cleave/partition/separator/vertex_separator.hpp"
/// Orders the nodes by nested dissection.
#include "cleave/partition/separator/nested_dissection.hpp"
/// Counts the entries of a Cholesky factor for any order.
#include "cleave/partition/separator/cholesky_fill.hpp"
