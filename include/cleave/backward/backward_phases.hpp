// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/core/error.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/disjoint_sets.hpp"

/// A backward pass in two phases that together are the whole: each edge of the graph runs in one of them, so
/// that it does not matter where groups overlap, and no gradient is counted twice or lost.
namespace cleave {

/// When the gradient of an operand is made. `both`: again in the weight phase, from what that has.
enum class edge_phase : std::uint8_t { never, input, weight, both };

}  // namespace cleave

namespace cleave::detail {

/// The phases of the edges of `next.item` for `weight_cut_of(g)`: the input phase has the paths to inputs,
/// the weight phase all else that leads to a parameter, from outputs off these paths too. O(V + E).
///
/// \throws backward_graph_error
template <std::unsigned_integral Index>
std::vector<edge_phase> edge_phases_of(basic_backward_graph<Index> const& g) {
  check_backward_graph(g);
  auto const senders = gradient_senders(g);
  auto const on_path = backward_reachable(senders, g.inputs);
  auto const leads = backward_reachable(senders, g.parameters);
  std::vector<edge_phase> phases(g.next.item.size());
  for (Index const n : reached_by_gradients(g))
    for (std::size_t i = g.next.first[n]; i < g.next.first[n + std::size_t{1}]; ++i)
      if (Index const to = g.next.item[i].to; to != none<Index>)
        phases[i] = on_path[to] ? edge_phase::input : leads[to] ? edge_phase::weight : edge_phase::never;
  return phases;
}

/// Why phases of edges are not those of a whole backward pass.
struct edge_phase_fault {
  enum class kind : std::uint8_t {
    rows,   ///< there is not one phase for each edge
    input,  ///< `node` leads to an input, and an edge to it is not in the input phase
    lost,   ///< `node` leads to a parameter, and an edge to it is in no phase
    idle,   ///< an edge of `node` leads to no input and no parameter, and is in a phase
    early,  ///< an edge of `node` is in the input phase and one that leads to it is not
    mixed   ///< of what arrives at `node` some is made in both phases and some is not
  };
  kind what;
  std::size_t node = none<std::size_t>;

  bool operator==(edge_phase_fault const&) const = default;
};

/// Phases that lose gradients or use them too early. The witness: the first fault.
using edge_phase_error = witness_error<edge_phase_fault>;

/// Of each node, how gradients arrive there and what is made of them, by edge phases.
template <std::unsigned_integral Index>
struct arrivals {
  /// Bit `1 << phase` is set where an edge that comes from an output has that phase.
  std::vector<std::uint8_t> in, out;
  std::vector<char> is_output, is_parameter;  ///< a parameter only where gradients arrive

  arrivals(basic_backward_graph<Index> const& g, std::vector<edge_phase> const& phases)
      : in(g.nodes()), out(g.nodes()), is_output(g.nodes()), is_parameter(g.nodes()) {
    for (Index const n : g.outputs) is_output[n] = 1;
    for (Index const n : reached_by_gradients(g))
      for (std::size_t i = g.next.first[n]; i < g.next.first[n + std::size_t{1}]; ++i)
        if (Index const to = g.next.item[i].to; to != none<Index>) {
          auto const bit = static_cast<std::uint8_t>(1 << static_cast<int>(phases[i]));
          out[n] |= bit;
          in[to] |= bit;
        }
    for (Index const p : g.parameters) is_parameter[p] = reached(p);
  }

  bool reached(std::size_t n) const { return is_output[n] || in[n] != 0; }
  static constexpr bool has(std::uint8_t set, edge_phase p) { return (set >> static_cast<int>(p) & 1) != 0; }

  /// Whether the weight phase begins with what the input phase has left at `n`.
  bool saved(std::size_t n) const {
    bool const needed = is_parameter[n] || has(out[n], edge_phase::weight) || has(out[n], edge_phase::both);
    return needed && (is_output[n] || has(in[n], edge_phase::input));
  }
};

/// The first node at which phases are not those of a whole backward pass, or nothing. O(V + E).
template <std::unsigned_integral Index>
std::optional<edge_phase_fault> find_edge_phase_fault(basic_backward_graph<Index> const& g,
                                                      std::vector<edge_phase> const& phases) {
  using enum edge_phase_fault::kind;
  if (phases.size() != g.next.item.size()) return edge_phase_fault{rows};
  auto const due = edge_phases_of(g);
  arrivals<Index> const a(g, phases);
  auto const has = arrivals<Index>::has;
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (has(a.in[n], edge_phase::both) && (a.is_output[n] || has(a.in[n], edge_phase::input)))
      return edge_phase_fault{mixed, n};
    bool const used = has(a.out[n], edge_phase::input) || has(a.out[n], edge_phase::both);
    if (used && has(a.in[n], edge_phase::weight)) return edge_phase_fault{early, n};
    for (std::size_t i = g.next.first[n]; i < g.next.first[n + 1]; ++i) {
      if (due[i] == edge_phase::input && phases[i] != edge_phase::input && phases[i] != edge_phase::both)
        return edge_phase_fault{input, g.next.item[i].to};
      if (due[i] == edge_phase::never && phases[i] != edge_phase::never) return edge_phase_fault{idle, n};
      if (due[i] == edge_phase::weight && phases[i] == edge_phase::never)
        return edge_phase_fault{lost, g.next.item[i].to};
    }
  }
  return std::nullopt;
}

/// One sentence, in the names of the graph.
template <std::unsigned_integral Index>
std::string edge_phase_fault_text(basic_backward_graph<Index> const& g, edge_phase_fault const& f) {
  using enum edge_phase_fault::kind;
  auto const node = f.what == rows ? std::string() : "node " + g.label(f.node);
  switch (f.what) {
    case input:
      return node + " leads to an input; all edges to it must be in the input phase";
    case lost:
      return node + " leads to a parameter; no edge to it may be left out of both phases";
    case idle:
      return "an edge of " + node + " leads gradients to no input and no parameter; it belongs to no phase";
    case early:
      return "the input phase uses what arrives at " + node +
             ", but some of it only arrives in the weight phase";
    case mixed:
      return "of what arrives at " + node + " either all edges are in both phases, or none";
    case rows:
      break;
  }
  return "there must be one phase for each of the " + std::to_string(g.next.item.size()) + " edges";
}

/// \throws backward_graph_error, edge_phase_error
template <std::unsigned_integral Index>
void check_edge_phases(basic_backward_graph<Index> const& g, std::vector<edge_phase> const& phases) {
  if (auto const f = find_edge_phase_fault(g, phases))
    throw edge_phase_error("edge phases: " + edge_phase_fault_text(g, *f), *f);
}

}  // namespace cleave::detail

/// The steps of a backward pass in two phases, in an order in which they can run.
namespace cleave {

/// Makes the gradient of one operand from what has arrived at the node, and adds it to what has arrived where
/// its edge leads.
template <std::unsigned_integral Index>
struct edge_step {
  Index node, operand;

  bool operator==(edge_step const&) const = default;
};

/// Steps of the weight phase that share nothing with others: it can run at any time after `ready`.
template <std::unsigned_integral Index>
struct weight_unit {
  std::vector<edge_step<Index>> steps;
  /// Nodes, ascending: what has arrived there when the input phase ends, the caller's gradients included, is
  /// what has arrived there when the unit begins.
  std::vector<Index> saved;
  std::vector<Index> parameters;  ///< ascending; what has arrived there at the end is theirs
  std::size_t ready = 0;          ///< how many steps of the input phase it must wait for
  std::size_t bytes = 0;          ///< of the saved activations; 0 if unknown

  /// The smallest number that its lists have.
  Index first_node() const {
    if (saved.empty() || parameters.empty()) return saved.empty() ? parameters.front() : saved.front();
    return (std::min)(saved.front(), parameters.front());
  }
  bool operator==(weight_unit const&) const = default;
};

/// What to run. The caller's gradients arrive at the outputs before the input phase; what has arrived at the
/// inputs after it is theirs.
template <std::unsigned_integral Index>
struct basic_backward_phases {
  std::vector<edge_step<Index>> input;
  std::vector<weight_unit<Index>> weight;  ///< the first that are ready come first
  std::vector<Index> unused;               ///< parameters that no output leads to: they have no gradient
  std::size_t bytes = 0;                   ///< of all saved activations
};

using backward_phases = basic_backward_phases<std::uint32_t>;

}  // namespace cleave

namespace cleave::detail {

/// Lays out the phases; `backward_phases_of` is its one use.
template <std::unsigned_integral Index>
class backward_phase_maker {
 public:
  backward_phase_maker(basic_backward_graph<Index> const& g, std::vector<edge_phase> const& phases)
      : g_(g), phases_(phases), arrivals_(g, phases), sets_(g.nodes()) {}

  basic_backward_phases<Index> make() && {
    auto const order = gradient_order(g_);
    run_input_phase(order);
    list_units();
    for (Index const n : order)
      each_edge(n, [&](Index operand, Index, edge_phase p) {
        if (p == edge_phase::weight || p == edge_phase::both) unit(n).steps.push_back({n, operand});
      });
    std::ranges::sort(result_.weight, {}, [](auto const& u) { return std::pair(u.ready, u.first_node()); });
    return std::move(result_);
  }

 private:
  /// Calls `f` with the operand, the end and the phase of each edge of `n`.
  template <class F>
  void each_edge(Index n, F f) {
    if (!arrivals_.reached(n)) return;
    auto const first = g_.next.first[n];
    for (std::size_t i = first; i < g_.next.first[n + std::size_t{1}]; ++i)
      if (Index const to = g_.next.item[i].to; to != none<Index>)
        f(static_cast<Index>(i - first), to, phases_[i]);
  }

  weight_unit<Index>& unit(std::size_t n) { return result_.weight[unit_of_[sets_[n]]]; }

  void run_input_phase(std::vector<Index> const& order) {
    last_.resize(g_.nodes());
    for (Index const n : order)
      each_edge(n, [&](Index operand, Index to, edge_phase p) {
        if (p == edge_phase::input || p == edge_phase::both) {
          result_.input.push_back({n, operand});
          last_[to] = result_.input.size();
        }
        if (p == edge_phase::weight || p == edge_phase::both) sets_.join(n, to);
      });
  }

  /// Units in the order of their first nodes.
  void list_units() {
    unit_of_.assign(g_.nodes(), none<Index>);
    for (Index const p : g_.parameters)
      if (!arrivals_.is_parameter[p]) result_.unused.push_back(p);
    std::ranges::sort(result_.unused);
    result_.unused.erase(std::ranges::unique(result_.unused).begin(), result_.unused.end());
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      bool const saved = arrivals_.saved(n);
      if (!saved && !arrivals_.is_parameter[n]) continue;
      if (auto& u = unit_of_[sets_[n]]; u == none<Index>) {
        u = static_cast<Index>(result_.weight.size());
        result_.weight.emplace_back();
      }
      auto& u = unit(n);
      if (arrivals_.is_parameter[n]) u.parameters.push_back(static_cast<Index>(n));
      if (!saved) continue;
      u.saved.push_back(static_cast<Index>(n));
      u.ready = (std::max)(u.ready, last_[n]);
      if (!g_.bytes.empty()) u.bytes += g_.bytes[n], result_.bytes += g_.bytes[n];
    }
  }

  basic_backward_graph<Index> const& g_;
  std::vector<edge_phase> const& phases_;
  arrivals<Index> arrivals_;
  disjoint_sets<Index> sets_;      // of nodes that the weight phase connects
  std::vector<std::size_t> last_;  // of a node: steps of the input phase until all has arrived
  std::vector<Index> unit_of_;     // of a set
  basic_backward_phases<Index> result_;
};

}  // namespace cleave::detail

namespace cleave {

/// The steps of both phases, for phases of edges that were chosen. Without overlap in time the weight phase
/// needs, beside the saved activations, all that the operations kept for their backward run. O((V + E) log
/// V).
///
/// \throws backward_graph_error, edge_phase_error
template <std::unsigned_integral Index>
basic_backward_phases<Index> backward_phases_of(basic_backward_graph<Index> const& g,
                                                std::vector<edge_phase> const& phases) {
  detail::check_edge_phases(g, phases);
  return detail::backward_phase_maker<Index>(g, phases).make();
}

/// The steps of both phases, cut as `weight_cut_of` does. A stage whose inputs need no gradient has all in
/// the weight phase, with its output gradients as saved activations.
///
/// \throws backward_graph_error
template <std::unsigned_integral Index>
basic_backward_phases<Index> backward_phases_of(basic_backward_graph<Index> const& g) {
  auto const phases = detail::edge_phases_of(g);
  return detail::backward_phase_maker<Index>(g, phases).make();
}

}  // namespace cleave
