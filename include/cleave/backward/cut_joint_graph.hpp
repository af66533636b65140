// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/detail/joint_local_search.hpp"
#include "cleave/backward/detail/joint_passes.hpp"
#include "cleave/backward/joint_cut.hpp"
#include "cleave/backward/joint_graph.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/flow/local_flow.hpp"

/// Cuts a joint graph into a forward, a backward and a weight pass: chooses the values that are saved between
/// them and the operations that run again, by minimum cuts.
namespace cleave::inline v0_2::detail {

/// Thrown for options that `cut_joint_graph` cannot use.
class joint_cut_options_error : public error {
 public:
  using error::error;
};

/// Cuts a joint graph. Helper of `cut_joint_graph`.
///
/// For given prices, the choice between forward and backward pass is a minimum cut: each node of the graph is
/// a pair of network nodes, `in` on the sink side if the node runs in the backward pass, `out` on the sink
/// side if the backward pass needs its value. Picard, Management Science 22(11), 1976 (closures);
/// recomputation as such: Chen et al., arXiv:1604.06174. A second cut chooses between backward and weight
/// pass, and the two are repeated, each with what the other one chose. Without a weight pass the result is a
/// minimum.
template <std::unsigned_integral Index>
class joint_cutter {
 public:
  using cut = basic_joint_cut<Index>;

  joint_cutter(basic_joint_graph<Index> const& g, joint_cut_options const& o)
      : g_(g), options_(o), passes_(g, o) {
    for (std::size_t n = 0; n < g.nodes(); ++n)
      everything_ += (passes_.in_flight() + passes_.weights_in_flight()) * passes_.bytes(n);
  }

  cut search() && { return options_.most_bytes ? within(*options_.most_bytes) : cheapest(); }

 private:
  static constexpr std::uint32_t source = 0, sink = 1;
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Throws if a value must be saved but cannot be.
  void check_saved(cut const& c) const {
    for (auto const* list : {&c.saved, &c.kept})
      for (Index const m : *list)
        if (passes_.is_unsavable(m))
          throw infeasible_error("joint graph: the value of node " + g_.label(m) +
                                 " is needed after the pass that makes it, but may neither be saved nor "
                                 "made again; let it run again, or save values made of it");
  }

  /// Prices in bytes for a minimum cut. A negative price means never.
  struct prices {
    double run;             ///< of running the node in the pass
    double value;           ///< of leaving its value for the pass
    double both = 0;        ///< for optional nodes: of running in the pass before as well
    bool optional = false;  ///< true if the pass before need not run the node
  };

  /// Chooses the nodes that a pass runs in addition, given the values it needs, by a minimum cut. Returns a
  /// lower bound on the value of every cut, or nothing if the search was cut short. The bound is the value
  /// itself, less what rounding to integers may have cost.
  ///
  /// \param stops for each node, 1 if the pass runs it in any case
  /// \param prices_of(n) returns `prices`
  template <class Prices>
  std::optional<double> choose(std::vector<char> const& needed, std::vector<char> const& stops,
                               Prices prices_of, std::vector<char>& runs) const {
    auto const n = g_.nodes();
    std::vector<std::uint32_t> in(n), before(n);  // nodes of the network; 0 marks a missing one
    std::vector<char> reached(needed);
    std::uint32_t count = 2;
    double total = 1;
    for (std::size_t m = n; m-- > 0;) {
      if (!reached[m] || stops[m]) continue;
      in[m] = count, count += 2;
      auto const p = prices_of(m);
      if (p.optional) before[m] = count++;
      total += (std::max)(p.run, 0.0) + (std::max)(p.value, 0.0) + (std::max)(p.both, 0.0) + 1;
      if (p.run < 0) continue;
      for (Index const u : g_.reads[m]) reached[u] = 1;
    }
    auto const unit = fixed_point::for_total(total);
    // One unit breaks ties in favour of fewer runs.
    auto const run_load = [&](double p) { return p < 0 ? unreachable_load : unit.of(p) + 1; };
    local_flow flow(count);
    for (std::size_t m = 0; m < n; ++m) {
      if (in[m] == 0) continue;
      auto const p = prices_of(m);
      auto const out = in[m] + 1;
      // A node that can neither run nor leave its value is found by `check_saved`.
      auto const value = p.value >= 0 ? unit.of(p.value) : p.run < 0 ? 0 : unreachable_load;
      flow.arc(in[m], out, value);
      if (needed[m]) flow.arc(out, sink, unreachable_load);
      if (before[m] == 0) {
        flow.arc(source, in[m], run_load(p.run));
      } else {
        if (p.run < 0) flow.arc(source, in[m], unreachable_load);
        flow.arc(in[m], before[m], unreachable_load);
        flow.arc(before[m], in[m], run_load(p.both));
        for (Index const u : g_.reads[m])
          if (before[u] != 0) flow.arc(before[m], before[u], unreachable_load);
      }
      if (p.run >= 0)
        for (Index const u : g_.reads[m])
          if (in[u] != 0) flow.arc(in[u] + 1, in[m], unreachable_load);
    }
    flow.most(source, sink, options_.steps, options_.steps / (1 + g_.reads.item.size() + n) + 1);
    if (flow.reached(sink)) return std::nullopt;
    double least = -2 * unit.value(1) * count;  // each arc was rounded by half a unit, and ties add one
    for (std::size_t m = 0; m < n; ++m) {
      if (in[m] == 0) continue;
      auto const p = prices_of(m);
      runs[m] = !flow.reached(in[m]);
      if (runs[m] && before[m] == 0) least += p.run;
      if (runs[m] && before[m] != 0 && flow.reached(before[m])) least += p.both;
      if (!runs[m] && !flow.reached(in[m] + 1)) least += (std::max)(p.value, 0.0);
    }
    return least;
  }

  /// A choice for one price of cost in bytes, the cut that it leads to, and a lower bound on the objective of
  /// every choice.
  struct point : joint_solution<Index> {
    double bound = 0;
    bool complete = true;  // false if a search was cut short
  };

  double priced(double cost, double price) const {
    return price == infinite ? (cost > 0 ? everything_ : 0) : price * cost;
  }
  double objective(cut const& c, double price) const {
    return static_cast<double>(c.bytes) + (c.cost > 0 ? price * c.cost : 0);
  }

  /// Finds a choice of low price. An infinite `price` means the fewest bytes without cost.
  point solve(double price) const {
    auto const n = g_.nodes();
    point best;
    best.choice = {std::vector<char>(n), std::vector<char>(n)};
    best.result = passes_.cut_of(best.choice);
    auto c = best.choice;
    typename joint_passes<Index>::pass_marks marks;
    auto const take = [&] {
      if (!passes_.score_of(c, marks).is_valid) return false;
      auto made = passes_.cut_of(c);
      auto const extra = [&](cut const& r) { return per_value_ * static_cast<double>(r.saved.size()); };
      auto const was = objective(best.result, price) + extra(best.result),
                 now = objective(made, price) + extra(made);
      if (now > was || (now == was && made.again.size() >= best.result.again.size())) return false;
      best.choice = c, best.result = std::move(made);
      return true;
    };
    auto const choose_backward = [&](std::vector<char> const& needed) {
      std::ranges::fill(c.in_backward, 0);
      auto const prices_of = [&](std::size_t m) -> prices {
        auto const tilt = 1 + slope_ * static_cast<double>(m) / static_cast<double>(n);
        auto const run = priced(passes_.cost(m), price) * tilt, both = passes_.runs_once(m) ? -1 : run;
        auto const decided = decided_.empty() ? decision::open : decided_[m];
        bool const may = passes_.may_repeat(m) && decided != decision::never_again;
        bool const is_left = !passes_.is_unsavable(m) && decided != decision::never_saved;
        auto const value = passes_.is_parameter(m) ? 0 : passes_.in_flight() * passes_.bytes(m) + per_value_;
        bool const is_optional =
            passes_.is_operation(m) && !passes_.in_forward(m);  // the forward pass need not run it
        return {!may ? -1 : is_optional ? 0 : run, is_left ? value : -1, both, is_optional};
      };
      return choose(needed, passes_.late(), prices_of, c.in_backward);
    };
    auto needed = passes_.needed_backward();
    for (std::size_t m = 0; m < n; ++m)
      needed[m] |= static_cast<char>(passes_.needed_weight()[m] && !passes_.late()[m]);
    auto const value = choose_backward(needed);
    best.complete = value.has_value();
    best.bound = value.value_or(0);
    take();
    if (options_.weights_in_flight == 0) return best;
    best.bound += least_kept_;
    while (best.complete) {
      auto const weight = choose_weight(price, c);
      if (!weight) break;
      bool better = take();
      needed = passes_.needed_backward();
      for (Index const m : passes_.cut_of(c).kept) needed[m] |= static_cast<char>(!passes_.late()[m]);
      if (!choose_backward(needed)) break;
      better |= take();
      if (!better) break;
    }
    return best;
  }

  /// Chooses what the weight pass runs again, given what the backward pass runs again.
  std::optional<double> choose_weight(double price, joint_choice& c) const {
    // Marks the values that the backward pass has anyway: those that it makes, and those saved for it.
    std::vector<char> at_hand(passes_.late()), repeats(g_.nodes());
    auto needed = passes_.needed_backward();
    for (std::size_t m = g_.nodes(); m-- > 0;) {
      if (!needed[m]) continue;
      at_hand[m] = 1;
      repeats[m] = passes_.may_repeat(m) && (c.in_backward[m] || passes_.is_unsavable(m));
      if (repeats[m])
        for (Index const u : g_.reads[m]) needed[u] = 1;
    }
    std::ranges::fill(c.in_weight, 0);
    auto const prices_of = [&](std::size_t m) -> prices {
      bool const is_more = passes_.in_forward(m) || passes_.in_backward(m) || repeats[m];
      bool const may = passes_.may_repeat_weight(m) && !(passes_.runs_once(m) && at_hand[m]);
      return {
          !may      ? -1
          : is_more ? priced(passes_.cost(m), price)
                    : 0,
          passes_.is_unsavable(m)
              ? -1
              : (passes_.weights_in_flight() + (at_hand[m] ? 0 : passes_.in_flight())) * passes_.bytes(m)};
    };
    return choose(passes_.needed_weight(), passes_.in_weight(), prices_of, c.in_weight);
  }

  /// Returns the fewest bytes that the weight pass needs if running again costs nothing.
  double least_kept() const {
    if (options_.weights_in_flight == 0) return 0;
    std::vector<char> ignored(g_.nodes());
    auto const prices_of = [&](std::size_t m) -> prices {
      return {passes_.may_repeat_weight(m) ? 0.0 : -1.0,
              passes_.is_unsavable(m) ? -1 : passes_.weights_in_flight() * passes_.bytes(m)};
    };
    return choose(passes_.needed_weight(), passes_.in_weight(), prices_of, ignored).value_or(0);
  }

  cut finished(point&& p, double value, double bound) const {
    check_saved(p.result);
    p.result.bound = (std::max)((std::min)(bound, value), 0.0);
    p.result.least = value <= p.result.bound * (1 + 1e-9);
    if (p.result.least) p.result.bound = value;  // they differ by rounding
    return std::move(p.result);
  }

  cut cheapest() {
    least_kept_ = least_kept();
    auto p = solve(is_prohibitive(options_.bytes_per_cost) ? infinite : options_.bytes_per_cost);
    auto const value = objective(p.result, options_.bytes_per_cost), bound = p.bound;
    return finished(std::move(p), value, bound);
  }

  /// Returns true if at this price no run is worth even all bytes.
  bool is_prohibitive(double price) const {
    for (std::size_t m = 0; m < g_.nodes(); ++m)
      if (auto const c = passes_.cost(m); c > 0 && price * c < everything_) return false;
    return true;
  }

  /// Parts of the search space, by what is decided for single nodes.
  enum class decision : std::uint8_t { open, never_again, never_saved };

  /// A part of the search space, and its two points next to the limit: `few` is within the limit, `many` has
  /// more bytes and costs less.
  struct branch {
    std::vector<decision> decided;
    double bound = 0, price = 0;  ///< the price at which the two points are next to the limit
    point few, many;
  };

  /// Finds the least cost within a limit of bytes, by branch and bound. A part is divided by whether one
  /// value is saved; parts of the lowest bound come first.
  cut within(std::size_t most) {
    least_kept_ = least_kept();
    auto const nodes = g_.nodes();
    decided_.assign(nodes, decision::open);
    auto root = next_to_limit(most, 0);
    if (root.few.result.bytes > most) refuse(root.few, most);
    auto best = root.few;
    auto const is_good = [&](double bound) { return best.result.cost <= bound * (1 + options_.gap); };
    joint_local_search<Index> local(g_, passes_, options_.steps, most);
    improve(best, root, most, local);
    if (root.price > 0 && !is_good(root.bound)) improve_by_prices(best, root, most, local);
    if (!is_good(root.bound)) local.exchange(best);
    auto const above = [](branch const& a, branch const& b) { return a.bound > b.bound; };
    std::vector<branch> open;
    auto const push = [&](branch&& b) {
      if (b.bound >= best.result.cost) return;
      open.push_back(std::move(b));
      std::ranges::push_heap(open, above);
    };
    double undecided = infinite;  // the lowest bound of the parts that are not divided any further
    push(std::move(root));
    for (std::size_t left = options_.branches; left > 0 && !open.empty();) {
      std::ranges::pop_heap(open, above);
      auto const part = std::move(open.back());
      open.pop_back();
      auto const node = is_good(part.bound) ? none<std::size_t> : node_to_decide(part);
      if (node == none<std::size_t>) {
        undecided = (std::min)(undecided, part.bound);
        continue;
      }
      for (auto const d : {decision::never_again, decision::never_saved}) {
        if (left > 0) --left;
        decided_ = part.decided;
        decided_[node] = d;
        auto child = next_to_limit(most, part.bound);
        if (child.few.result.bytes > most) {
          if (!child.few.complete || child.few.bound <= static_cast<double>(most))
            undecided = (std::min)(undecided, child.bound);  // it may still have a solution
          continue;
        }
        improve(best, child, most, local);
        push(std::move(child));
      }
    }
    for (auto const& b : open) undecided = (std::min)(undecided, b.bound);
    if (!is_good(undecided)) local.exchange(best);
    auto const value = best.result.cost, bound = (std::min)(value, undecided);
    return finished(std::move(best), value, bound);
  }

  /// Finds the two points next to the limit among those that are cheapest at some price. The prices at which
  /// they change are found by taking the price at which the two found so far cost the same.
  branch next_to_limit(std::size_t most, double bound) const {
    branch b{decided_, bound, 0, solve(0), solve(infinite)};
    auto& [decided, least, price, few, many] = b;
    if (many.result.bytes <= most) {
      few = many;
      if (few.result.cost == 0) return b;
      // Some operations have to run again; others may do at less cost.
      auto const high = 0x1p20 * everything_ / few.result.cost;
      auto p = solve(high);
      if (p.complete) least = (std::max)(least, (p.bound - static_cast<double>(most)) / high);
      if (p.result.bytes <= most && p.result.cost < few.result.cost) few = std::move(p);
      return b;
    }
    if (few.result.bytes > most) return b;
    for (int round = 0; round < 60; ++round) {
      auto const more_cost = few.result.cost - many.result.cost;
      auto const more_bytes = static_cast<double>(many.result.bytes - few.result.bytes);
      if (!(more_cost > 0)) break;
      price = more_bytes / more_cost;
      auto p = solve(price);
      // By Lagrangian relaxation of the limit.
      if (p.complete) least = (std::max)(least, (p.bound - static_cast<double>(most)) / price);
      auto const line = objective(few.result, price);
      if (!(objective(p.result, price) < line - 1e-9 * line)) break;
      (p.result.bytes <= most ? few : many) = std::move(p);
    }
    return b;
  }

  /// Looks for a better point within the limit near the two points of a part.
  void improve(point& best, branch const& b, std::size_t most, joint_local_search<Index>& local) const {
    auto const take = [&](point p) {
      if (p.result.bytes > most || p.result.cost > 1.03 * best.result.cost) return;
      local.fill(p, b.many.choice);
      if (p.result.cost < best.result.cost) best = std::move(p);
    };
    take(b.few);
    auto const& many = b.many.result;
    if (many.bytes <= most || many.cost >= best.result.cost || many.bytes - most > most / 16) return;
    if (auto p = b.many; local.cover(p)) take(std::move(p));
  }

  /// Looks for better points by other prices. Layers that are alike change at the same price, so that points
  /// between them are missing: with a slope, later ones cost more or less. Small values are saved at nearly
  /// any price: with a count, each value costs more.
  void improve_by_prices(point& best, branch const& root, std::size_t most,
                         joint_local_search<Index>& local) {
    for (double const count : {0.0, 1.0 / 65536, 1.0 / 4096, 1.0 / 256})
      for (double const slope : {0.0, 0.1, -0.1}) {
        if (count == 0 && slope == 0) continue;
        per_value_ = count * static_cast<double>(most), slope_ = slope;
        auto b = root;
        double low = root.price / 16, high = root.price * 16;
        for (int round = 0; round < 12; ++round) {
          auto const price = square_root(low * high);
          auto p = solve(price);
          bool const fits = p.result.bytes <= most;
          (fits ? low : high) = price;
          if (!fits || p.result.cost < b.few.result.cost) (fits ? b.few : b.many) = std::move(p);
        }
        improve(best, b, most, local);
      }
    per_value_ = slope_ = 0;
  }

  /// Returns the largest value that only one of the two points saves, or none.
  std::size_t node_to_decide(branch const& b) const {
    std::size_t found = none<std::size_t>;
    double most = -1;
    auto const& few = b.few.result.saved;
    for (Index const n : b.many.result.saved)
      if (b.decided[n] == decision::open && passes_.may_repeat(n) && passes_.bytes(n) > most &&
          !std::ranges::binary_search(few, n))
        found = n, most = passes_.bytes(n);
    return found;
  }

  [[noreturn]] void refuse(point const& few, std::size_t most) const {
    check_saved(few.result);
    // Bytes are whole numbers, the bound may lie below one by the error of rounding.
    bool const is_proved = few.complete && few.bound > static_cast<double>(few.result.bytes) - 1;
    auto const number = std::to_string(few.result.bytes) + " bytes";
    throw infeasible_error("joint graph: the limit of " + std::to_string(most) + " bytes is too low: " +
                           (is_proved ? number + " are needed" : "the best cut found has " + number) +
                           ", even if every operation runs again that may; allow more bytes, fewer "
                           "microbatches in flight, or more operations to run again");
  }

  basic_joint_graph<Index> const& g_;
  joint_cut_options options_;
  joint_passes<Index> passes_;
  std::vector<decision> decided_;  // for each node; empty: all open
  double per_value_ = 0;           // bytes that each saved value counts in addition
  double slope_ = 0;               // share by which a run of the last node costs more than one of the first
  double everything_ = 1;          // more bytes than any choice has
  double least_kept_ = 0;          // bytes that the weight pass needs in any case, times its microbatches
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts the joint graph of a stage into its passes so that few bytes wait between them.
///
/// - Without `most_bytes`: minimises the bytes in flight plus the cost of operations that run again times
///   `bytes_per_cost`. With a price of 0 every operation runs again that saves a byte.
/// - With `most_bytes`: minimises that cost within the limit.
///
/// The forward pass runs what its results depend on. Operations that depend on a gradient run once, in the
/// backward pass; with `weights_in_flight` those that no input gradient depends on run in the weight pass,
/// and the others may run there again.
///
/// Without a limit and without weight pass the result is a minimum, unless a search was cut short. `least`
/// says so where the numbers are exact. Otherwise `bound` says how far the result can be from one.
///
/// \throws joint_graph_error; joint_cut_options_error; infeasible_error if the limit is too low, or if a
/// value can neither be saved nor made again
template <std::unsigned_integral Index>
basic_joint_cut<Index> cut_joint_graph(basic_joint_graph<Index> const& g, joint_cut_options const& o = {}) {
  detail::check_joint_graph(g);
  if (!is_finite(o.bytes_per_cost) || o.bytes_per_cost < 0)
    throw detail::joint_cut_options_error("joint graph: bytes_per_cost must be finite and not negative");
  if (!(o.gap >= 0 && o.gap <= 1))
    throw detail::joint_cut_options_error("joint graph: gap must be from 0 to 1");
  if (o.in_flight == 0 || o.in_flight > 1u << 20 || o.weights_in_flight > 1u << 20)
    throw detail::joint_cut_options_error(
        "joint graph: in_flight must be from 1 to 1048576, weights_in_flight from 0 to 1048576");
  return detail::joint_cutter<Index>(g, o).search();
}

}  // namespace cleave
