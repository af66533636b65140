// SPDX-License-Identifier: MIT
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cleave/checkpoint/checkpoint_ranks.hpp"
#include "cleave/run/rendezvous/process_start.hpp"

/// The program that run.sh starts as ranks without MPI, by hand or by torchrun. It reads its rank from the
/// environment. The first argument is one of the cases in `main`.
namespace {

using namespace cleave;
using namespace std::chrono_literals;
using arguments = std::span<std::string const>;

auto in(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

void say(std::string const& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

tcp_rendezvous join(std::string const& milliseconds) {
  tcp_rendezvous_options o;
  o.join_within = std::chrono::milliseconds(std::stol(milliseconds));
  return join_rendezvous(read_process_start(), o);
}

/// Argument: the time limit of the join in ms. All ranks exchange the names of their hosts.
void meet(arguments a) {
  auto rendezvous = join(a[0]);
  std::string all;
  for (std::uint32_t r = 0; r < rendezvous.size(); ++r) {
    std::array<char, 64> name{};
    if (rank_id{r} == rendezvous.rank()) ::gethostname(name.data(), name.size() - 1);
    rendezvous.broadcast(std::as_writable_bytes(std::span(name)), rank_id{r}, in(20s));
    all += std::string(" ") + name.data();
  }
  say("rank " + std::to_string(index(rendezvous.rank())) + " met" + all);
}

/// Argument: `busy` or `idle`. Meets again and again, or waits for a failure without a message.
void stay(arguments a) {
  auto rendezvous = join("20000");
  rendezvous.barrier(in(20s));
  say("joined");
  if (a[0] == "idle") rendezvous.wait_until(in(100s));
  while (!rendezvous.poll()) {
    std::this_thread::sleep_for(1ms);
    rendezvous.barrier(in(100s));
  }
  throw run_error(*rendezvous.poll());
}

/// Binds the port of name servers and never answers.
void be_silent(arguments) {
  int const s = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(53);
  if (::bind(s, reinterpret_cast<sockaddr const*>(&at), sizeof at) != 0) throw error("cannot bind port 53");
  say("silent");
  std::this_thread::sleep_for(100s);
}

/// Arguments: a folder, the number of steps, and optionally a rank and a step. Ranks hold slices of one
/// vector, whose every element depends on the sum of all slices, and write a checkpoint each third step.
/// Started without a checkpoint, the given rank is killed in the given step.
void train(arguments a) {
  auto rendezvous = join("20000");
  std::string const mine = std::to_string(index(rendezvous.rank()));
  std::vector<double> slice(4, 1.0 / (1 + index(rendezvous.rank())));
  named_tensor const state{{"slice" + mine}, {slice.data(), element_type::f64, {4}}};
  auto const saved = resume_from_checkpoint(rendezvous, a[0], std::span(&state, 1), in(20s));
  auto const first = saved ? saved->step() + 1 : 1;
  say("rank " + mine + " begins with step " + std::to_string(first));
  for (auto step = first; step <= std::stoull(a[1]); ++step) {
    if (!saved && a.size() > 3 && mine == a[2] && std::to_string(step) == a[3]) ::kill(::getpid(), SIGKILL);
    double sum = 0;
    for (std::uint32_t r = 0; r < rendezvous.size(); ++r) {
      auto theirs = slice;
      rendezvous.broadcast(std::as_writable_bytes(std::span(theirs)), rank_id{r}, in(20s));
      for (double const x : theirs) sum += x;
    }
    for (std::size_t i = 0; i < slice.size(); ++i)
      slice[i] = 0.7 * slice[i] + 0.1 / (sum + static_cast<double>(step * (i + 1) % 5));
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%a", sum);
    if (mine == "0") say("step " + std::to_string(step) + ", loss " + text.data());
    if (step % 3 == 0) write_checkpoint(rendezvous, a[0], {step, {}}, std::span(&state, 1), in(20s));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> const given(argv + 1, argv + argc);
  std::map<std::string, void (*)(arguments)> const cases{
      {"meet", meet}, {"stay", stay}, {"silent", be_silent}, {"train", train}};
  auto const begin = std::chrono::steady_clock::now();
  try {
    cases.at(given.at(0))(std::span(given).subspan(1));
    return 0;
  } catch (std::exception const& e) {
    auto const took =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    say("ends after " + std::to_string(took.count()) + " ms: " + e.what());
    return 1;
  }
}
