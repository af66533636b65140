// SPDX-License-Identifier: MIT
#include "cleave/backward/make_backward_plan.hpp"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/linear_stages.hpp"
#include "support/rng.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using testing::linear_stages, testing::whole_number;
using all_gradients = std::map<std::uint32_t, std::vector<whole_number>>;
constexpr auto no = none<std::uint32_t>;

/// Executes a plan of linear stages. Drops the gradient with the number `dropped`.
class plan_runner {
 public:
  plan_runner(linear_stages const& stages, std::uint32_t loss, backward_plan const& plan,
              std::uint32_t dropped = no)
      : stages_(stages), loss_(loss), plan_(plan), dropped_(dropped) {}

  /// Returns the gradients of stage outputs and, if the plan has them, of inputs.
  all_gradients run() {
    for (std::size_t c = 0; c < plan_.calls.size(); ++c) {
      auto const& call = plan_.calls[c];
      all_[call.stage] = seeds(call);
      auto const end =
          c + 1 < plan_.calls.size() ? plan_.calls[c + 1].first_gradient : plan_.gradients.size();
      while (gradients_.size() < end) step(call, plan_.gradients[gradients_.size()]);
    }
    std::vector<std::uint32_t> inputs;
    for (std::uint32_t v = 0; v < stages_.root().values(); ++v)
      if (stages_.root().kind[v] == root_kind::input) inputs.push_back(v);
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      auto& to = all_[inputs[i]];
      to.assign(stages_.shape(inputs[i]).count, 0);
      for (auto const& place : plan_.inputs[i]) add(place, inputs[i], to);
    }
    return all_;
  }

 private:
  std::vector<whole_number> seeds(backward_call const& call) {
    std::vector<whole_number> to(stages_.shape(call.stage).count);
    std::set<std::size_t> const selected(call.selected.begin(), call.selected.end());
    std::size_t number = 0, missing = 0;  // of the output; of its places
    for (auto const& place : call.outputs) {
      if (missing == 0 && number++ < call.width) missing = 1;
      missing += place.elements;
      --missing;
      if (selected.contains(number - 1)) add(place, call.stage, to);
      if (!selected.contains(number - 1)) CHECK(place.gradient == no);
    }
    CHECK(number == call.width);
    return to;
  }

  void add(gradient_place const& place, std::uint32_t base, std::vector<whole_number>& to) {
    if (place.value == no) return;
    CHECK(stages_.base(place.value) == base);
    auto const& shape = stages_.shape(place.value);
    if (place.gradient == no && place.elements == 0 && stages_.root().kind[base] == root_kind::stage) {
      CHECK_MESSAGE(&shape == &stages_.shape(loss_), "only the loss has a null gradient that is selected");
      to[shape.first] += 1;
    }
    if (place.gradient == no || !gradients_[place.gradient]) return;
    for (std::size_t i = 0; i < shape.count; ++i) to[shape.first + i] += (*gradients_[place.gradient])[i];
  }

  void step(backward_call const& call, gradient_step const& g) {
    std::optional<std::vector<whole_number>> made(std::in_place, stages_.shape(g.value).count, 0);
    auto const reads = stages_.root().reads[call.stage];
    for (std::size_t i = 0; i < made->size(); ++i) {
      if (g.is_sum()) {
        for (auto const part : {g.old, g.added})
          if (gradients_[part]) (*made)[i] += (*gradients_[part])[i];
      } else {
        for (std::size_t k = 0; k < reads.size(); ++k)
          if (reads[k] == g.value) (*made)[i] += linear_stages::part(call.stage, all_.at(call.stage), k, i);
      }
    }
    if (gradients_.size() == dropped_) made.reset();
    gradients_.push_back(std::move(made));
  }

  linear_stages const& stages_;
  std::uint32_t loss_;
  backward_plan const& plan_;
  std::uint32_t dropped_;
  all_gradients all_;
  std::vector<std::optional<std::vector<whole_number>>> gradients_;
};

/// x → s0; s0[0][1] and s0[0][1] again → s1; s0 whole and the first → s2; s1, s2 → s3.
stage_root nested_root() {
  stage_root r;
  r.add(root_kind::input);            // 0
  r.add(root_kind::stage, {0});       // 1 s0
  r.add(root_kind::element, {1}, 0);  // 2
  r.add(root_kind::element, {2}, 1);  // 3
  r.add(root_kind::element, {1}, 0);  // 4
  r.add(root_kind::element, {4}, 1);  // 5: the same as 3
  r.add(root_kind::stage, {3, 5});    // 6 s1
  r.add(root_kind::stage, {1, 3});    // 7 s2
  r.add(root_kind::stage, {6, 7});    // 8 s3
  return r;
}

TEST_CASE("make_backward_plan: the plan computes the gradients of reverse mode on random roots") {
  testing::rng random(5);
  std::size_t sums = 0, nested = 0, whole_too = 0;
  for (int i = 0; i < 500; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(12));
    linear_stages const stages(root);
    auto const plan = make_backward_plan(root, loss, {.inputs = input_gradients::returned});
    for (auto const& g : plan.gradients) sums += g.is_sum();
    for (auto const& c : plan.calls)
      for (auto const& place : c.outputs) {
        nested += place.elements > 0;
        whole_too += place.value != no && !stages.shape(place.value).elements.empty() && place.gradient != no;
      }
    auto got = plan_runner(stages, loss, plan).run();
    auto const whole = stages.whole_gradients(loss);
    for (auto const& [v, numbers] : whole) {
      bool const any = numbers != std::vector<whole_number>(numbers.size(), 0);
      bool const planned = got.contains(v);
      CHECK_MESSAGE((planned || !any), "no backward pass of value " << v);
      if (planned) CHECK(got[v] == numbers);
    }
  }
  CHECK(sums > 100);
  CHECK(nested > 50);
  CHECK(whole_too > 50);
}

TEST_CASE("make_backward_plan: every gradient of the plan affects the result") {
  testing::rng random(6);
  std::size_t dropped = 0;
  for (int i = 0; i < 200; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(10));
    linear_stages const stages(root);
    auto const plan = make_backward_plan(root, loss, {.inputs = input_gradients::returned});
    auto const right = plan_runner(stages, loss, plan).run();
    for (std::uint32_t g = 0; g < plan.gradients.size(); ++g, ++dropped)
      CHECK_MESSAGE(plan_runner(stages, loss, plan, g).run() != right, "gradient " << g << " is for nothing");
  }
  CHECK(dropped > 500);
}

TEST_CASE("make_backward_plan: identifies gradients by the path of an element in the stage output") {
  auto const plan = make_backward_plan(nested_root(), 8);
  REQUIRE(plan.calls.size() == 4);
  CHECK(plan.calls[0] == backward_call{8, 1, {{8, no, 0}}, {0}, {6, 7}, 0});
  CHECK(plan.calls[1].inputs == std::vector<std::uint32_t>{1, 3});
  CHECK(plan.calls[2].inputs == std::vector<std::uint32_t>{3, 5});

  // s2 has gradients of the whole (2) and of the element (3); s1 adds two (5 = 3 + 4, 7 = 5 + 6).
  CHECK(plan.gradients[5] == gradient_step{3, no, no, 3, 4});
  CHECK(plan.gradients[7] == gradient_step{5, no, no, 5, 6});
  std::vector<gradient_place> const outputs{{no, no, 2}, {}, {3, 7, 0}, {1, 2, 0}};
  CHECK(plan.calls[3] == backward_call{1, 2, outputs, {0, 1}, {0}, 8});
  CHECK(plan.inputs.empty());
}

TEST_CASE("make_backward_plan: lists an element that no gradient reaches, but does not select it") {
  stage_root r;
  r.add(root_kind::stage);
  r.add(root_kind::element, {0}, 2);
  r.add(root_kind::element, {0}, 0);
  r.add(root_kind::stage, {1});
  auto const plan = make_backward_plan(r, 3);
  CHECK(plan.calls.back() == backward_call{0, 3, {{2, no, 0}, {}, {1, 0, 0}}, {2}, {}, 1});
}

TEST_CASE("make_backward_plan: a loss that the caller passes has no backward pass") {
  stage_root r;
  r.add(root_kind::input);
  r.add(root_kind::stage, {0});
  CHECK(make_backward_plan(r, 0) == backward_plan{});
}

TEST_CASE("make_backward_plan: sums gradients of inputs only if the options ask for them") {
  stage_root r;
  r.add(root_kind::input);
  r.add(root_kind::input);
  r.add(root_kind::stage, {0});
  r.add(root_kind::stage, {2, 0});
  CHECK(make_backward_plan(r, 3).gradients.size() == 3);
  auto const plan = make_backward_plan(r, 3, {.inputs = input_gradients::returned});
  CHECK(plan.gradients.back() == gradient_step{0, no, no, 1, 2});
  CHECK(plan.inputs == std::vector<gradient_tree>{{{0, 3, 0}}, {{}}});
}

TEST_CASE("make_backward_plan: rejects an invalid root or loss and reports the value") {
  using enum root_fault::kind;
  auto const fault = [](stage_root const& r, std::uint32_t loss) {
    auto const f = find_backward_fault(r, loss);
    if (f)
      CHECK_THROWS_AS(make_backward_plan(r, loss), backward_error);
    else
      CHECK_NOTHROW(make_backward_plan(r, loss));
    return f;
  };
  stage_root r;
  r.add(root_kind::input);
  r.add(root_kind::stage, {0});
  r.add(root_kind::element, {1}, 0);
  CHECK(fault(r, 2) == std::nullopt);
  CHECK(fault(r, 3) == root_fault{unknown_loss, 3});
  CHECK(fault(r, 1) == root_fault{loss_is_tuple, 1, 2});
  r.add(root_kind::element, {1}, 0);
  r.add(root_kind::element, {3}, 0);
  CHECK(fault(r, 2) == root_fault{loss_is_tuple, 2, 4});  // 2 and 3 are one value
  CHECK(fault(r, 4) == std::nullopt);

  auto wide = r;
  wide.add(root_kind::element, {1}, widest_tuple);
  CHECK(fault(wide, 4) == root_fault{wide_element, 5, widest_tuple});
  auto of_two = r;
  of_two.add(root_kind::element, {1, 1}, 0);
  CHECK(fault(of_two, 4) == root_fault{malformed_element, 5});
  auto early = r;
  early.add(root_kind::stage, {5});
  CHECK(fault(early, 4) == root_fault{unordered, 5, 5});
}

TEST_CASE("make_backward_plan: handles 100,000 stages and elements nested as deep on a small stack") {
  testing::on_small_stack([] {
    stage_root chain, nest;
    chain.add(root_kind::input);
    for (std::uint32_t s = 0; s < 100'000; ++s) chain.add(root_kind::stage, {s, s});
    auto const plan = make_backward_plan(chain, 100'000);
    CHECK(plan.calls.size() == 100'000);
    CHECK(plan.gradients.size() == 100'000);

    nest.add(root_kind::input);
    nest.add(root_kind::stage, {0});
    for (std::uint32_t e = 1; e < 100'000; ++e) nest.add(root_kind::element, {e}, 0);
    nest.add(root_kind::stage, {100'000});
    auto const deep = make_backward_plan(nest, 100'001);
    CHECK(deep.calls.back().outputs.size() == 99'999);
  });
}

}  // namespace
