// SPDX-License-Identifier: MIT
// Measures the links between MPI processes and writes them as a file of devices for `cleave place`:
// mpirun -n 3 --host desktop,laptop,board example_place_03_measure_links_mpi devices.json
// Each process is a device of speed 1; edit the speeds, and the memory that is its host's share.
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cleave/formats.hpp>
#include <cleave/mpi.hpp>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

/// Returns a name for each process, of its host and its number there: desktop-0, desktop-1, laptop-0.
std::vector<std::string> names_of_processes(cleave::mpi::environment const& mpi) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
  int length = 0;
  MPI_Get_processor_name(own.data(), &length);
  std::vector<char> all(own.size() * mpi.size());
  MPI_Allgather(own.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, all.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR,
                MPI_COMM_WORLD);
  std::map<std::string, int> processes;
  std::vector<std::string> names;
  for (std::size_t r = 0; r < mpi.size(); ++r) {
    std::string const host(&all[r * own.size()]);
    names.push_back(host + "-" + std::to_string(processes[host]++));
  }
  return names;
}

/// Returns the bytes of memory of this host.
std::uint64_t memory_here() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

int main(int count, char** words) {
  cleave::mpi::environment const mpi;
  try {
    // [measure]
    cleave::device_network network{.links = cleave::mpi::measure_links(MPI_COMM_WORLD)};
    // [measure]
    auto const names = names_of_processes(mpi);
    auto memory = std::vector<std::uint64_t>(mpi.size(), memory_here());
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, memory.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    for (std::size_t r = 0; r < mpi.size(); ++r)
      network.devices.push_back({.name = names[r], .memory = memory[r]});
    if (mpi.rank() != cleave::rank_id{0}) return 0;

    // [write]
    auto const text = cleave::devices_json(network) + "\n";
    // [write]
    if (count > 1) {
      std::ofstream file(words[1]);
      if (!(file << text).flush()) throw cleave::error(std::string(words[1]) + " cannot be written");
    }
    std::size_t measured = 0;
    for (auto const& l : cleave::read_devices(text).links) measured += l.latency > 0 && l.bandwidth > 1e6;
    std::cout << "links of " << mpi.size() << " processes measured: " << measured << '\n';
  } catch (cleave::error const& e) {
    std::cerr << e.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

// It prints:
//
//   links of 2 processes measured: 2
