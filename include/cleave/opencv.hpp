// SPDX-License-Identifier: MIT
#pragma once

/// OpenCV as an inference engine for the stages of ONNX models. Needs OpenCV: component `opencv`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Computes a stage in OpenCV.
#include "cleave/opencv/network.hpp"
