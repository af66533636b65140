// SPDX-License-Identifier: MIT
// The subcommands of the tool that need ONNX, where the wheel is built without it.
#include <span>
#include <string>

#include "options.hpp"
#include "subcommands.hpp"

namespace tool {

namespace {

int refuse(std::string const& name) {
  throw usage_error(
      name + " needs ONNX, without which this package was built: install libonnx-dev and " +
      "libprotobuf-dev, and build it from its sdist with pip install --no-binary :all: cleave-graph");
}

}  // namespace

int split(std::span<std::string const>) { return refuse("split"); }
int inspect(std::span<std::string const>) { return refuse("inspect"); }
int place(std::span<std::string const>) { return refuse("place"); }
int recompute(std::span<std::string const>) { return refuse("recompute"); }

}  // namespace tool
