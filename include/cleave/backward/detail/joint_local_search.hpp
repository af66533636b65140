// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/backward/detail/joint_passes.hpp"
#include "cleave/backward/joint_cut.hpp"
#include "cleave/backward/joint_graph.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/disjoint_sets.hpp"

namespace cleave::inline v0_2::detail {

/// A choice and the cut that it leads to.
template <std::unsigned_integral Index>
struct joint_solution {
  joint_choice choice;
  basic_joint_cut<Index> result;
};

/// Changes solutions so that they meet a limit of bytes, or cost less within it. Each trial of a change costs
/// O(V + E), and `steps` limits their number.
template <std::unsigned_integral Index>
class joint_local_search {
 public:
  using solution = joint_solution<Index>;

  joint_local_search(basic_joint_graph<Index> const& g, joint_passes<Index> const& passes, std::size_t steps,
                     std::size_t most_bytes)
      : g_(g),
        passes_(passes),
        users_(users_of(g.reads, g.nodes())),
        most_(most_bytes),
        trials_(steps / (1 + g.nodes() + g.reads.item.size())) {}

  /// Frees bytes of `p` until the limit is met, first by what costs least for each byte that is too much.
  /// Returns false if nothing helps.
  bool cover(solution& p) {
    auto const has = values_at_hand(p);
    return cover(p, has, offers_of(p, frugal_changes(p), has, trials_ / 16));
  }

  /// Takes runs back from `p` as long as the limit allows it: first whole parts in which `other` differs,
  /// then single nodes.
  void fill(solution& p, joint_choice const& other) {
    auto const n = g_.nodes();
    disjoint_sets<Index> sets(n);
    auto const differs = [&](std::size_t m) {
      return p.choice.in_backward[m] != other.in_backward[m] || p.choice.in_weight[m] != other.in_weight[m];
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
    try_all(p, parts, [&](joint_choice& c, Index m) {
      c.in_backward[m] = other.in_backward[m], c.in_weight[m] = other.in_weight[m];
    });
    fill(p);
  }

  /// Takes runs of single nodes back from `p` as long as the limit allows it.
  void fill(solution& p) {
    std::vector<std::vector<Index>> parts;
    do {
      parts.clear();
      for (Index const m : p.result.again) parts.push_back({m});
    } while (try_all(p, parts, [](joint_choice& c, Index m) { c.in_backward[m] = c.in_weight[m] = 0; }));
  }

  /// Lowers the cost of `p`: saves a value whose runs cost much, even beyond the limit, and then frees bytes
  /// where that costs less. Repeats this as long as the cost falls.
  void exchange(solution& p) {
    for (int round = 0; round < 64; ++round)
      if (!exchange_once(p)) return;
  }

 private:
  using score = typename joint_passes<Index>::score;

  void take(solution& p, joint_choice&& c) {
    p.result = passes_.cut_of(c);
    p.choice = std::move(c);
  }

  bool is_better(score const& s, solution const& p) const {
    return s.is_valid && s.bytes <= most_ && s.cost < p.result.cost;
  }

  /// Marks the values that the backward pass has.
  std::vector<char> values_at_hand(solution const& p) const {
    auto has = passes_.late();
    for (auto const* list : {&p.result.saved, &p.result.backward})
      for (Index const n : *list) has[n] = 1;
    return has;
  }

  /// A change of a choice: values that are made again instead of saved, and nodes that no longer run in the
  /// backward pass.
  struct change {
    std::vector<Index> again, once;
  };

  /// Applies a change. The operations between the values at hand and those made again run again too.
  void apply(change const& d, std::vector<char> const& has, joint_choice& c) const {
    for (Index const n : d.once) c.in_backward[n] = 0;
    auto rest = d.again;
    for (Index const n : rest) c.in_backward[n] = 1;
    while (!rest.empty()) {
      Index const m = rest.back();
      rest.pop_back();
      for (Index const u : g_.reads[m])
        if (!has[u] && passes_.may_repeat(u) && !c.in_backward[u] && !std::ranges::count(d.once, u))
          c.in_backward[u] = 1, rest.push_back(u);
    }
  }

  /// Returns changes of `p` that may free bytes. One makes a saved value again; one makes all saved values up
  /// to some size again; one saves a value instead of those that are made of it.
  std::vector<change> frugal_changes(solution const& p) const {
    std::vector<change> list;
    std::vector<char> is_saved(g_.nodes()), seen(g_.nodes());
    auto saved = p.result.saved;
    for (Index const n : saved) is_saved[n] = 1;
    std::erase_if(saved, [&](Index n) { return !passes_.may_repeat(n); });
    for (Index const n : saved) list.push_back({{n}, {}});
    std::ranges::sort(saved, [&](Index a, Index b) {
      return passes_.bytes(a) != passes_.bytes(b) ? passes_.bytes(a) < passes_.bytes(b) : a < b;
    });
    for (std::size_t i = 2; i < saved.size() && i < 256; ++i)
      if (passes_.bytes(saved[i]) > passes_.bytes(saved[i - 1]))
        list.push_back({{saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(i)}, {}});
    for (std::size_t m = 0; m < g_.nodes(); ++m) {
      if (passes_.late()[m] || is_saved[m] || passes_.is_unsavable(m)) continue;
      auto made = saved_users(static_cast<Index>(m), is_saved, seen);
      if (!made.empty()) list.push_back({std::move(made), {static_cast<Index>(m)}});
    }
    return list;
  }

  /// Returns the saved values that are made of `n` without another saved one in between, and that may be made
  /// again. Looks at 64 users of values at most.
  std::vector<Index> saved_users(Index n, std::vector<char> const& is_saved, std::vector<char>& seen) const {
    std::vector<Index> found, reached{n}, marked;
    for (std::size_t i = 0; i < reached.size() && marked.size() < 64; ++i)
      for (Index const u : users_[reached[i]]) {
        if (marked.size() == 64) break;
        if (passes_.late()[u] || std::exchange(seen[u], 1)) continue;
        marked.push_back(u);
        if (!is_saved[u])
          reached.push_back(u);
        else if (passes_.may_repeat(u))
          found.push_back(u);
      }
    for (Index const u : marked) seen[u] = 0;
    return found;
  }

  /// Changes the choice at each part in turn, those first that alone save the most cost for each byte.
  /// Returns true if a change was good and stays.
  template <class Change>
  bool try_all(solution& p, std::vector<std::vector<Index>> const& parts, Change apply_part) {
    struct candidate {
      double worth;
      std::size_t part;
    };
    std::vector<candidate> list;
    auto const changed = [&](std::size_t part) {
      auto c = p.choice;
      for (Index const m : parts[part]) apply_part(c, m);
      return c;
    };
    for (std::size_t i = 0; i < (std::min)(parts.size(), trials_); ++i) {
      auto const s = passes_.score_of(changed(i), marks_);
      if (!is_better(s, p)) continue;
      auto const more = static_cast<double>(s.bytes) - static_cast<double>(p.result.bytes);
      list.push_back({(p.result.cost - s.cost) / (std::max)(more, 1.0), i});
    }
    std::ranges::sort(list, [](candidate const& a, candidate const& b) {
      return a.worth != b.worth ? a.worth > b.worth : a.part < b.part;
    });
    bool any = false;
    for (auto const& candidate : list) {
      auto c = changed(candidate.part);
      if (!is_better(passes_.score_of(c, marks_), p)) continue;
      take(p, std::move(c));
      any = true;
    }
    return any;
  }

  /// A change that frees bytes, and its cost for each byte when it was last tried.
  struct offer {
    double price;
    change what;
  };

  /// Tries changes on `p`, at most `trials`. Returns those that free bytes.
  std::vector<offer> offers_of(solution const& p, std::vector<change>&& changes, std::vector<char> const& has,
                               std::size_t trials) {
    std::vector<offer> offers;
    for (std::size_t i = 0; i < (std::min)(changes.size(), trials); ++i) {
      auto c = p.choice;
      apply(changes[i], has, c);
      auto const s = passes_.score_of(c, marks_);
      if (s.is_valid && s.bytes < p.result.bytes)
        offers.push_back({price_of(s, p.result.bytes, p.result.cost), std::move(changes[i])});
    }
    return offers;
  }

  double price_of(score const& s, std::size_t bytes, double cost) const {
    auto const less = static_cast<double>(bytes - s.bytes);
    auto const excess = bytes > most_ ? static_cast<double>(bytes - most_) : less;
    return (s.cost - cost) / (std::min)(less, excess);
  }

  /// Takes the offer of the lowest price until the limit is met. An offer is tried again before it is taken.
  bool cover(solution& p, std::vector<char> const& has, std::vector<offer> offers) {
    auto const dearer = [](offer const& a, offer const& b) { return a.price > b.price; };
    std::ranges::make_heap(offers, dearer);
    auto bytes = p.result.bytes;
    auto cost = p.result.cost;
    auto choice = p.choice;
    for (auto left = trials_ / 16; bytes > most_; --left) {
      if (offers.empty() || left == 0) return false;
      std::ranges::pop_heap(offers, dearer);
      auto o = std::move(offers.back());
      offers.pop_back();
      auto c = choice;
      apply(o.what, has, c);
      auto const s = passes_.score_of(c, marks_);
      if (!s.is_valid || s.bytes >= bytes) continue;
      o.price = price_of(s, bytes, cost);
      if (!offers.empty() && o.price > offers.front().price + 1e-9 * magnitude(o.price)) {
        offers.push_back(std::move(o));
        std::ranges::push_heap(offers, dearer);
        continue;
      }
      choice = std::move(c), bytes = s.bytes, cost = s.cost;
    }
    take(p, std::move(choice));
    return true;
  }

  /// Exchanges once, for `exchange`. Returns whether the cost fell.
  bool exchange_once(solution& p) {
    auto const has = values_at_hand(p);
    auto const offers = offers_of(p, frugal_changes(p), has, trials_);
    // Nodes that run again, those first that cost most.
    struct saving {
      double cost;
      std::size_t bytes;
      Index node;
    };
    std::vector<saving> savings;
    for (std::size_t i = 0; i < (std::min)(p.result.again.size(), trials_); ++i) {
      auto c = p.choice;
      c.in_backward[p.result.again[i]] = 0;
      auto const s = passes_.score_of(c, marks_);
      if (s.is_valid && s.cost < p.result.cost)
        savings.push_back({p.result.cost - s.cost, s.bytes, p.result.again[i]});
    }
    std::ranges::sort(savings, [](saving const& a, saving const& b) {
      return a.cost != b.cost ? a.cost > b.cost : a.bytes != b.bytes ? a.bytes < b.bytes : a.node < b.node;
    });
    for (std::size_t i = 0; i < (std::min)(savings.size(), std::size_t{64}); ++i) {
      auto q = p;
      q.choice.in_backward[savings[i].node] = 0;
      q.result = passes_.cut_of(q.choice);
      if (!cover(q, has, offers) || !(q.result.cost < p.result.cost)) continue;
      p = std::move(q);
      fill(p);
      return true;
    }
    return false;
  }

  basic_joint_graph<Index> const& g_;
  joint_passes<Index> const& passes_;
  csr<Index> users_;
  std::size_t most_, trials_;
  typename joint_passes<Index>::pass_marks marks_;
};

}  // namespace cleave::detail
