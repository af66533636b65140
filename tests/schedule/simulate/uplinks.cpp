// SPDX-License-Identifier: MIT
// simulate with uplinks, against a simulation that always does next what happens first.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

/// A message of a chain of stages: the microbatch, and the stages that it leaves and enters.
struct chain_message {
  std::uint32_t microbatch, from, to;
  auto operator<=>(chain_message const&) const = default;
};

/// Returns the time of a step of a schedule whose stages form a chain, without compounds.
class plain_simulation {
 public:
  plain_simulation(schedule const& s, simulate_options const& o)
      : schedule_(s), options_(o), next_(s.ranks.size()), free_(s.ranks.size()), link_free_(pairs()) {
    for (std::size_t u = 0; u < 2 * o.uplinks.size(); ++u) uplink_free_.push_back(0);
  }

  double makespan() {
    constexpr auto never = std::numeric_limits<double>::infinity();
    for (;;) {
      double first = never;
      std::optional<std::uint32_t> rank;
      std::optional<chain_message> leaving;
      for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
        if (auto const t = start_of(r); t && *t < first) first = *t, rank = r;
      for (auto const& [m, t] : ready_)
        if (t < first) first = t, leaving = m;
      if (leaving)
        leave(*leaving, first);
      else if (rank)
        run(*rank, first);
      else
        return *std::ranges::max_element(free_);
    }
  }

 private:
  std::size_t pairs() const { return schedule_.ranks.size() * schedule_.ranks.size(); }
  std::uint32_t rank_of(std::uint32_t stage) const { return index(schedule_.place.rank_of[stage]); }

  /// Returns the stage from which the input of an action comes, if it comes from another.
  std::optional<std::uint32_t> source_of(action const& a) const {
    auto const s = index(a.stage);
    if (a.kind == action_kind::forward && s > 0) return s - 1;
    if ((a.kind == action_kind::backward || a.kind == action_kind::input_gradient) &&
        s + 1 < schedule_.place.stages())
      return s + 1;
    return std::nullopt;
  }

  std::optional<double> start_of(std::uint32_t r) const {
    if (next_[r] == schedule_.ranks[r].size()) return std::nullopt;
    auto const& a = schedule_.ranks[r][next_[r]];
    auto const from = source_of(a);
    if (!from) return free_[r];
    auto const at = arrived_.find({index(a.microbatch), *from, index(a.stage)});
    if (at == arrived_.end()) return std::nullopt;
    return std::max(free_[r], at->second);
  }

  void run(std::uint32_t r, double begin) {
    auto const& a = schedule_.ranks[r][next_[r]++];
    free_[r] = begin + options_.costs[index(a.stage)].of(a.kind);
    auto const s = index(a.stage);
    std::optional<std::uint32_t> to;
    if (a.kind == action_kind::forward && s + 1 < schedule_.place.stages()) to = s + 1;
    if ((a.kind == action_kind::backward || a.kind == action_kind::input_gradient) && s > 0) to = s - 1;
    if (!to) return;
    chain_message const m{index(a.microbatch), s, *to};
    if (rank_of(*to) == r)
      arrived_[m] = free_[r];
    else
      ready_[m] = free_[r];
  }

  void leave(chain_message const& m, double ready) {
    ready_.erase(m);
    auto const from = rank_of(m.from), to = rank_of(m.to);
    auto const& edge = options_.bytes[std::min(m.from, m.to)];
    auto const bytes = static_cast<double>(m.from < m.to ? edge.activation : edge.gradient);
    auto const& link = options_.links[from * schedule_.ranks.size() + to];
    auto const passes = [&](rank_uplink const& u) {
      auto const is_inside = [&](std::uint32_t r) {
        return std::ranges::find(u.ranks, rank_id{r}) != u.ranks.end();
      };
      return is_inside(from) == is_inside(to) ? 0 : is_inside(from) ? 1 : 2;
    };
    auto& channel = link_free_[from * schedule_.ranks.size() + to];
    if (bytes == 0) return void(arrived_[m] = ready + link.latency);
    double begin = std::max(ready, channel);
    for (std::size_t u = 0; u < options_.uplinks.size(); ++u)
      if (auto const way = passes(options_.uplinks[u]))
        begin = std::max(begin, uplink_free_[2 * u + static_cast<std::size_t>(way) - 1]);
    double end = begin + bytes / link.bandwidth;
    for (std::size_t u = 0; u < options_.uplinks.size(); ++u)
      if (auto const way = passes(options_.uplinks[u])) {
        auto& free = uplink_free_[2 * u + static_cast<std::size_t>(way) - 1];
        free = begin + bytes / options_.uplinks[u].bandwidth;
        end = std::max(end, free);
      }
    channel = end;
    arrived_[m] = end + link.latency;
  }

  schedule const& schedule_;
  simulate_options const& options_;
  std::vector<std::size_t> next_;
  std::vector<double> free_, link_free_, uplink_free_;
  std::map<chain_message, double> ready_, arrived_;
};

double some(rng& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random.below(1'000'000)) / 1e6;
}

simulate_options random_options(schedule const& s, rng& random) {
  simulate_options o;
  for (std::uint32_t i = 0; i < s.place.stages(); ++i)
    o.costs.push_back({some(random, 1, 2), some(random, 1, 4), some(random, 1, 2), some(random, 1, 2)});
  for (std::size_t i = 0; i < s.ranks.size() * s.ranks.size(); ++i)
    o.links.push_back({some(random, 0, 1), some(random, 1, 4)});
  for (std::size_t e = 0; e < s.place.edges.size(); ++e)
    o.bytes.push_back({1 + random.below(5), random.below(5)});
  for (auto groups = random.below(4); groups-- > 0;) {
    auto& made = o.uplinks.emplace_back();
    made.bandwidth = some(random, 1, 8);
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
      if (random.below(2) == 0) made.ranks.push_back(rank_id{r});
  }
  return o;
}

}  // namespace

TEST_CASE("simulate: uplinks delay messages as in a simulation of one event after the other") {
  rng random(9);
  std::size_t slower = 0;
  auto const rounds = cases(300, 3'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    constexpr schedule_family families[] = {schedule_family::gpipe, schedule_family::one_f_one_b,
                                            schedule_family::interleaved_1f1b, schedule_family::zbv,
                                            schedule_family::forward_only};
    auto const family = families[random.below(5)];
    auto const ranks = static_cast<std::uint32_t>(2 + random.below(4));
    auto const s = make_schedule(
        family,
        {ranks, stages_per_rank_of(family).value_or(family == schedule_family::interleaved_1f1b ? 2 : 1),
         static_cast<std::uint32_t>(ranks * (1 + random.below(3)))});
    auto o = random_options(s, random);
    CAPTURE(i);
    CAPTURE(name_of(family));
    auto const t = simulate(s, o).makespan;
    CHECK(t == doctest::Approx(plain_simulation(s, o).makespan()).epsilon(1e-9));
    o.uplinks.clear();
    slower += t > 1.001 * simulate(s, o).makespan;
  }
  CHECK(slower > rounds / 10);
}

TEST_CASE("simulate: an uplink that is never full changes nothing, and faults name it") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {3, 1, 4});
  simulate_options o;
  o.links = {{0.5, 10}};
  o.bytes = {{20, 10}};
  auto const before = simulate(s, o);
  o.uplinks = {{{rank_id{0}}, 1e9}, {{rank_id{1}, rank_id{2}}}};
  CHECK(simulate(s, o).makespan == before.makespan);
  auto const refusal = [&](simulate_options const& bad) { return error_text([&] { simulate(s, bad); }); };
  o.uplinks = {{{rank_id{0}, rank_id{3}}, 1}};
  CHECK(refusal(o) == "simulate: uplink #0 names rank 3, which does not exist or is named twice");
  o.uplinks = {{{rank_id{0}, rank_id{0}}, 1}};
  CHECK(refusal(o) == "simulate: uplink #0 names rank 0, which does not exist or is named twice");
  o.uplinks = {{{rank_id{0}}, 1}, {{rank_id{1}}, -1}};
  CHECK(refusal(o) ==
        "simulate: the bandwidth of uplink #1 must be above 0, and enough to move the largest message within "
        "1e100");
  o.uplinks = {{{rank_id{0}}, 1}};
  o.messages = message_time::within;
  CHECK(
      refusal(o) ==
      "simulate: messages within their ranks have no uplinks; use message_time::overlapped, or omit uplinks");
}
