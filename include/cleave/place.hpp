// SPDX-License-Identifier: MIT
#pragma once

/// Cuts a graph into stages for devices of unlike speed, memory and links, and says which device runs which.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Devices and the links between them.
#include "cleave/place/device_network.hpp"
/// The graph as a row of units.
#include "cleave/place/placement_row.hpp"
/// The goals, the options and the result.
#include "cleave/place/placement.hpp"
/// Finds the stages and their devices.
#include "cleave/place/place.hpp"
/// Says what a better device or link would save.
#include "cleave/place/placement_gains.hpp"
/// Cuts a graph into stages with copies, for devices of one or a few kinds.
#include "cleave/place/place_replicated.hpp"
