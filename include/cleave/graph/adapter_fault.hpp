// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/detail/captures.hpp"
#include "cleave/graph/memory.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/unlisted_values.hpp"

namespace cleave::inline v0_2 {

/// A promise of an adapter that no concept can express.
enum class adapter_violation : std::uint8_t {
  node_twice,             ///< `nodes()` lists a node twice
  after_its_user,         ///< a node is listed after a user of its result
  two_producers,          ///< a node produces a value that is already produced, by another node or by itself
  makes_argument,         ///< a node produces a value that `inputs()`, `state()` or `constants()` lists
  follows_a_later,        ///< `after(n)` names a node that is listed later, or never
  unknown_together_node,  ///< `together(n)` names a node that is never listed
  input_twice,            ///< `inputs()`, `state()` or `constants()` lists a value twice
  input_and_state,        ///< a value is in two of `inputs()`, `state()` and `constants()`
  unknown_carried_value,  ///< `carried(v)` names a value that no node produces and no list names
  not_a_size,             ///< `bytes(v)` is negative or not a number, for a value that a node reads or makes
  unlisted_operand,  ///< a node reads a value that no node produces and no list names, though `constants()`
                     ///< exists
  unmade_output,     ///< `outputs()` lists a value that no node produces or reads and no other list names
};

/// A broken promise and its place. `at` is a position in `nodes()`. For `input_twice` and `input_and_state`
/// it is a position in `inputs()` followed by `state()` and `constants()`. For `unknown_carried_value` it is
/// a position in `inputs()`, for `unmade_output` in `outputs()`.
struct adapter_fault {
  adapter_violation what;
  std::size_t at;
  std::size_t operand = 0;  ///< for `unlisted_operand`: the number of the operand, as in `unlisted_value`

  bool operator==(adapter_fault const&) const = default;
};

/// Returns the sentence that follows the label of the place in a message.
constexpr char const* describe(adapter_violation what) {
  switch (what) {
    case adapter_violation::node_twice:
      return "is listed twice";
    case adapter_violation::after_its_user:
      return "is listed after a user of its result; list the nodes in topological_order(g), each after all "
             "nodes that it needs";
    case adapter_violation::two_producers:
      return "produces a value that is produced already; give each definition a value of its own, or list "
             "memory whose old contents count in overwrites(n)";
    case adapter_violation::makes_argument:
      return "produces a value that inputs(), state() or constants() lists";
    case adapter_violation::follows_a_later:
      return "must follow, by after(n), a node that is not listed before it; list both nodes, in "
             "topological_order(g)";
    case adapter_violation::unknown_together_node:
      return "must share its part, by together(n), with a node that is not listed";
    case adapter_violation::input_twice:
      return "is listed twice in inputs(), state() and constants()";
    case adapter_violation::input_and_state:
      return "is in two of inputs(), state() and constants()";
    case adapter_violation::unknown_carried_value:
      return "gets its value in the next run, by carried(v), from one that no node produces or reads; name a "
             "value of the graph";
    case adapter_violation::not_a_size:
      return "reads or makes a value whose bytes(v) is negative or not a number; return 0 if the size is "
             "unknown";
    case adapter_violation::unlisted_operand:
      return "is produced by no node, and none of inputs(), state() and constants() lists it";
    case adapter_violation::unmade_output:
      return "is neither produced nor read by a node, and none of inputs(), state() and constants() lists it";
  }
  return "";
}

/// Says where the promise is broken, and how to keep it: `node #3 is listed twice`.
inline std::string describe(adapter_fault const& f) {
  using enum adapter_violation;
  auto const number = "#" + std::to_string(f.at);
  std::string place = "node " + number;
  if (f.what == input_twice || f.what == input_and_state)
    place = "value " + number + " of inputs(), then state(), then constants(),";
  if (f.what == unknown_carried_value) place = "input " + number;
  if (f.what == unmade_output) place = "output " + number;
  if (f.what == unlisted_operand) place = "operand #" + std::to_string(f.operand) + " of node " + number;
  return place + " " + describe(f.what);
}

/// Thrown if an adapter breaks a promise while its graph is read.
class adapter_error : public witness_error<adapter_fault> {
 public:
  adapter_error(adapter_fault f, std::string const& place)
      : witness_error("adapter: " + place + " " + describe(f.what), f) {}
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if a result of `bytes(v)` is a number of bytes. It may be of a signed or floating-point type.
template <class T>
constexpr bool is_size(T const& bytes) {
  if constexpr (std::floating_point<T>)
    return bytes >= 0 && bytes < static_cast<T>(18446744073709551616.0);
  else if constexpr (std::signed_integral<T>)
    return bytes >= 0;
  else
    return true;
}

/// Returns the first node that reads or makes a value whose size is not valid, or nothing. O(V + E).
template <sized_graph Graph>
std::optional<std::size_t> find_node_without_size(Graph const& g) {
  auto const bad = [&](value_t<Graph> const& v) { return !is_size(g.bytes(v)); };
  std::size_t at = 0;
  for (auto n : g.nodes()) {
    for (auto v : g.operands(n))
      if (bad(v)) return at;
    if constexpr (nested_graph<Graph>)
      for (auto v : captures(g, n))
        if (bad(v)) return at;
    for (auto v : results_of(g, n))
      if (bad(v)) return at;
    ++at;
  }
  return std::nullopt;
}

/// The memory that is written through one handle at a time. Its handles stand for its current contents.
template <dataflow_graph Graph>
class versioned_memory {
 public:
  explicit versioned_memory(Graph const&) {}

  bool is_named_by(value_t<Graph> const&) { return false; }
  bool is_named_by_both(value_t<Graph> const&, value_t<Graph> const&) { return false; }
};

template <aliasing_graph Graph>
class versioned_memory<Graph> {
 public:
  explicit versioned_memory(Graph const& g) : all_(g) {}

  bool is_named_by(value_t<Graph> const& v) { return all_.cell(all_.number(v)).versioned(); }
  bool is_named_by_both(value_t<Graph> const& v, value_t<Graph> const& w) {
    return is_named_by(v) && all_.number(v) == all_.number(w);
  }

 private:
  memory<Graph> all_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the first broken promise of an adapter, or nothing. Run it first on a new adapter. Expected O(V +
/// E).
template <dataflow_graph Graph>
std::optional<adapter_fault> find_adapter_fault(Graph const& g) {
  check_graph_concepts<Graph>();
  numbering<value_t<Graph>, std::size_t> arguments, made, used;
  std::size_t inputs = 0;
  if constexpr (function_graph<Graph>)
    for (auto v : g.inputs()) {
      if (arguments.insert(v) != inputs) return adapter_fault{adapter_violation::input_twice, inputs};
      ++inputs;
    }
  std::size_t listed = inputs;
  auto const find_in = [&](auto&& list) -> std::optional<adapter_fault> {
    for (std::size_t const before = listed; auto v : list) {
      auto const known = arguments.insert(v);
      if (known < before) return adapter_fault{adapter_violation::input_and_state, listed};
      if (known != listed) return adapter_fault{adapter_violation::input_twice, listed};
      ++listed;
    }
    return std::nullopt;
  };
  if constexpr (stateful_graph<Graph>)
    if (auto const fault = find_in(g.state())) return fault;
  if constexpr (closed_graph<Graph>)
    if (auto const fault = find_in(g.constants())) return fault;

  [[maybe_unused]] detail::versioned_memory<Graph> versioned(g);
  numbering<node_t<Graph>, std::size_t> nodes;
  std::size_t at = 0;
  for (auto n : g.nodes()) {
    if (nodes.insert(n) != at) return adapter_fault{adapter_violation::node_twice, at};
    detail::each_read(g, n, [&](value_t<Graph> const& v) { used.insert(v); });
    std::vector<value_t<Graph>> written;
    if constexpr (aliasing_graph<Graph>)
      for (auto v : g.overwrites(n)) written.push_back(v);
    for (auto v : detail::results_of(g, n)) {
      auto const is_written = [&](value_t<Graph> const& w) {
        return w == v || versioned.is_named_by_both(v, w);
      };
      if (std::any_of(written.begin(), written.end(), is_written)) {  // its new contents, not another value
        made.insert(v);
        continue;
      }
      if (arguments.find(v) != none<std::size_t>) return adapter_fault{adapter_violation::makes_argument, at};
      if (made.find(v) != none<std::size_t>) return adapter_fault{adapter_violation::two_producers, at};
      if (used.find(v) != none<std::size_t>) return adapter_fault{adapter_violation::after_its_user, at};
      made.insert(v);
    }
    if constexpr (effectful_graph<Graph>)
      for (auto m : g.after(n))
        if (auto const first = nodes.find(m); first == none<std::size_t> || first == at)
          return adapter_fault{adapter_violation::follows_a_later, at};
    ++at;
  }
  if constexpr (grouped_graph<Graph>)
    for (at = 0; auto n : g.nodes()) {
      for (auto m : g.together(n))
        if (nodes.find(m) == none<std::size_t>)
          return adapter_fault{adapter_violation::unknown_together_node, at};
      ++at;
    }
  if constexpr (closed_graph<Graph>)
    if (auto const unlisted = find_unlisted_values(g); !unlisted.empty())
      return adapter_fault{adapter_violation::unlisted_operand, unlisted[0].node, unlisted[0].operand};
  if constexpr (function_graph<Graph>) {
    auto const is_known = [&](value_t<Graph> const& v) {
      for (auto const* list : {&arguments, &made, &used})
        if (list->find(v) != none<std::size_t>) return true;
      return versioned.is_named_by(v);
    };
    for (std::size_t i = 0; auto v : g.outputs()) {
      if (!is_known(v)) return adapter_fault{adapter_violation::unmade_output, i};
      ++i;
    }
    if constexpr (carrying_graph<Graph>)
      for (std::size_t i = 0; auto v : g.inputs()) {
        for (auto next : g.carried(v))
          if (!is_known(next)) return adapter_fault{adapter_violation::unknown_carried_value, i};
        ++i;
      }
  }
  if constexpr (sized_graph<Graph>)
    if (auto const n = detail::find_node_without_size(g))
      return adapter_fault{adapter_violation::not_a_size, *n};
  return std::nullopt;
}

template <detail::unfinished_graph Graph>
detail::refused find_adapter_fault(Graph const&) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave
