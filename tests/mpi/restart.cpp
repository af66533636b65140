// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "launch_ranks.hpp"
#include "support/rng.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave::testing;

namespace {

/// Returns the processes of the trainer that have `folder` among their arguments, in ascending order.
std::vector<pid_t> trainers_in(std::string const& folder) {
  std::vector<pid_t> found;
  for (auto const& process : std::filesystem::directory_iterator("/proc")) {
    auto const name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(process.path() / "cmdline");
    std::string const arguments(std::istreambuf_iterator<char>(file), {});
    if (arguments.starts_with(CLEAVE_TRAINER) && arguments.find(folder) != arguments.npos)
      found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  std::ranges::sort(found);
  return found;
}

/// Returns the greatest step that has a complete checkpoint in `folder`, or 0.
std::uint64_t newest_step(std::string const& folder) {
  std::uint64_t newest = 0;
  std::regex const manifest("checkpoint-[0-9]+-step-([0-9]+)\\.manifest");
  std::error_code gone;  // files are removed while they are listed
  for (std::filesystem::directory_iterator at(folder, gone), end; !gone && at != end; at.increment(gone)) {
    auto const name = at->path().filename().string();
    std::smatch found;
    if (std::regex_match(name, found, manifest))
      newest = std::max<std::uint64_t>(newest, std::stoull(found[1]));
  }
  return newest;
}

launch_report train(std::string const& folder, std::uint64_t steps) {
  return launch_program(2, std::string(CLEAVE_TRAINER) + " " + folder + " " + std::to_string(steps));
}

/// The losses that a trainer has printed, as text with all digits, by step. If one step has two losses, the
/// text has both.
using losses = std::map<std::uint64_t, std::string>;
void add_losses(losses& to, std::string const& said) {
  std::regex const line("step ([0-9]+), loss ([^\n]+)\n");
  for (std::sregex_iterator i(said.begin(), said.end(), line), end; i != end; ++i) {
    auto& loss = to[std::stoull((*i)[1])];
    if (loss != (*i)[2]) loss += (*i)[2];
  }
}

}  // namespace

TEST_CASE(
    "mpi::pipeline: started again after ranks were killed, training has the losses of an unbroken run") {
  rng random(3);
  scratch_folder const folder(scratch_folder::in_memory()), unbroken(scratch_folder::in_memory());
  losses broken_losses;
  std::uint64_t reached = 0;
  for (int failures = 0; failures < 3; ++failures) {
    // It is told to train longer than it can, so it is killed in the middle however fast it is.
    auto attempt = std::async(std::launch::async, [&] { return train(folder.path(), 1'000'000'000); });
    auto const goal = reached + 3 + random.below(12);
    auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(50);
    while (newest_step(folder.path()) < goal && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));
    auto const ranks = trainers_in(folder.path());
    REQUIRE(ranks.size() == 2);
    ::kill(ranks[random.below(2)], SIGKILL);
    auto const r = attempt.get();
    CHECK_MESSAGE(r.exit != 0, r.said);
    CHECK(r.count("begins with step " + std::to_string(reached + 1) + "\n") == 1);
    CHECK(trainers_in(folder.path()).empty());
    add_losses(broken_losses, r.said);
    reached = newest_step(folder.path());
    CHECK(reached >= goal);
  }
  auto const last = reached + 5;
  auto const r = train(folder.path(), last);
  CHECK_MESSAGE(r.exit == 0, r.said);
  CHECK(r.count("begins with step " + std::to_string(reached + 1) + "\n") == 1);
  add_losses(broken_losses, r.said);
  broken_losses.erase(broken_losses.upper_bound(last), broken_losses.end());

  auto const whole = train(unbroken.path(), last);
  CHECK_MESSAGE(whole.exit == 0, whole.said);
  losses whole_losses;
  add_losses(whole_losses, whole.said);
  CHECK(whole_losses.size() == last);
  // What rank 1 printed before it was killed may be lost on its way through the launcher.
  for (auto const& [step, loss] : broken_losses) {
    CAPTURE(step);
    CHECK(loss == whole_losses[step]);
  }
  CHECK(broken_losses.size() >= 5);
}
