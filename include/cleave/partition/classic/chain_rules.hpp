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

/// Rules by which deep-learning frameworks cut a chain of layers into stages, reproduced from their code.
namespace cleave::inline v0_2 {

/// DeepSpeed's `partition_uniform`: gives each part the same number of layers, and the first parts one more
/// if the division leaves a rest. With fewer layers than parts, the last parts are empty. O(k).
/// \throws error if `k` is 0.
inline detail::chain_bounds deepspeed_uniform(std::size_t layers, std::uint32_t k) {
  detail::check_chain({}, k);
  detail::chain_bounds bounds;
  for (std::size_t s = 0; s <= k; ++s)
    bounds.push_back(layers <= k ? (std::min)(s, layers) : s * (layers / k) + (std::min)(s, layers % k));
  return bounds;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The dynamic program of DeepSpeed's `partition_balanced`, with one row per number of parts.
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
    double most, least;  // largest and smallest part sum so far
  };

  // On ties the last position wins, as in DeepSpeed.
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
  std::vector<range> last_;                      // per prefix of layers, cut into as many parts as rows
  std::vector<std::vector<std::size_t>> begin_;  // start of the last of these parts
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// DeepSpeed's `partition_balanced` (since its change 4312), the method `parameters` of its pipelines. It
/// minimises the difference between the largest and the smallest part sum, not the largest sum. Its
/// recurrence is not exact for that objective: a best cut of a prefix need not be part of a best cut. With no
/// more layers than parts it is `deepspeed_uniform`. Returns the same bounds as DeepSpeed for equal
/// double-precision weights. O(n^2 k) time and O(n k) memory for n layers.
/// \throws error if `k` is 0, chain_weight_error.
inline detail::chain_bounds deepspeed_balanced(std::span<double const> weights, std::uint32_t k) {
  detail::check_chain(weights, k);
  if (weights.size() <= k) return deepspeed_uniform(weights.size(), k);
  return detail::deepspeed_table(weights, k).bounds();
}

/// Thrown if torchgpipe's rule yields no valid answer: it cycles, or its parts overlap.
class torchgpipe_error : public error {
 public:
  using error::error;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Moves the bounds of parts as torchgpipe's `blockpartition.solve` does. Used by `torchgpipe_blocks`.
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
    auto seen = ends_;  // detects cycles: a state that recurs does so for ever (Brent, BIT 20, 1980)
    for (std::uint64_t step = 0, power = 1;; ++step) {
      auto const heaviest = heaviest_part();
      for (auto lightest = lightest_part();; lightest = lightest_part()) {
        if (sums_[heaviest] <= sums_[lightest] + 1) return bounds();
        if (move_towards(lightest, heaviest)) break;
      }
      if (ends_ == seen)
        throw torchgpipe_error(
            "torchgpipe's rule does not terminate: it moves the same layers back and forth");
      if (step == power) {
        seen = ends_;
        power *= 2;
      }
    }
  }

 private:
  std::int64_t begin(std::size_t s) const { return s > 0 ? ends_[s - 1] : 0; }

  double sum_of(std::size_t s) const {
    double sum = 0;  // left to right, as Python up to 3.11 adds
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

  // Moves one layer from a neighbour to the lightest part. Returns true if that neighbour is the heaviest
  // part.
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
      throw torchgpipe_error("torchgpipe's rule ended with overlapping parts");
    chain_bounds found{0};
    for (auto const end : ends_) found.push_back(static_cast<std::size_t>(end));
    return found;
  }

  std::uint32_t parts_;
  std::vector<double> normal_;      // weights scaled to [0, 1]
  std::vector<std::int64_t> ends_;  // end of each part
  std::vector<double> sums_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the cut that torchgpipe's and FairScale's `balance_by_size` and `balance_by_time` compute, based
/// on Bárány and Grinberg, Block partitions of sequences, arXiv 1308.2452. The rule subtracts the smallest
/// weight from all weights, so that many layers may weigh 0. It stops once the largest part sum exceeds the
/// smallest by at most the largest weight. Parts may be empty. Among equally light parts it takes the first,
/// while the paper requires the nearest. It may therefore cycle or assign a layer to two parts, which is an
/// error here. Worst case O(k n^3); usually about O(k n) steps of O(k + n / k) each.
/// \throws error if `k` is 0 or exceeds the number of layers, chain_weight_error, torchgpipe_error.
inline detail::chain_bounds torchgpipe_blocks(std::span<double const> weights, std::uint32_t k) {
  detail::check_chain(weights, k);
  if (weights.size() < k)
    throw error(std::to_string(weights.size()) + " layers cannot be cut into " + std::to_string(k) +
                " parts");
  return detail::torchgpipe_walk(weights, k).run();
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the bytes that a device may hold, as Accelerate's `generate_device_map` formats and parses them.
/// The load is (sum + largest layer) / k, in its largest binary unit (1024). It is rounded to two digits and
/// then up, increased by a tenth, and read as a decimal unit (1000).
/// \throws error if Accelerate has no such unit.
inline std::int64_t accelerate_room(std::int64_t total, std::int64_t largest, std::uint32_t k) {
  double size = static_cast<double>(total + largest) / k;
  std::int64_t unit = 1;
  for (; size >= 1024 && unit < 1'000'000'000; unit *= 1000) size /= 1024;
  if (unit == 1 || size >= 1024)
    throw error("Accelerate sizes devices in KB, MB and GB only, and " + std::to_string(total) +
                " bytes on " + std::to_string(k) + " devices are outside that range");
  auto whole = static_cast<std::int64_t>(size);
  // Rounded to hundredths, a fraction below 1/200 is 0. It is a multiple of 2^-52, because size >= 1.
  auto const rest = static_cast<std::int64_t>((size - static_cast<double>(whole)) * 0x1p52);
  if (rest * 200 > std::int64_t{1} << 52) ++whole;
  return static_cast<std::int64_t>(static_cast<double>(whole) * 1.1 * static_cast<double>(unit));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Accelerate's `generate_device_map`, which `prepare_pippy` uses, for layers that cannot be split and share
/// no parameters. It fills devices in order. On the first device it reserves room for the largest layer that
/// is still to come. A layer that fits no device stays on the host and gets `no_part`, as do all layers after
/// it. Parts may be empty. A single device takes all layers. O(layers + k).
/// \throws error if `k` is 0, a size is negative, or the sizes sum to more than 2^52; also if devices would
/// be below 1 KB or from 1 TB up, where Accelerate itself raises an error.
inline partition accelerate_fill(std::span<std::int64_t const> bytes, std::uint32_t k) {
  if (k == 0) throw error("cannot place layers on 0 devices; pass at least 1");
  constexpr auto limit = std::int64_t{1} << 52;
  std::int64_t total = 0;
  std::vector<std::int64_t> largest_from(bytes.size() + 1);
  std::vector<std::size_t> last_of(bytes.size() + 1, bytes.size());  // the last layer of that size
  for (auto i = bytes.size(); i-- > 0;) {
    bool const is_size = bytes[i] >= 0 && bytes[i] <= limit;
    if (is_size) total += bytes[i];
    if (!is_size || total > limit)
      throw error("layer #" + std::to_string(i) + " has " + std::to_string(bytes[i]) +
                  " bytes: sizes must not be negative, and their sum must be at most 2^52");
    largest_from[i] = (std::max)(largest_from[i + 1], bytes[i]);
    last_of[i] = i + 1 == bytes.size() || bytes[i] > largest_from[i + 1] ? i : last_of[i + 1];
  }
  partition p{std::vector<part_id>(bytes.size(), k == 1 ? part_id{0} : no_part), k};
  if (k == 1 || bytes.empty()) return p;
  auto const room = detail::accelerate_room(total, largest_from[0], k);
  std::uint32_t device = 0;
  std::int64_t used = 0;
  std::size_t touched = 0;  // on reaching the last layer of the largest size, find the next largest
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

/// A layer in the cost model of PipeDream's optimizer.
struct pipedream_layer {
  double time = 0;        ///< forward and backward time of a microbatch on one machine, in seconds
  double activation = 0;  ///< bytes sent to the next layer and saved until the backward pass
  double parameters = 0;  ///< bytes of parameters
};

/// Defines whether PipeDream may replicate stages.
enum class pipedream_replication : std::uint8_t {
  allowed,  ///< a stage may run on several machines
  none      ///< `straight_pipeline`: each stage on one machine
};
/// Defines whether PipeDream may leave machines unused.
enum class pipedream_machines : std::uint8_t {
  all,           ///< use every machine
  fewer_allowed  ///< `use_fewer_machines`
};

struct pipedream_options {
  double bandwidth = 1e9;  ///< bandwidth between machines, in bytes per second
  pipedream_replication replication = pipedream_replication::allowed;
  pipedream_machines machines = pipedream_machines::all;
  std::optional<double> memory{};       ///< memory of a machine in bytes; unset: no limit
  std::optional<double> compression{};  ///< of activations, as a ratio; unset: sends take no time
};

struct pipedream_stage {
  std::size_t begin, end;  ///< layers [begin, end)
  std::uint32_t machines;  ///< number of replicas

  bool operator==(pipedream_stage const&) const = default;
};

struct pipedream_plan {
  std::vector<pipedream_stage> stages;
  double time = 0;  ///< time of the slowest stage in PipeDream's model, in seconds

  bool operator==(pipedream_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// PipeDream's dynamic program over prefixes of the chain and numbers of machines.
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
    std::size_t begin = 0;       // first layer of the last stage
    std::uint32_t machines = 0;  // machines of the last stage
    std::uint32_t left = 0;      // machines of all stages before
  };

  bool straight() const { return o_.replication == pipedream_replication::none; }
  entry& at(std::size_t last, std::uint32_t m) { return table_[last * machines_ + m - 1]; }

  bool fits(std::size_t begin, std::size_t last, std::uint32_t stashes) const {
    return !o_.memory || stashes * (before_[last + 1].activation - before_[begin].activation +
                                    (before_[last + 1].parameters - before_[begin].parameters)) <=
                             *o_.memory;
  }

  // The communication between replicas is divided by their number twice, as in PipeDream.
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
  std::vector<entry> table_;  // per last layer and number of machines
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the stages that PipeDream's optimizer finds for a chain on one level of machines, or nothing if no
/// cut fits the memory. Narayanan et al., SOSP 2019, section 3.1, as implemented in
/// optimizer_graph_hierarchical.py. Without `compression` it ignores transfers between stages. Its models of
/// memory and of communication between replicas are kept unchanged. PipeDream first converts a graph into a
/// chain: each state is an antichain with all its predecessors, and cuts are made between states only. That
/// step is not part of this function. O(n^2 m^2) time and O(n m) memory for n layers and m machines.
/// \throws error if there are no layers or machines, or if a number is negative or not finite.
inline std::optional<pipedream_plan> find_pipedream_plan(std::span<pipedream_layer const> layers,
                                                         std::uint32_t machines,
                                                         pipedream_options const& o = {}) {
  if (layers.empty() || machines == 0)
    throw error("PipeDream: at least one layer and one machine are required");
  auto const sound = [](double x) { return x >= 0 && is_finite(x); };
  if (!sound(o.bandwidth) || o.bandwidth == 0 || !sound(o.memory.value_or(0)) ||
      !sound(o.compression.value_or(1)) || o.compression.value_or(1) == 0)
    throw error(
        "PipeDream: bandwidth and compression must be finite and above 0, memory must be finite and not "
        "negative");
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
