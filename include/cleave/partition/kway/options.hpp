// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::detail {

/// What a k-way partition has just done.
enum class kway_phase : std::uint8_t { coarsened, first_cut, projected, refined };

}  // namespace cleave::detail

namespace cleave {

/// Told of each step of a k-way partition on the thread of the caller: for clocks and progress. It changes
/// nothing.
class kway_observer {
 public:
  virtual ~kway_observer() = default;
  /// `nodes` of the level, and by how much the cut fell where it was refined.
  virtual void passed(detail::kway_phase phase, std::size_t nodes, std::int64_t gained) = 0;
};

/// How much time a smaller cut is worth.
enum class kway_preset : std::uint8_t {
  fast,      ///< in less time than METIS, with cuts that are seldom larger
  standard,  ///< as good as the best of the fast partitioners, in a few times that time
  quality,   ///< as good as the slow ones
};

struct kway_options {
  kway_preset preset = kway_preset::standard;
  per_part<double> imbalance = 0.03;  ///< how much more than its share a part may weigh: 0.03 is 3 %
  per_part<double> share{};           ///< of the total, in any unit; empty: alike
  std::vector<part_id> fixed{};       ///< where a node must be, or `no_part`; empty: nowhere
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;          ///< the result does not depend on it
  kway_observer* observer = nullptr;  ///< outlives the call
};

}  // namespace cleave

namespace cleave::detail {

/// What is wrong with options for a graph.
enum class invalid_kway_option : std::uint8_t { parts, imbalance, share, fixed_length, fixed_part };

struct kway_option_fault {
  invalid_kway_option what;
  std::size_t where = 0;  ///< a part, or the node that is bound

  bool operator==(kway_option_fault const&) const = default;
};

using kway_option_error = witness_error<kway_option_fault>;

inline std::optional<kway_option_fault> find_option_fault(kway_options const& o, std::size_t nodes,
                                                          std::uint32_t parts) {
  if (parts == 0 || parts > nodes + 65'536)  // tables of that size would be made for nothing
    return kway_option_fault{invalid_kway_option::parts};
  if (!o.imbalance.covers(parts))
    return kway_option_fault{invalid_kway_option::imbalance, o.imbalance.size()};
  for (std::size_t i = 0; i < o.imbalance.size(); ++i)
    if (!(o.imbalance[i] >= 0) || !is_finite(o.imbalance[i]))
      return kway_option_fault{invalid_kway_option::imbalance, i};
  if (!o.share.covers(parts)) return kway_option_fault{invalid_kway_option::share, o.share.size()};
  double shares = 0;
  for (std::size_t i = 0; i < o.share.size(); ++i) {
    if (!(o.share[i] >= 0) || !is_finite(o.share[i])) return kway_option_fault{invalid_kway_option::share, i};
    shares += o.share[i];
  }
  if (!o.share.empty() && !(shares > 0 && is_finite(shares)))
    return kway_option_fault{invalid_kway_option::share, 0};
  if (!o.fixed.empty() && o.fixed.size() != nodes)
    return kway_option_fault{invalid_kway_option::fixed_length, o.fixed.size()};
  for (std::size_t n = 0; n < o.fixed.size(); ++n)
    if (o.fixed[n] != no_part && index(o.fixed[n]) >= parts)
      return kway_option_fault{invalid_kway_option::fixed_part, n};
  return std::nullopt;
}

/// \throws kway_option_error if `find_option_fault` finds one.
inline void check_options(kway_options const& o, std::size_t nodes, std::uint32_t parts) {
  auto const fault = find_option_fault(o, nodes, parts);
  if (!fault) return;
  auto const count = [](std::size_t i) { return std::to_string(i); };
  auto const where = count(fault->where);
  auto const sentence = [&]() -> std::string {
    switch (fault->what) {
      case invalid_kway_option::parts:
        return count(parts) + " parts are asked for, and the graph has " + count(nodes) +
               " nodes: ask for one at least, and for fewer than 65,537 more than there are nodes";
      case invalid_kway_option::imbalance:
        return o.imbalance.covers(parts)
                   ? "imbalance " + where + " is not a finite number from 0 up"
                   : "there are " + where + " imbalances for " + count(parts) + " parts";
      case invalid_kway_option::share:
        return o.share.covers(parts) ? "share " + where + " is not a finite number from 0 up, or all are 0"
                                     : "there are " + where + " shares for " + count(parts) + " parts";
      case invalid_kway_option::fixed_length:
        return "parts are fixed for " + where + " nodes of " + count(nodes) + ": give one for each, or none";
      case invalid_kway_option::fixed_part:
        return "node #" + where + " is fixed to part " + count(index(o.fixed[fault->where])) + " of " +
               count(parts);
    }
    return "";
  };
  throw kway_option_error("k-way partition: " + sentence(), *fault);
}

}  // namespace cleave::detail
