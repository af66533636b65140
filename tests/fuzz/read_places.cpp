// SPDX-License-Identifier: MIT
// Fuzzes what says where ranks run: lists of hosts, addresses, the variables of launchers, and maps of
// stages. Each is read or rejected with an error; what is read has no other meaning when it is written.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/core/expects.hpp"
#include "cleave/formats/stage_map_json.hpp"
#include "cleave/run/rendezvous/host_list.hpp"
#include "cleave/run/rendezvous/network_address.hpp"
#include "cleave/run/rendezvous/process_start.hpp"
#include "fuzz/unless_refused.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::unless_refused;

namespace {

void check_address(std::string_view text) {
  auto const a = find_address(text);
  if (!a) return;
  auto again = find_address(a->port > 0 ? name_of(*a) : name_of({a->host, 1}));
  expects(again && again->host == a->host, "the host again");
  expects(a->port == 0 || again->port == a->port, "the port again");
}

void check_hosts(std::string const& text) {
  auto const hosts = unless_refused([&] { return read_hosts(text); });
  expects(hosts.has_value() == !find_host_list_fault(text), "hosts or a fault");
  if (!hosts) return;
  std::string again;
  std::uint32_t slots = 0;
  for (auto const& h : *hosts) {
    auto const name = name_of(h.address);
    again += (h.address.port > 0 ? name : name.substr(0, name.rfind(':'))) +
             " slots=" + std::to_string(h.slots) + "\n";
    slots += h.slots;
  }
  expects(read_hosts(again) == *hosts, "the hosts again");
  expects(find_host(*hosts, rank_id{slots - 1}) == hosts->back().address, "a host for the last rank");
  expects(!find_host(*hosts, rank_id{slots}), "no host behind it");
}

/// The variables that a text sets, one in a line: `NAME=VALUE`.
struct listed_variables {
  explicit listed_variables(std::string_view text) {
    while (!text.empty()) {
      auto const line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      auto const equal = std::min(line.find('='), line.size());
      value[std::string(line.substr(0, equal))] = line.substr(std::min(line.size(), equal + 1));
    }
  }
  char const* operator()(char const* name) const {
    auto const found = value.find(name);
    return found == value.end() ? nullptr : found->second.c_str();
  }

  std::map<std::string, std::string, std::less<>> value{};
};

void check_variables(std::string const& text) {
  listed_variables const variables(text);
  auto const s = unless_refused([&] { return read_process_start(variables); });
  expects(s.has_value() == !find_start_fault(variables), "a start or a fault");
  if (!s) return;
  expects(index(s->rank) < s->size && s->meeting.port > 0, "a rank of the run, and a port");
  expects(s->key.size() >= min_rendezvous_key, "a key that is long enough");
  expects(find_address(name_of(s->meeting)).has_value(), "an address");
}

void check_map(std::string const& text) {
  auto const m = unless_refused([&] { return read_stage_map_json(text); });
  if (!m) return;
  for (auto const layout : {json::writer::layout::compact, json::writer::layout::indented})
    expects(read_stage_map_json(write_stage_map_json(*m, layout)) == *m, "the map again");
  for (auto const& s : m->stages) expects(index(s.rank) < m->ranks, "a rank of the map");
  find_other_placement(*m, {m->ranks, {}, {}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  check_address(text);
  check_hosts(text);
  if (auto const node = find_first_node(text)) expects(find_address(*node).has_value(), "the name of a host");
  check_variables(text);
  check_map(text);
  return 0;
}
