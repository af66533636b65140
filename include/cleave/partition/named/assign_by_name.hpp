// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/named/assign.hpp"

namespace cleave {

/// A node, by its name or by `#` and its position in `nodes()`, and what its part is called.
struct named_part {
  std::string node, part;
};

/// An entry that cannot be followed, or a node without one. The witness: the entry, or the number of entries.
class assignment_error : public witness_error<std::size_t> {
 public:
  using witness_error::witness_error;
};

/// Puts each node of `g` into the part that the one entry for it names; parts are numbered by their first
/// node. A name that several nodes have names none of them. Expected O(V + entries), more where one is
/// refused.
/// \throws assignment_error: an unknown node (with the nearest names), a name of several nodes, a node twice,
/// a node without an entry, a negative part.
template <named_graph Graph>
labelled_partition<std::string> assign_by_name(Graph const& g, std::vector<named_part> const& entries) {
  constexpr auto none_yet = static_cast<std::size_t>(-1);
  std::vector<std::string> names;
  for (auto n : g.nodes()) names.emplace_back(g.name(n));
  numbering<std::string, std::uint32_t> known;
  std::vector<std::size_t> first, count;  // of a known name: the node that has it first, and how many do
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (known.insert(names[n]) == first.size()) first.push_back(n), count.push_back(0);
    ++count[known.find(names[n])];
  }
  auto const refuse = [&](std::size_t entry, std::string const& why) {
    throw assignment_error("assignment: entry #" + std::to_string(entry) + " " + why, entry);
  };
  auto const position = [&](std::size_t entry) -> std::size_t {
    auto const& typed = entries[entry].node;
    if (auto const at = known.find(typed); at != none<std::uint32_t> && !typed.empty()) {
      if (count[at] > 1)
        refuse(entry, "names " + quoted(typed) + ", as " + std::to_string(count[at]) +
                          " nodes are called; write # and a position instead");
      return first[at];
    }
    std::size_t n = 0;
    bool digits = typed.size() > 1 && typed.size() < 12 && typed[0] == '#';
    for (std::size_t i = 1; i < typed.size() && digits; ++i) {
      digits = typed[i] >= '0' && typed[i] <= '9';
      n = 10 * n + static_cast<std::size_t>(typed[i] - '0');
    }
    if (digits && n < names.size()) return n;
    refuse(entry, "names " + quoted(typed) + ", which is no node" +
                      (digits ? "; there are " + std::to_string(names.size())
                              : suggestion(nearest_names(typed, names))));
    return 0;
  };

  std::vector<std::size_t> entry_of(names.size(), none_yet);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto const n = position(i);
    if (entry_of[n] != none_yet)
      refuse(i, "names " + quoted(entries[i].node) + " again; entry #" + std::to_string(entry_of[n]) +
                    " has said where it belongs");
    auto const& part = entries[i].part;
    if (part.empty() || (part[0] == '-' && part.size() > 1 && part[1] >= '0' && part[1] <= '9'))
      refuse(i, "puts " + quoted(entries[i].node) + " into part " + quoted(part) +
                    "; a part is a word, or a number from 0 on");
    entry_of[n] = i;
  }
  std::size_t n = 0;
  for (auto const node : g.nodes()) {
    if (entry_of[n] == none_yet)
      throw assignment_error("assignment: no entry says where node " + label(g, node, n) + " belongs",
                             entries.size());
    ++n;
  }
  n = 0;
  return assign(g, [&](auto const&) { return entries[entry_of[n++]].part; });
}
}  // namespace cleave
