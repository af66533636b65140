// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/place/detail/device_classes.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/place.hpp"
#include "cleave/place/place_replicated.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/place/placement_row.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a network with one more device, whose speed, memory and links are those of device `of`. The link
/// between both is that from `of` to `peer`, a device like it, or if they are equal the best link of `of`.
inline device_network with_one_more(device_network const& net, std::uint32_t of, std::uint32_t peer) {
  auto made = net;
  auto const n = net.devices.size();
  made.devices.push_back(net.devices[of]);
  made.devices.back().name += made.devices.back().name.empty() ? "" : " (one more)";
  for (auto& group : made.uplinks)
    if (std::ranges::find(group.devices, of) != group.devices.end())
      group.devices.push_back(static_cast<std::uint32_t>(n));
  if (net.links.size() <= 1) return made;
  made.links.clear();
  rank_link best{};
  for (std::size_t d = 0, seen = 0; d < n; ++d)
    if (d != of && (seen++ == 0 || net.link(of, d).bandwidth > best.bandwidth)) best = net.link(of, d);
  if (peer != of) best = net.link(of, peer);
  for (std::size_t a = 0; a <= n; ++a)
    for (std::size_t b = 0; b <= n; ++b) {
      auto const from = a == n ? of : a, to = b == n ? of : b;
      made.links.push_back(a == b ? rank_link{} : from == to ? best : net.link(from, to));
    }
  return made;
}

/// A change of a network that could make a placement better: what it is, in words, and the network with it.
struct network_change {
  std::string what;
  device_network net;
};

/// Lists changes of a network. Devices that are given together are alike and change together.
class network_changes {
 public:
  using devices = std::vector<std::uint32_t>;

  explicit network_changes(device_network const& net) : net_(&net) {}

  /// Adds 10 % more speed and, if it has a limit, 10 % more memory of each of these devices.
  void add_devices(devices const& of) {
    auto const who = (of.size() > 1 ? "each of the " + std::to_string(of.size()) + " devices like " : "") +
                     device_label(*net_, of[0]);
    auto& faster = add("10 % more speed of " + who);
    for (auto const d : of) {
      faster.devices[d].speed *= 1.1;
      for (auto& [kind, speed] : faster.devices[d].speeds) speed *= 1.1;
    }
    if (net_->devices[of[0]].memory == unlimited_memory) return;
    auto& larger = add("10 % more memory of " + who);
    for (auto const d : of)
      larger.devices[d].memory = bounded_sum(larger.devices[d].memory, larger.devices[d].memory / 10);
  }
  /// Adds 10 % more bandwidth of all links between devices of two lists, or of one if both are the same.
  void add_links(devices const& from, devices const& to) {
    if (net_->links.empty()) return;
    auto const who = [&](devices const& of) {
      return (of.size() > 1 ? "devices like " : "") + device_label(*net_, of[0]);
    };
    auto& made = add("10 % more bandwidth between " + who(from) + (from == to ? "" : " and " + who(to)));
    auto const count = made.devices.size();
    if (made.links.size() == 1) made.links.assign(count * count, net_->links[0]);
    for (auto const a : from)
      for (auto const b : to)
        if (a != b) {
          made.links[a * count + b].bandwidth *= 1.1;
          if (from != to) made.links[b * count + a].bandwidth *= 1.1;
        }
  }
  /// Adds 10 % more bandwidth of each uplink.
  void add_uplinks() {
    for (std::size_t u = 0; u < net_->uplinks.size(); ++u)
      add("10 % more bandwidth of the uplink of '" + net_->uplinks[u].name + "'").uplinks[u].bandwidth *= 1.1;
  }
  /// Adds one more device like the first of these.
  void add_one_more(devices const& of) {
    if (net_->devices.size() < most_devices)
      all_.push_back({"one more device like " + device_label(*net_, of[0]),
                      with_one_more(*net_, of[0], of[of.size() > 1 ? 1 : 0])});
  }

  std::vector<network_change> const& all() const { return all_; }

 private:
  device_network& add(std::string const& what) {
    all_.push_back({what, *net_});
    return all_.back().net;
  }

  device_network const* net_;
  std::vector<network_change> all_;
};

/// Returns the changes that could make a placement without copies better.
inline std::vector<network_change> better_networks(device_network const& net, device_placement const& p) {
  network_changes made(net);
  for (auto const& s : p.stages) made.add_devices({s.device});
  for (std::size_t s = 0; s + 1 < p.stages.size(); ++s)
    made.add_links({p.stages[s].device}, {p.stages[s + 1].device});
  made.add_uplinks();
  std::vector<device_spec> seen;
  for (std::uint32_t d = 0; d < net.devices.size(); ++d) {
    auto const& spec = net.devices[d];
    bool const is_new = std::ranges::none_of(seen, [&](device_spec const& other) {
      return other.speed == spec.speed && other.speeds == spec.speeds && other.memory == spec.memory;
    });
    if (!is_new) continue;
    seen.push_back(spec);
    made.add_one_more({d});
  }
  return made.all();
}

/// Returns the changes that could make a placement with copies better. Devices that are alike change
/// together, since all copies of a stage are on such devices.
inline std::vector<network_change> better_networks(placement_row const& row, device_network const& net,
                                                   replicated_placement const& p) {
  network_changes made(net);
  auto const alike = classify(row, net).members;
  std::vector<std::uint32_t> class_of(net.devices.size());
  for (std::uint32_t c = 0; c < alike.size(); ++c)
    for (auto const d : alike[c]) class_of[d] = c;
  std::vector<char> is_used(alike.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> linked;  // classes, the lower first
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    auto const here = class_of[p.stages[s].devices.at(0)];
    if (!std::exchange(is_used[here], 1)) made.add_devices(alike[here]);
    if (p.stages[s].sum_time > 0) linked.emplace_back(here, here);
    if (s == 0) continue;
    auto const before = class_of[p.stages[s - 1].devices.at(0)];
    linked.emplace_back((std::min)(here, before), (std::max)(here, before));
  }
  std::ranges::sort(linked);
  linked.erase(std::ranges::unique(linked).begin(), linked.end());
  for (auto const& [a, b] : linked) made.add_links(alike[a], alike[b]);
  made.add_uplinks();
  for (auto const& of : alike) made.add_one_more(of);
  return made.all();
}

/// Returns the changes that save more than 0.1 % of a value, the largest saving first. `place_on` returns
/// what is placed on a network, or nothing if it cannot be placed there.
template <class PlaceOn>
std::vector<placement_gain> gains_of(std::vector<network_change> changes, double now, std::size_t most,
                                     PlaceOn place_on) {
  if (changes.size() > most) changes.resize(most);
  std::vector<placement_gain> gains;
  for (auto const& [what, better] : changes) {
    auto const placed = place_on(better);
    if (!placed) continue;
    auto const value = placed->value();
    auto const saved = now > 0 ? 1 - value / now : 0;
    if (saved > 0.001) gains.push_back({what, value, saved});
  }
  std::ranges::sort(gains, [](placement_gain const& a, placement_gain const& b) {
    return a.saved != b.saved ? a.saved > b.saved : a.what < b.what;
  });
  return gains;
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
  return detail::gains_of(detail::better_networks(net, now), now.value(), most,
                          [&](device_network const& better) -> std::optional<device_placement> {
                            return place(row, better, options);
                          });
}

/// Returns the same for stages with copies. Devices that are alike change together. A change that
/// `place_replicated` refuses, such as one more device where there are as many as it can take, is left out.
/// \throws the errors of `place_replicated`
inline std::vector<placement_gain> replication_gains(placement_row const& row, device_network const& net,
                                                     replication_options const& options,
                                                     std::size_t most = 64) {
  auto const now = place_replicated(row, net, options);
  return detail::gains_of(detail::better_networks(row, net, now), now.value(), most,
                          [&](device_network const& better) -> std::optional<replicated_placement> {
                            try {
                              return place_replicated(row, better, options);
                            } catch (error const&) {
                              return std::nullopt;
                            }
                          });
}

}  // namespace cleave
