// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/draw/detail/page_script.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/stage_graph.hpp"
#include "cleave/formats/units.hpp"

namespace cleave::inline v0_2::detail {

/// Returns `text` with blanks in front, at least `width` characters.
inline std::string right_aligned(std::string const& text, std::size_t width) {
  auto const characters =
      static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
  return std::string(characters < width ? width - characters : 0, ' ') + text;
}

/// Writes what is in each stage: its operators, the values that it receives and sends, and its nodes. Each
/// stage can be opened, and a script searches all nodes. O(nodes log operators + transfers).
class stage_contents_writer {
 public:
  stage_contents_writer(markup_writer& to, std::vector<std::vector<report_node>> const& nodes,
                        std::span<report_transfer const> transfers, std::string_view unit)
      : to_(to), nodes_(nodes), unit_(unit), received_(nodes.size()), sent_(nodes.size()) {
    for (auto const& t : transfers) {
      if (index(t.from) < sent_.size()) sent_[index(t.from)].push_back(&t);
      if (index(t.to) < received_.size()) received_[index(t.to)].push_back(&t);
    }
  }

  void write() {
    to_.open("section", {{"aria-labelledby", "contents"}});
    to_.element("h2", {{"id", "contents"}}, "What is in each stage");
    to_.open("form", {{"id", "search"}, {"role", "search"}, {"hidden", "hidden"}});
    to_.element("label", {{"for", "find"}}, "Find nodes by name, operator or stage");
    to_.empty("input",
              {{"id", "find"}, {"type", "search"}, {"autocomplete", "off"}, {"spellcheck", "false"}});
    to_.element("output", {{"id", "found"}, {"for", "find"}}, "");
    to_.element("ol", {{"id", "hits"}}, "");
    to_.close("form");
    for (std::size_t s = 0; s < nodes_.size(); ++s) stage(s);
    to_.close("section");
    to_.open("script").markup(report_script).close("script");
  }

 private:
  static constexpr std::size_t most_transfers = 40;  // of a stage, in each direction

  struct operators {
    std::size_t nodes = 0;
    double cost = 0;
  };

  void stage(std::size_t s) {
    auto const& list = nodes_[s];
    std::map<std::string_view, operators> by_name;
    double total = 0;
    for (auto const& n : list) {
      auto& o = by_name[n.operation];
      ++o.nodes;
      o.cost += n.cost;
      total += n.cost;
    }
    std::vector<std::pair<std::string_view, operators>> sorted(by_name.begin(), by_name.end());
    std::ranges::sort(sorted, [](auto const& a, auto const& b) {
      if (a.second.cost != b.second.cost) return a.second.cost > b.second.cost;
      return a.second.nodes != b.second.nodes ? a.second.nodes > b.second.nodes : a.first < b.first;
    });

    if (sorted.size() == 1 && sorted.front().first.empty()) sorted.clear();  // no node has an operator

    to_.open("details", {{"class", "contents"}, {"data-stage", s}}).open("summary");
    to_.element("b", "Stage\u00a0" + std::to_string(s));
    to_.element("span", summary(list.size(), sorted)).close("summary");
    to_.open("div", {{"id", "stage-" + std::to_string(s)}});
    if (!sorted.empty()) {
      to_.open("ul", {{"class", "operators"}});
      for (auto const& [name, o] : sorted) operator_line(name, o, list.size(), total);
      to_.close("ul");
    }
    transfers("Receives", "from stage", received_[s], [](auto const& t) { return t.from; });
    transfers("Sends", "to stage", sent_[s], [](auto const& t) { return t.to; });
    to_.open("pre", {{"class", "names"}, {"tabindex", "0"}});
    lines(list);
    to_.close("pre").close("div").close("details");
  }

  /// Returns the number of nodes and the operators that most of them have.
  static std::string summary(std::size_t nodes, std::vector<std::pair<std::string_view, operators>> list) {
    std::ranges::sort(list, [](auto const& a, auto const& b) {
      if (a.second.nodes != b.second.nodes) return a.second.nodes > b.second.nodes;
      return a.second.cost != b.second.cost ? a.second.cost > b.second.cost : a.first < b.first;
    });
    auto text = count_text(nodes) + (nodes == 1 ? " node" : " nodes");
    for (std::size_t i = 0; i < list.size() && i < 4; ++i)
      text += (i == 0 ? ": " : ", ") + count_text(list[i].second.nodes) + "\u00a0" + operation(list[i].first);
    if (list.size() <= 4) return text;
    auto const more = list.size() - 4;
    return text + " and " + std::to_string(more) + (more == 1 ? " more operator" : " more operators");
  }
  static std::string operation(std::string_view name) {
    return name.empty() ? "without an operator" : printable(name, 40);
  }

  /// Writes the nodes and the cost of an operator. The bar is its share of the stage's cost, or of its nodes
  /// if these cost nothing.
  void operator_line(std::string_view name, operators const& o, std::size_t nodes, double total) {
    double const share =
        total > 0 ? o.cost / total : static_cast<double>(o.nodes) / static_cast<double>(nodes);
    to_.open("li", {{"style", "--share: " + decimal_text(100 * share, 1) + "%"}});
    to_.text(count_text(o.nodes) + "\u00a0" + operation(name));
    if (total > 0) to_.element("span", amount_text(o.cost, unit_) + ", " + percent_text(share));
    to_.close("li");
  }

  template <class Other>
  void transfers(std::string_view what, std::string const& whom,
                 std::vector<report_transfer const*> const& list, Other other) {
    if (list.empty()) return;
    byte_sum sum;
    for (auto const* t : list) sum.add(t->bytes);
    to_.open("p", {{"class", "soft"}});
    to_.text(std::string(what) + " " + count_text(list.size()) +
             (list.size() == 1 ? " value, " : " values, ") + bytes_text(sum) + ": ");
    for (std::size_t i = 0; i < list.size() && i < most_transfers; ++i)
      to_.text((i > 0 ? ", " : "") + printable(list[i]->value, 80) + " " + whom + "\u00a0" +
               std::to_string(index(other(*list[i]))) + " (" + bytes_text(list[i]->bytes) + ")");
    if (list.size() > most_transfers) to_.text(" and " + count_text(list.size() - most_transfers) + " more");
    to_.text(".").close("p");
  }

  /// Writes a line for each node: its cost if any has one, its operator likewise, and its name.
  void lines(std::vector<report_node> const& list) {
    std::size_t widest = 0;
    bool priced = false, has_operators = false;
    for (auto const& n : list) {
      widest = (std::max)(widest, (std::min)(operation(n.operation).size(), std::size_t{24}));
      priced |= n.cost > 0;
      has_operators |= !n.operation.empty();
    }
    for (auto const& n : list) {
      auto name = operation(n.operation);
      if (name.size() < widest) name += std::string(widest - name.size(), ' ');
      if (priced) to_.text(right_aligned(amount_text(n.cost, unit_), 10) + "  ");
      to_.text((has_operators ? name + "  " : "") + printable(n.name, 200)).markup("\n");
    }
  }

  markup_writer& to_;
  std::vector<std::vector<report_node>> const& nodes_;
  std::string_view unit_;
  std::vector<std::vector<report_transfer const*>> received_, sent_;  // by stage
};

}  // namespace cleave::detail
