// SPDX-License-Identifier: MIT
#pragma once

/// Partitions acyclic graphs into parts that form no cycle, by cut or by load.

/// The goal and its limits.
#include "cleave/partition/acyclic/acyclic_options.hpp"
/// The partitioner.
#include "cleave/partition/acyclic/acyclic.hpp"
