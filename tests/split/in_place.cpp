// SPDX-License-Identifier: MIT
// Graphs that overwrite memory: stages with separate memory must compute the same as the whole, step after
// step.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <vector>

#include "cleave/split/split.hpp"
#include "support/memory_tape.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

using namespace cleave::testing::in_place;

namespace {

/// A builder that runs the stage on copies of its inputs and on its own copy of the state.
struct runner {
  tape const& g;
  std::vector<unsigned> const& sent;
  std::vector<std::uint32_t> const& inputs;
  std::vector<cell>& own;
  std::size_t taken = 0;
  std::vector<unsigned> given{};

  cell argument(std::size_t v, source from) {
    return from == source::state ? own[v] : std::make_shared<unsigned>(sent[inputs[taken++]]);
  }
  std::vector<cell> clone(std::size_t n, auto lookup) { return execute(g.ops[n], lookup); }
  void result(std::size_t, cell const& m) { given.push_back(*m); }
};

}  // namespace

TEST_CASE("snapshot_of: groups nodes on memory that is viewed and written, not on memory with one handle") {
  // Values: 0 is x, 1 the cache, 2 k, 3 and 4 views of the cache, 5 y, 6 y again. No value leads from the
  // write to the read through 4.
  tape const g{{{'f', {0}, {2}, {}},
                {'v', {1}, {3}, {}},
                {'w', {2}, {}, {3}},
                {'v', {1}, {4}, {}},
                {'f', {0, 4}, {5}, {}},
                {'w', {0}, {6}, {5}}},
               {0, 1, 2, 1, 1, 5, 5},
               {0},
               {1},
               {6}};
  auto const s = snapshot_of(g);
  CHECK(s.group[2] == s.group[1]);
  CHECK(s.group[3] == s.group[1]);
  CHECK(s.group[4] == s.group[1]);
  CHECK(s.group[0] == 0);
  CHECK(s.group[5] == 5);
}

TEST_CASE("snapshot_of: a write makes a new version of a value and follows the reads of the old one") {
  // x is read by node 0, overwritten by node 1, read again by node 2.
  tape const g{{{'f', {0}, {1}, {}}, {'w', {1}, {}, {0}}, {'f', {0}, {2}, {}}}, {0, 1, 2}, {0}, {}, {2}};
  auto const s = snapshot_of(g);
  CHECK(std::ranges::find(s.after[1], 0u) != s.after[1].end());
  CHECK(s.operands[0][0] != s.operands[2][0]);
  CHECK(s.producer[s.operands[2][0]] == 1);
  CHECK(s.slot[s.operands[0][0]] == s.slot[s.operands[2][0]]);
}

TEST_CASE("snapshot_of: nodes that touch viewed and written memory are not replicable") {
  // value 0 is zeros, value 1 a view of it that is overwritten, value 2 is read after the write
  tape const g{{{'f', {}, {0}, {}, true},
                {'v', {0}, {1}, {}, true},
                {'w', {}, {}, {1}},
                {'f', {0}, {2}, {}, true},
                {'f', {2}, {3}, {}}},
               {0, 0, 2, 3},
               {},
               {},
               {3}};
  auto const s = snapshot_of(g);
  CHECK(s.replicable == std::vector<char>(5));
  CHECK(s.group == std::vector<std::uint32_t>{0, 0, 0, 0, 4});
}

TEST_CASE("make_plan: stages with separate memory compute the same as the whole graph, over several steps") {
  testing::rng random(7);
  std::uint32_t const k = 3;
  int cuts = 0, updates = 0;
  for (int round = 0; round < 4000; ++round) {
    auto const g = random_tape(random, round % 3 == 0);
    auto const s = snapshot_of(g);
    auto const cut = random_cut(random, s, k);
    plan_options options;
    options.stages =
        std::vector{order::program, order::fifo, order::upstream, order::priority}[random.below(4)];
    options.priority = {2, 0, 1};
    if (random.one_in(2)) options.inputs = input_order::definition;
    auto const legal = plan_if_legal(s, cut, options);
    if (!legal) continue;
    auto const& p = *legal;
    ++cuts;
    std::vector<cell> whole(g.storages.size());
    std::vector<std::vector<cell>> own(k, std::vector<cell>(3));
    std::vector<unsigned> board(s.values());
    whole[2] = std::make_shared<unsigned>(9u);
    for (auto& memory : own) memory[2] = std::make_shared<unsigned>(9u);
    for (unsigned step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < 2; ++i) {
        board[s.inputs[i]] = static_cast<unsigned>(i) + 5 * step;
        whole[i] = std::make_shared<unsigned>(board[s.inputs[i]]);
      }
      execute_all(g, whole);
      for (auto const i : p.order) {
        auto const& stage = p.stages[index(i)];
        runner r{g, board, stage.inputs, own[index(i)]};
        emit_stage(g, s, stage, r);
        for (std::size_t j = 0; j < r.given.size(); ++j) board[stage.outputs[j]] = r.given[j];
      }
      for (auto const& u : p.updates) {
        *own[index(u.to)][2] = board[u.value];
        ++updates;
      }
      for (std::size_t i = 0; i < g.given.size(); ++i)
        if (auto const v = s.outputs[i]; s.from[v] != source::state) CHECK(board[v] == *whole[g.given[i]]);
    }
  }
  CHECK(cuts > 1000);
  CHECK(updates > 100);
}
