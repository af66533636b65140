// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/numbering.hpp"

namespace cleave::detail {

/// Dotted paths as a tree of their words, so that a path is followed word by word while the modules are
/// entered. A place of the tree is a number; the root is place 0.
class cut_tree {
 public:
  using place = std::uint32_t;
  static constexpr place nowhere = none<place>;

  /// Adds the path that is number `cut` of its list. Expected O(size).
  void add(std::string_view path, std::uint32_t cut) {
    place at = 0;
    each_word(path, [&](std::string_view word) {
      below_[at] = 1;
      at = edges_.insert(edge(at, word)) + 1;
      if (at == cut_.size()) {
        cut_.push_back(none<std::uint32_t>);
        below_.push_back(0);
      }
      return true;
    });
    if (cut_[at] == none<std::uint32_t>) cut_[at] = cut;
  }

  /// The place that `path` leads to from `at`, or nowhere. Expected O(size).
  place follow(place at, std::string_view path) const {
    each_word(path, [&](std::string_view word) {
      auto const known = edges_.find(edge(at, word));
      at = known == none<std::uint32_t> ? nowhere : known + 1;
      return at != nowhere;
    });
    return at;
  }

  /// The first path that ends at `at`, or none.
  std::uint32_t cut(place at) const { return cut_[at]; }
  /// Whether a path goes on below `at`.
  bool has_below(place at) const { return below_[at] != 0; }

 private:
  static std::string edge(place at, std::string_view word) {
    return std::to_string(at).append(1, ' ').append(word);
  }

  /// Calls `f` with each word of `path` until it says that it is enough.
  template <class F>
  static void each_word(std::string_view path, F f) {
    for (std::size_t at = 0;;) {
      std::size_t const dot = path.find('.', at);
      if (!f(path.substr(at, dot == path.npos ? dot : dot - at)) || dot == path.npos) return;
      at = dot + 1;
    }
  }

  numbering<std::string, std::uint32_t> edges_;  // edge i leads to place i + 1
  std::vector<std::uint32_t> cut_{none<std::uint32_t>};
  std::vector<char> below_{0};
};

}  // namespace cleave::detail
