// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// The address of a process: a host name or IP address, and a port. Port 0 means unspecified.
struct network_address {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  bool operator==(network_address const&) const = default;
};

/// Formats an address: `node1:4000`, `[::1]:4000`.
inline std::string name_of(network_address const& a) {
  bool const bracketed = a.host.find(':') != a.host.npos;
  return (bracketed ? "[" + a.host + "]" : a.host) + ":" + std::to_string(a.port);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Parses a port from 1 to 65535. Returns nothing if `text` is not one.
constexpr std::optional<std::uint16_t> find_port(std::string_view text) {
  std::uint32_t port = 0;
  if (text.empty() || text.size() > 5) return std::nullopt;
  for (char const c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    port = port * 10 + static_cast<std::uint32_t>(c - '0');
  }
  if (port == 0 || port > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(port);
}

/// Parses `host`, `host:port`, `[number]` or `[number]:port`; IPv6 addresses need brackets, and nothing else
/// may have them. Returns nothing if the text has another form. Does not check that the host exists.
inline std::optional<network_address> find_address(std::string_view text) {
  auto const among = [](std::string_view of, std::string_view known) {
    return !of.empty() && std::ranges::all_of(of, [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             known.find(c) != known.npos;
    });
  };
  bool const bracketed = text.starts_with('[');
  auto const end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && end == text.npos) return std::nullopt;
  auto const host = bracketed ? text.substr(1, end - 1) : text.substr(0, end);
  if (!among(host, bracketed ? ":.%" : "-._")) return std::nullopt;
  if (bracketed && host.find(':') == host.npos) return std::nullopt;
  auto rest = end == text.npos ? std::string_view() : text.substr(end + (bracketed ? 1 : 0));
  network_address found{std::string(host), 0};
  if (rest.empty()) return found;
  if (!rest.starts_with(':')) return std::nullopt;
  auto const port = find_port(rest.substr(1));
  if (!port) return std::nullopt;
  found.port = *port;
  return found;
}

}  // namespace cleave::detail
