// SPDX-License-Identifier: MIT
#pragma once

/// range-v3's views as ranges of nodes. Needs range-v3: component `range_v3`.

/// Views over nodes and stages.
#include "cleave/adapt/range_v3.hpp"
