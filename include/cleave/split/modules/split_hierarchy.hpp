// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/named/hierarchical_cut.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/split_module.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the tokens [begin, end) of the element under `key` of `a`, a list, tuple or dict. Returns nothing
/// if there is no such element. O(size of a).
inline std::optional<std::pair<std::size_t, std::size_t>> find_element(module_argument const& a,
                                                                       token const& key) {
  auto const* c = a.empty() ? nullptr : std::get_if<container>(&a.front());
  if (!c || c->what == container::kind::slice) return std::nullopt;
  bool const dict = c->what == container::kind::dict;
  auto const* number = std::get_if<std::int64_t>(&key);
  if (!dict && !number) return std::nullopt;
  std::int64_t const wanted = dict ? 0 : *number < 0 ? *number + std::int64_t{c->size} : *number;
  std::optional<std::pair<std::size_t, std::size_t>> found;
  std::size_t at = 1;
  for (std::int64_t i = 0; i < std::int64_t{c->size}; ++i) {
    bool const here = dict ? a[at] == key : i == wanted;
    if (dict) at = subtree_end(a, at);
    auto const end = subtree_end(a, at);
    if (here) found = {at, end};  // if a key occurs twice, the last one counts
    at = end;
  }
  return found;
}

/// A call of an opened level with arguments that do not fit its placeholders.
struct level_call_fault {
  level_call call;       ///< the call, in the level that calls
  std::string path;      ///< path of the called module
  argument_fault fault;  ///< the argument or placeholder that does not fit

  bool operator==(level_call_fault const&) const = default;
};

/// Thrown if the arguments of a call do not fit the module that is to be opened. The witness is the call.
using level_call_error = witness_error<level_call_fault>;

/// Returns the first call of a level with cuts whose arguments do not fit, or nothing. O(opened calls *
/// placeholders).
inline std::optional<level_call_fault> find_level_call_fault(hierarchical_cut const& cut) {
  for (std::uint32_t i = 0; i < cut.levels.size(); ++i)
    for (auto const& [n, inside] : cut.levels[i].opened) {
      auto const& call = (*cut.levels[i].graph)[n];
      std::vector<std::string> keys;
      for (auto const& k : call.kwargs) keys.push_back(k.key);
      if (auto fault = find_argument_fault(*cut.levels[inside].graph, call.args.size(), keys))
        return level_call_fault{{i, n}, cut.levels[inside].path, *std::move(fault)};
    }
  return std::nullopt;
}

/// The treatment of calls whose results no node reads after the level that was to read them has been opened.
enum class unread_work : std::uint8_t { kept, dropped };

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The stage that takes an element out of a tuple, list or dict that another stage makes.
/// - `by_maker`: the stage that makes it, so that only the elements needed are sent
/// - `by_reader`: the stage in which the access stands, as in Slapo, so that the whole container is sent
enum class element_reading : std::uint8_t { by_maker, by_reader };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The origin of a node in an opened level: a node of one of the user's levels, a piece, or the access of an
/// element of a piece's result.
struct opened_node {
  enum class kind : std::uint8_t { own, piece, element };
  kind what = kind::own;
  level_call of = {};       ///< for `own`: the node in its level
  std::uint32_t piece = 0;  ///< for `piece`: its number
};

/// A level after its split: a graph that calls its pieces one after another.
struct closed_level {
  module_graph outer;
  std::vector<opened_node> nodes;  ///< by node of `outer`: its origin
  std::vector<char> works;         ///< by piece, in the order of the calls: it has work to do
  bool ends = false;               ///< a stage ends after the last piece
};

/// A level in which the levels inside it are opened, and the part of each node.
struct opened_level {
  module_graph graph;
  std::vector<opened_node> nodes;   ///< by node of `graph`: its origin
  std::vector<std::uint32_t> part;  ///< by node: its part, or none
  bool ends = false;                ///< a stage ends after the last node
};

/// Writes a level with the calls of pieces in place of the calls of the levels inside. Each part reads its
/// state anew, so that no state is passed between parts. Used by `split_hierarchy`.
class module_inliner {
 public:
  using position = module_graph::position;

  /// `closed` has the levels inside, and `numbers` the first piece number of each opened call. Arguments may
  /// have at most `most_tokens` tokens in all.
  module_inliner(hierarchical_cut const& cut, std::uint32_t level, std::vector<closed_level> const& closed,
                 std::vector<std::uint32_t> const& numbers, unread_work unread, element_reading elements,
                 std::size_t most_tokens)
      : cut_(cut.levels[level]),
        level_(level),
        g_(*cut_.graph),
        closed_(closed),
        numbers_(numbers),
        drop_work_(unread == unread_work::dropped && !cut_.opened.empty()),
        elements_(elements),
        most_tokens_(most_tokens),
        value_(g_.list().size()),
        copy_(g_.list().size(), none<position>) {}

  /// Opens the level. `followed_by_cut` is true if a stage ends where the level ends.
  opened_level open(bool followed_by_cut) {
    auto inside = cut_.opened.begin();
    auto end = cut_.ends.begin();
    for (position n = 0; n < g_.list().size(); ++n) {
      bool const ended = end != cut_.ends.end() && *end == n;
      if (g_[n].kind == node_kind::get_attr)
        value_[n] = hold(g_[n], g_[n].target, g_.find_attribute(g_[n].target), {{}, {level_, n}, 0});
      else if (inside != cut_.opened.end() && inside->first == n)
        inline_level(n, static_cast<std::size_t>(inside++ - cut_.opened.begin()), ended);
      else
        copy(n, ended);
      if (ended) ++end;
    }
    drop_unread();
    opened_level made;
    made.ends = end_last_part(followed_by_cut);
    write(made);
    return made;
  }

 private:
  struct draft {
    module_node node;
    opened_node from;
    std::uint32_t part = none<std::uint32_t>;
    bool kept = false;  // even if no node reads it
    bool work = false;
    module_attribute const* attribute = nullptr;  // the attribute that its target names
    std::uint32_t number = 0;                     // for a piece
    std::size_t users = 0;
  };
  struct held_state {
    module_node const* node;
    std::string path;
    module_attribute const* attribute;
    opened_node from;
  };
  static constexpr position state_bit = position{1} << 31;  // marks a node_ref to held state, not to a draft

  module_argument hold(module_node const& n, std::string path, module_attribute const* a, opened_node from) {
    held_.push_back({&n, std::move(path), a, from});
    return node_argument(state_bit | static_cast<position>(held_.size() - 1));
  }

  /// Returns `a` with each node that it reads replaced by the node's value.
  module_argument map_values(module_argument const& a, std::vector<module_argument> const& value) {
    module_argument out;
    for (auto const& t : a)
      if (auto const* ref = std::get_if<node_ref>(&t))
        out.insert(out.end(), value[ref->node].begin(), value[ref->node].end());
      else
        out.push_back(t);
    tokens_ += out.size();
    if (tokens_ > most_tokens_)
      throw module_cut_error({module_cut_fault::kind::too_large, {}, cut_.path, {}});
    return out;
  }

  /// Returns an operand of a node of `part`, with nodes replaced by their values. State that the part holds
  /// is read there.
  module_argument operand(module_argument const& a, std::vector<module_argument> const& value,
                          std::uint32_t part) {
    return map_nodes(map_values(a, value), [&](position v) {
      if (!(v & state_bit)) return v;
      auto const reading = readings_.insert(std::uint64_t{v} << 32 | part);
      if (reading == reading_at_.size()) {
        auto const& held = held_[v & ~state_bit];
        module_node n = *held.node;
        n.target = held.path;
        n.after.clear();
        reading_at_.push_back(static_cast<position>(drafts_.size()));
        drafts_.push_back({std::move(n), held.from, part, false, false, held.attribute});
      }
      return reading_at_[reading];
    });
  }

  /// Returns `n` with drafts as its operands.
  module_node with_operands(module_node n, std::vector<module_argument> const& value, std::uint32_t part) {
    for (auto& a : n.args) a = operand(a, value, part);
    for (auto& k : n.kwargs) k.value = operand(k.value, value, part);
    if (n.default_value) n.default_value = operand(*n.default_value, value, part);
    return n;
  }

  void copy(position n, bool ended) {
    auto const& node = g_[n];
    if (read_literal(n, node)) return;
    bool const call = module_graph::is_call(node);
    auto const part = call ? part_of(node, value_) : none<std::uint32_t>;
    draft d{with_operands(node, value_, part), {{}, {level_, n}, 0}, part};
    d.kept = !call || ended || !node.after.empty();
    d.work = call && !reads_element(node);
    d.attribute = node.kind == node_kind::call_module ? g_.find_attribute(node.target) : nullptr;
    d.node.after = followed(node);
    copy_[n] = static_cast<position>(drafts_.size());
    value_[n] = node_argument(copy_[n]);
    drafts_.push_back(std::move(d));
    if (ended) ++part_;
  }

  /// Returns the part of a call: the current one or, if the call reads an element, the part of the value that
  /// it reads.
  std::uint32_t part_of(module_node const& n, std::vector<module_argument> const& value) const {
    if (elements_ == element_reading::by_reader || !reads_element(n)) return part_;
    std::uint32_t part = part_;
    std::size_t operands = 0;
    auto const look = [&](position v) {
      if (!(v & state_bit) && drafts_[v].part != none<std::uint32_t>) part = drafts_[v].part;
      ++operands;
    };
    for (auto const& a : n.args) each_node(a, [&](position v) { each_node(value[v], look); });
    for (auto const& k : n.kwargs) each_node(k.value, [&](position v) { each_node(value[v], look); });
    return operands == 1 ? part : part_;
  }

  /// Returns the drafts of the nodes that `n` must follow.
  std::vector<position> followed(module_node const& n) {
    std::vector<position> after;
    for (auto const m : n.after)
      if (copy_[m] != none<position>) {
        drafts_[copy_[m]].kept = true;
        after.push_back(copy_[m]);
      }
    return after;
  }

  /// Returns true if `n` reads an element of a literal list, tuple or dict. The value of `n` is then that
  /// element.
  bool read_literal(position n, module_node const& node) {
    bool const get = node.kind == node_kind::call_method;
    if (!reads_element(node) || node.args.size() < 2 || !node.kwargs.empty()) return false;
    if (node.args[0].size() != 1 || node.args[1].size() != 1) return false;
    auto const* whole = std::get_if<node_ref>(&node.args[0].front());
    if (!whole) return false;
    auto const& literal = value_[whole->node];
    auto const* c = std::get_if<container>(&literal.front());
    if (!c || (get && c->what != container::kind::dict)) return false;
    auto const element = find_element(literal, node.args[1].front());
    if (element)
      value_[n] = {literal.begin() + static_cast<std::ptrdiff_t>(element->first),
                   literal.begin() + static_cast<std::ptrdiff_t>(element->second)};
    else if (get)
      value_[n] = node.args.size() > 2 ? map_values(node.args[2], value_) : module_argument{token()};
    return element || get;
  }

  /// Writes the calls of a level's pieces in place of its call `n`.
  void inline_level(position n, std::size_t opened, bool ended) {
    auto const& inner = closed_[cut_.opened[opened].second];
    auto value = arguments(n, inner.outer);
    std::size_t done = 0;
    auto after = followed(g_[n]);
    for (position m = 0; m < inner.outer.list().size(); ++m) {
      auto const& node = inner.outer[m];
      if (node.kind == node_kind::get_attr) {
        value[m] = hold(node, g_[n].target + "." + node.target, inner.outer.find_attribute(node.target),
                        inner.nodes[m]);
      } else if (node.kind == node_kind::output) {
        value_[n] = node.args.empty() ? module_argument{token()} : map_values(node.args.front(), value);
      } else if (module_graph::is_call(node)) {
        bool const piece = node.kind == node_kind::call_module;
        bool const last = done + 1 >= inner.works.size();
        auto const part = part_of(node, value);
        draft d{with_operands(node, value, part), inner.nodes[m], part};
        d.node.after = piece ? std::exchange(after, {}) : std::vector<position>();
        d.work = piece && inner.works[done];
        d.number = numbers_[opened] + static_cast<std::uint32_t>(done);
        d.kept = piece && (!last || ended || inner.ends || !d.node.after.empty());
        value[m] = node_argument(static_cast<position>(drafts_.size()));
        if (piece) copy_[n] = static_cast<position>(drafts_.size());
        drafts_.push_back(std::move(d));
        if (piece) {
          ++done;
          if (!last) ++part_;
        }
      }
    }
    if (!inner.outer.output()) value_[n] = {token()};
    if (ended || inner.ends) ++part_;
  }

  /// Returns the values of the placeholders of `inner` at its call `n`. Other nodes have none yet.
  std::vector<module_argument> arguments(position n, module_graph const& inner) {
    auto const& call = g_[n];
    std::vector<module_argument> value(inner.list().size());
    for (std::size_t i = 0; i < inner.inputs().size(); ++i) {
      auto const p = inner.inputs()[i];
      if (i < call.args.size()) {
        value[p] = map_values(call.args[i], value_);
        continue;
      }
      if (inner[p].default_value) value[p] = map_values(*inner[p].default_value, value);
      for (auto const& k : call.kwargs)
        if (k.key == inner[p].target) value[p] = map_values(k.value, value_);
    }
    return value;
  }

  /// Drops unread accesses of elements and of state, and unread work only if that is wanted.
  void drop_unread() {
    std::size_t kept = 0;
    for (std::size_t d = drafts_.size(); d-- > 0;) {
      auto& here = drafts_[d];
      auto const count = [&](position v) { ++drafts_[v].users; };
      bool const may_go =
          here.node.kind == node_kind::get_attr || here.from.what == opened_node::kind::element || drop_work_;
      here.kept = here.kept || here.users > 0 || !may_go;
      if (!here.kept) continue;
      ++kept;
      for (auto const& a : here.node.args) each_node(a, count);
      for (auto const& k : here.node.kwargs) each_node(k.value, count);
    }
    number_of_kept_ = kept;
  }

  /// Returns true if no node follows the last end of a stage in this level. A last part without work joins
  /// the part before it if a stage ends after the level, since it would be a stage by itself.
  bool end_last_part(bool followed_by_cut) {
    bool any = false, work = false;
    for (auto const& d : drafts_)
      if (d.kept && d.part == part_) {
        any = true;
        work = work || d.work;
      }
    if (any && !work && followed_by_cut && part_ > 0)
      for (auto& d : drafts_)
        if (d.part == part_) --d.part;
    return !any;
  }

  void write(opened_level& made) {
    made.graph.reserve(number_of_kept_);
    module_names names;
    for (auto const& n : g_.list())
      if (n.kind != node_kind::get_attr) names.take(n.name);
    std::vector<position> at(drafts_.size(), none<position>);
    for (std::size_t d = 0; d < drafts_.size(); ++d) {
      if (!drafts_[d].kept) continue;
      auto n = std::move(drafts_[d].node);
      auto const& from = drafts_[d].from;
      bool const piece = from.what == opened_node::kind::piece;
      if (piece) n.target = piece_path(made.graph, drafts_[d].number);
      if (piece || from.what == opened_node::kind::element || n.kind == node_kind::get_attr)
        n.name = names.take(name_candidate(n.kind, n.target));
      auto const moved = [&](position v) { return at[v]; };
      for (auto& a : n.args) a = map_nodes(std::move(a), moved);
      for (auto& k : n.kwargs) k.value = map_nodes(std::move(k.value), moved);
      if (n.default_value) n.default_value = map_nodes(*std::move(n.default_value), moved);
      for (auto& m : n.after) m = at[m];
      n.from = none<position>;
      add_target(made.graph, n, drafts_[d]);
      at[d] = made.graph.add(std::move(n));
      made.nodes.push_back(from);
      made.part.push_back(drafts_[d].part);
    }
  }

  /// Returns a path that neither the level nor another piece has.
  std::string piece_path(module_graph const& made, std::uint32_t number) const {
    std::string path = "submod_" + std::to_string(number);
    while (g_.find_attribute(path) || made.find_attribute(path)) path += "_";
    return path;
  }

  /// Registers the target of `n` without its body. `original` is its path from the root; for a piece it is a
  /// text that is no path.
  void add_target(module_graph& made, module_node const& n, draft const& d) const {
    if ((n.kind != node_kind::get_attr && n.kind != node_kind::call_module) || made.find_attribute(n.target))
      return;
    module_attribute a{n.target, module_attribute::kind::module, {}, {}, {}, {}};
    if (d.attribute)
      a = {n.target, d.attribute->what,     d.attribute->storage,
           {},       d.attribute->original, d.attribute->metadata};
    if (a.original.empty())
      a.original =
          d.from.what == opened_node::kind::piece ? "\n" + n.target : joined_path(cut_.path, n.target);
    made.add_attribute(std::move(a));
  }

  cut_level const& cut_;
  std::uint32_t level_;
  module_graph const& g_;
  std::vector<closed_level> const& closed_;
  std::vector<std::uint32_t> const& numbers_;
  bool drop_work_;
  element_reading elements_;
  std::size_t most_tokens_, tokens_ = 0;

  std::vector<module_argument> value_;  // by node: its value, in terms of drafts and held state
  std::vector<position> copy_;          // by node: its draft, or its last piece
  std::vector<draft> drafts_;
  std::vector<held_state> held_;
  numbering<std::uint64_t, std::uint32_t> readings_;  // (held state, part) pairs …
  std::vector<position> reading_at_;                  // … and the draft that reads the state there
  std::uint32_t part_ = 0;
  std::size_t number_of_kept_ = 0;
};

/// Returns the first piece number of each opened call, by level and in step with `opened`. As in Slapo,
/// pieces are named after their number among those of their level. Opened calls get numbers in the order of
/// the cuts inside them. A level begins with the number that the first of its calls has in the level around
/// it. O(n log n) for n opened calls.
inline std::vector<std::vector<std::uint32_t>> piece_numbers(hierarchical_cut const& cut) {
  auto const levels = cut.levels.size();
  std::vector<std::uint32_t> ends(levels);  // by level: number of stages that end in it
  std::vector<char> goes_on(levels);        // by level: calls follow its last end of a stage
  for (std::size_t i = levels; i-- > 0;) {
    auto const& level = cut.levels[i];
    ends[i] = static_cast<std::uint32_t>(level.ends.size());
    auto const calls = level.graph->nodes();
    goes_on[i] = !calls.empty() && (level.ends.empty() || level.ends.back() != calls.back());
    for (auto const& [n, inside] : level.opened) {
      bool const ended = std::ranges::binary_search(level.ends, n);
      ends[i] += ended && !goes_on[inside] ? ends[inside] - 1 : ends[inside];
      if (n == calls.back() && !ended) goes_on[i] = goes_on[inside];
    }
  }
  std::vector<std::uint32_t> start(levels);
  std::vector<char> known(levels);
  std::vector<std::vector<std::uint32_t>> numbers(levels);
  for (std::size_t i = 0; i < levels; ++i) {
    auto const& opened = cut.levels[i].opened;
    std::vector<std::tuple<std::uint32_t, std::size_t, std::uint32_t>> in_order;
    for (std::size_t k = 0; k < opened.size(); ++k)
      in_order.emplace_back(cut.levels[opened[k].second].first_cut, k, opened[k].second);
    std::ranges::sort(in_order);
    numbers[i].resize(opened.size());
    std::uint32_t next = start[i];
    for (auto const& [first, k, inside] : in_order) {
      numbers[i][k] = next;
      if (!std::exchange(known[inside], 1)) start[inside] = next;
      next += ends[inside] + 1;
    }
  }
  return numbers;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options for the cuts of a tree of modules and for opening its levels.
struct split_hierarchy_options {
  hierarchy_options cuts = {};
  detail::unread_work unread = detail::unread_work::kept;
  element_reading elements = element_reading::by_maker;
};

/// A stage of a split hierarchy.
struct hierarchy_stage {
  std::string path;              ///< path of the stage in the outer graph
  std::vector<level_call> runs;  ///< the calls that it runs, in order
};

/// A tree of modules cut into a flat list of stages. Each stage is a graph. If it has a slice of an opened
/// module, that slice is a module of its own in the stage, with a body. All other modules are unchanged, and
/// their `original` is their path from the root. Nodes keep `from`, the node of their level.
struct split_hierarchy_result {
  module_graph outer;  ///< calls the stages one after another; they are its attributes, with bodies
  hierarchical_cut cut;
  std::vector<hierarchy_stage> stages;

  /// Returns the graph of a stage.
  module_graph const& graph(hierarchy_stage const& stage) const {
    return outer.find_attribute(stage.path)->body.front();
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Splits the levels of a cut, the inner ones first. Used by `split_hierarchy`.
class hierarchy_splitter {
 public:
  using position = module_graph::position;

  hierarchy_splitter(hierarchical_cut cut, split_hierarchy_options const& options)
      : cut_(std::move(cut)),
        options_(options),
        numbers_(piece_numbers(cut_)),
        closed_(cut_.levels.size()),
        opened_(cut_.levels.size()),
        state_(cut_.levels.size()),
        is_sorted_(cut_.levels.size()) {}

  split_hierarchy_result split() {
    std::vector<char> ended(cut_.levels.size());  // by level: a stage ends after its calls
    ended[0] = 1;
    for (auto const& level : cut_.levels)
      for (auto const& [n, inside] : level.opened) ended[inside] = std::ranges::binary_search(level.ends, n);
    for (auto i = static_cast<std::uint32_t>(cut_.levels.size()); i-- > 0;) close(i, ended[i]);

    split_hierarchy_result result;
    for (position n = 0; n < closed_[0].outer.list().size(); ++n)
      if (auto const& node = closed_[0].outer[n]; node.kind == node_kind::call_module)
        result.stages.push_back({node.target, runs_of(closed_[0].nodes[n].piece)});
    for (auto& p : pieces_) p.graph = finished(p.graph, opened_[p.level], false);
    result.outer = finished(closed_[0].outer, closed_[0].nodes, true);
    result.cut = std::move(cut_);
    return result;
  }

 private:
  struct piece {
    module_graph graph;
    std::uint32_t level;
    std::vector<opened_node> calls;
    bool works = false;
    std::size_t uses = 0;  // number of graphs that contain it
  };

  void close(std::uint32_t level, bool followed_by_cut) {
    auto made = module_inliner(cut_, level, closed_, numbers_[level], options_.unread, options_.elements,
                               16 * options_.cuts.most_nodes)
                    .open(followed_by_cut);
    numbering<std::string_view, std::uint32_t> names;
    for (auto const& n : made.graph.list()) names.insert(n.name);
    auto const part_of = [&](module_node const& n) -> std::optional<std::string> {
      auto const part = made.part[names.find(n.name)];
      return part == none<std::uint32_t> ? std::nullopt : std::optional(std::to_string(part));
    };
    auto result = split_module(made.graph, part_of,
                               {.attributes = attribute_place::first_use,
                                .attribute_parts = attribute_rule::assignable,
                                .symbols = symbol_rule::bound_before_use});

    keep(level, std::move(result), std::move(made));
  }

  /// Stores the pieces of a level and the graph that calls them.
  void keep(std::uint32_t level, split_module_result result, opened_level made) {
    numbering<std::string_view, std::uint32_t> paths;
    auto const first = static_cast<std::uint32_t>(pieces_.size());
    for (auto const& p : result.pieces) {
      paths.insert(p.path);
      piece kept{result.graph(p), level, {}};
      for (auto const n : p.nodes) {
        auto const& from = made.nodes[n];
        bool const call = module_graph::is_call(made.graph[n]);
        if (from.what == opened_node::kind::piece) ++pieces_[from.piece].uses;
        if (from.what == opened_node::kind::piece || call) kept.calls.push_back(from);
        kept.works =
            kept.works || (from.what == opened_node::kind::piece ? pieces_[from.piece].works
                                                                 : call && !reads_element(made.graph[n]));
      }
      pieces_.push_back(std::move(kept));
    }
    auto& closed = closed_[level];
    for (auto const& n : result.outer.list()) {
      opened_node at{opened_node::kind::element, {}, 0};
      if (n.kind == node_kind::call_module) {
        at = {opened_node::kind::piece, {}, first + paths.find(n.target)};
        closed.works.push_back(pieces_[at.piece].works);
        if (level == 0) ++pieces_[at.piece].uses;
      } else if (n.from < made.nodes.size()) {
        at = made.nodes[n.from];
      }
      closed.nodes.push_back(at);
    }
    closed.ends = made.ends;
    closed.outer = std::move(result.outer);
    opened_[level] = std::move(made.nodes);
  }

  /// Returns the calls that a piece and the pieces inside it run, in order.
  std::vector<level_call> runs_of(std::uint32_t outermost) const {
    std::vector<level_call> runs;
    std::vector<std::pair<std::uint32_t, std::size_t>> rest{{outermost, 0}};
    while (!rest.empty()) {
      auto const [at, next] = rest.back();
      if (next == pieces_[at].calls.size()) {
        rest.pop_back();
        continue;
      }
      ++rest.back().second;
      auto const& call = pieces_[at].calls[next];
      if (call.what == opened_node::kind::piece)
        rest.emplace_back(call.piece, 0);
      else if (call.what == opened_node::kind::own && !reads_element(node_of(call)))
        runs.push_back(call.of);
    }
    return runs;
  }

  module_node const& node_of(opened_node const& n) const {
    return (*cut_.levels[n.of.level].graph)[n.of.node];
  }

  /// Returns `graph` with the bodies of the modules that it calls. The pieces in it are finished already. Its
  /// nodes are copies of `nodes`, by their position if `outer`, else by their `from`.
  module_graph finished(module_graph const& graph, std::vector<opened_node> const& nodes, bool outer) {
    module_graph made;
    made.reserve(graph.list().size());
    numbering<std::string_view, std::uint32_t> targets;
    std::vector<opened_node> of_target;
    for (position n = 0; n < graph.list().size(); ++n) {
      auto node = graph[n];
      auto const at = outer ? nodes[n] : node.from < nodes.size() ? nodes[node.from] : opened_node{};
      bool const own = at.what == opened_node::kind::own && (outer || node.from < nodes.size());
      node.from = own ? at.of.node : none<position>;
      if ((node.kind == node_kind::call_module || node.kind == node_kind::get_attr) &&
          targets.insert(graph[n].target) == of_target.size())
        of_target.push_back(at);
      made.add(std::move(node));
    }
    made.metadata = graph.metadata;
    for (auto const& a : graph.attributes()) {
      auto const target = targets.find(a.path);
      module_attribute copy{a.path, a.what, a.storage, {}, a.original, a.metadata};
      if (target == none<std::uint32_t>) {
        made.add_attribute(std::move(copy));
      } else if (auto const& of = of_target[target]; of.what == opened_node::kind::piece) {
        copy.original.clear();
        auto& inside = pieces_[of.piece];
        copy.body.push_back(--inside.uses == 0 ? std::move(inside.graph) : inside.graph);
        made.add_attribute(std::move(copy));
      } else {
        add_module(made, std::move(copy), of);
      }
    }
    return made;
  }

  /// Registers `a`, the attribute that `of` names, with its body and the state that is registered below its
  /// path.
  void add_module(module_graph& made, module_attribute a, opened_node const& of) {
    auto const& level = *cut_.levels[of.of.level].graph;
    auto const& target = node_of(of).target;
    auto const path = a.path;
    bool const module = a.what == module_attribute::kind::module;
    if (auto const* whole = level.find_attribute(target)) a.body = whole->body;
    made.add_attribute(std::move(a));
    if (!module) return;
    for (auto const* below : state_below(of.of.level, target)) {
      module_attribute s = *below;
      s.path = path + below->path.substr(target.size());
      if (s.original.empty()) s.original = joined_path(cut_.levels[of.of.level].path, below->path);
      if (!made.find_attribute(s.path)) made.add_attribute(std::move(s));
    }
  }

  /// Returns the attributes of a level below `path` that are not modules, in their order. O(log(attributes) +
  /// result).
  std::vector<module_attribute const*> state_below(std::uint32_t level, std::string const& path) {
    auto& sorted = state_[level];
    auto const name = [](module_attribute const* a) -> std::string const& { return a->path; };
    if (!std::exchange(is_sorted_[level], 1)) {
      for (auto const& a : cut_.levels[level].graph->attributes())
        if (a.what != module_attribute::kind::module) sorted.push_back(&a);
      std::ranges::sort(sorted, {}, name);
    }
    std::vector<module_attribute const*> below;
    auto const prefix = path + ".";
    for (auto a = std::ranges::lower_bound(sorted, prefix, {}, name);
         a != sorted.end() && (*a)->path.starts_with(prefix); ++a)
      below.push_back(*a);
    std::ranges::sort(below);  // attributes lie in one array
    return below;
  }

  hierarchical_cut cut_;
  split_hierarchy_options options_;
  std::vector<std::vector<std::uint32_t>> numbers_;
  std::vector<closed_level> closed_;
  std::vector<std::vector<opened_node>> opened_;  // by level: the origins of its nodes after opening
  std::vector<piece> pieces_;                     // pieces that are inside of others come first
  std::vector<std::vector<module_attribute const*>> state_;
  std::vector<char> is_sorted_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts `root` after each call that one of `cuts` names, level by level, into a flat list of stages, as Slapo
/// does.
///
/// Stages run in program order and are exactly `stages_of(cut_modules(root, cuts))`. That they compute the
/// same as `root` is not proven, only tested. Each stage reads the state that it needs. Its inputs are in the
/// order of first use. `root` is not modified; it must outlive the result's `cut`. Expected O(V + E + size of
/// the result).
///
/// \param cuts paths of called modules, from the root
/// \throws module_cut_error, also if the values that modules return grow beyond all bounds, level_call_error,
/// and missing_target_error
inline split_hierarchy_result split_hierarchy(module_graph const& root, std::vector<std::string> const& cuts,
                                              split_hierarchy_options const& options = {}) {
  auto cut = detail::cut_modules(root, cuts, options.cuts);
  for (auto const& level : cut.levels)
    if (auto const n = detail::find_missing_target(*level.graph))
      throw detail::missing_target_error(*level.graph, *n);
  if (auto const fault = detail::find_level_call_fault(cut))
    throw detail::level_call_error(
        "hierarchy: call " + quoted(label(cut, fault->call)) + " of " + quoted(fault->path) +
            " cannot be opened: " + detail::argument_fault::subject + describe(fault->fault),
        *fault);
  return detail::hierarchy_splitter(std::move(cut), options).split();
}

}  // namespace cleave
