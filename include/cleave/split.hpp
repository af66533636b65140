// SPDX-License-Identifier: MIT
#pragma once

/// Stages from parts: the plan as plain data, the stages written into the user's IR, and the way back.

/// Stages, their inputs and outputs, and the transfers between them.
#include "cleave/split/plan.hpp"
/// A plan from a snapshot and its parts.
#include "cleave/split/make_plan.hpp"
/// What is wrong with a plan that was edited.
#include "cleave/split/check_plan.hpp"
/// What builds a stage in the user's IR: three members.
#include "cleave/split/builder.hpp"
/// Hands the nodes of a stage to a builder.
#include "cleave/split/emit.hpp"
/// Plans and emits in one call.
#include "cleave/split/split.hpp"
/// The same for graphs with regions that open and close.
#include "cleave/split/split_with_scopes.hpp"
/// Joins stages into one graph again.
#include "cleave/split/inline_stages.hpp"
/// Which value goes from which stage to which, and its bytes.
#include "cleave/split/dataflow.hpp"
/// What a runtime such as DeepSpeed's accepts as arguments of a stage, and which stage runs a hook.
#include "cleave/split/stage_contract.hpp"
/// Values on a boundary moved to the other side.
#include "cleave/split/boundary.hpp"
/// A plan whose nodes can be moved one at a time.
#include "cleave/split/movable_plan.hpp"
/// Why each node is where it is.
#include "cleave/split/assignment_log.hpp"
