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

namespace cleave::inline v0_2 {

/// The size of buckets: a bucket is full as soon as its parameters have `cap` bytes. A node is never split,
/// so its last node may take a bucket above the cap.
struct bucket_options {
  std::uint64_t cap = 25_MiB;  ///< in bytes
  /// Cap of the first bucket that is sent, at the tail of the graph. Default: 1 MiB, or `cap` if that is
  /// less.
  std::optional<std::uint64_t> first_cap{};
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the effective cap of the first bucket that is sent.
inline std::uint64_t first_bucket_cap(bucket_options const& o) {
  return o.first_cap.value_or(std::min<std::uint64_t>(1_MiB, o.cap));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The parameters that fill buckets, as entries. An entry is a parameter that counts at one node.
template <std::unsigned_integral Index>
struct basic_bucket_counts {
  detail::csr<Index> entries;      ///< entries of each node, in the order in which they count
  std::vector<std::size_t> bytes;  ///< bytes of each entry; 0 if unknown
  std::vector<Index> what;         ///< of each entry: the value that is the parameter
};

/// A bucket: consecutive nodes in program order whose gradients are sent together.
template <std::unsigned_integral Index>
struct basic_bucket {
  std::vector<Index> nodes;            ///< in reverse program order
  std::vector<Index> entries;          ///< in the order of `nodes`, with repetitions
  std::size_t bytes = 0;               ///< total bytes of the entries
  std::size_t extra_nodes = 0;         ///< nodes added when it was full, but could not be closed
  std::size_t bytes_before_extra = 0;  ///< bytes before these nodes were added; 0 if none were added

  bool operator==(basic_bucket const&) const = default;
};

/// A partition whose part i is bucket i, numbered from the front of the graph.
template <std::unsigned_integral Index>
struct basic_bucket_partition : partition {
  std::vector<basic_bucket<Index>> buckets;
  basic_bucket_counts<Index> counts;
  std::size_t unsized = 0;  ///< entries of unknown size, which count as 0 bytes
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a sentence about contradictory options, if any.
inline std::optional<std::string> find_option_fault(bucket_options const& o) {
  if (o.first_cap && *o.first_cap > o.cap)
    return "first_cap, " + format_bytes(*o.first_cap) + ", is above cap, " + format_bytes(o.cap) +
           "; it must not be larger, so that the first bucket is sent early";
  return std::nullopt;
}

/// The positions at which a bucket may be closed. A bucket is a range of consecutive nodes. Some value of the
/// range must be read outside, and no group may be split.
template <std::unsigned_integral Index>
struct bucket_closing {
  std::vector<std::size_t> last_reader;  ///< per node: last reader; `nodes()` if a graph output, 0 if unread
  std::vector<char> divides;             ///< per node: true if a cut before it would split a group

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

/// Adds node `n`, which precedes all nodes of `b`, to `b`.
/// \throws partition_error if the bytes overflow.
template <std::unsigned_integral Index>
void add_to_bucket(basic_snapshot_arrays<Index> const& s, basic_bucket_counts<Index> const& counts,
                   std::size_t n, basic_bucket<Index>& b) {
  for (Index const e : counts.entries[n]) {
    if (counts.bytes[e] > static_cast<std::size_t>(-1) - b.bytes)
      raise(partition_error("buckets: the bytes of the parameters do not fit 64 bits at node " + s.label(n),
                            {n}));
    b.bytes += counts.bytes[e];
    b.entries.push_back(e);
  }
  b.nodes.push_back(static_cast<Index>(n));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the partition with these buckets, which are listed from the tail to the front of the graph. O(V).
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

/// Puts the nodes of `s` into buckets, from the last node to the first, as PyTorch's DDPOptimizer does. A
/// full bucket is closed before the next node is added. If no value leaves the bucket, or closing would split
/// a group, the bucket grows until it can be closed. Nodes before the first parameter join the first bucket
/// that has one. The bucket at the front of the graph may be one that no value leaves. O(V + E).
///
/// \throws error if the caps contradict each other, partition_error if the bytes of a bucket overflow.
template <std::unsigned_integral Index>
basic_bucket_partition<Index> fill_buckets(basic_snapshot_arrays<Index> const& s,
                                           basic_bucket_counts<Index> counts,
                                           bucket_options const& options = {}) {
  expects(counts.entries.rows() == s.nodes(), "entries for each node");
  if (auto const fault = detail::find_option_fault(options)) detail::raise(error("buckets: " + *fault));
  detail::bucket_closing<Index> const closing(s);
  std::vector<basic_bucket<Index>> buckets(1);  // from the tail to the front
  std::size_t end = s.nodes();                  // one past the last node of the bucket
  bool gives = false;                           // a value of the bucket is read outside
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

/// Returns the state of `s` as entries. Each value counts once, at the first node that reads it, because its
/// gradient is complete when that node's backward pass is. Values that share memory count together at most
/// the bytes of the largest of them. O(V + E).
template <std::unsigned_integral Index>
basic_bucket_counts<Index> state_counts(basic_snapshot_arrays<Index> const& s) {
  auto const bytes = [&](Index v) { return s.bytes.empty() ? 0 : s.bytes[v]; };
  auto const memory = [&](Index v) { return s.storage.empty() ? v : s.storage[v]; };
  std::vector<std::size_t> left;  // per storage: bytes not yet counted
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

/// Puts the nodes of a user's graph into buckets. The parameters are the state of the graph. Expected O(V +
/// E).
/// \throws the errors of `snapshot_of` and of `fill_buckets` for a snapshot
template <stateful_graph Graph>
  requires sized_graph<Graph>
basic_bucket_partition<std::uint32_t> fill_buckets(Graph const& g, bucket_options const& options = {}) {
  basic_snapshot_arrays<std::uint32_t> const s = snapshot_of<std::uint32_t>(g);
  return fill_buckets(s, state_counts(s), options);
}

}  // namespace cleave
