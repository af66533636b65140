// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/language.hpp"
#include "cleave/run/batch/nested.hpp"

namespace cleave::inline v0_2 {

/// The default rule. Splitting divides tensors along their first axis, and replicates tensors without axes
/// and non-tensors. Merging concatenates tensors along their first axis and stacks tensors without axes; all
/// other values must be equal.
struct rule_default {
  bool operator==(rule_default const&) const = default;
};

/// Splits and merges along `axis`; negative numbers count from the last axis, -1.
struct rule_along {
  std::int64_t axis = 0;
  /// Treatment of values with a single row along `axis` in splitting. `limits`: only one microbatch is
  /// possible. `is_for_all`: replicated, like a mask for all rows.
  enum class single_row : std::uint8_t { limits, is_for_all } single = single_row::limits;

  bool operator==(rule_along const&) const = default;
};

/// Replicates the value to every microbatch; merging requires equal values.
struct rule_replicate {
  bool operator==(rule_replicate const&) const = default;
};

/// Merges by `combine(… combine(combine(init, result 0), result 1) …)`. Cannot be used for splitting.
/// `combine` is a function pointer, so that rules can be copied and compared.
template <class Leaf>
struct rule_reduce {
  Leaf init;
  Leaf (*combine)(Leaf, Leaf const&);

  bool operator==(rule_reduce const&) const = default;
};

/// The rule of one leaf.
template <class Leaf>
using batch_rule = std::variant<rule_default, rule_along, rule_replicate, rule_reduce<Leaf>>;

/// The inputs of a step, or of one microbatch.
template <class Leaf>
struct batch_values {
  nested<Leaf> arguments = nested<Leaf>::tuple({});  ///< positional arguments: a tuple or list
  nested<Leaf> keywords = nested<Leaf>::dict({});    ///< keyword arguments: a dict
  std::optional<nested<Leaf>> target{};              ///< target of the loss function

  bool operator==(batch_values const&) const = default;
};

/// Rules with the same structure as the values. Dicts may be in any order. Missing trees use `rule_default`.
template <class Leaf>
struct batch_rules {
  using tree = std::optional<nested<batch_rule<Leaf>>>;
  tree arguments{}, keywords{}, target{};

  bool operator==(batch_rules const&) const = default;
};
}  // namespace cleave

/// The operations on the user's leaves that splitting and merging need. Leaves are tensors, numbers, strings,
/// null, or any other input of a step. An adapter has the member functions; each concept is one ability.
namespace cleave::inline v0_2 {

/// Leaves that can be split.
/// - `a.axes(x)`: returns the number of axes of a tensor, or nothing if `x` is not a tensor.
/// - `a.extent(x, axis)`: returns the number of rows along `axis`, one of 0 … axes - 1.
/// - `a.slice(x, axis, first, last)`: returns the rows first … last - 1 along `axis`.
template <class Access, class Leaf>
concept sliceable_leaves =
    std::copyable<Leaf> && requires(Access const& a, Leaf const& x, std::size_t axis, std::int64_t row) {
      { a.axes(x) } -> std::same_as<std::optional<std::size_t>>;
      { a.extent(x, axis) } -> std::same_as<std::int64_t>;
      { a.slice(x, axis, row, row) } -> std::same_as<Leaf>;
    };

/// Leaves that can be zeroed outside some rows, which keeps their shape.
/// - `a.masked(x, axis, first, last)`: returns `x` with zeros outside the rows first … last - 1 along `axis`.
template <class Access, class Leaf>
concept maskable_leaves = sliceable_leaves<Access, Leaf> &&
                          requires(Access const& a, Leaf const& x, std::size_t axis, std::int64_t row) {
                            { a.masked(x, axis, row, row) } -> std::same_as<Leaf>;
                          };

/// Leaves that can be merged. The lists are never empty.
/// - `a.concatenated(list, axis)`: concatenates tensors along `axis`; their other extents are equal.
/// - `a.stacked(list)`: stacks tensors without axes into one tensor with one axis.
/// - `a.equal(x, y)`: returns true if two leaves, tensors or not, have the same value.
template <class Access, class Leaf>
concept mergeable_leaves =
    sliceable_leaves<Access, Leaf> &&
    requires(Access const& a, Leaf const& x, std::span<Leaf const* const> list, std::size_t axis) {
      { a.concatenated(list, axis) } -> std::same_as<Leaf>;
      { a.stacked(list) } -> std::same_as<Leaf>;
      { a.equal(x, x) } -> std::same_as<bool>;
    };
}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The rows `first`, …, last - 1.
struct row_range {
  std::int64_t first, last;

  bool operator==(row_range const&) const = default;
};

/// Returns the rows of microbatch `i` of `k` in a batch of `rows`. They are contiguous, and the first `rows`
/// mod `k` microbatches have one row more. Precondition: 0 <= i < k, 0 <= rows.
constexpr row_range microbatch_rows(std::int64_t rows, std::int64_t k, std::int64_t i) {
  auto const begin = [each = rows / k, longer = rows % k](std::int64_t j) {
    return j * each + (std::min)(j, longer);
  };
  return {begin(i), begin(i + 1)};
}

/// Maximum number of microbatches.
inline constexpr std::int64_t most_microbatches = 0xfffffffe;

/// Returns the number of rows of each microbatch of a batch of `rows`. There are `asked` microbatches, or one
/// per row if there are fewer rows.
/// \throws error if `asked` or `rows` is out of range
inline std::vector<std::int64_t> microbatch_sizes(std::int64_t rows, std::int64_t asked) {
  if (asked < 1 || asked > most_microbatches)
    throw error("microbatch_sizes: " + std::to_string(asked) + " microbatches; ask for 1 to " +
                std::to_string(most_microbatches));
  if (rows < 0)
    throw error("microbatch_sizes: " + std::to_string(rows) +
                " rows; the number of rows must not be negative");
  std::vector<std::int64_t> sizes;
  std::int64_t const k = (std::min)(asked, rows);
  for (std::int64_t i = 0; i < k; ++i) {
    auto const [first, last] = microbatch_rows(rows, k, i);
    sizes.push_back(last - first);
  }
  return sizes;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The reason why a batch cannot be split, given microbatches cannot be used, or results cannot be merged.
struct microbatch_fault {
  enum class kind : std::uint8_t {
    bad_count,            ///< `count` microbatches were requested
    other_count,          ///< `count` microbatches are given instead of `rows`
    not_positional,       ///< `where`, the positional arguments, is not a tuple or list
    not_by_name,          ///< `where`, the keyword arguments, is not a dict
    no_such_value,        ///< there are rules for `where`, which is missing
    rules_differ,         ///< the values and their rules are nested differently: `mismatch`
    microbatches_differ,  ///< microbatches `first` and `second` are nested differently: `mismatch`
    not_a_tensor,         ///< `where` has no axes to split or merge along, in microbatch `first`
    no_such_axis,         ///< `where` has `count` axes, so `axis` is out of range
    bad_extent,           ///< `where` reports `rows` rows along `axis`
    no_rows,              ///< `where` has no rows along `axis`
    too_few_rows,         ///< `where` has `rows` rows along `axis`, fewer than the `count` microbatches
    no_way_to_divide,     ///< the rule of `where` supports merging only
    nothing_to_merge,     ///< there are no microbatches
    axes_differ,          ///< microbatches `first` and `second` have different numbers of axes at `where`
    extents_differ,       ///< … `rows` and `count` rows along `axis`, which is not the merged axis
    values_differ,        ///< … different values where they must be equal
  };
  kind what;
  std::string where = {};
  std::int64_t axis = 0, rows = 0, count = 0;
  std::size_t first = 0, second = 0;  ///< microbatch numbers
  std::optional<nested_mismatch> mismatch = {};

  bool operator==(microbatch_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
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
             " are needed; give exactly that many";
    case not_positional:
      return f.where + " is neither a tuple nor a list; pass positional arguments as a tuple";
    case not_by_name:
      return f.where + " is not a dict; pass keyword arguments as a dict";
    case no_such_value:
      return "there are rules for " + f.where + ", which is missing; pass it, or remove its rules";
    case rules_differ:
      return describe(*f.mismatch, "the values", "the rules") + "; rules must be nested like the values";
    case microbatches_differ:
      return describe(*f.mismatch, "microbatch " + text(f.first), "microbatch " + text(f.second)) +
             "; all microbatches must nest alike";
    case not_a_tensor:
      return f.where + " has no axes in microbatch " + text(f.first) + ", so it cannot be split or merged" +
             along + "; use rule_replicate or rule_reduce";
    case no_such_axis:
      return f.where + " has no axis " + text(f.axis) +
             (f.count == 0 ? ": it has no axes at all; replicate it"
                           : ": its axes are " + text(-f.count) + " to " + text(f.count - 1));
    case bad_extent:
      return f.where + " reports " + rows + along + "; an extent must not be negative";
    case no_rows:
      return f.where + " has no rows" + along + "; skip the empty batch, or replicate the value";
    case too_few_rows:
      return f.where + " has only " + rows + along + ", but " + text(f.count) +
             " microbatches are needed; ask for fewer, or replicate the value";
    case no_way_to_divide:
      return "the rule of " + f.where +
             " supports merging only; to split it, use rule_along or rule_replicate";
    case nothing_to_merge:
      return f.where + ": there are no microbatches to merge; give one at least";
    case axes_differ:
      return f.where + " has different numbers of axes in " + pair +
             "; only results with the same number of axes can be merged";
    case extents_differ:
      return f.where + " has " + rows + along + " in microbatch " + text(f.first) + ", but " + text(f.count) +
             " in microbatch " + text(f.second) + "; they may differ only along the merged axis";
    case values_differ:
      return f.where + " is not the same in " + pair + "; use rule_reduce or rule_along";
  }
  return {};
}

/// Thrown if values cannot be split or merged. Carries the place and the reason.
using microbatch_error = fault_error<microbatch_fault>;

/// Options of `split_batch` and `mask_batch`.
struct split_batch_options {
  std::int64_t microbatches = 1;  ///< requested number
  /// If a value has fewer rows: make one microbatch per row, as reported in the result, or throw.
  enum class few_rows : std::uint8_t {
    fewer_microbatches,
    refuse
  } when_few_rows = few_rows::fewer_microbatches;
};

/// The value whose number of rows limits the number of microbatches.
struct microbatch_limit {
  std::string where;
  std::int64_t rows;

  bool operator==(microbatch_limit const&) const = default;
};

/// A batch split into microbatches.
template <class Leaf>
struct microbatch_list {
  std::vector<batch_values<Leaf>> values;
  /// Rows of each microbatch. Empty if no value is split, or if split values differ in their rows.
  std::vector<std::int64_t> rows;
  /// Rule applied to each value; merging by these rules restores the batch.
  batch_rules<Leaf> rules;
  std::optional<microbatch_limit> limit;  ///< reason why there are fewer than requested, if so
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The treatment of one leaf: split along an axis of `rows` rows, or replicated without an axis.
struct leaf_division {
  std::optional<std::size_t> axis{};
  std::int64_t rows = 0;
};

/// Returns the index of axis `axis` (-1 is the last) of `axes`, or nothing if it is out of range.
constexpr std::optional<std::size_t> axis_number(std::int64_t axis, std::size_t axes) {
  auto const n = static_cast<std::int64_t>(axes);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

/// Returns how `rule` splits `x`, or why it cannot.
template <class Leaf, sliceable_leaves<Leaf> Access>
std::variant<leaf_division, microbatch_fault> division_of(Access const& a, Leaf const& x,
                                                          batch_rule<Leaf> const& rule) {
  using enum microbatch_fault::kind;
  if (std::holds_alternative<rule_replicate>(rule)) return leaf_division{};
  if (std::holds_alternative<rule_reduce<Leaf>>(rule)) return microbatch_fault{no_way_to_divide};
  auto const* along = std::get_if<rule_along>(&rule);
  std::optional<std::size_t> const axes = a.axes(x);
  if (!along && axes.value_or(0) == 0) return leaf_division{};
  std::int64_t const wanted = along ? along->axis : 0;
  if (!axes) return microbatch_fault{.what = not_a_tensor, .axis = wanted};
  auto const axis = axis_number(wanted, *axes);
  if (!axis)
    return microbatch_fault{.what = no_such_axis, .axis = wanted, .count = static_cast<std::int64_t>(*axes)};
  std::int64_t const rows = a.extent(x, *axis);
  if (rows <= 0)
    return microbatch_fault{.what = rows < 0 ? bad_extent : no_rows, .axis = wanted, .rows = rows};
  if (rows == 1 && along && along->single == rule_along::single_row::is_for_all) return leaf_division{};
  return leaf_division{axis, rows};
}

/// Splits the three trees of a batch together, for `split_batch`, `mask_batch` and `take_microbatches`.
template <class Leaf, class Access>
class batch_divider {
 public:
  batch_divider(Access const& a, batch_values<Leaf> const& values, batch_rules<Leaf> const& rules)
      : access_(a),
        trees_{tree{"arguments", &values.arguments, pointer(rules.arguments)},
               tree{"keywords", &values.keywords, pointer(rules.keywords)},
               tree{"target", pointer(values.target), pointer(rules.target)}} {}

  /// Returns the first fault, or nothing. Also determines how each leaf is split; call it before the other
  /// functions.
  std::optional<microbatch_fault> find_fault() {
    using enum microbatch_fault::kind;
    auto const is = [&](std::size_t t) { return trees_[t].values->shape().front().what; };
    if (is(0) != nesting::tuple && is(0) != nesting::list)
      return microbatch_fault{not_positional, trees_[0].name};
    if (is(1) != nesting::dict) return microbatch_fault{not_by_name, trees_[1].name};
    for (auto& t : trees_)
      if (auto fault = find_fault_in(t)) return fault;
    return std::nullopt;
  }

  std::optional<microbatch_fault> find_count_fault(split_batch_options const& o) const {
    using enum microbatch_fault::kind;
    if (o.microbatches < 1 || o.microbatches > most_microbatches)
      return microbatch_fault{.what = bad_count, .count = o.microbatches};
    auto const least = shortest();
    if (!least || least->second.rows >= o.microbatches ||
        o.when_few_rows == split_batch_options::few_rows::fewer_microbatches)
      return std::nullopt;
    return microbatch_fault{.what = too_few_rows,
                            .where = least->first,
                            .axis = static_cast<std::int64_t>(*least->second.axis),
                            .rows = least->second.rows,
                            .count = o.microbatches};
  }

  /// `cut(x, axis, rows)` returns a microbatch's share of a split leaf.
  template <class Cut>
  microbatch_list<Leaf> divide(std::int64_t asked, Cut cut) const {
    microbatch_list<Leaf> made;
    auto const least = shortest();
    std::int64_t const k = least ? (std::min)(asked, least->second.rows) : asked;
    if (k < asked) made.limit = microbatch_limit{least->first, least->second.rows};
    if (auto const rows = common_rows()) made.rows = microbatch_sizes(*rows, k);
    made.rules = rules();
    for (std::int64_t i = 0; i < k; ++i) {
      auto const part = [&](tree const& t) {
        std::vector<Leaf> leaves;
        for (std::size_t n = 0; n < t.divisions.size(); ++n) {
          Leaf const& x = t.values->leaves()[n];
          auto const& d = t.divisions[n];
          leaves.push_back(d.axis ? cut(x, *d.axis, microbatch_rows(d.rows, k, i)) : x);
        }
        return t.values->map_leaves(std::move(leaves));
      };
      made.values.push_back({part(trees_[0]), part(trees_[1]), std::nullopt});
      if (trees_[2].values) made.values.back().target = part(trees_[2]);
    }
    return made;
  }

  /// Returns the number of rows that all split values have, or nothing if the numbers differ or no value is
  /// split.
  std::optional<std::int64_t> common_rows() const {
    std::optional<std::int64_t> rows;
    for (auto const& t : trees_)
      for (auto const& d : t.divisions) {
        if (!d.axis) continue;
        if (rows && *rows != d.rows) return std::nullopt;
        rows = d.rows;
      }
    return rows;
  }

  batch_rules<Leaf> rules() const { return {rules_of(trees_[0]), rules_of(trees_[1]), rules_of(trees_[2])}; }

 private:
  struct tree {
    char const* name;
    nested<Leaf> const* values;             ///< null: missing
    nested<batch_rule<Leaf>> const* rules;  ///< null: default rules
    std::vector<leaf_division> divisions = {};
  };

  template <class T>
  static T const* pointer(std::optional<T> const& x) {
    return x ? &*x : nullptr;
  }

  std::optional<microbatch_fault> find_fault_in(tree& t) const {
    using enum microbatch_fault::kind;
    if (!t.values) return t.rules ? std::optional(microbatch_fault{no_such_value, t.name}) : std::nullopt;
    std::vector<std::size_t> rule_of;
    if (t.rules) {
      auto aligned = align_nested(t.values->shape(), t.rules->shape(), t.name);
      if (auto* m = std::get_if<nested_mismatch>(&aligned))
        return microbatch_fault{.what = rules_differ, .where = m->where, .mismatch = std::move(*m)};
      rule_of = std::get<0>(std::move(aligned));
    }
    auto const& leaves = t.values->leaves();
    t.divisions.clear();
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      auto how =
          division_of(access_, leaves[n], t.rules ? t.rules->leaves()[rule_of[n]] : batch_rule<Leaf>{});
      if (auto* fault = std::get_if<microbatch_fault>(&how)) {
        fault->where = leaf_place_text(t.values->shape(), n, t.name);
        return *std::move(fault);
      }
      t.divisions.push_back(std::get<leaf_division>(how));
    }
    return std::nullopt;
  }

  /// Returns the first split leaf with the fewest rows, and its path.
  std::optional<std::pair<std::string, leaf_division>> shortest() const {
    tree const* in = nullptr;
    std::size_t at = 0;
    for (auto const& t : trees_)
      for (std::size_t n = 0; n < t.divisions.size(); ++n)
        if (t.divisions[n].axis && (!in || t.divisions[n].rows < in->divisions[at].rows)) in = &t, at = n;
    if (!in) return std::nullopt;
    return std::pair(leaf_place_text(in->values->shape(), at, in->name), in->divisions[at]);
  }

  typename batch_rules<Leaf>::tree rules_of(tree const& t) const {
    if (!t.values) return std::nullopt;
    std::vector<batch_rule<Leaf>> rules;
    for (auto const& d : t.divisions)
      if (d.axis)
        rules.push_back(rule_along{static_cast<std::int64_t>(*d.axis)});
      else
        rules.push_back(rule_replicate{});
    return t.values->map_leaves(std::move(rules));
  }

  Access const& access_;
  std::array<tree, 3> trees_;
};

/// Returns the first reason why `split_batch` fails, or nothing. O(values), plus sorting the keys of dicts.
template <class Leaf, sliceable_leaves<Leaf> Access>
std::optional<microbatch_fault> find_batch_fault(Access const& a, batch_values<Leaf> const& values,
                                                 batch_rules<Leaf> const& rules,
                                                 split_batch_options const& options) {
  batch_divider<Leaf, Access> d(a, values, rules);
  if (auto fault = d.find_fault()) return fault;
  return d.find_count_fault(options);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Splits a batch into `microbatches` microbatches, or into one per row of the split value with the fewest
/// rows. Values may differ in their rows; each is split by `microbatch_rows`. The order of keywords is kept.
/// O(values * microbatches).
/// \throws microbatch_error if `find_batch_fault` finds a fault
template <class Leaf, sliceable_leaves<Leaf> Access>
microbatch_list<Leaf> split_batch(Access const& a, batch_values<Leaf> const& values,
                                  batch_rules<Leaf> const& rules, split_batch_options const& options) {
  detail::batch_divider<Leaf, Access> d(a, values, rules);
  if (auto fault = d.find_fault()) throw microbatch_error("split_batch", *std::move(fault));
  if (auto fault = d.find_count_fault(options)) throw microbatch_error("split_batch", *std::move(fault));
  return d.divide(options.microbatches, [&](Leaf const& x, std::size_t axis, detail::row_range rows) {
    return a.slice(x, axis, rows.first, rows.last);
  });
}

/// Splits a batch like `split_batch`, for debugging numerical differences. Every microbatch keeps the shapes
/// of the whole batch, with zeros outside its rows, so every kernel runs as for the whole batch.
/// `merge_masked` is the inverse.
template <class Leaf, maskable_leaves<Leaf> Access>
microbatch_list<Leaf> mask_batch(Access const& a, batch_values<Leaf> const& values,
                                 batch_rules<Leaf> const& rules, split_batch_options const& options) {
  detail::batch_divider<Leaf, Access> d(a, values, rules);
  if (auto fault = d.find_fault()) throw microbatch_error("mask_batch", *std::move(fault));
  if (auto fault = d.find_count_fault(options)) throw microbatch_error("mask_batch", *std::move(fault));
  return d.divide(options.microbatches, [&](Leaf const& x, std::size_t axis, detail::row_range rows) {
    return a.masked(x, axis, rows.first, rows.last);
  });
}

}  // namespace cleave
