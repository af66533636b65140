// SPDX-License-Identifier: MIT
#include "cleave/draw/placement_page.hpp"

#include <doctest/doctest.h>

#include <string>

#include "cleave/place/place.hpp"
#include "support/markup.hpp"
#include "support/placement_rows.hpp"

using namespace cleave;

namespace {

bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("placement_page: is well-formed and shows devices, links, the step and what would help") {
  device_network net;
  for (int d = 0; d < 6; ++d)
    net.devices.push_back({.name = "gpu<" + std::to_string(d) + ">", .memory = 1 << 20});
  net.links = {{.latency = 0, .bandwidth = 2}};
  auto const p = place(testing::equal_units(30, 8), net, {.microbatches = 4});
  auto const page = placement_page(net, p,
                                   {.title = "a & b",
                                    .time_unit = "s",
                                    .stages = {"layers 0 to 4"},
                                    .gains = {{"one more device like 'gpu<0>'", 9, 0.25}}});
  testing::read_markup(page);
  for (std::string const said :
       {"a &amp; b", "gpu&lt;0", "layers 0 to 4", "units 5 to 9", "What would help most", "25 %",
        "A step of 4 microbatches", "1F1B", "optimal"})
    CHECK_MESSAGE(has(page, said), said);
}

TEST_CASE("placement_page: says which link or uplink limits, and lists unused devices") {
  device_network net{.devices = {{.name = "a"}, {.name = "b"}, {.name = "c", .speed = 1e-3}}};
  net.links = {{.latency = 0, .bandwidth = 1}};
  auto const by_link = placement_page(net, place(testing::equal_units(30, 50), net));
  testing::read_markup(by_link);
  CHECK(has(by_link, "limits the throughput."));
  CHECK(has(by_link, "link-limit\""));
  CHECK(has(by_link, "not used"));
  net.links = {};
  net.uplinks = {{"host", {0}, 1}};
  CHECK(has(placement_page(net, place(testing::equal_units(30, 50), net)),
            "The uplink of host limits the throughput."));
  auto const nothing_known =
      placement_page({.devices = {{}}}, place(testing::equal_units(1, 0), {.devices = {{}}}));
  testing::read_markup(nothing_known);
  CHECK(has(nothing_known, "#0"));
}

TEST_CASE("placement_page: a factor turns times into the unit of the page") {
  device_network const net{.devices = {{.name = "a"}}};
  auto const p = place(testing::equal_units(1, 0), net, {.microbatches = 2});  // passes of 1 and 2
  auto const page = placement_page(net, p, {.time_unit = "s", .time_scale = 1e-3});
  for (std::string const said : {"3.00\u00a0ms each", "The step takes 6.00\u00a0ms"})
    CHECK_MESSAGE(has(page, said), said);
}
