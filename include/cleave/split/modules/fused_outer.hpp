// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/split/modules/module_builder.hpp"

namespace cleave::detail {

/// One piece of a graph some of whose nodes are fused. Nodes and values are positions in the original.
struct fused_piece {
  std::string path;  ///< of the piece in the outer graph
  std::vector<module_graph::position> nodes, inputs, outputs;
  std::vector<std::string> names;  ///< in the outer graph: of its call, then of what takes each result out
};

/// Whether a piece gives a tuple, which is taken apart.
inline bool gives_tuple(fused_piece const& p, result_form results) {
  return p.outputs.size() != 1 || results == result_form::tuple;
}

/// Names what the outer graph has of pieces, one after the other: names that the original does not have.
class fused_names {
 public:
  using position = module_graph::position;

  explicit fused_names(module_graph const& g) : called_(g.list().size()) {
    for (auto const& n : g.list()) known_.take(n.name);
  }

  void name(fused_piece& p, result_form results) {
    p.names.push_back(known_.take(name_candidate(node_kind::call_module, p.path)));
    bool const tuple = gives_tuple(p, results);
    for (position const v : p.outputs) {
      if (tuple) p.names.push_back(known_.take("getitem"));
      called_[v] = p.names.back();
    }
  }
  /// What `v` is called where a piece that has been named gives it; else empty.
  std::string const& of(position v) const { return called_[v]; }

 private:
  module_names known_;
  std::vector<std::string> called_;
};

/// Writes the outer graph of fused groups; `fuse_groups` is its one use.
class fused_outer {
 public:
  using position = module_graph::position;

  fused_outer(module_graph const& g, std::vector<fused_piece> const& pieces, result_form results)
      : g_(g), pieces_(pieces), results_(results), piece_of_(g.list().size(), nowhere), value_at_(piece_of_) {
    for (std::uint32_t i = 0; i < pieces_.size(); ++i)
      for (position const n : pieces_[i].nodes) piece_of_[n] = i;
  }

  /// `graphs` are in step with the pieces.
  module_graph build(std::vector<module_graph> graphs) {
    list_steps();
    for (auto const at : ready_steps()) write(steps_[at]);
    register_attributes(std::move(graphs));
    return std::move(outer_);
  }

 private:
  static constexpr auto nowhere = none<std::uint32_t>;

  /// What stands in one place of the outer graph: a node of the original, a call of a piece, or what takes a
  /// result out of a call.
  struct step {
    enum class kind : std::uint8_t { node, call, item };
    kind what;
    std::uint32_t of;      // the node, or the piece
    std::uint32_t result;  // of an item: its number
    std::string name;
    std::vector<std::uint32_t> reads{}, after{};  // steps
    position made = 0;                            // where the outer graph has it
  };

  std::uint32_t add(step::kind what, std::uint32_t of, std::uint32_t result, std::string name) {
    steps_.push_back({what, of, result, std::move(name)});
    return static_cast<std::uint32_t>(steps_.size() - 1);
  }

  /// The steps in the order of the original, a call where the last node of its piece was.
  void list_steps() {
    std::vector<std::uint32_t> closes(g_.list().size(), nowhere);
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) closes[pieces_[i].nodes.back()] = i;
    call_of_.resize(pieces_.size());
    for (position n = 0; n < g_.list().size(); ++n) {
      if (piece_of_[n] == nowhere) value_at_[n] = add(step::kind::node, n, 0, g_[n].name);
      auto const i = closes[n];
      if (i == nowhere) continue;
      auto const& p = pieces_[i];
      call_of_[i] = add(step::kind::call, i, 0, p.names.front());
      for (std::uint32_t k = 0; k < p.outputs.size(); ++k)
        value_at_[p.outputs[k]] =
            gives_tuple(p, results_) ? add(step::kind::item, i, k, p.names[k + std::size_t{1}]) : call_of_[i];
    }
  }

  /// The steps, each after those it needs: one that comes too early moves behind the last it waits for.
  std::vector<std::size_t> ready_steps() {
    need_table t;
    for (std::uint32_t at = 0; at < steps_.size(); ++at) {
      auto& s = steps_[at];
      auto const follow = [&](position n) {
        for (position const m : g_.after(n))
          if (auto const other = piece_of_[m] == nowhere ? value_at_[m] : call_of_[piece_of_[m]]; other != at)
            s.after.push_back(other);
      };
      if (s.what == step::kind::item) s.reads = {call_of_[s.of]};
      if (s.what == step::kind::node) {
        for (position const v : g_.operands(s.of)) s.reads.push_back(value_at_[v]);
        follow(s.of);
      }
      if (s.what == step::kind::call) {
        for (position const v : pieces_[s.of].inputs) s.reads.push_back(value_at_[v]);
        for (position const n : pieces_[s.of].nodes) follow(n);
      }
      for (auto const* list : {&s.reads, &s.after})
        for (auto const need : *list) t.needs.add(need);
      t.needs.close();
    }
    t.needed_by = transposed(t.needs);
    return ready_order(t);
  }

  void write(step& s) {
    module_node n = s.what == step::kind::node ? original(s.of) : made_for(s);
    n.name = s.name;
    n.after.clear();
    for (auto const other : s.after) n.after.push_back(steps_[other].made);
    s.made = outer_.add(std::move(n));
  }

  module_node original(position at) const {
    module_node n = g_[at];
    n.from = at;
    auto const moved = [&](position v) { return steps_[value_at_[v]].made; };
    for (auto& a : n.args) a = with_nodes(std::move(a), moved);
    for (auto& k : n.kwargs) k.value = with_nodes(std::move(k.value), moved);
    return n;
  }

  /// A call or an item; what is one value of the original keeps all that is known of it.
  module_node made_for(step const& s) const {
    auto const& p = pieces_[s.of];
    bool const call = s.what == step::kind::call;
    module_node n;
    if (!call || !gives_tuple(p, results_)) {
      position const v = p.outputs[s.result];
      n = g_[v];
      n.from = v;
    }
    n.kind = call ? node_kind::call_module : node_kind::call_function;
    n.target = call ? p.path : "getitem";
    n.args.clear();
    n.kwargs.clear();
    for (auto const read : s.reads) n.args.push_back(node_argument(steps_[read].made));
    if (!call) n.args.push_back({static_cast<std::int64_t>(s.result)});
    return n;
  }

  /// All that the original has but what only pieces read, then the pieces.
  void register_attributes(std::vector<module_graph> graphs) {
    numbering<std::string, std::uint32_t> in_pieces, outside;
    for (position n = 0; n < g_.list().size(); ++n)
      if (g_[n].kind == node_kind::get_attr || g_[n].kind == node_kind::call_module)
        (piece_of_[n] == nowhere ? outside : in_pieces).insert(g_[n].target);
    for (auto const& a : g_.attributes())
      if (in_pieces.find(a.path) == nowhere || outside.find(a.path) != nowhere) outer_.add_attribute(a);
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
      module_attribute a{pieces_[i].path, module_attribute::kind::module, {}, {}, {}, {}};
      a.body.push_back(std::move(graphs[i]));
      outer_.add_attribute(std::move(a));
    }
    outer_.metadata = g_.metadata;
  }

  module_graph const& g_;
  std::vector<fused_piece> const& pieces_;
  result_form results_;
  std::vector<std::uint32_t> piece_of_;  // of a node
  std::vector<std::uint32_t> value_at_;  // of a node: the step that has its value
  std::vector<std::uint32_t> call_of_;   // of a piece: the step that calls it
  std::vector<step> steps_;
  module_graph outer_;
};

}  // namespace cleave::detail
