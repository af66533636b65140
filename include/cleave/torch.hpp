// SPDX-License-Identifier: MIT
#pragma once

/// libtorch as the framework of a stage engine. Needs libtorch: component `torch`.

/// Tensors, autograd, operators and optimisers of libtorch.
#include "cleave/torch/framework.hpp"
