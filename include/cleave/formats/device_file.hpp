// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave::inline v0_2::detail {

/// Reads a file of devices in JSON, for `read_devices`.
class device_reader {
 public:
  explicit device_reader(json_value file) : file_(file) {}

  device_network read() {
    file_.require_format("cleave devices 1");
    file_.allow({"format", "devices", "link", "links", "groups"});
    file_["devices"].each_element([&](json_value d) { add_device(d); });
    if (net_.devices.empty()) file_["devices"].fail("there are no devices; list at least one");
    auto const n = net_.devices.size();
    if (n > most_devices)
      file_["devices"].fail("there are more than " + std::to_string(most_devices) + " devices");
    bool const is_uniform = !file_.find("links") && !file_.find("groups");
    auto const everywhere = file_.find("link") ? link_of(*file_.find("link"), {}) : rank_link{};
    if (is_uniform) {
      if (file_.find("link")) net_.links = {everywhere};
      return std::move(net_);
    }
    net_.links.assign(n * n, everywhere);
    if (auto const groups = file_.find("groups"))
      groups->each_element([&](json_value g) { add_group(g, 0); });
    for (auto const& g : groups_) apply_uplink(g);
    if (auto const links = file_.find("links")) links->each_element([&](json_value l) { add_link(l); });
    return std::move(net_);
  }

 private:
  struct group {
    std::vector<std::uint32_t> devices;
    std::optional<rank_link> uplink;
  };
  static constexpr std::size_t deepest = 64;  // groups in groups

  static double positive(json_value v) {
    auto const x = v.real();
    if (!(x > 0)) v.fail("expected a number above 0");
    return x;
  }
  static std::uint64_t bytes(json_value v) {
    if (v.what() != json_kind::text) return v.integer<std::uint64_t>();
    auto const size = parse_bytes(v.text());
    if (!size) v.fail("expected a number of bytes, or a size such as \"24GiB\"");
    return *size;
  }
  static rank_link link_of(json_value v, std::initializer_list<std::string_view> more) {
    auto const known = [&](std::string const& key) {
      return key == "latency" || key == "bandwidth" || std::ranges::find(more, key) != more.end();
    };
    v.each_member([&](std::string const& key, json_value m) {
      if (!known(key)) m.fail("unknown key " + quoted(key) + "; a link has latency and bandwidth");
    });
    rank_link made;
    if (auto const late = v.find("latency")) {
      made.latency = late->real();
      if (!(made.latency >= 0)) late->fail("expected a time, not negative");
    }
    if (auto const wide = v.find("bandwidth")) made.bandwidth = positive(*wide);
    return made;
  }

  void add_device(json_value d) {
    d.allow({"name", "count", "speed", "speeds", "memory"});
    device_spec made;
    if (auto const speed = d.find("speed")) made.speed = positive(*speed);
    if (auto const speeds = d.find("speeds"))
      speeds->each_member([&](std::string const& kind, json_value v) { made.speeds[kind] = positive(v); });
    if (auto const memory = d.find("memory")) made.memory = bytes(*memory);
    auto const name = d.find("name") ? d["name"].text() : "";
    auto const count = d.find("count") ? d["count"].integer<std::uint32_t>() : 1;
    if (count == 0 || count > most_devices) d["count"].fail("expected 1 to " + std::to_string(most_devices));
    for (std::uint32_t i = 0; i < count; ++i) {
      made.name = name.empty()      ? std::to_string(net_.devices.size())
                  : d.find("count") ? name + std::to_string(i)
                                    : name;
      if (!number_of_.emplace(made.name, static_cast<std::uint32_t>(net_.devices.size())).second)
        d.fail("there is another device named " + quoted(made.name));
      net_.devices.push_back(made);
    }
    if (d.find("count") && !name.empty()) numbered_[name] = count;
  }

  /// Returns the devices that a text names: one, or all of a numbered list.
  std::vector<std::uint32_t> devices_of(json_value v) const {
    auto const name = v.text();
    if (auto const one = number_of_.find(name); one != number_of_.end()) return {one->second};
    std::vector<std::uint32_t> all;
    if (auto const list = numbered_.find(name); list != numbered_.end())
      for (std::uint32_t i = 0; i < list->second; ++i) all.push_back(number_of_.at(name + std::to_string(i)));
    if (!all.empty()) return all;
    std::vector<std::string> known;
    for (auto const& [other, number] : number_of_) known.push_back(other);
    v.fail("there is no device " + quoted(name) + suggestion(nearest_names(name, known)));
  }

  /// Adds a group and those inside it, and returns its devices. The link of a group is that between devices
  /// which no smaller group has in common.
  std::vector<std::uint32_t> add_group(json_value g, std::size_t depth) {
    g.allow({"name", "devices", "groups", "link", "uplink"});
    if (depth == deepest) g.fail("groups are nested more than " + std::to_string(deepest) + " deep");
    group made;
    std::vector<std::vector<std::uint32_t>> members;
    if (auto const names = g.find("devices"))
      names->each_element([&](json_value v) {
        for (auto const d : devices_of(v)) members.push_back({d});
      });
    if (auto const inner = g.find("groups"))
      inner->each_element([&](json_value v) { members.push_back(add_group(v, depth + 1)); });
    std::vector<char> seen(net_.devices.size());
    for (auto const& member : members)
      for (auto const d : member) {
        if (std::exchange(seen[d], 1))
          g.fail("device " + quoted(net_.devices[d].name) + " is in this group twice");
        if (depth == 0 && std::exchange(grouped_[d], 1))
          g.fail("device " + quoted(net_.devices[d].name) + " is in another group already");
        made.devices.push_back(d);
      }
    if (auto const link = g.find("link")) {
      auto const speed = link_of(*link, {});
      std::vector<std::size_t> member_of(net_.devices.size());
      for (std::size_t m = 0; m < members.size(); ++m)
        for (auto const d : members[m]) member_of[d] = m;
      for (auto const a : made.devices)
        for (auto const b : made.devices)
          if (member_of[a] != member_of[b]) net_.links[a * net_.devices.size() + b] = speed;
    }
    if (auto const up = g.find("uplink")) {
      made.uplink = link_of(*up, {});
      auto const name = g.find("name") ? g["name"].text() : "group " + std::to_string(groups_.size());
      net_.uplinks.push_back({name, made.devices, made.uplink->bandwidth});
    }
    auto devices = made.devices;
    groups_.push_back(std::move(made));
    return devices;
  }

  /// Puts the uplink of a group into the links that leave or enter it.
  void apply_uplink(group const& g) {
    if (!g.uplink) return;
    std::vector<char> is_inside(net_.devices.size());
    for (auto const d : g.devices) is_inside[d] = 1;
    for (std::size_t a = 0; a < net_.devices.size(); ++a)
      for (std::size_t b = 0; b < net_.devices.size(); ++b) {
        if (is_inside[a] == is_inside[b]) continue;
        auto& link = net_.links[a * net_.devices.size() + b];
        link.latency += g.uplink->latency;
        link.bandwidth = (std::min)(link.bandwidth, g.uplink->bandwidth);
      }
  }

  void add_link(json_value l) {
    auto const speed = link_of(l, {"between", "from", "to"});
    auto const set = [&](std::uint32_t a, std::uint32_t b) {
      net_.links[a * net_.devices.size() + b] = speed;
    };
    if (auto const pair = l.find("between")) {
      std::vector<std::vector<std::uint32_t>> ends;
      pair->each_element([&](json_value v) { ends.push_back(devices_of(v)); });
      if (ends.size() != 2) pair->fail("expected two devices");
      for (auto const a : ends[0])
        for (auto const b : ends[1])
          if (a != b) set(a, b), set(b, a);
      return;
    }
    for (auto const a : devices_of(l["from"]))
      for (auto const b : devices_of(l["to"]))
        if (a != b) set(a, b);
  }

  json_value file_;
  device_network net_;
  std::map<std::string, std::uint32_t> number_of_, numbered_;
  std::map<std::uint32_t, char> grouped_;  // devices in groups that are in no other
  std::vector<group> groups_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads devices and links from JSON. `docs/placing.md` describes the format.
/// \throws json::error with line, column and path, device_network_error
inline device_network read_devices(std::string text) {
  detail::json_document const document(std::move(text));
  auto net = detail::device_reader(detail::json_value(document)).read();
  if (auto const f = detail::find_device_network_fault(net)) throw device_network_error(*f);
  return net;
}

/// Returns a network as JSON that `read_devices` reads. Links are listed pair by pair.
/// \throws error if the network has uplinks, or a device without a name
inline std::string devices_json(device_network const& net) {
  if (!net.uplinks.empty())
    throw error("devices: a network with uplinks cannot be written; write it as groups yourself");
  json::writer json(json::writer::layout::indented);
  auto const add_link = [&](rank_link const& link) {
    json.member("latency", link.latency);
    if (is_finite(link.bandwidth)) json.member("bandwidth", link.bandwidth);
  };
  json.open_object().member("format", "cleave devices 1").key("devices").open_array();
  for (auto const& d : net.devices) {
    if (d.name.empty()) throw error("devices: a device without a name cannot be written; give it one");
    json.open_object().member("name", d.name).member("speed", d.speed);
    if (!d.speeds.empty()) {
      json.key("speeds").open_object();
      for (auto const& [kind, speed] : d.speeds) json.member(kind, speed);
      json.close_object();
    }
    if (d.memory != unlimited_memory) json.member("memory", d.memory);
    json.close_object();
  }
  json.close_array();
  if (net.links.size() == 1) {
    json.key("link").open_object();
    add_link(net.links.front());
    json.close_object();
  } else if (!net.links.empty()) {
    json.key("links").open_array();
    for (std::size_t a = 0; a < net.devices.size(); ++a)
      for (std::size_t b = 0; b < net.devices.size(); ++b) {
        if (a == b) continue;
        json.open_object().member("from", net.devices[a].name).member("to", net.devices[b].name);
        add_link(net.link(a, b));
        json.close_object();
      }
    json.close_array();
  }
  json.close_object();
  return json.text();
}

/// The bandwidths of connections that `nvidia-smi topo -m` names, in bytes per second and direction. The
/// defaults are usual figures of NVLink 2 to 4 and of PCIe 4.0 with 16 lanes; measured ones are better.
struct gpu_link_speeds {
  double nvlink = 25e9;       ///< of each link of NV1 to NV18
  double one_bridge = 24e9;   ///< PIX: through at most one PCIe bridge
  double bridges = 22e9;      ///< PXB: through several PCIe bridges
  double host_bridge = 20e9;  ///< PHB: through the host bridge of a CPU
  double node = 18e9;         ///< NODE: between host bridges of a NUMA node
  double system = 10e9;       ///< SYS: between NUMA nodes
  double latency = 10e-6;     ///< of each message, in seconds
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the words of a line, without escape sequences of terminals.
inline std::vector<std::string> words_of_line(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    char const c = i < line.size() ? line[i] : ' ';
    if (c == '\x1b') {
      while (i + 1 < line.size() && line[i + 1] != 'm') ++i;
      ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (!word.empty()) words.push_back(std::exchange(word, {}));
    } else {
      word += c;
    }
  }
  return words;
}

inline bool is_gpu_name(std::string_view word) {
  return word.starts_with("GPU") && word.size() > 3 &&
         word.find_first_not_of("0123456789", 3) == std::string_view::npos;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads the table that `nvidia-smi topo -m` prints. Its GPUs become devices of speed 1 without a limit of
/// memory, and its words become links. \throws error with the line
inline device_network read_gpu_topology(std::string_view text, gpu_link_speeds const& speeds = {}) {
  auto const bandwidth = [&](std::string const& word) -> std::optional<double> {
    if (word == "PIX") return speeds.one_bridge;
    if (word == "PXB") return speeds.bridges;
    if (word == "PHB") return speeds.host_bridge;
    if (word == "NODE") return speeds.node;
    if (word == "SYS") return speeds.system;
    unsigned count = 0;
    if (!word.starts_with("NV")) return std::nullopt;
    auto const [end, fault] = std::from_chars(word.data() + 2, word.data() + word.size(), count);
    if (fault != std::errc() || end != word.data() + word.size() || count == 0) return std::nullopt;
    return count * speeds.nvlink;
  };
  device_network net;
  std::vector<std::vector<std::string>> rows;
  std::size_t line = 0;
  auto const fail = [&](std::string const& what) {
    throw error("topology: line " + std::to_string(line) + ": " + what +
                "; expected the output of nvidia-smi topo -m");
  };
  while (!text.empty() && (net.devices.empty() || rows.size() < net.devices.size())) {
    ++line;
    auto const words = detail::words_of_line(text.substr(0, text.find('\n')));
    text.remove_prefix(
        (std::min)(text.size(), text.find('\n') == text.npos ? text.size() : text.find('\n') + 1));
    if (words.empty()) continue;
    if (net.devices.empty()) {
      for (auto const& word : words)
        if (detail::is_gpu_name(word)) net.devices.push_back({.name = word});
      if (net.devices.empty()) fail("a heading with GPU0 is missing");
      if (net.devices.size() > detail::most_devices) fail("there are too many GPUs");
      continue;
    }
    auto const& name = net.devices[rows.size()].name;
    if (words[0] != name) fail("expected the row of " + name + ", got '" + printable(words[0], 20) + "'");
    if (words.size() <= net.devices.size()) fail("the row of " + name + " is too short");
    rows.push_back(words);
    for (std::size_t to = 0; to < net.devices.size(); ++to) {
      auto const& word = words[to + 1];
      auto const speed = to + 1 == rows.size() ? std::optional(1.0) : bandwidth(word);
      if (to + 1 == rows.size() ? word != "X" : !speed)
        fail("'" + printable(word, 20) + "' in the column of " + net.devices[to].name + " is no connection");
      net.links.push_back(to + 1 == rows.size() ? rank_link{} : rank_link{speeds.latency, *speed});
    }
  }
  ++line;
  if (net.devices.empty()) fail("a heading with GPU0 is missing");
  if (rows.size() < net.devices.size()) fail("the row of " + net.devices[rows.size()].name + " is missing");
  if (auto const f = detail::find_device_network_fault(net)) throw device_network_error(*f);
  return net;
}

}  // namespace cleave
