// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/backward_phases.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/flow/local_flow.hpp"

/// Chooses the gradients that are kept between the two phases of a backward pass, so that they take few
/// bytes. Gradients grow and shrink along their paths. `weight_cut_of` keeps them where they leave the input
/// path, which need not be the place where they are smallest.
namespace cleave::inline v0_2 {

/// The deviations from the rule of `weight_cut_of` that the search may use to save fewer bytes.
enum class saved_reach : std::uint8_t {
  early,  ///< edges of the weight phase may run in the input phase
  again,  ///< edges of the input phase may run once more in the weight phase
  both
};

/// Options of `min_saved_activations`.
struct saved_options {
  saved_reach reach = saved_reach::early;
  /// Bytes per unit of cost, at least 0. The search minimises the saved bytes plus this price times the cost
  /// of the edges that run early or again.
  double bytes_per_cost = 0;
  std::size_t steps = 50'000'000;  ///< limit of the search; 0: no search, the cut follows the rule
};

/// The result of `min_saved_activations`.
struct saved_choice {
  std::vector<edge_phase> phases;  ///< one for each edge, for `backward_phases_of`
  std::size_t bytes = 0;           ///< of the saved activations
  double cost = 0;                 ///< of the edges that run early or again; 0 if unknown
  bool least = false;              ///< true if no allowed choice is better; false if the search was cut short
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for options that the search cannot use.
class saved_options_error : public error {
 public:
  using error::error;
};

/// Returns the nodes, ascending, at which the input phase leaves gradients for the weight phase. O(V + E).
/// \pre the phases have no edge phase fault
template <std::unsigned_integral Index>
std::vector<Index> saved_nodes(basic_backward_graph<Index> const& g, std::vector<edge_phase> const& phases) {
  arrivals<Index> const a(g, phases);
  std::vector<Index> nodes;
  for (std::size_t n = 0; n < g.nodes(); ++n)
    if (a.saved(n)) nodes.push_back(static_cast<Index>(n));
  return nodes;
}

/// Finds the phases with the fewest saved bytes. Helper of `min_saved_activations`.
///
/// The solution is a minimum cut of a network whose source side is the input phase (Picard, Management
/// Science 22(11), 1976). A graph node is a network node, on the sink side if the weight phase needs its
/// gradient. A weight edge is a network node too, on the sink side if it runs in the weight phase. A graph
/// node on an input path has a second network node, on the sink side if its gradient is made again.
template <std::unsigned_integral Index>
class saved_search {
 public:
  saved_search(basic_backward_graph<Index> const& g, saved_options const& o)
      : g_(g),
        options_(o),
        phases_(edge_phases_of(g)),
        arrivals_(g, phases_),
        leads_(backward_reachable(gradient_senders(g), g.parameters)) {}

  saved_choice search() && {
    auto rule = choice(phases_);
    if (options_.steps == 0 || !set_scale()) return rule;
    local_flow flow(number_places());
    add_arcs(flow);
    flow.most(source, sink, options_.steps, options_.steps / (1 + g_.next.item.size()) + 1);
    if (flow.reached(sink)) return rule;
    auto best = choice(read_off(flow));
    best.least = true;
    return best;
  }

 private:
  static constexpr std::uint32_t source = 0, sink = 1;
  bool may(saved_reach r) const { return options_.reach == r || options_.reach == saved_reach::both; }
  bool is_input(std::size_t e) const { return phases_[e] == edge_phase::input; }
  bool is_weight(std::size_t e) const { return phases_[e] == edge_phase::weight; }

  /// Returns true if the gradient at `n` may be made again: `n` lies on an input path and leads to a
  /// parameter, and the caller adds no gradient to it.
  bool repeatable(std::size_t n) const {
    return may(saved_reach::again) && !arrivals_.is_output[n] && leads_[n] &&
           arrivals<Index>::has(arrivals_.in[n], edge_phase::input);
  }

  double cost(std::size_t e) const { return g_.cost.empty() ? 0.0 : g_.cost[e]; }

  /// Chooses the capacity of one byte. Each edge that runs early or again costs one extra unit of capacity,
  /// which breaks ties in favour of fewer such edges. If the numbers leave no room for this, ties are not
  /// broken. Returns false if the capacities do not fit at all.
  bool set_scale() {
    double total = 1;
    for (auto const b : g_.bytes) total += static_cast<double>(b);
    for (std::size_t e = 0; e < g_.next.item.size(); ++e) total += options_.bytes_per_cost * cost(e);
    auto const edges = static_cast<double>(g_.next.item.size()) + 1;
    if (!(total * 2 < 0x1p60)) return false;
    scale_ = total * edges * 2 < 0x1p60 ? g_.next.item.size() + 1 : 1;
    return true;
  }
  std::int64_t bytes(std::size_t n) const { return static_cast<std::int64_t>(g_.bytes[n] * scale_); }
  std::int64_t price(std::size_t e) const {
    return rounded(options_.bytes_per_cost * cost(e) * static_cast<double>(scale_)) + (scale_ > 1 ? 1 : 0);
  }

  std::size_t number_places() {
    std::uint32_t last = sink;
    auto const place = [&] { return last = narrow<std::uint32_t>(last + std::size_t{1}); };
    kept_.assign(g_.nodes(), 0);
    again_ = partial_ = complete_ = kept_;
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (!leads_[n] || !arrivals_.reached(n)) continue;
      kept_[n] = place();
      if (repeatable(n)) again_[n] = place();
      if (!arrivals<Index>::has(arrivals_.in[n], edge_phase::weight)) continue;
      partial_[n] = place();
      complete_[n] = place();
    }
    edge_.assign(g_.next.item.size(), 0);
    for (std::size_t e = 0; e < edge_.size(); ++e)
      if (is_weight(e)) edge_[e] = place();
    return last + std::size_t{1};
  }

  void add_arcs(local_flow& flow) const {
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (kept_[n] == 0) continue;
      if (arrivals_.is_parameter[n]) flow.arc(kept_[n], sink, unreachable_load);
      if (partial_[n] != 0) {  // saved if the weight phase needs it and an edge to it ran early
        flow.arc(partial_[n], kept_[n], bytes(n));
        if (arrivals_.is_output[n]) flow.arc(source, partial_[n], unreachable_load);
      } else {
        flow.arc(again_[n] != 0 ? again_[n] : source, kept_[n], bytes(n));
      }
      for (std::size_t e = g_.next.first[n]; e < g_.next.first[n + 1]; ++e)
        if (Index const to = g_.next.item[e].to; is_weight(e))
          add_weight_edge(flow, e, n, to);
        else if (to != none<Index> && again_[to] != 0) {
          flow.arc(source, again_[to], price(e));
          flow.arc(kept_[n], again_[to], unreachable_load);
        }
    }
  }

  void add_weight_edge(local_flow& flow, std::size_t e, std::size_t n, Index to) const {
    flow.arc(kept_[n], edge_[e], unreachable_load);  // a later edge needs the gradients of its node
    flow.arc(edge_[e], partial_[to], unreachable_load);
    if (!may(saved_reach::early)) flow.arc(edge_[e], sink, unreachable_load);
    flow.arc(edge_[e], sink, price(e));
    if (complete_[n] != 0) flow.arc(edge_[e], complete_[n], unreachable_load);  // early: needs them all
    flow.arc(complete_[to], edge_[e], unreachable_load);
  }

  std::vector<edge_phase> read_off(local_flow const& flow) const {
    auto phases = phases_;
    for (std::size_t e = 0; e < phases.size(); ++e) {
      if (is_weight(e) && flow.reached(edge_[e])) phases[e] = edge_phase::input;
      if (Index const to = g_.next.item[e].to; is_input(e) && again_[to] != 0)
        if (!flow.reached(again_[to]) && !flow.reached(kept_[to])) phases[e] = edge_phase::both;
    }
    return phases;
  }

  saved_choice choice(std::vector<edge_phase> phases) const {
    saved_choice c;
    if (!g_.bytes.empty())
      for (Index const n : saved_nodes(g_, phases)) c.bytes += g_.bytes[n];
    for (std::size_t e = 0; e < phases.size(); ++e)
      if (phases[e] != phases_[e]) c.cost += cost(e);
    c.phases = std::move(phases);
    return c;
  }

  basic_backward_graph<Index> const& g_;
  saved_options options_;
  std::vector<edge_phase> phases_;  // by the rule of `weight_cut_of`
  arrivals<Index> arrivals_;        // for these phases
  std::vector<char> leads_;         // for each node: true if it leads to a parameter
  std::size_t scale_ = 1;
  // Nodes of the network. The value 0, which is the source, marks a missing node.
  std::vector<std::uint32_t> kept_, again_, partial_, complete_;  // for each node of the graph
  std::vector<std::uint32_t> edge_;                               // for each weight edge
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the edge phases with the fewest bytes of saved activations. Ties go to the phases with the fewest
/// edges that run early or again. Costs count as `bytes_per_cost` bytes per unit.
///
/// With a price of 0, `early` may run all but the last step of a weight's gradient in the input phase. The
/// reason is that a weight is often smaller than the gradient that arrives at its operation. A positive price
/// leaves work that can fill bubbles. The gradient that arrives at a parameter always waits for the weight
/// phase.
///
/// The result is a minimum cut, found in at most O(steps). If the search is cut short, the phases by the rule
/// of `weight_cut_of` are returned.
///
/// \throws backward_graph_error; saved_options_error if bytes are unknown, if `bytes_per_cost` is positive
/// and costs are unknown, or if it is negative or not finite
template <std::unsigned_integral Index>
saved_choice min_saved_activations(basic_backward_graph<Index> const& g, saved_options const& o = {}) {
  detail::check_backward_graph(g);
  if (!is_finite(o.bytes_per_cost) || o.bytes_per_cost < 0)
    throw detail::saved_options_error(
        "smallest saved activations: bytes_per_cost must be finite and not negative");
  if (g.bytes.empty() && g.nodes() > 0)
    throw detail::saved_options_error(
        "smallest saved activations: the sizes are unknown; set the bytes that arrive at each node");
  if (o.bytes_per_cost > 0 && g.cost.empty() && !g.next.item.empty())
    throw detail::saved_options_error(
        "smallest saved activations: bytes_per_cost needs a cost for each edge");
  return detail::saved_search<Index>(g, o).search();
}

}  // namespace cleave
