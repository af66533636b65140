// SPDX-License-Identifier: MIT
#include "cleave/place/placement_gains.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace cleave;

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
  device_network net{.devices = {{.name = "a"}, {.name = "b"}}, .links = {{}, {0, 1}, {0, 1}, {}}};
  CHECK(saved_by(placement_gains(row_of_ones(60, 40), net), "10 % more bandwidth between 'a' and 'b'") >
        0.09);
  net.links.assign(4, {});
  net.uplinks = {{"host", {0}, 1}};
  CHECK(saved_by(placement_gains(row_of_ones(60, 40), net), "10 % more bandwidth of the uplink of 'host'") ==
        doctest::Approx(1 - 1 / 1.1).epsilon(1e-6));
  CHECK(placement_gains(row_of_ones(60, 40), net, {}, 0).empty());
}
