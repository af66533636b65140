// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/quotient.hpp"
#include "cleave/draw/report_data.hpp"
#include "cleave/draw/report_style.hpp"
#include "cleave/draw/stage_graph_svg.hpp"
#include "cleave/draw/timeline_svg.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/formats/unpriced_text.hpp"
#include "cleave/run/forward/timeline.hpp"

namespace cleave::detail {

/// Writes a report; `write_report` is its one use.
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
    }
    if (r_.run) run(*r_.run);
    to_.element("footer", {{"class", "soft"}},
                "Written by cleave. Hover over a bar, a box or a line for exact figures.");
    to_.close("body").close("html");
    return to_.str();
  }

 private:
  std::size_t stages() const { return r_.cut.stages.size(); }
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

  /// A cell whose exact number a program can read.
  void number(std::string_view column, double exact, std::string_view shown) {
    to_.open("td").element("data", {{"class", column}, {"value", json_number(exact)}}, shown).close("td");
  }
  void number(std::string_view column, byte_sum const& sum) {
    to_.open("td").element("data", {{"class", column}, {"value", sum.known}}, bytes_text(sum)).close("td");
  }
  static std::string json_number(double x) {
    json_writer to;
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
    column("Cost");
    column("Share of an even cut");
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
    to_.close("table").close("div").close("section");
  }
  void column(std::string_view name) { to_.element("th", {{"scope", "col"}}, name); }
  bool has_loads() const { return r_.balance && r_.balance->load.size() == stages(); }
  static std::string capitalised(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
  }

  void row(std::size_t s) {
    auto const& box = r_.cut.stages[s];
    to_.open("tr", {{"data-stage", s}}).element("th", {{"scope", "row"}}, std::to_string(s));
    number("nodes", static_cast<double>(box.nodes), count_text(box.nodes));
    number("cost", box.cost, amount_text(box.cost, r_.cost_unit));
    double const even = total_cost() / static_cast<double>(stages());
    share(even > 0 ? box.cost / even : 0);
    if (has_loads()) number("load", r_.balance->load[s], amount_text(r_.balance->load[s], r_.cost_unit));
    number("state", box.state);
    number("in", box.in);
    number("out", box.out);
    if (!r_.memory.empty())
      s < r_.memory.size() ? number("memory", r_.memory[s]) : void(to_.element("td", "–"));
    if (!r_.files.empty()) to_.element("td", s < r_.files.size() ? printable(r_.files[s]) : "–");
    to_.close("tr");
  }
  /// The bar is full at twice the even share.
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
    to_.element("td", count_text(nodes))
        .element("td", amount_text(total_cost(), r_.cost_unit))
        .element("td", "");
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
      out += " of what has a price. No bound is given, for " + lacking + ".";
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
    write_stage_graph(to_, r_.cut, r_.cost_unit);
    to_.close("div").element("figcaption", picture_caption()).close("figure").close("section");
  }
  std::string picture_caption() const {
    std::string out =
        "Each box is a stage with its cost and number of nodes, filled by its cost; the dashed line is an "
        "even "
        "share.";
    if (r_.cut.links.empty()) return out;
    byte_sum most;
    for (auto const& l : r_.cut.links) {
      most.known = (std::max)(most.known, l.bytes.known);
      most.unknown += l.bytes.unknown;
    }
    out += " Lines are values on their way, as wide as their bytes";
    out += most.known > 0 ? "; the widest carries " + bytes_text(most.known) + "." : ".";
    if (most.unknown > 0)
      out += " Of " + count_text(most.unknown) + (most.unknown == 1 ? " value" : " values") +
             " the size is unknown (≥, ?, and dashed lines where it is of all).";
    return out;
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
        "Measured. Bars are microbatches, numbered and coloured alike in all stages; empty ground is idle "
        "time.";
    for (auto const& bar : run.timeline)
      if (bar.what == activity::send && (bar.end - bar.begin) * 200 > timeline_end(run.timeline)) {
        caption += " Warm ground: the stage waits for room where its results go.";
        break;
      }
    to_.element("figcaption", caption).close("figure");
  }

  report const& r_;
  markup_writer to_;
};

}  // namespace cleave::detail

namespace cleave {

/// One HTML page that needs nothing else: what the model is, a table of the stages, the cut as a picture, the
/// measured timeline.
/// \throws error if the stages of `r.cut` need each other in a cycle.
inline std::string write_report(report const& r) { return detail::report_writer(r).write(); }

}  // namespace cleave
