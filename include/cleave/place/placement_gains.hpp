// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/place.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/place/placement_row.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a network with one more device, whose speed, memory and links are those of device `of`.
inline device_network with_one_more(device_network const& net, std::uint32_t of) {
  auto made = net;
  auto const n = net.devices.size();
  made.devices.push_back(net.devices[of]);
  made.devices.back().name += made.devices.back().name.empty() ? "" : " (one more)";
  for (auto& group : made.uplinks)
    if (std::ranges::find(group.devices, of) != group.devices.end())
      group.devices.push_back(static_cast<std::uint32_t>(n));
  if (net.links.size() <= 1) return made;
  made.links.clear();
  rank_link best{};  // between both: the best link that the device has
  for (std::size_t d = 0, seen = 0; d < n; ++d)
    if (d != of && (seen++ == 0 || net.link(of, d).bandwidth > best.bandwidth)) best = net.link(of, d);
  for (std::size_t a = 0; a <= n; ++a)
    for (std::size_t b = 0; b <= n; ++b) {
      auto const from = a == n ? of : a, to = b == n ? of : b;
      made.links.push_back(a == b ? rank_link{} : from == to ? best : net.link(from, to));
    }
  return made;
}

/// Changes of a network that could make a placement better, in words.
inline std::vector<std::pair<std::string, device_network>> better_networks(device_network const& net,
                                                                           device_placement const& p) {
  std::vector<std::pair<std::string, device_network>> all;
  auto const add = [&](std::string const& what, auto change) {
    all.emplace_back(what, net);
    change(all.back().second);
  };
  std::vector<device_spec> seen;
  for (auto const& s : p.stages) {
    auto const d = s.device;
    auto const label = device_label(net, d);
    add("10 % more speed of " + label, [&](device_network& n) {
      n.devices[d].speed *= 1.1;
      for (auto& [kind, speed] : n.devices[d].speeds) speed *= 1.1;
    });
    if (net.devices[d].memory != unlimited_memory)
      add("10 % more memory of " + label, [&](device_network& n) {
        n.devices[d].memory = bounded_sum(n.devices[d].memory, n.devices[d].memory / 10);
      });
  }
  for (std::size_t s = 0; s + 1 < p.stages.size() && !net.links.empty(); ++s) {
    auto const a = p.stages[s].device, b = p.stages[s + 1].device;
    add("10 % more bandwidth between " + device_label(net, a) + " and " + device_label(net, b),
        [&](device_network& n) {
          auto const count = n.devices.size();
          if (n.links.size() == 1) n.links.assign(count * count, net.links[0]);
          n.links[a * count + b].bandwidth *= 1.1;
          n.links[b * count + a].bandwidth *= 1.1;
        });
  }
  for (std::size_t u = 0; u < net.uplinks.size(); ++u)
    add("10 % more bandwidth of the uplink of '" + net.uplinks[u].name + "'",
        [&](device_network& n) { n.uplinks[u].bandwidth *= 1.1; });
  for (std::uint32_t d = 0; d < net.devices.size(); ++d) {
    auto const& spec = net.devices[d];
    bool const is_new = std::ranges::none_of(seen, [&](device_spec const& other) {
      return other.speed == spec.speed && other.speeds == spec.speeds && other.memory == spec.memory;
    });
    if (!is_new || net.devices.size() >= most_devices) continue;
    seen.push_back(spec);
    all.emplace_back("one more device like " + device_label(net, d), with_one_more(net, d));
  }
  return all;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the savings by 10 % more of each used device, link and uplink, and by one more device of each
/// kind, the largest first. Leaves out those of at most 0.1 %. Each change is placed anew, with a part of the
/// effort. If there are more than `most` changes, only the first are tried.
/// \throws the errors of `place`
inline std::vector<placement_gain> placement_gains(placement_row const& row, device_network const& net,
                                                   placement_options options = {}, std::size_t most = 64) {
  options.effort /= 8;
  auto const now = place(row, net, options);
  std::vector<placement_gain> gains;
  auto changes = detail::better_networks(net, now);
  if (changes.size() > most) changes.resize(most);
  for (auto const& [what, better] : changes) {
    auto const value = place(row, better, options).value();
    auto const saved = now.value() > 0 ? 1 - value / now.value() : 0;
    if (saved > 0.001) gains.push_back({what, value, saved});
  }
  std::ranges::sort(gains, [](placement_gain const& a, placement_gain const& b) {
    return a.saved != b.saved ? a.saved > b.saved : a.what < b.what;
  });
  return gains;
}

}  // namespace cleave
