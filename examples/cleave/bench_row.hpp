// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/core/real.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace tool {

/// The quantity in the column `cut`: edges between parts or, for hypergraphs, λ - 1 or cut nets.
enum class bench_metric : std::uint8_t { edge_cut, connectivity, cut_nets };

/// The names of the metrics in tables.
inline constexpr std::array<std::string_view, 3> bench_metric_names = {"edge-cut", "connectivity",
                                                                       "cut-nets"};

inline std::string_view name_of(bench_metric m) { return bench_metric_names[static_cast<std::size_t>(m)]; }

/// Returns the metric of this name, or nothing.
inline std::optional<bench_metric> find_bench_metric(std::string_view name) {
  auto const at = std::ranges::find(bench_metric_names, name);
  if (at == bench_metric_names.end()) return {};
  return static_cast<bench_metric>(at - bench_metric_names.begin());
}

/// One run of one algorithm on one instance: a row of the tables that `cleave bench` and bench/peers write.
struct bench_row {
  std::string algorithm, instance;
  std::uint64_t nodes = 0, edges = 0;  ///< edges, arcs or nets; 0 if the table does not say
  std::uint32_t parts = 0;
  double eps = 0;  ///< the requested imbalance
  std::uint64_t seed = 0;
  std::uint32_t threads = 1;
  double wall_s = 0, cpu_s = 0;
  std::optional<double> cut{};  ///< counted from the parts; empty without an answer
  double imbalance = 0;         ///< heaviest part / ceil(total / parts) - 1
  std::uint32_t empty = 0;      ///< parts without a node
  double memory_csr = 0;        ///< peak memory of the call, as a multiple of the graph in 32-bit CSR
  std::optional<double> claimed_cut{};
  std::string status{};                ///< "ok", or the failure
  std::optional<double> bottleneck{};  ///< largest load, for algorithms on DAGs that minimise it
  std::optional<double> bound{};       ///< lower bound of the bottleneck, reported by the algorithm
  bench_metric metric = bench_metric::edge_cut;
};

inline constexpr std::string_view bench_columns =
    "peer,graph,n,m,k,eps,seed,threads,wall_s,cpu_s,cut,imbalance,empty,memory_csr,claimed_cut,status,"
    "bottleneck,bound,metric";

/// Returns the shortest decimal that reads back as `x`; whole numbers below 10^15 have no exponent.
inline std::string csv_number(double x) {
  char digits[400];
  bool const whole = cleave::magnitude(x) < 1e15 && x == static_cast<double>(static_cast<std::int64_t>(x));
  auto const form = whole ? std::chars_format::fixed : std::chars_format::general;
  return {digits, std::to_chars(digits, digits + sizeof digits, x, form).ptr};
}

/// Returns a row as a CSV line, with seconds to four decimals.
inline std::string csv_line(bench_row const& r) {
  auto const name = [](std::string text) {
    for (char& c : text)
      if (c == ',' || (c >= 0 && c < ' ') || c == 0x7f) c = ';';
    return text;
  };
  std::string line = name(r.algorithm) + "," + name(r.instance) + "," + std::to_string(r.nodes) + "," +
                     std::to_string(r.edges) + "," + std::to_string(r.parts) + "," + csv_number(r.eps) + "," +
                     std::to_string(r.seed) + "," + std::to_string(r.threads) + ",";
  if (r.cut)
    line += cleave::decimal_text(r.wall_s, 4) + "," + cleave::decimal_text(r.cpu_s, 4) + "," +
            csv_number(*r.cut) + "," + cleave::decimal_text(r.imbalance, 4) + "," + std::to_string(r.empty) +
            "," + cleave::decimal_text(r.memory_csr, 1) + ",";
  else
    line += ",,,,,,";
  auto const known = [](std::optional<double> x) { return x ? csv_number(*x) : std::string(); };
  return line + known(r.claimed_cut) + "," + name(r.status) + "," + known(r.bottleneck) + "," +
         known(r.bound) + "," + std::string(name_of(r.metric)) + "\n";
}

/// Reads such a table. Columns may come in any order, unknown ones are ignored, and the header may be
/// repeated, as in joined tables. Without the column `metric`, cuts are those of edges.
class csv_reader {
 public:
  csv_reader(std::string_view text, std::string file) : rest_(text), file_(std::move(file)) {}

  /// \throws cleave::error with the file and the line.
  std::vector<bench_row> read() {
    std::vector<bench_row> rows;
    for (std::string_view line; next(line);) {
      if (line.empty()) continue;
      cells_ = cells_of(line);
      if (header_.empty() || cells_ == header_) {
        learn_header();
        continue;
      }
      if (cells_.size() != header_.size())
        refuse(std::to_string(cells_.size()) + " cells, but the header has " +
               std::to_string(header_.size()));
      rows.push_back(row());
    }
    line_ = std::max<std::size_t>(line_, 1);
    if (header_.empty()) refuse("the table is empty; its first line names the columns: peer,graph,...");
    return rows;
  }

 private:
  [[noreturn]] void refuse(std::string const& why) const {
    throw cleave::error(cleave::printable(file_, 200) + ":" + std::to_string(line_) + ": " + why);
  }
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    ++line_;
    auto const end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }
  static std::vector<std::string_view> cells_of(std::string_view line) {
    std::vector<std::string_view> cells;
    for (std::size_t at = 0;;) {
      auto const comma = line.find(',', at);
      cells.push_back(line.substr(at, comma - at));
      if (comma == std::string_view::npos) return cells;
      at = comma + 1;
    }
  }

  void learn_header() {
    header_ = cells_;
    for (auto const name :
         {"peer", "graph", "k", "eps", "seed", "threads", "wall_s", "cpu_s", "cut", "imbalance", "status"})
      if (!column(name))
        refuse(std::string("no column '") + name + "'; a table has " + std::string(bench_columns));
  }
  std::optional<std::size_t> column(std::string_view name) const {
    for (std::size_t i = 0; i < header_.size(); ++i)
      if (header_[i] == name) return i;
    return {};
  }
  std::string_view cell(std::string_view name) const {
    auto const at = column(name);
    return at ? cells_[*at] : std::string_view();
  }
  template <class Number>
  std::optional<Number> number(std::string_view name) const {
    auto const text = cell(name);
    if (text.empty()) return {};
    Number to{};
    auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), to);
    if (fault != std::errc() || end != text.data() + text.size() || !(to >= 0) || to - to != 0)
      refuse("column '" + std::string(name) + "' has no " +
             (std::is_integral_v<Number> ? "whole number" : "number") + " from 0 up, but " +
             cleave::quoted(text));
    return to;
  }
  template <class Number>
  Number needed(std::string_view name) const {
    auto const value = number<Number>(name);
    if (!value) refuse("column '" + std::string(name) + "' is empty");
    return *value;
  }

  bench_row row() const {
    bench_row r;
    r.algorithm = cell("peer");
    r.instance = cell("graph");
    r.status = cell("status");
    if (r.algorithm.empty() || r.instance.empty())
      refuse("a row needs a peer and a graph; one of them is empty");
    r.nodes = number<std::uint64_t>("n").value_or(0);
    r.edges = number<std::uint64_t>("m").value_or(0);
    r.parts = needed<std::uint32_t>("k");
    r.eps = needed<double>("eps");
    r.seed = needed<std::uint64_t>("seed");
    r.threads = needed<std::uint32_t>("threads");
    r.cut = number<double>("cut");
    if (r.cut) {
      r.wall_s = r.threads > 1 ? needed<double>("wall_s") : number<double>("wall_s").value_or(0);
      r.cpu_s = needed<double>("cpu_s");
      r.imbalance = needed<double>("imbalance");
    }
    r.empty = number<std::uint32_t>("empty").value_or(0);
    r.bottleneck = number<double>("bottleneck");
    r.bound = number<double>("bound");
    if (auto const text = cell("metric"); !text.empty()) {
      auto const metric = find_bench_metric(text);
      if (!metric)
        refuse("column 'metric' has edge-cut, connectivity or cut-nets, not " + cleave::quoted(text));
      r.metric = *metric;
    }
    return r;
  }

  std::string_view rest_;
  std::string file_;
  std::size_t line_ = 0;
  std::vector<std::string_view> header_, cells_;
};

}  // namespace tool
