// SPDX-License-Identifier: MIT
#pragma once

/// Pipes as PyTorch's pipelining makes them: cuts of a module graph, the placement of state, devices, and
/// relays.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Cuts a module graph into the stages of a pipe.
#include "cleave/pipe/module_pipe.hpp"
/// Finds the values that need gradients.
#include "cleave/pipe/module_gradients.hpp"
/// The plan of a pipe: stages in a row, and the values that pass through them.
#include "cleave/pipe/pipe_plan.hpp"
/// Relays: stages that pass values on to later ones.
#include "cleave/pipe/relay.hpp"
/// Finds and replaces the devices that a module graph names.
#include "cleave/pipe/device_assignment.hpp"
/// The owners and readers of state that several stages share.
#include "cleave/split/state/state_assignment.hpp"
/// Chooses the owner of shared state.
#include "cleave/split/state/assign_state.hpp"
/// Reports every fault of a state assignment.
#include "cleave/split/state/check_state.hpp"
/// The layouts of the values that stages send.
#include "cleave/pipe/pipe_dataflow.hpp"
/// Collects all findings about a pipe in one list.
#include "cleave/pipe/pipe_check.hpp"
/// Flattens nested values into messages, and restores them.
#include "cleave/pipe/pytree.hpp"
/// Converts an argument of a module graph to a nested value, and back.
#include "cleave/formats/nested_argument.hpp"
