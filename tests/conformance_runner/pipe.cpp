// SPDX-License-Identifier: MIT
#include <array>
#include <string_view>
#include <utility>

#include "conformance_runner/outcome.hpp"

/// The recordings of Pipe, one runner a file of them.
namespace cleave::conformance {

outcome run_pipe_split(test_case const& c, json const& body);
outcome run_pipe_loss(test_case const& c, json const& body);
outcome run_pipe_microbatch(test_case const& c, json const& body);
outcome run_pipe_traced_loss(test_case const& c, json const& body);
outcome run_pipe_weight_cut(test_case const& c, json const& body);
outcome run_pipe_parity(test_case const& c, json const& body);
outcome run_pipe_tools(test_case const& c, json const& body);

namespace {

/// Runners by file; null where it is not built yet.
constexpr std::array<std::pair<std::string_view, area_runner>, 8> runners{{
    {"/split.json", run_pipe_split},
    {"/split_random.json", run_pipe_split},
    {"/loss.json", run_pipe_loss},
    {"/traced_loss.json", run_pipe_traced_loss},
    {"/microbatch.json", run_pipe_microbatch},
    {"/weight_cut.json", run_pipe_weight_cut},
    {"/parity.json", run_pipe_parity},
    {"/tools.json", run_pipe_tools},
}};

}  // namespace

outcome run_pipe(test_case const& c, json const& body) {
  for (auto const& [file, runner] : runners)
    if (runner && c.file.ends_with(file)) return runner(c, body);
  return {{}, c.file};
}

}  // namespace cleave::conformance
