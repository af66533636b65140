// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"

/// The calls of stages in the root of a pipe: the graph that calls them.
namespace cleave::detail {

/// A call of a stage, and the number that its path ends with.
struct numbered_stage {
  module_graph::position node;
  std::uint32_t number;

  bool operator==(numbered_stage const&) const = default;
};

/// A call whose path begins like a stage's and ends with no number. The witness: the node.
using stage_number_error = tagged_error<struct stage_number_tag, module_graph::position>;

/// The number at the end of a stage's path, where it is one.
inline std::optional<std::uint32_t> find_stage_number(std::string_view path, std::string_view prefix) {
  auto const digits = path.substr(prefix.size());
  std::uint32_t number = 0;
  auto const* const begin = digits.data();
  auto const* const end = begin + digits.size();
  auto const read = std::from_chars(begin, end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

/// The calls of stages in `root`, in order, a stage once for each call; other modules are none. O(V).
/// \throws stage_number_error
inline std::vector<numbered_stage> stage_calls_of(module_graph const& root,
                                                  std::string_view prefix = "stage_") {
  std::vector<numbered_stage> calls;
  for (auto const n : root.nodes()) {
    if (root[n].kind != node_kind::call_module || !root[n].target.starts_with(prefix)) continue;
    auto const number = find_stage_number(root[n].target, prefix);
    if (!number)
      throw stage_number_error("node " + quoted(root[n].name) + " calls " + quoted(root[n].target) +
                                   "; after " + quoted(std::string(prefix)) +
                                   " a stage has its number, not " +
                                   quoted(root[n].target.substr(prefix.size())),
                               n);
    calls.push_back({n, *number});
  }
  return calls;
}

/// A root whose stages are elsewhere cannot run. The witness: the call.
using detached_stage_error = tagged_error<struct detached_stage_tag, module_graph::position>;

/// `root` without the graphs of its stages, which others may then free.
inline module_graph detached_root(module_graph const& root, std::string_view prefix = "stage_") {
  module_graph detached;
  detached.reserve(root.list().size());
  for (auto const& n : root.list()) detached.add(n);
  for (auto const& a : root.attributes()) {
    bool const stage = a.what == module_attribute::kind::module && a.path.starts_with(prefix);
    module_attribute copy{a.path, a.what, a.storage, {}, a.original, a.metadata};
    if (!stage) copy.body = a.body;
    detached.add_attribute(std::move(copy));
  }
  detached.metadata = root.metadata;
  return detached;
}

/// The first call of a stage that has no graph.
inline std::optional<module_graph::position> find_detached_stage(module_graph const& root,
                                                                 std::string_view prefix = "stage_") {
  for (auto const& call : stage_calls_of(root, prefix)) {
    auto const* a = root.find_attribute(root[call.node].target);
    if (!a || a->body.empty()) return call.node;
  }
  return std::nullopt;
}

/// \throws detached_stage_error unless each stage that `root` calls has its graph.
inline void check_stages(module_graph const& root, std::string_view prefix = "stage_") {
  if (auto const n = find_detached_stage(root, prefix))
    throw detached_stage_error("the root of this pipe cannot run: stage " + quoted(root[*n].target) +
                                   " has no graph here; run the pipe that the root was taken from",
                               *n);
}

}  // namespace cleave::detail
