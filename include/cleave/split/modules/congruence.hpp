// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "cleave/split/plan.hpp"

/// Parts that are the same up to names: of N equal layers one need be compiled. Two parts are congruent if
/// they have the same nodes in the same order, read the same of each other and of what they are given, and
/// give the same in the same order. The order counts, because what writes in place is ordered by it alone.
namespace cleave {

/// Which parts are congruent.
struct congruence {
  std::vector<std::uint32_t> like;  ///< of a part: the first that is congruent to it, perhaps itself
  std::size_t classes = 0;          ///< how many differ
  /// Of a piece: the original paths of the attributes in it; entry i of one piece stands for entry i of
  /// those congruent to it.
  std::vector<std::vector<std::string>> holds{};

  bool operator==(congruence const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Sorts parts into classes by what they consist of, written as numbers. Equal hashes are compared whole.
class class_finder {
 public:
  void add(std::vector<std::uint64_t> part) {
    auto const me = static_cast<std::uint32_t>(found_.like.size());
    auto const h = hashes_.insert(hash(part));
    if (h == known_.size()) known_.emplace_back();
    for (auto const& [first, at] : known_[h])
      if (first_of_class_[at] == part) {
        found_.like.push_back(first);
        return;
      }
    known_[h].emplace_back(me, first_of_class_.size());
    first_of_class_.push_back(std::move(part));
    found_.like.push_back(me);
    ++found_.classes;
  }
  congruence finish() && { return std::move(found_); }

 private:
  static std::uint64_t hash(std::vector<std::uint64_t> const& part) {
    std::uint64_t h = part.size();
    for (auto const x : part) {
      h = (h ^ x) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    }
    return h;
  }

  congruence found_;
  numbering<std::uint64_t, std::uint32_t> hashes_;                         // in step with …
  std::vector<std::vector<std::pair<std::uint32_t, std::size_t>>> known_;  // part, place in …
  std::vector<std::vector<std::uint64_t>> first_of_class_;
};

/// Which stages of `p`, a plan of `s`, are congruent. `node_key(n)` and `value_key(v)` say what of a node,
/// and of a value that a stage is given, must be equal: anything with a hash. Expected O(size of the plan).
template <std::unsigned_integral Index, class NodeKey, class ValueKey>
congruence congruent_stages(basic_dense<Index> const& s, basic_plan<Index> const& p, NodeKey node_key,
                            ValueKey value_key) {
  numbering<std::remove_cvref_t<decltype(node_key(Index{}))>, Index> nodes;
  numbering<std::remove_cvref_t<decltype(value_key(Index{}))>, Index> values;
  std::vector<Index> value_at(s.values(), none<Index>), node_at(s.nodes(), none<Index>);
  std::vector<std::size_t> seen_in(s.nodes(), p.stages.size());
  class_finder classes;
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    auto const& stage = p.stages[i];
    std::vector<std::uint64_t> part{stage.inputs.size(), stage.state.size(), stage.nodes.size(),
                                    stage.outputs.size()};
    Index next = 0;
    for (auto const* given : {&stage.inputs, &stage.state})
      for (Index const v : *given) {
        value_at[v] = next++;
        part.push_back(values.insert(value_key(v)));
      }
    for (std::size_t at = 0; at < stage.nodes.size(); ++at) {
      Index const n = stage.nodes[at];
      node_at[n] = static_cast<Index>(at);
      seen_in[n] = i;
      part.insert(part.end(), {nodes.insert(node_key(n)), s.operands[n].size(), s.results[n].size()});
      for (Index const v : s.operands[n]) part.push_back(value_at[v]);
      for (Index const v : s.results[n]) value_at[v] = next++;
      auto const before = part.size();
      part.push_back(0);
      for (Index const m : s.after[n])
        if (seen_in[m] == i) part.push_back(node_at[m]);
      part[before] = part.size() - before - 1;
    }
    for (Index const v : stage.outputs) part.push_back(value_at[v]);
    classes.add(std::move(part));
  }
  return std::move(classes).finish();
}

}  // namespace cleave::detail

namespace cleave {

/// What of a module_graph must be equal, besides its structure and its targets, as text. To say otherwise,
/// derive and hide a member.
struct piece_keys {
  /// Of a node: its shape, its symbols and all its metadata.
  std::string node(module_node const& n) const {
    std::string key = n.shape ? "shape" : "none";
    if (n.shape)
      for (auto const& d : *n.shape) key += dimension_text(d);
    key += "|" + sized(n.expression) + sized(n.binds);
    for (auto const& m : n.metadata) key += sized(m.key) + text(m.value);
    return key;
  }
  /// Of what a piece holds. A module that has no graph inside is congruent to nothing but itself; of tensors
  /// the metadata must be equal.
  std::string attribute(module_attribute const& a) const {
    bool const closed = a.what == module_attribute::kind::module && a.body.empty();
    std::string key = closed ? sized(a.original.empty() ? a.path : a.original) : "";
    for (auto const& m : a.metadata) key += sized(m.key) + text(m.value);
    return key;
  }

  static std::string sized(std::string const& s) { return std::to_string(s.size()) + ":" + s; }
  static std::string dimension_text(dimension const& d) {
    auto const* number = std::get_if<std::int64_t>(&d);
    return number ? " " + std::to_string(*number) : " " + sized(std::get<std::string>(d));
  }
  static std::string text(module_argument const& a) {
    std::string all;
    for (auto const& t : a) {
      all += "," + std::to_string(t.index());
      if (auto const* b = std::get_if<bool>(&t)) all += *b ? "1" : "0";
      if (auto const* i = std::get_if<std::int64_t>(&t)) all += "i" + std::to_string(*i);
      if (auto const* d = std::get_if<double>(&t))
        all += "d" + std::to_string(std::bit_cast<std::uint64_t>(*d));
      if (auto const* s = std::get_if<std::string>(&t)) all += sized(*s);
      if (auto const* o = std::get_if<opaque>(&t)) all += sized(o->kind) + sized(o->text);
      if (auto const* r = std::get_if<node_ref>(&t)) all += "#" + std::to_string(r->node);
      if (auto const* c = std::get_if<container>(&t))
        all += std::to_string(static_cast<unsigned>(c->what)) + "x" + std::to_string(c->size);
    }
    return all;
  }
};

}  // namespace cleave

namespace cleave::detail {

/// Writes a graph, and the graphs inside, as numbers; `congruent_pieces` is its one use.
template <class Keys>
class graph_numbers {
 public:
  graph_numbers(Keys const& keys, numbering<std::string, std::uint32_t>& texts)
      : keys_(keys), texts_(texts) {}

  /// `holds` receives the original paths of the attributes, in the order in which they are met.
  std::vector<std::uint64_t> write(module_graph const& g, std::vector<std::string>& holds) {
    std::vector<module_graph const*> rest{&g};
    for (std::size_t i = 0; i < rest.size(); ++i)  // bodies in bodies come later, not by recursion
      write_one(*rest[i], rest, holds);
    return std::move(out_);
  }

 private:
  void write_one(module_graph const& g, std::vector<module_graph const*>& rest,
                 std::vector<std::string>& holds) {
    numbering<std::string, std::uint32_t> attributes;
    put(g.list().size());
    for (auto const& n : g.list()) {
      bool const named = n.kind == node_kind::call_module || n.kind == node_kind::get_attr;
      bool const target = n.kind == node_kind::call_function || n.kind == node_kind::call_method;
      put(static_cast<std::uint64_t>(n.kind));
      put(named ? attributes.insert(n.target) : target ? text(n.target) : 0);
      put(text(keys_.node(n)));
      put(n.args.size());
      for (auto const& a : n.args) put(text(Keys::text(a)));
      put(n.kwargs.size());
      for (auto const& k : n.kwargs) {
        put(text(k.key));
        put(text(Keys::text(k.value)));
      }
      put(n.after.size());
      for (auto const m : n.after) put(m);
    }
    numbering<std::string, std::uint32_t> storages;
    put(attributes.size());
    for (auto const& path : attributes.handles()) {
      module_attribute const unknown{path, module_attribute::kind::module, {}, {}, {}, {}};
      auto const* found = g.find_attribute(path);
      auto const& a = found ? *found : unknown;
      put(static_cast<std::uint64_t>(a.what));
      put(storages.insert(a.storage.empty() ? "path " + path : "storage " + a.storage));
      put(text(keys_.attribute(a)));
      put(a.body.size());
      for (auto const& body : a.body) rest.push_back(&body);
      holds.push_back(a.original.empty() ? a.path : a.original);
    }
  }

  void put(std::uint64_t x) { out_.push_back(x); }
  std::uint64_t text(std::string const& s) { return texts_.insert(s); }

  Keys const& keys_;
  numbering<std::string, std::uint32_t>& texts_;
  std::vector<std::uint64_t> out_;
};

}  // namespace cleave::detail

namespace cleave {

/// Which pieces of `r` are congruent, by `keys`. Names of nodes and inputs do not count. Expected O(size of
/// the pieces).
template <class Keys = piece_keys>
congruence congruent_pieces(split_module_result const& r, Keys const& keys = {}) {
  numbering<std::string, std::uint32_t> texts;
  detail::class_finder classes;
  std::vector<std::vector<std::string>> holds;
  for (auto const& piece : r.pieces)
    classes.add(detail::graph_numbers<Keys>(keys, texts).write(r.graph(piece), holds.emplace_back()));
  auto found = std::move(classes).finish();
  found.holds = std::move(holds);
  return found;
}

}  // namespace cleave
