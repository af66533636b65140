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

#include "cleave/backward/joint_graph.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/disjoint_sets.hpp"
#include "cleave/graph/flow/local_flow.hpp"

/// Cuts a joint graph into a forward, a backward and a weight pass: chooses the values that are saved between
/// them and the operations that run again, by minimum cuts.
namespace cleave::inline v0_2 {

/// Options of `cut_joint_graph`.
struct joint_cut_options {
  /// Limit on the bytes of all microbatches in flight. If given, the least cost of operations that run again
  /// is sought within it.
  std::optional<std::size_t> most_bytes = {};
  /// Without a limit: bytes that one unit of cost must save, at least 0.
  double bytes_per_cost = 0;
  std::size_t forward_copies = 1;  ///< microbatches between their forward and their backward pass
  std::size_t weight_copies = 0;   ///< those between backward and weight pass; 0: no separate weight pass
  std::size_t steps = 50'000'000;  ///< limit of each minimum cut
  std::size_t branches = 64;  ///< with `most_bytes`: parts of the search space that are solved one by one
};

/// The passes of a joint graph. Lists of nodes are ascending; a value that stays on the rank is in none.
template <std::unsigned_integral Index>
struct basic_joint_cut {
  std::vector<Index> forward, backward, weight;  ///< the operations that each pass runs
  std::vector<Index> saved;                      ///< values that the forward pass leaves for the other two
  std::vector<Index> kept;  ///< values that stay or are left for the weight pass after the backward pass
  std::size_t saved_bytes = 0, kept_bytes = 0;  ///< of one microbatch
  std::size_t bytes = 0;                        ///< of all microbatches in flight
  std::vector<Index> again;                     ///< operations that run more than once
  double cost = 0;                              ///< of their additional runs
  /// A lower bound on what was minimised: the cost if `most_bytes` is given, otherwise the bytes plus the
  /// cost times `bytes_per_cost`.
  double bound = 0;
  bool least = false;  ///< true if nothing better exists
};

/// The result of `cut_joint_graph` for 32-bit indices.
using joint_cut = basic_joint_cut<std::uint32_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for options that `cut_joint_graph` cannot use.
class joint_cut_options_error : public error {
 public:
  using error::error;
};

/// Says, for each node of a joint graph, whether it runs again where a later pass needs its value.
struct joint_choice {
  std::vector<char> in_backward, in_weight;
  bool operator==(joint_choice const&) const = default;
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
      : g_(g), options_(o), late_(depends_on_gradients(g)) {
    find_passes();
    find_needs();
    for (std::size_t n = 0; n < g.nodes(); ++n)
      everything_ += (forward_copies() + weight_copies()) * bytes(n);
  }

  cut search() && { return options_.most_bytes ? within(*options_.most_bytes) : cheapest(); }

 private:
  static constexpr std::uint32_t source = 0, sink = 1;
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  bool is_operation(std::size_t n) const { return g_.source[n] == joint_source::operation; }
  bool is_parameter(std::size_t n) const { return g_.source[n] == joint_source::parameter; }
  bool is_unsaved(std::size_t n) const { return !g_.unsaved.empty() && g_.unsaved[n] != 0; }
  bool is_fixed(std::size_t n) const { return !g_.fixed.empty() && g_.fixed[n] != 0; }
  double cost(std::size_t n) const { return !is_operation(n) ? 0 : g_.cost.empty() ? 1 : g_.cost[n]; }
  double bytes(std::size_t n) const { return is_parameter(n) ? 0 : static_cast<double>(g_.bytes[n]); }
  double forward_copies() const { return static_cast<double>(options_.forward_copies); }
  double weight_copies() const { return static_cast<double>(options_.weight_copies); }

  void close(std::vector<char>& set) const {
    for (std::size_t n = g_.nodes(); n-- > 0;)
      if (set[n])
        for (Index const m : g_.reads[n]) set[m] = 1;
  }
  void close_late(std::vector<char>& set) const {
    for (std::size_t n = g_.nodes(); n-- > 0;)
      if (set[n])
        for (Index const m : g_.reads[n]) set[m] |= late_[m];
  }

  /// Finds the nodes that each pass must run, and those that it may run again.
  void find_passes() {
    auto const n = g_.nodes();
    in_forward_.assign(n, 0), in_backward_.assign(n, 0), in_weight_.assign(n, 0);
    for (Index const m : g_.results) in_forward_[m] = 1;
    close(in_forward_);
    for (Index const m : g_.input_gradients) in_backward_[m] = late_[m];
    for (Index const m : g_.weight_gradients)
      (options_.weight_copies == 0 ? in_backward_ : in_weight_)[m] |= late_[m];
    close_late(in_backward_);
    close_late(in_weight_);

    // A node cannot run again if it reads a value that can neither be saved nor be made again.
    may_repeat_.assign(n, 0), may_repeat_weight_.assign(n, 0);
    for (std::size_t m = 0; m < n; ++m) {
      if (!is_operation(m)) continue;
      may_repeat_[m] = !late_[m] && (!is_fixed(m) || !in_forward_[m]);
      may_repeat_weight_[m] = !is_fixed(m) || may_repeat_[m];
      for (Index const u : g_.reads[m])
        if (is_unsaved(u)) may_repeat_[m] &= may_repeat_[u], may_repeat_weight_[m] &= may_repeat_weight_[u];
    }
    move_to_backward();
    for (std::size_t m = 0; m < n; ++m)
      in_weight_[m] &= static_cast<char>(!in_backward_[m] && is_operation(m));
  }

  /// A node of the weight pass that reads a value of the backward pass that can neither be saved nor be made
  /// again runs in the backward pass, and so do the nodes that it depends on.
  void move_to_backward() {
    for (bool moved = !g_.unsaved.empty(); std::exchange(moved, false);) {
      for (std::size_t n = 0; n < g_.nodes(); ++n)
        if (in_weight_[n] && !in_backward_[n])
          for (Index const m : g_.reads[n])
            if (in_backward_[m] && is_unsaved(m) && !may_repeat_weight_[m]) in_backward_[n] = 1, moved = true;
      close_late(in_backward_);
    }
  }

  /// Finds the values that the backward and the weight pass read and do not make.
  void find_needs() {
    needed_backward_.assign(g_.nodes(), 0), needed_weight_.assign(g_.nodes(), 0);
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      for (Index const m : g_.reads[n]) {
        if (in_backward_[n]) needed_backward_[m] |= static_cast<char>(!late_[m]);
        if (in_weight_[n]) needed_weight_[m] |= static_cast<char>(!in_weight_[m]);
      }
    for (auto const* list : {&g_.input_gradients, &g_.weight_gradients})
      for (Index const m : *list) needed_backward_[m] |= static_cast<char>(!late_[m]);
  }

  /// What follows from a choice. `valid` is false if a fixed node would run twice.
  struct outcome {
    cut result;
    bool valid = true;
  };

  /// Computes what follows from a choice. O(V + E).
  outcome evaluate(joint_choice const& c) const {
    auto const n = g_.nodes();
    std::vector<char> runs_forward(in_forward_), runs_backward(in_backward_), runs_weight(in_weight_),
        needed(needed_backward_), needed_weight(needed_weight_);
    outcome o;
    auto& r = o.result;
    double saved = 0, kept = 0;
    for (std::size_t m = n; m-- > 0;) {
      if (needed_weight[m] && !runs_weight[m]) {
        if (may_repeat_weight_[m] && (c.in_weight[m] || is_unsaved(m))) {
          runs_weight[m] = 1;
          for (Index const u : g_.reads[m]) needed_weight[u] = 1;
          continue;
        }
        needed[m] |= static_cast<char>(!late_[m]);
        if (!is_parameter(m)) r.kept.push_back(static_cast<Index>(m)), kept += bytes(m);
      }
    }
    for (std::size_t m = n; m-- > 0;) {
      if (!needed[m]) continue;
      if (may_repeat_[m] && (c.in_backward[m] || is_unsaved(m))) {
        runs_backward[m] = 1;
        for (Index const u : g_.reads[m]) needed[u] = 1;
      } else {
        runs_forward[m] = 1;
        if (!is_parameter(m)) r.saved.push_back(static_cast<Index>(m)), saved += bytes(m);
      }
    }
    close(runs_forward);
    for (std::size_t m = 0; m < n; ++m) {
      if (!is_operation(m)) continue;
      int const runs = runs_forward[m] + runs_backward[m] + runs_weight[m];
      if (runs_forward[m]) r.forward.push_back(static_cast<Index>(m));
      if (runs_backward[m]) r.backward.push_back(static_cast<Index>(m));
      if (runs_weight[m]) r.weight.push_back(static_cast<Index>(m));
      if (runs < 2) continue;
      r.again.push_back(static_cast<Index>(m));
      r.cost += (runs - 1) * cost(m);
      o.valid = o.valid && !is_fixed(m);
    }
    std::ranges::reverse(r.saved);
    std::ranges::reverse(r.kept);
    r.saved_bytes = static_cast<std::size_t>(saved), r.kept_bytes = static_cast<std::size_t>(kept);
    r.bytes = static_cast<std::size_t>((std::min)(forward_copies() * saved + weight_copies() * kept, 0x1p63));
    return o;
  }

  /// Throws if a value must be saved but cannot be.
  void check_saved(cut const& c) const {
    for (auto const* list : {&c.saved, &c.kept})
      for (Index const m : *list)
        if (is_unsaved(m))
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

  /// Chooses the nodes that a pass runs in addition, given the values it needs, by a minimum cut. Returns the
  /// value of the cut, or nothing if the search was cut short.
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
    double least = 0;
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

  /// A choice for one price of cost in bytes, what follows from it, and a lower bound on its objective.
  struct point {
    joint_choice choice;
    cut result;
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
    point best{{std::vector<char>(n), std::vector<char>(n)}, {}, 0, true};
    best.result = evaluate(best.choice).result;
    auto c = best.choice;
    auto const take = [&] {
      auto o = evaluate(c);
      auto const extra = [&](cut const& r) { return per_value_ * static_cast<double>(r.saved.size()); };
      auto const was = objective(best.result, price) + extra(best.result),
                 now = objective(o.result, price) + extra(o.result);
      if (!o.valid || now > was || (now == was && o.result.again.size() >= best.result.again.size()))
        return false;
      best.choice = c, best.result = std::move(o.result);
      return true;
    };
    auto const choose_backward = [&](std::vector<char> const& needed) {
      std::ranges::fill(c.in_backward, 0);
      auto const prices_of = [&](std::size_t m) -> prices {
        auto const tilt = 1 + slope_ * static_cast<double>(m) / static_cast<double>(n);
        auto const run = priced(cost(m), price) * tilt, both = is_fixed(m) ? -1 : run;
        auto const decided = decided_.empty() ? decision::open : decided_[m];
        bool const may = may_repeat_[m] && decided != decision::never_again;
        bool const is_left = !is_unsaved(m) && decided != decision::never_saved;
        auto const value = is_parameter(m) ? 0 : forward_copies() * bytes(m) + per_value_;
        bool const is_optional = is_operation(m) && !in_forward_[m];  // the forward pass need not run it
        return {!may ? -1 : is_optional ? 0 : run, is_left ? value : -1, both, is_optional};
      };
      return choose(needed, late_, prices_of, c.in_backward);
    };
    auto needed = needed_backward_;
    for (std::size_t m = 0; m < n; ++m) needed[m] |= static_cast<char>(needed_weight_[m] && !late_[m]);
    auto const value = choose_backward(needed);
    best.complete = value.has_value();
    best.bound = value.value_or(0);
    take();
    if (options_.weight_copies == 0) return best;
    best.bound += least_kept_;
    while (best.complete) {
      auto const weight = choose_weight(price, c);
      if (!weight) break;
      bool better = take();
      needed = needed_backward_;
      for (Index const m : evaluate(c).result.kept) needed[m] |= static_cast<char>(!late_[m]);
      if (!choose_backward(needed)) break;
      better |= take();
      if (!better) break;
    }
    return best;
  }

  /// Chooses what the weight pass runs again, given what the backward pass runs again.
  std::optional<double> choose_weight(double price, joint_choice& c) const {
    // What the backward pass has in any case: what it makes, and what is saved for it.
    std::vector<char> at_hand(late_), repeats(g_.nodes());
    auto needed = needed_backward_;
    for (std::size_t m = g_.nodes(); m-- > 0;) {
      if (!needed[m]) continue;
      at_hand[m] = 1;
      repeats[m] = may_repeat_[m] && (c.in_backward[m] || is_unsaved(m));
      if (repeats[m])
        for (Index const u : g_.reads[m]) needed[u] = 1;
    }
    std::ranges::fill(c.in_weight, 0);
    auto const prices_of = [&](std::size_t m) -> prices {
      bool const is_more = in_forward_[m] || in_backward_[m] || repeats[m];
      bool const may = may_repeat_weight_[m] && !(is_fixed(m) && at_hand[m]);
      return {!may      ? -1
              : is_more ? priced(cost(m), price)
                        : 0,
              is_unsaved(m) ? -1 : (weight_copies() + (at_hand[m] ? 0 : forward_copies())) * bytes(m)};
    };
    return choose(needed_weight_, in_weight_, prices_of, c.in_weight);
  }

  /// Returns the fewest bytes that the weight pass needs if running again costs nothing.
  double least_kept() const {
    if (options_.weight_copies == 0) return 0;
    std::vector<char> ignored(g_.nodes());
    auto const prices_of = [&](std::size_t m) -> prices {
      return {may_repeat_weight_[m] ? 0.0 : -1.0, is_unsaved(m) ? -1 : weight_copies() * bytes(m)};
    };
    return choose(needed_weight_, in_weight_, prices_of, ignored).value_or(0);
  }

  cut finished(point&& p, double value, double bound) const {
    check_saved(p.result);
    p.result.bound = (std::min)(bound, value);
    p.result.least = value <= bound + 1e-9 * magnitude(bound);
    return std::move(p.result);
  }

  cut cheapest() {
    least_kept_ = least_kept();
    auto p = solve(options_.bytes_per_cost);
    auto const value = objective(p.result, options_.bytes_per_cost), bound = p.bound;
    return finished(std::move(p), value, bound);
  }

  /// Parts of the search space, by what is decided for single nodes.
  enum class decision : std::uint8_t { open, never_again, never_saved };

  /// A part of the search space, and the two points next to the limit in it.
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
    improve(best, root, most);
    if (root.price > 0) improve_by_prices(best, root, most);
    auto const above = [](branch const& a, branch const& b) { return a.bound > b.bound; };
    std::vector<branch> open;
    auto const push = [&](branch&& b) {
      if (b.bound >= best.result.cost * (1 - 1e-9)) return;
      open.push_back(std::move(b));
      std::ranges::push_heap(open, above);
    };
    double undecided = infinite;  // the lowest bound of the parts that are not divided any further
    push(std::move(root));
    for (std::size_t left = options_.branches; left > 0 && !open.empty();) {
      std::ranges::pop_heap(open, above);
      auto const part = std::move(open.back());
      open.pop_back();
      if (part.bound >= best.result.cost * (1 - 1e-9)) break;
      auto const node = node_to_decide(part);
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
        improve(best, child, most);
        push(std::move(child));
      }
    }
    for (auto const& b : open) undecided = (std::min)(undecided, b.bound);
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
  void improve(point& best, branch const& b, std::size_t most) const {
    auto const take = [&](point p) {
      if (p.result.bytes > most || p.result.cost > 1.1 * best.result.cost) return;
      fill(p, b.many.choice, most);
      if (p.result.cost < best.result.cost) best = std::move(p);
    };
    take(b.few);
    auto const& many = b.many.result;
    if (many.bytes <= most || many.cost >= best.result.cost || many.bytes - most > most / 16) return;
    if (auto p = b.many; cover(p, most)) take(std::move(p));
  }

  /// Runs more operations of `p` again until the limit is met: at each step those that make one saved value
  /// and cost least for each byte that is too much. Returns false if no operation helps.
  bool cover(point& p, std::size_t most) const {
    auto left = options_.steps / 16 / (1 + g_.nodes() + g_.reads.item.size());
    while (p.result.bytes > most) {
      auto const excess = static_cast<double>(p.result.bytes - most);
      std::vector<char> has(late_);  // the backward pass has the value anyway
      for (auto const* list : {&p.result.saved, &p.result.backward})
        for (Index const n : *list) has[n] = 1;
      point best;
      double least = infinite;
      for (Index const n : p.result.saved) {
        if (!may_repeat_[n] || left == 0) continue;
        --left;
        auto c = p.choice;
        repeat(n, has, c);
        auto o = evaluate(c);
        if (!o.valid || o.result.bytes >= p.result.bytes) continue;
        auto const less = static_cast<double>(p.result.bytes - o.result.bytes);
        auto const price = (o.result.cost - p.result.cost) / (std::min)(less, excess);
        if (price < least) least = price, best.choice = std::move(c), best.result = std::move(o.result);
      }
      if (least == infinite) return false;
      p.choice = std::move(best.choice), p.result = std::move(best.result);
    }
    return true;
  }

  /// Lets `n` run again, and the operations on the way to it from values that the backward pass has.
  void repeat(Index n, std::vector<char> const& has, joint_choice& c) const {
    std::vector<Index> rest{n};
    while (!rest.empty()) {
      Index const m = rest.back();
      rest.pop_back();
      c.in_backward[m] = 1;
      for (Index const u : g_.reads[m])
        if (!has[u] && may_repeat_[u] && !c.in_backward[u]) rest.push_back(u);
    }
  }

  /// Looks for better points by other prices. Layers that are alike change at the same price, so that points
  /// between them are missing: with a slope, later ones cost more or less. Small values are saved at nearly
  /// any price: with a count, each value costs more.
  void improve_by_prices(point& best, branch const& root, std::size_t most) {
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
        improve(best, b, most);
      }
    per_value_ = slope_ = 0;
  }

  /// Returns the largest value that only one of the two points saves, or none.
  std::size_t node_to_decide(branch const& b) const {
    std::size_t found = none<std::size_t>;
    double most = -1;
    auto const& few = b.few.result.saved;
    for (Index const n : b.many.result.saved)
      if (b.decided[n] == decision::open && may_repeat_[n] && bytes(n) > most &&
          !std::ranges::binary_search(few, n))
        found = n, most = bytes(n);
    return found;
  }

  [[noreturn]] void refuse(point const& few, std::size_t most) const {
    check_saved(few.result);
    bool const is_proved = few.complete && few.bound >= static_cast<double>(few.result.bytes);
    auto const number = std::to_string(few.result.bytes) + " bytes";
    throw infeasible_error("joint graph: most_bytes is " + std::to_string(most) + ", but " +
                           (is_proved ? number + " are needed even" : "the best cut found has " + number) +
                           " if every operation runs again that may; allow more bytes, or have fewer "
                           "microbatches in flight or fewer fixed operations");
  }

  /// Takes runs back from `few` as long as the limit allows it: first whole parts in which `many` differs,
  /// then single nodes.
  void fill(point& few, joint_choice const& many, std::size_t most) const {
    auto const n = g_.nodes();
    disjoint_sets<Index> sets(n);
    auto const differs = [&](std::size_t m) {
      return few.choice.in_backward[m] != many.in_backward[m] || few.choice.in_weight[m] != many.in_weight[m];
    };
    for (std::size_t m = 0; m < n; ++m)
      if (differs(m))
        for (Index const u : g_.reads[m])
          if (differs(u)) sets.join(static_cast<Index>(m), u);
    std::vector<std::vector<Index>> parts;
    std::vector<std::size_t> number(n, none<std::size_t>);
    for (std::size_t m = 0; m < n; ++m) {
      if (!differs(m)) continue;
      auto& i = number[sets[static_cast<Index>(m)]];
      if (i == none<std::size_t>) i = parts.size(), parts.emplace_back();
      parts[i].push_back(static_cast<Index>(m));
    }
    try_all(few, parts, most, [&](joint_choice& c, Index m) {
      c.in_backward[m] = many.in_backward[m], c.in_weight[m] = many.in_weight[m];
    });
    do {
      parts.clear();
      for (Index const m : few.result.again) parts.push_back({m});
    } while (
        try_all(few, parts, most, [](joint_choice& c, Index m) { c.in_backward[m] = c.in_weight[m] = 0; }));
  }

  /// Changes the choice at each part in turn, those first that alone save the most cost for each byte.
  /// Returns true if a change was good and stays.
  template <class Change>
  bool try_all(point& p, std::vector<std::vector<Index>> const& parts, std::size_t most,
               Change change) const {
    struct candidate {
      double worth;
      std::size_t part;
    };
    std::vector<candidate> list;
    auto const changed = [&](std::size_t part) {
      auto c = p.choice;
      for (Index const m : parts[part]) change(c, m);
      return c;
    };
    auto const is_better = [&](outcome const& o) {
      return o.valid && o.result.bytes <= most && o.result.cost < p.result.cost;
    };
    // Each trial costs O(V + E), so a large graph gets fewer.
    auto left = options_.steps / (1 + g_.nodes() + g_.reads.item.size());
    for (std::size_t i = 0; i < parts.size() && left > 0; ++i, --left) {
      auto const o = evaluate(changed(i));
      if (!is_better(o)) continue;
      auto const more = static_cast<double>(o.result.bytes) - static_cast<double>(p.result.bytes);
      list.push_back({(p.result.cost - o.result.cost) / (std::max)(more, 1.0), i});
    }
    std::ranges::sort(list, [](candidate const& a, candidate const& b) {
      return a.worth != b.worth ? a.worth > b.worth : a.part < b.part;
    });
    bool any = false;
    for (auto const& candidate : list) {
      auto c = changed(candidate.part);
      auto o = evaluate(c);
      if (!is_better(o)) continue;
      p.choice = std::move(c), p.result = std::move(o.result);
      any = true;
    }
    return any;
  }

  basic_joint_graph<Index> const& g_;
  joint_cut_options options_;
  // For each node:
  std::vector<char> late_;                                  // it depends on a gradient
  std::vector<char> in_forward_, in_backward_, in_weight_;  // the pass must run it
  std::vector<char> may_repeat_, may_repeat_weight_;        // the pass may run it where it needs its value
  std::vector<char> needed_backward_, needed_weight_;       // the pass reads it and does not make it
  std::vector<decision> decided_;                           // empty: all open
  double per_value_ = 0;                                    // bytes that each saved value counts in addition
  double slope_ = 0;       // share by which a run of the last node costs more than one of the first
  double everything_ = 1;  // more bytes than any choice has
  double least_kept_ = 0;  // bytes that the weight pass needs in any case, times its copies
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
/// backward pass; with `weight_copies` those that no input gradient depends on run in the weight pass, and
/// the others may run there again.
///
/// Without a limit and without weight pass the result is a minimum (`least`), unless a search was cut short.
/// Otherwise `bound` says how far it can be from one.
///
/// \throws joint_graph_error; joint_cut_options_error; infeasible_error if the limit is too low, or if a
/// value can neither be saved nor made again
template <std::unsigned_integral Index>
basic_joint_cut<Index> cut_joint_graph(basic_joint_graph<Index> const& g, joint_cut_options const& o = {}) {
  detail::check_joint_graph(g);
  if (!is_finite(o.bytes_per_cost) || o.bytes_per_cost < 0)
    throw detail::joint_cut_options_error("joint graph: bytes_per_cost must be finite and not negative");
  if (o.forward_copies == 0 || o.forward_copies > 1u << 20 || o.weight_copies > 1u << 20)
    throw detail::joint_cut_options_error(
        "joint graph: forward_copies must be from 1 to 1048576, weight_copies from 0 to 1048576");
  return detail::joint_cutter<Index>(g, o).search();
}

}  // namespace cleave
