// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_scopes.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/named/assign.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/module_call_graph.hpp"
#include "cleave/split/modules/outer_builder.hpp"
#include "cleave/split/split_with_scopes.hpp"

/// Errors of cutting a module_graph by a callback.
namespace cleave::inline v0_2::detail {

/// Thrown if the callback has no answer for a node. The witness is the node.
class unassigned_node_error : public witness_error<module_graph::position> {
 public:
  unassigned_node_error(module_graph const& g, module_graph::position n)
      : witness_error("the callback returned no part for node " + quoted(g[n].name) + " (" +
                          printable(g[n].target) + ")",
                      n) {}
};

/// Thrown if a callback that is asked repeatedly changes its answer for a node. The witness is the node.
class unstable_answer_error : public witness_error<module_graph::position> {
 public:
  unstable_answer_error(module_graph const& g, module_graph::position n)
      : witness_error("node " + quoted(g[n].name) +
                          " gets a different part when the callback is called again; the answer must depend "
                          "on the node alone",
                      n) {}
};

/// Thrown under `part_numbers::ascending` if a label is not a number or is smaller than an earlier one. The
/// witness is the first node with such a label.
using part_number_error = tagged_error<struct part_number_tag, module_graph::position>;

/// Thrown if parts in order of first appearance would run a node before one that it needs. The witness is the
/// needed node and the other.
using stage_order_error =
    tagged_error<struct stage_order_tag, std::pair<module_graph::position, module_graph::position>>;

/// Thrown if a value crosses into a piece and no node binds a symbol of its shape. The witness is the value
/// and the node that reads it.
class unbound_symbol_error : public witness_error<std::pair<module_graph::position, module_graph::position>> {
 public:
  unbound_symbol_error(module_graph const& g, std::string name, module_graph::position value,
                       module_graph::position user)
      : witness_error("symbol " + quoted(name) + " in the shape of " + quoted(g[value].name) + ", which " +
                          quoted(g[user].name) + " reads in another part, is not bound by any node",
                      {value, user}),
        symbol(std::move(name)) {}
  std::string symbol;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The attributes that belong to a part.
/// - `passed`: none; attributes are passed to the pieces that read them
/// - `assignable`: those for which the callback, which is then called for attributes too, has an answer. They
///   are read inside their part, like calls.
enum class attribute_rule : std::uint8_t { passed, assignable };

/// The number of times that the callback is called.
/// - `once`: once for each call, in graph order
/// - `repeated`: in a graph with scopes, as often as torch.fx calls it: again for each mark, once for each
///   open scope, and once at the end. An answer that changes is then an error.
enum class asking : std::uint8_t { once, repeated };

/// The answers that the callback may give.
/// - `any`: all labels
/// - `ascending`: in a graph with scopes, as in torch.fx, numbers from -1 on that do not decrease along the
///   graph
enum class part_numbers : std::uint8_t { any, ascending };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The answers of a callback for a module_graph.
struct module_parts {
  std::vector<part_id> of_node;    ///< by node of list()
  partition p;                     ///< the same for the nodes that have a part, in order
  std::vector<std::string> label;  ///< by part; parts are numbered by first appearance
};

/// The type in which an answer is kept: text by value, so that no label dangles.
template <class Answer>
struct kept_answer {
  using type = label_t<Answer>;
};
template <std::convertible_to<std::string_view> Text>
struct kept_answer<std::optional<Text>> {
  using type = std::optional<std::string>;
};

/// Asks a callback for the part of each call. Used by `split_module`.
template <class F>
class callback_assigner {
 public:
  using position = module_graph::position;
  using answer =
      typename kept_answer<std::remove_cvref_t<std::invoke_result_t<F&, module_node const&>>>::type;

  callback_assigner(module_graph const& g, F& part_of, std::vector<module_mark> const& marks)
      : g_(g), part_of_(part_of), marks_(marks) {}

  module_parts ask(attribute_rule attributes, asking how) {
    bool const repeated = how == asking::repeated && !marks_.empty();
    auto const times = repeated ? times_asked() : std::vector<std::uint32_t>();
    module_parts parts{std::vector<part_id>(g_.list().size(), no_part), {}, {}};
    parts.p.of.reserve(g_.nodes().size());
    label_numbering<std::string> labels;
    std::optional<answer> last;  // neighbours often share a part
    for (position n = 0; n < g_.list().size(); ++n) {
      bool const attribute = attributes == attribute_rule::assignable && g_[n].kind == node_kind::get_attr;
      if (!attribute && !module_graph::is_call(g_[n])) continue;
      answer now(part_of_(g_[n]));
      if (!last || !(now == *last)) {
        auto label = text_of(now);
        if (!label && attribute) continue;
        if (!label) throw unassigned_node_error(g_, n);
        parts.of_node[n] = part_id{labels.insert(*std::move(label))};
        last = std::move(now);
      } else {
        parts.of_node[n] = parts.p.of.back();
      }
      parts.p.of.push_back(parts.of_node[n]);
      for (std::uint32_t i = 1; repeated && i < times[n]; ++i) require_same(n, *last);
    }
    parts.label = std::move(labels).labels();
    parts.p.parts = static_cast<std::uint32_t>(parts.label.size());
    if (repeated)
      for (auto const n : g_.nodes())
        if (text_of(part_of_(g_[n])) != parts.label[index(parts.of_node[n])])
          throw unstable_answer_error(g_, n);
    return parts;
  }

  /// Checks that the parts are numbers that do not decrease along the graph.
  /// \throws part_number_error
  void require_ascending(module_parts const& parts) const {
    if (marks_.empty()) return;
    std::int64_t highest = -1;
    for (auto const n : g_.nodes()) {
      auto const& label = parts.label[index(parts.of_node[n])];
      if (!numbers || std::stoll(label) < highest)
        throw part_number_error("node " + quoted(g_[n].name) + " is given part " + quoted(label) +
                                    "; in a graph with scopes, part_numbers::ascending needs numbers that do "
                                    "not decrease, and the highest so far is " +
                                    std::to_string(highest),
                                n);
      highest = std::stoll(label);
    }
  }

 private:
  template <class T>
  static constexpr bool is_number() {
    if constexpr (requires(T t) { t.has_value(); })
      return std::integral<typename T::value_type>;
    else
      return std::integral<T>;
  }
  static constexpr bool numbers = is_number<answer>();

  template <class T>
  static std::optional<std::string> text_of(T&& a) {
    if constexpr (std::integral<std::remove_cvref_t<T>>)
      return std::to_string(a);
    else if constexpr (requires { a.has_value(); })
      return a ? text_of(*std::forward<T>(a)) : std::nullopt;
    else
      return std::string(std::forward<T>(a));
  }

  void require_same(position n, answer const& given) {
    if (!(answer(part_of_(g_[n])) == given)) throw unstable_answer_error(g_, n);
  }

  /// Returns the number of times that the callback is asked for each node in the first round.
  std::vector<std::uint32_t> times_asked() const {
    std::vector<std::uint32_t> times(g_.list().size(), 1);
    std::uint32_t entered = 0;
    bool set = false;
    auto mark = marks_.begin();
    for (auto const n : g_.nodes()) {
      if (mark != marks_.end() && mark->node == n) {
        ++times[n];
        set |= mark->mark.what == scope_action::set;
        if (mark->mark.what == scope_action::enter) ++entered;
        if (mark->mark.what == scope_action::leave && entered > 0) --entered;
        ++mark;
      }
      times[n] += entered + (set ? 1 : 0);
    }
    return times;
  }

  module_graph const& g_;
  F& part_of_;
  std::vector<module_mark> const& marks_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The treatment of parts that, in order of first appearance, would run before a part on which they depend.
/// `preferred` takes another order, `required` throws.
enum class appearance : std::uint8_t { preferred, required };

/// The place where a piece enters the scopes under which it begins: after its placeholders, or, as in
/// torch.fx, before them.
enum class opening_place : std::uint8_t { after_inputs, before_inputs };

/// Options of `split_module`.
struct split_module_options {
  order stages = order::program;
  std::vector<std::string> priority = {};  ///< labels for `order::priority`; the first one comes first
  appearance first = appearance::preferred;
  input_order inputs = input_order::first_use;
  output_order outputs = output_order::first_use;
  attribute_place attributes = attribute_place::front;
  attribute_rule attribute_parts = attribute_rule::passed;
  symbol_rule symbols = symbol_rule::closed;
  std::vector<module_scope> scopes = detail::torch_scopes();
  late_settings settings = late_settings::refused;
  opening_place openings = opening_place::after_inputs;
  asking asked = asking::once;
  part_numbers numbers = part_numbers::any;
  module_builder_options pieces = {};
  std::string affix = {};  ///< start of each piece's name, before the label of its part
};

/// A module_graph cut into pieces, and the outer graph that calls them.
struct split_module_result {
  module_graph outer;                ///< calls the pieces, which are its attributes, with bodies
  std::vector<module_piece> pieces;  ///< in the order of first appearance in the graph
  std::vector<std::uint32_t> order;  ///< the pieces in the order in which the outer graph calls them
  /// For each called module: its new path and its old path. Each new path is listed once.
  std::vector<std::pair<std::string, std::string>> qualified_names;

  /// Returns the graph of a piece.
  module_graph const& graph(module_piece const& piece) const {
    return outer.find_attribute(piece.path)->body.front();
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Lists the dependencies between pieces, each list in the order in which the graph first shows it. Expected
/// O(V + E).
template <class Snapshot>
void list_relations(Snapshot const& s, partition const& p, std::vector<module_piece>& pieces) {
  numbering<std::uint64_t, std::uint32_t> known;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    auto const to = index(p.of[n]);
    auto const need = [&](std::size_t m) {
      auto const from = index(p.of[m]);
      if (from == to) return;
      auto const before = known.size();
      if (known.insert(std::uint64_t{from} << 32 | to) < before) return;
      pieces[from].dependents.push_back(to);
      pieces[to].dependencies.push_back(from);
    };
    auto const depend_on_value = [&](auto v) {
      if (s.from[v] == source::node) need(s.producer[v]);
    };
    for (auto const v : s.operands[n]) {
      if (s.from[v] != source::node || p.of[s.producer[v]] != p.of[n])
        for (auto const c : s.companions[v]) depend_on_value(c);
      depend_on_value(v);
    }
    for (auto const m : s.after[n]) need(m);
  }
}

/// Returns the first value that a part is given although no node binds a symbol of its shape, with the node
/// that reads it; or nothing. O(V + E).
template <class Snapshot>
std::optional<std::pair<module_graph::position, module_graph::position>> find_unbound_value(
    module_graph const& g, module_call_graph const& calls, Snapshot const& s, partition const& p) {
  for (std::size_t n = 0; n < s.nodes(); ++n)
    for (auto const v : s.operands[n])
      if (s.from[v] != source::node || p.of[s.producer[v]] != p.of[n])
        for (auto const& symbol : g[s.value[v]].symbols)
          if (!calls.binders().find(symbol))
            return std::pair(s.value[v], s.node[static_cast<std::uint32_t>(n)]);
  return std::nullopt;
}

/// Writes the pieces of a planned cut. Used by `split_module`.
template <class Snapshot>
class piece_writer {
 public:
  using position = module_graph::position;
  using plan = basic_plan<typename Snapshot::index_type>;

  piece_writer(module_graph const& g, module_call_graph const& calls, Snapshot const& s,
               module_parts const& parts, plan const& cut, split_module_options const& options)
      : g_(g), calls_(calls), s_(s), parts_(parts), cut_(cut), options_(options) {
    for (auto const& n : g.list())
      if (n.kind == node_kind::get_attr) read_.insert(n.target);
  }

  template <class F>
  split_module_result write(F each_piece) {
    split_module_result result;
    std::vector<module_graph> graphs;
    for (std::uint32_t i = 0; i < parts_.p.parts; ++i) {
      graphs.push_back(write_graph(i));
      result.pieces.push_back(describe_piece(i, graphs.back()));
      each_piece(std::as_const(result.pieces.back()), graphs.back());
    }
    for (auto const i : cut_.order) result.order.push_back(index(i));
    list_relations(s_, parts_.p, result.pieces);
    result.qualified_names = qualified_names();
    result.outer = outer_builder(g_, options_.attributes, options_.pieces)
                       .build(result.pieces, std::move(graphs), result.order);
    return result;
  }

 private:
  /// True if stage i has only a copy of `n`, a mark of another stage.
  bool is_copy(std::uint32_t i, std::size_t n) const { return parts_.p.of[n] != part_id{i}; }

  module_graph write_graph(std::uint32_t i) {
    auto const& stage = cut_.stages[i];
    module_builder b(g_, options_.pieces);
    b.reserve(stage.inputs.size() + stage.state.size() + stage.nodes.size() + 1);
    for (auto const n : stage.nodes)
      if (is_copy(i, n)) b.name_by_target(s_.node[n]);
    std::size_t opening = 0;
    if (options_.openings == opening_place::before_inputs)
      while (opening < stage.nodes.size() && is_copy(i, stage.nodes[opening]) &&
             s_.operands[stage.nodes[opening]].empty())
        ++opening;
    emit_stage(calls_, s_, stage, b, opening);
    return std::move(b).finish();
  }

  module_piece describe_piece(std::uint32_t i, module_graph const& graph) {
    auto const& stage = cut_.stages[i];
    module_piece made;
    made.label = options_.affix.empty() ? parts_.label[i] : options_.affix + "_" + parts_.label[i];
    made.path = "submod_" + made.label;
    made.reason = "the calls to which the callback gave the label " + quoted(parts_.label[i]);
    while (read_.find(made.path) != none<std::uint32_t>) made.path += "_";
    for (auto const n : stage.nodes)
      if (!is_copy(i, n)) made.nodes.push_back(s_.node[n]);
    for (auto const v : stage.inputs) made.inputs.push_back(s_.value[v]);
    for (auto const v : stage.outputs) made.outputs.push_back(s_.value[v]);
    for (auto const v : stage.state) made.own_attributes.push_back(s_.value[v]);
    for (auto const& n : graph.attributes().empty() ? std::span<module_node const>() : graph.list())
      if (n.kind == node_kind::call_module) called_.emplace_back(n.from, made.path + "." + n.target);
    return made;
  }

  std::vector<std::pair<std::string, std::string>> qualified_names() {
    std::ranges::sort(called_);
    std::vector<std::pair<std::string, std::string>> names;
    numbering<std::string_view, std::uint32_t> listed;
    for (auto const& [n, path] : called_)
      if (listed.insert(path) == names.size()) names.emplace_back(path, g_[n].target);
    return names;
  }

  module_graph const& g_;
  module_call_graph const& calls_;
  Snapshot const& s_;
  module_parts const& parts_;
  plan const& cut_;
  split_module_options const& options_;
  numbering<std::string_view, std::uint32_t> read_;       // paths that the outer graph may read itself
  std::vector<std::pair<position, std::string>> called_;  // calls of modules, and their new paths
};

/// Checks that a node binds each symbol in the shapes of values that cross between parts.
/// \throws unbound_symbol_error
template <class Snapshot>
void require_bound_symbols(module_graph const& g, module_call_graph const& calls, Snapshot const& s,
                           partition const& p) {
  auto const unbound = find_unbound_value(g, calls, s, p);
  if (!unbound) return;
  for (auto const& symbol : g[unbound->first].symbols)
    if (!calls.binders().find(symbol)) throw unbound_symbol_error(g, symbol, unbound->first, unbound->second);
}

/// Returns the place of each part's label in `labels`. Labels that are not there share the last place.
inline std::vector<std::uint32_t> priorities(module_parts const& parts,
                                             std::vector<std::string> const& labels) {
  numbering<std::string_view, std::uint32_t> place;
  for (auto const& label : labels) place.insert(label);
  std::vector<std::uint32_t> places;
  for (auto const& label : parts.label) places.push_back(place.find(label));
  return places;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts `g` by a callback, as torch.fx's split_module does. The calls for which `part_of(node)` returns the
/// same label form one piece, and the outer graph calls the pieces. Each call runs under the state of
/// `options.scopes` that it has in `g`, and after the calls in its `after`. `g` is not modified. Expected O(V
/// + E + parts log parts).
///
/// \param part_of returns the label of a node's part: text, an integer, or an optional of these that is empty
/// if the node is not known. It is called once for each call, in graph order, unless the options say
/// otherwise.
/// \param each_piece is called with each piece and its graph, `each_piece(module_piece const&,
/// module_graph&)`, when the piece has been written. It may take the graph away, so that not all pieces are
/// in memory together; the outer graph then has what it left.
/// \throws unassigned_node_error, missing_target_error, unbound_symbol_error, stage_order_error, and
/// partition_error if parts depend on each other in a cycle
/// \throws mark_operand_error, unpaired_scope_error, scope_cut_error and scope_order_error for scopes;
/// unstable_answer_error and part_number_error if the options ask for these checks
template <class F, class G>
split_module_result split_module(module_graph const& g, F part_of, split_module_options const& options,
                                 G each_piece) {
  if (auto const n = detail::find_missing_target(g)) throw detail::missing_target_error(g, *n);
  auto const marks = detail::module_marks(g, options.scopes);
  detail::callback_assigner<F> asker(g, part_of, marks);
  auto const parts = asker.ask(options.attribute_parts, options.asked);
  module_call_graph const calls(g, parts.of_node, options.symbols);
  auto s = snapshot_of(calls);
  if (s.companions.item.empty()) s.companions = {};
  auto const scopes = detail::module_scopes_of(s, options.scopes, marks);
  if (options.numbers == part_numbers::ascending) asker.require_ascending(parts);
  s = detail::add_scopes(std::move(s), scopes);
  if (options.symbols == symbol_rule::closed) detail::require_bound_symbols(g, calls, s, parts.p);
  auto const cut = make_plan(s, parts.p, scopes,
                             {options.stages, options.outputs, options.inputs,
                              detail::priorities(parts, options.priority), options.settings});
  if (options.first == appearance::required)
    if (auto const edge = detail::find_backward_edge(s, parts.p)) {
      auto const producer = s.node[static_cast<std::uint32_t>(edge->producer)];
      auto const consumer = s.node[static_cast<std::uint32_t>(edge->consumer)];
      throw detail::stage_order_error(
          "node " + quoted(g[consumer].name) + " needs " + quoted(g[producer].name) +
              ", whose part appears later; the parts cannot run in order of first appearance",
          {producer, consumer});
    }
  return detail::piece_writer(g, calls, s, parts, cut, options).write(std::move(each_piece));
}
template <class F>
split_module_result split_module(module_graph const& g, F part_of, split_module_options const& options = {}) {
  return split_module(g, std::move(part_of), options, [](module_piece const&, module_graph&) {});
}

/// Cuts `g` by the rules of torch.fx's split_module_simple. Pieces run in the order of first appearance.
/// Attributes may have parts of their own. Symbols that are bound late or nowhere are not passed. Otherwise
/// nothing is lost: defaults and modules are kept, and scopes hold.
template <class F>
split_module_result split_module_simple(module_graph const& g, F part_of, std::string affix = {}) {
  return split_module(g, std::move(part_of),
                      {.first = appearance::required,
                       .attribute_parts = attribute_rule::assignable,
                       .symbols = symbol_rule::bound_before_use,
                       .affix = std::move(affix)});
}

}  // namespace cleave
