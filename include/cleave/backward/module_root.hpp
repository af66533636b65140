// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cleave/backward/stage_root.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/modules/liveness.hpp"

namespace cleave::detail {

/// The first node of `g` that no stage_root has a place for, or nothing. Called modules are stages, and
/// `getitem(value, key)` reads an element, under a number, which counts from the end where it is negative, or
/// under a text. O(V).
inline std::optional<root_fault> find_root_fault(module_graph const& g) {
  using enum root_fault::kind;
  if (auto const n = find_work_between_stages(g))
    return root_fault{g[*n].target == "getitem" ? malformed_element : work_between_stages, *n};
  for (auto const n : g.nodes()) {
    if (g[n].kind == node_kind::call_module) continue;
    auto const& key = g[n].args[1].front();
    auto const* at = std::get_if<std::int64_t>(&key);
    if (!at && !std::holds_alternative<std::string>(key)) return root_fault{malformed_element, n};
    if (!at || *at < widest_tuple) continue;
    auto const shown = std::min<std::int64_t>(*at, none<std::uint32_t>);
    return root_fault{wide_element, n, static_cast<std::uint32_t>(shown)};
  }
  return std::nullopt;
}

/// Whether an element has the number that it is read under: neither a text nor a place from the end.
inline bool is_place_from_the_start(token const& key) {
  auto const* at = std::get_if<std::int64_t>(&key);
  return at && *at >= 0;
}

/// Gives each element of a root a number; `stage_root_of` is its one use. Those that have none are numbered
/// behind those of the same value that have one, in the order in which they are first read, each key once.
/// How many elements a value has is not known here, so an element that is read from both ends has two
/// numbers.
class element_numbers {
 public:
  explicit element_numbers(module_graph const& g) : of_(g.list().size()), key_(g.list().size(), no) {
    for (module_graph::position n = 0; n < g.list().size(); ++n) number(g, n);
    for (module_graph::position n = 0; n < g.list().size(); ++n)
      if (key_[n] != no) of_[n] = width_[whole_[key_[n]]] + of_[n];
  }

  std::uint32_t operator[](module_graph::position n) const { return of_[n]; }

 private:
  static constexpr auto no = none<std::uint32_t>;

  void number(module_graph const& g, module_graph::position n) {
    auto const& node = g[n];
    if (node.kind != node_kind::call_function) {
      place_.push_back(add_place());
      return;
    }
    auto const whole = place_[g.operands(n).front()];
    auto const& key = node.args[1].front();
    auto const* text = std::get_if<std::string>(&key);
    auto const at = known_.insert(std::to_string(whole) +
                                  (text ? "'" + *text : "." + std::to_string(std::get<std::int64_t>(key))));
    if (at == element_.size()) {
      element_.push_back(add_place());
      whole_.push_back(whole);
      rank_.push_back(is_place_from_the_start(key) ? no : others_[whole]++);
    }
    place_.push_back(element_[at]);
    if (rank_[at] == no) {
      of_[n] = static_cast<std::uint32_t>(std::get<std::int64_t>(key));
      width_[whole] = (std::max)(width_[whole], of_[n] + 1);
    } else {
      of_[n] = rank_[at];
      key_[n] = at;
    }
  }

  std::uint32_t add_place() {
    width_.push_back(0);
    others_.push_back(0);
    return static_cast<std::uint32_t>(width_.size() - 1);
  }

  std::vector<std::uint32_t> of_;                // of a node: the number
  std::vector<std::uint32_t> key_;               // of a node: which key it reads, where that is no number
  std::vector<std::uint32_t> place_;             // of a node: its place
  std::vector<std::uint32_t> width_, others_;    // of a place: one past its largest number; how many others
  numbering<std::string, std::uint32_t> known_;  // a place and a key in it, in step with …
  std::vector<std::uint32_t> element_, whole_;   // … the place under the key, and that which it is in,
  std::vector<std::uint32_t> rank_;              // and its turn among those without a number, or none
};

}  // namespace cleave::detail

namespace cleave {

/// `g` as a root: its nodes are the values. Expected O(V + E).
/// \throws backward_error
inline stage_root stage_root_of(module_graph const& g) {
  if (auto const f = detail::find_root_fault(g))
    throw detail::backward_error(detail::root_fault_text(*f, [&](auto n) { return "node " + quoted(g[n].name); }), *f);
  detail::element_numbers const number(g);
  stage_root root;
  for (module_graph::position n = 0; n < g.list().size(); ++n) {
    auto const& node = g[n];
    if (node.kind == node_kind::placeholder)
      root.add(root_kind::input);
    else if (node.kind == node_kind::call_module)
      root.add(root_kind::stage, g.operands(n));
    else if (node.kind == node_kind::call_function)
      root.add(root_kind::element, g.operands(n), number[n]);
    else
      root.add(root_kind::other);
  }
  return root;
}

}  // namespace cleave
