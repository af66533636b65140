// SPDX-License-Identifier: MIT
#pragma once

/// Repairs a partition after costs have changed, and moves few nodes.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Repartitions an undirected graph into k parts.
#include "cleave/partition/repartition/repartition.hpp"
/// Repartitions the stages of a pipeline.
#include "cleave/partition/repartition/repartition_stages.hpp"
