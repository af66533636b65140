// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/csr.hpp"

/// The root of a pipe as flat arrays: the graph that calls the stages and does nothing else.
namespace cleave {

/// What a value of a root is: the caller's, what a stage gives, an element of another value; or one through
/// which no gradient goes, such as state and what the root returns.
enum class root_kind : std::uint8_t { input, stage, element, other };

/// Values are numbered in an order in which each comes after those it is made of.
struct stage_root {
  std::vector<root_kind> kind;         ///< of a value
  detail::csr<std::uint32_t> reads;            ///< of a stage: its arguments; of an element: the value it is of
  std::vector<std::uint32_t> element;  ///< of an element: which one, from 0

  std::size_t values() const { return kind.size(); }

  /// Appends a value.
  void add(root_kind k, std::vector<std::uint32_t> const& operands = {}, std::uint32_t which = 0) {
    kind.push_back(k);
    for (auto const v : operands) reads.add(v);
    reads.close();
    element.push_back(which);
  }
};

}  // namespace cleave

namespace cleave::detail {

/// No element beyond has a place: what is taken out of a tuple says how wide the tuple is.
inline constexpr std::uint32_t widest_tuple = 1 << 16;

/// Why there is no backward pass of a root.
struct root_fault {
  enum class kind : std::uint8_t {
    work_between_stages,  ///< `value` is neither a stage nor the reading of an element
    malformed_element,    ///< `value` is an element under a key that is neither a number nor a text, or of
                          ///< not one value
    wide_element,         ///< `value` is the `other`-th element: beyond the widest tuple
    unordered,            ///< `value` reads `other`, which does not come before it
    unknown_loss,         ///< there is no value `value`
    loss_is_tuple,        ///< `value` is the loss, and `other` an element of it
  };
  kind what;
  std::uint32_t value = none<std::uint32_t>, other = none<std::uint32_t>;

  bool operator==(root_fault const&) const = default;
};

/// One sentence; `name` gives the name of a value.
template <class Name>
std::string root_fault_text(root_fault const& f, Name name) {
  switch (f.what) {
    case root_fault::kind::work_between_stages:
      return "backward: " + name(f.value) +
             " is neither the call of a stage nor the reading of an element; move it into a stage";
    case root_fault::kind::malformed_element:
      return "backward: " + name(f.value) + " must read one value, under a constant number or text";
    case root_fault::kind::wide_element:
      return "backward: " + name(f.value) + " reads element " + std::to_string(f.other) +
             "; a stage gives at most " + std::to_string(widest_tuple);
    case root_fault::kind::unordered:
      return "backward: " + name(f.value) + " reads " + name(f.other) + ", which does not come before it";
    case root_fault::kind::unknown_loss:
      return "backward: the loss is value #" + std::to_string(f.value) + ", which the root lacks";
    case root_fault::kind::loss_is_tuple:
      return "backward: the loss " + name(f.value) + " is a tuple, of which " + name(f.other) +
             " is an element; one of the elements must be the loss";
  }
  return {};
}

/// A root that cannot be differentiated from its loss. The witness: what is wrong with it.
class backward_error : public witness_error<root_fault> {
 public:
  using witness_error::witness_error;
};

/// What is wrong with `root`, or with `loss` in it, or nothing. O(V + E).
inline std::optional<root_fault> find_root_fault(stage_root const& root, std::uint32_t loss) {
  using enum root_fault::kind;
  auto const values = narrow<std::uint32_t>(root.values());
  if (loss >= values) return root_fault{unknown_loss, loss};
  for (std::uint32_t v = 0; v < values; ++v) {
    bool const element = root.kind[v] == root_kind::element;
    for (auto const read : root.reads[v])
      if (read >= v) return root_fault{unordered, v, read};
    if (!element) continue;
    if (root.reads[v].size() != 1) return root_fault{malformed_element, v};
    if (root.element[v] >= widest_tuple) return root_fault{wide_element, v, root.element[v]};
  }
  return std::nullopt;
}

}  // namespace cleave::detail
