// SPDX-License-Identifier: MIT
// cleave partition FILE -k 8 --stream: cuts a METIS file row by row, without loading the graph.
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/formats/graph_files/metis_rows.hpp>
#include <cleave/partition/kway/stream_partitioner.hpp>
#include <cleave/partition/verify/verify_partition.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "partition_task.hpp"

namespace tool {

namespace {

std::ifstream opened(std::string const& file) {
  auto const refuse = [&](std::string const& why) {
    throw cleave::error(cleave::printable(file, 200) + ": " + why);
  };
  std::error_code unknown;
  if (fs::is_directory(file, unknown)) refuse("this is a folder; name a file in it");
  if (fs::exists(file, unknown) && !fs::is_regular_file(file, unknown))
    refuse("this is not a regular file, which --stream needs, since it is read more than once");
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse("cannot be opened; check the path and its permissions");
  return in;
}

/// Calls `use` for each row, and shows how far it is.
template <class Use>
void each_row(cleave::metis_rows<>& rows, progress const& doing, std::string const& what, Use use) {
  for (std::uint64_t n = 0; rows.next(); ++n) {
    if (n % (1 << 17) == 0) doing(what + " " + cleave::count_text(n) + " of " + plural(rows.nodes(), "node"));
    use(n);
  }
}

/// Recounts cut and weights from the file and the parts.
cleave::partition_report<std::int64_t, std::int64_t> recounted(cleave::metis_rows<>& rows,
                                                               cleave::partition const& p, double imbalance,
                                                               progress const& doing) {
  using enum cleave::partition_fault;
  cleave::partition_report<std::int64_t, std::int64_t> v;
  v.part_weight.resize(p.parts);
  v.part_size.resize(p.parts);
  rows.rewind();
  each_row(rows, doing, "recounting", [&](std::uint64_t n) {
    auto const part = index(p.of[n]);
    v.total += rows.node_weight();
    v.part_weight[part] += rows.node_weight();
    ++v.part_size[part];
    for (std::size_t i = 0; i < rows.neighbours().size(); ++i) {
      auto const to = rows.neighbours()[i];
      if (to >= n || index(p.of[to]) == part) continue;
      v.cut += rows.edge_weights().empty() ? 1 : rows.edge_weights()[i];
      ++v.cut_edges;
    }
  });
  auto const share = v.total / p.parts + (v.total % p.parts != 0);
  for (std::uint32_t part = 0; part < p.parts; ++part) {
    auto const heavy = static_cast<double>(v.part_weight[part]), fair = static_cast<double>(share);
    auto const over = fair > 0 ? heavy / fair - 1 : 0.0;
    v.imbalance = part == 0 ? over : std::max(v.imbalance, over);
    if (heavy > fair * (1 + imbalance) * (1 + 1e-12))
      v.findings.push_back({overweight, 0, part, heavy, fair * (1 + imbalance)});
    if (v.part_size[part] > 0) continue;
    ++v.empty;
    if (p.of.size() >= p.parts) v.findings.push_back({empty_part, 0, part});
  }
  return v;
}

cleave::partition cut(cleave::metis_rows<>& rows, partition_task const& task, progress const& doing) {
  doing("reading the weights of " + task.graph.name());
  cleave::stream_partitioner cutter(task.parts, rows.totals(),
                                    {.imbalance = task.options.imbalance[0],
                                     .rule = task.rule,
                                     .buffer = task.buffer.value_or(cleave::stream_options{}.buffer),
                                     .preset = task.options.preset,
                                     .seed = task.options.seed,
                                     .threads = task.options.threads});
  each_row(rows, doing, "placing",
           [&](std::uint64_t) { cutter.add(rows.neighbours(), rows.node_weight(), rows.edge_weights()); });
  return cutter.finish();
}

void add_made_by(fact_sheet& to, partition_task const& task) {
  auto const buffer = task.buffer.value_or(cleave::stream_options{}.buffer);
  auto const preset = preset_names[static_cast<std::size_t>(task.options.preset)];
  auto const rule = rule_names[static_cast<std::size_t>(task.rule)];
  to.line("parts",
          cleave::count_text(task.parts) + ", rule " + std::string(rule) +
              (buffer == 0
                   ? ", no buffer"
                   : ", buffer of " + plural(buffer, "node") + ", preset " + std::string(preset) + ", seed " +
                         std::to_string(task.options.seed) + ", " + plural(task.options.threads, "thread")));
  to.member("parts", task.parts), to.member("rule", rule), to.member("buffer", buffer);
  if (buffer == 0) return;
  to.member("preset", preset), to.member("seed", task.options.seed);
  to.member("threads", task.options.threads);
}

int cut_rows(partition_task const& task) {
  progress const doing;
  auto in = opened(task.graph.file);
  cleave::metis_rows<> rows(in);
  require_parts(task, rows.nodes());
  fact_sheet told(task.graph.file, {{"node", rows.nodes()}, {"edge", rows.edges()}});
  auto const begin = wall_seconds();
  cleave::partition p;
  double seconds = 0, cpu_seconds = 0;
  if (task.verify.empty()) {
    p = cut(rows, task, doing);
    seconds = wall_seconds() - begin, cpu_seconds = processor_seconds();
    add_made_by(told, task);
    write_parts(task, p);
  } else {
    p = read_parts(task, rows.nodes());
    add_read(told, task, p);
  }
  auto const v = recounted(rows, p, task.options.imbalance[0], doing);
  doing.clear();
  told.line("cut", number_text(v.cut) + " (" + plural(v.cut_edges, "edge") + ")");
  told.member("cut", v.cut), told.member("cut_edges", v.cut_edges);
  add_balance(told, v, task);
  auto const empty = rows.nodes() < p.parts ? empty_parts_of(task, p, false) : empty_parts_fact{};
  if (empty.wrong) empty.add_to(told);
  std::error_code unknown;
  auto const size = fs::file_size(task.graph.file, unknown);
  if (task.verify.empty()) {
    told.line("seconds", cleave::short_text(seconds) + " with reading (CPU time " +
                             cleave::short_text(cpu_seconds) + ")");
    told.member("seconds", seconds), told.member("cpu_seconds", cpu_seconds);
  }
  auto const memory = peak_memory();
  told.line("memory", cleave::bytes_text(memory) + " at most" +
                          (unknown ? "" : "; the file has " + cleave::bytes_text(size)));
  told.member("memory", memory);
  if (!unknown) told.member("file_bytes", size);
  return finish(told, task, v.sound() && !empty.wrong);
}

}  // namespace

int cut_stream(partition_task const& task) {
  try {
    return cut_rows(task);
  } catch (cleave::fractional_weight_error const& e) {
    throw cleave::error(task.graph.name() + ": " + e.what() +
                        "; --stream takes whole weights only: use a smaller unit, or leave it out");
  } catch (cleave::graph_file_error const& e) {
    auto const read_last = task.verify.empty() ? task.graph.file : input_name(task.verify);
    if (std::string(e.what()).find(read_last) == 0) throw;
    throw cleave::graph_file_error(task.graph.file, e);
  } catch (cleave::detail::stream_error const& e) {
    throw cleave::error(task.graph.name() + ": " + e.what());
  }
}

}  // namespace tool
