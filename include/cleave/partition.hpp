// SPDX-License-Identifier: MIT
#pragma once

/// Which part each node belongs to: balanced slices, assignments by name or callback, groups, buckets, and
/// what judges a partition.

/// The part of each node, and limits: none, one for all, or one for each part.
#include "cleave/partition/model/partition.hpp"
/// K parts of nearly equal load, with a lower bound.
#include "cleave/partition/slices/balance.hpp"
/// Parts by callback, by markers, by the module that a node belongs to, or from a list of names.
#include "cleave/partition/named/assign.hpp"
/// Cuts at marker nodes, before or after a module, and several kinds of them as one list.
#include "cleave/partition/named/cut_points.hpp"
/// Nodes moved to the parts of their readers.
#include "cleave/partition/named/sink_to_users.hpp"
/// Groups of nodes that a device can run.
#include "cleave/partition/groups/capability.hpp"
/// Parts that alternate between two kinds of device.
#include "cleave/partition/groups/alternation.hpp"
/// Groups as a partition.
#include "cleave/partition/groups/fusion_group.hpp"
/// Gradient buckets, as DistributedDataParallel fills them.
#include "cleave/partition/buckets/buckets.hpp"
/// Buckets that end a step soonest.
#include "cleave/partition/buckets/optimal_buckets.hpp"
/// When each bucket is reduced.
#include "cleave/partition/buckets/bucket_times.hpp"
/// Parts made acyclic with few moves.
#include "cleave/partition/units/part_cycles.hpp"
/// Loads, imbalance, bottleneck.
#include "cleave/partition/model/metrics.hpp"
/// What makes a partition unusable, with the witness.
#include "cleave/partition/model/validity.hpp"
/// A judge that recomputes everything.
#include "cleave/partition/verify/verify_partition.hpp"
