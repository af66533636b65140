// SPDX-License-Identifier: MIT
#pragma once
/// Any graph of Boost.Graph: read without directions (`bgl_adjacency`) or as a computation (`bgl_dataflow`),
/// and parts written back as property maps. In this folder alone Boost's words stand beside ours: a vertex is
/// a node.
#include "cleave/adapt/bgl/adjacency.hpp"
#include "cleave/adapt/bgl/dataflow.hpp"
#include "cleave/adapt/bgl/parts.hpp"
#include "cleave/adapt/bgl/property.hpp"
