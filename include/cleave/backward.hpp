// SPDX-License-Identifier: MIT
#pragma once

/// Gradients of stages: loss, backward passes, what they keep, weights split off, and state that stages
/// share.

/// A graph with its loss.
#include "cleave/backward/with_loss.hpp"
/// Which output is the loss.
#include "cleave/backward/loss.hpp"
/// A graph with its backward pass, cut like the forward one.
#include "cleave/backward/with_backward.hpp"
/// Which stage computes which gradients from what.
#include "cleave/backward/backward_plan.hpp"
/// A plan of them.
#include "cleave/backward/make_backward_plan.hpp"
/// What is wrong with such a plan.
#include "cleave/backward/check_backward.hpp"
/// Runs the backward pass of a stage with an autograd of yours.
#include "cleave/backward/stage_backward.hpp"
/// What such an autograd offers.
#include "cleave/backward/autograd.hpp"
/// The backward graph of a forward one.
#include "cleave/backward/backward_graph.hpp"
/// Input and weight gradients told apart.
#include "cleave/backward/backward_phases.hpp"
/// A backward pass cut into both.
#include "cleave/backward/weight_cut.hpp"
/// The fewest bytes kept between forward and backward.
#include "cleave/backward/min_saved_activations.hpp"
/// What is better computed again than kept.
#include "cleave/backward/recompute_hints.hpp"
/// The module that holds a stage.
#include "cleave/backward/stage_root.hpp"
/// State that several stages share.
#include "cleave/backward/ties.hpp"
