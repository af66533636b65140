// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/run/batch/align_nested.hpp"
#include "cleave/run/batch/microbatch_rows.hpp"

namespace cleave {

/// Why a batch cannot be divided, microbatches cannot be taken as they are, or results cannot be merged.
struct microbatch_fault {
  enum class kind : std::uint8_t {
    bad_count,            ///< `count` microbatches are asked for
    other_count,          ///< `count` microbatches are given where `rows` are needed
    not_positional,       ///< `where`, the arguments by position, is no tuple or list
    not_by_name,          ///< `where`, the arguments by name, is no dict
    no_such_value,        ///< there are rules for `where`, which is not given
    rules_differ,         ///< the values and their rules nest differently: `mismatch`
    microbatches_differ,  ///< microbatches `first` and `second` nest differently: `mismatch`
    not_a_tensor,         ///< `where` has no axes to be divided or merged along; in microbatch `first`
    no_such_axis,         ///< `where` has `count` axes, so none of number `axis`
    bad_extent,           ///< `where` claims to have `rows` rows along `axis`
    no_rows,              ///< `where` has no rows along `axis`
    too_few_rows,         ///< `where` has `rows` rows along `axis` where `count` microbatches are needed
    no_way_to_divide,     ///< the rule of `where` only says how to merge
    nothing_to_merge,     ///< there is no microbatch
    axes_differ,          ///< microbatches `first` and `second` have different axes at `where`
    extents_differ,       ///< … `rows` and `count` rows along `axis`, which is not the one that is merged
    values_differ,        ///< … different values where they must be the same
  };
  kind what;
  std::string where = {};
  std::int64_t axis = 0, rows = 0, count = 0;
  std::size_t first = 0, second = 0;  ///< microbatches
  std::optional<nested_mismatch> mismatch = {};

  bool operator==(microbatch_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(microbatch_fault const& f) {
  using enum microbatch_fault::kind;
  auto const text = [](auto n) { return std::to_string(n); };
  std::string const along = " along axis " + text(f.axis), rows = text(f.rows) + " rows";
  std::string const pair = "microbatches " + text(f.first) + " and " + text(f.second);
  switch (f.what) {
    case bad_count:
      return text(f.count) + " microbatches are asked for; ask for 1 to " + text(detail::most_microbatches);
    case other_count:
      return text(f.count) + " microbatches are given, but " + text(f.rows) +
             " are needed; give one for each";
    case not_positional:
      return f.where + " is no tuple and no list; put arguments by position into a tuple, in their order";
    case not_by_name:
      return f.where + " is no dict; put arguments by name into a dict";
    case no_such_value:
      return "there are rules for " + f.where + ", which is not given; give it, or leave its rules out";
    case rules_differ:
      return describe(*f.mismatch, "the values", "the rules") + "; nest rules as the values are nested";
    case microbatches_differ:
      return describe(*f.mismatch, "microbatch " + text(f.first), "microbatch " + text(f.second)) +
             "; all microbatches must nest alike";
    case not_a_tensor:
      return f.where + " has no axes in microbatch " + text(f.first) + ", so nothing" + along +
             "; let its rule be to replicate or to reduce";
    case no_such_axis:
      return f.where + " has no axis " + text(f.axis) +
             (f.count == 0 ? ": it has no axes at all; replicate it"
                           : ": its axes are " + text(-f.count) + " to " + text(f.count - 1));
    case bad_extent:
      return f.where + " says that it has " + rows + along + "; an extent is not below 0";
    case no_rows:
      return f.where + " has no rows" + along + "; leave the empty batch out, or replicate the value";
    case too_few_rows:
      return f.where + " has only " + rows + along + ", but " + text(f.count) +
             " microbatches are needed; ask for fewer, or replicate the value";
    case no_way_to_divide:
      return "the rule of " + f.where +
             " only says how to merge; to divide it, go along an axis or replicate";
    case nothing_to_merge:
      return f.where + ": there are no microbatches to merge; give one at least";
    case axes_differ:
      return f.where + " has not as many axes in " + pair + "; only alike results can be merged";
    case extents_differ:
      return f.where + " has " + rows + along + " in microbatch " + text(f.first) + ", but " + text(f.count) +
             " in microbatch " + text(f.second) + "; only along the axis that is merged may they differ";
    case values_differ:
      return f.where + " is not the same in " + pair +
             "; let its rule be to reduce it, or to go along an axis";
  }
  return {};
}

/// Values that cannot be divided or merged as asked for. The witness: the place, and why.
class microbatch_error : public witness_error<microbatch_fault> {
 public:
  microbatch_error(std::string const& who, microbatch_fault f) : witness_error(who + ": " + describe(f), f) {}
};
}  // namespace cleave
