// SPDX-License-Identifier: MIT
// cleave demo in a wheel: it needs models and scripts of a checkout.
#include <span>
#include <string>

#include "options.hpp"
#include "subcommands.hpp"

namespace tool {

int demo(std::span<std::string const>) {
  throw usage_error("demo needs the models of a checkout of cleave: run ./dev demo there");
}

}  // namespace tool
