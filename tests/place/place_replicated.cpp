// SPDX-License-Identifier: MIT
#include "cleave/place/place_replicated.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "cleave/schedule/verify/verify.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

placement_row random_row(rng& random, std::size_t units, bool trains) {
  placement_row r;
  r.units.cost.push_back({0, 0, 0, 0, 0});
  r.units.bytes.push_back({0, 0, 0});
  r.units.resident.push_back(0);
  r.units.crossing.push_back({});
  for (std::size_t i = 0; i < units; ++i) {
    auto c = r.units.cost.back();
    auto const work = static_cast<double>(1 + random.below(9));
    c.forward += work;
    if (trains) c.backward += 2 * work;
    r.units.cost.push_back(c);
    r.units.bytes.push_back({r.units.bytes.back().saved + (trains ? random.below(5) : 0), 0, 0});
    r.units.resident.push_back(r.units.resident.back() + 4 * random.below(20));
    auto const bytes = random.below(40);
    r.units.crossing.push_back({bytes, trains ? bytes : 0});
  }
  r.units.crossing.back() = {};
  return r;
}

replication_options random_options(rng& random) {
  replication_options o;
  o.devices = static_cast<std::uint32_t>(1 + random.below(5));
  o.device.speed = 2;
  o.link = {0.1, 4};
  o.microbatches = static_cast<std::uint32_t>(12 * (1 + random.below(2)));
  o.summed = random.below(2) == 0 ? 0 : 0.25;
  return o;
}

/// Devices of several kinds, the links between them, and how many there are of each.
struct kinds_of_devices {
  std::vector<device_spec> of;
  std::vector<std::uint32_t> count;
  std::vector<rank_link> links;  ///< from kind a to kind b at a · kinds + b

  rank_link link(std::size_t a, std::size_t b) const { return links[a * of.size() + b]; }
};

/// A stage, and the kind of its devices.
struct chosen_stage {
  std::size_t kind, begin, end;
  std::uint32_t width;
};

/// Returns whether each device has the memory for its stage with what it keeps, counted from the last stage.
bool fit_memory(placement_row const& row, kinds_of_devices const& kinds, replication_options const& o,
                std::vector<chosen_stage> const& stages) {
  bool const trains = row.units.cost.back().backward > 0;
  std::uint64_t behind = 0;  // microbatches that the stages behind keep
  for (auto s = stages.size(); s-- > 0;) {
    auto const w = stages[s].width;
    std::uint64_t kept = 0;
    while (kept * w < behind + w) ++kept;
    behind = o.kept == kept_microbatches::fewest ? behind + w : kept * w;
    kept = trains ? std::min<std::uint64_t>(kept, o.microbatches / w) : 1;
    auto const of = [&](std::size_t at) { return row.units.resident[at] + kept * row.units.bytes[at].saved; };
    if (of(stages[s].end) - of(stages[s].begin) > kinds.of[stages[s].kind].memory) return false;
  }
  return true;
}

/// Returns the least period of all cuts, kinds and widths, by trying all; without one that fits, infinity.
double least_period(placement_row const& row, kinds_of_devices kinds, replication_options const& o) {
  auto const& units = row.units;
  double best = std::numeric_limits<double>::infinity();
  std::vector<chosen_stage> stages;
  auto const visit = [&](auto const& self, std::size_t at, double worst) -> void {
    if (at == units.units()) {
      if (fit_memory(row, kinds, o, stages)) best = std::min(best, worst);
      return;
    }
    for (std::size_t kind = 0; kind < kinds.of.size(); ++kind)
      for (std::uint32_t width = 1; width <= kinds.count[kind]; ++width)
        for (auto end = at + 1; end <= units.units() && o.microbatches % width == 0; ++end) {
          auto const pass = units.cost[end].forward + units.cost[end].backward - units.cost[at].forward -
                            units.cost[at].backward;
          auto const state = o.summed * static_cast<double>(units.resident[end] - units.resident[at]);
          auto const among = kinds.link(kind, kind);
          double const sums =
              width == 1 || o.summed == 0
                  ? 0
                  : 2 * ((width - 1) * among.latency + state * (width - 1) / width / among.bandwidth);
          double load = pass / kinds.of[kind].speed / width + sums / o.microbatches;
          if (at > 0) {
            auto const& sent = units.crossing[at];
            auto const& last = stages.back();
            auto const there = static_cast<double>(sent.activation) / kinds.link(last.kind, kind).bandwidth;
            auto const back = static_cast<double>(sent.gradient) / kinds.link(kind, last.kind).bandwidth;
            load = std::max(load, std::max(there, back) / std::lcm(last.width, width));
          }
          stages.push_back({kind, at, end, width});
          kinds.count[kind] -= width;
          self(self, end, std::max(worst, load));
          kinds.count[kind] += width;
          stages.pop_back();
        }
  };
  visit(visit, 0, 0);
  return best;
}

double least_period(placement_row const& row, replication_options const& o) {
  return least_period(row, {{o.device}, {o.devices}, {o.link}}, o);
}

/// Two or three kinds of devices, all of another speed.
kinds_of_devices random_kinds(rng& random) {
  kinds_of_devices made;
  auto const kinds = 2 + random.below(2);
  for (std::size_t k = 0; k < kinds; ++k) {
    made.of.push_back({.speed = static_cast<double>(1 + 2 * k + random.below(2))});
    made.count.push_back(static_cast<std::uint32_t>(1 + random.below(kinds == 2 ? 3 : 2)));
  }
  for (std::size_t i = 0; i < kinds * kinds; ++i)
    made.links.push_back({0.1, static_cast<double>(1 + random.below(8))});
  return made;
}

/// Their network, with the kinds in any order, and the kind of each device.
struct mixed_network {
  device_network net;
  std::vector<std::size_t> kind;

  mixed_network(kinds_of_devices const& of, rng& random) {
    for (std::size_t k = 0; k < of.of.size(); ++k) kind.insert(kind.end(), of.count[k], k);
    for (auto i = kind.size(); i > 1; --i) std::swap(kind[i - 1], kind[random.below(i)]);
    for (auto const k : kind) net.devices.push_back(of.of[k]);
    for (auto const a : kind)
      for (auto const b : kind) net.links.push_back(of.link(a, b));
  }
};

void check_consistent(replicated_placement const& p, placement_row const& row, std::size_t devices,
                      replication_options const& o, simulate_options const& timing) {
  std::uint32_t at = 0, used = 0;
  for (auto const& s : p.stages) {
    CHECK(s.begin == at);
    CHECK(s.end > s.begin);
    CHECK(o.microbatches % s.width == 0);
    at = s.end;
    used += s.width * s.shards;
  }
  CHECK(at == row.units.units());
  CHECK(used + p.unused == devices);
  CHECK(p.bound <= p.value());
  auto const order = schedule_of(p);
  CHECK(order.microbatches * p.chains() == o.microbatches);
  CHECK(!find_schedule_fault(order, {.passes = passes_of(order)}));
  CHECK(p.step >= simulate(order, timing).makespan);
  CHECK(p.step >= p.period * o.microbatches * (1 - 1e-9));
}

void check_consistent(replicated_placement const& p, placement_row const& row, replication_options const& o) {
  check_consistent(p, row, o.devices, o, simulate_options_of(p, o.link));
  for (auto const& s : p.stages) CHECK(s.memory <= o.device.memory);
}

void check_consistent(replicated_placement const& p, placement_row const& row, device_network const& net,
                      replication_options const& o) {
  check_consistent(p, row, net.devices.size(), o, simulate_options_of(p, net));
  std::vector<char> is_used(net.devices.size());
  for (auto const& s : p.stages) {
    CHECK(s.devices.size() == s.width);
    for (auto const d : s.devices) {
      CHECK(!is_used[d]);
      is_used[d] = 1;
      CHECK(s.memory <= net.devices[d].memory);
    }
  }
}

/// Checks a placement by the least period of any. One for a short step may have a longer period.
void check_period(replicated_placement const& p, double least) {
  if (p.goal == placement_goal::step) {
    CHECK(p.period >= least * (1 - 1e-9));
    CHECK(p.bound >= least * p.microbatches * (1 - 1e-9));
    return;
  }
  CHECK(p.is_optimal());
  CHECK(p.period == doctest::Approx(least).epsilon(1e-9));
}

}  // namespace

TEST_CASE("place_replicated: has the least period of all cuts and widths") {
  rng random(5);
  std::size_t wide = 0;
  auto const rounds = cases(70, 2'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const row = random_row(random, 1 + random.below(5), random.below(2) == 0);
    auto const o = random_options(random);
    CAPTURE(i);
    auto const p = place_replicated(row, o);
    check_consistent(p, row, o);
    CHECK(p.is_optimal());
    CHECK(p.period == doctest::Approx(least_period(row, o)).epsilon(1e-9));
    wide += std::ranges::any_of(p.stages, [](auto const& s) { return s.width > 1; });
  }
  CHECK(wide > rounds / 4);
}

TEST_CASE("place_replicated: of unlike devices, has the least period of all cuts, kinds and widths") {
  rng random(8);
  std::size_t wide = 0, mixed = 0;
  auto const rounds = cases(70, 2'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const row = random_row(random, 1 + random.below(5), random.below(2) == 0);
    auto const kinds = random_kinds(random);
    mixed_network const all(kinds, random);
    replication_options const o{.microbatches = static_cast<std::uint32_t>(6 * (1 + random.below(2))),
                                .summed = random.below(2) == 0 ? 0 : 0.25};
    CAPTURE(i);
    auto const p = place_replicated(row, all.net, o);
    check_consistent(p, row, all.net, o);
    CHECK(p.is_optimal());
    CHECK(p.period == doctest::Approx(least_period(row, kinds, o)).epsilon(1e-9));
    CHECK(p.period <= place(row, all.net, {.microbatches = o.microbatches}).period * (1 + 1e-9));
    auto const kind_of = [&](replicated_stage const& s) { return all.kind[s.devices.front()]; };
    for (auto const& s : p.stages) {
      wide += s.width > 1;
      mixed += kind_of(s) != kind_of(p.stages.front());
      for (auto const d : s.devices) CHECK(all.kind[d] == kind_of(s));
    }
  }
  CHECK(wide > rounds / 4);
  CHECK(mixed > rounds / 4);
}

TEST_CASE("place_replicated: within the memory of unlike devices, has the least period") {
  rng random(9);
  std::size_t placed = 0, refused = 0;
  auto const rounds = cases(40, 1'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const row = random_row(random, 2 + random.below(5), true);
    auto kinds = random_kinds(random);
    for (auto& k : kinds.of) k.memory = 20 + random.below(120);
    mixed_network const all(kinds, random);
    replication_options const o{
        .microbatches = 12,
        .goal = random.below(2) == 0 ? placement_goal::step : placement_goal::throughput,
        .summed = 0.25,
        .kept = random.below(2) == 0 ? kept_microbatches::fewest : kept_microbatches::whole_rounds};
    CAPTURE(i);
    auto const least = least_period(row, kinds, o);
    try {
      auto const p = place_replicated(row, all.net, o);
      check_consistent(p, row, all.net, o);
      check_period(p, least);
      ++placed;
    } catch (infeasible_error const&) {
      CHECK(!(least < 1e300));
      ++refused;
    }
  }
  CHECK(placed > rounds / 5);
  CHECK(refused > rounds / 8);
}

TEST_CASE("place_replicated: a network of equal devices has the placement of its number of devices") {
  rng random(10);
  for (std::size_t i = 0; i < cases(20, 500); ++i) {
    auto const row = random_row(random, 5, true);
    auto o = random_options(random);
    o.goal = random.below(2) == 0 ? placement_goal::step : placement_goal::throughput;
    device_network const net{.devices = std::vector(o.devices, o.device), .links = {o.link}};
    CAPTURE(i);
    auto const one = place_replicated(row, o), other = place_replicated(row, net, o);
    CHECK(one.period == other.period);
    CHECK(one.step == other.step);
    CHECK(one.bound == other.bound);
    CHECK(stage_placement_of(one) == stage_placement_of(other));
  }
}

TEST_CASE("place_replicated: within the memory of the devices, has the least period of all cuts and widths") {
  rng random(6);
  std::size_t placed = 0, refused = 0, bound = 0;
  auto const rounds = cases(50, 1'500);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const row = random_row(random, 2 + random.below(5), true);
    auto o = random_options(random);
    o.device.memory = 50 + random.below(250);
    o.goal = random.below(2) == 0 ? placement_goal::step : placement_goal::throughput;
    if (random.below(2) == 0) o.kept = kept_microbatches::fewest;
    CAPTURE(i);
    auto const least = least_period(row, o);
    try {
      auto const p = place_replicated(row, o);
      check_consistent(p, row, o);
      check_period(p, least);
      auto any = o;
      any.device.memory = unlimited_memory;
      bound += least_period(row, any) < least * (1 - 1e-9);
      ++placed;
    } catch (infeasible_error const&) {
      CHECK(!(least < 1e300));
      ++refused;
    }
  }
  CHECK(placed > rounds / 5);
  CHECK(refused > rounds / 15);
  CHECK(bound > rounds / 15);  // the memory forbids the quickest
}

TEST_CASE(
    "place_replicated: the step is never longer than that of the best period, of one stage or of equal "
    "copies") {
  rng random(7);
  for (std::size_t i = 0; i < cases(20, 600); ++i) {
    auto const row = random_row(random, 6, true);
    auto o = random_options(random);
    auto const fast = place_replicated(row, o);
    o.goal = placement_goal::step;
    auto const p = place_replicated(row, o);
    check_consistent(p, row, o);
    CAPTURE(i);
    CHECK(p.step <= fast.step);
    auto alone = o;
    alone.devices = 1;
    CHECK(p.step <= place_replicated(row, alone).step);
  }
}

TEST_CASE("place_replicated: devices may share passes, for a price that the caller gives") {
  placement_row row;
  for (double const sum : {0, 8, 16}) row.units.cost.push_back({sum, 0, 0, 0, 0});
  replication_options o{.devices = 4, .microbatches = 1, .shards = {1, 2, 4}};  // one microbatch: no copies
  auto const cost = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t shards) {
    return stage_cost{(row.units.cost[end].forward - row.units.cost[begin].forward) / shards + shards, 0, 0,
                      0, 0};
  };
  auto const p = place_replicated(row, o, cost);
  // Two stages of 8 / 2 + 2 = 6 each; one stage on four devices takes 16 / 4 + 4 = 8.
  REQUIRE(p.stages.size() == 2);
  CHECK(p.period == 6);
  CHECK(p.is_optimal());
  CHECK(p.stages[1].shards == 2);
  CHECK(p.unused == 0);
}

TEST_CASE("place_replicated: a table that is too large counts roughly, and what it finds fits the memory") {
  rng random(12);
  std::size_t exact = 0, rough = 0;
  for (std::size_t i = 0; i < cases(60, 600); ++i) {
    auto const row = random_row(random, 6, true);
    replication_options o{.devices = 6, .microbatches = 60};
    o.device.memory = 50 + random.below(250);
    if (random.below(2) == 0) o.kept = kept_microbatches::fewest;
    CAPTURE(i);
    auto const on = detail::alike_devices(row, o);
    auto const time = [&](std::uint32_t begin, std::uint32_t end, stage_form const&, std::uint32_t) {
      auto const &a = row.units.cost[begin], &b = row.units.cost[end];
      return stage_cost{b.forward - a.forward, b.backward - a.backward, 0, 0, 0};
    };
    detail::slices_of_row const cost(row, o, on, time);
    auto const find = [&](std::uint64_t most_entries) {
      detail::replication_table const table(row, o, on, cost, detail::slice_growth::monotone,
                                            detail::kept_counting::in_flight, most_entries);
      CHECK(table.is_exact() == (most_entries > 1'000));
      return table.find(1e300, false, 0);
    };
    auto const one = find(1'000'000), other = find(100);
    exact += one.has_value();
    rough += other.has_value();
    if (!other) continue;
    CHECK(one);
    std::uint32_t devices = 0;
    for (auto const& s : *other) {
      devices += s.width;
      CHECK(s.memory <= o.device.memory);
    }
    CHECK(devices <= o.devices);
  }
  CHECK(rough > 5);
  CHECK(rough < exact);
}

TEST_CASE("place_replicated: a stage decides by what it keeps which of its layers run again") {
  // A layer takes 3, keeps 10 bytes for each microbatch, or takes 4 and keeps 1.
  constexpr std::uint32_t layers = 6;
  placement_row row;
  row.units.cost.assign(layers + 1, {0, 0, 0, 0, 0});
  rng random(11);
  std::size_t again = 0, wide = 0;
  for (std::size_t i = 0; i < cases(30, 600); ++i) {
    replication_options o{.microbatches = 12};
    o.devices = static_cast<std::uint32_t>(2 + random.below(4));
    o.device.memory = 20 + random.below(100);
    if (random.below(2) == 0) o.kept = kept_microbatches::fewest;
    // Messages count as time of both stages, so that a larger slice may take less.
    std::vector<double> message(layers + 1);
    for (auto at = layers; at-- > 1;) message[at] = static_cast<double>(random.below(6));
    auto const cost = [&](std::uint32_t begin, std::uint32_t end, stage_form const& f) {
      slice_cost c{.sum_time = f.width > 1 ? 0.5 * (end - begin) : 0};
      auto const count = end - begin;
      std::uint32_t repeated = 0;
      c.memory = 10 * count * f.kept;
      for (; c.memory > o.device.memory && repeated < count; ++repeated) c.memory -= 9 * f.kept;
      c.time.forward = 1. * count + repeated + message[begin] + message[end];
      c.time.backward = 2. * count;
      return c;
    };
    // All cuts and widths.
    double best = std::numeric_limits<double>::infinity();
    std::vector<chosen_stage> stages;
    auto const visit = [&](auto const& self, std::uint32_t at, std::uint32_t devices) -> void {
      for (std::uint32_t width = 1; width <= devices && at < layers; ++width)
        for (auto end = at + 1; end <= layers && o.microbatches % width == 0; ++end) {
          stages.push_back({0, at, end, width});
          self(self, end, devices - width);
          stages.pop_back();
        }
      if (at < layers) return;
      std::uint32_t behind = 0;
      double worst = 0;
      for (auto s = stages.size(); s-- > 0;) {
        auto const w = stages[s].width;
        auto const kept = (behind + 2 * w - 1) / w;
        behind = o.kept == kept_microbatches::fewest ? behind + w : kept * w;
        auto const c =
            cost(static_cast<std::uint32_t>(stages[s].begin), static_cast<std::uint32_t>(stages[s].end),
                 {w, 1, std::min(kept, o.microbatches / w)});
        worst = std::max(worst, c.memory > o.device.memory
                                    ? std::numeric_limits<double>::infinity()
                                    : (c.time.forward + c.time.backward) / w + c.sum_time / o.microbatches);
      }
      best = std::min(best, worst);
    };
    visit(visit, 0, o.devices);
    CAPTURE(i);
    if (!(best < 1e300)) {
      CHECK_THROWS_AS(place_replicated(row, o, cost), infeasible_error);
      continue;
    }
    auto const p = place_replicated(row, o, cost);
    check_consistent(p, row, o);
    check_period(p, best);
    for (auto const& s : p.stages) {
      again += s.time.forward > s.end - s.begin + message[s.begin] + message[s.end];
      wide += s.width > 1;
    }
    device_network const net{.devices = std::vector(o.devices, o.device)};
    bool is_asked_for = true;
    auto const on_device = [&](std::uint32_t begin, std::uint32_t end, stage_form const& f,
                               device_spec const& d) {
      is_asked_for = is_asked_for && d.memory == o.device.memory;
      return cost(begin, end, f);
    };
    CHECK(place_replicated(row, net, o, on_device).period == p.period);
    CHECK(is_asked_for);
  }
  CHECK(again > 10);
  CHECK(wide > 10);
}

TEST_CASE("place_replicated: the fewest microbatches take less memory, and may take a longer step") {
  placement_row row;
  for (double const sum : {0, 3, 6, 7}) row.units.cost.push_back({sum, 2 * sum, 0, 0, 0});
  for (std::uint64_t const saved : {0u, 1u, 2u, 3u}) row.units.bytes.push_back({saved, 0, 0});
  replication_options o{.devices = 7, .microbatches = 24};
  auto const rounds = place_replicated(row, o);
  REQUIRE(rounds.stages.size() == 3);
  CHECK(rounds.stages[0].width == 3);
  CHECK(rounds.stages[0].kept == 3);  // 3 + 6 in flight
  CHECK(rounds.stages[1].kept == 2);
  CHECK(rounds.stages[2].kept == 1);
  o.kept = kept_microbatches::fewest;
  auto const fewest = place_replicated(row, o);
  CHECK(fewest.period == rounds.period);
  CHECK(fewest.step >= rounds.step);
  for (std::size_t s = 0; s < 3; ++s) CHECK(fewest.stages[s].kept <= rounds.stages[s].kept);
}

TEST_CASE("schedule_of: the chains of a replicated placement share its ranks") {
  replicated_placement p{.microbatches = 12};
  for (std::uint32_t s = 0; s < 3; ++s)
    p.stages.push_back(
        {.begin = s, .end = s + 1, .width = s + 1, .time = {.forward = 1. + s, .backward = 2. + s}});
  CHECK(p.chains() == 6);
  auto const place = stage_placement_of(p);
  CHECK(place.ranks == 6);
  CHECK(place.stages() == 18);
  CHECK(place.rank_of[3 * 4 + 1] == rank_id{1});  // stage 1 of chain 4, whose copy 0 is rank 1
  CHECK(place.rank_of[3 * 4 + 2] ==
        rank_id{4});  // stage 2 of chain 4: copy 1 of three, which begin at rank 3
  CHECK(copies_of(p, 2) == std::vector{stage_id{2}, stage_id{5}, stage_id{8}});
  auto const order = schedule_of(p);
  CHECK(order.microbatches == 2);
  CHECK(!find_schedule_fault(order));
}

TEST_CASE("place_replicated: refusals say what to change") {
  placement_row row;
  for (double const sum : {0, 8}) row.units.cost.push_back({sum, 0, 0, 0, 0});
  row.units.resident = {0, 100};
  auto const refusal = [&](replication_options const& o) {
    return error_text([&] { static_cast<void>(place_replicated(row, o)); });
  };
  CHECK(refusal({.devices = 0}) == "place: 0 devices; give 1 to 4096");
  CHECK(refusal({.goal = placement_goal::latency}) ==
        "place: copies of stages do not make one pass faster; choose throughput or step");
  CHECK(refusal({.summed = 2}) == "place: the summed share must be from 0 to 1");
  CHECK(refusal({.device = {.speed = 0}}) != "accepted");
  CHECK(refusal({.device = {.memory = 99}}).starts_with("place: some unit needs 100 B on each device"));
  CHECK(error_text([&] {
          static_cast<void>(place_replicated(row, {.shards = {}}, [](auto...) { return stage_cost{}; }));
        }) == "place: give at least one number of shards, each 1 or more");
  device_network net{.devices = {{}, {.speed = 2}}, .uplinks = {{"host", {0}, 5}}};
  auto const refusal_of_network = [&] {
    return error_text([&] { static_cast<void>(place_replicated(row, net, {})); });
  };
  CHECK(refusal_of_network() ==
        "place: stages with copies know no uplinks that devices share, such as that of 'host'; place without "
        "copies");
  net.uplinks.clear();
  CHECK(refusal_of_network() == "accepted");
  for (int i = 3; i < 40; ++i) net.devices.push_back({.speed = static_cast<double>(i)});
  CHECK(refusal_of_network() ==
        "place: devices of 39 kinds have too many forms of stages with copies; make more devices and links "
        "alike, or place without copies");
}
