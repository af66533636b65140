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

/// The root of a pipe as flat arrays: the graph that calls the stages and does nothing else.
namespace cleave {

/// What a value of a root is: the caller's, what a stage gives, an element of another value; or one through
/// which no gradient goes, such as state and what the root returns.
enum class root_kind : std::uint8_t { input, stage, element, other };

/// Values are numbered in an order in which each comes after those it is made of.
struct stage_root {
  std::vector<root_kind> kind;         ///< of a value
  detail::csr<std::uint32_t> reads;    ///< of a stage: its arguments; of an element: the value it is of
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
using backward_error = witness_error<root_fault>;

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

/// The first node of `g` that no stage_root has a place for, or nothing. Called modules are stages, and
/// `getitem(value, key)` reads an element, under a number, which counts from the end where it is negative, or
/// under a text. O(V).
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

/// Whether an element has the number that it is read under: neither a text nor a place from the end.
inline bool is_place_from_the_start(token const& key) {
  auto const* at = std::get_if<std::int64_t>(&key);
  return at && *at >= 0;
}

/// Gives each element of a root a number; `stage_root_of` is its one use. Those that have none are numbered
/// behind those of the same value that have one, in the order in which they are first read, each key once.
/// How many elements a value has is not known here, so an element that is read from both ends has two
/// numbers.
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

  std::vector<std::uint32_t> of_;                // of a node: the number
  std::vector<std::uint32_t> key_;               // of a node: which key it reads, where that is no number
  std::vector<std::uint32_t> place_;             // of a node: its place
  std::vector<std::uint32_t> width_, others_;    // of a place: one past its largest number; how many others
  numbering<std::string, std::uint32_t> known_;  // a place and a key in it, in step with …
  std::vector<std::uint32_t> element_, whole_;   // … the place under the key, and that which it is in,
  std::vector<std::uint32_t> rank_;              // and its turn among those without a number, or none
};

}  // namespace cleave::detail

namespace cleave {

/// `g` as a root: its nodes are the values. Expected O(V + E).
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

/// The root of a cut graph, and where it has the values of the graph.
template <std::unsigned_integral Index>
struct basic_planned_root {
  stage_root root;
  std::vector<Index> value;  ///< of a value of the root: the graph's; none where a stage gives several
  std::vector<std::uint32_t> stage;    ///< of a stage: its value
  std::vector<std::uint32_t> made_at;  ///< of a value of the graph: where the root has it first, or none
};

}  // namespace cleave

namespace cleave::detail {

using planned_root = basic_planned_root<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave {

/// The root of `p`, a plan of `s`: the caller's inputs, then each stage in its order and, where it gives
/// several values, these as its elements. What a stage receives it reads from the stage that sends it, also
/// where that only passes it on. No user's graph is asked: `make_backward_plan` on it is the backward pass of
/// stages in any IR. Expected O(values + size of the plan).
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

  numbering<std::uint64_t, std::uint32_t> given;  // a stage and what it gives …
  std::vector<std::uint32_t> given_at;            // … in step with it: where the root has that
  auto const key = [&](stage_id from, Index v) { return std::uint64_t{index(from)} * s.values() + v; };
  auto const give = [&](stage_id from, Index v, std::uint32_t where) {
    if (given.insert(key(from, v)) == given_at.size()) given_at.push_back(where);
  };
  auto next = p.transfers.begin();  // those to one stage stand together, in the order of its inputs
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
