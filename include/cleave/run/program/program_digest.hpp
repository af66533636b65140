// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/core/ids.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::detail {

/// FNV-1a over 64-bit numbers: tells programs apart that differ by mistake, not by design of an enemy.
class number_digest {
 public:
  number_digest& add(std::uint64_t n) {
    for (int byte = 0; byte < 8; ++byte, n >>= 8) value_ = (value_ ^ (n & 0xff)) * 0x100000001b3;
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Of those options that change what is issued, or what it means.
inline std::uint64_t digest_of_calls(call_options const& o) {
  number_digest calls;
  calls.add(static_cast<std::uint64_t>(o.loss)).add(static_cast<std::uint64_t>(o.weights));
  calls.add(static_cast<std::uint64_t>(o.gradients)).add(static_cast<std::uint64_t>(o.scale));
  std::uint64_t custom = 0;
  for (auto const k : o.custom) custom |= std::uint64_t{1} << static_cast<unsigned>(k);
  return calls.add(static_cast<std::uint64_t>(o.exchanges)).add(custom).value();
}

/// O(actions + edges + layouts).
inline program_digest digest_of(schedule const& s, transport const& t, run_layouts const& l,
                                call_options const& o) {
  number_digest lists, edges, layouts;
  lists.add(s.place.ranks).add(s.microbatches).add(s.place.rank_of.size()).add(s.place.edges.size());
  for (auto const r : s.place.rank_of) lists.add(index(r));
  for (auto const& e : s.place.edges) lists.add(index(e.from)).add(index(e.to));
  for (auto const& row : s.ranks) {
    lists.add(row.size());
    for (auto const& a : row)
      lists.add(static_cast<std::uint64_t>(a.kind) << 16 | a.parts)
          .add(std::uint64_t{index(a.stage)} << 32 | index(a.microbatch))
          .add(index(a.peer));
  }
  edges.add(t.stages).add(t.edges.size());
  for (auto const& e : t.edges)
    edges.add(std::uint64_t{index(e.from)} << 32 | e.output).add(std::uint64_t{index(e.to)} << 32 | e.input);
  layouts.add(l.edges.size()).add(l.rows.size());
  for (auto const& e : l.edges) {
    layouts.add(static_cast<std::uint64_t>(e.type)).add(e.shape.axes).add(e.batch_axis.value_or(most_axes));
    for (auto const n : e.shape.extents) layouts.add(static_cast<std::uint64_t>(n));
    layouts.add(static_cast<std::uint64_t>(e.gradient)).add(static_cast<std::uint64_t>(e.extents));
  }
  for (auto const n : l.rows) layouts.add(static_cast<std::uint64_t>(n));
  return {lists.value(), edges.value(), layouts.value(), digest_of_calls(o)};
}

}  // namespace cleave::detail
