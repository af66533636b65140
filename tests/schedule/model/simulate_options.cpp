// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/simulate_options.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("find_simulate_option_fault: finds each invalid option and its index") {
  using enum simulate_option_fault::kind;
  auto const p = loop_placement(3);
  auto const fault = [&](simulate_options const& o) { return find_simulate_option_fault(o, p); };
  double const nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  CHECK(!fault({}));
  CHECK(!fault({.costs = {{}}, .base_latency = 1, .links = {{}}, .bytes = {{1, 1}}, .noise = 1}));
  CHECK(fault({.costs = {{}, {}}}) == simulate_option_fault{cost_count, 2, 3});
  CHECK(fault({.links = {{}, {}}}) == simulate_option_fault{link_count, 2, 9});
  CHECK(fault({.bytes = {{}, {}, {}}}) == simulate_option_fault{byte_count, 3, 2});
  CHECK(fault({.costs = {{}, {.reload = nan}, {}}}) == simulate_option_fault{cost, 1});
  CHECK(fault({.costs = {{}, {}, {.overlapped = -1}}}) == simulate_option_fault{cost, 2});
  CHECK(fault({.base_latency = -1}) == simulate_option_fault{base_latency});
  CHECK(fault({.base_latency = infinity}) == simulate_option_fault{base_latency});
  CHECK(fault({.links = {{.latency = nan}}}) == simulate_option_fault{latency, 0});
  CHECK(fault({.links = {{.bandwidth = 0}}}) == simulate_option_fault{bandwidth, 0});
  CHECK(fault({.links = {{.bandwidth = nan}}}) == simulate_option_fault{bandwidth, 0});
  CHECK(fault({.links = {{.bandwidth = 1e-90}}, .bytes = {{0, 1'000'000'000'000}}}) ==
        simulate_option_fault{too_long, 0});
  CHECK(1 / (1 / longest_cost) == longest_cost);
  CHECK(!fault({.links = {{.bandwidth = 1 / longest_cost}}, .bytes = {{0, 1}}}));
  CHECK(fault({.noise = nan}) == simulate_option_fault{noise});
  CHECK(fault({.noise = 1.25}) == simulate_option_fault{noise});
}

TEST_CASE("simulate_option_error: every fault has a message, and that of a wrong count says the fix") {
  using enum simulate_option_fault::kind;
  CHECK(std::string(simulate_option_error({link_count, 2, 9}).what()) ==
        "simulate: 2 links for 9 pairs of ranks; give one per pair, one for all, or none");
  for (auto const what :
       {cost_count, link_count, byte_count, cost, base_latency, latency, bandwidth, too_long, noise})
    CHECK(!describe({what, 1, 2}).empty());
}
