// SPDX-License-Identifier: MIT
// Fuzzes planning: the bytes give a program and a request to cut it. The stages must join to the same program
// again, or an error must reject it.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/split/check_plan.hpp"
#include "cleave/split/split.hpp"
#include "support/toy_ir.hpp"
#include "support/toy_stages.hpp"

using namespace cleave;

using namespace cleave::detail;
using strings = std::vector<std::string>;

namespace {

/// Choices made by the fuzzer's bytes, in ranges where they matter.
struct choices : FuzzedDataProvider {
  using FuzzedDataProvider::FuzzedDataProvider;
  bool odd = one_in(4);  ///< also choose nonsensical values

  std::size_t below(std::size_t n) { return ConsumeIntegralInRange<std::size_t>(0, n - 1); }
  bool one_in(std::size_t n) { return below(n) == n - 1; }
  double real() {
    if (!odd || !one_in(8)) return static_cast<double>(1 + below(15));
    using limits = std::numeric_limits<double>;
    return PickValueInArray({0.1, 1e-300, 1e300, -1.0, limits::infinity(), limits::quiet_NaN()});
  }
  std::size_t size() {
    return odd && one_in(8) ? std::numeric_limits<std::size_t>::max() / (1 + below(8)) : 15 - below(16);
  }
};

/// A toy program with sizes, values from the caller, and state.
struct fuzz_graph : toy::graph {
  using toy::graph::graph;
  std::map<std::string, std::size_t> sizes{};
  std::map<std::string, strings> along{};
  strings kept{};

  std::size_t bytes(std::string const& v) const { return sizes.contains(v) ? sizes.at(v) : 0; }
  strings companions(std::string const& v) const { return along.contains(v) ? along.at(v) : strings(); }
  bool portable(std::string const& v) const { return std::ranges::find(kept, v) == kept.end(); }
};
static_assert(sized_graph<fuzz_graph> && accompanied_graph<fuzz_graph> && bounded_graph<fuzz_graph>);

/// The same with memory that is overwritten in place.
struct overwriting_graph : fuzz_graph {
  using fuzz_graph::fuzz_graph;
  std::map<toy::op const*, strings> written{};
  std::map<std::string, std::string> memory{};

  std::string storage(std::string const& v) const { return memory.contains(v) ? memory.at(v) : v; }
  strings overwrites(toy::op const* o) const { return written.contains(o) ? written.at(o) : strings(); }
};
static_assert(aliasing_graph<overwriting_graph>);

/// Returns a program, sometimes out of order, with cycles, or with values of two or no producers.
toy::program read_program(choices& from, strings& values) {
  toy::program p{{"x", "y"}, {"w", "u"}, {}};
  values = {"x", "y", "w", "u", "literal"};
  auto const ops = from.below(20);
  for (std::size_t i = 0; i < ops; ++i) {
    toy::op o{"f" + std::to_string(i), {}, {}};
    o.cost = from.real();
    o.cheap = from.one_in(6);
    for (auto reads = from.below(4); reads-- > 0;) o.in.push_back(values[from.below(values.size())]);
    if (from.odd && from.one_in(16)) o.in.push_back("v" + std::to_string(i + from.below(3)) + ".0");
    for (auto makes = from.below(3); makes-- > 0;)
      o.out.push_back("v" + std::to_string(i) + "." + std::to_string(makes));
    if (from.odd && from.one_in(16)) o.out.push_back(values[from.below(values.size())]);
    if (!p.ops.empty() && from.one_in(6)) o.follows.push_back(p.ops[from.below(p.ops.size())].get());
    values.insert(values.end(), o.out.begin(), o.out.end());
    p.add(std::move(o));
  }
  for (auto gives = from.below(4); gives-- > 0;) p.outputs.push_back(values[from.below(values.size())]);
  return p;
}

void describe_values(choices& from, strings const& values, fuzz_graph& g) {
  auto const any = [&] { return values[from.below(values.size())]; };
  for (auto const& v : values) g.sizes[v] = from.size();
  for (auto count = from.below(4); count-- > 0;) g.along[any()].push_back(any());
  if (from.one_in(8)) g.kept.push_back(any());
}

partition read_partition(choices& from, std::size_t nodes) {
  partition p{{}, static_cast<std::uint32_t>(from.odd && from.one_in(8) ? from.size() : 1 + from.below(5))};
  for (std::size_t n = 0; n < nodes; ++n)
    p.of.push_back(from.odd && from.one_in(16)
                       ? no_part
                       : part_id{static_cast<std::uint32_t>(from.below(5) % std::max(p.parts, 1u))});
  if (from.ConsumeBool()) std::ranges::sort(p.of);
  return p;
}

balance_options read_options(choices& from, std::size_t nodes, std::uint32_t k) {
  balance_options o;
  auto const any_node = [&] {
    return from.odd && from.one_in(8) ? from.size() : from.below(std::max<std::size_t>(nodes, 1));
  };
  o.cost_per_byte = from.real();
  o.random_orders = from.below(4);
  o.seed = from.below(4);
  if (from.ConsumeBool()) o.empty = empty_parts::allowed;
  if (from.one_in(4)) o.memory = from.size();
  if (from.one_in(4)) {
    std::vector<double> speed;
    for (std::uint32_t i = 0; i < std::min(k, 8u); ++i) speed.push_back(from.real());
    o.speed = speed;
  }
  for (auto sets = from.below(3); sets-- > 0 && nodes > 0;) o.together.push_back({any_node(), any_node()});
  if (from.one_in(4))
    for (std::size_t n = 0; n < nodes; ++n) o.backward.push_back(from.one_in(4));
  if (from.one_in(4))
    for (std::size_t n = 0; n < nodes; ++n)
      o.fixed.push_back(from.one_in(4) ? part_id{static_cast<std::uint32_t>(from.below(8) % std::max(k, 1u))}
                                       : no_part);
  if (from.one_in(4))
    for (std::size_t n = 0; n < nodes; ++n) o.node_memory.push_back(from.size());
  if (from.one_in(4))
    for (std::size_t n = 0; n < nodes; ++n) o.rank.push_back(from.size());
  return o;
}

/// Returns an upper bound on the total cost of all nodes and values; costs are compared with a tolerance
/// relative to it.
template <class Snapshot>
double whole_cost(Snapshot const& s, balance_options const& o) {
  double weights = 0, bytes = 0, slowest = 1;
  for (std::size_t i = 0; i < o.speed.size(); ++i) slowest = std::min(slowest, o.speed[i]);
  for (double const w : s.weight) weights += w;
  for (std::size_t v = 0; v < s.values(); ++v)
    bytes += static_cast<double>(s.bytes[v]) * static_cast<double>(2 + s.users[v].size());
  return weights / slowest + o.cost_per_byte * bytes;
}

template <class Snapshot>
void check_balance(choices& from, Snapshot const& s) {
  auto const k = static_cast<std::uint32_t>(from.odd && from.one_in(8) ? from.size() : 1 + from.below(6));
  auto const o = read_options(from, s.nodes(), k);
  auto const p = balance(s, k, o);
  expects(p.parts <= k, "no more parts than asked for");
  expects(p.bound <= p.bottleneck, "a bound that no cut is below");
  expects(!find_unassigned_node(s, p) && !find_split_group(s, p), "a part for each node");
  if (o.backward.empty()) expects(!find_backward_edge(s, p), "parts in the order of a pipeline");
  std::vector<double> speed;
  std::vector<std::size_t> memory;
  for (std::uint32_t i = 0; i < p.parts; ++i) {
    speed.push_back(o.speed.empty() ? 1 : o.speed[i]);
    if (!o.memory.empty()) memory.push_back(o.memory[i]);
  }
  expects(!find_overfull_part(s, p, memory, o.node_memory), "parts within their memory");
  for (std::size_t n = 0; n < o.fixed.size(); ++n)
    expects(o.fixed[n] == no_part || is_replicable(s, n) || p.of[n] == o.fixed[n], "pinned nodes in place");
  for (auto const& set : o.together)
    for (auto const n : set)
      expects(is_replicable(s, n) || is_replicable(s, set[0]) || p.of[n] == p.of[set[0]], "sets kept whole");
  auto const loads = part_loads(s, p, {o.cost_per_byte, speed});
  for (std::size_t i = 0; i < loads.size(); ++i)
    expects(std::abs(loads[i] - p.loads[i]) <= 1e-12 * whole_cost(s, o) + 1e-307,
            "loads as they are counted");
}

void check_meaning(toy::program const& p, staged_graph<fuzz_graph> const& stages) {
  std::map<std::string, std::string> const arguments{{"x", "X"}, {"y", "Y"}};
  auto const whole = toy::run(p, arguments), staged = toy::run_stages(stages, arguments);
  auto const joined = toy::joined_again(stages);
  auto const again = toy::run(joined, arguments);
  expects(joined.outputs == p.outputs && joined.ops.size() == p.ops.size(), "the whole again");
  for (auto const& v : p.outputs) {
    expects(toy::meaning(staged, v) == toy::meaning(whole, v), "stages that mean the whole");
    expects(toy::meaning(again, v) == toy::meaning(whole, v), "joined stages that mean the whole");
  }
}

/// Returns the plan with a number changed, an entry removed, or two entries swapped.
plan altered(choices& from, plan p) {
  auto& stage = p.stages[from.below(p.stages.size())];
  auto const alter = [&](auto& list, auto set) {
    if (list.empty()) return;
    auto const at = from.below(list.size());
    switch (from.below(3)) {
      case 0:
        return set(list[at]);
      case 1:
        return void(list.erase(list.begin() + static_cast<std::ptrdiff_t>(at)));
      default:
        return std::swap(list[at], list[from.below(list.size())]);
    }
  };
  auto const number = [&](std::uint32_t& n) { n = static_cast<std::uint32_t>(from.below(24)); };
  auto const stage_number = [&](stage_id& i) { i = stage_id{static_cast<std::uint32_t>(from.below(6))}; };
  auto const transfer_part = [&](transfer& t) {
    from.ConsumeBool() ? number(t.value) : stage_number(from.ConsumeBool() ? t.from : t.to);
  };
  switch (from.below(7)) {
    case 0:
      alter(stage.nodes, number);
      break;
    case 1:
      alter(stage.inputs, number);
      break;
    case 2:
      alter(stage.state, number);
      break;
    case 3:
      alter(stage.outputs, number);
      break;
    case 4:
      alter(p.order, stage_number);
      break;
    case 5:
      alter(p.transfers, transfer_part);
      break;
    default:
      alter(p.updates, transfer_part);
  }
  return p;
}

template <class Graph>
staged_graph<Graph> cut_graph(choices& from, Graph const& g) {
  plan_options o;
  o.stages = from.PickValueInArray({order::program, order::fifo, order::upstream});
  if (from.ConsumeBool()) o.outputs = output_order::first_use;
  auto const s = snapshot_of(g);
  auto stages = split(g, read_partition(from, s.nodes()), o);
  expects(!find_plan_fault(stages.snapshot(), stages.plan()), "a plan without faults");
  return stages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  choices from(data, size);
  strings values;
  auto const p = read_program(from, values);
  auto const what = from.below(4);
  try {
    if (what == 0) {
      overwriting_graph g(p);
      describe_values(from, values, g);
      for (auto const& o : p.ops)
        if (from.one_in(4)) g.written[o.get()] = {values[from.below(values.size())]};
      for (auto count = from.below(3); count-- > 0;) g.memory[values[from.below(values.size())]] = "m";
      auto const stages = cut_graph(from, g);
      for (std::uint32_t i = 0; i < stages.size(); ++i) {
        toy::builder b;
        emit(stages, stage_id{i}, b);
      }
      return 0;
    }
    fuzz_graph g(p);
    describe_values(from, values, g);
    if (what == 1) {
      check_balance(from, snapshot_of(g));
    } else {
      auto const stages = cut_graph(from, g);
      check_meaning(p, stages);
      auto const other = stages.size() > 0 ? altered(from, stages.plan()) : stages.plan();
      if (!find_plan_fault(stages.snapshot(), other)) check_meaning(p, {g, stages.snapshot(), other});
    }
  } catch (error const&) {
  }
  return 0;
}
