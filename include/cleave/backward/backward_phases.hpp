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

/// A backward pass in two phases. Each edge of the graph runs in one of them, so groups may overlap, and no
/// gradient is counted twice or lost.
namespace cleave::inline v0_2 {

/// The phase in which the gradient of an operand is computed. `both`: in the input phase and again in the
/// weight phase, from gradients that the weight phase has.
enum class edge_phase : std::uint8_t { never, input, weight, both };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the phase of each edge of `next.item` according to `weight_cut_of(g)`. Edges on paths to inputs
/// are in the input phase. Other edges that lead to a parameter are in the weight phase, including those from
/// outputs that do not lead to an input. O(V + E).
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

/// The reason why edge phases are not a complete backward pass.
struct edge_phase_fault {
  enum class kind : std::uint8_t {
    rows,   ///< the number of phases is not the number of edges
    input,  ///< `node` leads to an input, but an edge to it is not in the input phase
    lost,   ///< `node` leads to a parameter, but an edge to it is in no phase
    idle,   ///< an edge of `node` is in a phase but leads to no input and no parameter
    early,  ///< an edge of `node` is in the input phase, but an edge that leads to `node` is not
    mixed   ///< some gradients that arrive at `node` are made in both phases, and some are not
  };
  kind what;
  std::size_t node = none<std::size_t>;

  bool operator==(edge_phase_fault const&) const = default;
};

/// Thrown for phases that lose gradients or use them too early. The witness is the first fault.
using edge_phase_error = witness_error<edge_phase_fault>;

/// The phases in which gradients arrive at each node and in which they are used.
template <std::unsigned_integral Index>
struct arrivals {
  /// Bit `1 << phase` is set if an edge of that phase carries a gradient that originates from an output.
  std::vector<std::uint8_t> in, out;
  std::vector<char> is_output, is_parameter;  ///< `is_parameter` is set only where gradients arrive

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

  /// Returns true if a gradient arrives at `n`.
  bool reached(std::size_t n) const { return is_output[n] || in[n] != 0; }
  static constexpr bool has(std::uint8_t set, edge_phase p) { return (set >> static_cast<int>(p) & 1) != 0; }

  /// Returns true if the input phase leaves a gradient at `n` that the weight phase needs.
  bool saved(std::size_t n) const {
    bool const needed = is_parameter[n] || has(out[n], edge_phase::weight) || has(out[n], edge_phase::both);
    return needed && (is_output[n] || has(in[n], edge_phase::input));
  }
};

/// Returns the first fault of the phases, or nothing. O(V + E).
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

/// Returns one sentence that uses the names of the graph.
template <std::unsigned_integral Index>
std::string edge_phase_fault_text(basic_backward_graph<Index> const& g, edge_phase_fault const& f) {
  using enum edge_phase_fault::kind;
  auto const node = f.what == rows ? std::string() : "node " + g.label(f.node);
  switch (f.what) {
    case input:
      return node + " leads to an input; all edges to it must be in the input phase";
    case lost:
      return node + " leads to a parameter; every edge to it must run in a phase";
    case idle:
      return "an edge of " + node +
             " leads to no input and no parameter; its phase must be edge_phase::never";
    case early:
      return "the input phase uses the gradient at " + node +
             ", but a part of it arrives only in the weight phase";
    case mixed:
      return "of the edges to " + node + " either all must be in both phases, or none";
    case rows:
      break;
  }
  return "there must be one phase for each of the " + std::to_string(g.next.item.size()) + " edges";
}

/// Checks the phases.
/// \throws backward_graph_error, edge_phase_error
template <std::unsigned_integral Index>
void check_edge_phases(basic_backward_graph<Index> const& g, std::vector<edge_phase> const& phases) {
  if (auto const f = find_edge_phase_fault(g, phases))
    throw edge_phase_error("edge phases: " + edge_phase_fault_text(g, *f), *f);
}

}  // namespace cleave::detail

/// Orders the steps of a backward pass in two phases.
namespace cleave::inline v0_2 {

/// A step that computes the gradient of one operand of a node from the gradient that has arrived there. The
/// result is added to the gradient at the target of its edge.
template <std::unsigned_integral Index>
struct edge_step {
  Index node, operand;

  bool operator==(edge_step const&) const = default;
};

/// Steps of the weight phase that share no data with other units. The unit can run at any time after `ready`.
template <std::unsigned_integral Index>
struct weight_unit {
  std::vector<edge_step<Index>> steps;
  /// Nodes, ascending. The gradients that have arrived there at the end of the input phase, including those
  /// of the caller, are the initial gradients of the unit.
  std::vector<Index> saved;
  std::vector<Index> parameters;  ///< ascending; the gradients that have arrived there at the end are the
                                  ///< parameters' gradients
  std::size_t ready = 0;          ///< number of steps of the input phase that must run before the unit
  std::size_t bytes = 0;          ///< bytes of the saved activations; 0 if unknown

  /// Returns the smallest node in `saved` and `parameters`.
  Index first_node() const {
    if (saved.empty() || parameters.empty()) return saved.empty() ? parameters.front() : saved.front();
    return (std::min)(saved.front(), parameters.front());
  }
  bool operator==(weight_unit const&) const = default;
};

/// The steps of both phases. The caller's gradients must arrive at the outputs before the input phase. After
/// the input phase, the gradients at the inputs are complete.
template <std::unsigned_integral Index>
struct basic_backward_phases {
  std::vector<edge_step<Index>> input;     ///< steps of the input phase, in order
  std::vector<weight_unit<Index>> weight;  ///< units that are ready earlier come first
  std::vector<Index> unused;               ///< parameters that no output leads to; they have no gradient
  std::size_t bytes = 0;                   ///< bytes of all saved activations
};

using backward_phases = basic_backward_phases<std::uint32_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Orders the steps of the phases. Helper of `backward_phases_of`.
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
  /// Calls `f` with the operand, the target and the phase of each edge of `n`.
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

  /// Lists the units in the order of their first nodes.
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
  disjoint_sets<Index> sets_;      // sets of nodes that the weight phase connects
  std::vector<std::size_t> last_;  // for each node: steps of the input phase until its gradient is complete
  std::vector<Index> unit_of_;     // for each set
  basic_backward_phases<Index> result_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the steps of both phases for the given edge phases. Unless the phases overlap in time, the weight
/// phase needs, in addition to the saved activations, all data that operations kept for their backward pass.
/// O((V + E) log V).
///
/// \throws backward_graph_error, edge_phase_error
template <std::unsigned_integral Index>
basic_backward_phases<Index> backward_phases_of(basic_backward_graph<Index> const& g,
                                                std::vector<edge_phase> const& phases) {
  detail::check_edge_phases(g, phases);
  return detail::backward_phase_maker<Index>(g, phases).make();
}

/// Returns the steps of both phases, cut as in `weight_cut_of`. If the inputs of the stage need no gradient,
/// all steps are in the weight phase, and the saved activations are the output gradients. O((V + E) log V).
///
/// \throws backward_graph_error
template <std::unsigned_integral Index>
basic_backward_phases<Index> backward_phases_of(basic_backward_graph<Index> const& g) {
  auto const phases = detail::edge_phases_of(g);
  return detail::backward_phase_maker<Index>(g, phases).make();
}

}  // namespace cleave
