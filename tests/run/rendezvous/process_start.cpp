// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/process_start.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

using variables = std::map<std::string, std::string>;

/// Environment variables given by a test.
struct given {
  variables all;
  char const* operator()(char const* name) const {
    auto const at = all.find(name);
    return at == all.end() ? nullptr : at->second.c_str();
  }
};

std::string const key = "0123456789abcdef0123456789abcdef";

given launched(variables v) {
  v.try_emplace("CLEAVE_KEY", key);
  return {std::move(v)};
}

given torchrun() {
  return launched({{"RANK", "5"},
                   {"WORLD_SIZE", "8"},
                   {"LOCAL_RANK", "1"},
                   {"LOCAL_WORLD_SIZE", "4"},
                   {"MASTER_ADDR", "node1.example"},
                   {"MASTER_PORT", "29500"}});
}

std::string message_of(given const& e) {
  auto const found = find_start_fault(e);
  try {
    read_process_start(e);
  } catch (start_error const& thrown) {
    REQUIRE(found);
    CHECK(thrown.witness == *found);
    CHECK(thrown.what() == "start of ranks: " + found->message);
    return found->variable + "|" + found->message;
  }
  CHECK(!found);
  return "";
}

process_start start_of(variables v) { return read_process_start(launched(std::move(v))); }

}  // namespace

TEST_CASE("read_process_start: reads rank and meeting point from each launcher's variables") {
  auto const port = port_of_key(key);
  CHECK(read_process_start(torchrun()) == process_start{rank_id{5}, 8, 1, {"node1.example", port}, key});
  CHECK(start_of({{"OMPI_COMM_WORLD_RANK", "2"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}) ==
        process_start{rank_id{2}, 4, 2, {"127.0.0.1", port}, key});
  CHECK(start_of({{"PMI_RANK", "0"},
                  {"PMI_SIZE", "2"},
                  {"MPI_LOCALRANKID", "0"},
                  {"MPI_LOCALNRANKS", "1"},
                  {"CLEAVE_HOST", "10.0.0.7"},
                  {"CLEAVE_PORT", "4000"}}) == process_start{rank_id{0}, 2, 0, {"10.0.0.7", 4000}, key});
  CHECK(start_of({{"SLURM_PROCID", "9"},
                  {"SLURM_STEP_NUM_TASKS", "16"},
                  {"SLURM_LOCALID", "1"},
                  {"SLURM_STEP_NODELIST", "gpu[003-004]"}}) ==
        process_start{rank_id{9}, 16, 1, {"gpu003", port}, key});
}

TEST_CASE("read_process_start: prefers the inner of nested launchers") {
  auto e = torchrun();
  e.all.insert({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  CHECK(read_process_start(e).rank == rank_id{5});
}

TEST_CASE(
    "read_process_start: CLEAVE_HOST overrides the launcher's host, unless all ranks share one machine") {
  auto e = torchrun();
  e.all["CLEAVE_HOST"] = "fe80::1";
  CHECK(read_process_start(e).meeting.host == "fe80::1");
  e.all["LOCAL_WORLD_SIZE"] = "8";  // all ranks are on one machine
  CHECK(read_process_start(e).meeting.host == "127.0.0.1");
}

TEST_CASE("port_of_key: gives a port from 20000 to 31999, the same for the same key") {
  for (int i = 0; i < 1000; ++i) {
    auto const port = port_of_key(key + std::to_string(i));
    CHECK(port >= 20000);
    CHECK(port < 32000);
  }
  CHECK(port_of_key(key) == port_of_key(key));
}

TEST_CASE("read_process_start: an error names the variable and what is wrong with it") {
  auto const without = [](char const* name) {
    auto e = torchrun();
    e.all.erase(name);
    return message_of(e);
  };
  auto const with = [](char const* name, char const* text) {
    auto e = torchrun();
    e.all[name] = text;
    return message_of(e);
  };
  CHECK(message_of({}) ==
        "|cannot determine the rank of this process: none of RANK (torchrun), OMPI_COMM_WORLD_RANK (Open "
        "MPI), PMI_RANK (MPICH), SLURM_PROCID (srun) is set; start the program with one of these launchers, "
        "or pass a process_start");
  CHECK(without("WORLD_SIZE") == "WORLD_SIZE|WORLD_SIZE is not set, although torchrun sets it with RANK");
  CHECK(without("LOCAL_RANK") == "LOCAL_RANK|LOCAL_RANK is not set, although torchrun sets it with RANK");
  CHECK(without("CLEAVE_KEY") ==
        "CLEAVE_KEY|CLEAVE_KEY is not set; set it to the same secret on all ranks of a run, for example "
        "CLEAVE_KEY=$(openssl rand -hex 16)");
  CHECK(without("MASTER_ADDR") ==
        "CLEAVE_HOST|neither CLEAVE_HOST nor MASTER_ADDR is set; set CLEAVE_HOST to the name or address by "
        "which other ranks reach the host of rank 0");
  CHECK(with("RANK", "-1") == "RANK|RANK is '-1', which is not a valid number");
  CHECK(with("RANK", "") == "RANK|RANK is '', which is not a valid number");
  CHECK(with("WORLD_SIZE", "8 ") == "WORLD_SIZE|WORLD_SIZE is '8 ', which is not a valid number");
  CHECK(with("WORLD_SIZE", "4294967296") ==
        "WORLD_SIZE|WORLD_SIZE is '4294967296', which is not a valid number");
  CHECK(with("RANK", "8") == "RANK|RANK is 8, but WORLD_SIZE is 8; ranks are numbered from 0");
  CHECK(with("WORLD_SIZE", "0") == "RANK|RANK is 5, but WORLD_SIZE is 0; ranks are numbered from 0");
  CHECK(with("CLEAVE_KEY", "short") ==
        "CLEAVE_KEY|CLEAVE_KEY: the key of the rendezvous has 5 bytes; give it at least 16, as "
        "random_rendezvous_key() does");
  CHECK(with("CLEAVE_PORT", "65536") ==
        "CLEAVE_PORT|CLEAVE_PORT is '65536'; expected a port from 1 to 65535");
  CHECK(with("MASTER_ADDR", "node 1") ==
        "MASTER_ADDR|MASTER_ADDR is 'node 1', which is not a host name or IP address");
  CHECK(with("CLEAVE_HOST", "node1:80") ==
        "CLEAVE_HOST|CLEAVE_HOST is 'node1:80', which is not a host name or IP address");
  CHECK(with("LOCAL_WORLD_SIZE", "\x1b[1m") ==
        "LOCAL_WORLD_SIZE|LOCAL_WORLD_SIZE is '\\x1b[1m', which is not a valid number");
  CHECK(message_of(launched({{"SLURM_PROCID", "0"},
                             {"SLURM_STEP_NUM_TASKS", "2"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_JOB_NODELIST", "gpu[001"}})) ==
        "SLURM_JOB_NODELIST|SLURM_JOB_NODELIST is 'gpu[001', which does not begin with a host name");
}

TEST_CASE("join_rendezvous: processes that were started together join one rendezvous") {
  auto const secret = random_rendezvous_key();
  auto const port = tcp_listener().address().port;  // a port that was free a moment ago
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::vector<std::thread> processes;
  for (std::uint32_t r = 0; r < 3; ++r)
    processes.emplace_back([&, r] {
      auto rendezvous = join_rendezvous({rank_id{r}, 3, r, {"127.0.0.1", port}, secret});
      CHECK(rendezvous.rank() == rank_id{r});
      CHECK(rendezvous.size() == 3);
      rendezvous.barrier(until);
    });
  for (auto& p : processes) p.join();
}

TEST_CASE(
    "join_rendezvous: rank 0 is reached over IPv4 and IPv6, by number and by a name that has only one") {
  for (std::string const host : {"::1", "localhost", "ip6-localhost"}) {
    if (look_up_host({host, 1}).code != 0 || listen_everywhere(0).address().host != "::") continue;
    CAPTURE(host);
    auto const secret = random_rendezvous_key();
    auto const port = tcp_listener().address().port;
    auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::thread other([&] { join_rendezvous({rank_id{1}, 2, 0, {host, port}, secret}).barrier(until); });
    join_rendezvous({rank_id{0}, 2, 0, {host, port}, secret}).barrier(until);
    other.join();
  }
}
