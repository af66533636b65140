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

constexpr std::array<std::pair<std::string_view, area_runner>, 8> by_file{{
    {"/split.json", run_pipe_split},
    {"/split_random.json", run_pipe_split},
    {"/loss.json", run_pipe_loss},
    {"/traced_loss.json", run_pipe_traced_loss},
    {"/microbatch.json", run_pipe_microbatch},
    {"/weight_cut.json", run_pipe_weight_cut},
    {"/parity.json", run_pipe_parity},
    {"/tools.json", run_pipe_tools},
}};

/// Of other files: runners by category. What is not listed is a category of tools.
constexpr std::array<std::pair<std::string_view, area_runner>, 19> by_category{{
    {"markers", run_pipe_split},
    {"spec", run_pipe_split},
    {"policy", run_pipe_split},
    {"state", run_pipe_split},
    {"values", run_pipe_split},
    {"regions", run_pipe_split},
    {"random", run_pipe_split},
    {"find_loss", run_pipe_loss},
    {"backward", run_pipe_loss},
    {"kernel", run_pipe_loss},
    {"traced_loss", run_pipe_traced_loss},
    {"sizes", run_pipe_microbatch},
    {"split", run_pipe_microbatch},
    {"split_masked", run_pipe_microbatch},
    {"merge", run_pipe_microbatch},
    {"merge_masked", run_pipe_microbatch},
    {"cut", run_pipe_weight_cut},
    {"split_backward", run_pipe_weight_cut},
    {"parity", run_pipe_parity},
}};

}  // namespace

outcome run_pipe(test_case const& c, json const& body) {
  for (auto const& [file, runner] : by_file)
    if (c.file.ends_with(file)) return runner(c, body);
  for (auto const& [category, runner] : by_category)
    if (c.category == category) return runner(c, body);
  return run_pipe_tools(c, body);
}

}  // namespace cleave::conformance
