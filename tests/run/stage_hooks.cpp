// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_step.hpp"

/// Hooks of the whole model at its first and last stage (`before_forward`, `after_forward`,
/// `after_backward`).
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using stream = host_device::stream;

/// Notes passes and hooks as text: `0F1`, `before 0F1`, `after 0B1`.
struct hooked : linear_engine {
  using linear_engine::linear_engine;

  std::vector<std::string> calls{};
  std::string throws = "nothing";

  void before_forward(stream&, stage_pass const& p) { note("before ", 'F', p); }
  void after_forward(stream&, stage_pass const& p) { note("after ", 'F', p); }
  void after_backward(stream&, stage_pass const& p) { note("after ", 'B', p); }
  void forward(stream& s, stage_pass const& p, std::span<tensor_view const> in, std::span<tensor_view> out) {
    note("", 'F', p);
    linear_engine::forward(s, p, in, out);
  }
  void backward(stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    note("", 'B', p);
    linear_engine::backward(s, p, gradients, in);
  }
  void backward_input(stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    note("", 'I', p);
    linear_engine::backward_input(s, p, gradients, in);
  }
  void backward_weight(stream& s, stage_pass const& p) {
    note("", 'W', p);
    linear_engine::backward_weight(s, p);
  }
  void recompute(stream& s, stage_pass const& p, std::span<tensor_view const> in) {
    note("", 'R', p);
    linear_engine::recompute(s, p, in);
  }

 private:
  void note(std::string what, char pass, stage_pass const& p) {
    what += std::to_string(index(p.stage)) + pass + std::to_string(index(p.microbatch));
    if (what == throws) throw std::out_of_range("no such row");
    calls.push_back(std::move(what));
  }
};

/// Has one of the hooks only.
struct hooked_at_end : linear_engine {
  using linear_engine::linear_engine;
  std::size_t ends = 0;
  void after_forward(stream&, stage_pass const&) { ++ends; }
};
static_assert(hooked_after_forward<hooked_at_end, host_device>);
static_assert(!hooked_before_forward<hooked_at_end, host_device>);

/// Runs listed actions and pairs by itself.
struct hooked_custom : hooked {
  using hooked::hooked;
  void custom(stream& s, action const&, std::span<custom_part const> parts) {
    for (auto const& p : parts) run(s, p);
  }
  void overlapped(stream& s, custom_part const& f, custom_part const& b) { run(s, b), run(s, f); }

 private:
  void run(stream& s, custom_part const& p) {
    if (p.what.kind == action_kind::forward) return forward(s, p.pass, p.in, p.out);
    if (p.what.kind == action_kind::backward) return backward(s, p.pass, p.in, p.out);
    backward_weight(s, p.pass);
  }
};

/// Returns how many noted texts begin with `begin`, on all ranks.
template <class S>
std::ptrdiff_t count_of(made_by_step<S> const& made, std::string const& begin) {
  std::ptrdiff_t all = 0;
  for (auto const& stages : made.stages)
    all += std::ranges::count_if(stages.calls, [&](auto const& c) { return c.starts_with(begin); });
  return all;
}

}  // namespace

TEST_CASE("hooks: run before and after the passes of the first and the last stage, in order") {
  auto const order = gpipe(2, 2);
  auto const made = run_linear_step<hooked>(order, dataflow_of_chain(order));
  CHECK(made.stages[0].calls == std::vector<std::string>{"before 0F0", "0F0", "before 0F1", "0F1", "0B0",
                                                         "after 0B0", "0B1", "after 0B1"});
  CHECK(made.stages[1].calls ==
        std::vector<std::string>{"1F0", "after 1F0", "1F1", "after 1F1", "1B0", "1B1"});
  CHECK(made.numbers == run_linear_step<linear_engine>(order, dataflow_of_chain(order)).numbers);
}

TEST_CASE("hooks: later stages that read the caller's inputs too run none") {
  auto const order = gpipe(3, 1);
  auto const made = run_linear_step<hooked>(order, with_skips(3));
  CHECK(made.stages[0].calls == std::vector<std::string>{"before 0F0", "0F0", "0B0", "after 0B0"});
  CHECK(made.stages[1].calls == std::vector<std::string>{"1F0", "1B0"});
  CHECK(made.stages[2].calls == std::vector<std::string>{"2F0", "after 2F0", "2B0"});
}

TEST_CASE("hooks: after_backward follows the second half of a split pass; recomputations run no hook") {
  using enum action_kind;
  auto const pass = [](action_kind k) { return action{k, 0, stage_id{0}, microbatch_id{0}, no_stage}; };
  schedule const order{
      loop_placement(1),
      1,
      {{pass(action_kind::forward), pass(recompute), pass(input_gradient), pass(weight_gradient)}}};
  auto const made = run_linear_step<hooked>(order, dataflow_of_chain(order));
  CHECK(made.stages[0].calls ==
        std::vector<std::string>{"before 0F0", "0F0", "after 0F0", "0R0", "0I0", "0W0", "after 0B0"});
}

TEST_CASE("hooks: each schedule runs each hook once for each microbatch of each chain") {
  for (auto const family : {schedule_family::one_f_one_b, schedule_family::interleaved_1f1b,
                            schedule_family::zbv, schedule_family::dual_pipe_v}) {
    CAPTURE(name_of(family));
    auto const order = make_schedule(family, {2, family == schedule_family::one_f_one_b ? 1u : 2u, 6});
    auto const t = dataflow_of_chain(order);
    auto const last = std::to_string(t.stages - 1);
    auto const made = run_linear_step<hooked>(order, t);
    CHECK(count_of(made, "before 0F") == 6);
    CHECK(count_of(made, "after " + last + "F") == 6);
    CHECK(count_of(made, "after 0B") == 6);
    CHECK(count_of(made, "before") + count_of(made, "after") == 18);
  }
  auto const both = dual_pipe(2, 8);
  auto const made = run_linear_step<hooked>(both, dataflow_of_chain(both));
  for (auto const* const what : {"before 0F", "before 2F", "after 1F", "after 3F", "after 0B", "after 2B"})
    CHECK(count_of(made, what) == 4);
  CHECK(count_of(made, "before") + count_of(made, "after") == 24);
}

TEST_CASE("hooks: also run around passes that stages carry out by custom() or overlapped()") {
  auto const order = dual_pipe_v(2, 6);
  auto const t = dataflow_of_chain(order);
  using enum action_kind;
  for (std::vector<action_kind> const& custom :
       {std::vector<action_kind>{}, {overlap}, {action_kind::forward, backward, weight_gradient}}) {
    auto const made = run_linear_step<hooked_custom>(order, t, custom);
    CHECK(count_of(made, "before 0F") == 6);
    CHECK(count_of(made, "after 3F") == 6);
    CHECK(count_of(made, "after 0B") == 6);
    for (auto const& stages : made.stages)
      for (auto i = stages.calls.begin(); i != stages.calls.end(); ++i) {
        auto const is = [](std::string text) { return [text](std::string const& c) { return c == text; }; };
        if (i->starts_with("before ")) CHECK(std::any_of(i, stages.calls.end(), is(i->substr(7))));
        if (i->starts_with("after 3F")) CHECK(std::any_of(stages.calls.begin(), i, is(i->substr(6))));
      }
  }
}

TEST_CASE("hooks: each is optional") {
  auto const order = gpipe(2, 3);
  auto const made = run_linear_step<hooked_at_end>(order, dataflow_of_chain(order));
  CHECK(made.stages[0].ends == 0);
  CHECK(made.stages[1].ends == 3);
}

TEST_CASE("hooks: an exception is reported with the hook, the stage and the microbatch") {
  auto const order = gpipe(2, 2);
  auto const failing = [&](std::string const& at) {
    run_linear_step<hooked>(order, dataflow_of_chain(order), {}, [&](rank_id, hooked& s) { s.throws = at; });
  };
  CHECK_THROWS_WITH_AS(failing("before 0F1"), "rank 0, before_forward, stage 0, microbatch 1: no such row",
                       stage_error);
  CHECK_THROWS_WITH_AS(failing("after 1F0"), "rank 1, after_forward, stage 1, microbatch 0: no such row",
                       stage_error);
  CHECK_THROWS_WITH_AS(failing("after 0B0"), "rank 0, after_backward, stage 0, microbatch 0: no such row",
                       stage_error);
  CHECK_THROWS_WITH_AS(failing("0F0"), "rank 0, forward, stage 0, microbatch 0: no such row", stage_error);
}
