// SPDX-License-Identifier: MIT
#pragma once

/// OpenVINO as an inference engine for the stages of ONNX models. Needs OpenVINO: component `openvino`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Computes a stage in OpenVINO.
#include "cleave/openvino/network.hpp"
