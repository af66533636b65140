// SPDX-License-Identifier: MIT
// Measures the speed of writing, checking and loading a checkpoint, and the time for a tiny one.
//   bench_checkpoint [FOLDER]
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.hpp"
#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;

/// Wall-clock seconds, since the disk dominates.
template <class F>
double elapsed(F f) {
  auto const begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct owned_state {
  std::vector<std::vector<float>> memory;
  std::vector<named_tensor> tensors;

  owned_state(std::size_t count, std::size_t elements, float first) {
    for (std::size_t i = 0; i < count; ++i) {
      memory.emplace_back(elements, first + static_cast<float>(i));
      tensors.push_back({{"layers." + std::to_string(i) + ".weight"},
                         {memory.back().data(), element_type::f32, {static_cast<std::int64_t>(elements)}}});
    }
  }
};

void row(std::string const& folder, std::size_t count, std::size_t elements) {
  owned_state const state(count, elements, 1);
  owned_state loaded(count, elements, 0);
  auto const bytes = static_cast<double>(count * elements * sizeof(float));
  std::uint64_t step = 0;
  std::size_t const runs = bytes > 5e8 ? 5 : 15;
  auto const spread = [&](auto f) {
    auto const seconds = bench::repeat(runs, [&] { return elapsed(f); });
    if (bytes > 1e7)
      std::printf(" | %.2f (%.2f to %.2f)", bytes / seconds.median / 1e9, bytes / seconds.most / 1e9,
                  bytes / seconds.least / 1e9);
    else
      std::printf(" | %.2f ms (%.2f to %.2f)", seconds.median * 1e3, seconds.least * 1e3, seconds.most * 1e3);
  };
  std::printf("| %zu x %g MB", count, static_cast<double>(elements) * 4e-6);
  spread([&] { write_checkpoint(folder, {++step, {}}, state.tensors); });
  using enum read_checkpoint_options::extent;
  spread([&] { read_checkpoint(folder); });
  spread([&] { read_checkpoint(folder, {.checked = no_elements}).load(loaded.tensors); });
  if (loaded.memory != state.memory) std::exit(1);

  auto const all = std::as_bytes(std::span(state.memory.front()));
  std::vector<std::byte> copy(all.size());
  spread([&] {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(copy.data(), state.memory[i].data(), copy.size());
  });
  spread([&] {
    pending_file file(folder, "plain");
    for (std::size_t i = 0; i < count; ++i)
      file.write(i * all.size(), std::as_bytes(std::span(state.memory[i])));
    file.keep("plain");
  });
  std::printf(" |\n");
  std::fflush(stdout);
  for (auto const& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove(entry.path());
}

}  // namespace

int main(int count, char** arguments) {
  std::string const inside = count > 1 ? arguments[1] : std::filesystem::temp_directory_path().string();
  auto const folder = inside + "/cleave-bench-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::printf(
      "| tensors | write and fsync | check all | check and load | memcpy | the same bytes written and "
      "fsynced, "
      "no digests |\n|---|---|---|---|---|---|\n");
  row(folder, 10, 100);
  row(folder, 1'000, 1'000);
  row(folder, 16, 1'000'000);
  row(folder, 16, 16'000'000);
  std::filesystem::remove_all(folder);
}
