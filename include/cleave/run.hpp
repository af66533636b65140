// SPDX-License-Identifier: MIT
#pragma once

/// Runs stages: executes a schedule on threads, with microbatches and gradients, or streams values forward.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The concepts of a device, a communicator and a stage.
#include "cleave/run/model/concepts.hpp"
/// A view of a tensor's memory.
#include "cleave/run/model/tensor_view.hpp"
/// The element type and shape of the values that stages send.
#include "cleave/run/model/edge_layout.hpp"
/// Derives the layouts of all edges.
#include "cleave/run/model/dataflow_layouts.hpp"
/// The report of a failure: rank, action, stage, microbatch.
#include "cleave/run/model/failure.hpp"
/// Stages that execute custom actions.
#include "cleave/run/model/custom_stage.hpp"
/// Tensors by name, for checkpoints.
#include "cleave/run/model/named_tensor.hpp"
/// Compiles a schedule and its layouts into a plan of one step.
#include "cleave/run/program/step_plan.hpp"
/// Makes the program of one rank.
#include "cleave/run/program/make_rank_program.hpp"
/// The inputs, targets and results of a step.
#include "cleave/run/program/step_values.hpp"
/// A pipeline whose ranks are threads.
#include "cleave/run/threads/thread_pipeline.hpp"
/// The host as a device.
#include "cleave/run/host/host_device.hpp"
/// Stages as slow as on another device.
#include "cleave/run/rehearsal/paced_stage.hpp"
/// Threads whose messages are as late as over other links.
#include "cleave/run/rehearsal/throttled_threads.hpp"
/// Communicators between threads.
#include "cleave/run/host/host_threads.hpp"
/// Splits a batch into microbatches.
#include "cleave/run/batch/split_batch.hpp"
/// Merges the results of microbatches.
#include "cleave/run/batch/merge_microbatches.hpp"
/// Accepts microbatches that the caller has already made.
#include "cleave/run/batch/take_microbatches.hpp"
/// Weights of the losses of microbatches.
#include "cleave/run/batch/loss_weights.hpp"
/// The gradients of shared state that stages sum.
#include "cleave/run/gradients/tied_gradients.hpp"
/// Streams values through stages on threads, forward only.
#include "cleave/run/forward/forward.hpp"
