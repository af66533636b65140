// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/pipe/pipe_plan.hpp"

/// Routes of values between stages that are not adjacent.
namespace cleave::inline v0_2 {

/// The cost of a message, in any one unit: a fixed part per message and a part per byte.
struct link_cost {
  double message = 0, byte = 1;
};

/// Options of `routes_of`.
struct route_options {
  link_cost next = {};                   ///< cost of a message to the next stage
  link_cost beyond = {};                 ///< cost of a message to any other stage
  std::uint32_t most_hops = 0xffffffff;  ///< a relayed value takes at most this many hops
};

/// The route of a value to its readers. `direct`: the producer sends it to each reader. `relay`: each stage
/// passes it on to the next, including stages that do not read it.
enum class route : std::uint8_t { direct, relay };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a cost is negative or not finite. The witness is the cost.
using route_cost_error = tagged_error<struct route_cost_tag, double>;

/// Returns the first cost that is negative or not finite, if any.
inline std::optional<double> find_route_fault(route_options const& o) {
  for (double const cost : {o.next.message, o.next.byte, o.beyond.message, o.beyond.byte})
    if (!(cost >= 0) || cost > (std::numeric_limits<double>::max)()) return cost;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the cheaper route for each edge of `p`. Ties go to the direct route.
///
/// Inputs of the caller are always sent directly. So are values whose memory is written again later, because
/// a relaying stage could not tell the versions apart. A value of unknown size costs only its messages.
/// O(size of the edges).
/// \throws route_cost_error
template <std::unsigned_integral Index>
std::vector<route> routes_of(basic_snapshot_arrays<Index> const& s, basic_pipe_plan<Index> const& p,
                             route_options const& options = {}) {
  if (auto const cost = detail::find_route_fault(options))
    throw detail::route_cost_error("relay: the cost of a message or byte is " + std::to_string(*cost) +
                                       "; expected a finite number that is not negative",
                                   *cost);
  std::vector<char> rewritten(s.values());  // for each slot: true if it holds several values in turn
  for (std::size_t v = 0; v < s.values(); ++v)
    if (s.latest[s.slot[v]] != v) rewritten[s.slot[v]] = 1;
  std::vector<route> routes;
  for (auto const& e : p.edges) {
    double const bytes = s.bytes.empty() ? 0 : static_cast<double>(s.bytes[e.value]);
    auto const cost = [&](link_cost const& link) { return link.message + link.byte * bytes; };
    double direct = 0;
    std::uint32_t hops = 0;
    for (stage_id const to : e.to) {
      if (to == the_caller || e.from == the_caller) continue;
      auto const distance = index(to) - index(e.from);
      direct += cost(distance == 1 ? options.next : options.beyond);
      hops = distance;
    }
    bool const relays = hops > 1 && hops <= options.most_hops && rewritten[s.slot[e.value]] == 0 &&
                        hops * cost(options.next) < direct;
    routes.push_back(relays ? route::relay : route::direct);
  }
  return routes;
}

/// Returns `p` with relayed edges passed from stage to stage: each stage in between receives the value and
/// outputs it.
/// \param routes one route for each edge of `p`
///
/// O(size of the result).
template <std::unsigned_integral Index>
basic_pipe_plan<Index> relayed(basic_snapshot_arrays<Index> const& s, basic_pipe_plan<Index> p,
                               std::vector<route> const& routes) {
  expects(routes.size() == p.edges.size(), "a route for each edge");
  auto& stages = p.plan.stages;
  std::vector<std::vector<std::pair<Index, stage_id>>> senders(stages.size());  // for each stage: its inputs
  numbering<std::uint64_t, std::uint32_t> given;  // a stage and an input that another stage sends
  std::vector<std::uint32_t> place;               // indexed like `given`: its position in the list of senders
  auto const give = [&](stage_id to, Index v, stage_id from) {
    auto& list = senders[index(to)];
    auto const at = given.insert(std::uint64_t{index(to)} * s.values() + v);
    bool const is_new = at == place.size();
    if (is_new) place.push_back(static_cast<std::uint32_t>(list.size()));
    if (is_new) list.emplace_back(v, from);
    list[place[at]].second = from;
    return is_new;
  };
  for (auto const& t : p.plan.transfers) give(t.to, t.value, t.from);
  for (std::size_t i = 0; i < routes.size(); ++i) {
    auto const& e = p.edges[i];
    auto const readers = e.to.size() - (detail::is_returned(e.to) ? 1 : 0);
    if (routes[i] == route::direct || readers == 0 || e.from == the_caller) continue;
    for (auto at = index(e.from) + 1; at <= index(e.to[readers - 1]); ++at) {
      if (give(stage_id{at}, e.value, stage_id{at - 1})) stages[at].inputs.push_back(e.value);
      if (at - 1 > index(e.from)) stages[at - 1].outputs.push_back(e.value);
    }
  }
  p.plan.transfers.clear();
  for (stage_id const to : p.plan.order)
    for (auto const& [value, from] : senders[index(to)]) p.plan.transfers.push_back({value, from, to});
  p.edges = detail::pipe_edges_of(s, p.plan);
  return p;
}

}  // namespace cleave
