// SPDX-License-Identifier: MIT
#include "cleave/run/program/make_rank_program.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/memory/limit_saved_activations.hpp"
#include "support/cases.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/random_dataflow.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

enum class sort_of_bytes : std::uint8_t { value, shape, gradient, saved, saved_for_weights };

/// When messages run: as soon as they may, or only when they are waited for.
enum class moving : std::uint8_t { early, late };

/// Runs the program of one rank over a map with the content of each byte, and reports reads of wrong
/// content. A message brings what its block should contain, so each rank is checked on its own.
class byte_owners {
 public:
  byte_owners(step_plan const& p, rank_program const& r)
      : plan_(p), program_(r), arena_(r.arena_bytes), results_(r.result_bytes) {}

  std::vector<std::string> run(moving when) {
    auto const order = when == moving::early ? early() : late();
    for (auto const& i : order) {
      auto const& x = program_.instructions[i.number];
      where_ = call_text(x.call);
      if (i.is_message)
        move(x);
      else if (x.pass != rank_instruction::none)
        pass(x);
    }
    for (auto const& r : program_.results) {
      where_ = "the caller";
      read(r.value, tag_of(r.value.edge, r.microbatch, sort_of_bytes::value));
    }
    return faults_;
  }

 private:
  using owner = std::uint64_t;
  struct step {
    std::uint32_t number;
    bool is_message;
  };

  bool moves(std::uint32_t i) const {
    auto const k = program_.instructions[i].call.kind;
    return k == call_kind::send || k == call_kind::receive;
  }
  bool sends(std::uint32_t i) const { return program_.instructions[i].call.kind == call_kind::send; }

  /// A message begins after everything that it and all earlier messages depend on. A send still reads when it
  /// is waited for: later messages begin after that.
  std::vector<step> early() const {
    auto const count = static_cast<std::uint32_t>(program_.instructions.size());
    std::vector<std::vector<step>> behind(count + 1);  // the first entry holds messages without dependencies
    std::uint32_t begin = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      auto const& x = program_.instructions[i];
      for (std::uint32_t n = i; n <= i + x.call.parts; ++n)
        if (moves(n) && program_.instructions[n].after != rank_instruction::none)
          begin = std::max(begin, program_.instructions[n].after + 1);
      if (moves(i)) behind[begin].push_back({i, true});
      if (x.call.kind == call_kind::wait_send) behind[begin].push_back({x.call.begun, true});
    }
    std::vector<step> order;
    for (std::uint32_t i = 0; i <= count; ++i) {
      if (i > 0) order.push_back({i - 1, false});
      order.insert(order.end(), behind[i].begin(), behind[i].end());
    }
    return order;
  }
  /// Each message runs when it is waited for, or at the end.
  std::vector<step> late() const {
    std::vector<step> order;
    std::set<std::uint32_t> left;
    for (std::uint32_t i = 0; i < program_.instructions.size(); ++i) {
      auto const& x = program_.instructions[i];
      if (moves(i)) left.insert(i);
      if (is_wait(x.call.kind) && left.erase(x.call.begun)) order.push_back({x.call.begun, true});
      order.push_back({i, false});
    }
    for (auto const i : left) order.push_back({i, true});
    return order;
  }

  /// The tag of a value; edges that carry the same value have the same tag.
  owner tag_of(std::uint32_t edge, microbatch_id m, sort_of_bytes sort) const {
    auto const& e = plan_.edges().edges[edge];
    auto const from = std::uint64_t{index(e.from)} << 16 | e.output;
    return key(sort, sort == sort_of_bytes::gradient ? edge : from, m);
  }
  owner saved_of(action const& a, sort_of_bytes sort) const {
    return key(sort, index(a.stage), a.microbatch);
  }
  owner key(sort_of_bytes sort, std::uint64_t what, microbatch_id m) const {
    rng r(what * 8 + static_cast<std::uint64_t>(sort));
    return rng(r.next() + index(m)).next() | 1;
  }

  owner* at(value_place const& p) {
    REQUIRE(p.where != place_kind::nowhere);
    REQUIRE(p.where != place_kind::input);
    return (p.where == place_kind::arena ? arena_.data() : results_.data()) + p.at;
  }
  std::size_t room(std::uint32_t edge) const {
    auto const& l = program_.layouts.edges[edge];
    return static_cast<std::size_t>(*l.shape.count()) * size_of(l.type);
  }

  void put(owner* to, std::size_t bytes, owner what) { std::fill_n(to, bytes, what); }
  void expect(owner const* from, std::size_t bytes, owner what, std::string const& name) {
    if (std::all_of(from, from + bytes, [&](owner o) { return o == what; })) return;
    faults_.push_back(where_ + " reads no " + name);
  }

  /// Inputs of the caller are not checked.
  void read(program_value const& v, owner what) {
    if (v.place.where == place_kind::input || v.place.where == place_kind::nowhere) return;
    expect(at(v.place), room(v.edge), what, "value of edge #" + std::to_string(v.edge));
  }
  void write(program_value const& v, owner what) { put(at(v.place), room(v.edge), what); }

  void move(rank_instruction const& x) {
    auto const& a = x.call.of;
    bool const forward = is_activation_message(a.kind), is_send = x.call.kind == call_kind::send;
    auto const from = is_send == forward ? a.stage : a.peer, to = is_send == forward ? a.peer : a.stage;
    auto const edge = std::ranges::lower_bound(plan_.order().place.edges, stage_edge{from, to});
    auto const& both = plan_.blocks()[static_cast<std::size_t>(edge - plan_.order().place.edges.begin())];
    auto const& block = forward ? both.activations : both.gradients;
    CHECK(x.bytes == block.bytes);
    for (auto const& v : block.values) {
      auto const sort = forward ? sort_of_bytes::value : sort_of_bytes::gradient;
      auto const what = tag_of(v.edge, a.microbatch, sort);
      auto* const here = arena_.data() + x.at + v.at;
      if (is_send)
        expect(here, room(v.edge), what, "value of edge #" + std::to_string(v.edge));
      else
        put(here, room(v.edge), what);
      if (!v.has_shape()) continue;
      auto const shape = tag_of(v.edge, a.microbatch, sort_of_bytes::shape);
      if (is_send)
        expect(arena_.data() + x.at + v.shape_at, sizeof(tensor_shape), shape, "shape");
      else
        put(arena_.data() + x.at + v.shape_at, sizeof(tensor_shape), shape);
    }
  }

  void pass(rank_instruction const& x) {
    auto const& p = program_.passes[x.pass];
    auto const& a = x.call.of;
    auto* const saved = arena_.data() + p.saved_at;
    auto* const saved_for_weights = arena_.data() + p.saved_for_weights_at;
    auto const kept = saved_of(a, sort_of_bytes::saved),
               kept_for_w = saved_of(a, sort_of_bytes::saved_for_weights);
    bool const makes =
        a.kind == action_kind::forward || a.kind == action_kind::reload || a.kind == action_kind::recompute;
    bool const offloads = a.kind == action_kind::offload;
    if (makes)
      put(saved, p.saved_bytes, kept);
    else if (a.kind != action_kind::weight_gradient)
      expect(saved, p.saved_bytes, kept, "stash");
    if (a.kind == action_kind::input_gradient) put(saved_for_weights, p.saved_for_weights_bytes, kept_for_w);
    if (a.kind == action_kind::weight_gradient)
      expect(saved_for_weights, p.saved_for_weights_bytes, kept_for_w, "weight stash");
    if (a.kind == action_kind::forward) forward(p, a);
    if (a.kind == action_kind::backward || a.kind == action_kind::input_gradient) backward(p, a);
    if (!makes && !offloads) check_saved_is_there(p, a);
  }
  void check_saved_is_there(program_pass const& p, action const& a) {
    auto const& sizes = plan_.options().saved_activations[0];
    if (a.kind != action_kind::weight_gradient) CHECK(p.saved_bytes == sizes.saved);
    if (a.kind != action_kind::backward) CHECK(p.saved_for_weights_bytes == sizes.saved_for_weights);
  }

  void read_inputs(program_pass const& p, microbatch_id m) {
    for (auto const& v : p.in) {
      read(v, tag_of(v.edge, m, sort_of_bytes::value));
      if (v.shape.where != place_kind::nowhere)
        expect(at(v.shape), sizeof(tensor_shape), tag_of(v.edge, m, sort_of_bytes::shape), "shape");
    }
  }
  void forward(program_pass const& p, action const& a) {
    read_inputs(p, a.microbatch);
    auto const made = [&](program_value const& v) {
      write(v, tag_of(v.edge, a.microbatch, sort_of_bytes::value));
      if (v.shape.where != place_kind::nowhere)
        put(at(v.shape), sizeof(tensor_shape), tag_of(v.edge, a.microbatch, sort_of_bytes::shape));
    };
    for (auto const& v : p.out) made(v);
    for (auto const& c : p.copies) {
      read(c.from, tag_of(c.to.edge, a.microbatch, sort_of_bytes::value));
      made(c.to);
    }
    read_inputs(p, a.microbatch);  // its results do not overlap its inputs
  }
  void backward(program_pass const& p, action const& a) {
    auto const& ports = plan_.ports_of(a.stage);
    std::map<std::uint32_t, owner> arrives;  // by result
    for (auto const& [output, e] : ports.departing) {
      auto const& edge = plan_.edges().edges[e];
      if (edge.to != the_caller && program_.layouts.edges[e].gradient == gradient_use::wanted)
        arrives[output] += tag_of(e, a.microbatch, sort_of_bytes::gradient);
    }
    for (auto const& s : p.sums) {
      read(s.from, tag_of(s.from.edge, a.microbatch, sort_of_bytes::gradient));
      auto* const to = at(s.to.place);
      for (std::size_t b = 0; b < room(s.to.edge); ++b) to[b] += *at(s.from.place);
    }
    CHECK(p.in.size() == ports.outputs);
    for (std::uint32_t k = 0; k < p.in.size(); ++k) {
      CHECK((p.in[k].place.where != place_kind::nowhere) == arrives.contains(k));
      CHECK(plan_.edges().edges[p.in[k].edge].output == k);
      read(p.in[k], arrives[k]);
    }
    read_inputs(program_.passes[p.forward], a.microbatch);
    for (auto const& v : p.out)
      if (v.place.where != place_kind::nowhere)
        write(v, tag_of(v.edge, a.microbatch, sort_of_bytes::gradient));
    for (std::uint32_t k = 0; k < p.in.size(); ++k) read(p.in[k], arrives[k]);
    read_inputs(program_.passes[p.forward], a.microbatch);
  }

  step_plan const& plan_;
  rank_program const& program_;
  std::vector<owner> arena_, results_;
  std::string where_;
  std::vector<std::string> faults_;
};

/// Checks that both ends of a message agree, and that its number is unique.
void check_numbers(std::vector<rank_program> const& programs) {
  struct two_ends {
    rank_instruction const *sent = nullptr, *received = nullptr;
    std::uint32_t sender = 0, receiver = 0;
  };
  std::map<std::uint32_t, two_ends> all;
  for (auto const& p : programs)
    for (auto const& i : p.instructions) {
      if (i.call.kind != call_kind::send && i.call.kind != call_kind::receive) continue;
      auto& ends = all[i.number];
      auto& here = i.call.kind == call_kind::send ? ends.sent : ends.received;
      CHECK_FALSE(here);
      here = &i;
      (i.call.kind == call_kind::send ? ends.sender : ends.receiver) = index(p.rank);
    }
  for (auto const& [number, m] : all) {
    REQUIRE(m.sent);
    REQUIRE(m.received);
    CHECK(index(m.sent->peer) == m.receiver);
    CHECK(index(m.received->peer) == m.sender);
    CHECK(m.sent->bytes == m.received->bytes);
    CHECK(m.sent->call.of.stage == m.received->call.of.peer);
    CHECK(m.sent->call.of.peer == m.received->call.of.stage);
    CHECK(m.sent->call.of.microbatch == m.received->call.of.microbatch);
  }
}

/// Checks that the caller gets each result from exactly one rank.
void check_results(step_plan const& p, std::vector<rank_program> const& programs) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> wanted, made;
  for (auto const& e : p.edges().edges)
    for (std::uint32_t m = 0; m < p.order().microbatches; ++m)
      if (e.to == the_caller && e.from != the_caller) wanted.insert({m, e.input});
  for (auto const& r : programs)
    for (auto const& x : r.results) CHECK(made.insert({index(x.microbatch), x.number}).second);
  CHECK(made == wanted);
}

/// Checks that messages come after their dependencies, and sends after the pass that made the value.
void check_after(rank_program const& p) {
  for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
    auto const& x = p.instructions[i];
    if (x.after == rank_instruction::none) continue;
    CHECK(x.after < i);
    if (x.call.kind != call_kind::send) continue;
    auto const& pass = p.instructions[x.after].call.of;
    CHECK(pass.stage == x.call.of.stage);
    CHECK(pass.microbatch == x.call.of.microbatch);
  }
}

void check_programs(step_plan const& p) {
  auto const programs = make_rank_programs(p);
  REQUIRE(programs.size() == p.order().ranks.size());
  for (auto const& r : programs) {
    CAPTURE(index(r.rank));
    for (auto const when : {moving::early, moving::late})
      CHECK(byte_owners(p, r).run(when) == std::vector<std::string>());
    check_after(r);
    CHECK(r.digest == p.digest());
  }
  check_numbers(programs);
  check_results(p, programs);
}

lower_options lowering_at_random(rng& random) {
  return {.messages = random.one_in(2) ? message_order::timed : message_order::rounds,
          .receives = random.one_in(2) ? receive_time::at_once : receive_time::deferred,
          .grouping = random.one_in(2) ? message_grouping::none : message_grouping::adjacent};
}

/// Linear layouts in which some shapes are dynamic and some gradients are not wanted.
run_layouts varied_layouts(rng& random, dataflow const& t, std::vector<std::int64_t> rows) {
  auto l = linear_layouts(t, std::move(rows));
  std::map<std::pair<stage_id, std::uint32_t>, shape_kind> kinds;
  for (std::size_t e = 0; e < t.edges.size(); ++e) {
    auto const source = std::pair(t.edges[e].from, t.edges[e].output);
    if (!kinds.contains(source)) kinds[source] = random.one_in(4) ? shape_kind::dynamic : shape_kind::fixed;
    l.edges[e].extents = kinds[source];
    if (random.one_in(6)) l.edges[e].gradient = gradient_use::none;
  }
  return l;
}

}  // namespace

TEST_CASE("make_rank_program: every read finds what the right pass or message wrote, in random models") {
  rng random(71);
  for (std::size_t i = 0; i < cases(170, 500); ++i) {
    CAPTURE(i);
    auto const t = random_dataflow(random, static_cast<std::uint32_t>(1 + random.below(7)));
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
    std::vector<rank_id> rank_of;
    for (std::uint32_t s = 0; s < t.stages; ++s)
      rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
    auto const s =
        list_schedule(placement_of(t, ranks, rank_of), static_cast<std::uint32_t>(1 + random.below(5)),
                      {.backward = random.one_in(2) ? backward_form::split : backward_form::whole});
    auto const l = varied_layouts(random, t, std::vector<std::int64_t>(s.microbatches, 3));
    step_plan const p(s, t, l, {.lowering = lowering_at_random(random), .saved_activations = {{24, 40, 0}}});
    check_programs(p);
  }
}

TEST_CASE("make_rank_program: every read finds the right data in every schedule family") {
  rng random(72);
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    CAPTURE(name_of(family));
    auto const s = family_schedule(family, 4, 8);
    linear_chain const c(s, random);
    check_programs(step_plan(s, c.t, linear_layouts(c.t, c.rows),
                             {.lowering = lowering_at_random(random), .saved_activations = {{24, 40, 0}}}));
  }
}

TEST_CASE("make_rank_program: every read finds the right data if messages of a group begin together") {
  rng random(73);
  for (auto const family : {schedule_family::one_f_one_b, schedule_family::interleaved_1f1b}) {
    auto const s = family_schedule(family, 4, 8);
    linear_chain const c(s, random);
    lower_options const grouped{.grouping = message_grouping::adjacent};
    for (auto const rules : {delivery::async, delivery::pair_stream}) {
      step_plan const p(
          s, c.t, linear_layouts(c.t, c.rows),
          {.lowering = grouped, .delivery = {.delivery = rules}, .saved_activations = {{24, 40, 0}}});
      check_programs(p);
      std::size_t together = 0;
      for (auto const& r : make_rank_programs(p))
        for (auto const& i : r.instructions) together += i.call.parts;
      CHECK((together > 0) == (rules != delivery::async));
    }
  }
}

TEST_CASE("make_rank_program: every read finds the right data with offloaded or recomputed activations") {
  rng random(74);
  for (auto const relief : {saved_relief::offload, saved_relief::recompute})
    for (auto const family : {schedule_family::gpipe, schedule_family::one_f_one_b}) {
      auto const s = family_schedule(family, 3, 6);
      linear_chain const c(s, random);
      auto const limited = limit_saved_activations(lower(s), {.memory_limit = {2}, .relief = {relief}});
      CHECK(count_actions(limited) > count_actions(lower(s)));
      check_programs(
          step_plan(limited, c.t, linear_layouts(c.t, c.rows), {.saved_activations = {{24, 40, 0}}}));
    }
}
