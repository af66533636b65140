// SPDX-License-Identifier: MIT
#pragma once

/// Turns parts into stages: the plan as plain data, the stages in the user's IR, and the reverse
/// transformation.

/// The plan: stages, their inputs and outputs, and the transfers between them.
#include "cleave/split/plan.hpp"
/// Makes a plan from a snapshot and its parts.
#include "cleave/split/make_plan.hpp"
/// Checks a plan that was edited.
#include "cleave/split/check_plan.hpp"
/// The concept of a builder, which builds a stage in the user's IR with three members.
#include "cleave/split/builder.hpp"
/// Passes the nodes of a stage to a builder.
#include "cleave/split/emit.hpp"
/// Plans and emits in one call.
#include "cleave/split/split.hpp"
/// Runs the stages of a cut one after the other, with the values that they exchange.
#include "cleave/split/run_stages.hpp"
/// Plans and emits graphs with scopes, such as autocast.
#include "cleave/split/split_with_scopes.hpp"
/// Joins stages into one graph again.
#include "cleave/split/inline_stages.hpp"
/// The dataflow of a plan: the values that move between stages, and their bytes.
#include "cleave/split/dataflow.hpp"
/// The values that each stage keeps from one run to the next, such as keys of earlier tokens.
#include "cleave/split/carried_values.hpp"
/// Checks stages against the rules of a runtime such as DeepSpeed, and finds the stage that runs a hook.
#include "cleave/split/stage_contract.hpp"
/// Moves values on a boundary to its other side.
#include "cleave/split/boundary.hpp"
/// A plan whose nodes can be moved one at a time.
#include "cleave/split/movable_plan.hpp"
/// Records why each node was assigned to its stage.
#include "cleave/split/assignment_log.hpp"
