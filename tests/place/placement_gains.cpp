// SPDX-License-Identifier: MIT
#include "cleave/place/placement_gains.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

/// A row of units of cost 1, with the same number of bytes across each place.
placement_row row_of_ones(std::size_t units, std::uint64_t crossing) {
  placement_row made;
  made.units.cost.push_back({.forward = 0, .backward = 0, .input_gradient = 0, .weight_gradient = 0});
  made.units.resident.push_back(0);
  for (std::size_t i = 0; i < units; ++i) {
    auto next = made.units.cost.back();
    next.forward += 1;
    made.units.cost.push_back(next);
    made.units.resident.push_back(made.units.resident.back() + 10);
  }
  made.units.crossing.assign(units + 1, {.activation = crossing});
  return made;
}

double saved_by(std::vector<placement_gain> const& gains, std::string const& what) {
  auto const at = std::ranges::find(gains, what, &placement_gain::what);
  return at == gains.end() ? 0 : at->saved;
}

}  // namespace

TEST_CASE("placement_gains: a link that limits is what helps, more speed does not") {
  device_network const net{.devices = {{.name = "a"}, {.name = "b"}},
                           .links = {{.latency = 0, .bandwidth = 1}}};
  auto const gains = placement_gains(row_of_ones(60, 40), net);  // 30 units each, 40 for a message
  CHECK(saved_by(gains, "10 % more bandwidth between 'a' and 'b'") ==
        doctest::Approx(1 - 1 / 1.1).epsilon(1e-6));
  CHECK(saved_by(gains, "10 % more speed of 'a'") == 0);
  CHECK(std::ranges::is_sorted(gains, [](auto const& x, auto const& y) { return x.saved > y.saved; }));
  for (auto const& g : gains) CHECK(g.value == doctest::Approx(40 * (1 - g.saved)));
}

TEST_CASE("placement_gains: one more device halves the load, more memory lets a fast device take more") {
  device_network const one{.devices = {{.name = "a"}}};
  CHECK(saved_by(placement_gains(row_of_ones(100, 0), one), "one more device like 'a'") ==
        doctest::Approx(0.5));
  device_network const full{.devices = {{.name = "fast", .speed = 9, .memory = 500}, {.name = "slow"}}};
  auto const gains = placement_gains(row_of_ones(100, 0), full);  // 50 units each; 55 with more memory
  CHECK(saved_by(gains, "10 % more memory of 'fast'") == doctest::Approx(0.1));
  CHECK(saved_by(gains, "10 % more speed of 'fast'") == 0);
}

TEST_CASE("placement_gains: an uplink and a pair in a matrix of links are changed alone") {
  auto const row = row_of_ones(60, 40);
  placement_options const options{.effort = cases(10'000'000, 30'000'000)};
  device_network net{.devices = {{.name = "a"}, {.name = "b"}}, .links = {{}, {0, 1}, {0, 1}, {}}};
  CHECK(saved_by(placement_gains(row, net, options), "10 % more bandwidth between 'a' and 'b'") > 0.09);
  net.links.assign(4, {});
  net.uplinks = {{"host", {0}, 1}};
  CHECK(saved_by(placement_gains(row, net, options), "10 % more bandwidth of the uplink of 'host'") ==
        doctest::Approx(1 - 1 / 1.1).epsilon(1e-6));
  CHECK(placement_gains(row, net, options, 0).empty());
}

namespace {

/// Devices of one kind, with one link between all.
device_network alike(std::size_t count, rank_link link, std::uint64_t memory = unlimited_memory) {
  device_network made{.links = {link}};
  for (std::size_t d = 0; d < count; ++d)
    made.devices.push_back({.name = "g" + std::to_string(d), .memory = memory});
  return made;
}

}  // namespace

TEST_CASE("replication_gains: each gain is that of placing with the change") {
  rng random(7);
  auto const rounds = cases(14, 40);
  std::size_t told = 0, of_devices = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const count = 2 + random.below(3);
    auto const units = 3 + random.below(6);
    auto const row = row_of_ones(units, random.below(40));
    auto const net = alike(count, {.latency = 0.01, .bandwidth = 5}, 60);
    replication_options const options{.microbatches = 12, .summed = random.below(2) == 0 ? 0.0 : 0.5};
    auto const now = place_replicated(row, net, options).value();
    auto const gains = replication_gains(row, net, options);
    auto const more = 1 - place_replicated(row, alike(count + 1, net.links[0], 60), options).value() / now;
    CHECK(saved_by(gains, "one more device like 'g0'") == doctest::Approx(more > 0.001 ? more : 0));
    for (auto const& g : gains) {
      CAPTURE(g.what);
      auto changed = net;
      if (g.what == "one more device like 'g0'") changed.devices.push_back({.memory = 60}), ++of_devices;
      for (auto& device : changed.devices) {
        if (g.what == "10 % more speed of each of the " + std::to_string(count) + " devices like 'g0'")
          device.speed *= 1.1;
        if (g.what == "10 % more memory of each of the " + std::to_string(count) + " devices like 'g0'")
          device.memory = 66;
      }
      if (g.what == "10 % more bandwidth between devices like 'g0'") changed.links[0].bandwidth *= 1.1;
      CHECK(g.value == doctest::Approx(place_replicated(row, changed, options).value()).epsilon(1e-9));
      CHECK(g.saved == doctest::Approx(1 - g.value / now));
      CHECK(g.saved > 0.001);
      ++told;
    }
  }
  CHECK(told > rounds * 3 / 2);
  CHECK(of_devices > rounds / 4);
}

TEST_CASE("replication_gains: one more device is alike those of its kind, whatever the links to others") {
  // Two devices with a slow link between them, and a third that they reach faster: copies are on the first
  // two. One more of that kind is a third copy, so its links must be like theirs.
  auto net = alike(3, {});
  net.devices[2].speed = 1e-3;
  net.links.assign(9, {.latency = 0, .bandwidth = 100});
  net.links[1] = net.links[3] = {.latency = 0, .bandwidth = 10};
  auto const gains = replication_gains(row_of_ones(1, 0), net, {.microbatches = 6});
  CHECK(saved_by(gains, "one more device like 'g0'") == doctest::Approx(1.0 / 3));
  CHECK(saved_by(gains, "one more device like 'g2'") == 0);
}

TEST_CASE(
    "replication_gains: links between copies count for their sums, those between kinds for what is sent") {
  auto const sums = replication_gains(row_of_ones(1, 0), alike(2, {.latency = 0, .bandwidth = 20}),
                                      {.microbatches = 2, .summed = 0.5});
  CHECK(saved_by(sums, "10 % more bandwidth between devices like 'g0'") > 0.01);
  auto net = alike(2, {.latency = 0, .bandwidth = 1});
  net.devices[1].speed = 0.5;
  auto const sent = replication_gains(row_of_ones(6, 100), net, {});
  CHECK(saved_by(sent, "10 % more bandwidth between 'g0' and 'g1'") == 0);  // all is on the first
  for (auto& device : net.devices) device.memory = 30;
  CHECK(saved_by(replication_gains(row_of_ones(6, 100), net, {}),
                 "10 % more bandwidth between 'g0' and 'g1'") == doctest::Approx(1 - 1 / 1.1).epsilon(1e-6));
  auto const full = alike(2, {.latency = 0, .bandwidth = 1}, 30);
  auto const both = replication_gains(row_of_ones(6, 100), full, {});
  CHECK(saved_by(both, "10 % more bandwidth between devices like 'g0'") ==
        doctest::Approx(1 - 1 / 1.1).epsilon(1e-6));
}

TEST_CASE("replication_gains: a change that the search refuses is left out, other errors are thrown") {
  auto fastest = alike(1, {});
  fastest.devices[0].speed = 1e100;  // the largest that is allowed
  auto const gains = replication_gains(row_of_ones(6, 0), fastest, {.microbatches = 6});
  CHECK(gains.size() == 1);
  CHECK(saved_by(gains, "one more device like 'g0'") == doctest::Approx(0.5));
  CHECK(replication_gains(row_of_ones(6, 0), fastest, {.microbatches = 6}, 0).empty());
  CHECK_THROWS_AS(replication_gains(row_of_ones(6, 0), alike(2, {}, 5), {}), infeasible_error);
}
