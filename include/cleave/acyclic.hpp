// SPDX-License-Identifier: MIT
#pragma once

/// Partitions directed acyclic graphs into parts whose quotient graph is acyclic, minimising the cut or the
/// largest load.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The options: what to minimise, and the limits of the parts.
#include "cleave/partition/acyclic/acyclic_options.hpp"
/// The multilevel partitioner.
#include "cleave/partition/acyclic/acyclic.hpp"
