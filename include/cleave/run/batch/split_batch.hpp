// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/run/batch/align_nested.hpp"
#include "cleave/run/batch/batch_rules.hpp"
#include "cleave/run/batch/leaf_access.hpp"
#include "cleave/run/batch/microbatch_fault.hpp"
#include "cleave/run/batch/microbatch_rows.hpp"
#include "cleave/run/batch/nested.hpp"

namespace cleave {

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
        return t.values->with_leaves(std::move(leaves));
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
    return t.values->with_leaves(std::move(rules));
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
