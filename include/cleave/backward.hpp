// SPDX-License-Identifier: MIT
#pragma once

/// Gradients of stages: the loss, backward passes and their saved activations, separate weight passes, and
/// state that several stages share.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// A graph with its loss appended.
#include "cleave/backward/with_loss.hpp"
/// Selects the output that is the loss.
#include "cleave/backward/loss.hpp"
/// A graph with its backward pass appended, cut like the forward pass.
#include "cleave/backward/with_backward.hpp"
/// A backward plan: the gradients that each stage computes, and the values it needs for them.
#include "cleave/backward/backward_plan.hpp"
/// Makes a backward plan.
#include "cleave/backward/make_backward_plan.hpp"
/// Checks a backward plan.
#include "cleave/backward/check_backward.hpp"
/// Runs the backward pass of a stage with the autograd engine that you supply.
#include "cleave/backward/stage_backward.hpp"
/// The concept of an autograd engine.
#include "cleave/backward/autograd.hpp"
/// Derives the backward graph from a forward graph.
#include "cleave/backward/backward_graph.hpp"
/// Assigns each gradient to an input phase (dgrad) or a weight phase (wgrad).
#include "cleave/backward/backward_phases.hpp"
/// Cuts a backward pass into an input pass and a weight pass.
#include "cleave/backward/weight_cut.hpp"
/// Finds the fewest bytes of saved activations between forward and backward.
#include "cleave/backward/min_saved_activations.hpp"
/// A forward and a backward pass as one graph.
#include "cleave/backward/joint_graph.hpp"
/// Chooses what is saved between forward, backward and weight pass, and what runs again.
#include "cleave/backward/cut_joint_graph.hpp"
/// Suggests values to recompute in the backward pass rather than save.
#include "cleave/backward/recompute_hints.hpp"
/// The root graph of a pipe, which calls the stages, as flat arrays.
#include "cleave/backward/stage_root.hpp"
/// Parameters and buffers that several stages share.
#include "cleave/backward/ties.hpp"
