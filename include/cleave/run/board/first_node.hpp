// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "cleave/run/board/network_address.hpp"

namespace cleave::detail {

/// The first machine of a list as Slurm writes it, `node[01-04,07],login`: `node01`. Nothing where that is no
/// name. O(size).
inline std::optional<std::string> find_first_node(std::string_view list) {
  std::string name;
  for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      name += list[at++];
      continue;
    }
    auto const end = list.find(']', at);
    if (end == list.npos) return std::nullopt;
    auto const numbers = list.substr(at + 1, end - at - 1);
    auto const first = numbers.substr(0, numbers.find_first_of("-,"));
    if (first.empty()) return std::nullopt;
    name += first;
    at = end + 1;
  }
  auto const found = find_address(name);
  if (!found || found->port != 0) return std::nullopt;
  return found->host;
}

}  // namespace cleave::detail
