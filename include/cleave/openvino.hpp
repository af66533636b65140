// SPDX-License-Identifier: MIT
#pragma once

/// OpenVINO as an inference engine for the stages of ONNX models. Needs OpenVINO: component `openvino`.

/// Computes a stage in OpenVINO.
#include "cleave/openvino/network.hpp"
