// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/child.hpp"
#include "support/scratch_folder.hpp"

namespace cleave::testing {

/// Returns the path of a program that is built into the same folder as the tests.
inline std::filesystem::path built_program(std::string const& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

/// Returns the path of the command-line tool.
inline std::filesystem::path tool_path() { return built_program("cleave"); }

inline std::string text_of_file(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Replaces this process by the program `words[0]` with these words.
[[noreturn]] inline void execute(std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  throw std::runtime_error("it is not built: " + words[0]);
}

/// Runs `program` with `input` as its stdin; `said` is its stdout.
inline child_report run_built(std::filesystem::path const& program, std::vector<std::string> words,
                              std::string const& input = "") {
  scratch_folder const scratch;
  auto const out = scratch / "stdout", in = scratch / "stdin";
  std::ofstream(in, std::ios::binary) << input;
  words.insert(words.begin(), program.string());
  auto report = in_child([&]() -> std::string {
    int const file = open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) throw std::runtime_error("no file for stdout");
    if (dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO) < 0) throw std::runtime_error("no file for stdin");
    execute(words);
  });
  if (report.said.empty()) report.said = text_of_file(out);
  return report;
}

/// Runs the tool; `said` is its stdout.
inline child_report run_tool(std::vector<std::string> words) {
  return run_built(tool_path(), std::move(words));
}

/// Runs the tool with a limit of a resource, such as `RLIMIT_AS` for its address space.
inline child_report run_tool_within(decltype(RLIMIT_AS) resource, std::size_t most,
                                    std::vector<std::string> words) {
  words.insert(words.begin(), tool_path().string());
  return in_child([&]() -> std::string {
    rlimit const limit{most, most};
    setrlimit(resource, &limit);
    execute(words);
  });
}

/// Runs the tool with stdout as a full disk, or closed.
enum class lost_stdout : std::uint8_t { full, closed };
inline child_report run_tool_without_stdout(std::vector<std::string> words, lost_stdout how) {
  words.insert(words.begin(), tool_path().string());
  return in_child([&]() -> std::string {
    if (how == lost_stdout::closed)
      close(STDOUT_FILENO);
    else if (int const full = open("/dev/full", O_WRONLY | O_CLOEXEC); dup2(full, STDOUT_FILENO) < 0)
      throw std::runtime_error("no /dev/full");
    execute(words);
  });
}

/// Runs the tool with a pipe as stdout that does not block and is read slowly; `said` is what came.
inline child_report run_tool_on_busy_pipe(std::vector<std::string> words) {
  words.insert(words.begin(), tool_path().string());
  int ends[2];
  if (pipe2(ends, O_NONBLOCK) != 0) throw std::runtime_error("no pipe");
  std::string came;
  std::thread reader([&] {
    std::array<char, 10'000> some;
    for (ssize_t got = -1; got != 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      got = read(ends[0], some.data(), some.size());
      if (got > 0) came.append(some.data(), static_cast<std::size_t>(got));
    }
  });
  auto report = in_child([&]() -> std::string {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    execute(words);
  });
  close(ends[1]);
  reader.join();
  close(ends[0]);
  report.said = came;
  return report;
}

}  // namespace cleave::testing
