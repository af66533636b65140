// SPDX-License-Identifier: MIT
#include "cleave/schedule/list/list_passes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/search/least_bytes.hpp"
#include "support/random_step.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A naive list scheduler with the same rule. It asks all ranks for their best next pass at each step.
class plain_lister {
 public:
  plain_lister(placed_step const& step, list_rule const& rule)
      : step_(step), rule_(rule), lists_(step.locals.size()), free_(step.locals.size()) {}

  pass_lists const& run() {
    for (;;) {
      std::optional<candidate> next;
      std::uint32_t rank = 0;
      for (std::uint32_t r = 0; r < lists_.size(); ++r)
        if (auto const best = best_of(r); best && (!next || best->start < next->start)) next = best, rank = r;
      if (!next) return lists_;
      auto const [stage, kind] = next->what;
      lists_[rank].push_back(next->what);
      free_[rank] = next->start + step_.stages[stage].cost.of(kind);
      if (kind != action_kind::weight_gradient)
        ends_[{stage, kind == action_kind::forward, count(stage, kind) - 1}] = free_[rank];
    }
  }

 private:
  struct candidate {
    double start;
    listed_pass what;
  };

  int count(std::uint32_t s, action_kind kind) const {
    return static_cast<int>(std::ranges::count(lists_[step_.stages[s].rank], listed_pass{s, kind}));
  }
  action_kind gradient() const {
    return rule_.form == backward_choice::split ? action_kind::input_gradient : action_kind::backward;
  }
  /// Returns the time when all inputs of stage `s` for microbatch `k` are there, or none.
  std::optional<double> ready(std::uint32_t s, bool forward, int k) const {
    double at = 0;
    for (auto const e : forward ? step_.stages[s].before : step_.stages[s].after) {
      auto const end = ends_.find({forward ? step_.feeding(e) : step_.fed(e), forward, k});
      if (end == ends_.end()) return std::nullopt;
      at = std::max(at, end->second + (forward ? step_.forward[e] : step_.backward[e]).delay);
    }
    return at;
  }
  std::optional<candidate> best_of(std::uint32_t r) const {
    std::optional<candidate> best;
    auto const offer = [&](std::optional<double> ready, std::uint32_t s, action_kind kind) {
      if (ready && (!best || std::max(*ready, free_[r]) < best->start))
        best = candidate{std::max(*ready, free_[r]), {s, kind}};
    };
    std::vector<std::uint32_t> const deepest_first(step_.locals[r].rbegin(), step_.locals[r].rend());
    auto const offer_gradients = [&] {
      for (auto const s : deepest_first)
        if (auto const k = count(s, gradient()); k < count(s, action_kind::forward))
          offer(ready(s, false, k), s, gradient());
    };
    auto const offer_weights = [&] {
      for (auto const s : deepest_first)
        if (count(s, action_kind::weight_gradient) < count(s, action_kind::input_gradient))
          offer(0, s, action_kind::weight_gradient);
    };
    if (rule_.weights == weight_timing::at_once) offer_weights();
    if (rule_.first == list_preference::gradients) offer_gradients();
    for (auto const s : deepest_first)
      if (auto const k = count(s, action_kind::forward); k < static_cast<int>(step_.microbatches))
        offer(ready(s, true, k), s, action_kind::forward);
    if (rule_.first == list_preference::forwards) offer_gradients();
    if (rule_.weights == weight_timing::when_idle) offer_weights();
    return best;
  }

  placed_step const& step_;
  list_rule const& rule_;
  pass_lists lists_;
  std::vector<double> free_;
  std::map<std::tuple<std::uint32_t, bool, int>, double> ends_;  // stage, whether forward, microbatch
};

list_rule random_rule(splitmix& rng) {
  return {.form = rng.below(2) == 0 ? backward_choice::whole : backward_choice::split,
          .first = rng.below(2) == 0 ? list_preference::gradients : list_preference::forwards,
          .weights = rng.below(2) == 0 ? weight_timing::when_idle : weight_timing::at_once};
}

}  // namespace

TEST_CASE("list_passes: without memory limits, matches a naive list scheduler") {
  splitmix rng(8);
  for (int round = 0; round < 150; ++round) {
    auto problem = testing::random_step(rng);
    problem.links.clear();  // the naive scheduler has no queues of messages
    for (auto const& step : placed_steps(problem)) {
      auto const rule = random_rule(rng);
      auto const lists = list_passes(step, rule);
      REQUIRE(lists);
      CHECK(*lists == plain_lister(step, rule).run());
    }
  }
}

TEST_CASE("list_passes: runs every pass once within the memory limits, or finds no room") {
  splitmix rng(9);
  int made = 0, refused = 0;
  for (int round = 0; round < 300; ++round) {
    auto problem = testing::random_step(rng);
    problem.memory_limit = {testing::random_memory_limit(rng, problem)};
    for (auto const& step : placed_steps(problem)) {
      auto const rule = random_rule(rng);
      auto const lists = list_passes(step, rule);
      ++(lists ? made : refused);
      if (!lists) continue;
      CHECK(fits(step, *lists));
      CHECK(testing::order_defect(schedule_of(step.place, step.microbatches, *lists)) == "");
    }
  }
  CHECK(made > 200);
  CHECK(refused > 0);
}

TEST_CASE("list_passes: a chain with whole backward passes fits in the least memory of its ranks") {
  splitmix rng(10);
  for (int round = 0; round < 200; ++round) {
    auto const problem = testing::random_step(rng);
    for (auto const& step : placed_steps(problem))
      CHECK(list_passes(step, {.room = least_bytes(step, backward_choice::whole)}));
  }
}
