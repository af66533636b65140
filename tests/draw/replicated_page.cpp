// SPDX-License-Identifier: MIT
#include "cleave/draw/replicated_page.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "support/error_text.hpp"
#include "support/markup.hpp"
#include "support/placement_rows.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

/// Three units, of which the second takes `times` as long; each has 40 bytes of state.
placement_row peaked_row(double times, std::uint64_t crossing) {
  auto made = testing::equal_units(3, crossing);
  for (auto& c : made.units.cost)
    if (&c > &made.units.cost[1]) c.forward += times - 1, c.backward += 2 * (times - 1);
  made.units.resident = {0, 40, 80, 120};
  return made;
}

device_network alike(std::size_t count, rank_link link) {
  device_network made{.links = {link}};
  for (std::size_t d = 0; d < count; ++d) made.devices.push_back({.name = "g" + std::to_string(d)});
  return made;
}

}  // namespace

TEST_CASE("placement_page: draws the copies of stages, their ranks and the sums of their gradients") {
  auto net = alike(4, {.latency = 0, .bandwidth = 100});
  net.devices.push_back({.name = "odd", .speed = 1e-3});
  auto const p = place_replicated(peaked_row(2, 8), net, {.microbatches = 4, .summed = 0.25});
  REQUIRE(p.stages.size() == 3);
  REQUIRE(p.stages[1].width == 2);
  auto const page = placement_page(
      net, p, {.title = "copies", .time_unit = "s", .gains = {{"one more device like 'g0'", 9, 0.25}}});
  testing::read_markup(page);
  for (std::string const said :
       {"4 of 5 devices run a stage.", "Each copy of stage 1 limits the throughput.", "2 copies: g1, g2",
        ">1 to 2<", ">Sums<", "odd", "not used", "1F1B", "one more device", "REDUCE_TIE",
        "The last bar of a rank is the sum of its gradients"})
    CHECK_MESSAGE(has(page, said), said);
  CHECK_FALSE(has(page, "A forward pass"));  // its time is not among what place_replicated returns
  auto const inferred =
      placement_page(alike(1, {}), place_replicated(testing::equal_units(1, 0), alike(1, {}), {}));
  testing::read_markup(inferred);
  for (std::string const said : {"REDUCE_TIE", ">Sums<", "The last bar of a rank"})
    CHECK_MESSAGE(!has(inferred, said), said);
}

TEST_CASE("placement_page: says which link between stages with copies limits") {
  auto const net = alike(2, {.latency = 0, .bandwidth = 1});
  auto row = testing::equal_units(2, 50);
  row.units.resident = {0, 40, 80};
  auto full = net;
  for (auto& d : full.devices) d.memory = 40;
  auto const page = placement_page(full, place_replicated(row, full, {.microbatches = 2}));
  testing::read_markup(page);
  CHECK(has(page, "Each link from stage 0 to stage 1 limits the throughput."));
  CHECK(has(page, "link-limit\""));
}

TEST_CASE(
    "placement_page: the timeline of copies has each pass of each microbatch once, and ends with the step") {
  testing::rng random(5);
  std::size_t with_sums = 0, with_chains = 0;
  for (int round = 0; round < 60; ++round) {
    auto const peak = 1 + static_cast<double>(random.below(4));
    auto const row = peaked_row(peak, random.below(60));
    auto const net = alike(1 + random.below(6), {.latency = 0.25, .bandwidth = 20});
    auto const p =
        place_replicated(row, net, {.microbatches = 12, .summed = random.below(2) == 0 ? 0.0 : 0.5});
    auto const drawn = detail::picture_of(net, p);
    CHECK(drawn.times.makespan == doctest::Approx(p.step));
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> forward;
    for (std::size_t r = 0; r < drawn.order.ranks.size(); ++r) {
      REQUIRE(drawn.order.ranks[r].size() == drawn.times.spans[r].size());
      for (auto const& a : drawn.order.ranks[r])
        if (a.kind == action_kind::forward) ++forward[{index(a.stage), index(a.microbatch)}];
    }
    CHECK(forward.size() == 12 * p.stages.size());
    for (auto const& [pass, times] : forward) {
      CHECK(times == 1);
      CHECK(pass.second < 12);
    }
    with_chains += p.chains() > 1 ? 1 : 0;
    for (auto const& s : p.stages) with_sums += s.sum_time > 0 ? 1 : 0;
  }
  CHECK(with_chains > 10);
  CHECK(with_sums > 10);
}

TEST_CASE("placement_page: a placement without a network is refused") {
  auto const p = place_replicated(testing::equal_units(2, 0), {.devices = 2, .microbatches = 2});
  CHECK(testing::error_text<error>([&] { placement_page(alike(2, {}), p); }) ==
        "placement_page: stage 0 names no devices of this network; give place_replicated the network");
}
