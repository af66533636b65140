// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/host_list.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/run/rendezvous/network_address.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {
std::string complaint(std::string_view text) {
  try {
    read_hosts(text);
  } catch (host_list_error const& e) {
    CHECK(find_host_list_fault(text) == e.witness);
    return e.what();
  }
  CHECK_FALSE(find_host_list_fault(text));
  return "";
}
}  // namespace

TEST_CASE("find_address: reads addresses that name_of() writes back") {
  for (auto const* text : {"node1:4000", "10.0.0.7:1", "[::1]:65535", "[fe80::1%eth0]:80", "a_b-c.d:12"})
    CHECK(name_of(find_address(text).value()) == text);
  CHECK(find_address("node1") == network_address{"node1", 0});
  CHECK(find_address("[::1]") == network_address{"::1", 0});
}

TEST_CASE("find_address: rejects texts that are not addresses") {
  for (auto const* text :
       {"",     ":",  ":80", "a:",           "a:0",     "a:65536", "a:80x", "a:-1", "a: 80",   "::1",
        "[::1", "[]", "[a]", "[f1%eth0]:80", "[::1]80", "[::1]:",  "a b",   "a/b",  "a:80:90", "a:000080"})
    CHECK_MESSAGE(!find_address(text), text);
}

TEST_CASE("read_hosts: reads hosts by line, with optional ports and slots") {
  auto const hosts =
      read_hosts("# the cluster\nnode1:4000 slots=2\r\n\n  node2\t slots=3  # slow\n[::1]:70\n");
  CHECK(hosts == std::vector<listed_host>{{{"node1", 4000}, 2}, {{"node2", 0}, 3}, {{"::1", 70}, 1}});
  CHECK(find_host(hosts, rank_id{0})->host == "node1");
  CHECK(find_host(hosts, rank_id{1})->host == "node1");
  CHECK(find_host(hosts, rank_id{4})->host == "node2");
  CHECK(find_host(hosts, rank_id{5})->port == 70);
  CHECK_FALSE(find_host(hosts, rank_id{6}));
}

TEST_CASE("read_hosts: reports a fault with its line and token") {
  CHECK(complaint("") == "host list: it has no hosts; write one line per host, such as 'node1:4000 slots=2'");
  CHECK(complaint("# nobody\n \n").starts_with("host list: it has no hosts"));
  CHECK(complaint("a\n\nb:x") ==
        "line 3, token 1: 'b:x' is not a host; expected node1, node1:4000 or [::1]:4000");
  CHECK(complaint("a slot=2") ==
        "line 1, token 2: 'slot=2' is unexpected; after the host, expected 'slots=' and a number, or the end "
        "of the line");
  CHECK(complaint("a slots=2 slots=3").starts_with("line 1, token 3: 'slots=3' is unexpected"));
  CHECK(complaint("a slots=0") == "line 1, token 2: '0' is not a number of slots from 1 to 1000000");
  for (auto const* text : {"a slots=", "a slots=x", "a slots=-1", "a slots=1.5", "a slots=99999999999"})
    CHECK(complaint(text).find("is not a number of slots") != std::string::npos);
  CHECK(complaint("a slots=1000000\nb") == "line 2, token 1: there are more than 1000000 slots up to here");
  CHECK(complaint("a\x1b[2J").find('\x1b') == std::string::npos);
}

TEST_CASE("read_hosts: accepts random text or rejects it with a place in it") {
  cleave::testing::rng random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (auto n = random.below(40); n > 0; --n) text += "a1:=[] slots\n#\t"[random.below(15)];
    auto const fault = find_host_list_fault(text);
    if (fault && fault->line > 0)
      CHECK(fault->line <= static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
    if (!fault) CHECK(read_hosts(text).size() > 0);
  }
}
