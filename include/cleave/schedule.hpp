// SPDX-License-Identifier: MIT
#pragma once

/// Pipeline schedules: the actions of each rank in a step, their families, messages, checks, time and memory,
/// and PyTorch's text format.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The dataflow between stages: edges, bytes, layouts.
#include "cleave/core/dataflow.hpp"
/// An action of a rank.
#include "cleave/schedule/model/action.hpp"
/// The placement of stages on ranks.
#include "cleave/schedule/model/placement.hpp"
/// A schedule: a list of actions for each rank.
#include "cleave/schedule/model/schedule.hpp"
/// The names of schedule families.
#include "cleave/schedule/model/schedule_names.hpp"
/// The costs of passes and messages.
#include "cleave/schedule/model/stage_cost.hpp"
/// The delivery of messages between ranks: blocking or buffered, and how many may be in flight.
#include "cleave/schedule/model/delivery.hpp"
/// Generates the schedule of a family.
#include "cleave/schedule/families/generate.hpp"
/// Adds the messages, reductions and gathers that a schedule needs.
#include "cleave/schedule/lower/lower.hpp"
/// Derives the edges between stages that feed each other.
#include "cleave/schedule/lower/connect_stages.hpp"
/// Sends and receives each message at the pass that makes or needs it.
#include "cleave/schedule/lower/send_at_use.hpp"
/// Adds the waits for messages that were sent.
#include "cleave/schedule/lower/send_waits.hpp"
/// Groups pairs of ranks into rounds, in which communicators can be set up without collisions.
#include "cleave/schedule/lower/message_graph.hpp"
/// Adds the reductions of shared state.
#include "cleave/schedule/lower/reduce_ties.hpp"
/// Reports every fault of a schedule.
#include "cleave/schedule/verify/verify.hpp"
/// Finds deadlocks.
#include "cleave/schedule/verify/deadlock.hpp"
/// Reorders a schedule so that it does not deadlock.
#include "cleave/schedule/verify/fix_deadlock.hpp"
/// Simulates a schedule: the start and end of each action.
#include "cleave/schedule/simulate/simulate.hpp"
/// Simulates a schedule in steps of equal length.
#include "cleave/schedule/simulate/step_simulation.hpp"
/// Finds the critical path: the actions that determine the length of a step.
#include "cleave/schedule/simulate/critical_path.hpp"
/// Computes the bytes in use over time.
#include "cleave/schedule/simulate/memory_over_time.hpp"
/// Plans memory slots for saved activations and received messages.
#include "cleave/schedule/memory/plan_memory.hpp"
/// Shares slots between values that are not live at the same time.
#include "cleave/schedule/memory/share_slots.hpp"
/// Assigns slots to the results of forward passes, by pass or by microbatch.
#include "cleave/schedule/memory/activation_slots.hpp"
/// Assigns slots to received messages.
#include "cleave/schedule/memory/receive_slots.hpp"
/// Delays each message until its receiver has a free slot.
#include "cleave/schedule/memory/send_into_slots.hpp"
/// Offloads or recomputes activations to stay below a memory limit.
#include "cleave/schedule/memory/limit_saved_activations.hpp"
/// Schedules in PyTorch's CSV format.
#include "cleave/schedule/text/schedule_csv.hpp"
/// Schedules written out by hand.
#include "cleave/schedule/text/listed_schedule.hpp"
/// Lists the calls that a rank makes, in order.
#include "cleave/schedule/calls/rank_calls.hpp"
