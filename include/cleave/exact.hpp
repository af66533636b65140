// SPDX-License-Identifier: MIT
#pragma once

/// Finds partitions that are proved to be optimal.

/// What to minimise.
#include "cleave/partition/exact/exact_options.hpp"
/// Stages of least bottleneck.
#include "cleave/partition/exact/exact.hpp"
/// Parts of least cut.
#include "cleave/partition/exact/min_k_cut.hpp"
/// Slices of a list of weights whose largest sum is least.
#include "cleave/partition/exact/slice_weights.hpp"
