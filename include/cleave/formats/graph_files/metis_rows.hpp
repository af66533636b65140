// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/formats/graph_files/metis_graph.hpp"
#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"

namespace cleave::inline v0_2 {

/// Reads a METIS graph row by row. Only one row is in memory, so the file may be larger than memory.
///
/// It accepts the files that `read_graph_file` accepts, and reports the same faults with the same places. One
/// fault has no place: an edge that is in one row only is found after the last row, without its name.
template <weight_number Weight = std::int64_t>
class metis_rows {
 public:
  /// Reads the heading. \param in must outlive the object; open files in binary mode
  /// \throws graph_file_error if it is no heading, or the file is too small for it
  explicit metis_rows(std::istream& in) : in_(in) {
    start_ = in_.tellg();
    if (start_ != std::istream::pos_type(-1) && in_.seekg(0, std::ios::end)) {
      end_ = static_cast<std::uint64_t>(std::streamoff(in_.tellg()));
      in_.seekg(start_);
    }
    in_.clear();
    read_heading();
  }

  std::uint64_t nodes() const { return heading_.nodes; }
  /// Returns the number of edges that the heading states.
  std::uint64_t edges() const { return heading_.edges; }

  /// Reads the next row. Returns false after the last one.
  /// \throws graph_file_error with the place, if the row violates the format; after the last row, if the rows
  ///   do not fit the heading, or an edge is in one row only
  /// \throws fractional_weight_error if Weight is an integer type and a weight is not
  bool next() {
    if (row_ == heading_.nodes) {
      if (!checked_) check_whole();
      return false;
    }
    bool more = next_line();
    while (more && line_.starts_with('%')) more = next_line();
    detail::text_cursor c(line_, at_);
    if (!more) {
      c.skip_line();
      detail::fail_for_missing_row(c, heading_, static_cast<std::size_t>(row_));
    }
    node_weight_.clear(), targets_.clear(), edge_weight_.clear();
    loops_ += detail::read_metis_row(c, heading_, static_cast<std::size_t>(row_), node_weight_, targets_,
                                     edge_weight_);
    add_up();
    ++row_;
    return true;
  }

  /// Returns the neighbours in the current row, numbered from 0.
  std::span<std::uint64_t const> neighbours() const { return targets_; }
  Weight node_weight() const { return node_weight_.empty() ? Weight{1} : node_weight_.front(); }
  /// Returns the weight of the edge to each neighbour; empty if the file has none.
  std::span<Weight const> edge_weights() const { return edge_weight_; }

  /// Returns to the first row. \throws error if the stream cannot be rewound, as a pipe cannot
  void rewind() {
    in_.clear();
    if (!end_ || !in_.seekg(start_))
      throw error("the graph must be read twice, but this stream cannot be rewound; read it from a file");
    line_.clear();
    at_ = 0, row_ = 0, ends_ = 0, loops_ = 0, checked_ = false;
    nodes_weigh_ = {}, edges_weigh_ = {}, symmetry_ = {};
    read_heading();
  }

  /// Returns the number of nodes and the sums of weights, and returns to the first row. A file with weights
  /// is read to its end for that. \throws as `next` and `rewind`
  graph_totals totals()
    requires std::integral<Weight>
  {
    graph_totals t{nodes(), static_cast<std::int64_t>(nodes()), static_cast<std::int64_t>(edges())};
    if (!heading_.has_node_weights && !heading_.has_edge_weights) return t;
    std::int64_t weight = 0, ends = 0;
    for (rewind(); next();) {
      weight += static_cast<std::int64_t>(node_weight());
      for (std::size_t i = 0; i < targets_.size(); ++i)
        if (targets_[i] != row_ - 1)
          ends += edge_weight_.empty() ? 1 : static_cast<std::int64_t>(edge_weight_[i]);
    }
    t.node_weight = weight;
    t.edge_weight = ends / 2;
    rewind();
    return t;
  }

 private:
  /// Reads a line, with its end. Returns false at the end of the file. A last line without an end stays then,
  /// for the place of the fault.
  bool next_line() {
    if (!line_.empty() && line_.back() != '\n') return false;
    line_.clear();
    ++at_;
    if (!std::getline(in_, line_)) {
      if (in_.bad()) detail::text_cursor({}, at_).fail("the file cannot be read further");
      return false;
    }
    if (!in_.eof()) line_ += '\n';
    return true;
  }

  void read_heading() {
    for (bool more = next_line();; more = next_line()) {
      if (at_ == 1) refuse_other_encodings();
      detail::text_cursor c(line_, at_);
      c.skip_to_content("%");
      if (more && c.at_end()) continue;
      heading_ = detail::metis_heading::read_line(c);
      if (end_) heading_.check_size(c, bytes_left());
      heading_line_ = line_, heading_at_ = at_;
      return;
    }
  }
  void refuse_other_encodings() {
    if (line_.starts_with("\xff\xfe") || line_.starts_with("\xfe\xff"))
      throw error("this is UTF-16; save it as UTF-8");
    if (line_.starts_with("\xef\xbb\xbf")) line_.erase(0, 3);
  }
  std::uint64_t bytes_left() {
    if (in_.eof()) return 0;
    return *end_ - static_cast<std::uint64_t>(std::streamoff(in_.tellg()));
  }

  /// Adds the row to the sums over the file. \throws graph_file_error if they overflow
  void add_up() {
    detail::text_cursor const c(line_, at_);
    for (auto const w : node_weight_) nodes_weigh_.add(w);
    if (nodes_weigh_.overflows()) c.fail("the sum of the node weights exceeds 2^63 - 1: use a larger unit");
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      auto const w = edge_weight_.empty() ? Weight{1} : edge_weight_[i];
      edges_weigh_.add(w);
      symmetry_.add(static_cast<std::size_t>(row_), static_cast<std::size_t>(targets_[i]),
                    detail::weight_bits(w));
    }
    if (edges_weigh_.overflows())
      c.fail(
          "the sum of the edge weights, counted at both ends, exceeds 2^63 - 1 in this row: use a larger "
          "unit");
    ends_ += targets_.size();
  }

  /// Checks what only the whole file shows.
  void check_whole() {
    while (next_line()) {
      detail::text_cursor c(line_, at_);
      c.skip_to_content("%");
      if (!c.at_end())
        c.fail("a line after the " + std::to_string(heading_.nodes) + " rows given in the heading");
    }
    if (!symmetry_.even())
      detail::text_cursor(heading_line_, heading_at_)
          .fail(
              "some edge is in the row of one of its nodes only, or with two weights; each edge must be in "
              "the rows of both its nodes; reading the file as a whole names it");
    detail::text_cursor c(heading_line_, heading_at_);
    c.skip_to_content("%");
    detail::metis_heading::read_line(c).check_edges(c, ends_ - loops_, loops_);
    checked_ = true;
  }

  std::istream& in_;
  std::istream::pos_type start_;
  std::optional<std::uint64_t> end_;  // size of the file, if the stream can be rewound
  std::string line_, heading_line_;
  std::size_t at_ = 0, heading_at_ = 0;  // numbers of these lines
  detail::metis_heading heading_;
  std::uint64_t row_ = 0, ends_ = 0, loops_ = 0;
  bool checked_ = false;
  detail::weight_sum<Weight> nodes_weigh_, edges_weigh_;
  detail::edge_symmetry_hash symmetry_;
  std::vector<Weight> node_weight_, edge_weight_;
  std::vector<std::uint64_t> targets_;
};

}  // namespace cleave
