// SPDX-License-Identifier: MIT
#include "cleave/split/state/check_state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cleave/pipe/module_pipe.hpp"
#include "cleave/split/state/assign_state.hpp"
#include "support/random_state.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using kind = state_fault::kind;

std::vector<kind> kinds(state_model const& model, state_assignment const& placed) {
  std::vector<kind> found;
  for (auto const& f : state_faults<std::uint32_t>(model.s, model.p, model.m, placed))
    if (f.what != kind::unused) found.push_back(f.what);
  return found;
}

bool has(std::vector<kind> const& list, kind what) { return std::ranges::count(list, what) > 0; }

}  // namespace

TEST_CASE("state_faults: finds nothing but unused tensors in the result of assign_state") {
  rng random(3301);
  for (int round = 0; round < 300; ++round) {
    auto model = random_state_model(random);
    auto const placed = assign_state(model.s, model.p, model.m);
    CHECK(kinds(model, placed).empty());
    auto const faults = state_faults<std::uint32_t>(model.s, model.p, model.m, placed);
    CHECK(faults.size() == placed.unused.size());

    state_options const options{.shared = shared_state::transmit};
    model.s = join_sent_reads(model.s, model.m, options);
    model.p = make_plan(model.s, model.parts);
    auto const sent = assign_state(model.s, model.p, model.m, options);
    CHECK(kinds(model, sent).empty());
    model.p = send_state(model.s, model.p, model.m, sent);
    CHECK(kinds(model, sent).empty());
  }
}

TEST_CASE("state_faults: finds each random alteration of an assignment") {
  rng random(3302);
  std::set<kind> seen;
  for (int round = 0; round < 300; ++round) {
    auto const model = random_state_model(random, called_modules::some);
    auto const placed = assign_state(model.s, model.p, model.m);
    auto const stage = random.below(placed.stages.size());
    auto altered = placed;
    auto& held = altered.stages[stage];
    switch (random.below(4)) {
      case 0:
        if (altered.replicas.empty()) continue;
        altered.replicas.pop_back();
        CHECK(has(kinds(model, altered), kind::untied));
        seen.insert(kind::untied);
        break;
      case 1: {
        if (held.empty()) continue;
        auto const gone = held[random.below(held.size())];
        std::erase(held, gone);
        bool const known = model.is_constant(gone.tensor) && !gone.read;  // a constant's second name
        auto const found = kinds(model, altered);
        bool const elsewhere = std::ranges::any_of(altered.stages, [&](auto const& list) {
          return std::ranges::count(list, gone.tensor, &held_state::tensor) > 0;
        });
        bool const still = std::ranges::any_of(held, [&](held_state const& h) {
          return model.storage_of(h.tensor) == model.storage_of(gone.tensor);
        });
        if (!known && !still) {
          CHECK(has(found, kind::absent));
          seen.insert(kind::absent);
        }
        if (!known && still && !elsewhere && !model.is_constant(gone.tensor))
          CHECK(has(found, kind::missing));
        break;
      }
      case 2:
        if (held.empty()) continue;
        held.push_back(held[random.below(held.size())]);
        CHECK(has(kinds(model, altered), kind::repeated));
        seen.insert(kind::repeated);
        break;
      default: {
        auto const tensor = static_cast<std::uint32_t>(random.below(model.m.tensors.size()));
        if (std::ranges::any_of(held, [&](held_state const& h) {
              return model.storage_of(h.tensor) == model.storage_of(tensor);
            }))
          continue;
        held.push_back({tensor, false});
        CHECK(has(kinds(model, altered), kind::unread));
        seen.insert(kind::unread);
      }
    }
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("code_of: gives each state fault a fixed code, and describe() names the tensor") {
  std::set<std::string> codes;
  for (int k = 0; k <= static_cast<int>(kind::unused); ++k) {
    auto const what = static_cast<kind>(k);
    codes.emplace(code_of(what));
    CHECK(describe(state_fault{what, "blk.w", "tied.w", stage_id{1}, stage_id{2}}).find("'blk.w'") !=
          std::string::npos);
  }
  CHECK(codes.size() == static_cast<std::size_t>(kind::unused) + 1);
  CHECK(code_of(kind::shared) == "state-shared");
  CHECK(code_of(kind::untied) == "state-untied");
  CHECK(code_of(kind::unused) == "state-unused");
}
