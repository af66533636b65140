// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/edge_phases.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/joined_sets.hpp"

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
  std::vector<Index> stash;
  std::vector<Index> parameters;  ///< ascending; what has arrived there at the end is theirs
  std::size_t ready = 0;          ///< how many steps of the input phase it must wait for
  std::size_t bytes = 0;          ///< of the stash; 0 if unknown

  /// The smallest number that its lists have.
  Index first_node() const {
    if (stash.empty() || parameters.empty()) return stash.empty() ? parameters.front() : stash.front();
    return (std::min)(stash.front(), parameters.front());
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
  std::size_t bytes = 0;                   ///< of all stashes
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
      bool const stashed = arrivals_.stashed(n);
      if (!stashed && !arrivals_.is_parameter[n]) continue;
      if (auto& u = unit_of_[sets_[n]]; u == none<Index>) {
        u = static_cast<Index>(result_.weight.size());
        result_.weight.emplace_back();
      }
      auto& u = unit(n);
      if (arrivals_.is_parameter[n]) u.parameters.push_back(static_cast<Index>(n));
      if (!stashed) continue;
      u.stash.push_back(static_cast<Index>(n));
      u.ready = (std::max)(u.ready, last_[n]);
      if (!g_.bytes.empty()) u.bytes += g_.bytes[n], result_.bytes += g_.bytes[n];
    }
  }

  basic_backward_graph<Index> const& g_;
  std::vector<edge_phase> const& phases_;
  arrivals<Index> arrivals_;
  joined_sets<Index> sets_;        // of nodes that the weight phase connects
  std::vector<std::size_t> last_;  // of a node: steps of the input phase until all has arrived
  std::vector<Index> unit_of_;     // of a set
  basic_backward_phases<Index> result_;
};

}  // namespace cleave::detail

namespace cleave {

/// The steps of both phases, for phases of edges that were chosen. Without overlap in time the weight phase
/// needs, beside the stash, all that the operations kept for their backward run. O((V + E) log V).
///
/// \throws backward_graph_error, edge_phase_error
template <std::unsigned_integral Index>
basic_backward_phases<Index> backward_phases_of(basic_backward_graph<Index> const& g,
                                                std::vector<edge_phase> const& phases) {
  detail::check_edge_phases(g, phases);
  return detail::backward_phase_maker<Index>(g, phases).make();
}

/// The steps of both phases, cut as `weight_cut_of` does. A stage whose inputs need no gradient has all in
/// the weight phase, with its output gradients as stash.
///
/// \throws backward_graph_error
template <std::unsigned_integral Index>
basic_backward_phases<Index> backward_phases_of(basic_backward_graph<Index> const& g) {
  auto const phases = detail::edge_phases_of(g);
  return detail::backward_phase_maker<Index>(g, phases).make();
}

}  // namespace cleave
