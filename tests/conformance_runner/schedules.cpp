// SPDX-License-Identifier: MIT
#include <array>
#include <string_view>
#include <utility>

#include "conformance_runner/outcome.hpp"

/// The recordings of schedules, one runner a file or a family of files.
namespace cleave::conformance {

outcome run_schedules_mutations(test_case const& c, json const& body);
outcome run_schedules_orders(test_case const& c, json const& body);
outcome run_schedules_csv(test_case const& c, json const& body);
outcome run_schedules_liveness(test_case const& c, json const& body);
outcome run_schedules_lower(test_case const& c, json const& body);
outcome run_schedules_p2p(test_case const& c, json const& body);
outcome run_schedules_passes(test_case const& c, json const& body);
outcome run_schedules_runtime_trace(test_case const& c, json const& body);
outcome run_schedules_simulate(test_case const& c, json const& body);
outcome run_schedules_text(test_case const& c, json const& body);
outcome run_schedules_timeline(test_case const& c, json const& body);
outcome run_schedules_validate(test_case const& c, json const& body);
outcome run_schedules_visual(test_case const& c, json const& body);

namespace {

/// Runners by how the name of a file begins, longer beginnings first; null where it is not built yet.
constexpr std::array<std::pair<std::string_view, area_runner>, 16> runners{{
    {"/orders_", run_schedules_orders},
    {"/lower_digest_", run_schedules_lower},
    {"/lower_options.", run_schedules_lower},
    {"/lower_", run_schedules_lower},
    {"/passes.", run_schedules_passes},
    {"/validate.", run_schedules_validate},
    {"/simulate.", run_schedules_simulate},
    {"/mutations.", run_schedules_mutations},
    {"/text.", run_schedules_text},
    {"/csv.", run_schedules_csv},
    {"/p2p.", run_schedules_p2p},
    {"/runtime_trace.", run_schedules_runtime_trace},
    {"/liveness.", run_schedules_liveness},
    {"/timeline_uneven.", run_schedules_timeline},
    {"/timeline.", run_schedules_timeline},
    {"/visual.", run_schedules_visual},
}};

}  // namespace

outcome run_schedules(test_case const& c, json const& body) {
  std::string_view const file = std::string_view(c.file).substr(c.file.rfind('/'));
  for (auto const& [beginning, runner] : runners)
    if (file.starts_with(beginning)) return runner ? runner(c, body) : outcome{{}, c.file};
  return {{}, c.file};
}

}  // namespace cleave::conformance
