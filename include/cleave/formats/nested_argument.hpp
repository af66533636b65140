// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/run/batch/nested.hpp"

/// Conversion between arguments of a module_graph and nested values of a run. An example is the structure
/// that a graph returns, filled with the values of one microbatch.
namespace cleave::inline v0_2 {

/// The reason why an argument cannot be a nested value.
struct nested_argument_fault {
  static constexpr char subject[] = "nested argument: ";
  enum class kind : std::uint8_t {
    slice,         ///< token `at` is a slice, which selects elements and holds no values
    key_not_text,  ///< token `at` is a key of a dict, but not text
  };
  kind what;
  std::size_t at;

  bool operator==(nested_argument_fault const&) const = default;
};

/// The message for a fault, in one sentence with the remedy.
inline std::string describe(nested_argument_fault const& f) {
  auto const at = "token #" + std::to_string(f.at);
  return f.what == nested_argument_fault::kind::slice
             ? at + " is a slice; give its bounds as a tuple"
             : at + " is a key of a dict, but not text; use text keys, or a list";
}

/// Thrown for an argument that is not a nested value; the witness is the token.
using nested_argument_error = fault_error<nested_argument_fault>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Calls `open(container)`, `leaf(token)` and `close()` of `visit` in prefix order. Each call also gets the
/// key in the enclosing dict, or an empty text. Stops at the first fault and returns it. O(tokens), without
/// recursion.
template <class Visit>
std::optional<nested_argument_fault> visit_argument(module_argument const& a, Visit& visit) {
  using enum nested_argument_fault::kind;
  struct frame {
    std::size_t left;
    bool named;
  };
  std::vector<frame> open;
  for (std::size_t at = 0; at < a.size(); ++at) {
    std::string key;
    if (!open.empty() && open.back().named) {
      auto const* name = std::get_if<std::string>(&a[at]);
      if (!name) return nested_argument_fault{key_not_text, at};
      key = *name;
      ++at;
    }
    if (!open.empty()) --open.back().left;
    if (auto const* c = std::get_if<container>(&a[at])) {
      if (c->what == container::kind::slice) return nested_argument_fault{slice, at};
      visit.open(*c, std::move(key));
      open.push_back({c->size, c->what == container::kind::dict});
    } else {
      visit.leaf(a[at], std::move(key));
    }
    while (!open.empty() && open.back().left == 0) {
      visit.close();
      open.pop_back();
    }
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the reason why `a` cannot be a nested value, or nothing. Precondition: complete(a).
inline std::optional<nested_argument_fault> find_nested_argument_fault(module_argument const& a) {
  struct {
    void open(container const&, std::string const&) {}
    void leaf(token const&, std::string const&) {}
    void close() {}
  } nothing;
  return detail::visit_argument(a, nothing);
}

/// Converts `a` to a nested value with `leaf_of(token)` in place of each constant and node. Precondition:
/// complete(a).
/// \throws nested_argument_error if `find_nested_argument_fault` finds a fault
template <class LeafOf, class Leaf = std::invoke_result_t<LeafOf&, token const&>>
nested<Leaf> nested_of(module_argument const& a, LeafOf leaf_of) {
  struct {
    LeafOf& leaf_of;
    detail::nested_builder<Leaf> made = {};

    void open(container const& c, std::string key) {
      made.open(c.what == container::kind::list    ? nesting::list
                : c.what == container::kind::tuple ? nesting::tuple
                                                   : nesting::dict,
                std::move(key));
    }
    void leaf(token const& t, std::string key) { made.leaf(leaf_of(t), std::move(key)); }
    void close() { made.close(); }
  } builder{leaf_of};
  if (auto const fault = detail::visit_argument(a, builder)) throw nested_argument_error(*fault);
  return std::move(builder.made).take();
}

/// Converts `x` to an argument with `token_of(leaf)` in place of each leaf. Precondition: each container has
/// fewer than 2^32 elements.
template <class Leaf, std::invocable<Leaf const&> TokenOf>
module_argument argument_of(nested<Leaf> const& x, TokenOf token_of) {
  module_argument made;
  struct frame {
    std::size_t left;
    bool named;
  };
  std::vector<frame> open;
  std::size_t leaf = 0;
  for (auto const& e : x.shape()) {
    while (!open.empty() && open.back().left == 0) open.pop_back();
    if (!open.empty()) {
      --open.back().left;
      if (open.back().named) made.push_back(e.key);
    }
    if (e.what == nesting::leaf) {
      made.push_back(token_of(x.leaves()[leaf++]));
      continue;
    }
    expects(e.size <= 0xffffffff, "argument_of: a container must have fewer than 2^32 elements");
    auto const what = e.what == nesting::list    ? container::kind::list
                      : e.what == nesting::tuple ? container::kind::tuple
                                                 : container::kind::dict;
    made.push_back(container{what, static_cast<std::uint32_t>(e.size)});
    open.push_back({e.size, e.what == nesting::dict});
  }
  return made;
}

}  // namespace cleave
