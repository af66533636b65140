// SPDX-License-Identifier: MIT
#pragma once

/// Runs the stages of ONNX models in inference engines. Needs ONNX and Protocol Buffers: component `onnx`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Cuts a model into stages, and the interface to an engine.
#include "cleave/inference/inference_stages.hpp"
/// Makes a pipeline of stages, on threads or processes.
#include "cleave/inference/inference_pipeline.hpp"
