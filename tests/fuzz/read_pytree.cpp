// SPDX-License-Identifier: MIT
// Fuzzes the text that describes nested values between stages. The text must be rejected, or describe values
// that are the same after they are flattened and restored.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/pipe/pytree.hpp"
#include "fuzz/unless_refused.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::unless_refused;

namespace {

/// Returns the leaves for which a text asks: its entries of the types tensor, other and none, in order.
std::vector<token> leaves_of(std::string const& text) {
  std::vector<token> leaves;
  for (std::size_t comma = text.find(','); comma != text.npos; comma = text.find(',', text.find('|', comma)))
    if (comma + 1 < text.size() && text[comma + 1] >= '0' && text[comma + 1] <= '2') {
      auto const n = static_cast<std::uint32_t>(leaves.size());
      if (text[comma + 1] == '0') leaves.emplace_back(node_ref{n});
      if (text[comma + 1] == '1') leaves.emplace_back(std::int64_t{n});
      if (text[comma + 1] == '2') leaves.emplace_back(std::monostate{});
    }
  return leaves;
}

/// Returns the elements of a tuple.
std::vector<module_argument> elements_in(module_argument const& tuple) {
  std::vector<module_argument> elements;
  for (std::size_t at = 1; at < tuple.size();) {
    auto const end = subtree_end(tuple, at);
    elements.emplace_back(tuple.begin() + static_cast<std::ptrdiff_t>(at),
                          tuple.begin() + static_cast<std::ptrdiff_t>(end));
    at = end;
  }
  return elements;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size > 4000) return -1;
  std::string const text(reinterpret_cast<char const*>(data), size);
  for (auto const form : {pytree_form::exact, pytree_form::tuples}) {
    pytree_message const message{leaves_of(text), text};
    auto const value = unless_refused([&] { return tree_unflatten(message, form); });
    expects(value.has_value() == !find_pytree_fault(message, form), "values or a fault");
    if (!value || value->size() > 10'000) continue;
    expects(complete(*value), "one value");
    auto const again = tree_flatten(elements_in(*value), pytree_form::exact);
    expects(tree_unflatten(again) == *value, "the values again");
    for (auto const& [name, item] : itemised(*value, "stage"))
      expects(!name.empty() && !item.empty(), "an item with a name");
  }
  return 0;
}
