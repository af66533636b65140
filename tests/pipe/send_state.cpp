// SPDX-License-Identifier: MIT
#include "cleave/pipe/module_pipe.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/split/check_plan.hpp"
#include "cleave/split/dataflow.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/state/assign_state.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"
#include "support/toy_stages.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using model_state = basic_model_state<std::uint32_t>;

/// The weights of a program as tensors. Weights with equal storage are tied.
model_state weights_of(snapshot<toy::graph> const& s, std::map<std::string, std::string> const& storage) {
  model_state m;
  m.tensor.assign(s.values(), none<std::uint32_t>);
  for (auto const v : s.state) {
    m.tensor[v] = static_cast<std::uint32_t>(m.tensors.size());
    m.tensors.push_back({s.value[v], storage.contains(s.value[v]) ? storage.at(s.value[v]) : ""});
  }
  return m;
}

/// A partitioned program whose state is assigned to stages and sent between them.
struct sent_program {
  sent_program(toy::program const& program, std::map<std::string, std::string> const& storage,
               std::uint32_t parts, state_options const& options = {.shared = shared_state::transmit})
      : g(program), s(snapshot_of(g)) {
    auto const m = weights_of(s, storage);
    s = join_sent_reads(std::move(s), m, options);
    auto const made = make_plan(s, equal_slices(s.nodes(), parts));
    placed = assign_state(s, made, m, options);
    p = send_state(s, made, m, placed);
  }

  std::vector<toy::program> stages() const {
    std::vector<toy::program> made;
    for (auto const& stage : p.stages) {
      toy::builder b;
      emit_stage(g, s, stage, b);
      made.push_back(std::move(b.made));
    }
    return made;
  }

  /// Runs the stages in the order of the plan and returns all their outputs.
  std::map<std::string, std::string> run(std::map<std::string, std::string> values) const {
    auto const made = stages();
    for (auto const i : p.order) {
      std::map<std::string, std::string> given;
      for (auto const& v : made[index(i)].inputs) given[v] = values.at(v);
      auto const all = toy::run(made[index(i)], given);
      for (auto const& v : made[index(i)].outputs) values[v] = all.at(v);
    }
    return values;
  }

  toy::graph g;
  snapshot<toy::graph> s;
  state_assignment placed;
  plan p;
};

/// Four operations for two stages, which read one tensor under two names.
toy::program tied_program() {
  toy::program p{{"x"}, {"in.w", "out.w", "b"}, {"y"}};
  p.add({"embed", {"x", "in.w"}, {"h"}});
  p.add({"add", {"h", "b"}, {"g"}});
  p.add({"project", {"out.w", "g"}, {"z"}});
  p.add({"scale", {"z", "in.w", "b"}, {"y"}});
  return p;
}

std::map<std::string, std::string> const tied = {{"in.w", "w"}, {"out.w", "w"}};

}  // namespace

TEST_CASE("send_state: the owner sends a tensor, and other stages receive it in the order of first use") {
  auto const program = tied_program();
  sent_program const sent(program, tied, 2, {.by_name = {{"out.w", shared_state::transmit}}});
  auto const stages = sent.stages();
  CHECK(stages[0].weights == std::vector<std::string>{"in.w", "b"});
  CHECK(stages[0].outputs == std::vector<std::string>{"g", "in.w"});
  CHECK(stages[1].inputs == std::vector<std::string>{"in.w", "g"});
  CHECK(stages[1].weights == std::vector<std::string>{"b"});
  CHECK_FALSE(find_plan_fault(sent.s, sent.p));
}

TEST_CASE("send_state: sends a tied tensor once, under the name that is read first") {
  auto const program = tied_program();
  sent_program const sent(program, tied, 2);
  CHECK(sent.p.transfers.size() == 3);  // the value, the tied weight and the bias
  CHECK(dataflow_of(sent.s, sent.p).edges.size() == 5);
  CHECK(sent.run({{"x", "x"}}).at("y") == "scale(project(in.w,add(embed(x,in.w,)0,b,)0,)0,in.w,b,)0");
}

TEST_CASE("send_state: the owner gives the caller the state that the graph returns") {
  auto program = tied_program();
  program.outputs = {"y", "b", "out.w"};
  sent_program const sent(program, tied, 2);
  CHECK(sent.stages()[0].outputs == std::vector<std::string>{"g", "in.w", "b"});
  auto const t = dataflow_of(sent.s, sent.p);
  CHECK(std::ranges::count(t.edges, the_caller, &dataflow::edge::to) == 3);
  CHECK_FALSE(find_dataflow_fault(t));
  CHECK_FALSE(find_plan_fault(sent.s, sent.p));
}

TEST_CASE("send_state: sends nothing if each stage has a copy") {
  auto const program = tied_program();
  sent_program const sent(program, tied, 2, {});
  CHECK(sent.p == make_plan(snapshot_of(sent.g), equal_slices(4, 2)));
}

TEST_CASE("send_state: the stages compute the results of the program, and each tensor is in one stage") {
  rng random(731);
  for (int round = 0; round < 200; ++round) {
    auto program = random_program(random, 2 + random.below(12));
    program.weights = {"w", "v", "u"};
    for (auto& op : program.ops)
      for (auto& in : op->in)
        if (in == "w" && random.one_in(2)) in = random.one_in(2) ? "v" : "u";
    std::map<std::string, std::string> const storage = {{"w", "s"}, {"v", "s"}};
    if (random.one_in(3)) program.outputs.push_back(random.one_in(2) ? "v" : "u");
    for (auto& op : program.ops) op->cheap = false;
    sent_program const sent(program, storage, static_cast<std::uint32_t>(1 + random.below(4)));
    CAPTURE(round);
    CHECK_FALSE(find_plan_fault(sent.s, sent.p));
    CHECK_FALSE(find_dataflow_fault(dataflow_of(sent.s, sent.p)));

    std::set<std::string> placed;
    for (auto const& stage : sent.stages())
      for (auto const& w : stage.weights) CHECK(placed.insert(w == "v" ? "w" : w).second);

    std::map<std::string, std::string> const given = {{"x", "x"}, {"y", "y"}};
    auto whole_given = given;
    whole_given["v"] = whole_given["w"] = "tied";
    auto const whole = toy::run(program, whole_given);
    auto staged = sent.run(given);
    for (auto const& v : program.outputs) {
      if (v == "v" || v == "u") continue;  // unchanged state
      auto term = staged.at(v);
      for (std::size_t at = 0; at < term.size(); ++at)  // a bare name is the tied weight
        if ((term[at] == 'w' || (term[at] == 'v' && (at + 1 == term.size() || term[at + 1] == ','))) &&
            (at + 1 == term.size() || term[at + 1] == ','))
          term.replace(at, 1, "tied"), at += 3;
      CHECK(term == whole.at(v));
    }
  }
}
