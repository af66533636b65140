// SPDX-License-Identifier: MIT
#pragma once

/// What each rank does in a step: families, messages, checks, time, memory, and text in PyTorch's format.

/// What moves between stages: edges, bytes, layouts.
#include "cleave/core/dataflow.hpp"
/// One thing that a rank does.
#include "cleave/schedule/model/action.hpp"
/// Which rank has which stage.
#include "cleave/schedule/model/placement.hpp"
/// A list of actions for each rank.
#include "cleave/schedule/model/schedule.hpp"
/// Families by name.
#include "cleave/schedule/model/schedule_names.hpp"
/// What passes and messages cost.
#include "cleave/schedule/model/stage_cost.hpp"
/// How messages travel.
#include "cleave/schedule/model/delivery.hpp"
/// Makes the schedule of a family.
#include "cleave/schedule/families/generate.hpp"
/// Adds the messages, reductions and gathers that a schedule needs.
#include "cleave/schedule/lower/lower.hpp"
/// The edges between stages that feed each other.
#include "cleave/schedule/lower/connect_stages.hpp"
/// Messages sent when they are needed.
#include "cleave/schedule/lower/send_at_use.hpp"
/// Waits for messages that were sent.
#include "cleave/schedule/lower/send_waits.hpp"
/// Messages in rounds that do not collide.
#include "cleave/schedule/lower/message_graph.hpp"
/// Reductions of shared state.
#include "cleave/schedule/lower/reduce_ties.hpp"
/// What is wrong with a schedule.
#include "cleave/schedule/verify/verify.hpp"
/// Where it gets stuck.
#include "cleave/schedule/verify/deadlock.hpp"
/// An order that does not get stuck.
#include "cleave/schedule/verify/fix_deadlock.hpp"
/// When each action begins and ends.
#include "cleave/schedule/simulate/simulate.hpp"
/// The same in steps of equal length.
#include "cleave/schedule/simulate/step_simulation.hpp"
/// The actions that decide the length of a step.
#include "cleave/schedule/simulate/critical_path.hpp"
/// Bytes in use at each moment.
#include "cleave/schedule/simulate/memory_over_time.hpp"
/// Slots for what is kept and received.
#include "cleave/schedule/memory/plan_memory.hpp"
/// Slots shared by what does not live at once.
#include "cleave/schedule/memory/share_slots.hpp"
/// Slots for what forward passes make, by pass or by microbatch.
#include "cleave/schedule/memory/activation_slots.hpp"
/// Slots for messages.
#include "cleave/schedule/memory/receive_slots.hpp"
/// Messages sent once a slot is free.
#include "cleave/schedule/memory/send_into_slots.hpp"
/// Activations moved away or computed again to stay below a limit.
#include "cleave/schedule/memory/limit_saved_activations.hpp"
/// PyTorch's CSV.
#include "cleave/schedule/text/schedule_csv.hpp"
/// A schedule listed by hand.
#include "cleave/schedule/text/listed_schedule.hpp"
/// What a rank calls, in order.
#include "cleave/schedule/calls/rank_calls.hpp"
