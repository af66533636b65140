// SPDX-License-Identifier: MIT
#include "cleave/run/program/step_plan.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr stage_id s0{0}, s1{1};

struct digested {
  schedule s{{2, {rank_id{0}, rank_id{1}}, {{s0, s1}}},
             3,
             {{{action_kind::forward, 0, s0, microbatch_id{0}},
               {action_kind::send_activation, 0, s0, microbatch_id{0}, s1}},
              {{action_kind::receive_activation, 0, s1, microbatch_id{0}, s0}}}};
  dataflow t{.stages = 2, .edges = {{s0, 0, s1, 0}, {s1, 0, the_caller, 0}}};
  run_layouts l{{{.shape = {4, 2}, .batch_axis = 0}, {.shape = {4}}}, {4, 4, 3}};

  call_options o;

  program_digest digest() const { return digest_of(s, t, l, o); }
};

/// The parts of the digest that `change` changes, as letters: `s`, `t`, `l`, `o`.
template <class F>
std::string parts_changed_by(F change) {
  digested x;
  auto const before = x.digest();
  change(x);
  auto const after = x.digest();
  std::string parts;
  if (before.schedule != after.schedule) parts += "s";
  if (before.dataflow != after.dataflow) parts += "t";
  if (before.layouts != after.layouts) parts += "l";
  if (before.calls != after.calls) parts += "o";
  return parts;
}

}  // namespace

TEST_CASE("digest_of: any change of the schedule changes only the schedule part") {
  CHECK(parts_changed_by([](digested&) {}).empty());
  CHECK(parts_changed_by([](digested& x) { x.s.place.ranks = 3; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.place.rank_of[1] = rank_id{0}; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.place.edges.clear(); }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.place.edges[0] = {s1, s0}; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.microbatches = 4; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.ranks[0][0].kind = action_kind::backward; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.ranks[0][0].parts = 1; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.ranks[0][0].stage = s1; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.ranks[0][0].microbatch = microbatch_id{1}; }) == "s");
  CHECK(parts_changed_by([](digested& x) { x.s.ranks[0][1].peer = s0; }) == "s");
  CHECK(parts_changed_by([](digested& x) { std::swap(x.s.ranks[0][0], x.s.ranks[0][1]); }) == "s");
  CHECK(parts_changed_by([](digested& x) {
          x.s.ranks[1].insert(x.s.ranks[1].begin(), x.s.ranks[0].back());
          x.s.ranks[0].pop_back();
        }) == "s");
}

TEST_CASE("digest_of: any change of the dataflow changes only the dataflow part") {
  CHECK(parts_changed_by([](digested& x) { x.t.stages = 3; }) == "t");
  CHECK(parts_changed_by([](digested& x) { x.t.edges.pop_back(); }) == "t");
  CHECK(parts_changed_by([](digested& x) { x.t.edges[0].from = the_caller; }) == "t");
  CHECK(parts_changed_by([](digested& x) { x.t.edges[0].output = 1; }) == "t");
  CHECK(parts_changed_by([](digested& x) { x.t.edges[0].to = the_caller; }) == "t");
  CHECK(parts_changed_by([](digested& x) { x.t.edges[0].input = 1; }) == "t");
  CHECK(parts_changed_by([](digested& x) { std::swap(x.t.edges[0], x.t.edges[1]); }) == "t");
}

TEST_CASE("digest_of: informative fields of the dataflow change nothing") {
  CHECK(parts_changed_by([](digested& x) {
          x.t.edges[0].value = 7;
          x.t.edges[0].bytes = 8;
          x.t.edges[0].layout = 0;
          x.t.layouts = {{"f32", {}}};
        }).empty());
}

TEST_CASE("digest_of: any change of the layouts changes only the layout part") {
  CHECK(parts_changed_by([](digested& x) { x.l.edges.pop_back(); }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.edges[0].type = element_type::f64; }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.edges[0].shape = {2, 4}; }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.edges[1].shape = {4, 0}; }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.edges[0].batch_axis = 1; }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.edges[0].batch_axis.reset(); }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.edges[0].gradient = gradient_use::none; }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.edges[0].extents = shape_kind::dynamic; }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.rows[2] = 2; }) == "l");
  CHECK(parts_changed_by([](digested& x) { x.l.rows.clear(); }) == "l");
}

TEST_CASE("number_digest: is FNV-1a over the bytes, lowest first") {
  CHECK(number_digest().value() == 0xcbf29ce484222325);
  std::uint64_t twin = 0xcbf29ce484222325;
  for (int const byte : {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01})
    twin = (twin ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  CHECK(number_digest().add(0x0123456789abcdef).value() == twin);
}

TEST_CASE("digest_of: call options that change what is done have their own part") {
  CHECK(parts_changed_by([](digested& x) { x.o.scale = gradient_scale::by_microbatches; }) == "o");
  CHECK(parts_changed_by([](digested& x) { x.o.loss = loss_source::caller; }) == "o");
  CHECK(parts_changed_by([](digested& x) { x.o.weights = weight_storage::sharded; }) == "o");
  CHECK(parts_changed_by([](digested& x) { x.o.gradients = gradient_end::kept; }) == "o");
  CHECK(parts_changed_by([](digested& x) { x.o.exchanges = exchange_issue::by_rank_pair; }) == "o");
  CHECK(parts_changed_by([](digested& x) { x.o.custom = {action_kind::backward}; }) == "o");
  CHECK(parts_changed_by([](digested& x) { x.o.ends = exchange_end::each; }).empty());
  digested a, b;
  a.o.custom = {action_kind::forward, action_kind::backward};
  b.o.custom = {action_kind::backward, action_kind::forward, action_kind::forward};
  CHECK(a.digest() == b.digest());
}
