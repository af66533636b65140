// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/rendezvous/network_address.hpp"

namespace cleave::inline v0_2 {

/// A host, and the number of ranks that it runs.
struct listed_host {
  network_address address;
  std::uint32_t slots = 1;

  bool operator==(listed_host const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a host list is invalid, and its position, counted from 1. Line 0 means the list as a whole,
/// token 0 a line as a whole.
struct host_list_fault {
  std::size_t line = 0, token = 0;
  std::string what;

  bool operator==(host_list_fault const&) const = default;
};

/// Formats a fault: `line 3, token 2: …`.
inline std::string describe(host_list_fault const& f) {
  return (f.line == 0 ? "host list" : "line " + std::to_string(f.line)) +
         (f.token == 0 ? "" : ", token " + std::to_string(f.token)) + ": " + f.what;
}

/// Thrown if a text is not a valid host list.
using host_list_error = fault_error<host_list_fault>;

/// Upper bound on the sum of all slots of a list.
inline constexpr std::uint32_t most_slots = 1'000'000;

/// The parser of host lists, for `read_hosts`.
class host_list_reader {
 public:
  std::vector<listed_host> read(std::string_view text) {
    while (!text.empty()) {
      auto const end = text.find('\n');
      ++fault_.line;
      line(text.substr(0, end));
      text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    fault_ = {};
    if (hosts_.empty()) fail("it has no hosts; write one line per host, such as 'node1:4000 slots=2'");
    return hosts_;
  }

 private:
  [[noreturn]] void fail(std::string const& what) {
    fault_.what = what;
    throw host_list_error(fault_);
  }

  void line(std::string_view text) {
    text = text.substr(0, text.find('#'));
    for (fault_.token = 0;;) {
      auto const first = text.find_first_not_of(" \t\r");
      if (first == text.npos) break;
      text.remove_prefix(first);
      auto const word = text.substr(0, text.find_first_of(" \t\r"));
      ++fault_.token == 1 ? host(word) : slots(word);
      text.remove_prefix(word.size());
    }
    total_ += fault_.token == 0 ? 0 : hosts_.back().slots;
    if (total_ > most_slots) fail("there are more than " + std::to_string(most_slots) + " slots up to here");
  }
  void host(std::string_view word) {
    auto const found = find_address(word);
    if (!found) fail(quoted(word) + " is not a host; expected node1, node1:4000 or [::1]:4000");
    hosts_.push_back({*found});
  }
  void slots(std::string_view word) {
    constexpr std::string_view name = "slots=";
    if (fault_.token > 2 || !word.starts_with(name))
      fail(quoted(word) +
           " is unexpected; after the host, expected 'slots=' and a number, or the end of the line");
    auto const digits = word.substr(name.size());
    std::uint32_t n = 0;
    auto const [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (wrong != std::errc() || end != digits.data() + digits.size() || n == 0 || n > most_slots)
      fail(quoted(digits) + " is not a number of slots from 1 to " + std::to_string(most_slots));
    hosts_.back().slots = n;
  }

  std::vector<listed_host> hosts_;
  std::uint64_t total_ = 0;
  host_list_fault fault_;
};
}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Parses a host list with one host per line: `host[:port] [slots=n]`. `#` starts a comment. A host may occur
/// several times. O(size of the text).
/// \throws host_list_error at the first syntax error
inline std::vector<listed_host> read_hosts(std::string_view text) {
  return detail::host_list_reader().read(text);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first fault of a text, or nothing if `read_hosts` accepts it.
inline std::optional<host_list_fault> find_host_list_fault(std::string_view text) {
  try {
    read_hosts(text);
    return std::nullopt;
  } catch (host_list_error const& e) {
    return e.witness;
  }
}
}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the host of rank `r`, or nothing if there are not enough slots. Hosts are filled in order, as
/// launchers do.
inline std::optional<network_address> find_host(std::vector<listed_host> const& hosts, rank_id r) {
  std::uint64_t end = 0;
  for (auto const& h : hosts) {
    end += h.slots;
    if (end > index(r)) return h.address;
  }
  return std::nullopt;
}

}  // namespace cleave
