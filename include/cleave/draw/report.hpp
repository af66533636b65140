// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/detail/stage_contents.hpp"
#include "cleave/draw/detail/stage_matrix.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/stage_graph.hpp"
#include "cleave/draw/timeline_svg.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/formats/unpriced_text.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/run/forward/forward.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2 {

/// The balance of a cut: the loads that `balance` minimised, and a lower bound.
struct report_balance {
  std::string objective = "cost";  ///< name of the quantity in the numbers, such as `cost plus transfer`
  std::vector<double> load;        ///< for each stage
  double bound = 0;    ///< no cut into as many stages has a smaller maximum load, counting priced items only
  unpriced lacking{};  ///< items without a price; if they are many, the page states no bound
  std::string advice{};  ///< the step that would price most items, without a full stop; may be empty
  std::vector<double> predicted{};  ///< for each stage: its estimated cost, if those of the cut are measured
};

/// The measurements of a run.
struct report_run {
  std::vector<interval> timeline;
  std::uint32_t microbatches = 0;  ///< number of microbatches of the run
  std::int64_t whole_ns = 0;       ///< time of the uncut model for the same microbatches, in sequence
  std::optional<double> largest_difference;  ///< between the results of both runs
  std::string engine, machine;
  std::vector<std::int64_t>
      stage_ns{};  ///< for each stage: the time of a microbatch while no other stage runs; may be empty
};

/// The contents of a report. Fields that are empty are omitted from the page.
struct report {
  struct fact {
    std::string what, value;
  };
  std::string title;               ///< name of the model; any bytes
  std::vector<fact> facts;         ///< facts about the model
  quotient cut;                    ///< the stages, and the values sent between them
  std::string cost_unit;           ///< unit without a prefix, such as `s` or `FLOP`; empty if costs have none
  std::vector<std::string> files;  ///< for each stage: the file it was written to
  std::vector<byte_sum> memory;    ///< for each stage: its peak memory while it runs
  std::optional<report_balance> balance;
  std::optional<report_run> run;
  std::string cost_origin{};  ///< where the costs come from, such as `measured`; may be empty
  std::vector<std::vector<report_node>> nodes{};  ///< for each stage: its nodes in program order
  std::vector<report_transfer> transfers{};       ///< the values sent between stages
};
/// The style sheet of a report, for light and dark mode. On narrow screens wide parts scroll in place; print
/// is black on white. Nothing is loaded from the network.
inline constexpr std::string_view report_style = R"(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f5f7f9; --line: #dde3e9; --ink: #17202a; --soft: #566573;
  --accent: #20639b; --fill: #cfe1f2; --frame: #7f95aa; --link: #6a8299; --warm: #f3dcc0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11161c; --panel: #19212a; --line: #2c3742; --ink: #e7edf3; --soft: #9fb0c0;
    --accent: #7db8ea; --fill: #234866; --frame: #587189; --link: #7f98b0; --warm: #4a3a26;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2.5rem 1.5rem 3rem; max-width: 1120px; background: var(--page);
  color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; text-size-adjust: 100%;
}
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; font-weight: 650; letter-spacing: -0.015em;
  overflow-wrap: anywhere; }
h3 { margin: 1.75rem 0 0.35rem; font-size: 1rem; font-weight: 650; }
h2 { margin: 2.75rem 0 0.35rem; font-size: 1.2rem; font-weight: 650; letter-spacing: -0.005em; }
p { margin: 0.35rem 0 1rem; max-width: 46rem; }
.lead { margin-top: 0.5rem; font-size: 1.05rem; color: var(--soft); }
.soft, figcaption { color: var(--soft); font-size: 0.875rem; }
dl { display: flex; flex-wrap: wrap; gap: 1px; margin: 1.5rem 0 0; background: var(--line);
  border: 1px solid var(--line); border-radius: 8px; overflow: hidden; }
dl div { flex: 1 1 8.5rem; padding: 0.7rem 0.95rem; background: var(--page); }
dt { color: var(--soft); font-size: 0.8rem; }
dd { margin: 0.1rem 0 0; font-weight: 600; overflow-wrap: anywhere; }
dl.totals div { background: var(--panel); }
dl.totals dd { font-size: 1.45rem; line-height: 1.3; letter-spacing: -0.01em; }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
table { width: 100%; border-collapse: collapse; font-size: 0.9rem; white-space: nowrap; }
th, td { padding: 0.5rem 0.75rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
tr > :first-child { padding-left: 0; position: sticky; left: 0; background: var(--page); }
tr > :last-child { padding-right: 0; }
thead th { color: var(--soft); font-weight: 500; font-size: 0.8rem; vertical-align: bottom; white-space: normal;
  border-bottom-color: var(--frame); }
tbody th { font-weight: 600; }
tfoot th, tfoot td { border-bottom: 0; color: var(--soft); font-weight: 500; }
.share { display: inline-block; position: relative; width: 5.5rem; height: 0.5rem;
  background: var(--panel); border-radius: 2px; }
.share span { display: block; height: 100%; background: var(--accent); border-radius: 2px; }
.share::after { content: ""; position: absolute; left: 50%; top: -3px; bottom: -3px;
  border-left: 1px solid var(--ink); }
.share-of-even { display: inline-block; min-width: 4.6rem; }
figure { margin: 1rem 0 0; }
figcaption { margin-top: 0.6rem; max-width: 46rem; }
svg { display: block; max-width: 100%; height: auto; margin: 0 auto; font-size: 11.5px; }
svg text { fill: var(--ink); }
.graph .ground { fill: var(--panel); }
.graph .fill { fill: var(--fill); }
.graph .frame { fill: none; stroke: var(--frame); }
.graph .even { stroke: var(--ink); stroke-opacity: 0.55; stroke-dasharray: 3 3; }
.graph .name { font-size: 19px; font-weight: 650; }
.graph .line, .graph .halo { fill: none; }
.graph .line { stroke: var(--link); }
.graph .halo { stroke: var(--page); }
.graph .arrow { fill: var(--link); }
.graph .unknown .line { stroke-dasharray: 4 3; }
.graph .size { fill: var(--soft); font-size: 11px; paint-order: stroke; stroke: var(--page);
  stroke-width: 3px; }
.graph .link:hover .line { stroke: var(--accent); }
.graph .link:hover .arrow { fill: var(--accent); }
.graph a:hover .frame, .graph a:focus-visible .frame { stroke: var(--accent); stroke-width: 2px; }
.matrix .cell { fill: var(--accent); }
.matrix .unknown .cell { fill: none; stroke: var(--link); stroke-dasharray: 2 2; }
.matrix .link:hover .cell { stroke: var(--ink); stroke-width: 1.5px; }
.matrix .diagonal { fill: var(--line); }
.matrix .grid { stroke: var(--line); }
.matrix .weak, .matrix .strong { font-size: 10px; pointer-events: none; }
.matrix .strong { fill: var(--page); }
a { color: var(--accent); }
tbody th a, #hits a { text-decoration: none; }
tbody th a:hover, #hits a:hover { text-decoration: underline; }
#search { margin: 1rem 0; }
#search label { display: block; color: var(--soft); font-size: 0.875rem; }
#find { width: 100%; max-width: 30rem; margin: 0.25rem 0; padding: 0.45rem 0.7rem; font: inherit;
  color: var(--ink); background: var(--panel); border: 1px solid var(--frame); border-radius: 6px; }
#found { display: block; color: var(--soft); font-size: 0.875rem; overflow-wrap: anywhere; }
#hits { margin: 0.4rem 0 0; padding: 0; list-style: none; max-height: 18rem; overflow: auto; font-size: 0.85rem;
  overflow-wrap: anywhere; }
#hits a { display: inline-block; min-width: 5.2rem; }
.contents { border-top: 1px solid var(--line); }
.contents:last-of-type { border-bottom: 1px solid var(--line); }
.contents summary { padding: 0.5rem 0; cursor: pointer; overflow-wrap: anywhere; }
.contents summary span { margin-left: 0.9rem; color: var(--soft); font-size: 0.9rem; }
.contents > div { padding: 0 0 1rem 1.1rem; scroll-margin-top: 3rem; }
.contents p { max-width: none; overflow-wrap: anywhere; }
.operators { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 2px 1rem;
  margin: 0 0 0.75rem; padding: 0; list-style: none; font-size: 0.85rem; }
.operators li { display: flex; justify-content: space-between; gap: 0.75rem; padding: 0.1rem 0.4rem;
  overflow-wrap: anywhere;
  background: linear-gradient(to right, var(--fill) var(--share), var(--panel) var(--share)); }
.operators span { color: var(--soft); white-space: nowrap; }
.names { margin: 0; padding: 0.6rem 0.8rem; max-height: 24rem; overflow: auto; background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere;
  font: 0.8rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.timeline .track { fill: var(--panel); }
.timeline .grid { stroke: var(--line); }
.timeline .tick, .timeline .detail { fill: var(--soft); }
.timeline .name { font-weight: 600; }
.timeline .wait { fill: none; pointer-events: all; }
.timeline .send { fill: var(--warm); }
.timeline .bar { stroke: var(--page); stroke-width: 0.5px; }
.timeline .number { fill: #17202a; font-weight: 600; pointer-events: none; }
.timeline .work:hover .bar { stroke: var(--ink); stroke-width: 1.5px; }
.hue0 { fill: #8db8dd; } .hue1 { fill: #f0ba85; } .hue2 { fill: #98cbb0; } .hue3 { fill: #d7a6c8; }
.hue4 { fill: #e0cf7d; } .hue5 { fill: #86c4ca; } .hue6 { fill: #e39f97; } .hue7 { fill: #b2afe0; }
footer { margin-top: 3rem; padding-top: 0.9rem; border-top: 1px solid var(--line); }
@media screen and (max-width: 700px) {
  body { padding: 1.5rem 1rem 2rem; }
  h1 { font-size: 1.55rem; }
  .wide svg { max-width: none; margin: 0; }
  .wide svg.timeline { width: 820px; }
}
@media print {
  :root {
    --page: #ffffff; --panel: #f5f7f9; --line: #c8d0d8; --ink: #000000; --soft: #444444;
    --accent: #20639b; --fill: #cfe1f2; --frame: #7f95aa; --link: #6a8299; --warm: #f3dcc0;
  }
  html { font-size: 11px; }
  body { max-width: none; padding: 0; font-size: 1rem; }
  .wide { overflow: visible; }
  th, td { padding: 0.35rem 0.5rem; }
  .share { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, table, dl { break-inside: avoid; }
  h2 { break-after: avoid; }
  @page { margin: 14mm; }
}
)";
}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes a report. Helper of `write_report`.
class report_writer {
 public:
  explicit report_writer(report const& r) : r_(r) {}

  std::string write() {
    to_.markup("<!doctype html>\n").open("html", {{"lang", "en"}});
    head();
    to_.open("body");
    header();
    if (stages() > 0) {
      table();
      picture();
      if (lists_nodes()) stage_contents_writer(to_, r_.nodes, r_.transfers, r_.cost_unit).write();
    }
    if (r_.run) run(*r_.run);
    to_.element("footer", {{"class", "soft"}},
                "Written by cleave. Hover over a bar, a box, a line or a cell for exact figures.");
    to_.close("body").close("html");
    return to_.str();
  }

 private:
  std::size_t stages() const { return r_.cut.stages.size(); }
  bool lists_nodes() const { return r_.nodes.size() == stages() && stages() > 0; }
  bool draws_lines() const { return stages() <= most_stages_with_lines; }
  std::string title() const { return printable(r_.title, 120); }
  std::string stages_text() const {
    return std::to_string(stages()) + (stages() == 1 ? " stage" : " stages");
  }
  double total_cost() const {
    double sum = 0;
    for (auto const& s : r_.cut.stages) sum += s.cost;
    return sum;
  }

  void head() {
    to_.open("head").empty("meta", {{"charset", "utf-8"}});
    to_.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    to_.element("title", title() + " in " + stages_text());
    to_.open("style").markup(report_style).close("style").close("head");
  }

  void header() {
    to_.open("header").element("h1", title());
    to_.element("p", {{"class", "lead"}}, lead());
    facts({}, r_.facts);
    to_.close("header");
  }
  std::string lead() const {
    auto out = "Cut into " + stages_text();
    if (!r_.run) return out + ".";
    out += ", run as a pipeline over " + std::to_string(r_.run->microbatches) +
           (r_.run->microbatches == 1 ? " microbatch" : " microbatches");
    if (!r_.run->engine.empty()) out += " by " + printable(r_.run->engine);
    return out + ".";
  }
  void facts(std::string_view kind, std::vector<report::fact> const& list) {
    if (list.empty()) return;
    to_.open("dl", {{"class", kind}});
    for (auto const& f : list)
      to_.open("div").element("dt", printable(f.what)).element("dd", printable(f.value, 200)).close("div");
    to_.close("dl");
  }

  /// Writes a cell that also has the exact number in machine-readable form.
  void number(std::string_view column, double exact, std::string_view shown) {
    to_.open("td").element("data", {{"class", column}, {"value", json_number(exact)}}, shown).close("td");
  }
  void number(std::string_view column, byte_sum const& sum) {
    to_.open("td").element("data", {{"class", column}, {"value", sum.known}}, bytes_text(sum)).close("td");
  }
  static std::string json_number(double x) {
    json::writer to;
    return to.value(x).text();
  }

  void table() {
    to_.open("section", {{"aria-labelledby", "stages"}}).element("h2", {{"id", "stages"}}, "Stages");
    if (r_.balance) to_.element("p", balance_sentence(*r_.balance));
    to_.open("div",
             {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", "stages"}});
    to_.open("table").open("thead").open("tr");
    column("Stage");
    column("Nodes");
    if (has_predictions()) column("Predicted cost");
    column(has_predictions() ? "Measured cost" : has_times() ? "Predicted cost" : "Cost");
    column("Share of an even cut");
    if (has_times()) {
      column("Measured time");
      column("Share of an even cut");
    }
    if (has_loads()) column(capitalised(r_.balance->objective));
    column("Parameters");
    column("Bytes in");
    column("Bytes out");
    if (!r_.memory.empty()) column("Memory");
    if (!r_.files.empty()) column("File");
    to_.close("tr").close("thead").open("tbody");
    for (std::size_t s = 0; s < stages(); ++s) row(s);
    to_.close("tbody");
    total_row();
    to_.close("table").close("div");
    if (!r_.cost_origin.empty()) to_.element("p", {{"class", "soft"}}, cost_sentence());
    if (has_times())
      to_.element("p", {{"class", "soft"}},
                  "The measured time of a stage is that of one microbatch while no other stage runs.");
    to_.close("section");
  }
  std::string cost_sentence() const {
    return (r_.cost_unit.empty() ? "Costs have no unit" : "Costs are in " + printable(r_.cost_unit, 40)) +
           ". Origin: " + printable(r_.cost_origin, 400) + ".";
  }
  void column(std::string_view name) { to_.element("th", {{"scope", "col"}}, name); }
  bool has_loads() const { return r_.balance && r_.balance->load.size() == stages(); }
  bool has_predictions() const {
    return r_.balance && r_.balance->predicted.size() == stages() && stages() > 0;
  }
  bool has_times() const { return r_.run && r_.run->stage_ns.size() == stages() && stages() > 0; }
  double total_ns() const {
    double sum = 0;
    for (auto const ns : r_.run->stage_ns) sum += static_cast<double>(ns);
    return sum;
  }
  static std::string capitalised(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
  }

  void row(std::size_t s) {
    auto const& box = r_.cut.stages[s];
    to_.open("tr", {{"data-stage", s}}).open("th", {{"scope", "row"}});
    auto const number_text = std::to_string(s);
    lists_nodes() ? to_.element("a", {{"href", "#stage-" + number_text}}, number_text)
                  : to_.text(number_text);
    to_.close("th");
    number("nodes", static_cast<double>(box.nodes), count_text(box.nodes));
    if (has_predictions())
      number("predicted", r_.balance->predicted[s], amount_text(r_.balance->predicted[s], r_.cost_unit));
    number("cost", box.cost, amount_text(box.cost, r_.cost_unit));
    share(share_of_even(box.cost, total_cost()));
    if (has_times()) {
      auto const ns = static_cast<double>(r_.run->stage_ns[s]);
      number("measured-ns", ns, milliseconds_text(ns));
      auto const of_even = share_of_even(ns, total_ns());
      to_.open("td").element("data", {{"class", "measured-share"}, {"value", json_number(of_even)}},
                             percent_text(of_even));
      to_.close("td");
    }
    if (has_loads()) number("load", r_.balance->load[s], amount_text(r_.balance->load[s], r_.cost_unit));
    number("state", box.state);
    number("in", box.in);
    number("out", box.out);
    if (!r_.memory.empty())
      s < r_.memory.size() ? number("memory", r_.memory[s]) : void(to_.element("td", "–"));
    if (!r_.files.empty()) to_.element("td", s < r_.files.size() ? printable(r_.files[s]) : "–");
    to_.close("tr");
  }
  /// Returns the ratio of a stage's part of a total to that of an even cut.
  double share_of_even(double part, double total) const {
    return total > 0 ? part * static_cast<double>(stages()) / total : 0;
  }
  /// Writes a share of an even cut, with a bar that is full at twice the even share.
  void share(double of_even) {
    to_.open("td").open("span", {{"class", "share"}, {"aria-hidden", "true"}});
    to_.element("span", {{"style", "width:" + decimal_text(std::clamp(50 * of_even, 0.0, 100.0), 1) + "%"}},
                "");
    to_.close("span").element("data", {{"class", "share-of-even"}, {"value", json_number(of_even)}},
                              percent_text(of_even));
    to_.close("td");
  }
  void total_row() {
    std::size_t nodes = 0;
    byte_sum state;
    for (auto const& s : r_.cut.stages) {
      nodes += s.nodes;
      state.add(s.state);
    }
    to_.open("tfoot").open("tr").element("th", {{"scope", "row"}}, "All");
    to_.element("td", count_text(nodes));
    if (has_predictions()) to_.element("td", "");
    to_.element("td", amount_text(total_cost(), r_.cost_unit)).element("td", "");
    if (has_times()) to_.element("td", milliseconds_text(total_ns())).element("td", "");
    if (has_loads()) to_.element("td", "");
    to_.element("td", bytes_text(state)).element("td", "").element("td", "");
    if (!r_.memory.empty()) to_.element("td", "");
    if (!r_.files.empty()) to_.element("td", "");
    to_.close("tr").close("tfoot");
  }

  std::string balance_sentence(report_balance const& b) const {
    double most = 0;
    for (double const x : b.load) most = (std::max)(most, x);
    auto const amount = [&](double x) { return amount_text(x, r_.cost_unit); };
    auto out = "The most loaded stage carries " + amount(most) + " (" + printable(b.objective) + ")";
    auto const lacking = unpriced_text(b.lacking);
    if (!b.lacking.leaves_bounds()) {
      out += " of the priced part. No bound is given because " + lacking + ".";
      return b.advice.empty() ? out : out + " " + printable(b.advice, 1000) + ".";
    }
    if (!(b.bound > 0) || !is_finite(most)) return out + ".";
    double const gap = most / b.bound - 1;
    out += "; no cut into " + stages_text() + " can stay below " + amount(b.bound);
    auto const of_priced = lacking.empty() ? "." : " of the priced part (" + lacking + ").";
    return out + (gap < 0.00005
                      ? ": this one is optimal" + of_priced
                      : ", so this one is at most " + percent_text(gap) + " above the optimum" + of_priced);
  }

  void picture() {
    to_.open("section", {{"aria-labelledby", "cut"}}).element("h2", {{"id", "cut"}}, "The cut");
    to_.open("figure").open(
        "div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", "cut"}});
    if (draws_lines())
      stage_graph_writer(to_, r_.cut, r_.cost_unit, lists_nodes()).write();
    else
      stage_matrix_writer(to_, r_.cut, lists_nodes()).write();
    to_.close("div").element("figcaption", picture_caption()).close("figure");
    if (!draws_lines()) largest_transfers();
    to_.close("section");
  }

  /// Lists the pairs of stages with the most bytes, the largest first.
  void largest_transfers() {
    constexpr std::size_t most = 10;
    auto links = r_.cut.links;
    std::ranges::sort(links, [](auto const& a, auto const& b) {
      if (a.bytes.known != b.bytes.known) return a.bytes.known > b.bytes.known;
      return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
    auto const shown = (std::min)(most, links.size());
    if (shown == 0) return;
    to_.element("h3", {{"id", "largest"}},
                shown < links.size() ? "The " + std::to_string(shown) + " largest of " +
                                           count_text(links.size()) + " transfers"
                                     : "All transfers");
    to_.open("div",
             {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", "largest"}});
    to_.open("table").open("thead").open("tr");
    for (auto const* name : {"From stage", "To stage", "Values", "Bytes"}) column(name);
    to_.close("tr").close("thead").open("tbody");
    for (std::size_t i = 0; i < shown; ++i) {
      auto const& l = links[i];
      to_.open("tr").element("th", {{"scope", "row"}}, std::to_string(index(l.from)));
      to_.element("td", std::to_string(index(l.to))).element("td", count_text(l.values));
      to_.element("td", bytes_text(l.bytes)).close("tr");
    }
    to_.close("tbody").close("table").close("div");
  }

  std::string picture_caption() const {
    std::string out =
        draws_lines()
            ? "Each box is a stage with its cost and number of nodes, filled by its cost; the dashed line is "
              "an even share."
            : "A row is a stage that sends, a column a stage that receives. Each cell is all that one sends "
              "to the other; darker cells carry more bytes.";
    if (lists_nodes())
      out +=
          draws_lines() ? " Click on a box to see its nodes." : " Click on a cell to see the sender's nodes.";
    if (r_.cut.links.empty()) return out;
    if (!draws_lines()) return out + unknown_sizes();
    std::uint64_t most = 0;
    for (auto const& l : r_.cut.links) most = (std::max)(most, l.bytes.known);
    out += " Lines are values sent between stages; their width is proportional to their bytes";
    out += most > 0 ? "; the widest carries " + bytes_text(most) + "." : ".";
    return out + unknown_sizes();
  }
  std::string unknown_sizes() const {
    std::size_t unknown = 0;
    for (auto const& l : r_.cut.links) unknown += l.bytes.unknown;
    if (unknown == 0) return "";
    return " The size of " + count_text(unknown) + (unknown == 1 ? " value" : " values") +
           " is unknown (shown as ≥ or ?; dashed if all sizes are unknown).";
  }

  void run(report_run const& run) {
    to_.open("section", {{"aria-labelledby", "run"}}).element("h2", {{"id", "run"}}, "The run");
    double const pipelined = static_cast<double>(timeline_end(run.timeline)),
                 whole = static_cast<double>(run.whole_ns);
    std::vector<report::fact> totals = {{"As a pipeline", milliseconds_text(pipelined)}};
    if (run.whole_ns > 0) totals.push_back({"Whole model, in sequence", milliseconds_text(whole)});
    if (run.whole_ns > 0 && pipelined > 0)
      totals.push_back({"Speed-up", "×\u202f" + decimal_text(whole / pipelined, 2)});
    totals.push_back({"Idle time", percent_text(idle_fraction(run.timeline, stages()))});
    if (run.largest_difference)
      totals.push_back({"Largest difference", difference_text(*run.largest_difference)});
    facts("totals", totals);
    if (!run.timeline.empty()) timeline(run);
    std::string setting;
    if (!run.engine.empty()) setting = "Engine: " + printable(run.engine, 200) + ". ";
    if (!run.machine.empty()) setting += "Machine: " + printable(run.machine, 200) + ".";
    if (!setting.empty()) to_.element("p", {{"class", "soft"}}, setting);
    to_.close("section");
  }
  static std::string difference_text(double x) {
    if (x != 0 && magnitude(x) < 1e-3) return json_number(x);
    return short_text(x);
  }
  void timeline(report_run const& run) {
    to_.open("figure").open(
        "div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", "run"}});
    write_timeline(to_, run.timeline, stages());
    to_.close("div");
    std::string caption =
        "Measured. Bars are microbatches, numbered and coloured alike in all stages; empty background is "
        "idle time.";
    for (auto const& bar : run.timeline)
      if (bar.what == activity::send && (bar.end - bar.begin) * 200 > timeline_end(run.timeline)) {
        caption += " Orange background: the stage waits for room to send its results.";
        break;
      }
    to_.element("figcaption", caption).close("figure");
  }

  report const& r_;
  markup_writer to_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the report of a plan of `g`: the stages with their nodes, and the values sent between them. Other
/// fields, such as the title, are up to the caller. `describe(n)` returns node `n` as the report lists it,
/// and `name(v)` the name of value `v`. O(V + E + T log T) for T transfers.
template <std::unsigned_integral Index, std::invocable<Index> Describe, std::invocable<Index> Name>
report report_of(basic_snapshot_arrays<Index> const& g, basic_plan<Index> const& p, Describe describe,
                 Name name) {
  report r;
  r.cut = quotient_of(g, p);
  for (auto const& stage : p.stages) {
    auto& nodes = r.nodes.emplace_back();
    for (Index const n : stage.nodes) nodes.push_back(describe(n));
  }
  for (auto const& t : p.transfers) {
    auto const bytes = bytes_of(g, t.value);
    r.transfers.push_back({name(t.value), t.from, t.to, {bytes, bytes == 0}});
  }
  return r;
}

/// Returns the report of the plan of a cut, with the balance of its stages. Nodes have their names, or `#4`.
/// A value has the name of the node that makes it, followed by the number of the result if there are several:
/// `split1 #2`. The page shows the bound if the sizes of at least 98 % of the values between nodes are known.
template <std::unsigned_integral Index>
report report_of(basic_snapshot_arrays<Index> const& g, basic_plan<Index> const& p,
                 balanced_partition const& cut) {
  auto const name_of_node = [&](Index n) {
    auto const row = n < g.name.rows() ? g.name[n] : std::span<char const>();
    return row.empty() ? "#" + std::to_string(n) : std::string(row.begin(), row.end());
  };
  auto const describe = [&](Index n) {
    return report_node{name_of_node(n), "", g.weight.empty() ? 0 : g.weight[n]};
  };
  auto const name = [&](Index v) {
    Index const n = g.producer[v];
    if (n == none<Index>) return "value " + std::to_string(v);
    auto const results = g.results[n];
    if (results.size() == 1) return name_of_node(n);
    return name_of_node(n) + " #" + std::to_string(v - results.front());
  };
  auto r = report_of(g, p, describe, name);
  r.balance = report_balance{.objective = "load", .load = cut.loads, .bound = cut.bound};
  for (Index v = 0; v < g.values(); ++v) {
    if (g.from[v] != source::node || g.users[v].empty()) continue;
    ++r.balance->lacking.of_values;
    r.balance->lacking.values += bytes_of(g, v) == 0;
  }
  return r;
}

/// Returns a self-contained HTML page about a cut model. It shows facts about the model, a table of the
/// stages, a picture of the cut, the operators and nodes of each stage, and the measured timeline. With more
/// than 12 stages the picture is a matrix of transfers. A script searches the nodes; without it the page
/// shows the same.
/// \throws error if there are at most 12 stages and they depend on each other in a cycle
inline std::string write_report(report const& r) { return detail::report_writer(r).write(); }

}  // namespace cleave
