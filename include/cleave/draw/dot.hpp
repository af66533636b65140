// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/escape.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/draw/stage_graph.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a plan that is good enough to draw, for any partition. The partition may be invalid: its parts may
/// depend on each other in a cycle. Nodes without a part form an additional last stage. Replicable nodes stay
/// in their own part. O(V + E).
template <std::unsigned_integral Index>
basic_plan<Index> sketch_plan(basic_snapshot_arrays<Index> const& g, partition const& p) {
  auto const part_of = [&](std::size_t n) { return (std::min)(index(p.of[n]), p.parts); };
  basic_plan<Index> out;
  out.stages.resize(p.parts);
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (part_of(n) == out.stages.size()) out.stages.emplace_back();
    out.stages[part_of(n)].nodes.push_back(static_cast<Index>(n));
  }
  std::vector<char> leaves(g.values());
  for (Index const v : g.outputs) leaves[v] = 1;
  std::vector<Index> seen(g.values(), none<Index>);
  for (std::uint32_t s = 0; s < out.stages.size(); ++s) {
    out.order.push_back(stage_id{s});
    for (Index const n : out.stages[s].nodes)
      for (Index const v : g.operands[n]) {
        if (std::cmp_equal(std::exchange(seen[v], static_cast<Index>(s)), s)) continue;
        Index const m = g.producer[v];
        bool const held = g.from[v] == source::state || g.from[v] == source::constant;
        if (held) {
          out.stages[s].state.push_back(v);
        } else if (m == none<Index>) {
          out.stages[s].inputs.push_back(v);
        } else if (part_of(m) != s && !is_replicable(g, m)) {
          out.stages[s].inputs.push_back(v);
          out.transfers.push_back({v, stage_id{part_of(m)}, stage_id{s}});
          leaves[v] = 1;
        }
      }
  }
  for (std::size_t n = 0; n < g.nodes(); ++n)
    for (Index const v : g.results[n])
      if (leaves[v]) out.stages[part_of(n)].outputs.push_back(v);
  return out;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `write_dot`.
struct dot_options {
  std::size_t collapse_above = 300;  ///< limit on nodes; a larger cut graph is drawn with one box per stage
  std::size_t label_limit = 40;      ///< limit on the characters of a name; the tooltip has the full name
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes one graph. Helper of `write_dot`. Graphviz sees only generated ids: node 17 of
/// stage 2 is `s2_n17`.
template <std::unsigned_integral Index>
class dot_writer {
 public:
  /// Stages numbered `clusters` or more are drawn without a frame.
  dot_writer(basic_snapshot_arrays<Index> const& g, basic_plan<Index> const& p, std::size_t clusters,
             dot_options const& options)
      : g_(g), p_(p), clusters_(clusters), options_(options) {}

  std::string nodes_in_clusters() {
    begin();
    for (std::size_t s = 0; s < p_.stages.size(); ++s) cluster(s);
    find_stages_of_nodes();
    arguments();
    receive_transfers();
    for (std::size_t s = 0; s < p_.stages.size(); ++s) edges_into(s);
    results();
    return std::move(text_) + "}\n";
  }

  std::string box_a_stage() {
    begin();
    auto const q = quotient_of(g_, p_);
    for (std::size_t s = 0; s < q.stages.size(); ++s) {
      auto const& box = q.stages[s];
      auto label = stage_name(s) + "\\n" + count_text(box.nodes) + (box.nodes == 1 ? " node" : " nodes");
      if (!g_.weight.empty()) label += "\\ncost " + amount_text(box.cost, "");
      if (box.state.known > 0) label += "\\n" + bytes_text(box.state) + " held";
      line("stage" + std::to_string(s), {{"label", label}});
    }
    for (auto const& l : q.links) {
      auto const values = count_text(l.values) + (l.values == 1 ? " value" : " values");
      edge("stage" + std::to_string(index(l.from)), "stage" + std::to_string(index(l.to)),
           {{"label", values + "\\n" + bytes_text(l.bytes)}});
    }
    for (auto const& u : p_.updates)
      edge("stage" + std::to_string(index(u.from)), "stage" + std::to_string(index(u.to)),
           {{"label", "update\\n" + size_label(u.value)}, {"style", "dotted"}});
    return std::move(text_) + "}\n";
  }

 private:
  using attributes = std::vector<std::pair<std::string_view, std::string>>;

  // Without newrank, dot gives up on some graphs whose frames hold long edges ("trouble in init_rank").
  void begin() {
    text_ =
        "digraph cleave {\n"
        "  graph [fontname=\"Helvetica\", newrank=true, ranksep=0.35, nodesep=0.25];\n"
        "  node [fontname=\"Helvetica\", fontsize=11, shape=box, style=\"rounded,filled\", "
        "fillcolor=\"#eef2f6\", "
        "color=\"#7b8794\"];\n"
        "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#7b8794\", arrowsize=0.6];\n";
  }

  /// Writes one statement. Values must be escaped; keys are constants.
  void line(std::string const& what, attributes const& list) {
    text_ += "  " + what;
    for (std::size_t i = 0; i < list.size(); ++i)
      text_ += std::string(i == 0 ? " [" : ", ") + std::string(list[i].first) + "=\"" + list[i].second + '"';
    text_ += list.empty() ? ";\n" : "];\n";
  }
  void edge(std::string const& from, std::string const& to, attributes const& list) {
    line(from + " -> " + to, list);
  }

  std::string stage_name(std::size_t s) const {
    return s < clusters_ ? "stage " + std::to_string(s) : "in no stage";
  }
  std::string id(std::size_t s, Index n) const { return 's' + std::to_string(s) + "_n" + std::to_string(n); }
  std::string size_label(Index v) const {
    byte_sum sum;
    sum.add(bytes_of(g_, v));
    return bytes_text(sum);
  }

  void cluster(std::size_t s) {
    bool const framed = s < clusters_;
    if (framed)
      text_ += "  subgraph cluster_stage" + std::to_string(s) + " {\n  label=\"" + stage_name(s) +
               "\"; style=\"rounded\"; color=\"#9aa5b1\"; fontname=\"Helvetica\"; fontsize=12;\n";
    for (Index const n : p_.stages[s].nodes) {
      auto const name = std::string_view(g_.name[n].data(), g_.name[n].size());
      auto const shown = name.empty() ? "#" + std::to_string(n) : printable(name, options_.label_limit);
      attributes list = {{"label", escape_dot(shown)}, {"tooltip", escape_dot(g_.label(n))}};
      if (is_replicable(g_, n)) list.emplace_back("style", "rounded,filled,dashed");
      line(id(s, n), list);
    }
    if (framed) text_ += "  }\n";
  }

  void find_stages_of_nodes() {
    stage_of_.assign(g_.nodes(), p_.stages.size());
    for (std::size_t s = 0; s < p_.stages.size(); ++s)
      for (Index const n : p_.stages[s].nodes) stage_of_[n] = (std::min)(stage_of_[n], s);
  }

  void arguments() {
    for (std::size_t i = 0; i < g_.inputs.size(); ++i)
      line("in" + std::to_string(g_.inputs[i]),
           {{"label", "input " + std::to_string(i)}, {"shape", "ellipse"}, {"style", ""}});
  }
  void results() {
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      Index const v = g_.outputs[i];
      auto const to = "out" + std::to_string(i);
      line(to, {{"label", "output " + std::to_string(i)}, {"shape", "ellipse"}, {"style", ""}});
      if (Index const m = g_.producer[v]; m != none<Index> && stage_of_[m] < p_.stages.size())
        edge(id(stage_of_[m], m), to, {});
      else if (g_.from[v] == source::input)
        edge("in" + std::to_string(v), to, {});
    }
  }

  void receive_transfers() {
    received_.resize(p_.stages.size());
    for (auto const& t : p_.transfers) received_[index(t.to)].emplace_back(t.value, index(t.from));
  }

  /// Writes the edges into the nodes of `s`: one for each value that a node reads, and one for each other
  /// node that it must follow.
  void edges_into(std::size_t s) {
    here_.resize(g_.nodes(), p_.stages.size());
    sender_.resize(g_.values(), {p_.stages.size(), 0});
    last_reader_.resize(g_.values(), none<Index>);
    for (Index const n : p_.stages[s].nodes) here_[n] = s;
    for (auto const& [v, from] : received_[s]) sender_[v] = {s, from};
    for (Index const n : p_.stages[s].nodes) {
      for (Index const v : g_.operands[n])
        if (std::exchange(last_reader_[v], n) != n) operand_edge(s, n, v);
      for (Index const m : g_.after[n])
        if (auto const from = here_[m] == s ? s : stage_of_[m]; from < p_.stages.size())
          edge(id(from, m), id(s, n), {{"style", "dashed"}});
    }
    // A replicated node is in several stages, so the readers are reset for the next stage.
    for (Index const n : p_.stages[s].nodes)
      for (Index const v : g_.operands[n]) last_reader_[v] = none<Index>;
  }

  void operand_edge(std::size_t s, Index n, Index v) {
    Index const m = g_.producer[v];
    if (m == none<Index>) {
      if (g_.from[v] == source::input) edge("in" + std::to_string(v), id(s, n), {});
    } else if (here_[m] == s) {
      edge(id(s, m), id(s, n), {});
    } else if (sender_[v].first == s) {
      edge(id(sender_[v].second, m), id(s, n),
           {{"label", size_label(v)}, {"color", "#b4540a"}, {"penwidth", "1.6"}});
    } else if (stage_of_[m] < p_.stages.size()) {
      edge(id(stage_of_[m], m), id(s, n), {{"label", "copied"}, {"style", "dashed"}});
    }
  }

  basic_snapshot_arrays<Index> const& g_;
  basic_plan<Index> const& p_;
  std::size_t clusters_;
  dot_options options_;
  std::string text_;
  std::vector<std::size_t> stage_of_;  // for each node: the first stage that contains it
  std::vector<std::vector<std::pair<Index, std::size_t>>> received_;  // for each stage: values and senders
  std::vector<std::size_t> here_;  // for each node: the last visited stage that contains it
  std::vector<std::pair<std::size_t, std::size_t>> sender_;  // for each value: last receiver, its sender
  std::vector<Index> last_reader_;                           // for each value: the last node that read it
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a graph cut into stages in the DOT language of Graphviz. Each stage has a frame, and edges between
/// stages are labelled with the bytes of their values. Above `collapse_above` nodes, each stage is a single
/// box with the bytes that it holds and sends. Names may contain any bytes. O(V + E).
template <std::unsigned_integral Index>
std::string write_dot(basic_snapshot_arrays<Index> const& g, basic_plan<Index> const& p,
                      dot_options const& options = {}) {
  detail::dot_writer<Index> writer(g, p, p.stages.size(), options);
  return g.nodes() > options.collapse_above ? writer.box_a_stage() : writer.nodes_in_clusters();
}

/// Returns a partitioned graph in the DOT language. The partition need not be valid, so a cycle of parts
/// becomes visible. Nodes without a part are drawn outside the frames. A replicable node is drawn in its own
/// part, with dashed edges to its readers in other parts. O(V + E).
template <std::unsigned_integral Index>
std::string write_dot(basic_snapshot_arrays<Index> const& g, partition const& p,
                      dot_options const& options = {}) {
  auto const sketch = detail::sketch_plan(g, p);
  detail::dot_writer<Index> writer(g, sketch, p.parts, options);
  return g.nodes() > options.collapse_above ? writer.box_a_stage() : writer.nodes_in_clusters();
}

/// Returns an uncut graph in the DOT language, always node by node. O(V + E).
template <std::unsigned_integral Index>
std::string write_dot(basic_snapshot_arrays<Index> const& g, dot_options const& options = {}) {
  auto const whole = detail::sketch_plan(g, partition{std::vector(g.nodes(), no_part), 0});
  return detail::dot_writer<Index>(g, whole, 0, options).nodes_in_clusters();
}

}  // namespace cleave
