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

namespace cleave {

/// A tensor is divided along its first axis; one without axes and what is no tensor goes to every microbatch.
/// To merge: tensors along their first axis, tensors without axes stacked, all else must be the same.
struct rule_default {
  bool operator==(rule_default const&) const = default;
};

/// Divided and merged along `axis`; -1 is the last.
struct rule_along {
  std::int64_t axis = 0;
  /// Of a value with one row along `axis`: it allows no more than one microbatch, or, as a mask that holds
  /// for all rows, it goes to every microbatch. Merging does not ask.
  enum class single_row : std::uint8_t { limits, is_for_all } single = single_row::limits;

  bool operator==(rule_along const&) const = default;
};

/// The same in every microbatch.
struct rule_replicate {
  bool operator==(rule_replicate const&) const = default;
};

/// Merged by `combine(… combine(combine(init, result 0), result 1) …)`; cannot say how to divide. `combine`
/// is a plain function, so that rules are data that is copied and compared.
template <class Leaf>
struct rule_reduce {
  Leaf init;
  Leaf (*combine)(Leaf, Leaf const&);

  bool operator==(rule_reduce const&) const = default;
};

/// What becomes of one leaf.
template <class Leaf>
using batch_rule = std::variant<rule_default, rule_along, rule_replicate, rule_reduce<Leaf>>;

/// What one step is given, or one microbatch of it.
template <class Leaf>
struct batch_values {
  nested<Leaf> arguments = nested<Leaf>::tuple({});  ///< by position: a tuple or list
  nested<Leaf> keywords = nested<Leaf>::dict({});    ///< by name: a dict
  std::optional<nested<Leaf>> target{};              ///< what the loss compares with

  bool operator==(batch_values const&) const = default;
};

/// Rules nested as the values are; names in dicts may be in any order. What has none goes by `rule_default`.
template <class Leaf>
struct batch_rules {
  using tree = std::optional<nested<batch_rule<Leaf>>>;
  tree arguments{}, keywords{}, target{};

  bool operator==(batch_rules const&) const = default;
};
}  // namespace cleave

/// What dividing and merging batches must know of the leaves of nested values, which are the user's: tensors,
/// numbers, texts, nothing, whatever a step is given. An adapter has the members; each concept is one
/// ability.
namespace cleave {

/// Leaves that can be divided.
/// - `a.axes(x)`                      how many axes a tensor has; nothing where `x` is no tensor.
/// - `a.extent(x, axis)`              how many rows it has along `axis`, of 0 … axes - 1.
/// - `a.slice(x, axis, first, last)`  its rows first … last - 1 along `axis`, all else as it is.
template <class Access, class Leaf>
concept sliceable_leaves =
    std::copyable<Leaf> && requires(Access const& a, Leaf const& x, std::size_t axis, std::int64_t row) {
      { a.axes(x) } -> std::same_as<std::optional<std::size_t>>;
      { a.extent(x, axis) } -> std::same_as<std::int64_t>;
      { a.slice(x, axis, row, row) } -> std::same_as<Leaf>;
    };

/// Leaves that can be made zero outside some rows, which keeps their shape.
/// - `a.masked(x, axis, first, last)`  `x` with zeros but in rows first … last - 1 along `axis`.
template <class Access, class Leaf>
concept maskable_leaves = sliceable_leaves<Access, Leaf> &&
                          requires(Access const& a, Leaf const& x, std::size_t axis, std::int64_t row) {
                            { a.masked(x, axis, row, row) } -> std::same_as<Leaf>;
                          };

/// Leaves that can be put together again. The lists are never empty.
/// - `a.concatenated(list, axis)`  tensors one behind the other along `axis`; all else in their shapes
/// agrees.
/// - `a.stacked(list)`             tensors without axes as one tensor with one axis.
/// - `a.equal(x, y)`               whether two leaves, tensors or not, are the same value.
template <class Access, class Leaf>
concept mergeable_leaves =
    sliceable_leaves<Access, Leaf> &&
    requires(Access const& a, Leaf const& x, std::span<Leaf const* const> list, std::size_t axis) {
      { a.concatenated(list, axis) } -> std::same_as<Leaf>;
      { a.stacked(list) } -> std::same_as<Leaf>;
      { a.equal(x, x) } -> std::same_as<bool>;
    };
}  // namespace cleave

namespace cleave::detail {

/// Rows `first`, first + 1, …, last - 1.
struct row_range {
  std::int64_t first, last;

  bool operator==(row_range const&) const = default;
};

/// The rows of microbatch `i` of `k` of a batch of `rows`: neighbours, and the first `rows` mod `k`
/// microbatches have one more than the others. Precondition: 0 <= i < k, 0 <= rows.
constexpr row_range microbatch_rows(std::int64_t rows, std::int64_t k, std::int64_t i) {
  auto const begin = [each = rows / k, longer = rows % k](std::int64_t j) {
    return j * each + (std::min)(j, longer);
  };
  return {begin(i), begin(i + 1)};
}

/// How many microbatches there can be: 1 to this.
inline constexpr std::int64_t most_microbatches = 0xfffffffe;

/// The sizes of the microbatches of a batch of `rows`: `asked` of them, or one a row where that is fewer.
/// \throws error where `asked` or `rows` is no such number.
inline std::vector<std::int64_t> microbatch_sizes(std::int64_t rows, std::int64_t asked) {
  if (asked < 1 || asked > most_microbatches)
    throw error("microbatch_sizes: " + std::to_string(asked) + " microbatches; ask for 1 to " +
                std::to_string(most_microbatches));
  if (rows < 0)
    throw error("microbatch_sizes: " + std::to_string(rows) + " rows; there cannot be fewer than 0");
  std::vector<std::int64_t> sizes;
  std::int64_t const k = (std::min)(asked, rows);
  for (std::int64_t i = 0; i < k; ++i) {
    auto const [first, last] = microbatch_rows(rows, k, i);
    sizes.push_back(last - first);
  }
  return sizes;
}

}  // namespace cleave::detail

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
using microbatch_error = fault_error<microbatch_fault>;

struct split_batch_options {
  std::int64_t microbatches = 1;  ///< how many are asked for
  /// Where some value has fewer rows: one microbatch a row of it, which the result reports, or an error.
  enum class few_rows : std::uint8_t {
    fewer_microbatches,
    refuse
  } when_few_rows = few_rows::fewer_microbatches;
};

/// The value that allows no more microbatches than it has rows.
struct microbatch_limit {
  std::string where;
  std::int64_t rows;

  bool operator==(microbatch_limit const&) const = default;
};

/// A batch in microbatches.
template <class Leaf>
struct microbatch_list {
  std::vector<batch_values<Leaf>> values;
  /// The rows of each; empty where no value is divided, or where divided ones differ in their rows.
  std::vector<std::int64_t> rows;
  batch_rules<Leaf> rules;                ///< what was done to each value: merging by them is the way back
  std::optional<microbatch_limit> limit;  ///< why there are fewer than asked for, if so
};

}  // namespace cleave

namespace cleave::detail {

/// What is done to one leaf: it is divided along an axis, or replicated.
struct leaf_division {
  std::optional<std::size_t> axis{};
  std::int64_t rows = 0;
};

/// Axis `axis` of `axes`, the last being -1; nothing where it is none of them.
constexpr std::optional<std::size_t> axis_number(std::int64_t axis, std::size_t axes) {
  auto const n = static_cast<std::int64_t>(axes);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

/// How `rule` divides `x`, or why it cannot.
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

/// Divides the three trees of a batch together; `split_batch`, `mask_batch` and `take_microbatches` are its
/// uses.
template <class Leaf, class Access>
class batch_divider {
 public:
  batch_divider(Access const& a, batch_values<Leaf> const& values, batch_rules<Leaf> const& rules)
      : access_(a),
        trees_{tree{"arguments", &values.arguments, pointer(rules.arguments)},
               tree{"keywords", &values.keywords, pointer(rules.keywords)},
               tree{"target", pointer(values.target), pointer(rules.target)}} {}

  /// Also finds how each leaf is divided, which all else needs.
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

  /// `cut(x, axis, rows)` is what a microbatch gets of a divided leaf.
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

  /// The rows that all divided values have; nothing where there is none, or where they differ.
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
    nested<Leaf> const* values;             ///< null: not given
    nested<batch_rule<Leaf>> const* rules;  ///< null: by default
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

  /// The first divided leaf with the fewest rows, and its place.
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

/// Why `split_batch` cannot divide, or nothing. O(values), and sorting the keys of dicts.
template <class Leaf, sliceable_leaves<Leaf> Access>
std::optional<microbatch_fault> find_batch_fault(Access const& a, batch_values<Leaf> const& values,
                                                 batch_rules<Leaf> const& rules,
                                                 split_batch_options const& options) {
  batch_divider<Leaf, Access> d(a, values, rules);
  if (auto fault = d.find_fault()) return fault;
  return d.find_count_fault(options);
}

}  // namespace cleave::detail

namespace cleave {

/// Divides a batch: `microbatches` of them, or one a row of the divided value that has the fewest. Values may
/// differ in their rows; each is divided by `microbatch_rows`. The order of keywords is kept.
/// \throws microbatch_error where `find_batch_fault` finds something. O(values * microbatches).
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

/// The same for finding faults in numbers: every microbatch has the shapes of the whole batch, with zeros
/// outside its rows, so that every kernel does what it does for the whole. `merge_masked` is the way back.
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
