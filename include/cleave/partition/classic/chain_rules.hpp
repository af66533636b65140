// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/model/chain_bounds.hpp"
#include "cleave/partition/model/partition.hpp"

/// Rules by which frameworks cut a chain of layers, as their code behaves.
namespace cleave {

/// DeepSpeed's `partition_uniform`: as many layers in each part, one more in the first ones. With fewer
/// layers than parts the last parts are empty. O(k). \throws error for no parts.
inline detail::chain_bounds deepspeed_uniform(std::size_t layers, std::uint32_t k) {
  detail::check_chain({}, k);
  detail::chain_bounds bounds;
  for (std::size_t s = 0; s <= k; ++s)
    bounds.push_back(layers <= k ? (std::min)(s, layers) : s * (layers / k) + (std::min)(s, layers % k));
  return bounds;
}

}  // namespace cleave

namespace cleave::detail {

/// The table of DeepSpeed's `partition_balanced`, one row for each number of parts.
class deepspeed_table {
 public:
  deepspeed_table(std::span<double const> weights, std::uint32_t k) : layers_(weights.size()) {
    before_.assign(1, 0);
    for (double const w : weights) before_.push_back(before_.back() + w);
    last_.assign(layers_ + 1, {0, infinite});
    for (std::uint32_t s = 1; s <= k; ++s) add_part(s);
  }

  chain_bounds bounds() const {
    chain_bounds bounds(begin_.size() + 1, layers_);
    for (auto s = begin_.size(); s-- > 0;) bounds[s] = begin_[s][bounds[s + 1]];
    return bounds;
  }

 private:
  struct range {
    double most, least;  // of the sums of the parts so far
  };

  // Of equal differences the last place wins, as there.
  void add_part(std::uint32_t s) {
    std::vector<range> next(layers_ + 1);
    auto& begin = begin_.emplace_back(layers_ + 1);
    for (std::size_t end = s; end <= layers_; ++end) {
      double least_cost = infinite;
      auto const last_begin = s == 1 ? std::size_t{1} : end;
      for (std::size_t i = s - std::size_t{1}; i < last_begin; ++i) {
        double const sum = before_[end] - before_[i];
        double const most = (std::max)(last_[i].most, sum), least = (std::min)(last_[i].least, sum);
        if (most - least > least_cost) continue;
        least_cost = most - least;
        next[end] = {most, least};
        begin[end] = i;
      }
    }
    last_ = std::move(next);
  }

  static constexpr double infinite = std::numeric_limits<double>::infinity();
  std::size_t layers_;
  std::vector<double> before_;
  std::vector<range> last_;                      // of the first layers in as many parts as there are rows
  std::vector<std::vector<std::size_t>> begin_;  // where the last of these parts begins
};

}  // namespace cleave::detail

namespace cleave {

/// DeepSpeed's `partition_balanced` (since its change 4312), the method `parameters` of its pipelines: seeks
/// the least difference between the largest and the smallest sum, not the least largest sum, by a recurrence
/// that does not hold for it: the best cut of a beginning need not be part of a best cut. With no more layers
/// than parts it is `deepspeed_uniform`. The same bounds as there for equal weights of double precision.
/// O(n^2 k) time, O(n k) memory. \throws error for no parts, chain_weight_error.
inline detail::chain_bounds deepspeed_balanced(std::span<double const> weights, std::uint32_t k) {
  detail::check_chain(weights, k);
  if (weights.size() <= k) return deepspeed_uniform(weights.size(), k);
  return detail::deepspeed_table(weights, k).bounds();
}

/// The rule comes to no answer: it goes round in cycles, or its parts overlap.
class torchgpipe_error : public error {
 public:
  using error::error;
};

}  // namespace cleave

namespace cleave::detail {

/// Moves the ends of parts as torchgpipe's `blockpartition.solve` does; `torchgpipe_blocks` is its one use.
class torchgpipe_walk {
 public:
  torchgpipe_walk(std::span<double const> weights, std::uint32_t k) : parts_(k) {
    auto const [least, most] = std::ranges::minmax(weights);
    for (double const w : weights) normal_.push_back(most - least == 0 ? 0 : (w - least) / (most - least));
    auto const layers = static_cast<std::int64_t>(weights.size());
    for (std::int64_t s = 1; s <= k; ++s) ends_.push_back(s < k ? layers / k * s : layers);
    for (std::size_t s = 0; s < k; ++s) sums_.push_back(sum_of(s));
  }

  chain_bounds run() {
    auto seen = ends_;  // a state that comes again comes for ever: Brent, BIT 20, 1980
    for (std::uint64_t step = 0, power = 1;; ++step) {
      auto const heaviest = heaviest_part();
      for (auto lightest = lightest_part();; lightest = lightest_part()) {
        if (sums_[heaviest] <= sums_[lightest] + 1) return bounds();
        if (move_towards(lightest, heaviest)) break;
      }
      if (ends_ == seen)
        throw torchgpipe_error("torchgpipe's rule moves the same layers to and fro for ever");
      if (step == power) {
        seen = ends_;
        power *= 2;
      }
    }
  }

 private:
  std::int64_t begin(std::size_t s) const { return s > 0 ? ends_[s - 1] : 0; }

  double sum_of(std::size_t s) const {
    double sum = 0;  // one after the other, as Python up to 3.11 adds
    for (auto i = begin(s); i < ends_[s]; ++i) sum += normal_[static_cast<std::size_t>(i)];
    return sum;
  }

  std::size_t heaviest_part() const {
    std::size_t found = 0;
    for (std::size_t s = 1; s < parts_; ++s)
      if (sums_[s] >= sums_[found]) found = s;
    return found;
  }

  std::size_t lightest_part() const {
    std::size_t found = 0;
    for (std::size_t s = 1; s < parts_; ++s)
      if (sums_[s] < sums_[found]) found = s;
    return found;
  }

  // Gives the lightest part a layer of its neighbour; whether that is the heaviest.
  bool move_towards(std::size_t lightest, std::size_t heaviest) {
    bool const left = heaviest < lightest;
    auto const neighbour = left ? lightest - 1 : lightest + 1;
    auto& end = ends_[left ? neighbour : lightest];
    end += left ? -1 : 1;
    if (end < 0 || end > static_cast<std::int64_t>(normal_.size()))
      throw torchgpipe_error("torchgpipe's rule moves the end of a part beyond the chain");
    sums_[lightest] = sum_of(lightest);
    sums_[neighbour] = sum_of(neighbour);
    return neighbour == heaviest;
  }

  chain_bounds bounds() const {
    if (!std::ranges::is_sorted(ends_))
      throw torchgpipe_error("torchgpipe's rule ends with layers that are in two parts");
    chain_bounds found{0};
    for (auto const end : ends_) found.push_back(static_cast<std::size_t>(end));
    return found;
  }

  std::uint32_t parts_;
  std::vector<double> normal_;      // weights, brought into [0, 1]
  std::vector<std::int64_t> ends_;  // of the parts
  std::vector<double> sums_;
};

}  // namespace cleave::detail

namespace cleave {

/// What torchgpipe's `balance_by_size` and `balance_by_time` make of sizes and times, and FairScale's: after
/// Bárány and Grinberg, Block partitions of sequences, arXiv 1308.2452. It subtracts the smallest weight from
/// all, so that many layers of it weigh nothing, and stops once the largest sum exceeds the smallest by no
/// more than the largest weight. Parts may be empty. Of equally light parts it takes the first, not, as the
/// paper asks, the nearest; so it may go on for ever or give a layer to two parts, which is an error here.
/// O(k n^3) in theory, near O(k n) steps of O(k + n / k) as a rule.
/// \throws error for no parts or fewer layers than parts, chain_weight_error, torchgpipe_error.
inline detail::chain_bounds torchgpipe_blocks(std::span<double const> weights, std::uint32_t k) {
  detail::check_chain(weights, k);
  if (weights.size() < k)
    throw error(std::to_string(weights.size()) + " layers are fewer than " + std::to_string(k) + " parts");
  return detail::torchgpipe_walk(weights, k).run();
}

}  // namespace cleave

namespace cleave::detail {

/// What a device may hold, as Accelerate's `generate_device_map` writes it down and reads it back: the mean
/// load with the largest layer added to the sum, in the largest binary unit (1024) rounded to two digits and
/// then up, one tenth more, read as a decimal unit (1000). \throws error where that has no answer there.
inline std::int64_t accelerate_room(std::int64_t total, std::int64_t largest, std::uint32_t k) {
  double size = static_cast<double>(total + largest) / k;
  std::int64_t unit = 1;
  for (; size >= 1024 && unit < 1'000'000'000; unit *= 1000) size /= 1024;
  if (unit == 1 || size >= 1024)
    throw error("Accelerate sizes devices in KB, MB and GB only, and " + std::to_string(total) +
                " bytes on " + std::to_string(k) + " devices are outside");
  auto whole = static_cast<std::int64_t>(size);
  // Rounded to hundredths the rest is nothing below 1/200; it is a multiple of 2^-52, for size >= 1.
  auto const rest = static_cast<std::int64_t>((size - static_cast<double>(whole)) * 0x1p52);
  if (rest * 200 > std::int64_t{1} << 52) ++whole;
  return static_cast<std::int64_t>(static_cast<double>(whole) * 1.1 * static_cast<double>(unit));
}

}  // namespace cleave::detail

namespace cleave {

/// Accelerate's `generate_device_map`, which `prepare_pippy` uses, for layers that are not to be split and
/// share no parameter: devices are filled in order, the first with room kept for the largest layer that is
/// still to come. A layer that no device took stays on the host and has `no_part`; so do all after it. Parts
/// may be empty. One device takes all. O(layers + k). \throws error for no parts, negative sizes, and where
/// Accelerate itself raises one because devices would be below 1 KB or from 1 TB up.
inline partition accelerate_fill(std::span<std::int64_t const> bytes, std::uint32_t k) {
  if (k == 0) throw error("layers onto 0 devices: ask for 1");
  constexpr auto limit = std::int64_t{1} << 52;
  std::int64_t total = 0;
  std::vector<std::int64_t> largest_from(bytes.size() + 1);
  std::vector<std::size_t> last_of(bytes.size() + 1, bytes.size());  // the last layer of that size
  for (auto i = bytes.size(); i-- > 0;) {
    bool const is_size = bytes[i] >= 0 && bytes[i] <= limit;
    if (is_size) total += bytes[i];
    if (!is_size || total > limit)
      throw error("layer #" + std::to_string(i) + " has " + std::to_string(bytes[i]) +
                  " bytes: sizes are not negative and all together below 2^52");
    largest_from[i] = (std::max)(largest_from[i + 1], bytes[i]);
    last_of[i] = i + 1 == bytes.size() || bytes[i] > largest_from[i + 1] ? i : last_of[i + 1];
  }
  partition p{std::vector<part_id>(bytes.size(), k == 1 ? part_id{0} : no_part), k};
  if (k == 1 || bytes.empty()) return p;
  auto const room = detail::accelerate_room(total, largest_from[0], k);
  std::uint32_t device = 0;
  std::int64_t used = 0;
  std::size_t touched = 0;  // the largest layer is looked for anew once the last of its size is reached
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= last_of[touched]) touched = i + 1;
    if (device == 0 && used + bytes[i] > room - largest_from[touched]) ++device, used = 0;
    for (; device > 0 && device < k && used + bytes[i] > room; used = 0) ++device;
    if (device == k) break;
    p.of[i] = part_id{device};
    used += bytes[i];
  }
  return p;
}

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
