// SPDX-License-Identifier: MIT
#pragma once

/// Well-known partitioners to compare with: Kernighan-Lin, Fiduccia-Mattheyses, spectral, space-filling
/// curves, and published pipeline planners.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// All classic methods by name.
#include "cleave/partition/classic/named_methods.hpp"
/// Greedy graph growing from a seed node.
#include "cleave/partition/classic/growing.hpp"
/// The Kernighan-Lin method (1970).
#include "cleave/partition/classic/kernighan_lin.hpp"
/// The Fiduccia-Mattheyses method (1982).
#include "cleave/partition/classic/fiduccia_mattheyses.hpp"
/// Label propagation.
#include "cleave/partition/classic/label_propagation.hpp"
/// Spectral bisection.
#include "cleave/partition/classic/spectral.hpp"
/// Hilbert and Morton space-filling curves.
#include "cleave/partition/classic/space_filling_curve.hpp"
/// Partitions into k parts by recursive bisection.
#include "cleave/partition/classic/partition_by_bisection.hpp"
/// Planners for chains of layers: DeepSpeed's two rules, torchgpipe's block partition, Accelerate's device
/// map, and PipeDream's dynamic program.
#include "cleave/partition/classic/chain_rules.hpp"
