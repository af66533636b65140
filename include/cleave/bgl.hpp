// SPDX-License-Identifier: MIT
#pragma once

/// Boost graphs: as dataflow, as undirected graphs, and parts as property maps. Needs Boost: component
/// `boost`.

/// A directed Boost graph as dataflow.
#include "cleave/adapt/bgl/dataflow.hpp"
/// An undirected one in CSR arrays.
#include "cleave/adapt/bgl/adjacency.hpp"
/// Parts as a property map.
#include "cleave/adapt/bgl/parts.hpp"
/// Properties as weights.
#include "cleave/adapt/bgl/property.hpp"
/// Minimum cuts by Boost's flows.
#include "cleave/adapt/bgl/bgl_min_cut.hpp"
