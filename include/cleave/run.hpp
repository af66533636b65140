// SPDX-License-Identifier: MIT
#pragma once

/// Runs stages: a schedule carried out by threads, microbatches, gradients, and forward streams.

/// What a device, a communicator and a stage offer.
#include "cleave/run/model/concepts.hpp"
/// Memory of a tensor.
#include "cleave/run/model/tensor_view.hpp"
/// Type and shape of what stages send.
#include "cleave/run/model/edge_layout.hpp"
/// The layouts of all edges.
#include "cleave/run/model/dataflow_layouts.hpp"
/// What failed: rank, action, stage, microbatch.
#include "cleave/run/model/failure.hpp"
/// Stages that carry out actions of yours.
#include "cleave/run/model/custom_stage.hpp"
/// Tensors by name, for checkpoints.
#include "cleave/run/model/named_tensor.hpp"
/// A schedule and its layouts made into programs of ranks.
#include "cleave/run/program/step_plan.hpp"
/// The program of a rank.
#include "cleave/run/program/make_rank_program.hpp"
/// Inputs, targets and results of a step.
#include "cleave/run/program/step_values.hpp"
/// Ranks as threads.
#include "cleave/run/threads/thread_pipeline.hpp"
/// The host as a device.
#include "cleave/run/host/host_device.hpp"
/// Communicators between threads.
#include "cleave/run/host/host_threads.hpp"
/// A batch split into microbatches.
#include "cleave/run/batch/split_batch.hpp"
/// Results of microbatches merged.
#include "cleave/run/batch/merge_microbatches.hpp"
/// Microbatches given one by one.
#include "cleave/run/batch/take_microbatches.hpp"
/// What the loss of each microbatch weighs.
#include "cleave/run/batch/loss_weights.hpp"
/// Gradients of shared state.
#include "cleave/run/gradients/tied_gradients.hpp"
/// Values streamed through stages on threads, forward only.
#include "cleave/run/forward/forward.hpp"
