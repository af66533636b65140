// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::detail {

/// A module that is to be cut after, and that no node lies in. The witness: its path.
class module_path_error : public witness_error<std::string> {
 public:
  using witness_error::witness_error;
};

}  // namespace cleave::detail

namespace cleave {

/// Cuts a flat list of nodes after modules: a part ends with the last node that lies in a module of `cuts`, a
/// path of names joined by dots, at any depth; what comes after the last of them is one more part. Where a
/// graph has its modules as bodies, `split_hierarchy` cuts inside them. O(V depth + cuts).
/// \throws module_path_error where no node lies in a module, with the nearest paths.
template <hierarchical_graph Graph>
partition assign_after_modules(Graph const& g, std::vector<std::string> const& cuts) {
  numbering<std::string, std::uint32_t> modules;
  std::vector<std::size_t> last;  // of a module: the last node that lies in it
  std::size_t nodes = 0;
  for (auto n : g.nodes()) {
    std::string_view const path = g.path(n);
    for (auto end = path.find('.'); !path.empty(); end = path.find('.', end + 1)) {
      if (auto const m = modules.insert(std::string(path.substr(0, end))); m == last.size())
        last.push_back(nodes);
      else
        last[m] = nodes;
      if (end == path.npos) break;
    }
    ++nodes;
  }
  std::vector<char> ends(nodes);
  for (auto const& cut : cuts) {
    auto const m = modules.find(cut);
    if (m == none<std::uint32_t>)
      throw detail::module_path_error(
          "no node lies in module " + quoted(cut) + suggestion(nearest_names(cut, modules.handles())), cut);
    ends[last[m]] = 1;
  }
  partition p{{}, nodes == 0 ? 0u : 1u};
  for (std::size_t n = 0; n < nodes; ++n) {
    p.of.push_back(part_id{p.parts - 1});
    if (ends[n] && n + 1 < nodes) ++p.parts;
  }
  return p;
}

}  // namespace cleave
