// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule_bytes.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave {

/// The link from one rank to another.
struct pair_link {
  rank_id from, to;
  rank_link link;

  bool operator==(pair_link const&) const = default;
};

/// What a file of costs says. Times are in `unit`, whatever that is.
struct cost_table {
  std::string unit = {};                ///< `ms`; empty where it is not said
  std::vector<stage_cost> stages = {};  ///< one for all, or one of each stage
  double hop = 0;                       ///< of every message
  rank_link link = {};                  ///< of every pair of ranks that has none of its own
  std::vector<pair_link> links = {};    ///< of those that have
  schedule_bytes bytes = {};            ///< of stages none where the file says of none

  bool operator==(cost_table const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// A link of a rank that there is not. The witness: the link.
class pair_link_error : public witness_error<pair_link> {
 public:
  pair_link_error(pair_link const& l, std::uint32_t ranks)
      : witness_error("costs: there is a link from rank " + std::to_string(index(l.from)) + " to rank " +
                          std::to_string(index(l.to)) + ", but there are only " + std::to_string(ranks) +
                          " ranks",
                      l) {}
};

}  // namespace cleave::detail

namespace cleave {

/// The costs as they are given to `simulate`. O(stages + ranks² where pairs have links of their own).
/// \throws pair_link_error
inline simulate_options simulate_options_of(cost_table const& table, placement const& place) {
  simulate_options options{.costs = table.stages, .hop = table.hop, .bytes = table.bytes.edges};
  if (!(table.link == rank_link{})) options.links = {table.link};
  if (table.links.empty()) return options;
  options.links.assign(std::size_t{place.ranks} * place.ranks, table.link);
  for (auto const& l : table.links) {
    if (index(l.from) >= place.ranks || index(l.to) >= place.ranks) throw detail::pair_link_error(l, place.ranks);
    options.links[std::size_t{index(l.from)} * place.ranks + index(l.to)] = l.link;
  }
  return options;
}

}  // namespace cleave

namespace cleave::detail {

/// What a file says of a stage; the rest follows.
struct stated_costs {
  static constexpr std::array<std::string_view, 9> time_names = {
      "F", "B", "I", "W", "RECOMPUTE", "UNSHARD", "REDUCE_GRAD", "OFFLOAD", "RELOAD"};
  static constexpr std::array<std::string_view, 3> byte_names = {"stash", "weight_stash", "input"};

  std::array<std::optional<double>, time_names.size()> times = {};
  std::array<std::optional<std::uint64_t>, byte_names.size()> bytes = {};

  bool has_bytes() const {
    return std::ranges::any_of(bytes, [](auto const& b) { return b.has_value(); });
  }

  /// B is I + W or twice F; I and W are what the other leaves of B, or halves of it; RECOMPUTE is F.
  stage_cost cost() const {
    auto const& [f, b, i, w, recompute, unshard, reduce, offload, reload] = times;
    stage_cost c;
    c.forward = f.value_or(c.forward);
    c.backward = b ? *b : i && w ? *i + *w : i ? 2 * *i : w ? 2 * *w : 2 * c.forward;
    c.input_gradient = i ? *i : w ? (std::max)(0.0, c.backward - *w) : c.backward / 2;
    c.weight_gradient = w ? *w : (std::max)(0.0, c.backward - c.input_gradient);
    c.recompute = recompute.value_or(c.forward);
    c.unshard = unshard.value_or(0);
    c.reduce_gradient = reduce.value_or(0);
    c.offload = offload.value_or(0);
    c.reload = reload.value_or(0);
    return c;
  }
  pass_bytes kept() const {
    return {
        .stash = bytes[0].value_or(0), .weight_stash = bytes[1].value_or(0), .input = bytes[2].value_or(0)};
  }
};

/// The stages of a table as they are read, one after the other.
class stage_costs {
 public:
  void add(stated_costs const& stated) {
    costs_.push_back(stated.cost());
    bytes_.push_back(stated.kept());
    any_bytes_ |= stated.has_bytes();
  }
  std::size_t size() const { return costs_.size(); }
  void give_to(cost_table& table) const {
    table.stages = costs_;
    if (any_bytes_) table.bytes.stages = bytes_;
  }

 private:
  std::vector<stage_cost> costs_;
  std::vector<pass_bytes> bytes_;
  bool any_bytes_ = false;
};

}  // namespace cleave::detail
