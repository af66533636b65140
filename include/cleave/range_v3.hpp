// SPDX-License-Identifier: MIT
#pragma once

/// Partitions as lazy views of range-v3. Needs range-v3: component `range_v3`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Views of the nodes of parts, and of the edges between parts.
#include "cleave/adapt/range_v3.hpp"
