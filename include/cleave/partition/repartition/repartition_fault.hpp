// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/repartition/repartition_options.hpp"

namespace cleave::detail {

/// What is wrong with what `repartition` is given besides the graph and `kway`.
enum class broken_repartition : std::uint8_t {
  parts,           ///< more than there are nodes by 65,536: tables of that size would be made for nothing
  cost,            ///< `cost_per_byte` is negative or not finite
  old_length,      ///< the old partition is of so many nodes
  bytes_length,    ///< `bytes` has so many entries
  bytes_overflow,  ///< the bytes add up to 2^63 or more at this node
  stays_length,    ///< `stays` has so many entries
  stays_nowhere,   ///< this node must stay, and where it is there is no part any more
  stays_fixed,     ///< this node must stay, and is fixed to another part
};

struct repartition_fault {
  broken_repartition what;
  std::size_t where = 0;

  bool operator==(repartition_fault const&) const = default;
};

class repartition_error : public witness_error<repartition_fault> {
 public:
  using witness_error::witness_error;
};

inline std::optional<repartition_fault> find_repartition_fault(std::size_t nodes, partition const& old,
                                                               std::uint32_t k,
                                                               repartition_options const& o) {
  using enum broken_repartition;
  if (k > nodes + 65'536) return repartition_fault{parts, k};
  if (!(o.cost_per_byte >= 0) || !is_finite(o.cost_per_byte)) return repartition_fault{cost};
  if (old.of.size() != nodes) return repartition_fault{old_length, old.of.size()};
  if (!o.bytes.empty() && o.bytes.size() != nodes) return repartition_fault{bytes_length, o.bytes.size()};
  std::uint64_t sum = 0;
  for (std::size_t n = 0; n < o.bytes.size(); ++n) {
    if (o.bytes[n] >= (std::uint64_t{1} << 63) - sum) return repartition_fault{bytes_overflow, n};
    sum += o.bytes[n];
  }
  if (!o.stays.empty() && o.stays.size() != nodes) return repartition_fault{stays_length, o.stays.size()};
  for (std::size_t n = 0; n < o.stays.size(); ++n) {
    if (!o.stays[n]) continue;
    if (index(old.of[n]) >= k) return repartition_fault{stays_nowhere, n};
    if (n < o.kway.fixed.size() && o.kway.fixed[n] != no_part && o.kway.fixed[n] != old.of[n])
      return repartition_fault{stays_fixed, n};
  }
  return std::nullopt;
}

/// \throws repartition_error if `find_repartition_fault` finds one.
inline void check_repartition(std::size_t nodes, partition const& old, std::uint32_t k,
                              repartition_options const& o) {
  auto const fault = find_repartition_fault(nodes, old, k, o);
  if (!fault) return;
  auto const where = std::to_string(fault->where), all = std::to_string(nodes);
  auto const sentence = [&]() -> std::string {
    switch (fault->what) {
      case broken_repartition::parts:
        return where + " parts are asked for, and the graph has " + all + " nodes: ask for fewer";
      case broken_repartition::cost:
        return "cost_per_byte is not a finite number from 0 up";
      case broken_repartition::old_length:
        return "the old partition is of " + where + " nodes, the graph has " + all;
      case broken_repartition::bytes_length:
        return "bytes are given for " + where + " nodes of " + all + ": give them for each, or for none";
      case broken_repartition::bytes_overflow:
        return "the bytes add up to 2^63 or more at node #" + where;
      case broken_repartition::stays_length:
        return "`stays` is given for " + where + " nodes of " + all + ": give it for each, or for none";
      case broken_repartition::stays_nowhere:
        return "node #" + where + " must stay, and is in none of the " + std::to_string(k) + " parts";
      case broken_repartition::stays_fixed:
        return "node #" + where + " must stay, and is fixed to another part";
    }
    return "";
  };
  throw repartition_error("repartition: " + sentence(), *fault);
}

}  // namespace cleave::detail
