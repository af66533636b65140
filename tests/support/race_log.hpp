// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/run/model/tensor_view.hpp"

namespace cleave::testing {

/// A vector clock: the latest known progress of each line of work. Source: Mattern, Virtual time and global
/// states of distributed systems, 1989.
class vector_clock {
 public:
  std::uint64_t at(std::size_t line) const { return line < times_.size() ? times_[line] : 0; }
  void tick(std::size_t line) {
    if (line >= times_.size()) times_.resize(line + 1);
    ++times_[line];
  }
  void join(vector_clock const& other) {
    if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
    for (std::size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }
  /// Returns true if this clock dominates `other`.
  bool knows(vector_clock const& other) const {
    for (std::size_t i = 0; i < other.times_.size(); ++i)
      if (at(i) < other.times_[i]) return false;
    return true;
  }

 private:
  std::vector<std::uint64_t> times_;
};

/// A race detector on vector clocks. It reports two accesses to the same bytes, at least one of them a write,
/// if neither happens before the other. It reports them in every interleaving. Thread-safe.
class race_log {
 public:
  enum class access { read, write };

  /// Adds a line of work: a stream, a transfer or a thread.
  std::size_t new_line() {
    std::lock_guard lock(mutex_);
    return lines_++;
  }

  void touch(vector_clock const& clock, std::size_t line, region const& r, access how,
             std::string const& name) {
    if (r.bytes() == 0) return;
    std::lock_guard lock(mutex_);
    auto const begin = reinterpret_cast<std::uintptr_t>(r.data), end = begin + r.bytes();
    split(begin);
    split(end);
    for (auto at = begin; at < end;) {
      auto i = cells_.lower_bound(at);
      if (i == cells_.end() || i->first >= end || i->first > at) {  // a gap
        auto const until = i == cells_.end() ? end : std::min(end, i->first);
        i = cells_.emplace(at, cell{until, {}, {}}).first;
      }
      check(i->second, clock, how, name);
      enter(i->second, clock, {line, clock.at(line), name}, how);
      at = i->second.end;
    }
  }

  /// Forgets earlier accesses to that memory; later ones cannot race with them.
  void forget(region const& r) {
    if (r.bytes() == 0) return;
    std::lock_guard lock(mutex_);
    auto const begin = reinterpret_cast<std::uintptr_t>(r.data), end = begin + r.bytes();
    split(begin);
    split(end);
    cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
  }

  /// Returns the last accesses to that memory that do not happen before `clock`; each name once.
  std::vector<std::string> unknown_to(vector_clock const& clock, region const& r) const {
    std::lock_guard lock(mutex_);
    auto const begin = reinterpret_cast<std::uintptr_t>(r.data), end = begin + r.bytes();
    std::vector<std::string> found;
    auto const look = [&](mark const& m) {
      if (clock.at(m.line) < m.time && std::ranges::find(found, m.name) == found.end())
        found.push_back(m.name);
    };
    auto i = cells_.upper_bound(begin);
    if (i != cells_.begin() && std::prev(i)->second.end > begin) --i;
    for (; i != cells_.end() && i->first < end; ++i) {
      for (auto const& m : i->second.write) look(m);
      for (auto const& m : i->second.reads) look(m);
    }
    return found;
  }

  /// Returns the races as sentences, each pair of names once.
  std::vector<std::string> reports() const {
    std::lock_guard lock(mutex_);
    return reports_;
  }

  /// A key for the clock of a rank at the begin of a transfer, which its peer joins when the transfer has
  /// ended. It is (group, from, to, number) for a message, (group, rank, rank, number) for a reduction.
  using transfer_key = std::tuple<void const*, std::uint32_t, std::uint32_t, std::uint64_t>;
  void begin_transfer(transfer_key const& key, vector_clock const& clock) {
    std::lock_guard lock(mutex_);
    transfers_[key] = clock;
  }
  vector_clock transfer(transfer_key const& key) const {
    std::lock_guard lock(mutex_);
    auto const i = transfers_.find(key);
    return i == transfers_.end() ? vector_clock() : i->second;
  }

 private:
  struct mark {
    std::size_t line;
    std::uint64_t time;
    std::string name;
  };
  struct cell {
    std::uintptr_t end;
    std::vector<mark> write;  // the last one, if any
    std::vector<mark> reads;  // since the last write
  };

  void split(std::uintptr_t at) {
    auto i = cells_.upper_bound(at);
    if (i == cells_.begin()) return;
    --i;
    if (i->first == at || i->second.end <= at) return;
    auto rest = i->second;
    i->second.end = at;
    cells_.emplace(at, std::move(rest));
  }

  void check(cell const& c, vector_clock const& clock, access how, std::string const& name) {
    auto const look = [&](mark const& m, char const* verb) {
      if (clock.at(m.line) >= m.time) return;
      auto const text = name + (how == access::write ? " writes" : " reads") + " what " + m.name + verb +
                        ", and nothing orders them";
      if (std::ranges::find(reports_, text) == reports_.end()) reports_.push_back(text);
    };
    for (auto const& m : c.write) look(m, " writes");
    if (how == access::write)
      for (auto const& m : c.reads) look(m, " reads");
  }

  static void enter(cell& c, vector_clock const& clock, mark m, access how) {
    if (how == access::write) {
      c.reads.clear();
      c.write.assign(1, std::move(m));
      return;
    }
    std::erase_if(c.reads, [&](mark const& other) { return clock.at(other.line) >= other.time; });
    c.reads.push_back(std::move(m));
  }

  mutable std::mutex mutex_;
  std::size_t lines_ = 0;
  std::map<std::uintptr_t, cell> cells_;  // by start address
  std::map<transfer_key, vector_clock> transfers_;
  std::vector<std::string> reports_;
};

}  // namespace cleave::testing
