// SPDX-License-Identifier: MIT
#pragma once

/// Well-known partitioners, to compare with: Kernighan-Lin, Fiduccia-Mattheyses, spectral, space-filling
/// curves, and planners of pipelines.

/// All of them by name.
#include "cleave/partition/classic/named_methods.hpp"
/// Parts grown from a node.
#include "cleave/partition/classic/growing.hpp"
/// Kernighan and Lin, 1970.
#include "cleave/partition/classic/kernighan_lin.hpp"
/// Fiduccia and Mattheyses, 1982.
#include "cleave/partition/classic/fiduccia_mattheyses.hpp"
/// Label propagation.
#include "cleave/partition/classic/label_propagation.hpp"
/// Spectral bisection.
#include "cleave/partition/classic/spectral.hpp"
/// Hilbert's and Morton's curves.
#include "cleave/partition/classic/space_filling_curve.hpp"
/// K parts by bisections.
#include "cleave/partition/classic/partition_by_bisection.hpp"
/// Rules for chains of layers: DeepSpeed's two, torchgpipe's blocks, Accelerate's device map, PipeDream's
/// planner.
#include "cleave/partition/classic/chain_rules.hpp"
