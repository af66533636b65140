// SPDX-License-Identifier: MIT
#pragma once

/// Runs the stages of a pipe in your framework: from a module graph to trained stages.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Makes a pipeline of an engine and a schedule, on threads, processes or GPUs.
#include "cleave/engine/make_pipeline.hpp"
/// Connects the stages of a pipe, and makes those of each rank.
#include "cleave/engine/stage_engine.hpp"
/// The interface to a framework: tensors, operators, differentiation.
#include "cleave/engine/framework.hpp"
/// Makes a framework of operators with backward functions.
#include "cleave/engine/taped_operators.hpp"
/// Tensors of doubles or floats on the host, for operators of your own.
#include "cleave/engine/host_tensors.hpp"
