// SPDX-License-Identifier: MIT
#pragma once

/// libtorch as the framework of a stage engine. Needs libtorch: component `torch`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Tensors, autograd, operators and optimisers of libtorch.
#include "cleave/torch/framework.hpp"
