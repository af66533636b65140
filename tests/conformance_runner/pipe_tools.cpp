// SPDX-License-Identifier: MIT
#include <array>
#include <string_view>
#include <utility>

#include "conformance_runner/outcome.hpp"

/// The recordings of what stands around a pipe, one runner a category.
namespace cleave::conformance {

outcome run_tools_bind(test_case const& c, json const& body);
outcome run_tools_detach(test_case const& c, json const& body);
outcome run_tools_device(test_case const& c, json const& body);
outcome run_tools_info(test_case const& c, json const& body);
outcome run_tools_number(test_case const& c, json const& body);
outcome run_tools_traced_stage(test_case const& c, json const& body);
outcome run_pipe_serialise(test_case const& c, json const& body);

namespace {

/// Runners by category; null where it is not built yet.
constexpr std::array<std::pair<std::string_view, area_runner>, 7> categories{{
    {"bind", run_tools_bind},
    {"detach", run_tools_detach},
    {"device", run_tools_device},
    {"info", run_tools_info},
    {"number", run_tools_number},
    {"serialise", run_pipe_serialise},
    {"traced_stage", run_tools_traced_stage},
}};

}  // namespace

outcome run_pipe_tools(test_case const& c, json const& body) {
  for (auto const& [category, runner] : categories)
    if (runner && c.category == category) return runner(c, body);
  return {{}, c.file + ", " + c.category};
}

}  // namespace cleave::conformance
