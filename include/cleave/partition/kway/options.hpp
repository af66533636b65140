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

/// A step that a k-way partitioner has just finished.
enum class kway_phase : std::uint8_t { coarsened, first_cut, projected, refined };

}  // namespace cleave::detail

namespace cleave {

/// Receives progress of a k-way partitioner, for timers and progress bars. It does not affect the result. It
/// is called on the thread of the caller.
class kway_observer {
 public:
  virtual ~kway_observer() = default;
  /// Called after each step. `nodes` is the size of the level; `gained` is the decrease of the cut if the
  /// level was refined, otherwise 0.
  virtual void passed(detail::kway_phase phase, std::size_t nodes, std::int64_t gained) = 0;
};

/// Trades running time for a smaller cut.
enum class kway_preset : std::uint8_t {
  fast,      ///< about as fast as METIS, faster on large graphs; the cut is seldom larger
  standard,  ///< cuts like those of the best fast partitioners, in a few times their time
  quality,   ///< cuts like those of the slow, high-quality partitioners
};

/// Options of `partition_kway` and `refine_kway`.
struct kway_options {
  kway_preset preset = kway_preset::standard;
  per_part<double> imbalance = 0.03;  ///< how far a part may exceed its share: 0.03 is 3 %
  per_part<double> share{};           ///< share of each part in the total node weight, in any unit; empty:
                                      ///< equal shares
  std::vector<part_id> fixed{};       ///< the part of each fixed node, `no_part` for free nodes; empty: all
                                      ///< nodes are free
  bool connected = false;             ///< whether the nodes of a part must be connected, within each
                                      ///< component of the graph; fixed nodes may prevent it
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;          ///< does not affect the result
  kway_observer* observer = nullptr;  ///< must outlive the call
};

}  // namespace cleave

namespace cleave::detail {

/// The option that does not fit the graph.
enum class invalid_kway_option : std::uint8_t { parts, imbalance, share, fixed_length, fixed_part };

/// An invalid option, with the place of the error.
struct kway_option_fault {
  invalid_kway_option what;
  std::size_t where = 0;  ///< a part or a fixed node, or the number of entries if that is wrong

  bool operator==(kway_option_fault const&) const = default;
};

using kway_option_error = witness_error<kway_option_fault>;

/// Returns the first option that does not fit a graph of `nodes` nodes and `parts` parts, if any.
inline std::optional<kway_option_fault> find_option_fault(kway_options const& o, std::size_t nodes,
                                                          std::uint32_t parts) {
  if (parts == 0 || parts > nodes + 65'536)  // more parts would only make large, mostly empty tables
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

/// Checks the options. \throws kway_option_error if `find_option_fault` finds an invalid one.
inline void check_options(kway_options const& o, std::size_t nodes, std::uint32_t parts) {
  auto const fault = find_option_fault(o, nodes, parts);
  if (!fault) return;
  auto const count = [](std::size_t i) { return std::to_string(i); };
  auto const where = count(fault->where);
  auto const sentence = [&]() -> std::string {
    switch (fault->what) {
      case invalid_kway_option::parts:
        return count(parts) + " parts are requested for a graph of " + count(nodes) +
               " nodes: request between 1 and the number of nodes + 65,536";
      case invalid_kway_option::imbalance:
        return o.imbalance.covers(parts)
                   ? "imbalance " + where +
                         " is negative or not finite: expected a finite number of at least 0"
                   : "there are " + where + " imbalances for " + count(parts) + " parts";
      case invalid_kway_option::share:
        return o.share.covers(parts) ? "share " + where + " is negative or not finite, or all shares are 0"
                                     : "there are " + where + " shares for " + count(parts) + " parts";
      case invalid_kway_option::fixed_length:
        return "`fixed` has " + where + " entries for a graph of " + count(nodes) +
               " nodes: give one entry per node, or none";
      case invalid_kway_option::fixed_part:
        return "node #" + where + " is fixed to part " + count(index(o.fixed[fault->where])) + " of " +
               count(parts);
    }
    return "";
  };
  throw kway_option_error("k-way partition: " + sentence(), *fault);
}

}  // namespace cleave::detail
