// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "cleave/pipe/module_pipe.hpp"
#include "conformance_runner/outcome.hpp"

namespace cleave::conformance {

/// Compares the state of the stages of `p`, a pipe of `g`, with the recorded state of the case.
std::vector<difference> compare_state(json const& body, module_graph const& g, module_pipe const& p);

}  // namespace cleave::conformance
