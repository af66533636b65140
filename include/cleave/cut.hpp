// SPDX-License-Identifier: MIT
#pragma once

/// Reads a graph, chooses its parts, and builds and runs the stages. These headers of cleave.hpp are enough
/// for most adapters, and compile faster.

/// The concepts of an adapter: one for each ability.
#include "cleave/graph/concepts.hpp"
/// Ranges of numbers, for adapters whose nodes are numbered.
#include "cleave/graph/counted.hpp"
/// Lists of pointers, for adapters of IRs whose lists are not ranges.
#include "cleave/graph/collected.hpp"
/// Computes a topological order or finds a cycle, and lists the producers of given nodes, producers first.
#include "cleave/graph/order.hpp"
/// Derives the order of nodes from the memory and other resources that they read and write.
#include "cleave/graph/effect_order.hpp"
/// Run-time checks that an adapter keeps its promises.
#include "cleave/graph/adapter_fault.hpp"
/// Finds operands that no list of the graph names.
#include "cleave/graph/unlisted_values.hpp"
/// Computes k parts of nearly equal load, with a lower bound.
#include "cleave/partition/slices/balance.hpp"
/// Assigns parts by callback, by markers, by the module that a node belongs to, or by a list of names.
#include "cleave/partition/named/assign.hpp"
/// Makes stages of the parts, and passes their nodes to a builder.
#include "cleave/split/split.hpp"
/// Runs the stages of a cut one after the other, with the values that they exchange.
#include "cleave/split/run_stages.hpp"
