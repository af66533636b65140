// SPDX-License-Identifier: MIT
#pragma once

/// Assigns nodes to parts: balanced slices, assignment by name or callback, groups, gradient buckets, and the
/// verification of partitions.

/// A partition as the part of each node, and limits given once for all parts or for each part.
#include "cleave/partition/model/partition.hpp"
/// Computes k parts of nearly equal load, with a lower bound.
#include "cleave/partition/slices/balance.hpp"
/// Cuts into the stages of ranks that run several stages each, for the least largest load of a rank.
#include "cleave/partition/slices/balance_ranks.hpp"
/// Assigns parts by callback, by markers, by the module that a node belongs to, or by a list of names.
#include "cleave/partition/named/assign.hpp"
/// Cut points: at marker nodes, or before or after a module.
#include "cleave/partition/named/cut_points.hpp"
/// Moves nodes to the parts of their users.
#include "cleave/partition/named/sink_to_users.hpp"
/// Groups the nodes that a device can run.
#include "cleave/partition/groups/capability.hpp"
/// Parts that alternate between two kinds of device.
#include "cleave/partition/groups/alternation.hpp"
/// Fusion groups as a partition.
#include "cleave/partition/groups/fusion_group.hpp"
/// Gradient buckets, filled as DistributedDataParallel does.
#include "cleave/partition/buckets/buckets.hpp"
/// Finds the buckets that minimise the time of a step.
#include "cleave/partition/buckets/optimal_buckets.hpp"
/// Computes the time at which each bucket is reduced.
#include "cleave/partition/buckets/bucket_times.hpp"
/// Makes parts acyclic with few moves.
#include "cleave/partition/units/part_cycles.hpp"
/// Quality metrics: loads, imbalance, bottleneck.
#include "cleave/partition/model/metrics.hpp"
/// Checks that a partition is usable, and returns a witness if it is not.
#include "cleave/partition/model/validity.hpp"
/// An independent verifier that recomputes every claim about a partition.
#include "cleave/partition/verify/verify_partition.hpp"
