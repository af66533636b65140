// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/backward/stage_root.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::detail {

/// The distinct values of a root: wherever an element is taken out again, it is the same place. Places form
/// a tree for each stage and input, each place after the one it is an element of.
struct place_tree {
  static constexpr auto no = none<std::uint32_t>;

  std::vector<std::uint32_t> of;           ///< of a value: its place
  std::vector<std::uint32_t> first;        ///< of a place: the first value that is it
  std::vector<std::uint32_t> above, base;  ///< what it is an element of, or none; the stage or input it is in
  csr<std::uint32_t> elements;             ///< the places in it, by their numbers

  explicit place_tree(stage_root const& root) : of(root.values()) {
    numbering<std::uint64_t, std::uint32_t> known;
    std::vector<std::uint32_t> at;  // of what is known: its place
    known.reserve(root.values());
    for (std::uint32_t v = 0; v < root.values(); ++v) {
      if (root.kind[v] != root_kind::element) {
        of[v] = add(v, no, v);
        continue;
      }
      auto const whole = of[root.reads[v].front()];
      auto const key = known.insert(std::uint64_t{whole} << 32 | root.element[v]);
      if (key == at.size()) at.push_back(add(v, whole, base[whole]));
      of[v] = at[key];
    }
    list_elements(root);
  }

 private:
  std::uint32_t add(std::uint32_t v, std::uint32_t whole, std::uint32_t root_value) {
    first.push_back(v);
    above.push_back(whole);
    base.push_back(root_value);
    return static_cast<std::uint32_t>(first.size() - 1);
  }

  void list_elements(stage_root const& root) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t p = 0; p < first.size(); ++p)
      if (above[p] != no) order.push_back(p);
    std::ranges::sort(
        order, {}, [&](std::uint32_t p) { return std::uint64_t{above[p]} << 32 | root.element[first[p]]; });
    auto next = order.begin();
    for (std::uint32_t p = 0; p < first.size(); ++p) {
      for (; next != order.end() && above[*next] == p; ++next) elements.add(*next);
      elements.close();
    }
  }
};

/// Whether elements are taken out of `loss`, under whatever name. Total.
inline std::optional<root_fault> find_tuple_loss(stage_root const& root, place_tree const& places,
                                                 std::uint32_t loss) {
  if (root.kind[loss] == root_kind::other) return std::nullopt;
  auto const elements = places.elements[places.of[loss]];
  if (elements.empty()) return std::nullopt;
  return root_fault{root_fault::kind::loss_is_tuple, loss, places.first[elements.front()]};
}

}  // namespace cleave::detail
