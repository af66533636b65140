// SPDX-License-Identifier: MIT
#include "cleave/run/executor/detail/stage_caller.hpp"

#include <doctest/doctest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "cleave/run/host/host_device.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using stream = host_device::stream;
using values = std::span<tensor_view const>;

/// Notes each call and its numbers of views.
struct heard_stages {
  std::vector<std::string> heard{};

  void note(char const* what, stage_pass const& p, std::size_t in = 0, std::size_t out = 0) {
    heard.push_back(std::string(what) + " " + std::to_string(index(p.stage)) + "." +
                    std::to_string(index(p.microbatch)) + " " + std::to_string(in) + " " +
                    std::to_string(out));
  }
  void forward(stream&, stage_pass const& p, values in, std::span<tensor_view> out) {
    note("F", p, in.size(), out.size());
    out[0].shape = {7};
  }
  void backward(stream&, stage_pass const& p, values gradients, values in) {
    note("B", p, gradients.size(), in.size());
  }
  void backward_input(stream&, stage_pass const& p, values gradients, values in) {
    note("I", p, gradients.size(), in.size());
  }
  void backward_weight(stream&, stage_pass const& p) { note("W", p); }
  void unshard(stream&, stage_id s) { note("unshard", {s, {}}); }
  void reshard(stream&, stage_id s) { note("reshard", {s, {}}); }
  void offload(stream&, stage_pass const& p) { note("offload", p); }
  void reload(stream&, stage_pass const& p) { note("reload", p); }
  void recompute(stream&, stage_pass const& p, values in) { note("recompute", p, in.size()); }
};

struct plain_stages {
  int passes = 0;
  void forward(stream&, stage_pass const&, values, std::span<tensor_view>) { ++passes; }
};

template <class S>
void call(S& stages, call_kind kind, action_kind of) {
  stream s;
  std::array<tensor_view, 2> in{};
  std::array<tensor_view, 3> out{};
  stage_pass const pass{.stage = stage_id{1}, .microbatch = microbatch_id{3}};
  rank_call const what{.kind = kind, .of = {of, 0, pass.stage, pass.microbatch}};
  call_stage<host_device>(stages, s, what, pass, in, out);
  if (kind == call_kind::forward && out[0].shape.axes > 0) CHECK(out[0].shape == tensor_shape{7});
}

}  // namespace

TEST_CASE("call_stage: calls the matching member once, with the views of its pass") {
  using enum call_kind;
  heard_stages stages;
  call(stages, forward, action_kind::forward);
  call(stages, backward, action_kind::backward);
  call(stages, backward_input, action_kind::input_gradient);
  call(stages, backward_weight, action_kind::weight_gradient);
  call(stages, unshard, action_kind::unshard);
  call(stages, reshard, action_kind::reshard);
  call(stages, other, action_kind::offload);
  call(stages, other, action_kind::reload);
  call(stages, other, action_kind::recompute);
  CHECK(stages.heard == std::vector<std::string>{"F 1.3 2 3", "B 1.3 2 3", "I 1.3 2 3", "W 1.3 0 0",
                                                 "unshard 1.0 0 0", "reshard 1.0 0 0", "offload 1.3 0 0",
                                                 "reload 1.3 0 0", "recompute 1.3 2 0"});
}

TEST_CASE("call_stage: stages need no member that is never called") {
  plain_stages stages;
  call(stages, call_kind::forward, action_kind::forward);
  CHECK(stages.passes == 1);
}
