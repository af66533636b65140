// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "cleave/mpi/pipeline.hpp"
#include "rank_case.hpp"

namespace cleave::testing {

using namespace detail;

namespace {

using namespace std::chrono_literals;

/// Issues the group that `f` makes and waits for it; returns the failure of the run, if any.
template <class F>
std::optional<failure> failure_of(mpi_communicator& c, cleave::mpi::device& d, F f) {
  auto s = d.make_stream(0);
  mpi_event end;
  try {
    c.begin_group();
    f(s);
    c.end_group(end, s);
    d.wait(s, end);
  } catch (run_error const& e) {
    return e.info;
  }
  return std::nullopt;
}

/// Rank 0 sends a message that rank 1 does not expect. Rank 0 may not notice: the message was received.
void disagree_once(cleave::mpi::environment const& mpi, std::string const& name, std::uint32_t sent,
                   std::size_t sent_bytes, std::uint32_t expected, std::size_t expected_bytes) {
  cleave::mpi::device d;
  mpi_communicator c(MPI_COMM_WORLD, d);
  std::vector<std::byte> memory(1'000'000);
  stage_call const of{stage_id{3}, microbatch_id{5}};
  auto const f = failure_of(c, d, [&](cleave::mpi::device::stream& s) {
    if (mpi.rank() == rank_id{0})
      c.send({memory.data(), sent_bytes, element_type::u8}, {rank_id{1}, sent, of}, s);
    else if (mpi.rank() == rank_id{1})
      c.receive({memory.data(), expected_bytes, element_type::u8}, {rank_id{0}, expected, of}, s);
  });
  must(f.has_value() == (mpi.rank() == rank_id{1}), name + ": the receiver notices");
  if (!f) return;
  must(f->code == failure_code::mismatch && f->reporter == rank_id{1} && f->culprit == rank_id{0} &&
           f->at == of && c.poll(),
       name + ": both ends are named");
  say(name + ": " + describe(*f));
}

void disagree_in_reductions(cleave::mpi::environment const& mpi, cleave::mpi::reductions how,
                            std::string const& name) {
  cleave::mpi::device d;
  mpi_communicator c(MPI_COMM_WORLD, d, {.reductions = how});
  std::vector<float> memory(100);
  bool const odd = mpi.rank() == rank_id{1};
  auto const f = failure_of(c, d, [&](cleave::mpi::device::stream& s) {
    c.all_reduce({memory.data(), odd ? std::size_t{7} : std::size_t{8}, element_type::f32}, reduce_op::sum, 4,
                 s);
  });
  must(f && f->code == failure_code::mismatch && f->reporter == mpi.rank() && f->culprit != no_rank,
       name + ": every rank notices");
  say(name + ": " + describe(*f));
}

}  // namespace

int disagree(cleave::mpi::environment& mpi, rank_arguments) {
  disagree_once(mpi, "number", 17, 400, 18, 400);
  disagree_once(mpi, "short", 17, 40, 17, 400);
  disagree_once(mpi, "long", 17, 400, 17, 40);
  disagree_once(mpi, "very long", 17, 1'000'000, 17, 500'000);
  disagree_in_reductions(mpi, cleave::mpi::reductions::library, "reduction by the library");
  disagree_in_reductions(mpi, cleave::mpi::reductions::ordered, "reduction in order");
  mpi.leave(3);
}

int give_up(cleave::mpi::environment& mpi, rank_arguments) {
  using clock = std::chrono::steady_clock;
  cleave::mpi::device d;
  mpi_communicator c(MPI_COMM_WORLD, d);
  auto half = c.split(index(mpi.rank()) % 2, 0);
  float x = 0;
  clock::time_point gave_up;
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    gave_up = clock::now();
    half.abort({.code = failure_code::cancelled, .detail = "the caller has enough"});
    half.abort({.code = failure_code::timeout, .detail = "too late to count"});
  });
  auto const f = failure_of(c, d, [&](cleave::mpi::device::stream& s) {
    c.receive({&x, 1, element_type::f32}, {rank_id{(index(mpi.rank()) + 1) % mpi.size()}, 1, {}}, s);
  });
  auto const released = clock::now();
  other.join();
  must(f && f->code == failure_code::cancelled && f->detail == "the caller has enough",
       "the first failure counts");
  must(released - gave_up < 2s, "whoever waits is released");
  auto const later = failure_of(half, d, [](cleave::mpi::device::stream&) {});
  must(later && later->detail == f->detail, "now and later");
  say("released");
  mpi.leave(4);
}

int end_badly(cleave::mpi::environment& mpi, rank_arguments arguments) {
  if (arguments[0] == "throw") {
    if (mpi.rank() == rank_id{1}) throw std::runtime_error("out of paper");
    std::this_thread::sleep_for(100ms);  // like a rank that waits for rank 1 and learns that it ended
    throw std::runtime_error("heard of it");
  }
  if (arguments[0] == "controls") throw std::runtime_error("two\nlines in \x1b[31mred");
  if (mpi.rank() == rank_id{1}) std::this_thread::sleep_for(60s);  // the other waits in MPI_Finalize
  return 0;
}

int need_threads(cleave::mpi::environment& mpi, rank_arguments) {
  say(cleave::mpi::environment::thread_level_message(MPI_THREAD_FUNNELED));
  must(cleave::mpi::environment().size() == mpi.size(), "where MPI has begun, it is used and left as it is");
  int ended = 1;
  MPI_Finalized(&ended);
  must(ended == 0, "by the second environment");
  MPI_Finalize();
  try {
    cleave::mpi::environment again;
  } catch (mpi_error const& e) {
    say(e.what());
    mpi.leave(0);
  }
  throw std::runtime_error("MPI began twice");
}

}  // namespace cleave::testing
