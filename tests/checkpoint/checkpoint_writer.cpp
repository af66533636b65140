// SPDX-License-Identifier: MIT
#include "cleave/checkpoint/checkpoint_writer.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "cleave/checkpoint/checkpoint.hpp"
#include "support/checkpoint_folder.hpp"
#include "support/child.hpp"
#include "support/error_text.hpp"
#include "support/random_tensors.hpp"
#include "support/rng.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::error_text;
using testing::scratch_folder;
using testing::texts_in;

static_assert(std::is_trivially_copyable_v<checkpoint_part>);

namespace {

/// Two ranks with one tensor each. All elements equal the number of the step.
struct counting_state {
  std::vector<std::int64_t> elements[2] = {std::vector<std::int64_t>(300), std::vector<std::int64_t>(70)};

  named_tensor tensor(std::uint32_t rank) {
    auto& mine = elements[rank];
    return {{"of rank " + std::to_string(rank)},
            {mine.data(), element_type::i64, {static_cast<std::int64_t>(mine.size())}}};
  }
  void count_to(std::uint64_t step) {
    for (auto& mine : elements) std::ranges::fill(mine, static_cast<std::int64_t>(step));
  }
};

checkpoint_part write_rank(std::string const& folder, std::uint64_t step, std::uint32_t rank) {
  counting_state state;
  state.count_to(step);
  auto const mine = state.tensor(rank);
  return write_checkpoint_part(folder, step, rank_id{rank}, std::span(&mine, 1));
}

void write_counting(std::string const& folder, std::uint64_t step, std::size_t kept = 2) {
  checkpoint_part const parts[] = {write_rank(folder, step, 0), write_rank(folder, step, 1)};
  complete_checkpoint(folder, {step, {{"model", "counting"}}}, parts, {.kept = kept});
}

/// Loads the newest checkpoint, checks its elements and returns its step.
std::uint64_t checked_step(std::string const& folder) {
  auto const found = read_checkpoint(folder);
  CHECK(found.passed_over().empty());
  counting_state read, expected;
  expected.count_to(found.step());
  named_tensor const into[] = {read.tensor(1), read.tensor(0)};
  found.load(into);
  CHECK(read.elements[0] == expected.elements[0]);
  CHECK(read.elements[1] == expected.elements[1]);
  return found.step();
}

std::size_t count_of(std::string const& folder, std::string const& ending) {
  std::size_t count = 0;
  for (auto const& [name, text] : texts_in(folder)) count += name.ends_with(ending) ? 1 : 0;
  return count;
}

/// Writes checkpoints from `step` on in another process and kills it after `microseconds`. Returns the last
/// step that the process reported as complete, or the one before `step`.
std::uint64_t last_before_kill(std::string const& folder, std::uint64_t step, std::uint64_t microseconds) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  pid_t const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    try {
      for (auto now = step;; ++now) {
        write_counting(folder, now);
        if (write(ends[1], &now, sizeof now) != sizeof now) _exit(1);
      }
    } catch (...) {
      _exit(2);
    }
  }
  close(ends[1]);
  usleep(static_cast<useconds_t>(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  auto last = step - 1;
  while (read(ends[0], &step, sizeof step) == sizeof step) last = step;
  close(ends[0]);
  return last;
}

}  // namespace

TEST_CASE("complete_checkpoint: 200 kills at random moments leave the last complete checkpoint or the next") {
  scratch_folder const folder(scratch_folder::in_memory());
  testing::rng random(3);
  std::uint64_t step = 1, reported = 0;
  std::size_t within = 0, unreported = 0;
  using clock = std::chrono::steady_clock;
  auto const began = clock::now();
  while (step <= 20) write_counting(folder.path(), step++);
  auto const of_20 = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - began).count());
  step = checked_step(folder.path());
  auto longest = std::min<std::uint64_t>(500 + of_20 / 3, 6'000);
  for (int i = 0, in_vain = 0; i < 200; ++i) {
    auto const last = last_before_kill(folder.path(), step + 1, random.below(longest));
    in_vain = last == step ? in_vain + 1 : 0;
    if (in_vain == 10 && longest < 100'000) longest *= 2, in_vain = 0;  // a busy machine
    reported += last - step;
    within += count_of(folder.path(), ".unfinished") > 0 || count_of(folder.path(), ".part") % 2 == 1;
    auto const newest = checked_step(folder.path());
    REQUIRE(newest >= last);
    REQUIRE(newest <= last + 1);
    unreported += newest - last;
    step = newest;
  }
  MESSAGE(reported, " checkpoints, ", within, " kills within a file, ", unreported, " behind the manifest");
  CHECK(reported > 20);
  CHECK(within > 5);
  write_counting(folder.path(), step + 1);
  CHECK(texts_in(folder.path()).size() == 6);
}

TEST_CASE("complete_checkpoint: kills while writing to disk leave the last complete checkpoint or the next") {
  scratch_folder const folder;
  testing::rng random(4);
  std::uint64_t step = 1;
  write_counting(folder.path(), step);
  for (int i = 0; i < 8; ++i) {
    auto const last = last_before_kill(folder.path(), step + 1, random.below(60'000));
    auto const newest = checked_step(folder.path());
    CHECK(newest >= last);
    CHECK(newest <= last + 1);
    step = newest;
  }
}

TEST_CASE("complete_checkpoint: keeps the requested number of checkpoints and removes no other files") {
  scratch_folder const folder(scratch_folder::in_memory());
  testing::write_text(folder / "notes.txt", "the user's own");
  for (std::uint64_t step = 1; step <= 5; ++step) {
    write_counting(folder.path(), step, 3);
    auto const kept = std::min<std::uint64_t>(step, 3);
    CHECK(texts_in(folder.path()).size() == 3 * kept + 1);
    CHECK(read_checkpoint(folder.path(), {.serial = step - kept + 1}).step() == step - kept + 1);
  }
  write_counting(folder.path(), 6, 1);
  CHECK(texts_in(folder.path()).size() == 4);
  CHECK(checked_step(folder.path()) == 6);
}

TEST_CASE("complete_checkpoint: a damaged checkpoint does not count as one of those to keep") {
  scratch_folder const folder(scratch_folder::in_memory());
  for (std::uint64_t step = 1; step <= 2; ++step) write_counting(folder.path(), step, 2);
  for (auto const& [name, text] : texts_in(folder.path()))
    if (name.starts_with("step-2-rank-1")) std::filesystem::resize_file(folder / name, text.size() - 1);
  write_counting(folder.path(), 3, 2);
  CHECK(read_checkpoint(folder.path(), {.serial = 1}).step() == 1);
  CHECK(find_checkpoint_fault(folder.path(), {.serial = 2})->what == checkpoint_fault::kind::none);
  CHECK(texts_in(folder.path()).size() == 6);
}

TEST_CASE("complete_checkpoint: does not remove a file that a rank has written for the next step") {
  scratch_folder const folder(scratch_folder::in_memory());
  write_counting(folder.path(), 1, 1);
  checkpoint_part const ahead = write_rank(folder.path(), 3, 0);
  write_counting(folder.path(), 2, 1);
  checkpoint_part const parts[] = {ahead, write_rank(folder.path(), 3, 1)};
  complete_checkpoint(folder.path(), {3, {}}, parts, {.kept = 1});
  CHECK(checked_step(folder.path()) == 3);
}

TEST_CASE("write_checkpoint: a step that is written again with other elements is a new checkpoint") {
  scratch_folder const folder(scratch_folder::in_memory());
  testing::rng random(5);
  testing::owned_tensors state;
  state.add({"w"}, element_type::f32, {8});
  for (int i = 0; i < 3; ++i) {
    state.fill(random);
    write_checkpoint(folder.path(), {4, {}}, state.tensors);
    auto back = state;
    back.memory[0].assign(32, std::byte{0});
    back.tensors[0].tensor.data = back.memory[0].data();
    read_checkpoint(folder.path()).load(back.tensors);
    CHECK(back.memory == state.memory);
    CHECK(!find_checkpoint_fault(folder.path(), {.serial = static_cast<std::uint64_t>(std::max(i, 1))}));
  }
  write_checkpoint(folder.path(), {4, {}}, state.tensors);
  CHECK(texts_in(folder.path()).size() == 3);
}

TEST_CASE("write_checkpoint_part: ranks in threads write and load at the same time") {
  scratch_folder const folder(scratch_folder::in_memory());
  for (std::uint64_t step = 1; step <= 3; ++step) {
    checkpoint_part parts[4];
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < 4; ++r)
      threads.emplace_back([&, r] {
        std::vector<std::uint64_t> mine(50, 10 * step + r);
        named_tensor const state{{"w" + std::to_string(r)}, {mine.data(), element_type::i64, {50}}};
        parts[r] = write_checkpoint_part(folder.path(), step, rank_id{r}, std::span(&state, 1));
      });
    for (auto& t : threads) t.join();
    complete_checkpoint(folder.path(), {step, {}}, parts);
    auto const found = read_checkpoint(folder.path());
    threads.clear();
    std::vector<std::vector<std::uint64_t>> loaded(4, std::vector<std::uint64_t>(50));
    for (std::uint32_t r = 0; r < 4; ++r)
      threads.emplace_back([&, r] {
        named_tensor const into{{"w" + std::to_string(r)}, {loaded[r].data(), element_type::i64, {50}}};
        found.load(std::span(&into, 1));
      });
    for (auto& t : threads) t.join();
    for (std::uint32_t r = 0; r < 4; ++r) CHECK(loaded[r] == std::vector<std::uint64_t>(50, 10 * step + r));
  }
}

TEST_CASE("write_checkpoint_part: equal states give the same file") {
  scratch_folder const folder(scratch_folder::in_memory());
  CHECK(write_rank(folder.path(), 1, 0) == write_rank(folder.path(), 1, 0));
  CHECK(texts_in(folder.path()).size() == 1);
  CHECK(write_rank(folder.path(), 1, 0) != write_rank(folder.path(), 2, 0));
}

TEST_CASE("complete_checkpoint: rejects files of ranks that do not form a checkpoint") {
  scratch_folder const folder(scratch_folder::in_memory());
  auto const zero = write_rank(folder.path(), 5, 0), one = write_rank(folder.path(), 5, 1);
  auto const complete = [&](std::vector<checkpoint_part> const& parts, std::uint64_t step = 5,
                            std::vector<checkpoint_note> const& notes = {}) {
    auto const said = error_text([&] { complete_checkpoint(folder.path(), {step, notes}, parts); });
    CHECK((said == "accepted") == (count_of(folder.path(), ".manifest") == 1));
    return said;
  };
  auto const in = "checkpoint '" + folder.path() + "': ";
  CHECK(complete({}) == in + "step 5 has no file of any rank");
  CHECK(complete({zero, one}, 6) == in + "rank 0's file is of step 5, but the checkpoint is of step 6");
  CHECK(complete({zero, one, zero}) == in + "step 5 has two files of rank 0");
  auto other = one;
  other.index.low ^= 1;
  CHECK(complete({zero, other}) ==
        "checkpoint '" + (folder / part_name(other)) +
            "': the manifest names this file, but it does not exist; copy it to the folder");
  other = one;
  other.bytes += 8;
  CHECK(complete({zero, other})
            .ends_with(" bytes, but the manifest expects " + std::to_string(other.bytes) +
                       "; it was cut short"));
  counting_state state;
  named_tensor const same = state.tensor(0);
  auto const twice = write_checkpoint_part(folder.path(), 5, rank_id{7}, std::span(&same, 1));
  CHECK(complete({one, twice, zero}) ==
        in + "'of rank 0' is stored by ranks 7 and 0; a shared tensor must be written by one rank only");
  CHECK(complete({zero, one}, 5, {{"a", "1"}, {"b", "1"}, {"a", "2"}}) ==
        in + "the key of a note is repeated: 'a'");
  CHECK(complete({zero, one}, 5, {{"", "1"}}) == in + "a note has no key");
  CHECK(complete({zero, one}, 5, {{"a", "\xff"}}) == in + "the note 'a' is not UTF-8");
  CHECK(complete({zero, one}) == "accepted");
}

TEST_CASE("write_checkpoint: rejects an invalid state before it makes a file") {
  scratch_folder const folder;
  std::vector<named_tensor> const state{{{"a"}, {nullptr, element_type::f32, {1}}}};
  CHECK_THROWS_AS(write_checkpoint(folder.path(), {}, state), named_tensor_error);
  CHECK(texts_in(folder.path()).empty());
}

TEST_CASE("complete_checkpoint: follows no symbolic link at the name of an unfinished file") {
  scratch_folder const folder(scratch_folder::in_memory());
  testing::write_text(folder / "victim", "somebody's");
  auto const mark = "." + std::to_string(getpid());
  for (auto const* stem : {"step-1-rank-0", "step-1-rank-1", "checkpoint-00000001-step-1"})
    for (auto const* begun : {".unfinished", "-0.unfinished", "-1.unfinished"})
      std::filesystem::create_symlink(folder / "victim", folder / (stem + mark + begun));
  write_counting(folder.path(), 1);
  CHECK(checked_step(folder.path()) == 1);
  CHECK(project::text_of(folder / "victim") == "somebody's");
  for (auto const& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().extension() == ".part" || entry.path().extension() == ".manifest")
      CHECK(!entry.is_symlink());
}

TEST_CASE("complete_checkpoint: a full disk or a missing folder leaves the previous checkpoint whole") {
  scratch_folder const folder(scratch_folder::in_memory());
  write_counting(folder.path(), 1);
  auto const before = texts_in(folder.path());
  auto const limited = testing::in_child([&] {
    rlimit const size{1'000, 1'000};
    setrlimit(RLIMIT_FSIZE, &size);
    signal(SIGXFSZ, SIG_IGN);
    return error_text([&] { write_counting(folder.path(), 3); });
  });
  CHECK(limited.said.ends_with("cannot be written: File too large"));
  CHECK(texts_in(folder.path()).size() == before.size());
  CHECK(checked_step(folder.path()) == 1);

  CHECK(error_text([&] { write_counting(folder / "missing", 1); }).ends_with("No such file or directory"));
  testing::write_text(folder / "file", "");
  CHECK(error_text([&] { write_counting(folder / "file", 1); }).ends_with("Not a directory"));
  if (geteuid() != 0) {
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0500));
    CHECK(error_text([&] { write_counting(folder.path(), 3); }).ends_with("Permission denied"));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0700));
  }
  CHECK(checked_step(folder.path()) == 1);
}
