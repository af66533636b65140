// SPDX-License-Identifier: MIT
#pragma once
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/graph_files/graph_file.hpp>
#include <cleave/formats/graph_files/part_file.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/partition/kway/options.hpp>
#include <cleave/partition/kway/stream_partitioner.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cleave/partition/verify/verify_partition.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fact_sheet.hpp"
#include "files.hpp"
#include "graph_input.hpp"
#include "terminal.hpp"

namespace tool {

/// The quantity to minimise: the weight of the edges between parts or, for a directed graph, the largest load
/// or the cut of acyclic parts or, for a hypergraph, the parts of its nets.
enum class partition_goal : std::uint8_t { by_file, edges, bottleneck, cut, connectivity, cut_nets };
inline constexpr std::array<std::string_view, 6> goal_names = {"",    "edges",        "bottleneck",
                                                               "cut", "connectivity", "cut-nets"};

/// The arguments of cleave partition.
struct partition_task {
  graph_input graph;
  std::uint32_t parts = 0;
  partition_goal goal = partition_goal::by_file;
  std::optional<double> flops_per_byte{};               ///< for a graph in JSON; 0 if not given
  std::vector<std::uint32_t> group_sizes{};             ///< of a machine to map to; empty: none
  std::vector<std::int64_t> distances{};                ///< between places of the machine, by level
  bool stream = false;                                  ///< read row by row, without loading the graph
  cleave::stream_rule rule = cleave::stream_rule::ldg;  ///< of a stream
  bool rule_given = false;
  std::optional<std::size_t> buffer{};  ///< of a stream, in nodes
  cleave::kway_options options;
  std::vector<double> further_imbalances{};  ///< for weights of the nodes beyond the first; empty: the same
  cleave::graph_file_options reading;
  bool as_json = false;
  output_file out;     ///< output of the parts: a file, `-` for stdout, or empty for none
  std::string verify;  ///< file of parts to check instead of cutting
};

inline constexpr std::uint32_t most_parts = 0xfffffffe;
inline constexpr double most_imbalance = 1e9;
inline constexpr std::array<std::string_view, 3> preset_names = {"fast", "standard", "quality"};
inline constexpr std::array<std::string_view, 2> rule_names = {"ldg", "fennel"};

/// Cuts a directed graph into acyclic parts, or checks such parts. Returns the exit code.
int cut_operations(partition_task const& task);
/// Cuts a METIS file row by row, or checks its parts. Returns the exit code.
int cut_stream(partition_task const& task);
/// Cuts a hypergraph, or checks its parts. Returns the exit code.
int cut_hypergraph(partition_task const& task);

/// CPU seconds of this process, summed over its threads.
inline double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
inline double wall_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
/// Peak resident memory of this process, in bytes.
inline std::uint64_t peak_memory() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
}

inline std::string number_text(std::int64_t x) { return cleave::count_text(static_cast<std::uint64_t>(x)); }
inline std::string number_text(double x) { return cleave::short_text(x); }

/// Places of a machine may stay empty.
/// \throws cleave::infeasible_error if -k asks for more parts than there are nodes
inline void require_parts(partition_task const& task, std::size_t nodes) {
  if (task.parts <= nodes || !task.group_sizes.empty()) return;
  throw cleave::infeasible_error("-k asks for " + plural(task.parts, "part") + ", but " + task.graph.name() +
                                 " has " + plural(nodes, "node") + "; a part needs a node");
}

/// \throws cleave::error with the file's name; cleave::infeasible_error if nearly all parts are empty
inline cleave::partition read_parts(partition_task const& task, std::size_t nodes) {
  auto const text = read_text(task.verify);
  try {
    auto p = cleave::read_part_file(text, nodes, task.parts);
    if (p.parts > nodes + 65'536)  // avoids huge tables of empty parts
      throw cleave::infeasible_error(input_name(task.verify) + " has " + plural(p.parts, "part") + ", but " +
                                     task.graph.name() + " has " + plural(nodes, "node") +
                                     "; a part needs a node");
    return p;
  } catch (cleave::graph_file_error const& e) {
    throw cleave::graph_file_error(input_name(task.verify), e);
  }
}

/// The empty parts, as a text; empty if there are none.
struct empty_parts_fact {
  std::string text{};
  bool wrong = false;  ///< false if nodes that must stay together leave too few for all parts

  void add_to(fact_sheet& to) const {
    if (wrong)
      to.wrong(text);
    else if (!text.empty())
      to.line("empty", text);
  }
};

inline empty_parts_fact empty_parts_of(partition_task const& task, cleave::partition const& p, bool enough) {
  std::vector<char> has_nodes(p.parts);
  for (auto const part : p.of) has_nodes[index(part)] = 1;
  auto const empty = std::ranges::count(has_nodes, 0);
  if (empty == 0) return {};
  std::string text = "no node is in part ";
  for (std::uint32_t part = 0, told = 0; part < p.parts && told < 8; ++part)
    if (has_nodes[part] == 0) text += (told++ > 0 ? ", " : "") + std::to_string(part);
  if (empty > 8) text += " and " + std::to_string(empty - 8) + " more";
  if (task.parts == 0)
    text += "; the largest number implies " + plural(p.parts, "part");
  else if (enough)
    text += ", although there are enough nodes for all parts";
  return {text, task.parts == 0 || enough};
}

/// Tells how a partition of `partition_kway` or `partition_hypergraph` was made.
inline void add_made(fact_sheet& to, partition_task const& task) {
  auto const preset = preset_names[static_cast<std::size_t>(task.options.preset)];
  to.line("parts", cleave::count_text(task.parts) + ", preset " + std::string(preset) + ", seed " +
                       std::to_string(task.options.seed) + ", " + plural(task.options.threads, "thread"));
  to.member("parts", task.parts), to.member("preset", preset), to.member("seed", task.options.seed);
  to.member("threads", task.options.threads);
}

/// Names the file that the parts were read from.
inline void add_read(fact_sheet& to, partition_task const& task, cleave::partition const& p) {
  to.line("parts", cleave::count_text(p.parts) + ", of " + input_name(task.verify));
  to.member("parts", p.parts), to.member("verified", given_name(task.verify));
}

inline std::string imbalance_text(double found, double most) {
  return cleave::fixed_text(100 * found, 2) + "\u00a0%, of at most " + cleave::decimal_text(100 * most, 2) +
         "\u00a0%";
}

/// Tells the balance of a partition and its faults, as `verify_partition` counted them.
template <class Verdict>
void add_balance(fact_sheet& to, Verdict const& v, partition_task const& task) {
  auto const most = task.options.imbalance[0];
  to.line("imbalance", imbalance_text(v.imbalance, most));
  to.member("imbalance", v.imbalance), to.member("most_imbalance", most), to.member("empty", v.empty);
  if (v.empty > 0) to.line("empty", plural(v.empty, "part"));
  std::size_t told = 0;
  for (auto const& f : v.findings)
    if (++told <= 10) to.wrong(cleave::describe(f));
  if (told > 10) to.wrong("and " + cleave::count_text(told - 10) + " more");
}

/// Prints what is known about the parts. Returns the exit code.
inline int finish(fact_sheet& told, partition_task const& task, bool sound) {
  told.written(task.out);
  told.print_as(task.as_json);
  return sound ? 0 : 1;
}

/// The time and the memory of reading and cutting; nothing if nothing was cut.
struct partition_times {
  double seconds = 0, cpu_seconds = 0, reading_seconds = 0;
  std::uint64_t memory = 0, memory_after_reading = 0;

  void add_to(fact_sheet& to) const {
    if (memory == 0) return;
    to.line("seconds", cleave::short_text(seconds) + " (CPU time " + cleave::short_text(cpu_seconds) +
                           "; reading the file " + cleave::short_text(reading_seconds) + ")");
    to.line("memory", cleave::bytes_text(memory) + " at most; after reading " +
                          cleave::bytes_text(memory_after_reading));
    to.member("seconds", seconds), to.member("cpu_seconds", cpu_seconds);
    to.member("reading_seconds", reading_seconds), to.member("memory", memory);
    to.member("memory_after_reading", memory_after_reading);
  }
};

/// Measures the time of reading and cutting.
struct partition_clock {
  double begin = wall_seconds(), read = begin, cpu = 0;
  std::uint64_t read_bytes = 0;

  void has_read() { read = wall_seconds(), cpu = processor_seconds(), read_bytes = peak_memory(); }
  partition_times times() const {
    return {wall_seconds() - read, processor_seconds() - cpu, read - begin, peak_memory(), read_bytes};
  }
};

inline void write_parts(partition_task const& task, cleave::partition const& p) {
  if (!task.out.empty()) write_file(task.out, cleave::write_part_file(p));
}

}  // namespace tool
