// SPDX-License-Identifier: MIT
#pragma once

/// Reads ONNX models, prices them, cuts them and writes the stages. Needs ONNX and Protocol Buffers:
/// component `onnx`.

/// Reads a model.
#include "cleave/adapt/onnx/load.hpp"
/// What is wrong with it.
#include "cleave/adapt/onnx/check.hpp"
/// How that is said.
#include "cleave/adapt/onnx/fault.hpp"
/// The model as a graph.
#include "cleave/adapt/onnx/graph.hpp"
/// Types and shapes of its values.
#include "cleave/adapt/onnx/types.hpp"
/// Sizes that the user gives.
#include "cleave/adapt/onnx/shape.hpp"
/// What its nodes cost.
#include "cleave/adapt/onnx/cost.hpp"
/// What has no price, and what would give it one.
#include "cleave/adapt/onnx/unpriced.hpp"
/// Stages as models.
#include "cleave/adapt/onnx/stages.hpp"
/// Cuts and makes them in one call.
#include "cleave/adapt/onnx/split_onnx.hpp"
/// Writes them, whole or not at all.
#include "cleave/adapt/onnx/write.hpp"
