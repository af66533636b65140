// SPDX-License-Identifier: MIT
// Writes a checkpoint after the other until it is killed, or checks the newest: for kill_checkpoints.py.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.hpp"
#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "support/checkpoint_folder.hpp"
#include "support/random_tensors.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

/// The state after a step: six tensors of up to 128 KiB.
testing::owned_tensors state_after(std::uint64_t step) {
  testing::owned_tensors made;
  testing::rng random(step);
  for (int i = 0; i < 6; ++i)
    made.add({"layers." + std::to_string(i)}, element_type::f32,
             {static_cast<std::int64_t>(1 + random.below(1U << (3 * i)))});
  made.fill(random);
  return made;
}

void write_step(std::string const& folder, std::uint64_t step) {
  auto const state = state_after(step);
  std::vector<checkpoint_part> parts;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    parts.push_back(
        write_checkpoint_part(folder, step, rank_id{rank}, std::span(state.tensors).subspan(2 * rank, 2)));
  complete_checkpoint(folder, {step, {{"model", "attacked"}}}, parts, {.kept = 3});
}

/// Reads the newest checkpoint, prints its step and what was passed over, and returns 1 if its tensors are
/// wrong.
int check_newest(std::string const& folder) {
  auto const found = read_checkpoint(folder, {.expected = {{"model", "attacked"}}});
  auto const state = state_after(found.step());
  auto into = state;
  for (std::size_t i = 0; i < into.memory.size(); ++i) {
    into.memory[i].assign(into.memory[i].size(), std::byte{});
    into.tensors[i].tensor.data = into.memory[i].data();
  }
  found.load(into.tensors);
  for (std::size_t i = 0; i < into.tensors.size(); ++i)
    if (!testing::same_elements(into.tensors[i].tensor, state.tensors[i].tensor)) return 1;
  std::printf("%llu %zu\n", static_cast<unsigned long long>(found.step()), found.passed_over().size());
  return 0;
}

}  // namespace

int main(int count, char** words) try {
  if (count != 3) return 2;
  std::string const folder = words[2];
  if (words[1] == std::string("check")) return check_newest(folder);
  for (auto step = std::stoull(words[1]);; ++step) {
    write_step(folder, step);
    std::printf("%llu\n", step);
    std::fflush(stdout);
  }
} catch (std::exception const& e) {
  std::fprintf(stderr, "write_checkpoints: %s\n", e.what());
  return 3;
}
