// SPDX-License-Identifier: MIT
#pragma once
#include "cleave/adapt/onnx/check.hpp"
#include "cleave/adapt/onnx/constant.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/list_scopes.hpp"
#include "cleave/adapt/onnx/load.hpp"
#include "cleave/adapt/onnx/node_fault.hpp"
#include "cleave/adapt/onnx/read_file.hpp"
#include "cleave/adapt/onnx/read_scopes.hpp"
#include "cleave/adapt/onnx/scopes.hpp"
#include "cleave/adapt/onnx/tensor_fault.hpp"
#include "cleave/adapt/onnx/wire.hpp"
