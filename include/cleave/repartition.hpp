// SPDX-License-Identifier: MIT
#pragma once

/// Repairs a partition after costs have changed, moving little.

/// K parts of an undirected graph.
#include "cleave/partition/repartition/repartition.hpp"
/// Stages of a pipeline.
#include "cleave/partition/repartition/repartition_stages.hpp"
