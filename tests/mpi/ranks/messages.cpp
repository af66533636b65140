// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "cleave/mpi/pipeline.hpp"
#include "rank_case.hpp"
#include "support/device_promises.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

namespace {

struct planned_message {
  std::uint32_t from, to, number;
  std::size_t bytes;
};

std::byte payload(std::uint32_t number, std::size_t i) {
  return static_cast<std::byte>((number * 2654435761u + i * 40503u) >> 7);
}

/// The messages of one round; no rank sends to itself.
std::vector<planned_message> random_round(rng& r, std::uint32_t ranks, std::uint32_t& number) {
  static constexpr std::size_t lengths[] = {0, 1, 17, 400, 4000, 5000, 70'000, 300'000};
  std::vector<planned_message> all(r.below(2 * ranks) + 1);
  for (auto& m : all) {
    m.from = static_cast<std::uint32_t>(r.below(ranks));
    m.to = static_cast<std::uint32_t>((m.from + 1 + r.below(ranks - 1)) % ranks);
    m.number = number++;
    m.bytes = lengths[r.below(r.one_in(8) ? 8 : 6)];
  }
  return all;
}

/// The messages of a round that this rank has issued and that may not have ended.
struct open_round {
  mpi_event end;
  std::vector<planned_message> arriving;
  std::vector<std::vector<std::byte>> memory;
};

void check_arrived(open_round const& o) {
  for (std::size_t i = 0; i < o.arriving.size(); ++i)
    for (std::size_t b = 0; b < o.arriving[i].bytes; ++b)
      must(o.memory[i][b] == payload(o.arriving[i].number, b),
           "byte " + std::to_string(b) + " of message " + std::to_string(o.arriving[i].number));
}

void run_rounds(mpi_communicator& c, cleave::mpi::device& d, std::uint64_t seed, std::uint32_t rounds) {
  rng shared(seed), own(seed * 100 + index(c.rank()));  // the same plan on all ranks, own delays
  auto s = d.make_stream(0);
  std::deque<open_round> open;
  std::uint32_t number = 0;
  auto const close_one = [&] {
    d.wait(s, open.front().end);
    check_arrived(open.front());
    open.pop_front();
  };
  for (std::uint32_t n = 0; n < rounds; ++n) {
    auto const all = random_round(shared, c.size(), number);
    auto& o = open.emplace_back();
    o.memory.reserve(all.size());
    c.begin_group();
    for (auto const& m : all) {
      if (rank_id{m.from} != c.rank() && rank_id{m.to} != c.rank()) continue;
      stage_call const of{stage_id{m.to}, microbatch_id{n}};
      auto& memory = o.memory.emplace_back(m.bytes);
      if (rank_id{m.from} == c.rank()) {
        for (std::size_t b = 0; b < m.bytes; ++b) memory[b] = payload(m.number, b);
        c.send({memory.data(), m.bytes, element_type::u8}, {rank_id{m.to}, m.number, of}, s);
        o.arriving.push_back({});  // has no bytes: there is nothing to check
      } else {
        c.receive({memory.data(), m.bytes, element_type::u8}, {rank_id{m.from}, m.number, of}, s);
        o.arriving.push_back(m);
      }
    }
    c.end_group(o.end, s);
    if (own.one_in(16)) std::this_thread::sleep_for(std::chrono::microseconds(own.below(300)));
    while (open.size() > own.below(5)) close_one();
  }
  while (!open.empty()) close_one();
}

}  // namespace

int exchange_messages(cleave::mpi::environment& mpi, rank_arguments arguments) {
  auto const rounds = static_cast<std::uint32_t>(std::stoul(arguments[0]));
  cleave::mpi::device alone;
  for (auto const& promise : device_promises(alone).broken())
    must(false, "every device promises: " + promise);
  for (auto const sends : {cleave::mpi::sends::synchronous, cleave::mpi::sends::standard})
    for (std::size_t const piece : {std::size_t{1} << 30, std::size_t{999}}) {
      cleave::mpi::device d;
      mpi_communicator all(MPI_COMM_WORLD, d, {.sends = sends, .longest_piece = piece});
      must(all.rank() == mpi.rank() && all.size() == mpi.size(), "the communicator has the ranks of MPI");
      run_rounds(all, d, rng(piece).next(), rounds);
      if (mpi.size() < 4) continue;
      auto half = all.split(index(mpi.rank()) % 2, 100 - index(mpi.rank()));  // reverses the order
      must(half.size() == mpi.size() / 2 && half.member(half.rank()) == mpi.rank(), "split by colour");
      must(index(half.member(rank_id{0})) > index(half.member(rank_id{1})), "and in the order of the keys");
      run_rounds(half, d, rng(piece).next() + index(mpi.rank()) % 2, rounds / 4);
    }
  if (mpi.rank() == rank_id{0}) say("messages arrived");
  return 0;
}

}  // namespace cleave::testing
