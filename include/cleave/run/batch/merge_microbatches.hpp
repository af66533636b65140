// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/run/batch/nested.hpp"
#include "cleave/run/batch/split_batch.hpp"

namespace cleave::inline v0_2::detail {

/// Merges the results of microbatches, for `merge_microbatches` and `merge_masked`.
template <class Leaf, class Access>
class microbatch_merger {
 public:
  enum class form : std::uint8_t { sliced, masked };

  microbatch_merger(Access const& a, std::span<nested<Leaf> const> parts,
                    std::optional<nested<batch_rule<Leaf>>> const& rules, form parts_are,
                    std::string_view root)
      : access_(a), parts_(parts), rules_(rules), form_(parts_are), root_(root) {}

  /// Returns the first fault, or nothing. Also determines how each leaf is merged; call it before `merge`.
  std::optional<microbatch_fault> find_fault() {
    using enum microbatch_fault::kind;
    if (parts_.empty()) return microbatch_fault{nothing_to_merge, std::string(root_)};
    auto const& shape = parts_[0].shape();
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      auto aligned = align_nested(shape, parts_[i].shape(), root_);
      if (auto* m = std::get_if<nested_mismatch>(&aligned))
        return microbatch_fault{
            .what = microbatches_differ, .where = m->where, .second = i, .mismatch = std::move(*m)};
      leaf_of_.push_back(std::get<0>(std::move(aligned)));
    }
    std::vector<std::size_t> rule_of;
    if (rules_) {
      auto aligned = align_nested(shape, rules_->shape(), root_);
      if (auto* m = std::get_if<nested_mismatch>(&aligned))
        return microbatch_fault{.what = rules_differ, .where = m->where, .mismatch = std::move(*m)};
      rule_of = std::get<0>(std::move(aligned));
    }
    for (std::size_t n = 0; n < parts_[0].leaves().size(); ++n) {
      auto how = way_of(leaves_at(n), rules_ ? rules_->leaves()[rule_of[n]] : batch_rule<Leaf>{});
      if (auto* fault = std::get_if<microbatch_fault>(&how)) {
        fault->where = leaf_place_text(shape, n, root_);
        return *std::move(fault);
      }
      ways_.push_back(std::get<way>(std::move(how)));
    }
    return std::nullopt;
  }

  nested<Leaf> merge() const {
    std::vector<Leaf> leaves;
    for (std::size_t n = 0; n < ways_.size(); ++n) leaves.push_back(merged(leaves_at(n), ways_[n]));
    return parts_[0].map_leaves(std::move(leaves));
  }

 private:
  using leaf_list = std::vector<Leaf const*>;  // leaves at the same place, by microbatch
  struct keep {};
  struct stack {};
  struct concatenate {
    std::size_t axis;
  };
  using way = std::variant<keep, stack, concatenate, rule_reduce<Leaf>>;
  using way_or_fault = std::variant<way, microbatch_fault>;

  leaf_list leaves_at(std::size_t n) const {
    leaf_list list{&parts_[0].leaves()[n]};
    for (std::size_t i = 1; i < parts_.size(); ++i) list.push_back(&parts_[i].leaves()[leaf_of_[i - 1][n]]);
    return list;
  }

  way_or_fault way_of(leaf_list const& list, batch_rule<Leaf> const& rule) const {
    if (auto const* reduce = std::get_if<rule_reduce<Leaf>>(&rule)) return way{*reduce};
    if (auto const* along = std::get_if<rule_along>(&rule)) return concatenation(list, along->axis);
    std::optional<std::size_t> const axes = access_.axes(*list[0]);
    if (std::holds_alternative<rule_replicate>(rule) || !axes) return sameness(list);
    if (*axes > 0) return concatenation(list, 0);
    for (std::size_t i = 1; i < list.size(); ++i)
      if (access_.axes(*list[i]) != axes) return differ(microbatch_fault::kind::axes_differ, i);
    return way{stack{}};
  }

  static microbatch_fault differ(microbatch_fault::kind what, std::size_t i) {
    return {.what = what, .first = 0, .second = i};
  }

  way_or_fault sameness(leaf_list const& list) const {
    for (std::size_t i = 1; i < list.size(); ++i)
      if (!access_.equal(*list[0], *list[i])) return differ(microbatch_fault::kind::values_differ, i);
    return way{keep{}};
  }

  way_or_fault concatenation(leaf_list const& list, std::int64_t wanted) const {
    using enum microbatch_fault::kind;
    std::optional<std::size_t> const axes = access_.axes(*list[0]);
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::optional<std::size_t> const here = access_.axes(*list[i]);
      if (!here) return microbatch_fault{.what = not_a_tensor, .axis = wanted, .first = i};
      if (here != axes) return differ(axes_differ, i);
    }
    auto const axis = axis_number(wanted, *axes);
    if (!axis)
      return microbatch_fault{
          .what = no_such_axis, .axis = wanted, .count = static_cast<std::int64_t>(*axes)};
    for (std::size_t i = 1; i < list.size(); ++i)
      for (std::size_t e = 0; e < *axes; ++e) {
        std::int64_t const rows = access_.extent(*list[0], e), other = access_.extent(*list[i], e);
        if (rows == other || (e == *axis && form_ == form::sliced)) continue;
        auto fault = differ(extents_differ, i);
        fault.axis = static_cast<std::int64_t>(e), fault.rows = rows, fault.count = other;
        return fault;
      }
    return way{concatenate{*axis}};
  }

  Leaf merged(leaf_list const& list, way const& how) const {
    if (std::holds_alternative<keep>(how)) return *list[0];
    if (std::holds_alternative<stack>(how)) return access_.stacked(std::span(list));
    if (auto const* reduce = std::get_if<rule_reduce<Leaf>>(&how)) {
      Leaf result = reduce->init;
      for (auto const* x : list) result = reduce->combine(std::move(result), *x);
      return result;
    }
    auto const axis = std::get<concatenate>(how).axis;
    return form_ == form::sliced ? access_.concatenated(std::span(list), axis) : own_rows(list, axis);
  }

  /// Concatenates the unmasked rows of each microbatch.
  Leaf own_rows(leaf_list const& list, std::size_t axis) const {
    std::vector<Leaf> slices;
    for (std::size_t i = 0; i < list.size(); ++i) {
      auto const k = static_cast<std::int64_t>(list.size());
      auto const [first, last] =
          microbatch_rows(access_.extent(*list[i], axis), k, static_cast<std::int64_t>(i));
      slices.push_back(access_.slice(*list[i], axis, first, last));
    }
    leaf_list pointers;
    for (auto const& x : slices) pointers.push_back(&x);
    return access_.concatenated(std::span(pointers), axis);
  }

  Access const& access_;
  std::span<nested<Leaf> const> parts_;
  std::optional<nested<batch_rule<Leaf>>> const& rules_;
  form form_;
  std::string_view root_;
  std::vector<std::vector<std::size_t>> leaf_of_;  // by microbatch from the second on, by leaf of the first
  std::vector<way> ways_;                          // by leaf of the first microbatch
};

/// Returns the first reason why `merge_microbatches` fails, or nothing.
template <class Leaf, mergeable_leaves<Leaf> Access>
std::optional<microbatch_fault> find_merge_fault(Access const& a, std::vector<nested<Leaf>> const& results,
                                                 typename batch_rules<Leaf>::tree const& rules = {},
                                                 std::string_view root = "results") {
  using merger = microbatch_merger<Leaf, Access>;
  return merger(a, results, rules, merger::form::sliced, root).find_fault();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Merges the results of the microbatches, in order, into the result of the batch. Null values, strings and
/// numbers are kept if they are equal in all microbatches. The result is nested like that of the first
/// microbatch. `root` is the name of the whole in messages.
/// \throws microbatch_error if `find_merge_fault` finds a fault
template <class Leaf, mergeable_leaves<Leaf> Access>
nested<Leaf> merge_microbatches(Access const& a, std::vector<nested<Leaf>> const& results,
                                typename batch_rules<Leaf>::tree const& rules = {},
                                std::string_view root = "results") {
  using merger = detail::microbatch_merger<Leaf, Access>;
  merger m(a, results, rules, merger::form::sliced, root);
  if (auto fault = m.find_fault()) throw microbatch_error("merge_microbatches", *std::move(fault));
  return m.merge();
}

/// Merges results of `mask_batch` like `merge_microbatches`, but takes from each microbatch only its own
/// rows.
template <class Leaf, mergeable_leaves<Leaf> Access>
nested<Leaf> merge_masked(Access const& a, std::vector<nested<Leaf>> const& results,
                          typename batch_rules<Leaf>::tree const& rules = {},
                          std::string_view root = "results") {
  using merger = detail::microbatch_merger<Leaf, Access>;
  merger m(a, results, rules, merger::form::masked, root);
  if (auto fault = m.find_fault()) throw microbatch_error("merge_masked", *std::move(fault));
  return m.merge();
}

}  // namespace cleave
