// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cleave/core/printable.hpp>
#include <cleave/draw/markup_writer.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/draw/schedule_svg.hpp>
#include <cleave/draw/stage_graph.hpp>
#include <cleave/formats/timed_schedule.hpp>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "training.hpp"
#include "training_plot.hpp"

namespace tool {

/// The page about the training of the whole model and of its stages.
struct training_report {
  std::vector<cleave::report::fact> facts;
  gpt const* model;
  history whole;
  std::vector<staged_training> staged;
  std::vector<training_difference> differences;  ///< in step with `staged`
};

/// Returns a difference as `1.2e-15`; 0 means that two runs are equal in every bit.
inline std::string difference_text(double x) {
  if (x == 0) return "0";
  if (!cleave::is_finite(x)) return "no number";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, x, std::chars_format::scientific, 1).ptr};
}

/// Returns the names of one parameter, joined: `embedding.weight = head.weight`.
inline std::map<std::string, std::string> parameter_names(gpt const& model) {
  std::map<std::string, std::string> names;
  for (auto const& a : model.graph.attributes()) {
    auto& text = names[cleave::testing::holder_of(a)];
    text += (text.empty() ? "" : " = ") + a.path;
  }
  return names;
}

/// Writes a training_report; used by `write_training_report`.
class training_report_writer {
 public:
  explicit training_report_writer(training_report const& r) : r_(r) {}

  std::string write() {
    to_.markup("<!doctype html>\n").open("html", {{"lang", "en"}});
    to_.open("head").empty("meta", {{"charset", "utf-8"}});
    to_.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    to_.element("title", title);
    to_.open("style").markup(cleave::report_style).markup(plot_style).close("style").close("head");
    to_.open("body").open("header").element("h1", title);
    to_.element("p", {{"class", "lead"}},
                "One model is trained twice from the same weights on the same text: as a whole, and cut into "
                "stages that exchange values and gradients. Losses and gradients must be equal.");
    facts("", r_.facts);
    to_.close("header");
    losses();
    for (auto const& s : r_.staged) cut(s);
    parameters();
    to_.element("footer", {{"class", "soft"}},
                "Written by cleave. Hover over a point, a box or a line for exact figures.");
    to_.close("body").close("html");
    return to_.str();
  }

 private:
  static constexpr std::string_view title = "Trained whole and in stages";

  void facts(std::string_view kind, std::vector<cleave::report::fact> const& list) {
    to_.open("dl", {{"class", kind}});
    for (auto const& f : list) to_.open("div").element("dt", f.what).element("dd", f.value).close("div");
    to_.close("dl");
  }

  void losses() {
    to_.open("section", {{"aria-labelledby", "loss"}}).element("h2", {{"id", "loss"}}, "Loss");
    std::vector<cleave::report::fact> totals;
    for (std::size_t i = 0; i < r_.staged.size(); ++i) {
      totals.push_back({"Loss, cut " + r_.staged[i].how, difference_text(r_.differences[i].loss)});
      totals.push_back({"Gradients, cut " + r_.staged[i].how, difference_text(r_.differences[i].gradient)});
    }
    to_.element(
        "p", "Largest differences from the whole model, over all steps and all elements of all parameters:");
    facts("totals", totals);
    std::vector<plotted> lines{{"whole", r_.whole.losses}};
    for (auto const& s : r_.staged)
      lines.push_back({std::to_string(s.cut.stages.size()) + " stages, cut " + s.how, s.made.losses});
    to_.open("figure");
    open_wide("loss");
    plot_writer(to_, lines)
        .write("Loss of the model in one piece and in stages",
               "From " + cleave::decimal_text(r_.whole.losses.front(), 3) + " to " +
                   cleave::decimal_text(r_.whole.losses.back(), 3) + " in " +
                   std::to_string(r_.whole.losses.size()) + " steps.");
    to_.close("div").element("figcaption",
                             "Mean loss over the batch before each step. The broad line is the model in one "
                             "piece; the stages lie on it.");
    to_.close("figure").close("section");
  }

  /// Opens a block that scrolls on narrow pages; `id` is its heading.
  void open_wide(std::string_view id) {
    to_.open("div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", id}});
  }

  void cut(staged_training const& s) {
    std::string id = "cut";
    for (char const c : s.how) id += c == ' ' ? '-' : c;
    to_.open("section", {{"aria-labelledby", id}}).element("h2", {{"id", id}}, "Cut " + s.how);
    to_.open("figure");
    open_wide(id);
    write_stage_graph(to_, s.cut, "MAC");
    to_.close("div").element("figcaption",
                             "Each box is a stage with its work and number of nodes; lines are transferred "
                             "values, as wide as their bytes. Gradients return along them: " +
                                 std::to_string(s.gradients_sent) + " for each microbatch.");
    to_.close("figure");
    in_time(s, id, "measured", "The measured last step, with one thread per stage.", s.measured);
    in_time(s, id, "simulated", "The same step, simulated with the shortest pass of each stage.",
            s.simulated);
    to_.close("section");
  }

  void in_time(staged_training const& s, std::string const& id, std::string const& what,
               std::string_view caption, cleave::schedule_times const& times) {
    to_.open("figure");
    open_wide(id);
    write_schedule(
        to_, {.name = "Cut " + s.how + ", " + what, .order = s.order, .times = times, .time_unit = "µs"},
        {.id = id + "-" + what});
    to_.close("div").element("figcaption", caption).close("figure");
  }

  void parameters() {
    to_.open("section", {{"aria-labelledby", "parameters"}});
    to_.element("h2", {{"id", "parameters"}}, "Gradients, parameter by parameter");
    open_wide("parameters");
    to_.open("table").open("thead").open("tr");
    column("Parameter");
    column("Largest gradient");
    for (auto const& s : r_.staged) column("Difference, cut " + s.how);
    to_.close("tr").close("thead").open("tbody");
    for (auto const& [holder, name] : parameter_names(*r_.model)) {
      double most = 0;
      for (auto const& step : r_.whole.gradients)
        if (auto const g = step.find(holder); g != step.end() && g->second)
          for (double const x : g->second->data) most = std::max(most, std::abs(x));
      to_.open("tr").element("th", {{"scope", "row"}}, cleave::printable(name, 100));
      to_.element("td", cleave::short_text(most));
      for (auto const& d : r_.differences) {
        auto const known = d.by_parameter.find(holder);
        to_.element("td", known == d.by_parameter.end() ? "–" : difference_text(known->second));
      }
      to_.close("tr");
    }
    to_.close("tbody").close("table").close("div").close("section");
  }
  void column(std::string_view name) { to_.element("th", {{"scope", "col"}}, name); }

  training_report const& r_;
  cleave::markup_writer to_;
};

inline std::string write_training_report(training_report const& r) {
  return training_report_writer(r).write();
}

}  // namespace tool
