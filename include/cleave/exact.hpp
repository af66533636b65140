// SPDX-License-Identifier: MIT
#pragma once

/// Finds optimal partitions and proves that they are optimal.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The options: what to minimise, and the limits.
#include "cleave/partition/exact/exact_options.hpp"
/// Finds stages with the smallest bottleneck.
#include "cleave/partition/exact/exact.hpp"
/// Finds k parts with the smallest cut.
#include "cleave/partition/exact/min_k_cut.hpp"
/// Slices a list of weights so that the largest sum of a slice is smallest.
#include "cleave/partition/exact/slice_weights.hpp"
