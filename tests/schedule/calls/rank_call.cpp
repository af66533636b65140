// SPDX-License-Identifier: MIT
#include "cleave/schedule/calls/rank_calls.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

action about(action_kind kind, std::uint32_t stage, std::uint32_t peer = 0) {
  return {kind, 0, stage_id{stage}, microbatch_id{3}, stage_id{peer}};
}

std::string text(rank_call const& call) { return call_text(call); }

}  // namespace

TEST_CASE("call_text: marks backward passes that start from the loss and those that are the last") {
  auto const of = about(action_kind::backward, 1);
  CHECK(text({.kind = call_kind::forward, .of = of}) == "forward 1 3");
  CHECK(text({.kind = call_kind::backward, .of = of}) == "backward 1 3");
  CHECK(text({.kind = call_kind::backward, .from_loss = true, .last = true, .of = of}) ==
        "backward 1 3 loss last");
  CHECK(text({.kind = call_kind::backward_input, .from_loss = true, .of = of}) == "backward_input 1 3 loss");
  CHECK(text({.kind = call_kind::backward_weight, .last = true, .of = of}) == "backward_weight 1 3 last");
  CHECK(text({.kind = call_kind::loss, .of = of}) == "loss 1.3");
  CHECK(text({.kind = call_kind::release, .of = of}) == "release 1 3");
}

TEST_CASE("call_kind: is_pass holds for forward and backward calls, is_wait for waits") {
  using enum call_kind;
  for (std::size_t n = 0; n < call_names.size(); ++n) {
    auto const k = static_cast<call_kind>(n);
    CHECK(is_pass(k) == (k == forward || name_of(k).starts_with("backward")));
    CHECK(is_wait(k) == (name_of(k).starts_with("wait ") || k == wait_reduce));
  }
}

TEST_CASE("call_text: messages and local transfers name the sending and the receiving stage") {
  auto const sent = about(action_kind::send_activation, 1, 2);
  auto const received = about(action_kind::receive_gradient, 1, 2);
  CHECK(text({.kind = call_kind::send, .of = sent}) == "send F3 stage 1->2");
  CHECK(text({.kind = call_kind::wait_send, .of = sent}) == "wait send F3 stage 1->2");
  CHECK(text({.kind = call_kind::receive, .of = received}) == "recv B3 stage 1<-2");
  CHECK(text({.kind = call_kind::wait_receive, .of = received}) == "wait recv B3 stage 1<-2");
  CHECK(text({.kind = call_kind::local_transfer, .of = sent}) == "local F3 1=>2");
  CHECK(text({.kind = call_kind::local_transfer, .of = about(action_kind::send_gradient, 2, 1)}) ==
        "local B3 2=>1");
}

TEST_CASE("call_text: calls about a whole stage name it, and completed reductions name the divisor") {
  auto const of = about(action_kind::reduce_gradient, 4);
  CHECK(text({.kind = call_kind::unshard, .of = of}) == "unshard 4");
  CHECK(text({.kind = call_kind::wait_unshard, .of = of}) == "wait unshard 4");
  CHECK(text({.kind = call_kind::reshard, .of = of}) == "reshard 4");
  CHECK(text({.kind = call_kind::reduce, .of = of, .divisor = 8}) == "reduce_grad 4 /8");
  CHECK(text({.kind = call_kind::start_reduce, .of = of}) == "start_reduce 4");
  CHECK(text({.kind = call_kind::wait_reduce, .of = of}) == "wait_reduce 4 /1");
  CHECK(text({.kind = call_kind::other, .of = about(action_kind::reload, 4, 0xffffffff)}) == "4RELOAD3");
}

TEST_CASE("call_lines: parts stand in the line of the call that holds them") {
  std::vector<rank_call> const calls{
      {.kind = call_kind::exchange, .parts = 2},
      {.kind = call_kind::send, .of = about(action_kind::send_activation, 0, 1)},
      {.kind = call_kind::receive, .of = about(action_kind::receive_gradient, 0, 1)},
      {.kind = call_kind::custom, .parts = 2, .of = {.kind = action_kind::overlap, .parts = 2}},
      {.kind = call_kind::part, .of = about(action_kind::forward, 0, 0xffffffff)},
      {.kind = call_kind::part, .of = about(action_kind::backward, 1, 0xffffffff)},
      {.kind = call_kind::custom, .of = about(action_kind::forward, 2, 0xffffffff)}};
  CHECK(call_lines(calls) == std::vector<std::string>{"batch[send F3 stage 0->1; recv B3 stage 0<-1]",
                                                      "custom (0F3;1B3)OVERLAP_F_B", "custom 2F3"});
  CHECK(call_lines({}).empty());
}
