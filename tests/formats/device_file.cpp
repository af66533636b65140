// SPDX-License-Identifier: MIT
#include "cleave/formats/device_file.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

namespace {

std::string refusal(std::string const& text) {
  try {
    read_devices(text);
  } catch (error const& e) {
    return e.what();
  }
  return "read";
}

bool says(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

std::string with_devices(std::string const& more) {
  return R"({"format": "cleave devices 1", "devices": [{"name": "a"}, {"name": "b"}, {"name": "c"}])" + more +
         "}";
}

}  // namespace

TEST_CASE("read_devices: devices have speeds and memory, and lists of them numbers") {
  auto const net = read_devices(R"({"format": "cleave devices 1", "devices": [
    {"name": "gpu", "count": 2, "speed": 4, "speeds": {"MatMul": 9.5}, "memory": "24GiB"},
    {"memory": 1000}]})");
  REQUIRE(net.devices.size() == 3);
  CHECK(net.devices[0].name == "gpu0");
  CHECK(net.devices[1].name == "gpu1");
  CHECK(net.devices[2].name == "2");
  CHECK(net.devices[1].speed == 4);
  CHECK(net.devices[1].speed_for("MatMul") == 9.5);
  CHECK(net.devices[1].speed_for("Conv") == 4);
  CHECK(net.devices[1].memory == std::uint64_t{24} << 30);
  CHECK(net.devices[2].memory == 1000);
  CHECK(net.devices[2].speed == 1);
  CHECK(net.links.empty());
}

TEST_CASE("read_devices: the smallest common group says what a link is, uplinks slow what passes them") {
  auto const net = read_devices(R"({"format": "cleave devices 1",
    "devices": [{"name": "a", "count": 2}, {"name": "b", "count": 2}, {"name": "c"}],
    "link": {"latency": 9, "bandwidth": 10},
    "groups": [{"name": "rack", "link": {"latency": 3, "bandwidth": 50}, "groups": [
      {"name": "host", "devices": ["a"], "link": {"latency": 1, "bandwidth": 100},
       "uplink": {"latency": 0.5, "bandwidth": 40}},
      {"devices": ["b"]}]}],
    "links": [{"between": ["b0", "b1"], "latency": 2}, {"from": "c", "to": "b0", "bandwidth": 7}]})");
  auto const link = [&](std::size_t a, std::size_t b) { return net.link(a, b); };
  CHECK(link(0, 1) == rank_link{1, 100});
  CHECK(link(0, 2) == rank_link{3.5, 40});
  CHECK(link(3, 1) == rank_link{3.5, 40});
  CHECK(link(2, 3) == rank_link{.latency = 2});
  CHECK(link(3, 2) == rank_link{.latency = 2});
  CHECK(link(4, 0) == rank_link{9.5, 10});
  CHECK(link(4, 2) == rank_link{.latency = 0, .bandwidth = 7});
  CHECK(link(2, 4) == rank_link{9, 10});
  REQUIRE(net.uplinks.size() == 1);
  CHECK(net.uplinks[0].name == "host");
  CHECK(net.uplinks[0].devices == std::vector<std::uint32_t>{0, 1});
  CHECK(net.uplinks[0].bandwidth == 40);
}

TEST_CASE("read_devices: refusals name the place and the remedy") {
  CHECK(says(refusal("{}"), "expected the format \"cleave devices 1\""));
  CHECK(says(refusal(R"({"format": "cleave devices 1", "devices": []})"), "there are no devices"));
  CHECK(says(refusal(R"({"format": "cleave devices 1", "devices": [{"name": "a"}, {"name": "a"}]})"),
             "there is another device named 'a'"));
  CHECK(says(refusal(R"({"format": "cleave devices 1", "devices": [{"speed": 0}]})"),
             "expected a number above 0"));
  CHECK(says(refusal(R"({"format": "cleave devices 1", "devices": [{"memory": "much"}]})"),
             "such as \"24GiB\""));
  CHECK(says(refusal(R"({"format": "cleave devices 1", "devices": [{"count": 0}]})"), "expected 1 to 4096"));
  CHECK(says(refusal(with_devices(R"(, "links": [{"between": ["a", "bb"]}])")), "there is no device 'bb'"));
  CHECK(says(refusal(with_devices(R"(, "links": [{"between": ["a"]}])")), "expected two devices"));
  CHECK(says(refusal(with_devices(R"(, "links": [{"from": "a"}])")), "missing the key 'to'"));
  CHECK(says(refusal(with_devices(R"(, "link": {"speed": 3})")), "a link has latency and bandwidth"));
  CHECK(says(refusal(with_devices(R"(, "link": {"latency": -1})")), "expected a time, not negative"));
  CHECK(says(refusal(with_devices(R"(, "groups": [{"devices": ["a"]}, {"devices": ["a"]}])")),
             "device 'a' is in another group already"));
  CHECK(says(refusal(with_devices(R"(, "groups": [{"devices": ["a"], "groups": [{"devices": ["a"]}]}])")),
             "device 'a' is in this group twice"));
  CHECK(says(refusal(with_devices(R"(, "nodes": 3)")), "unknown key 'nodes'"));
  CHECK(says(refusal(with_devices(R"(, "link": {"bandwidth": 0})")), "link.bandwidth"));
}

TEST_CASE("devices_json: what it writes reads back equal") {
  auto net = read_devices(with_devices(R"(, "link": {"latency": 0.1, "bandwidth": 3e9})"));
  net.devices[1].speeds = {{"Conv", 0.1}, {"Mat\"Mul", 3}};
  net.devices[2].memory = 123'456'789'012;
  net.devices[0].speed = 1.0 / 3;
  auto const same = [](device_network const& a, device_network const& b) {
    REQUIRE(a.devices.size() == b.devices.size());
    for (std::size_t d = 0; d < a.devices.size(); ++d) {
      CHECK(a.devices[d].name == b.devices[d].name);
      CHECK(a.devices[d].speed == b.devices[d].speed);
      CHECK(a.devices[d].speeds == b.devices[d].speeds);
      CHECK(a.devices[d].memory == b.devices[d].memory);
      for (std::size_t to = 0; to < a.devices.size(); ++to)
        if (to != d) CHECK(a.link(d, to) == b.link(d, to));
    }
  };
  same(read_devices(devices_json(net)), net);
  net.links = {{}, {0, 2}, {3}, {4, 1e100}, {}, {5, 0.1}, {6, 7}, {0.1, 9}, {}};
  same(read_devices(devices_json(net)), net);
  net.links.clear();
  same(read_devices(devices_json(net)), net);
  net.uplinks.push_back({"host", {0, 1}, 5});
  CHECK_THROWS_WITH_AS(devices_json(net),
                       "devices: a network with uplinks cannot be written; write it as groups yourself",
                       error);
  net.uplinks.clear();
  net.devices[0].name.clear();
  CHECK_THROWS_WITH_AS(devices_json(net), "devices: a device without a name cannot be written; give it one",
                       error);
}

TEST_CASE("read_gpu_topology: reads what nvidia-smi prints") {
  auto const net = read_gpu_topology(
      "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
      "GPU0\t X \tNV4\tSYS\tPXB\t0-31\t0\n"
      "GPU1\tNV4\t X \tPHB\tPXB\t0-31\t0\n"
      "GPU2\tSYS\tPHB\t X \tSYS\t32-63\t1\n"
      "NIC0\tPXB\tPXB\tSYS\t X \n\nLegend:\n\n  X    = Self\n",
      {.nvlink = 10, .host_bridge = 5, .system = 2, .latency = 0.5});
  REQUIRE(net.devices.size() == 3);
  CHECK(net.devices[2].name == "GPU2");
  CHECK(net.link(0, 1) == rank_link{0.5, 40});
  CHECK(net.link(1, 2) == rank_link{0.5, 5});
  CHECK(net.link(2, 0) == rank_link{0.5, 2});
  auto const refused = [](std::string const& text) -> std::string {
    try {
      read_gpu_topology(text);
    } catch (error const& e) {
      return e.what();
    }
    return "read";
  };
  CHECK(says(refused(""), "a heading with GPU0 is missing"));
  CHECK(says(refused("what is this\n"), "line 1: a heading with GPU0 is missing"));
  CHECK(says(refused("\tGPU0\tGPU1\nGPU0\tX\tNV2\n"), "the row of GPU1 is missing"));
  CHECK(says(refused("\tGPU0\tGPU1\nGPU0\tX\tNVX\nGPU1\tNV2\tX\n"), "line 2: 'NVX' in the column of GPU1"));
  CHECK(says(refused("\tGPU0\tGPU1\nGPU0\tX\n"), "line 2: the row of GPU0 is too short"));
}
