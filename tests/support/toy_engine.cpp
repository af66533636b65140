// SPDX-License-Identifier: MIT
#include "support/toy_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/model/dataflow_layouts.hpp"
#include "support/random_toy_model.hpp"
#include "support/rng.hpp"
#include "support/toy_batches.hpp"
#include "support/toy_staged.hpp"
#include "support/toy_turns.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using engine = toy_engine<host_device>;
static_assert(split_backward_stage<engine, host_device>);
static_assert(parameter_stage<engine>);
static_assert(recomputed_stage<engine, host_device>);
static_assert(offloaded_stage<engine, host_device>);

/// Writes programs node by node.
struct program {
  module_graph g = {};
  state_values state = {};

  module_argument add(node_kind kind, std::string const& target, std::vector<module_argument> args,
                      std::string const& dtype = "f64") {
    module_node n;
    n.kind = kind;
    n.name = target + "_" + std::to_string(g.list().size());
    n.target = target;
    n.args = std::move(args);
    n.metadata = {{"dtype", {dtype}}};
    return node_argument(g.add(std::move(n)));
  }
  module_argument call(std::string const& target, std::vector<module_argument> args) {
    return add(node_kind::call_function, target, std::move(args));
  }
  void cut() { call("pipe_split", {}); }
  module_argument parameter(std::string const& path, tensor value) {
    if (!g.find_attribute(path)) g.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
    state.try_emplace(path, std::move(value));
    return add(node_kind::get_attr, path, {});
  }
};

/// Returns a program with token ids that two stages read, a list sent between stages, and a result besides
/// the loss.
program nested_program() {
  program p;
  tensor const table{{3, 2}, {0.5, -1, 2, 0.25, -0.75, 1.5}};
  auto const ids = p.add(node_kind::placeholder, "ids", {}, "i64");
  auto const target = p.add(node_kind::placeholder, "target", {});
  auto const e = p.call("embedding", {ids, p.parameter("table", table)});
  module_argument both{container{container::kind::list, 2}};
  both.push_back(e.front());
  both.push_back(p.parameter("bias", {{2}, {0.5, -0.5}}).front());
  auto const list = p.call("broadcast_tensors", {both});
  p.cut();
  auto const sum = p.call(
      "add", {p.call("getitem", {list, {std::int64_t{0}}}), p.call("getitem", {list, {std::int64_t{1}}})});
  auto const h = p.call("linear", {sum, p.parameter("w", {{2, 2}, {1, -2, 0.5, 1}})});
  p.cut();
  auto const d = p.call("mul", {h, p.call("embedding", {ids, p.parameter("table", table)})});
  auto const loss = p.call("mse_loss", {d, target, {std::int64_t{2}}});
  p.add(node_kind::output, "output",
        {tuple_argument({std::get<node_ref>(d.front()).node, std::get<node_ref>(loss.front()).node})});
  return p;
}

/// The results of the whole program on a batch, and the gradients of its last result, the loss.
struct whole_run {
  tape_values results;
  parameter_gradients gradients;
};

whole_run run_whole(module_graph const& g, state_values const& state, tape_values batch) {
  tape t;
  toy_autograd run(t, state);
  auto const given = evaluate(g, std::move(batch), run);
  auto const results = tensors_in({given});
  t.backward({{results.back().node.value(), {{}, {1}}}});
  return {results, run.gradients()};
}

parameter_gradients sum_of_stages(engine const& e, stage_wiring const& wiring) {
  std::map<std::string, parameter_gradients> all;
  for (std::uint32_t i = 0; i < wiring.edges.stages; ++i)
    all[std::to_string(i)] = e.gradients_by_holder(stage_id{i}, wiring.parameters[i]);
  return sum_of_copies(all);
}

/// Returns a schedule without passes whose stages are all on one rank.
schedule on_one_rank(stage_wiring const& wiring, std::uint32_t microbatches) {
  return {{1, std::vector<rank_id>(wiring.edges.stages), {}}, microbatches, {{}}};
}

/// Returns the largest error of a step in stages.
double step_difference(program const& p, module_pipe const& pipe, std::vector<tensor> const& batch,
                       std::int64_t microbatches, turn_form form) {
  auto const batches = divided(batch, microbatches);
  auto const& parts = batches.values;
  auto const whole_engine = toy_engine_of(pipe, p.state, batches);
  auto const& wiring = whole_engine.wiring();
  REQUIRE_FALSE(
      find_edge_layout_fault(wiring.edges, wiring.layouts, static_cast<std::uint32_t>(parts.size())));
  REQUIRE_FALSE(find_dataflow_fault(wiring.edges));
  host_ranks ranks(1);
  host_device device(ranks, rank_id{0});
  auto e = make_toy_stages<host_device>(
      whole_engine, on_one_rank(wiring, static_cast<std::uint32_t>(parts.size())), rank_id{0});
  std::vector<double> const weights(parts.size(), 1);
  tape_values all;
  for (auto const& t : batch) all.push_back(constant_of(t));
  auto const whole = run_whole(p.g, p.state, all);
  double off = 0;
  for (int step = 0; step < 2; ++step) {
    e.clear_gradients();
    auto const made = step_in_turn(e, device, wiring, pipe.plan.plan.order, parts, weights, form);
    double loss = 0;
    for (auto const& results : made) loss += results.at(*wiring.loss).data.at(0);
    off = std::max(off, std::abs(loss - whole.results.back().get().data[0]));
    off = std::max(off, largest_difference(whole.gradients, sum_of_stages(e, wiring)));
  }
  CHECK(e.open_passes() == 0);
  return off;
}

constexpr turn_form all_forms[] = {turn_form::whole, turn_form::halves, turn_form::recomputed,
                                   turn_form::offloaded};

}  // namespace

TEST_CASE(
    "toy_engine: stages give the gradients of the whole in whole, split, recomputed, offloaded passes") {
  rng random(5);
  for (int i = 0; i < 40; ++i) {
    program p;
    p.g = random_model(random, 2 + random.below(6), p.state);
    auto const batch = random_batch(random, 5).get();
    for (auto const shared : {shared_state::replicate, shared_state::transmit}) {
      auto const pipe = make_module_pipe(p.g, {.state = {.shared = shared}});
      for (auto const form : all_forms) {
        CAPTURE(i);
        CHECK(step_difference(p, pipe, {batch}, 3, form) < 1e-9);
      }
    }
  }
}

TEST_CASE("toy_engine: sends lists tensor by tensor, and integer ids without gradients") {
  auto const p = nested_program();
  auto const pipe = make_module_pipe(p.g);
  std::vector<tensor> const batch{{{5}, {0, 1, 2, 1, 0}}, {{5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}};
  for (auto const form : all_forms) CHECK(step_difference(p, pipe, batch, 2, form) < 1e-9);

  auto const two = toy_engine_of(pipe, p.state, divided(batch, 2));
  auto const& wiring = two.wiring();
  REQUIRE(wiring.edges.stages == 3);
  std::size_t ids = 0, lists = 0;
  for (std::size_t i = 0; i < wiring.edges.edges.size(); ++i) {
    auto const& e = wiring.edges.edges[i];
    auto const& of = wiring.layouts.edges[i];
    CHECK(of.extents == shape_kind::fixed);
    if (of.type == element_type::i64) {
      CHECK(e.from == the_caller);
      CHECK(of.gradient == gradient_use::none);
      CHECK(of.shape == cleave::tensor_shape{3});
      CHECK(of.batch_axis == 0u);
      CHECK(e.bytes == 24);
      ++ids;
    }
    if (e.from == stage_id{0}) {
      CHECK(e.to == stage_id{1});
      CHECK(e.output == e.input);
      CHECK(of.gradient == gradient_use::wanted);
      ++lists;
    }
  }
  CHECK(ids == 2);
  CHECK(lists == 2);
  CHECK(wiring.loss == 1u);
}

TEST_CASE("toy_engine: detects errors of an executor") {
  auto const p = nested_program();
  auto const pipe = make_module_pipe(p.g);
  auto const parts = divided({{{2}, {0, 1}}, {{2, 2}, {1, 2, 3, 4}}}, 1);
  auto const whole_engine = toy_engine_of(pipe, p.state, parts);
  host_ranks ranks(1);
  host_device device(ranks, rank_id{0});
  auto s = device.make_stream(0);
  auto e = make_toy_stages<host_device>(whole_engine, on_one_rank(whole_engine.wiring(), 1), rank_id{0});

  auto ids = owned({{2}, {0, 1}}, element_type::i64);
  auto first = owned({{2, 2}, {0, 0, 0, 0}}, element_type::f64), second = first;
  second.view.data = second.bytes.data();
  std::vector<tensor_view> in{ids.view}, out{first.view, second.view}, nothing(1);
  std::vector<std::byte> room(16), weight_room(16);
  stage_pass pass{.stage = stage_id{0},
                  .microbatch = microbatch_id{0},
                  .last = true,
                  .saved = {room.data(), 16, element_type::u8},
                  .saved_for_weights = {weight_room.data(), 16, element_type::u8}};

  CHECK_THROWS_WITH(e.backward(s, pass, out, nothing),
                    "stage 0, microbatch 0: nothing is kept of its forward pass");
  CHECK_THROWS_WITH(e.forward(s, pass, {}, out), "engine: stage 0 has 1 inputs, but gets 0 views of them");
  e.forget();
  e.forward(s, pass, in, out);
  CHECK(read_elements(first.view) == tensor{{2, 2}, {0.5, -1, 2, 0.25}});
  CHECK(read_elements(second.view) == tensor{{2, 2}, {0.5, -0.5, 0.5, -0.5}});
  CHECK_THROWS_WITH(e.forward(s, pass, in, out), "stage 0, microbatch 0: its forward pass runs twice");
  CHECK_THROWS_WITH(e.backward(s, pass, {}, nothing),
                    "engine: stage 0 has 2 results, but gets 0 views of them");
  CHECK_THROWS_WITH(e.backward_weight(s, pass),
                    "stage 0, microbatch 0: its weight half runs before its input half");

  room[3] ^= std::byte{1};
  CHECK_THROWS_WITH(e.backward(s, pass, out, nothing), "stage 0, microbatch 0: its stash is overwritten");
  room[3] ^= std::byte{1};
  write_elements({{2}, {0, 2}}, ids.view);
  CHECK_THROWS_WITH(e.backward_input(s, pass, out, nothing),
                    "stage 0, microbatch 0: input #0 is overwritten before its backward pass");
  write_elements({{2}, {0, 1}}, ids.view);
  e.backward_input(s, pass, out, nothing);
  weight_room[0] ^= std::byte{1};
  CHECK_THROWS_WITH(e.backward_weight(s, pass), "stage 0, microbatch 0: its stash is overwritten");
  weight_room[0] ^= std::byte{1};
  pass.last = false;
  CHECK_THROWS_WITH(e.backward_weight(s, pass), "stage 0, microbatch 0: it is wrong which pass is the last");
  CHECK(e.open_passes() == 0);

  e.forget();
  out[0].shape = {4};
  CHECK_THROWS_WITH(e.forward(s, pass, in, out),
                    "engine: result #0 of stage 0 is f64[2, 2], but f64[4] in the trace; trace with the "
                    "largest microbatches, "
                    "and with shape_kind::dynamic if extents change");
}
