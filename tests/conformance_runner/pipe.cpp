// SPDX-License-Identifier: MIT
#include <array>
#include <utility>

#include "conformance_runner/fields.hpp"
#include "conformance_runner/outcome.hpp"

/// Selects the runner of a Pipe case by its fields.
namespace cleave::conformance {

using namespace detail;

outcome run_pipe_split(test_case const& c, json const& body);
outcome run_pipe_loss(test_case const& c, json const& body);
outcome run_pipe_kernel(test_case const& c, json const& body);
outcome run_pipe_microbatch(test_case const& c, json const& body);
outcome run_pipe_traced_loss(test_case const& c, json const& body);
outcome run_pipe_weight_cut(test_case const& c, json const& body);
outcome run_pipe_parity(test_case const& c, json const& body);
outcome run_pipe_serialise(test_case const& c, json const& body);
outcome run_tools_bind(test_case const& c, json const& body);
outcome run_tools_detach(test_case const& c, json const& body);
outcome run_tools_device(test_case const& c, json const& body);
outcome run_tools_info(test_case const& c, json const& body);
outcome run_tools_number(test_case const& c, json const& body);
outcome run_tools_traced_stage(test_case const& c, json const& body);

namespace {

bool is_kernel(fields const& c) { return c.in("stage_output") || c.in("left", "right"); }

bool is_traced_loss(fields const& c) { return c.in("spec", "values"); }

bool is_loss(fields const& c) {
  bool const alone = c.in("model") && c.input().size() == 1 && c.input()["model"].is_string();
  return c.in("graph", "loss") || c.in("output") || c.in("model", "targets") || (alone && c.has("error"));
}

bool is_microbatch(fields const& c) {
  return c.in("args", "chunks") || c.in("spec", "chunks") || c.in("rows", "columns");
}

bool is_weight_cut(fields const& c) { return c.in("next") || c.in("program", "params"); }

bool is_parity(fields const& c) { return c.in("program", "schedule"); }

bool is_detach(fields const& c) { return c.in("root"); }

bool is_device(fields const& c) { return c.in("device"); }

bool is_number(fields const& c) { return c.in("calls"); }

bool is_traced_stage(fields const& c) { return c.in("model", "ranks"); }

bool is_bind(fields const& c) {
  bool const root_alone = c.input().empty() && c.has("error");
  return root_alone || c.in("positional") || (c.in("model") && c.input()["model"].is_array());
}

bool is_info(fields const& c) { return c.input().empty() && c.expects("num_stages"); }

bool is_serialise(fields const& c) { return c.in("model") && c.has("expect") && c["expect"].is_array(); }

bool is_split(fields const& c) { return c.in("state") || c.in("modules"); }

/// The first match counts.
constexpr std::array<std::pair<bool (*)(fields const&), area_runner>, 14> runners{{
    {is_kernel, run_pipe_kernel},
    {is_traced_loss, run_pipe_traced_loss},
    {is_loss, run_pipe_loss},
    {is_microbatch, run_pipe_microbatch},
    {is_weight_cut, run_pipe_weight_cut},
    {is_parity, run_pipe_parity},
    {is_detach, run_tools_detach},
    {is_device, run_tools_device},
    {is_number, run_tools_number},
    {is_traced_stage, run_tools_traced_stage},
    {is_bind, run_tools_bind},
    {is_info, run_tools_info},
    {is_serialise, run_pipe_serialise},
    {is_split, run_pipe_split},
}};

}  // namespace

outcome run_pipe(test_case const& c, json const& body) {
  fields const content(c.body);
  for (auto const& [fits, runner] : runners)
    if (fits(content)) return runner(c, body);
  throw unjudged_error("no runner for " + content.text());
}

}  // namespace cleave::conformance
