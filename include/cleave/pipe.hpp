// SPDX-License-Identifier: MIT
#pragma once

/// Pipes as PyTorch's pipelining makes them: cuts of a module graph, state and where it lies, devices,
/// relays.

/// A module graph cut into the stages of a pipe.
#include "cleave/pipe/module_pipe.hpp"
/// Which values need gradients.
#include "cleave/pipe/module_gradients.hpp"
/// Stages in a row, and what passes them by.
#include "cleave/pipe/pipe_plan.hpp"
/// Values handed on from stage to stage.
#include "cleave/pipe/relay.hpp"
/// Nodes that say which device they run on.
#include "cleave/pipe/device_assignment.hpp"
/// Who owns state that several stages read.
#include "cleave/split/state/state_assignment.hpp"
/// Decides it.
#include "cleave/split/state/assign_state.hpp"
/// What is wrong with it.
#include "cleave/split/state/check_state.hpp"
/// The layouts of what stages send.
#include "cleave/pipe/pipe_dataflow.hpp"
/// All findings about a pipe in one list.
#include "cleave/pipe/pipe_check.hpp"
/// Nested values as flat messages, and back.
#include "cleave/pipe/pytree.hpp"
/// An argument of a module graph as a nested value, and back.
#include "cleave/formats/nested_argument.hpp"
