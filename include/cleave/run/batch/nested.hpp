// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::detail {

template <class Leaf>
class nested_builder;

}  // namespace cleave::detail

namespace cleave {

enum class nesting : std::uint8_t { leaf, list, tuple, dict };

/// One leaf or container of a nested value.
struct nested_entry {
  nesting what = nesting::leaf;
  std::size_t size = 0;  ///< of a container: how many elements it has
  std::string key = {};  ///< of an element of a dict

  bool operator==(nested_entry const&) const = default;
};

/// How a value nests, apart from its leaves: entries in prefix order, each container before its elements.
using nested_shape = std::vector<nested_entry>;

/// A value, or values in lists, tuples and dicts, nested as they may be. It is stored flat, the shape apart
/// from the leaves, which are in the order of their entries: no nesting is too deep.
template <class Leaf>
class nested {
 public:
  /// A leaf is the smallest nested value, and so is what converts to one.
  template <class X>
    requires(std::convertible_to<X, Leaf> && !std::same_as<std::remove_cvref_t<X>, nested>)
  nested(X&& x) : shape_(1) {  // NOLINT(google-explicit-constructor)
    leaves_.emplace_back(std::forward<X>(x));
  }

  static nested list(std::vector<nested> elements) { return {nesting::list, std::move(elements)}; }
  static nested tuple(std::vector<nested> elements) { return {nesting::tuple, std::move(elements)}; }
  /// In the order that is given; a key that is there twice is found by whoever reads it by name.
  static nested dict(std::vector<std::pair<std::string, nested>> elements) {
    nested made(nesting::dict, elements.size());
    for (auto& [key, x] : elements) {
      x.shape_.front().key = std::move(key);
      made.append(std::move(x));
    }
    return made;
  }

  nested_shape const& shape() const { return shape_; }
  std::vector<Leaf> const& leaves() const { return leaves_; }

  /// The same nesting of other leaves. Precondition: as many.
  template <class To>
  nested<To> with_leaves(std::vector<To> leaves) const {
    expects(leaves.size() == leaves_.size(), "nested: a leaf for each leaf");
    return nested<To>(shape_, std::move(leaves));
  }

  bool operator==(nested const&) const = default;

 private:
  template <class>
  friend class nested;
  template <class>
  friend class detail::nested_builder;

  nested(nested_shape shape, std::vector<Leaf> leaves)
      : shape_(std::move(shape)), leaves_(std::move(leaves)) {}
  nested(nesting what, std::size_t size) : shape_{{what, size}} {}
  nested(nesting what, std::vector<nested> elements) : nested(what, elements.size()) {
    for (auto& x : elements) {
      x.shape_.front().key.clear();
      append(std::move(x));
    }
  }
  void append(nested x) {
    std::ranges::move(x.shape_, std::back_inserter(shape_));
    std::ranges::move(x.leaves_, std::back_inserter(leaves_));
  }

  nested_shape shape_;
  std::vector<Leaf> leaves_;
};

}  // namespace cleave

namespace cleave::detail {

/// Builds a nested value in prefix order, each step in O(1): for a reader of some other form. In a dict each
/// step brings its key.
template <class Leaf>
class nested_builder {
 public:
  void open(nesting container, std::string key = {}) {
    expects(container != nesting::leaf, "nested_builder: open a list, a tuple or a dict");
    count();
    open_.push_back(shape_.size());
    shape_.push_back({container, 0, std::move(key)});
  }
  void leaf(Leaf x, std::string key = {}) {
    count();
    shape_.push_back({nesting::leaf, 0, std::move(key)});
    leaves_.push_back(std::move(x));
  }
  void close() {
    expects(!open_.empty(), "nested_builder: close only what is open");
    open_.pop_back();
  }
  nested<Leaf> take() && {
    expects(open_.empty() && !shape_.empty(), "nested_builder: one value, its containers closed");
    return {std::move(shape_), std::move(leaves_)};
  }

 private:
  void count() {
    expects(shape_.empty() || !open_.empty(), "nested_builder: one value, not several");
    if (!open_.empty()) ++shape_[open_.back()].size;
  }

  nested_shape shape_;
  std::vector<Leaf> leaves_;
  std::vector<std::size_t> open_;
};

}  // namespace cleave::detail

namespace cleave {

/// Where an entry is: `arguments[1]['mask'][0]`, where the whole is called `root`. Of a long way the two ends
/// are told. O(entry). Precondition: entry < shape.size().
inline std::string place_text(nested_shape const& shape, std::size_t entry, std::string_view root) {
  struct frame {
    std::size_t at, next;  // how many elements are begun
  };
  std::vector<frame> around;
  for (std::size_t i = 0; i < entry; ++i) {
    if (shape[i].what != nesting::leaf) around.push_back({i, 0});
    while (around.back().next == shape[around.back().at].size) around.pop_back();
    ++around.back().next;
  }
  constexpr std::size_t shown = 8;  // steps at each end
  std::string text(root);
  for (std::size_t d = 0; d < around.size(); ++d) {
    if (d == shown && around.size() > 2 * shown) {
      text += "[…]";
      d = around.size() - shown;
    }
    auto const& [at, next] = around[d];
    bool const named = shape[at].what == nesting::dict;
    // The element that the way goes through is the next container's, and last the entry's.
    auto const& step = shape[d + 1 < around.size() ? around[d + 1].at : entry];
    text += "[" + (named ? quoted(step.key) : std::to_string(next - 1)) + "]";
  }
  return text;
}

}  // namespace cleave

namespace cleave::detail {

/// The same for leaf number `leaf`. O(entries). Precondition: there is such a leaf.
inline std::string leaf_place_text(nested_shape const& shape, std::size_t leaf, std::string_view root) {
  std::size_t entry = 0;
  for (std::size_t before = 0;; ++entry)
    if (shape[entry].what == nesting::leaf && before++ == leaf) break;
  return place_text(shape, entry, root);
}

}  // namespace cleave::detail
