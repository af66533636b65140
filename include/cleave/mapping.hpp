// SPDX-License-Identifier: MIT
#pragma once

/// Maps graphs to machines whose places are at different distances, as process mapping does.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Undirected graphs in CSR arrays, and their construction from a list of edges.
#include "cleave/graph/adjacency.hpp"
/// The places of a machine and their distances.
#include "cleave/partition/kway/machine.hpp"
/// Partitions a graph so that heavy edges lead to near places.
#include "cleave/partition/kway/map_kway.hpp"
