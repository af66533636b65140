// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave::inline v0_2 {

/// The memory of a device that has no limit.
inline constexpr std::uint64_t unlimited_memory = ~std::uint64_t{0};

/// A device that can run one stage.
struct device_spec {
  std::string name = {};
  double speed = 1;  ///< cost that it runs per unit of time
  std::map<std::string, double, std::less<>> speeds =
      {};                                   ///< speeds for kinds of operations; `speed` otherwise
  std::uint64_t memory = unlimited_memory;  ///< in bytes

  /// Returns its speed for a kind of operation.
  double speed_for(std::string const& kind) const {
    auto const at = speeds.find(kind);
    return at == speeds.end() ? speed : at->second;
  }
};

/// A connection that all messages share which leave or enter a group of devices, such as the network card of
/// a host. What leaves and what enters do not delay each other.
struct shared_uplink {
  std::string name = {};
  std::vector<std::uint32_t> devices = {};                     ///< positions of the devices of the group
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes per unit of time, in each direction
};

/// Devices and the links between them. Times are in one unit of the caller's choice, such as seconds.
struct device_network {
  std::vector<device_spec> devices = {};
  /// One per pair of devices, that from a to b at index a · devices + b, or one for all. If empty, links add
  /// no time.
  std::vector<rank_link> links = {};
  std::vector<shared_uplink> uplinks = {};  ///< these limit what several links move together

  /// Returns the link from one device to another.
  rank_link link(std::size_t from, std::size_t to) const {
    return detail::one_or_each(links).of(from * devices.size() + to);
  }
};

/// Returns the name of a device in reports: `a100`, or `#3` if it has no name.
inline std::string device_name(device_network const& net, std::size_t d) {
  auto const& name = net.devices[d].name;
  return name.empty() ? "#" + std::to_string(d) : printable(name, 40);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the time for which a microbatch occupies the busier direction of a link.
inline double occupied_time(edge_bytes const& bytes, rank_link const& there, rank_link const& back) {
  return (std::max)(static_cast<double>(bytes.activation) / there.bandwidth,
                    static_cast<double>(bytes.gradient) / back.bandwidth);
}

/// The largest number of devices. Tables of links have its square of entries.
inline constexpr std::size_t most_devices = 4'096;

/// A reason why a network is invalid.
struct device_network_fault {
  static constexpr char subject[] = "devices: ";
  enum class kind : std::uint8_t {
    no_devices,
    too_many,
    name_twice,
    speed,
    link_count,
    latency,
    bandwidth,
    uplink_device,  ///< a group names a device that does not exist, or one twice
    uplink_bandwidth,
  };
  kind what;
  std::string who = {};  ///< the device, the pair or the group
  std::size_t got = 0;

  bool operator==(device_network_fault const&) const = default;
};

/// Returns a sentence that names the fault and a remedy.
inline std::string describe(device_network_fault const& f) {
  using enum device_network_fault::kind;
  auto const got = std::to_string(f.got);
  switch (f.what) {
    case no_devices:
      return "there are none; give at least one";
    case too_many:
      return "there are " + got + "; at most " + std::to_string(most_devices) + " are allowed";
    case name_twice:
      return "two devices have the name " + f.who + "; give each a name of its own";
    case speed:
      return "the speed of " + f.who + " must be a number from 1e-100 to 1e100";
    case link_count:
      return got + " links are given; give one per pair of devices, one for all, or none";
    case latency:
      return "the latency of the link " + f.who + " must be a time from 0 to 1e100";
    case bandwidth:
      return "the bandwidth of the link " + f.who + " must be above 0; omit it if bytes take no time";
    case uplink_device:
      return "the group " + f.who + " names device #" + got + ", which does not exist or is named twice";
    case uplink_bandwidth:
      return "the bandwidth of the uplink of " + f.who + " must be above 0";
  }
  return {};
}

/// Returns the name of a device in messages: `'a100'`, or `#3` if it has no name.
inline std::string device_label(device_network const& net, std::size_t d) {
  return net.devices[d].name.empty() ? device_name(net, d) : "'" + device_name(net, d) + "'";
}

/// Returns the first fault of a network, or nothing. O(devices² + sizes of groups).
inline std::optional<device_network_fault> find_device_network_fault(device_network const& net) {
  using enum device_network_fault::kind;
  auto const count = net.devices.size();
  if (count == 0) return device_network_fault{no_devices};
  if (count > most_devices) return device_network_fault{too_many, {}, count};
  std::map<std::string, std::size_t> seen;
  auto const is_speed = [](double s) { return s >= 1 / longest_cost && s <= longest_cost; };
  for (std::size_t d = 0; d < count; ++d) {
    auto const& device = net.devices[d];
    if (!device.name.empty() && !seen.emplace(device.name, d).second)
      return device_network_fault{name_twice, device_label(net, d)};
    if (!is_speed(device.speed)) return device_network_fault{speed, device_label(net, d)};
    for (auto const& [kind, value] : device.speeds)
      if (!is_speed(value)) return device_network_fault{speed, device_label(net, d) + " for '" + kind + "'"};
  }
  if (!one_or_each(net.links).covers(count * count))
    return device_network_fault{link_count, {}, net.links.size()};
  for (std::size_t i = 0; i < net.links.size(); ++i) {
    if (net.links.size() > 1 && i / count == i % count) continue;  // a device needs no link to itself
    auto const [late, wide] = net.links[i];
    auto const pair = net.links.size() == 1
                          ? std::string("between all devices")
                          : "from " + device_label(net, i / count) + " to " + device_label(net, i % count);
    if (!(late >= 0 && late <= longest_cost)) return device_network_fault{latency, pair};
    if (!(wide > 0)) return device_network_fault{bandwidth, pair};
  }
  for (auto const& group : net.uplinks) {
    auto const who = "'" + group.name + "'";
    if (!(group.bandwidth > 0)) return device_network_fault{uplink_bandwidth, who};
    std::vector<char> is_member(count);
    for (auto const d : group.devices) {
      if (d >= count || is_member[d]) return device_network_fault{uplink_device, who, d};
      is_member[d] = 1;
    }
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if a network of devices is invalid. The witness is the fault.
using device_network_error = fault_error<detail::device_network_fault>;

}  // namespace cleave
