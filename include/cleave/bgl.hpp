// SPDX-License-Identifier: MIT
#pragma once

/// Adapters for Boost.Graph: graphs as dataflow or as undirected graphs, and parts as property maps. Needs
/// Boost: component `boost`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// A directed Boost graph as a dataflow graph.
#include "cleave/adapt/bgl/dataflow.hpp"
/// A Boost graph, without directions, in CSR arrays.
#include "cleave/adapt/bgl/adjacency.hpp"
/// A partition as a property map.
#include "cleave/adapt/bgl/parts.hpp"
/// Vertex and edge properties as weights.
#include "cleave/adapt/bgl/property.hpp"
/// Minimum cuts computed by Boost's maximum-flow algorithms.
#include "cleave/adapt/bgl/bgl_min_cut.hpp"
