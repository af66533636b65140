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

namespace cleave::inline v0_2::detail {

/// A step that a k-way partitioner has just finished.
enum class kway_phase : std::uint8_t { coarsened, first_cut, projected, refined };

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

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

/// A further weight of the nodes, with limits of its own that parts must keep.
struct further_weight {
  std::vector<double> of;             ///< of each node, by position; at least 0
  per_part<double> imbalance = 0.03;  ///< how far a part may exceed its share of this weight
  per_part<double> share{};           ///< share of each part in this weight; empty: equal shares
};

/// Options of `partition_kway` and `refine_kway`.
struct kway_options {
  kway_preset preset = kway_preset::standard;
  per_part<double> imbalance = 0.03;  ///< how far a part may exceed its share: 0.03 is 3 %
  per_part<double> share{};           ///< share of each part in the total node weight, in any unit; empty:
                                      ///< equal shares
  std::vector<part_id> fixed{};       ///< the part of each fixed node, `no_part` for free nodes; empty: all
                                      ///< nodes are free
  std::vector<further_weight> further_weights{};  ///< that parts must balance too
  bool connected = false;  ///< whether the nodes of a part must be connected, within each
                           ///< component of the graph; fixed nodes may prevent it
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;          ///< does not affect the result
  kway_observer* observer = nullptr;  ///< must outlive the call
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The option that does not fit the graph.
enum class invalid_kway_option : std::uint8_t {
  parts,
  imbalance,
  share,
  fixed_length,
  fixed_part,
  further_length,
  further_weight,
  further_total,
  further_imbalance,
  further_share,
  further_refused,  ///< the function balances only one weight
};

/// An invalid option, with the place of the error.
struct kway_option_fault {
  invalid_kway_option what;
  std::size_t where = 0;    ///< a part or a node, or the number of entries if that is wrong
  std::size_t further = 0;  ///< the entry of `further_weights` that is invalid

  bool operator==(kway_option_fault const&) const = default;
};

using kway_option_error = witness_error<kway_option_fault>;

/// Returns true for a finite number of at least 0.
inline bool is_amount(double x) { return x >= 0 && is_finite(x); }

/// Returns the first entry that `is_amount` rejects, or the number of entries if that does not fit `parts`.
inline std::optional<std::size_t> find_amount_fault(per_part<double> const& values, std::size_t parts) {
  if (!values.covers(parts)) return values.size();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!is_amount(values[i])) return i;
  return std::nullopt;
}

/// Returns the first share that is no amount, the number of shares if that does not fit `parts`, or 0 if all
/// shares are 0.
inline std::optional<std::size_t> find_share_fault(per_part<double> const& share, std::size_t parts) {
  if (auto const where = find_amount_fault(share, parts)) return where;
  double sum = 0;
  for (std::size_t i = 0; i < share.size(); ++i) sum += share[i];
  if (!share.empty() && !(sum > 0 && is_finite(sum))) return 0;
  return std::nullopt;
}

/// Returns the first fault of further weight `i`, if any.
inline std::optional<kway_option_fault> find_further_fault(further_weight const& w, std::size_t i,
                                                           std::size_t nodes, std::uint32_t parts) {
  if (w.of.size() != nodes) return kway_option_fault{invalid_kway_option::further_length, w.of.size(), i};
  double total = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    if (!is_amount(w.of[n])) return kway_option_fault{invalid_kway_option::further_weight, n, i};
    total += w.of[n];
  }
  if (!is_finite(total)) return kway_option_fault{invalid_kway_option::further_total, nodes, i};
  if (auto const where = find_amount_fault(w.imbalance, parts))
    return kway_option_fault{invalid_kway_option::further_imbalance, *where, i};
  if (auto const where = find_share_fault(w.share, parts))
    return kway_option_fault{invalid_kway_option::further_share, *where, i};
  return std::nullopt;
}

/// Returns the first option that does not fit a graph of `nodes` nodes and `parts` parts, if any.
inline std::optional<kway_option_fault> find_option_fault(kway_options const& o, std::size_t nodes,
                                                          std::uint32_t parts) {
  if (parts == 0 || parts > nodes + 65'536)  // more parts would only make large, mostly empty tables
    return kway_option_fault{invalid_kway_option::parts};
  if (auto const where = find_amount_fault(o.imbalance, parts))
    return kway_option_fault{invalid_kway_option::imbalance, *where};
  if (auto const where = find_share_fault(o.share, parts))
    return kway_option_fault{invalid_kway_option::share, *where};
  if (!o.fixed.empty() && o.fixed.size() != nodes)
    return kway_option_fault{invalid_kway_option::fixed_length, o.fixed.size()};
  for (std::size_t n = 0; n < o.fixed.size(); ++n)
    if (o.fixed[n] != no_part && index(o.fixed[n]) >= parts)
      return kway_option_fault{invalid_kway_option::fixed_part, n};
  for (std::size_t i = 0; i < o.further_weights.size(); ++i)
    if (auto const fault = find_further_fault(o.further_weights[i], i, nodes, parts)) return fault;
  return std::nullopt;
}

/// Describes an invalid option in one sentence.
inline std::string describe(kway_option_fault const& fault, kway_options const& o, std::size_t nodes,
                            std::uint32_t parts) {
  auto const count = [](std::size_t i) { return std::to_string(i); };
  auto const where = count(fault.where);
  auto const further = "further weight " + count(fault.further);
  auto const imbalance = [&](per_part<double> const& given) {
    return given.covers(parts)
               ? "imbalance " + where + " is negative or not finite: expected a finite number of at least 0"
               : "there are " + where + " imbalances for " + count(parts) + " parts";
  };
  auto const share = [&](per_part<double> const& given) {
    return given.covers(parts) ? "share " + where + " is negative or not finite, or all shares are 0"
                               : "there are " + where + " shares for " + count(parts) + " parts";
  };
  switch (fault.what) {
    case invalid_kway_option::parts:
      return count(parts) + " parts are requested for a graph of " + count(nodes) +
             " nodes: request between 1 and the number of nodes + 65,536";
    case invalid_kway_option::imbalance:
      return imbalance(o.imbalance);
    case invalid_kway_option::share:
      return share(o.share);
    case invalid_kway_option::fixed_length:
      return "`fixed` has " + where + " entries for a graph of " + count(nodes) +
             " nodes: give one entry per node, or none";
    case invalid_kway_option::fixed_part:
      return "node #" + where + " is fixed to part " + count(index(o.fixed[fault.where])) + " of " +
             count(parts);
    case invalid_kway_option::further_length:
      return further + " has " + where + " entries for a graph of " + count(nodes) +
             " nodes: give one entry per node";
    case invalid_kway_option::further_weight:
      return further + " of node #" + where +
             " is negative or not finite: expected a finite number of at least 0";
    case invalid_kway_option::further_total:
      return further + " has an infinite sum: use a larger unit";
    case invalid_kway_option::further_imbalance:
      return further + ": " + imbalance(o.further_weights[fault.further].imbalance);
    case invalid_kway_option::further_share:
      return further + ": " + share(o.further_weights[fault.further].share);
    case invalid_kway_option::further_refused:
      return "this function balances one weight: leave `further_weights` empty, or use `partition_kway`";
  }
  return "";
}

/// Checks the options. \throws kway_option_error if `find_option_fault` finds an invalid one.
inline void check_options(kway_options const& o, std::size_t nodes, std::uint32_t parts) {
  if (auto const fault = find_option_fault(o, nodes, parts))
    throw kway_option_error("k-way partition: " + describe(*fault, o, nodes, parts), *fault);
}

/// Checks that nodes have one weight only. \throws kway_option_error otherwise.
inline void refuse_further_weights(kway_options const& o) {
  if (o.further_weights.empty()) return;
  kway_option_fault const fault{invalid_kway_option::further_refused};
  throw kway_option_error("k-way partition: " + describe(fault, o, 0, 0), fault);
}

}  // namespace cleave::detail
