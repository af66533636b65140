// SPDX-License-Identifier: MIT
#include "cleave/run/executor/detail/stage_caller.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/host/host_device.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using values = std::span<tensor_view const>;

/// A device that notes the stage and microbatch announced to its streams.
struct told_device : host_memory {
  struct stream {
    std::vector<stage_call> told{};
    void about(stage_call c) { told.push_back(c); }
  };
  using event = host_event;
  stream make_stream(int) { return {}; }
  event make_event() { return {}; }
  void record(event& e, stream&) { e.pass(); }
  void wait(stream&, event const&) {}
  bool query(event const&) const { return true; }
  std::chrono::nanoseconds elapsed(event const&, event const&) const { return {}; }
  void copy(stream&, void* to, void const* from, std::size_t bytes) { copy_bytes(to, from, bytes); }
  void accumulate(stream&, sums const& list, accumulate_options const& o) { run_sums(list, o); }
};
static_assert(device<told_device>);

struct heard_call {
  char const* what;
  stage_pass pass;
  void const* in;
  std::size_t out;
};

struct heard_stages {
  std::vector<heard_call> heard{};
  std::optional<failure> fails{};
  std::int64_t rows = 4;

  void forward(auto&, stage_pass const& p, values in, std::span<tensor_view> out) {
    heard.push_back({"F", p, in[0].data, out.size()});
    out[0].shape = {rows};
    if (fails) throw run_error(*fails);
  }
  void backward(auto&, stage_pass const& p, values gradients, values in) {
    heard.push_back({"B", p, gradients[0].data, in.size()});
    throw std::out_of_range("no such row");
  }
  void recompute(auto&, stage_pass const& p, values in) { heard.push_back({"again", p, in[0].data, 0}); }
  void unshard(auto&, stage_id s) { heard.push_back({"unshard", {s, {}}, nullptr, 0}); }
  void reshard(auto&, stage_id) {}
};

/// UNSHARD, a forward pass, RECOMPUTE and the backward pass of microbatch 1 of stage 2; the result may have
/// any number of rows up to four.
rank_program small_program() {
  rank_program p;
  p.microbatches = 2;
  p.arena_bytes = 256;
  p.layouts.edges = {{.type = element_type::f64, .shape = {4}},
                     {.type = element_type::f64, .shape = {4}, .extents = shape_kind::dynamic}};
  p.passes.resize(3);
  p.passes[0].in = {{{place_kind::arena, 0}, 0, {}}};
  p.passes[0].out = {{{place_kind::arena, 64}, 1, {}}};
  p.passes[0].saved_at = 128;
  p.passes[0].saved_bytes = 24;
  p.passes[2].in = {{{place_kind::arena, 192}, 0, {}}};
  p.passes[2].out = {{{}, 0, {}}};
  auto const add = [&](call_kind kind, action_kind of, std::uint32_t pass) {
    rank_instruction i;
    i.call = {.kind = kind, .last = true, .of = {of, 0, stage_id{2}, microbatch_id{1}}};
    i.pass = pass;
    p.instructions.push_back(i);
  };
  add(call_kind::unshard, action_kind::unshard, rank_instruction::none);
  add(call_kind::forward, action_kind::forward, 0);
  add(call_kind::other, action_kind::recompute, 1);
  add(call_kind::backward, action_kind::backward, 2);
  return p;
}

struct small_rank {
  rank_program p = small_program();
  packed_program packed = p;
  told_device d;
  pass_memory<told_device> memory{d, packed};
  heard_stages stages;
  stage_caller<told_device, heard_stages> calls{stages, packed, memory, rank_id{7}};
  told_device::stream s;

  void call(std::size_t i) { calls.call(p.instructions[i], s); }
};

constexpr stage_call here{stage_id{2}, microbatch_id{1}};

}  // namespace

TEST_CASE("stage_caller: stages get their pass's views, and a recomputation gets those of the forward pass") {
  small_rank x;
  std::array const weights{0.25, 4.0};
  x.calls.begin_step({{}, 0, weights});
  for (std::size_t i = 0; i < 3; ++i) x.call(i);
  CHECK_THROWS_AS(x.call(3), run_error);
  auto const& heard = x.stages.heard;
  REQUIRE(heard.size() == 4);
  CHECK(heard[0].what == std::string("unshard"));
  CHECK(heard[1].what == std::string("F"));
  CHECK(heard[1].in == x.memory.in(0)[0].data);
  CHECK(heard[1].out == 1);
  CHECK(heard[2].what == std::string("again"));
  CHECK(heard[2].in == heard[1].in);
  CHECK(heard[3].what == std::string("B"));
  CHECK(heard[3].in == x.memory.in(2)[0].data);
  CHECK(heard[3].in != heard[1].in);
  for (auto const& h : heard) CHECK(h.pass.stage == here.stage);
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(heard[i].pass.microbatch == here.microbatch);
    CHECK(heard[i].pass.weight == 4);
    CHECK(heard[i].pass.trains);
    CHECK(heard[i].pass.last);
    CHECK(heard[i].pass.saved.bytes() == (i == 1 ? 24 : 0));
  }
}

TEST_CASE("stage_caller: the last pass of a stage, and no other, reports gradients with its stage") {
  small_rank x;
  std::vector<std::pair<stage_id, std::uint32_t>> reported;
  auto const take = [](void* to, stage_id s, std::uint32_t n) {
    static_cast<decltype(reported)*>(to)->emplace_back(s, n);
  };
  x.calls.begin_step({}, {take, &reported});
  x.call(1);
  REQUIRE(x.stages.heard.size() == 1);
  CHECK(x.stages.heard[0].pass.ready);
  x.stages.heard[0].pass.ready(3);
  CHECK(reported == std::vector{std::pair(here.stage, std::uint32_t{3})});

  x.p.instructions[1].call.last = false;
  x.call(1);
  CHECK_FALSE(x.stages.heard[1].pass.ready);
  x.stages.heard[1].pass.ready(3);  // does nothing
  x.p.instructions[1].call.last = true;
  x.calls.begin_step({});
  x.call(1);
  CHECK_FALSE(x.stages.heard[2].pass.ready);
  CHECK(reported.size() == 1);
}

TEST_CASE("stage_caller: tells the stream its stage and microbatch before any work") {
  small_rank x;
  for (std::size_t i = 0; i < 3; ++i) x.call(i);
  CHECK(x.s.told == std::vector<stage_call>(3, here));
  CHECK_THROWS_AS(x.call(3), run_error);
  CHECK(x.s.told.size() == 4);
}

TEST_CASE("stage_caller: an exception or an oversized result is a failure of the stage") {
  small_rank x;
  auto const failure_in = [&](std::size_t i) {
    try {
      x.call(i);
    } catch (run_error const& e) {
      return e.info;
    }
    return failure{};
  };
  auto const thrown = failure_in(3);
  CHECK(thrown.code == failure_code::stage);
  CHECK(thrown.at == here);
  CHECK(thrown.cause);
  CHECK(thrown.reporter == rank_id{7});
  CHECK(thrown.culprit == rank_id{7});
  CHECK(describe(thrown) == "rank 7, backward, stage 2, microbatch 1: no such row");
  x.stages.rows = 5;
  CHECK(
      describe(failure_in(1)) ==
      "rank 7, forward, stage 2, microbatch 1: result #0 has more elements, or another number of axes, than "
      "edge #1 has room for");
}

TEST_CASE("stage_caller: does not blame the stage for a failure of the run") {
  small_rank x;
  x.stages.fails = failure{.code = failure_code::peer_lost, .detail = "rank 3"};
  try {
    x.call(1);
    FAIL("it throws");
  } catch (run_error const& e) {
    CHECK(e.info.code == failure_code::peer_lost);
    CHECK(e.info.reporter == no_rank);
    CHECK_FALSE(e.info.at);
  }
}
