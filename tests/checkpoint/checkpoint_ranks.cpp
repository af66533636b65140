// SPDX-License-Identifier: MIT
#include "cleave/checkpoint/checkpoint_ranks.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
#include "support/checkpoint_folder.hpp"
#include "support/random_tensors.hpp"
#include "support/rng.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;
using namespace std::chrono_literals;
using testing::scratch_folder;

static_assert(ranked_rendezvous<tcp_rendezvous>);

namespace {

/// Runs `f` on each rank of a rendezvous, in a thread of its own. Returns each rank's error, or "accepted".
template <class F>
std::vector<std::string> at_rendezvous(std::uint32_t ranks, F f) {
  tcp_rendezvous_options options{.key = "known to all of these"};
  options.join_within = 60s;
  tcp_listener listener;
  auto const at = listener.address();
  std::vector<std::string> said(ranks, "accepted");
  auto const run = [&](tcp_rendezvous& b) {
    try {
      f(b);
    } catch (error const& e) {
      said[index(b.rank())] = e.what();
    }
    b.leave(std::chrono::steady_clock::now() + 5s);
  };
  std::vector<std::thread> threads;
  for (std::uint32_t r = 1; r < ranks; ++r)
    threads.emplace_back([&, r] {
      tcp_rendezvous b(rank_id{r}, ranks, at, options);
      run(b);
    });
  {
    tcp_rendezvous b(std::move(listener), ranks, options);
    run(b);
  }
  for (auto& t : threads) t.join();
  return said;
}

auto soon() { return std::chrono::steady_clock::now() + 60s; }

/// The tensor of one rank: `w0`, `w1`, …, with all elements equal to `step`.
struct rank_state {
  std::vector<std::int32_t> elements = std::vector<std::int32_t>(100);
  std::vector<named_tensor> tensors;

  explicit rank_state(rank_id rank, std::int32_t step = 0) {
    elements.assign(elements.size(), step);
    auto const name = "w" + std::to_string(index(rank));
    tensors.push_back({{name}, {elements.data(), element_type::i32, {100}}});
  }
};

void write_step(scratch_folder const& folder, std::uint32_t ranks, std::uint64_t step) {
  auto const said = at_rendezvous(ranks, [&](tcp_rendezvous& b) {
    rank_state const mine(b.rank(), static_cast<std::int32_t>(step));
    write_checkpoint(b, folder.path(), {step, {}}, mine.tensors, soon());
  });
  CHECK(said == std::vector<std::string>(ranks, "accepted"));
}

}  // namespace

TEST_CASE("load_checkpoint: a checkpoint of 3 ranks loads on 1, 2 and 5 ranks") {
  scratch_folder const folder(scratch_folder::in_memory());
  testing::rng random(1);
  auto const state = testing::random_tensors(random, 30);
  auto const share = [&](std::vector<named_tensor> const& all, tcp_rendezvous const& b) {
    std::vector<named_tensor> mine;
    for (std::size_t i = index(b.rank()); i < all.size(); i += b.size()) mine.push_back(all[i]);
    return mine;
  };
  at_rendezvous(3, [&](tcp_rendezvous& b) {
    CHECK(write_checkpoint(b, folder.path(), {12, {}}, share(state.tensors, b), soon()) == 1);
  });
  for (std::uint32_t const ranks : {1u, 2u, 5u}) {
    auto loaded = state;
    for (std::size_t i = 0; i < loaded.memory.size(); ++i) {
      loaded.memory[i].assign(loaded.memory[i].size(), std::byte{0});
      loaded.tensors[i].tensor.data = loaded.memory[i].data();
    }
    auto const said = at_rendezvous(ranks, [&](tcp_rendezvous& b) {
      auto const found = load_checkpoint(b, folder.path(), share(loaded.tensors, b), soon());
      CHECK(found.step() == 12);
    });
    CHECK(said == std::vector<std::string>(ranks, "accepted"));
    CHECK(loaded.memory == state.memory);
  }
}

TEST_CASE("write_checkpoint: if one rank cannot write, no checkpoint is made and every rank reports why") {
  scratch_folder const folder(scratch_folder::in_memory());
  write_step(folder, 3, 1);
  auto said = at_rendezvous(3, [&](tcp_rendezvous& b) {
    rank_state mine(b.rank());
    if (b.rank() == rank_id{1}) mine.tensors[0].names.clear();
    write_checkpoint(b, folder.path(), {2, {}}, mine.tensors, soon());
  });
  auto const in = "checkpoint '" + folder.path() + "': rank ";
  CHECK(said[0] == in + "1 has not written its file of step 2; see the error of that rank");
  CHECK(said[1].starts_with("state: tensor 0 has no name"));
  CHECK(said[2] == said[0]);
  CHECK(read_checkpoint(folder.path()).step() == 1);

  said = at_rendezvous(3, [&](tcp_rendezvous& b) {
    rank_state const mine(rank_id{7}, 2);
    write_checkpoint(b, folder.path(), {2, {}}, mine.tensors, soon());
  });
  CHECK(said[0].find("'w7' is stored by ranks 0 and 1") != std::string::npos);
  CHECK(said[1] == in + "0 has not completed step 2; see the error of that rank");
  CHECK(said[2] == said[1]);
  CHECK(read_checkpoint(folder.path()).step() == 1);

  said = at_rendezvous(2, [&](tcp_rendezvous& b) {
    rank_state const mine(b.rank(), 2);
    write_checkpoint(b, folder.path(), {2 + index(b.rank()), {}}, mine.tensors, soon());
  });
  CHECK(said[0].find("rank 1's file is of step 3, but the checkpoint is of step 2") != std::string::npos);
  CHECK(read_checkpoint(folder.path()).step() == 1);
}

TEST_CASE("load_checkpoint: if one rank cannot load, no rank loads anything") {
  scratch_folder const folder(scratch_folder::in_memory());
  write_step(folder, 3, 5);
  auto const load = [&] {
    return at_rendezvous(3, [&](tcp_rendezvous& b) {
      rank_state mine(b.rank());
      if (b.rank() == rank_id{2}) mine.tensors[0].names = {"w3"};
      try {
        load_checkpoint(b, folder.path(), mine.tensors, soon());
      } catch (error const&) {
        CHECK(mine.elements == std::vector<std::int32_t>(100));
        throw;
      }
    });
  };
  auto said = load();
  auto const in = "checkpoint '" + folder.path() + "': ";
  CHECK(said[2].find("no tensor is called 'w3'; nearest: 'w0', 'w1', 'w2'") != std::string::npos);
  CHECK(said[0] == in + "rank 2 cannot load its tensors; see the error of that rank");
  CHECK(said[1] == said[0]);

  for (auto const& [name, text] : testing::texts_in(folder.path())) std::filesystem::remove(folder / name);
  said = load();
  CHECK(said[0].starts_with(in + "it has no checkpoint"));
  CHECK(said[1] == in + "rank 0 cannot load its tensors; see the error of that rank");
}

TEST_CASE("resume_from_checkpoint: begins anew only if the folder is there and has no checkpoint") {
  scratch_folder const folder(scratch_folder::in_memory());
  auto const resume = [&](std::string const& where, std::vector<std::uint64_t>& steps) {
    steps.assign(2, 99);
    return at_rendezvous(2, [&](tcp_rendezvous& b) {
      rank_state mine(b.rank(), 7);
      auto const found = resume_from_checkpoint(b, where, mine.tensors, soon());
      steps[index(b.rank())] = found ? found->step() : 0;
      CHECK(mine.elements ==
            std::vector<std::int32_t>(100, found ? static_cast<std::int32_t>(found->step()) : 7));
    });
  };
  std::vector<std::uint64_t> steps;
  std::vector<std::string> const accepted(2, "accepted");
  CHECK(resume(folder.path(), steps) == accepted);
  CHECK(steps == std::vector<std::uint64_t>{0, 0});

  rank_state const part(rank_id{0}, 3);
  write_checkpoint_part(folder.path(), 3, rank_id{0},
                        part.tensors);  // a run that ended before all had written
  CHECK(resume(folder.path(), steps) == accepted);
  CHECK(steps == std::vector<std::uint64_t>{0, 0});

  write_step(folder, 2, 3);
  CHECK(resume(folder.path(), steps) == accepted);
  CHECK(steps == std::vector<std::uint64_t>{3, 3});

  for (auto const& [name, text] : testing::texts_in(folder.path()))
    if (name.ends_with(".part")) testing::write_text(folder / name, text + "x");
  auto said = resume(folder.path(), steps);
  CHECK(said[0].find("but the manifest expects") != std::string::npos);
  CHECK(said[1].find("rank 0 cannot load its tensors") != std::string::npos);

  said = resume(folder.path() + "/none", steps);
  CHECK(said[0].find("it cannot be read as a folder") != std::string::npos);
  CHECK(steps == std::vector<std::uint64_t>{99, 99});
}

TEST_CASE("load_checkpoint: all ranks skip a checkpoint with a damaged file") {
  scratch_folder const folder(scratch_folder::in_memory());
  write_step(folder, 2, 1);
  write_step(folder, 2, 2);
  for (auto const& [name, text] : testing::texts_in(folder.path()))
    if (name.starts_with("step-2-rank-1")) {
      auto altered = text;
      altered.back() = static_cast<char>(altered.back() ^ 1);
      testing::write_text(folder / name, altered);
    }
  at_rendezvous(2, [&](tcp_rendezvous& b) {
    rank_state mine(b.rank());
    CHECK(load_checkpoint(b, folder.path(), mine.tensors, soon()).step() == 1);
    CHECK(mine.elements == std::vector<std::int32_t>(100, 1));
  });
}

TEST_CASE("write_checkpoint: a rank that leaves ends the wait of the others, and no checkpoint is made") {
  scratch_folder const folder(scratch_folder::in_memory());
  write_step(folder, 2, 1);
  auto const said = at_rendezvous(2, [&](tcp_rendezvous& b) {
    rank_state const mine(b.rank(), 2);
    if (b.rank() == rank_id{1}) return;
    write_checkpoint(b, folder.path(), {2, {}}, mine.tensors, std::chrono::steady_clock::now() + 5s);
  });
  CHECK(said[0] != "accepted");
  CHECK(read_checkpoint(folder.path()).step() == 1);
}

TEST_CASE("write_checkpoint: after any process is killed, the others stop and the last checkpoint is whole") {
  scratch_folder const folder(scratch_folder::in_memory());
  testing::rng random(8);
  constexpr std::uint32_t ranks = 3;
  write_step(folder, ranks, 1);
  std::uint64_t step = 1;
  for (std::uint32_t round = 0; round < 6; ++round) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    tcp_listener listener;
    auto const at = listener.address();
    auto const write_steps = [&](tcp_rendezvous& b) {
      for (auto now = step + 1;; ++now) {
        rank_state const mine(b.rank(), static_cast<std::int32_t>(now));
        write_checkpoint(b, folder.path(), {now, {}}, mine.tensors, soon());
        if (b.rank() == rank_id{0} && write(ends[1], &now, sizeof now) != sizeof now) _exit(9);
      }
    };
    std::vector<pid_t> processes;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      processes.push_back(fork());
      REQUIRE(processes.back() >= 0);
      if (processes.back() > 0) continue;
      try {
        tcp_rendezvous_options const options{.key = "known to all of these"};
        if (r == 0) {
          tcp_rendezvous b(std::move(listener), ranks, options);
          write_steps(b);
        } else {
          tcp_rendezvous b(rank_id{r}, ranks, at, options);
          write_steps(b);
        }
      } catch (run_error const&) {
        _exit(3);
      } catch (...) {
        _exit(4);
      }
    }
    close(ends[1]);
    auto last = step;
    for (auto n = 1 + random.below(5); n > 0 && read(ends[0], &last, sizeof last) == sizeof last; --n)
      continue;
    usleep(static_cast<useconds_t>(random.below(3'000)));
    auto const victim = round % ranks;
    kill(processes[victim], SIGKILL);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      int status = 0;
      waitpid(processes[r], &status, 0);
      if (r == victim)
        CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
      else
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 3));
    }
    while (read(ends[0], &last, sizeof last) == sizeof last) continue;
    close(ends[0]);
    CHECK(last > step);
    auto const found = read_checkpoint(folder.path());
    CHECK(found.passed_over().empty());
    CHECK(found.step() >= last);
    CHECK(found.step() <= last + 1);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      rank_state mine(rank_id{r});
      found.load(mine.tensors);
      CHECK(mine.elements == std::vector<std::int32_t>(100, static_cast<std::int32_t>(found.step())));
    }
    step = found.step();
  }
}
