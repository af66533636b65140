// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/real.hpp"

namespace cleave {

/// A layer as PipeDream's optimizer sees it.
struct pipedream_layer {
  double time = 0;        ///< forward and backward pass of a microbatch on one machine, in seconds
  double activation = 0;  ///< bytes that go to the next layer, and are kept until the backward pass
  double parameters = 0;  ///< bytes of parameters
};

enum class pipedream_replication : std::uint8_t {
  allowed,  ///< a stage may run on several machines
  none      ///< `straight_pipeline`: each stage on one machine
};
enum class pipedream_machines : std::uint8_t {
  all,
  fewer_allowed  ///< `use_fewer_machines`
};

struct pipedream_options {
  double bandwidth = 1e9;  ///< between machines, bytes per second
  pipedream_replication replication = pipedream_replication::allowed;
  pipedream_machines machines = pipedream_machines::all;
  std::optional<double> memory{};       ///< bytes of a machine; without: not looked at
  std::optional<double> compression{};  ///< of activations; without: sending them takes no time, as there
};

struct pipedream_stage {
  std::size_t begin, end;  ///< its layers
  std::uint32_t machines;

  bool operator==(pipedream_stage const&) const = default;
};

struct pipedream_plan {
  std::vector<pipedream_stage> stages;
  double time = 0;  ///< of the slowest stage, by its model

  bool operator==(pipedream_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// The table of PipeDream's optimizer over the beginnings of a chain and numbers of machines.
class pipedream_table {
 public:
  pipedream_table(std::span<pipedream_layer const> layers, std::uint32_t machines, pipedream_options const& o)
      : layers_(layers), machines_(machines), o_(o), before_(1) {
    for (auto const& l : layers)
      before_.push_back({before_.back().time + l.time, before_.back().activation + l.activation,
                         before_.back().parameters + l.parameters});
    table_.resize(layers.size() * machines);
    for (std::size_t last = 0; last < layers.size(); ++last)
      for (std::uint32_t m = 1; m <= (straight() ? 1 : machines); ++m)
        if (fits(0, last, (machines - m + m - 1) / m)) at(last, m) = {stage_time(0, last, m), 0, m};
    for (std::uint32_t m = 2; m <= machines; ++m)
      for (std::size_t last = 1; last < layers.size(); ++last) improve(last, m);
  }

  std::optional<pipedream_plan> plan() const {
    pipedream_plan p;
    auto end = layers_.size();
    p.time = table_[end * machines_ - 1].time;
    if (p.time == infinite) return std::nullopt;
    for (auto m = machines_; end > 0;) {
      auto const& e = table_[(end - 1) * machines_ + m - 1];
      p.stages.push_back({e.begin, end, e.machines});
      end = e.begin;
      m = e.left;
    }
    std::ranges::reverse(p.stages);
    return p;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  struct entry {
    double time = infinite;
    std::size_t begin = 0;       // of the last stage
    std::uint32_t machines = 0;  // of the last stage
    std::uint32_t left = 0;      // for those before
  };

  bool straight() const { return o_.replication == pipedream_replication::none; }
  entry& at(std::size_t last, std::uint32_t m) { return table_[last * machines_ + m - 1]; }

  bool fits(std::size_t begin, std::size_t last, std::uint32_t stashes) const {
    return !o_.memory || stashes * (before_[last + 1].activation - before_[begin].activation +
                                    (before_[last + 1].parameters - before_[begin].parameters)) <=
                             *o_.memory;
  }

  // What replicas tell each other is divided by their number twice, as there.
  double stage_time(std::size_t begin, std::size_t last, std::uint32_t m) const {
    double const time = before_[last + 1].time - before_[begin].time;
    double const sent = 4 * (m - 1.0) * (before_[last + 1].parameters - before_[begin].parameters);
    return (time + sent / (o_.bandwidth * m)) / m;
  }

  void improve(std::size_t last, std::uint32_t m) {
    auto& best = at(last, m);
    if (o_.machines == pipedream_machines::fewer_allowed && at(last, m - 1).time < best.time)
      best = at(last, m - 1);
    for (std::size_t begin = 1; begin <= last; ++begin)
      for (std::uint32_t own = 1; own <= (straight() ? 1 : m - 1); ++own) {
        if (!fits(begin, last, (machines_ - m + own - 1) / own)) continue;
        double time = (std::max)(at(begin - 1, m - own).time, stage_time(begin, last, own));
        if (o_.compression) time = (std::max)({time, sending(begin - 1, own), sending(last, own)});
        if (time < best.time) best = {time, begin, own, m - own};
      }
  }

  double sending(std::size_t layer, std::uint32_t machines) const {
    if (layer + 1 == layers_.size()) return 0;
    return 2 * layers_[layer].activation / (o_.bandwidth * machines) / *o_.compression;
  }

  std::span<pipedream_layer const> layers_;
  std::uint32_t machines_;
  pipedream_options const& o_;
  std::vector<pipedream_layer> before_;
  std::vector<entry> table_;  // of the layers up to one, and a number of machines
};

}  // namespace cleave::detail

namespace cleave {

/// The stages that PipeDream's optimizer finds for a chain, on one level of machines: Narayanan et al., SOSP
/// 2019, §3.1, as its code does it (optimizer_graph_hierarchical.py); nothing, where none fit the memory.
/// Without `compression` it counts no transfer between stages. Its model of memory and of what replicas of a
/// stage tell each other is its own. A graph that is no chain it makes one first: each state is an antichain
/// with all that it needs, and stages are cut between states only; that step is not here. O(n^2 m^2) time,
/// O(n m) memory. \throws error for no layers or machines, and for numbers that make no sense.
inline std::optional<pipedream_plan> find_pipedream_plan(std::span<pipedream_layer const> layers,
                                                         std::uint32_t machines,
                                                         pipedream_options const& o = {}) {
  if (layers.empty() || machines == 0) throw error("PipeDream: there are no layers or no machines");
  auto const sound = [](double x) { return x >= 0 && is_finite(x); };
  if (!sound(o.bandwidth) || o.bandwidth == 0 || !sound(o.memory.value_or(0)) ||
      !sound(o.compression.value_or(1)) || o.compression.value_or(1) == 0)
    throw error("PipeDream: bandwidth and compression are above 0 and finite, memory is not negative");
  pipedream_layer sum;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    sum = {sum.time + layers[i].time, sum.activation + layers[i].activation,
           sum.parameters + layers[i].parameters};
    if (!(layers[i].time >= 0 && layers[i].activation >= 0 && layers[i].parameters >= 0) ||
        !sound(sum.time) || !sound(sum.activation) || !sound(sum.parameters))
      throw error("PipeDream: layer #" + std::to_string(i) +
                  " has a time or size that is negative or makes a sum infinite");
  }
  return detail::pipedream_table(layers, machines, o).plan();
}

}  // namespace cleave
