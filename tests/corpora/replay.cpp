// SPDX-License-Identifier: MIT
// Runs a fuzzer over the files of its corpus: `replay NAME FOLDER`. What the fuzzers found is in their
// corpora, so it is tested without libFuzzer, by any compiler and under any sanitizer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

using fuzzer = int(std::uint8_t const*, std::size_t);

#define FUZZER(name) extern "C" fuzzer run_##name;
#include CLEAVE_FUZZERS
#undef FUZZER

/// Mutates nothing, since corpora are run as they are.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t size, std::size_t) { return size; }

namespace {

struct named_fuzzer {
  std::string_view name;
  fuzzer* run;
};

constexpr named_fuzzer fuzzers[] = {
#define FUZZER(name) {#name, run_##name},
#include CLEAVE_FUZZERS
#undef FUZZER
};

}  // namespace

int main(int count, char** words) {
  auto const* const chosen =
      std::ranges::find(fuzzers, count == 3 ? std::string_view(words[1]) : "", &named_fuzzer::name);
  if (chosen == std::end(fuzzers)) return std::fputs("usage: replay NAME FOLDER\n", stderr), 2;
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(words[2]))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  for (auto const& file : files) {
    std::printf("%s\n", file.c_str());  // the last one is the one that failed
    std::fflush(stdout);
    std::ifstream in(file, std::ios::binary);
    std::string const bytes{std::istreambuf_iterator<char>(in), {}};
    std::vector<std::uint8_t> const exact(bytes.begin(), bytes.end());  // reading past its end is seen
    chosen->run(exact.data(), exact.size());
  }
  std::printf("%zu files\n", files.size());
  return files.empty() ? 1 : 0;
}
