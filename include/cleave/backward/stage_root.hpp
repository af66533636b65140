// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/modules/liveness.hpp"
#include "cleave/split/plan.hpp"

/// The root of a pipe as flat arrays. The root is the graph that calls the stages and does nothing else.
namespace cleave::inline v0_2 {

/// The kind of a value of a root: an input of the caller, the result of a stage, or an element of another
/// value. `other` values carry no gradient, for example state and the returned output.
enum class root_kind : std::uint8_t { input, stage, element, other };

/// A root as flat arrays. Each value has a larger number than the values it is made of.
struct stage_root {
  std::vector<root_kind> kind;         ///< for each value
  detail::csr<std::uint32_t> reads;    ///< arguments of a stage; the container of an element
  std::vector<std::uint32_t> element;  ///< for an element: its index, from 0

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

namespace cleave::inline v0_2::detail {

/// Limit on the index of an element. The width of a tuple is known only from the elements that are read.
inline constexpr std::uint32_t widest_tuple = 1 << 16;

/// The reason why a root has no backward pass.
struct root_fault {
  enum class kind : std::uint8_t {
    work_between_stages,  ///< `value` is neither a stage nor the reading of an element
    malformed_element,  ///< the key of `value`, an element, is neither a number nor a string, or it does not
                        ///< read one value
    wide_element,       ///< `value` reads element number `other`, beyond the widest tuple
    unordered,          ///< `value` reads `other`, which does not come before it
    unknown_loss,       ///< there is no value with the number `value`
    loss_is_tuple,      ///< `value` is the loss, and `other` is an element of it
  };
  kind what;
  std::uint32_t value = none<std::uint32_t>, other = none<std::uint32_t>;

  bool operator==(root_fault const&) const = default;
};

/// Returns one sentence. `name(v)` returns the name of a value.
template <class Name>
std::string root_fault_text(root_fault const& f, Name name) {
  switch (f.what) {
    case root_fault::kind::work_between_stages:
      return "backward: " + name(f.value) +
             " is neither a call of a stage nor a getitem; move it into a stage";
    case root_fault::kind::malformed_element:
      return "backward: " + name(f.value) + " must read a single value with a constant integer or string key";
    case root_fault::kind::wide_element:
      return "backward: " + name(f.value) + " reads element " + std::to_string(f.other) +
             "; the limit on the outputs of a stage is " + std::to_string(widest_tuple);
    case root_fault::kind::unordered:
      return "backward: " + name(f.value) + " reads " + name(f.other) + ", which does not come before it";
    case root_fault::kind::unknown_loss:
      return "backward: the loss is value #" + std::to_string(f.value) + ", which is not in the root";
    case root_fault::kind::loss_is_tuple:
      return "backward: the loss " + name(f.value) + " is a tuple, of which " + name(f.other) +
             " is an element; choose one of the elements as the loss";
  }
  return {};
}

/// Thrown if a root cannot be differentiated from its loss. The witness is the fault.
using backward_error = witness_error<root_fault>;

/// Returns the first fault of `root`, or of `loss` in it, or nothing. O(V + E).
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

/// Returns the first node of `g` that a stage_root cannot represent, or nothing. Called modules are stages.
/// `getitem(value, key)` reads an element; the key is a number, which counts from the end if negative, or a
/// string. O(V).
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

/// Returns true if the key is a non-negative position, not a string or a position from the end.
inline bool is_place_from_the_start(token const& key) {
  auto const* at = std::get_if<std::int64_t>(&key);
  return at && *at >= 0;
}

/// Gives each element of a root an index. Helper of `stage_root_of`.
///
/// Elements under strings or negative positions have no index of their own. They follow the indexed elements
/// of the same value, in the order in which they are first read, each key once. The number of elements of a
/// value is unknown here. So an element that is read from both ends has two indices.
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

  std::vector<std::uint32_t> of_;     // for each node: the index
  std::vector<std::uint32_t> key_;    // for each node: its entry in `known_`, if its key is not a plain index
  std::vector<std::uint32_t> place_;  // for each node: its place
  std::vector<std::uint32_t> width_, others_;    // for each place: largest index plus 1; other keys
  numbering<std::string, std::uint32_t> known_;  // a place and a key in it; indexed like the next three
  std::vector<std::uint32_t> element_, whole_;   // the place of the element, and the place that contains it
  std::vector<std::uint32_t> rank_;              // its rank among the elements without an index, or none
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `g` as a root; its nodes are the values. Expected O(V + E).
/// \throws backward_error
inline stage_root stage_root_of(module_graph const& g) {
  if (auto const f = detail::find_root_fault(g))
    throw detail::backward_error(
        detail::root_fault_text(*f, [&](auto n) { return "node " + quoted(g[n].name); }), *f);
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

/// The root of a cut graph, with the mapping between values of the root and of the graph.
template <std::unsigned_integral Index>
struct basic_planned_root {
  stage_root root;
  /// For each value of the root: its value in the graph; none for a stage that returns several.
  std::vector<Index> value;
  std::vector<std::uint32_t> stage;    ///< for each stage: its value in the root
  std::vector<std::uint32_t> made_at;  ///< for each value of the graph: its first value in the root, or none
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

using planned_root = basic_planned_root<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the root of `p`, a plan of `s`. It lists the caller's inputs, then each stage in order; a stage
/// with several outputs is followed by these as its elements. A stage reads each input from the stage that
/// sends it, even if that stage only relays it.
///
/// The user's graph is not needed, so `make_backward_plan` works on the result for stages in any IR. Expected
/// O(values + size of the plan).
template <std::unsigned_integral Index>
basic_planned_root<Index> planned_root_of(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p) {
  basic_planned_root<Index> made{{},
                                 {},
                                 std::vector<std::uint32_t>(p.stages.size()),
                                 std::vector<std::uint32_t>(s.values(), none<std::uint32_t>)};
  auto& at = made.made_at;
  auto const add = [&](root_kind kind, Index v, std::vector<std::uint32_t> const& reads,
                       std::uint32_t which) {
    auto const number = narrow<std::uint32_t>(made.root.values());
    made.root.add(kind, reads, which);
    made.value.push_back(v);
    if (v != none<Index> && at[v] == none<std::uint32_t>) at[v] = number;
    return number;
  };
  for (Index const v : s.inputs) add(root_kind::input, v, {}, 0);

  numbering<std::uint64_t, std::uint32_t> given;  // key of a stage and a value that it outputs
  std::vector<std::uint32_t> given_at;            // indexed like `given`: the value in the root
  auto const key = [&](stage_id from, Index v) { return std::uint64_t{index(from)} * s.values() + v; };
  auto const give = [&](stage_id from, Index v, std::uint32_t where) {
    if (given.insert(key(from, v)) == given_at.size()) given_at.push_back(where);
  };
  auto next = p.transfers.begin();  // transfers to one stage are consecutive, in the order of its inputs
  for (stage_id const i : p.order) {
    auto const& stage = p.stages[index(i)];
    std::vector<std::uint32_t> reads;
    for (Index const v : stage.inputs) {
      auto read = at[v];
      if (next != p.transfers.end() && next->to == i && next->value == v)
        if (auto const from = given.find(key((next++)->from, v)); from != none<std::uint32_t>)
          read = given_at[from];
      reads.push_back(read != none<std::uint32_t> ? read : add(root_kind::other, v, {}, 0));
    }
    bool const bare = stage.outputs.size() == 1;
    auto const call = add(root_kind::stage, bare ? stage.outputs.front() : none<Index>, reads, 0);
    made.stage[index(i)] = call;
    for (std::uint32_t k = 0; k < stage.outputs.size(); ++k) {
      auto const v = stage.outputs[k];
      give(i, v, bare ? call : add(root_kind::element, v, {call}, k));
    }
  }
  return made;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The distinct values of a root. Every extraction of the same element is the same place. Places form a tree
/// for each stage and input; each place comes after the place that contains it.
struct place_tree {
  static constexpr auto no = none<std::uint32_t>;

  std::vector<std::uint32_t> of;           ///< for each value: its place
  std::vector<std::uint32_t> first;        ///< for each place: the first value there
  std::vector<std::uint32_t> above, base;  ///< for each place: its container, or none; its stage or input
  csr<std::uint32_t> elements;             ///< for each place: the places in it, by their index

  explicit place_tree(stage_root const& root) : of(root.values()) {
    numbering<std::uint64_t, std::uint32_t> known;
    std::vector<std::uint32_t> at;  // indexed like `known`: the place
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

/// Returns a fault if elements of `loss` are read, under any name. Never throws.
inline std::optional<root_fault> find_tuple_loss(stage_root const& root, place_tree const& places,
                                                 std::uint32_t loss) {
  if (root.kind[loss] == root_kind::other) return std::nullopt;
  auto const elements = places.elements[places.of[loss]];
  if (elements.empty()) return std::nullopt;
  return root_fault{root_fault::kind::loss_is_tuple, loss, places.first[elements.front()]};
}

}  // namespace cleave::detail
