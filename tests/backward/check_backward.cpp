// SPDX-License-Identifier: MIT
#include "cleave/backward/check_backward.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "cleave/backward/make_backward_plan.hpp"
#include "support/linear_stages.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using kind = backward_plan_fault::kind;
constexpr auto no = none<std::uint32_t>;
constexpr backward_options return_gradients{.inputs = input_gradients::returned};

TEST_CASE("find_backward_plan_fault: accepts the plans of make_backward_plan") {
  testing::rng random(21);
  for (int i = 0; i < 400; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(12));
    for (auto const& options : {backward_options{}, return_gradients}) {
      auto const fault = find_backward_plan_fault(root, loss, make_backward_plan(root, loss, options));
      CHECK_MESSAGE(!fault, (fault ? backward_plan_fault_text(*fault) : ""));
    }
  }
}

/// Changes one number of a plan to another value in its range.
void change(testing::rng& random, backward_plan& p, std::uint32_t values) {
  auto const other = [&](std::uint32_t& n, std::size_t below) {
    n = random.one_in(6) ? no : static_cast<std::uint32_t>(random.below(below));
  };
  auto const gradients = p.gradients.size() + 1;
  auto const change_place = [&](gradient_place& place) {
    random.one_in(2) ? other(place.gradient, gradients) : other(place.value, values);
  };
  if (random.one_in(2) && !p.gradients.empty()) {
    auto& g = p.gradients[random.below(p.gradients.size())];
    auto const which = random.below(3);
    if (which == 0) other(g.value, values);
    if (which == 1) g.is_sum() ? other(g.old, gradients) : other(g.input, 4);
    if (which == 2) g.is_sum() ? other(g.added, gradients) : other(g.call, p.calls.size());
  } else if (!p.inputs.empty() && random.one_in(5)) {
    auto& tree = p.inputs[random.below(p.inputs.size())];
    change_place(tree[random.below(tree.size())]);
  } else {
    auto& c = p.calls[random.below(p.calls.size())];
    auto const which = random.below(6);
    if (which == 0) other(c.stage, values);
    if (which == 1) c.width += 1;
    if (which == 2 && !c.selected.empty()) c.selected.pop_back();
    if (which == 3 && !c.inputs.empty()) other(c.inputs[random.below(c.inputs.size())], values);
    if (which == 4) change_place(c.outputs[random.below(c.outputs.size())]);
    if (which == 5) other(c.first_gradient, gradients);
  }
}

TEST_CASE("find_backward_plan_fault: reports a changed number unless gradients keep their calls and terms") {
  testing::rng random(22);
  std::size_t changed = 0, alike = 0;
  std::set<kind> met;
  for (int i = 0; i < 3000; ++i) {
    auto const [root, loss] = testing::random_root(random, 2 + random.below(8));
    auto const right = make_backward_plan(root, loss, return_gradients);
    auto wrong = right;
    change(random, wrong, static_cast<std::uint32_t>(root.values()));
    if (wrong == right) continue;
    ++changed;
    auto const fault = find_backward_plan_fault(root, loss, wrong);
    if (fault) {
      met.insert(fault->what);
      CHECK(!backward_plan_fault_text(*fault).empty());
      continue;
    }
    ++alike;  // the same place, an unused output, or a value where none is required
    CHECK(wrong.gradients.size() == right.gradients.size());
    for (std::size_t g = 0; g < right.gradients.size(); ++g) {
      CHECK(wrong.gradients[g].call == right.gradients[g].call);
      CHECK(wrong.gradients[g].old == right.gradients[g].old);
      CHECK(wrong.gradients[g].added == right.gradients[g].added);
    }
  }
  CHECK(changed > 2000);
  CHECK(alike * 8 < changed);
  CHECK(met.size() >= 8);
}

/// x → s0 → s1; s2(s0, s1) is the loss.
stage_root skip() {
  stage_root r;
  r.add(root_kind::input);
  r.add(root_kind::stage, {0});
  r.add(root_kind::stage, {1});
  r.add(root_kind::stage, {1, 2});
  return r;
}

TEST_CASE("find_backward_plan_fault: reports each kind of fault with its call, gradient and value") {
  auto const right = make_backward_plan(skip(), 3);
  auto const fault = [&](auto change_plan) {
    auto wrong = right;
    change_plan(wrong);
    return find_backward_plan_fault(skip(), 3, wrong);
  };
  using fault_t = backward_plan_fault;
  REQUIRE(right.gradients.size() == 5);
  CHECK(fault([](auto&) {}) == std::nullopt);
  CHECK(fault([](auto& p) { p.calls.pop_back(); }) == fault_t{kind::missing_call, no, no, 1});
  CHECK(fault([](auto& p) { p.calls[1].stage = 3; }) == fault_t{kind::unneeded_call, 1, no, 3});
  CHECK(fault([](auto& p) { p.calls[1].stage = 0; }) == fault_t{kind::unneeded_call, 1, no, 0});
  CHECK(fault([](auto& p) { p.calls[0].inputs = {2, 1}; }) == fault_t{kind::wrong_inputs, 0, no, no});
  CHECK(fault([](auto& p) { p.calls[1].width = 2; }) == fault_t{kind::wrong_width, 1, no, no});
  CHECK(fault([](auto& p) { p.calls[1].selected = {1}; }) == fault_t{kind::wrong_width, 1, no, no});
  CHECK(fault([](auto& p) { p.gradients[1].input = 0; }) == fault_t{kind::wrong_step, 0, 1, 2});
  CHECK(fault([](auto& p) { p.calls[1].outputs[0].gradient = 2; }) ==
        fault_t{kind::early_gradient, no, 2, no});
  CHECK(fault([](auto& p) { p.calls[1].outputs[0].gradient = 0; }) ==
        fault_t{kind::misplaced_gradient, no, 0, 2});
  CHECK(fault([](auto& p) { p.calls[2].outputs[0].gradient = 2; }) ==
        fault_t{kind::repeated_gradient, no, 2, no});
  CHECK(fault([](auto& p) {
          p.calls[1].outputs[0].gradient = no;
          p.calls[1].selected.clear();
        }) == fault_t{kind::lost_gradient, no, 1, no});
  CHECK(fault([](auto& p) { p.gradients[3].added = 0; }) == fault_t{kind::repeated_gradient, no, 0, no});
  CHECK(fault([](auto& p) { p.calls[2].outputs[0].gradient = no; }) ==
        fault_t{kind::missing_gradient, 2, no, 1});
  CHECK(fault([](auto& p) { p.calls[0].selected.clear(); }) == fault_t{kind::missing_loss, no, no, no});
}

}  // namespace
