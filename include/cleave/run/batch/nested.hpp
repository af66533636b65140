// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2::detail {

template <class Leaf>
class nested_builder;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

enum class nesting : std::uint8_t { leaf, list, tuple, dict };

/// One leaf or container of a nested value.
struct nested_entry {
  nesting what = nesting::leaf;
  std::size_t size = 0;  ///< number of elements of a container
  std::string key = {};  ///< key of an element of a dict

  bool operator==(nested_entry const&) const = default;
};

/// The structure of a nested value without its leaves: entries in prefix order, each container before its
/// elements.
using nested_shape = std::vector<nested_entry>;

/// Values in arbitrarily nested lists, tuples and dicts, like a pytree. The structure and the leaves are
/// stored in two flat lists, so any nesting depth works.
template <class Leaf>
class nested {
 public:
  /// A single leaf is a nested value, as is any value convertible to one.
  template <class X>
    requires(std::convertible_to<X, Leaf> && !std::same_as<std::remove_cvref_t<X>, nested>)
  nested(X&& x) : shape_(1) {  // NOLINT(google-explicit-constructor)
    leaves_.emplace_back(std::forward<X>(x));
  }

  static nested list(std::vector<nested> elements) { return {nesting::list, std::move(elements)}; }
  static nested tuple(std::vector<nested> elements) { return {nesting::tuple, std::move(elements)}; }
  /// Makes a dict that keeps the given order. Duplicate keys are not checked here; functions that match by
  /// key report them.
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

  /// Returns the same structure with other leaves. Precondition: `leaves` has as many.
  template <class To>
  nested<To> map_leaves(std::vector<To> leaves) const {
    expects(leaves.size() == leaves_.size(), "nested: the same number of leaves");
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

namespace cleave::inline v0_2::detail {

/// Builds a nested value in prefix order, O(1) per step, for parsers. Elements of a dict pass their key.
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

namespace cleave::inline v0_2 {

/// Returns the path of an entry, such as `arguments[1]['mask'][0]`, where `root` is the name of the whole.
/// Long paths are shortened in the middle. O(entry). Precondition: entry < shape.size().
inline std::string place_text(nested_shape const& shape, std::size_t entry, std::string_view root) {
  struct frame {
    std::size_t at, next;  // number of elements begun
  };
  // containers around the current entry
  std::vector<frame> around;
  for (std::size_t i = 0; i < entry; ++i) {
    if (shape[i].what != nesting::leaf) around.push_back({i, 0});
    while (around.back().next == shape[around.back().at].size) around.pop_back();
    ++around.back().next;
  }
  constexpr std::size_t shown = 8;  // steps shown at each end
  std::string text(root);
  for (std::size_t d = 0; d < around.size(); ++d) {
    if (d == shown && around.size() > 2 * shown) {
      text += "[…]";
      d = around.size() - shown;
    }
    auto const& [at, next] = around[d];
    bool const named = shape[at].what == nesting::dict;
    // This step leads to the next inner container, or at the end to the entry itself.
    auto const& step = shape[d + 1 < around.size() ? around[d + 1].at : entry];
    text += "[" + (named ? quoted(step.key) : std::to_string(next - 1)) + "]";
  }
  return text;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the place of leaf number `leaf` as text, like `place_text`. O(entries). Precondition: the leaf
/// exists.
inline std::string leaf_place_text(nested_shape const& shape, std::size_t leaf, std::string_view root) {
  std::size_t entry = 0;
  for (std::size_t before = 0;; ++entry)
    if (shape[entry].what == nesting::leaf && before++ == leaf) break;
  return place_text(shape, entry, root);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The first difference in structure between two nested values.
struct nested_mismatch {
  enum class kind : std::uint8_t {
    other_nesting,  ///< `where` has another kind or size in the second value
    missing_there,  ///< the key of `where` exists in the first value only
    missing_here,   ///< the key of `where` exists in the second value only
    key_twice,      ///< the key of `where` occurs twice in a dict of either value
  };
  kind what;
  std::string where;
  nested_entry here = {}, there = {};     ///< the two entries, for other_nesting
  std::vector<std::string> nearest = {};  ///< similar keys of the other value, for a missing key

  bool operator==(nested_mismatch const&) const = default;
};

/// Describes an entry: `a tuple of 2`.
inline std::string describe(nested_entry const& e) {
  static constexpr char const* names[] = {"a single value", "a list of ", "a tuple of ", "a dict of "};
  auto const name = names[static_cast<std::size_t>(e.what)];
  return e.what == nesting::leaf ? name : name + std::to_string(e.size);
}

/// Describes a difference. `here` and `there` are the names of the two values.
inline std::string describe(nested_mismatch const& m, std::string_view here, std::string_view there) {
  auto const in = [](std::string_view side) { return " in " + std::string(side); };
  switch (m.what) {
    case nested_mismatch::kind::other_nesting:
      return m.where + " is " + describe(m.here) + in(here) + ", but " + describe(m.there) + in(there);
    case nested_mismatch::kind::missing_there:
      return m.where + " is" + in(here) + ", but not" + in(there) + suggestion(m.nearest);
    case nested_mismatch::kind::missing_here:
      return m.where + " is" + in(there) + ", but not" + in(here) + suggestion(m.nearest);
    case nested_mismatch::kind::key_twice:
      return m.where + " occurs twice in its dict; keys must be unique";
  }
  return {};
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns for each entry the position after its subtree. O(entries).
inline std::vector<std::size_t> subtree_ends(nested_shape const& shape) {
  std::vector<std::size_t> ends(shape.size()),
      later;  // starts of the subtrees after the entry, nearest last
  for (std::size_t i = shape.size(); i-- > 0;) {
    for (std::size_t n = 0; n < shape[i].size; ++n) later.pop_back();
    ends[i] = later.empty() ? shape.size() : later.back();
    later.push_back(i);
  }
  return ends;
}

/// Traverses two structures in parallel, for `align_nested`.
class nested_aligner {
 public:
  nested_aligner(nested_shape const& here, nested_shape const& there, std::string_view root)
      : here_(here),
        there_(there),
        root_(root),
        here_ends_(subtree_ends(here)),
        there_ends_(subtree_ends(there)) {}

  std::variant<std::vector<std::size_t>, nested_mismatch> run() {
    std::vector<std::size_t> leaf_before(there_.size());
    for (std::size_t i = 1; i < there_.size(); ++i)
      leaf_before[i] = leaf_before[i - 1] + (there_[i - 1].what == nesting::leaf ? 1 : 0);

    // The partner in `there` of each entry of `here`. Set for the elements when their container is visited.
    partner_.assign(here_.size(), 0);
    std::vector<std::size_t> leaves;
    for (std::size_t i = 0; i < here_.size(); ++i) {
      auto const &h = here_[i], &t = there_[partner_[i]];
      bool const by_key = h.what == nesting::dict;
      if (h.what != t.what || (h.size != t.size && !by_key))
        return nested_mismatch{nested_mismatch::kind::other_nesting, place_here(i), plain(h), plain(t)};
      if (h.what == nesting::leaf)
        leaves.push_back(leaf_before[partner_[i]]);
      else if (!by_key)
        pair_by_order(i);
      else if (auto fault = pair_by_key(i))
        return *std::move(fault);
    }
    return leaves;
  }

 private:
  using elements = std::vector<std::size_t>;

  static nested_entry plain(nested_entry const& e) { return {e.what, e.size}; }
  std::string place_here(std::size_t i) const { return place_text(here_, i, root_); }
  std::string place_there(std::size_t i) const { return place_text(there_, i, root_); }

  static elements elements_of(nested_shape const& shape, std::vector<std::size_t> const& ends,
                              std::size_t at) {
    elements found;
    for (std::size_t e = at + 1; found.size() < shape[at].size; e = ends[e]) found.push_back(e);
    return found;
  }

  struct key_in {
    explicit key_in(nested_shape const& s) : shape(&s) {}
    std::string const& operator()(std::size_t e) const { return (*shape)[e].key; }
    nested_shape const* shape;
  };

  void pair_by_order(std::size_t at) {
    for (std::size_t n = 0, h = at + 1, t = partner_[at] + 1; n < here_[at].size; ++n) {
      partner_[h] = t;
      h = here_ends_[h];
      t = there_ends_[t];
    }
  }

  std::optional<nested_mismatch> pair_by_key(std::size_t at) {
    using enum nested_mismatch::kind;
    auto ours = elements_of(here_, here_ends_, at), theirs = elements_of(there_, there_ends_, partner_[at]);
    auto const our_key = key_in(here_), their_key = key_in(there_);
    auto const then_place = [](key_in key) {
      return [key](std::size_t e) { return std::pair(std::string_view(key(e)), e); };
    };
    std::ranges::sort(ours, {}, then_place(our_key));
    std::ranges::sort(theirs, {}, then_place(their_key));
    if (auto const e = std::ranges::adjacent_find(ours, {}, our_key); e != ours.end())
      return nested_mismatch{key_twice, place_here(*e)};
    if (auto const e = std::ranges::adjacent_find(theirs, {}, their_key); e != theirs.end())
      return nested_mismatch{key_twice, place_there(*e)};

    if (!std::ranges::equal(ours, theirs, {}, our_key, their_key)) return lone_key(ours, theirs);
    for (std::size_t i = 0; i < ours.size(); ++i) partner_[ours[i]] = theirs[i];
    return std::nullopt;
  }

  /// Returns the first key, in written order, that one value lacks. Precondition: there is such a key, and
  /// both lists are sorted by key.
  nested_mismatch lone_key(elements const& ours, elements const& theirs) const {
    using enum nested_mismatch::kind;
    auto const our_key = key_in(here_), their_key = key_in(there_);
    auto const lacking = [](elements const& list, auto key, elements const& other, auto other_key) {
      std::optional<std::size_t> first;
      for (std::size_t const e : list)
        if (!std::ranges::binary_search(other, key(e), {}, other_key))
          first = (std::min)(e, first.value_or(e));
      return first;
    };
    auto const keys = [](elements const& list, auto key) {
      std::vector<std::string> all;
      for (std::size_t const e : list) all.push_back(key(e));
      return all;
    };
    if (auto const e = lacking(theirs, their_key, ours, our_key))
      return {missing_here, place_there(*e), {}, {}, nearest_names(their_key(*e), keys(ours, our_key))};
    auto const e = *lacking(ours, our_key, theirs, their_key);
    return {missing_there, place_here(e), {}, {}, nearest_names(our_key(e), keys(theirs, their_key))};
  }

  nested_shape const &here_, &there_;
  std::string_view root_;
  std::vector<std::size_t> here_ends_, there_ends_, partner_;
};

/// Returns for each leaf of `here` the number of its partner in `there`. Elements of lists and tuples match
/// by order, those of dicts by key. Returns the first difference if the structures do not match; `root` is
/// the name of the whole. O(entries), plus O(d log d) for each dict of d.
inline std::variant<std::vector<std::size_t>, nested_mismatch> align_nested(nested_shape const& here,
                                                                            nested_shape const& there,
                                                                            std::string_view root) {
  return nested_aligner(here, there, root).run();
}

}  // namespace cleave::detail
