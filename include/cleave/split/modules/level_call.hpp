// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/partition/named/cut_stages.hpp"
#include "cleave/partition/named/hierarchical_cut.hpp"

namespace cleave::detail {

/// An opened level is called with arguments that do not fit its placeholders.
struct level_call_fault {
  level_call call;       ///< in the level that calls
  std::string path;      ///< of the module that is called
  argument_fault fault;  ///< what does not fit

  bool operator==(level_call_fault const&) const = default;
};

/// A call whose arguments do not fit the module that is to be opened. The witness: the call.
class level_call_error : public witness_error<level_call_fault> {
 public:
  level_call_error(hierarchical_cut const& cut, level_call_fault const& f)
      : witness_error("hierarchy: call " + quoted(label(cut, f.call)) + " of " + quoted(f.path) +
                          " cannot be opened: " + argument_error(f.fault).what(),
                      f) {}
};

/// The first call of a level that holds cuts whose arguments do not fit, or nothing. O(opened calls *
/// placeholders).
inline std::optional<level_call_fault> find_level_call_fault(hierarchical_cut const& cut) {
  for (std::uint32_t i = 0; i < cut.levels.size(); ++i)
    for (auto const& [n, inside] : cut.levels[i].opened) {
      auto const& call = (*cut.levels[i].graph)[n];
      std::vector<std::string> keys;
      for (auto const& k : call.kwargs) keys.push_back(k.key);
      if (auto fault = find_argument_fault(*cut.levels[inside].graph, call.args.size(), keys))
        return level_call_fault{{i, n}, cut.levels[inside].path, *std::move(fault)};
    }
  return std::nullopt;
}

}  // namespace cleave::detail
