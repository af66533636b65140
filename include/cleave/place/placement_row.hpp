// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/model/unit_row.hpp"

namespace cleave::inline v0_2 {

/// The cost of the units of a row that are of one kind of operation.
struct cost_of_kind {
  std::string kind = {};
  std::vector<stage_cost> cost = {};  ///< prefix sums, as those of `unit_row`
};

/// A row of units that is to be cut into stages for devices. A device runs `units.cost` at its speed, and the
/// cost of each kind at its speed for that kind. `units.crossing` has the bytes of all values that are made
/// before a place and read after it: each stage passes them on to the next.
struct placement_row {
  unit_row units = {};
  std::vector<cost_of_kind> kinds = {};
  std::vector<std::uint32_t> first_node =
      {};  ///< of a graph: the position of the first node behind each place
};

/// Says how the nodes of a graph become a row. Lists with an entry per node may be empty.
struct placement_row_options {
  double backward = 0;  ///< cost of a backward pass, as a multiple of that of the forward pass; 0: inference
  double state_copies =
      1;  ///< bytes held for each byte of state: 4 for weights, gradients and two moments of Adam
  std::vector<std::string> kind = {};  ///< per node: its kind of operation; empty text for none
  std::vector<std::uint64_t> resident =
      {};  ///< per node: bytes held in addition to its state, as a cache of keys
  std::vector<std::uint64_t> saved = {};  ///< per node: bytes kept for its backward pass, per microbatch; if
  ///< empty, those of its operands that are not state, each with its first reader
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first invalid option of a row as a sentence, or an empty text.
inline std::string find_row_option_fault(placement_row_options const& o, std::size_t nodes) {
  if (!(o.backward >= 0 && o.backward <= 1e6)) return "`backward` must be a number from 0 to 1e6";
  if (!(o.state_copies >= 0 && o.state_copies <= 1e6)) return "`state_copies` must be a number from 0 to 1e6";
  auto const fault = [&](char const* name, std::size_t size) -> std::string {
    if (size == 0 || size == nodes) return {};
    return "`" + std::string(name) + "` has " + std::to_string(size) + " entries, but the graph has " +
           std::to_string(nodes) + " nodes";
  };
  for (auto const& text :
       {fault("kind", o.kind.size()), fault("resident", o.resident.size()), fault("saved", o.saved.size())})
    if (!text.empty()) return text;
  return {};
}

/// Returns a sum of bytes that stays at the largest number instead of running over.
constexpr std::uint64_t bounded_sum(std::uint64_t a, std::uint64_t b) {
  return a + b < a ? ~std::uint64_t{0} : a + b;
}
/// Returns a · b, or the largest number if it is more.
constexpr std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b) {
  return b > 0 && a > ~std::uint64_t{0} / b ? ~std::uint64_t{0} : a * b;
}

/// Makes the row of a graph. O(V + E).
template <std::unsigned_integral Index>
placement_row row_of_arrays(basic_snapshot_arrays<Index> const& g, placement_row_options const& o) {
  auto const n = g.nodes();
  expects(g.weight.size() == n, "a graph whose nodes have weights");
  if (auto const fault = find_row_option_fault(o, n); !fault.empty()) throw error("place: " + fault);
  if (n == 0) throw error("place: the graph has no nodes; there is nothing to place");
  auto const bytes_of = [&](std::size_t v) { return g.bytes.empty() ? 0 : std::uint64_t{g.bytes[v]}; };
  auto const state_bytes = [&](std::size_t v) {
    return static_cast<std::uint64_t>((std::min)(static_cast<double>(bytes_of(v)) * o.state_copies, 0x1p63));
  };

  // State, what is made of it alone, which each stage makes for itself, and what runs leave for the next one.
  auto const is_carried = [&](std::size_t v) { return v < g.carried.size() && g.carried[v] != none<Index>; };
  auto const stays = [&](std::size_t v) {
    return is_held(g.from[v]) || is_carried(v) ||
           (g.producer[v] != none<Index> && is_replicable(g, g.producer[v]));
  };

  placement_row made;
  auto& row = made.units;
  row.cost.assign(n + 1, {.forward = 0, .backward = 0, .input_gradient = 0, .weight_gradient = 0});
  row.bytes.assign(n + 1, {.saved = 0, .saved_for_weights = 0, .input = 0});
  row.resident.assign(n + 1, 0);
  row.crossing.assign(n + 1, {});
  std::map<std::string, std::size_t> number_of_kind;
  for (auto const& kind : o.kind)
    if (!kind.empty() && number_of_kind.emplace(kind, made.kinds.size()).second)
      made.kinds.push_back({kind, row.cost});

  std::vector<char> is_counted(g.values());
  for (std::size_t i = 0; i < n; ++i) {
    auto const weight = g.weight[i];
    if (!(weight >= 0 && weight <= longest_cost))
      throw error("place: the weight of node " + g.label(i) + " is " + std::to_string(weight) +
                  ": it must be a number from 0 to 1e100");
    auto const kind = o.kind.empty() ? std::string() : o.kind[i];
    for (auto& k : made.kinds) k.cost[i + 1] = k.cost[i];
    row.cost[i + 1] = row.cost[i];
    auto& sum = kind.empty() ? row.cost[i + 1] : made.kinds[number_of_kind[kind]].cost[i + 1];
    sum.forward += weight;
    sum.backward += weight * o.backward;

    std::uint64_t resident = o.resident.empty() ? 0 : o.resident[i], saved = 0;
    for (auto const v : g.operands[i]) {
      if (is_counted[v]) continue;
      is_counted[v] = 1;
      auto& kept = stays(v) ? resident : saved;
      kept = bounded_sum(kept, stays(v) && !is_carried(v) ? state_bytes(v) : bytes_of(v));
    }
    if (!o.saved.empty()) saved = o.saved[i];
    if (o.backward == 0 && o.saved.empty()) saved = 0;
    row.resident[i + 1] = bounded_sum(row.resident[i], resident);
    row.bytes[i + 1].saved = bounded_sum(row.bytes[i].saved, saved);
  }

  // The places that a value crosses lie between its producer and its last reader.
  std::vector<std::uint64_t> begins(n + 2), ends(n + 2);
  std::vector<std::int64_t> closed(n + 2);  // changes of the number of reasons not to cut at a place
  auto const close = [&](std::size_t first, std::size_t last) { ++closed[first], --closed[last + 1]; };
  std::uint64_t all = 0;
  for (std::size_t v = 0; v < g.values(); ++v) {
    if (stays(v) || g.users[v].empty()) continue;
    all = bounded_sum(all, bytes_of(v));
    if (all > std::uint64_t{1} << 62) throw error("place: the values of the graph have more than 2^62 bytes");
    std::size_t const first = g.producer[v] == none<Index> ? 0 : g.producer[v] + std::size_t{1};
    std::size_t last = first;
    for (auto const u : g.users[v]) last = (std::max)(last, std::size_t{u});
    if (last < first) continue;
    if (v < g.portable.size() && g.portable[v] == 0) close(first, last);
    begins[first] += bytes_of(v);
    ends[last + 1] += bytes_of(v);
  }
  std::vector<std::size_t> last_of(n);  // of the first node of a group: the last
  for (std::size_t i = 0; i < g.group.size(); ++i) last_of[g.group[i]] = i;
  for (std::size_t i = 0; i < g.group.size(); ++i)
    if (last_of[i] > i) close(i + 1, last_of[i]);

  std::uint64_t alive = 0;
  std::int64_t reasons = 0;
  std::vector<std::size_t> kept;  // places where the row may be cut
  for (std::size_t place = 0; place <= n; ++place) {
    alive += begins[place] - ends[place];
    reasons += closed[place];
    if (place > 0 && place < n) row.crossing[place] = {alive, o.backward > 0 ? alive : 0};
    if (reasons == 0 || place == 0 || place == n) kept.push_back(place);
  }
  auto const keep = [&](auto& list) {
    for (std::size_t i = 0; i < kept.size(); ++i) list[i] = list[kept[i]];
    list.resize(kept.size());
  };
  keep(row.cost), keep(row.bytes), keep(row.resident), keep(row.crossing);
  for (auto& k : made.kinds) keep(k.cost);
  for (auto const place : kept) made.first_node.push_back(static_cast<std::uint32_t>(place));
  return made;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Makes a row of the nodes of a graph, in the order of `nodes()`. Weights are forward costs; a value that a
/// later stage reads is passed on from stage to stage; state belongs to the first node that reads it, and so
/// do inputs that a run leaves for the next. Nodes
/// that must share a stage, and those between which a value goes that may not be sent, become one unit.
/// O(V + E). \throws error, adapter_error
template <weighted_graph Graph>
  requires sized_graph<Graph>
placement_row placement_row_of(Graph const& g, placement_row_options const& o = {}) {
  return detail::row_of_arrays(snapshot_of(g), o);
}

}  // namespace cleave
