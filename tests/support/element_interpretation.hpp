// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "support/integer_interpretation.hpp"

namespace cleave::testing {

using namespace detail;

/// The integer interpretation with Python's element access to lists, tuples and dicts: by position, negative
/// ones from the end, or by key. `get(key, default)` works too. It records calls in execution order.
class element_interpretation : public integer_interpretation {
 public:
  value call(module_graph const& g, module_graph::position n, std::span<value const> args,
             std::span<value const> kwargs) {
    module_node const& node = g[n];
    bool const reads = node.kind == node_kind::call_function && node.target == "getitem";
    bool const gets = node.kind == node_kind::call_method && node.target == "get";
    if ((reads || gets) && args.size() >= 2 && args[0].items) {
      if (auto const* element = find_element(args[0], args[1])) return *element;
      if (gets) return args.size() > 2 ? args[2] : constant(token());
    }
    auto made = integer_interpretation::call(g, n, args, kwargs);
    if (!reads && !gets) work_.push_back(made.digest);
    return made;
  }

  std::vector<std::uint64_t> const& work() const { return work_; }

 private:
  static value const* find_element(value const& whole, value const& key) {
    auto const& items = *whole.items;
    if (whole.shape.what == container::kind::dict) {
      for (std::size_t i = 0; i + 1 < items.size(); i += 2)
        if (items[i] == key) return &items[i + 1];
      return nullptr;
    }
    auto const* number = std::get_if<std::int64_t>(&key.text);
    if (!number) return nullptr;
    auto const at = *number < 0 ? *number + static_cast<std::int64_t>(items.size()) : *number;
    return at >= 0 && at < static_cast<std::int64_t>(items.size()) ? &items[static_cast<std::size_t>(at)]
                                                                   : nullptr;
  }

  std::vector<std::uint64_t> work_;
};

/// Returns a value in the form in which it is sent, and appends its tensors to `tensors`.
inline module_argument sent_value(integer_value const& v, std::vector<integer_value>& tensors) {
  if (v.what == integer_value::kind::constant) return {v.text};
  if (v.what == integer_value::kind::computed) {
    tensors.push_back(v);
    return {node_ref{static_cast<std::uint32_t>(tensors.size() - 1)}};
  }
  module_argument a{v.shape};
  for (auto const& i : *v.items) {
    auto const inside = sent_value(i, tensors);
    a.insert(a.end(), inside.begin(), inside.end());
  }
  return a;
}

/// Converts the subtree of `a` at `at` back to a value and advances `at` past it.
inline integer_value received_value(module_argument const& a, std::size_t& at,
                                    std::vector<integer_value> const& tensors) {
  integer_interpretation const meaning;
  token const& t = a[at++];
  if (auto const* tensor = std::get_if<node_ref>(&t)) return tensors[tensor->node];
  auto const* c = std::get_if<container>(&t);
  if (!c) return meaning.constant(t);
  std::vector<integer_value> items;
  for (std::size_t i = 0; i < elements_of(*c); ++i) items.push_back(received_value(a, at, tensors));
  return meaning.collect(*c, items);
}

}  // namespace cleave::testing
