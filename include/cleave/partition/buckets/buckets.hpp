// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"

namespace cleave {

/// When a bucket is full: as soon as its parameters have that many bytes. A node is never divided, so the
/// last one may take a bucket above its cap.
struct bucket_options {
  std::uint64_t cap = 25_MiB;
  /// The same for the graph's tail, whose gradients are ready first; else 1 MiB, or `cap` where that is less.
  std::optional<std::uint64_t> first_cap{};
};

}  // namespace cleave

namespace cleave::detail {

/// The tail's cap as it counts.
inline std::uint64_t first_bucket_cap(bucket_options const& o) {
  return o.first_cap.value_or(std::min<std::uint64_t>(1_MiB, o.cap));
}

}  // namespace cleave::detail

namespace cleave {

/// What fills the buckets: entries, each a parameter that counts at one node.
template <std::unsigned_integral Index>
struct basic_bucket_counts {
  detail::csr<Index> entries;      ///< of a node, in the order in which they count
  std::vector<std::size_t> bytes;  ///< of an entry; 0 where nobody knows
  std::vector<Index> what;         ///< of an entry: the value that is the parameter
};

/// A bucket: neighbours in program order whose gradients are sent together.
template <std::unsigned_integral Index>
struct basic_bucket {
  std::vector<Index> nodes;            ///< in the order of the walk: the last first
  std::vector<Index> entries;          ///< in the order of the walk, repeats included
  std::size_t bytes = 0;               ///< of the entries
  std::size_t extra_nodes = 0;         ///< added although it was full, because it could not be closed
  std::size_t bytes_before_extra = 0;  ///< those it had then; 0 without such nodes

  bool operator==(basic_bucket const&) const = default;
};

/// Part i is bucket i: the first in the graph is the first here.
template <std::unsigned_integral Index>
struct basic_bucket_partition : partition {
  std::vector<basic_bucket<Index>> buckets;
  basic_bucket_counts<Index> counts;
  std::size_t unsized = 0;  ///< entries whose bytes nobody knows: they were taken for free
};

}  // namespace cleave

namespace cleave::detail {

/// Why no buckets can be filled with these options, or nothing.
inline std::optional<std::string> find_option_fault(bucket_options const& o) {
  if (o.first_cap && *o.first_cap > o.cap)
    return "the first bucket's cap of " + format_bytes(*o.first_cap) + " is above that of the others, " +
           format_bytes(o.cap) + "; it is to be full no later than they, so that sending begins early";
  return std::nullopt;
}

/// Where a bucket may be closed: one is neighbours in program order that give something to others and cut no
/// group.
template <std::unsigned_integral Index>
struct bucket_closing {
  std::vector<std::size_t> last_reader;  ///< of a node; `nodes()` for the caller, 0 for nobody
  std::vector<char> divides;             ///< of a node: a cut before it divides a group

  /// O(V + E).
  explicit bucket_closing(basic_snapshot_arrays<Index> const& s)
      : last_reader(s.nodes()), divides(s.nodes() + 1) {
    auto const read = [&](Index v, std::size_t by) {
      if (Index const m = s.producer[v]; m != none<Index> && !is_replicable(s, m))
        last_reader[m] = (std::max)(last_reader[m], by);
    };
    for (std::size_t n = 0; n < s.nodes(); ++n)
      for (Index const v : s.operands[n]) read(v, n);
    for (Index const v : s.outputs) read(v, s.nodes());
    if (s.group.empty()) return;
    std::vector<std::size_t> last_member(s.nodes());
    for (std::size_t n = 0; n < s.nodes(); ++n)
      if (!is_replicable(s, n)) last_member[s.group[n]] = n;
    for (std::size_t n = 0, reach = 0; n < s.nodes(); ++n) {
      divides[n] = n > 0 && reach >= n;
      if (s.group[n] == n) reach = (std::max)(reach, last_member[n]);
    }
  }
};

/// Adds node `n`, which comes before those in `b`.
/// \throws partition_error where the bytes overflow.
template <std::unsigned_integral Index>
void add_to_bucket(basic_snapshot_arrays<Index> const& s, basic_bucket_counts<Index> const& counts,
                   std::size_t n, basic_bucket<Index>& b) {
  for (Index const e : counts.entries[n]) {
    if (counts.bytes[e] > static_cast<std::size_t>(-1) - b.bytes)
      throw partition_error("buckets: the bytes of the parameters do not fit 64 bits at node " + s.label(n),
                            {n});
    b.bytes += counts.bytes[e];
    b.entries.push_back(e);
  }
  b.nodes.push_back(static_cast<Index>(n));
}

}  // namespace cleave::detail

namespace cleave {

/// The partition that is these buckets, which are given from the tail to the front of the graph.
template <std::unsigned_integral Index>
basic_bucket_partition<Index> partition_of(basic_snapshot_arrays<Index> const& s,
                                           basic_bucket_counts<Index> counts,
                                           std::vector<basic_bucket<Index>> from_tail) {
  basic_bucket_partition<Index> p;
  p.buckets = std::move(from_tail);
  std::reverse(p.buckets.begin(), p.buckets.end());
  p.parts = static_cast<std::uint32_t>(p.buckets.size());
  p.of.assign(s.nodes(), no_part);
  for (std::uint32_t i = 0; i < p.parts; ++i)
    for (Index const n : p.buckets[i].nodes) p.of[n] = part_id{i};
  p.unsized = static_cast<std::size_t>(std::count(counts.bytes.begin(), counts.bytes.end(), std::size_t{0}));
  p.counts = std::move(counts);
  return p;
}

/// Puts the nodes of `s` into buckets, from the last node to the first, as torch's DDPOptimizer does: before
/// a node is added, a bucket that is full is closed, unless nothing outside reads what it makes or it has
/// part of a group; then it grows until it can be closed. What comes before the first parameter joins the
/// bucket after it. The first bucket of the graph may be one that gives nothing. O(V + E).
///
/// \throws error where the caps make no sense; partition_error where a bucket's bytes overflow.
template <std::unsigned_integral Index>
basic_bucket_partition<Index> fill_buckets(basic_snapshot_arrays<Index> const& s,
                                           basic_bucket_counts<Index> counts,
                                           bucket_options const& options = {}) {
  expects(counts.entries.rows() == s.nodes(), "entries for each node");
  if (auto const fault = detail::find_option_fault(options)) throw error("buckets: " + *fault);
  detail::bucket_closing<Index> const closing(s);
  std::vector<basic_bucket<Index>> buckets(1);  // from the tail
  std::size_t end = s.nodes();                  // one past the last node of the bucket
  bool gives = false;                           // others read what it makes
  for (std::size_t n = s.nodes(); n-- > 0;) {
    auto& b = buckets.back();
    auto const cap =
        buckets.size() == 1 ? (std::min)(detail::first_bucket_cap(options), options.cap) : options.cap;
    if (b.bytes >= cap && gives && !closing.divides[n + 1]) {
      end = n + 1;
      gives = false;
      buckets.emplace_back();
    } else if (b.bytes >= cap && b.extra_nodes++ == 0) {
      b.bytes_before_extra = b.bytes;
    }
    detail::add_to_bucket(s, counts, n, buckets.back());
    gives |= closing.last_reader[n] >= end;
  }
  if (auto const& front = buckets.back(); buckets.size() > 1 && front.bytes == 0) {
    auto& next = buckets[buckets.size() - 2];
    next.nodes.insert(next.nodes.end(), front.nodes.begin(), front.nodes.end());
    next.entries.insert(next.entries.end(), front.entries.begin(), front.entries.end());
    buckets.pop_back();
  }
  return partition_of(s, std::move(counts), std::move(buckets));
}

/// The state of `s` as it counts by default: at the first node that reads it, because its gradient is
/// complete when that node's is, and once. Of memory that several share no more counts than the largest of
/// them has. O(V + E).
template <std::unsigned_integral Index>
basic_bucket_counts<Index> state_counts(basic_snapshot_arrays<Index> const& s) {
  auto const bytes = [&](Index v) { return s.bytes.empty() ? 0 : s.bytes[v]; };
  auto const memory = [&](Index v) { return s.storage.empty() ? v : s.storage[v]; };
  std::vector<std::size_t> left;  // of memory: bytes that have not been counted
  for (std::size_t v = 0; v < s.values(); ++v) {
    if (s.from[v] != source::state) continue;
    auto const m = memory(static_cast<Index>(v));
    if (m >= left.size()) left.resize(std::size_t{m} + 1);
    left[m] = (std::max)(left[m], bytes(static_cast<Index>(v)));
  }
  basic_bucket_counts<Index> counts;
  std::vector<char> known(s.values()), spent(left.size());
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    for (Index const v : s.operands[n]) {
      if (s.from[v] != source::state || s.producer[v] != none<Index> || std::exchange(known[v], 1)) continue;
      auto const m = memory(v);
      if (spent[m] && left[m] == 0) continue;
      auto const counted = (std::min)(bytes(v), left[m]);
      left[m] -= counted;
      spent[m] = 1;
      counts.entries.add(narrow<Index>(counts.bytes.size()));
      counts.bytes.push_back(counted);
      counts.what.push_back(v);
    }
    counts.entries.close();
  }
  return counts;
}

/// The buckets of `g`, whose parameters are its state. Expected O(V + E).
/// \throws what snapshot_of and the function above throw.
template <stateful_graph Graph>
  requires sized_graph<Graph>
basic_bucket_partition<std::uint32_t> fill_buckets(Graph const& g, bucket_options const& options = {}) {
  basic_snapshot_arrays<std::uint32_t> const s = snapshot_of<std::uint32_t>(g);
  return fill_buckets(s, state_counts(s), options);
}

}  // namespace cleave
