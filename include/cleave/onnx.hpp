// SPDX-License-Identifier: MIT
#pragma once

/// Reads ONNX models, estimates their costs, cuts them and writes the stages. Needs ONNX and Protocol
/// Buffers: component `onnx`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Reads a model.
#include "cleave/adapt/onnx/load.hpp"
/// Checks a model and reports its first fault.
#include "cleave/adapt/onnx/check.hpp"
/// The description of a fault.
#include "cleave/adapt/onnx/fault.hpp"
/// A model as a graph.
#include "cleave/adapt/onnx/graph.hpp"
/// The types and shapes of a model's values.
#include "cleave/adapt/onnx/types.hpp"
/// Sizes of symbolic dimensions, given by the user.
#include "cleave/adapt/onnx/shape.hpp"
/// The costs of nodes.
#include "cleave/adapt/onnx/cost.hpp"
/// Lists nodes and values without a cost, and the information that would give them one.
#include "cleave/adapt/onnx/unpriced.hpp"
/// Stages as ONNX models.
#include "cleave/adapt/onnx/stages.hpp"
/// Cuts a model and makes its stages in one call.
#include "cleave/adapt/onnx/split_onnx.hpp"
/// Writes stages to files, atomically.
#include "cleave/adapt/onnx/write.hpp"
