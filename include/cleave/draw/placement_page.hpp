// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/report.hpp"
#include "cleave/draw/schedule_svg.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2 {

/// The texts of a page about a placement, and the gains that it lists.
struct placement_page_options {
  std::string title = "placement";
  std::string time_unit = {};              ///< of all times, as in `s`; may be empty
  double time_scale = 1;                   ///< factor from times of the placement to this unit
  std::vector<std::string> stages = {};    ///< what each stage has, as in `layers 0 to 7`; may be empty
  std::vector<placement_gain> gains = {};  ///< what would help; may be empty
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A stage as a page shows it.
struct pictured_stage {
  std::vector<std::uint32_t> devices = {};  ///< one for each copy
  std::uint32_t begin = 0, end = 0;         ///< its units
  stage_cost time = {};                     ///< of its passes for one microbatch
  double sum_time = 0;                      ///< of its copies' sums of gradients, once a step
  double load = 0;                          ///< time of each device for a microbatch of the step
  double link_load = 0;                     ///< the same of the link to the next stage
  std::uint64_t memory = 0;                 ///< bytes that each device needs
  edge_bytes sent = {};
};

/// A placement as a page shows it, with or without copies.
struct pictured_placement {
  static constexpr auto nowhere = ~std::size_t{0};

  std::vector<pictured_stage> stages = {};
  std::vector<std::uint32_t> unused = {};  ///< devices
  double period = 0, latency = 0, step = 0;
  std::uint32_t microbatches = 1;
  std::string schedule = {};             ///< its name
  double gap = 0;                        ///< 0: optimal
  std::string limit = {};                ///< what limits the throughput, in words
  std::size_t limiting_stage = nowhere,  ///< that stage, or …
      limiting_link = nowhere;           ///< … the stage in front of that link
  bool has_copies = false;
  cleave::schedule order = {};
  schedule_times times = {};
};

/// Returns a placement without copies as a page shows it.
inline pictured_placement picture_of(device_network const& net, device_placement const& p) {
  using enum placement_bottleneck::kind;
  pictured_placement made{.unused = p.unused,
                          .period = p.period,
                          .latency = p.latency,
                          .step = p.step,
                          .microbatches = p.microbatches,
                          .schedule = std::string(name_of(p.schedule)),
                          .gap = p.gap(),
                          .limit = bottleneck_text(p.bottleneck, net),
                          .order = schedule_of(p)};
  made.times = simulate(made.order, simulate_options_of(p, net));
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    auto const& of = p.stages[s];
    auto& stage = made.stages.emplace_back(pictured_stage{.devices = {of.device},
                                                          .begin = of.begin,
                                                          .end = of.end,
                                                          .time = of.time,
                                                          .load = of.time.forward + of.time.backward,
                                                          .memory = of.memory,
                                                          .sent = of.sent});
    if (p.bottleneck.what == device && p.bottleneck.from == of.device) made.limiting_stage = s;
    if (s + 1 == p.stages.size()) continue;
    auto const next = p.stages[s + 1].device;
    stage.link_load = occupied_time(of.sent, net.link(of.device, next), net.link(next, of.device));
    if (p.bottleneck.what == link && p.bottleneck.from == of.device && p.bottleneck.to == next)
      made.limiting_link = s;
  }
  return made;
}

/// Writes the page of a placement. Helper of `placement_page`.
class placement_page_writer {
 public:
  placement_page_writer(device_network const& net, pictured_placement const& p,
                        placement_page_options const& o)
      : net_(net), p_(p), options_(o), times_(p.times) {
    auto const scale = [&](double& t) { t *= o.time_scale; };
    scale(times_.makespan);
    for (auto* list : {&times_.busy, &times_.first, &times_.last}) std::ranges::for_each(*list, scale);
    for (auto& spans : times_.spans)
      for (auto& span : spans) scale(span.begin), scale(span.end);
  }

  std::string write() {
    to_.markup("<!doctype html>\n").open("html", {{"lang", "en"}});
    to_.open("head").empty("meta", {{"charset", "utf-8"}});
    to_.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    to_.element("title", printable(options_.title, 120))
        .open("style")
        .markup(report_style)
        .markup(schedule_style);
    to_.markup(style).close("style").close("head").open("body").open("header");
    to_.element("h1", printable(options_.title, 120)).element("p", {{"class", "lead"}}, lead());
    totals();
    to_.close("header");
    section("devices", "Devices and links", [&] { picture(); });
    section("stages", "Stages", [&] { table(); });
    section("time", "A step",
            [&] { write_schedule(to_, timed(), {.bars = schedule_svg_options::detail::hover}); });
    if (p_.has_copies)
      to_.element("p", {{"class", "soft"}},
                  std::string("A copy of a stage is a rank. Numbers are those of microbatches.") +
                      (has_sums() ? " The last bar of a rank is the sum of its gradients with those of the "
                                    "other copies."
                                  : ""));
    if (!options_.gains.empty()) section("gains", "What would help most", [&] { gains(); });
    to_.element("footer", {{"class", "soft"}},
                "Written by cleave. A bar says which share of the period is busy.");
    to_.close("body").close("html");
    return to_.str();
  }

 private:
  static constexpr std::string_view style = R"(
.device { fill: #f4f6fa; stroke: #7a869c; }
.device-unused { fill: none; stroke: #b9c0cc; stroke-dasharray: 4 3; }
.device-busy { fill: #4a7fc1; }
.device-limit { fill: #c1504a; }
.device-name { font: 600 14px sans-serif; fill: #1b2430; }
.device-text { font: 12px sans-serif; fill: #3c4756; }
.link { stroke: #7a869c; stroke-width: 2; }
.link-limit { stroke: #c1504a; stroke-width: 3; }
)";
  static constexpr double width = 170, height = 96, gap = 110, margin = 16;
  static constexpr std::size_t per_line = 4;

  timed_schedule timed() const {
    return {.name = options_.title, .order = p_.order, .times = times_, .time_unit = options_.time_unit};
  }
  std::string time(double t) const { return amount_text(t * options_.time_scale, options_.time_unit); }
  std::string name_of(std::uint32_t d) const { return device_name(net_, d); }
  static std::string share_text(double part, double whole) {
    return whole > 0 ? short_text(100 * part / whole) + " %" : "0 %";
  }
  template <class F>
  void section(std::string const& id, std::string_view heading, F content) {
    to_.open("section", {{"aria-labelledby", id}}).element("h2", {{"id", id}}, heading);
    to_.open("div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", id}});
    content();
    to_.close("div").close("section");
  }

  bool has_sums() const {
    return std::ranges::any_of(p_.stages, [](auto const& s) { return s.sum_time > 0; });
  }
  /// Returns the names of the devices of a stage, or as many as fit into `most` characters.
  std::string names_of(pictured_stage const& s, std::size_t most) const {
    std::string text;
    for (std::size_t i = 0; i < s.devices.size(); ++i) {
      auto const name = name_of(s.devices[i]);
      if (i > 0 && text.size() + 2 + name.size() > most)
        return text + " + " + count_text(s.devices.size() - i) + " more";
      text += (i > 0 ? ", " : "") + name;
    }
    return text;
  }
  std::string lead() const {
    std::size_t used = 0;
    for (auto const& s : p_.stages) used += s.devices.size();
    return count_text(used) + " of " + count_text(net_.devices.size()) + " devices run a stage. " +
           capitalized(p_.limit) + " limits the throughput.";
  }
  /// Returns the limit at the beginning of a sentence.
  std::string capitalized(std::string const& what) const {
    return what.starts_with("each ") ? "E" + what.substr(1) : "The " + what;
  }
  void totals() {
    to_.open("dl", {{"class", "totals"}});
    auto const fact = [&](std::string_view what, std::string const& value) {
      to_.open("div").element("dt", what).element("dd", value).close("div");
    };
    fact("A microbatch every", time(p_.period));
    if (!p_.has_copies) fact("A forward pass", time(p_.latency));
    fact(
        "A step of " + count_text(p_.microbatches) + (p_.microbatches == 1 ? " microbatch" : " microbatches"),
        time(p_.step));
    fact("Schedule", p_.schedule);
    fact("Proved", p_.gap == 0 ? "optimal" : "within " + share_text(p_.gap, 1));
    to_.close("dl");
  }

  double x_of(std::size_t i) const { return margin + static_cast<double>(i % per_line) * (width + gap); }
  double y_of(std::size_t i) const { return margin + static_cast<double>(i / per_line) * (height + 48); }

  void picture() {
    auto const all = p_.stages.size() + p_.unused.size();
    auto const lines = (all + per_line - 1) / per_line;
    double const w = 2 * margin + per_line * (width + gap) - gap,
                 h = 2 * margin + static_cast<double>(lines) * (height + 48) - 48;
    to_.open("svg", {{"viewBox", "0 0 " + fixed_text(w, 0) + " " + fixed_text(h, 0)},
                     {"width", w},
                     {"height", h},
                     {"role", "img"},
                     {"aria-label", "devices and the links between their stages"}});
    for (std::size_t s = 0; s + 1 < p_.stages.size(); ++s) link(s);
    for (std::size_t s = 0; s < p_.stages.size(); ++s) box(s);
    for (std::size_t u = 0; u < p_.unused.size(); ++u) {
      auto const at = p_.stages.size() + u;
      to_.empty("rect", {{"class", "device-unused"},
                         {"x", x_of(at)},
                         {"y", y_of(at)},
                         {"width", width},
                         {"height", height},
                         {"rx", 8.0}});
      write_svg_text(to_, "device-name", x_of(at) + 10, y_of(at) + 24, "start", name_of(p_.unused[u]));
      write_svg_text(to_, "device-text", x_of(at) + 10, y_of(at) + 44, "start", "not used");
    }
    to_.close("svg");
  }

  void box(std::size_t s) {
    auto const& stage = p_.stages[s];
    auto const x = x_of(s), y = y_of(s);
    for (auto behind = (std::min<std::size_t>)(stage.devices.size() - 1, 2); behind-- > 0;) {
      auto const by = 5.0 * static_cast<double>(behind + 1);  // up to two copies are seen behind the first
      to_.empty("rect", {{"class", "device"},
                         {"x", x + by},
                         {"y", y - by},
                         {"width", width},
                         {"height", height},
                         {"rx", 8.0}});
    }
    to_.empty("rect",
              {{"class", "device"}, {"x", x}, {"y", y}, {"width", width}, {"height", height}, {"rx", 8.0}});
    write_svg_text(to_, "device-name", x + 10, y + 22, "start", names_of(stage, 18));
    auto const what = s < options_.stages.size()
                          ? printable(options_.stages[s], 22)
                          : "units " + std::to_string(stage.begin) + " to " + std::to_string(stage.end - 1);
    write_svg_text(to_, "device-text", x + 10, y + 40, "start", what);
    write_svg_text(to_, "device-text", x + 10, y + 57, "start",
                   time(stage.time.forward + stage.time.backward) + " each, " + bytes_text(stage.memory));
    auto const share = p_.period > 0 ? (std::min)(1.0, stage.load / p_.period) : 0;
    to_.empty("rect", {{"class", s == p_.limiting_stage ? "device-limit" : "device-busy"},
                       {"x", x + 10},
                       {"y", y + height - 26},
                       {"width", (width - 20) * share},
                       {"height", 8.0}});
    write_svg_text(to_, "device-text", x + 10, y + height - 5, "start",
                   share_text(stage.load, p_.period) + " busy");
  }

  /// Draws the link from a stage to the next, with the share of the period for which it is busy.
  void link(std::size_t s) {
    auto const& from = p_.stages[s];
    std::string_view const kind = s == p_.limiting_link ? "link-limit" : "link";
    bool const is_in_line = (s + 1) % per_line != 0;
    auto const x1 = is_in_line ? x_of(s) + width : x_of(s) + width / 2,
               y1 = is_in_line ? y_of(s) + height / 2 : y_of(s) + height;
    auto const x2 = is_in_line ? x_of(s + 1) : x_of(s + 1) + width / 2, y2 = is_in_line ? y1 : y_of(s + 1);
    to_.empty("line", {{"class", kind}, {"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}});
    auto const x = (x1 + x2) / 2, y = (y1 + y2) / 2;
    write_svg_text(to_, "device-text", x, y - 7, "middle", bytes_text(from.sent.activation));
    write_svg_text(to_, "device-text", x, y + 16, "middle", share_text(from.link_load, p_.period) + " busy");
  }

  void table() {
    to_.open("table").open("thead").open("tr");
    auto const column = [&](std::string_view name) { to_.element("th", {{"scope", "col"}}, name); };
    for (auto const* name : {"Stage", p_.has_copies ? "Devices" : "Device"}) column(name);
    if (p_.has_copies) column("Ranks");
    for (auto const* name : {"Units", "Forward", "Backward"}) column(name);
    if (has_sums()) column("Sums");
    for (auto const* name : {"Memory", "Sends"}) column(name);
    to_.close("tr").close("thead").open("tbody");
    std::size_t rank = 0;
    for (std::size_t s = 0; s < p_.stages.size(); ++s) {
      auto const& stage = p_.stages[s];
      auto const copies = stage.devices.size();
      to_.open("tr")
          .element("th", {{"scope", "row"}}, std::to_string(s))
          .element("td", (copies > 1 ? count_text(copies) + " copies: " : "") + names_of(stage, 400));
      if (p_.has_copies)
        to_.element("td",
                    std::to_string(rank) + (copies > 1 ? " to " + std::to_string(rank + copies - 1) : ""));
      rank += copies;
      to_.element("td", s < options_.stages.size()
                            ? printable(options_.stages[s], 60)
                            : std::to_string(stage.begin) + " to " + std::to_string(stage.end - 1));
      to_.element("td", time(stage.time.forward)).element("td", time(stage.time.backward));
      if (has_sums()) to_.element("td", stage.sum_time > 0 ? time(stage.sum_time) : "–");
      auto const limit = net_.devices[stage.devices[0]].memory;
      to_.element("td",
                  bytes_text(stage.memory) + (limit == unlimited_memory ? "" : " of " + bytes_text(limit)));
      to_.element("td", s + 1 < p_.stages.size() ? bytes_text(stage.sent.activation) : "–").close("tr");
    }
    to_.close("tbody").close("table");
  }

  void gains() {
    to_.open("table").open("thead").open("tr");
    for (std::string_view const name : {"Change", "Then", "Saves"})
      to_.element("th", {{"scope", "col"}}, name);
    to_.close("tr").close("thead").open("tbody");
    for (auto const& g : options_.gains)
      to_.open("tr")
          .element("th", {{"scope", "row"}}, printable(g.what, 80))
          .element("td", time(g.value))
          .element("td", share_text(g.saved, 1))
          .close("tr");
    to_.close("tbody").close("table");
  }

  device_network const& net_;
  pictured_placement const& p_;
  placement_page_options const& options_;
  schedule_times times_;  // in the unit of the options
  markup_writer to_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a placement as a self-contained HTML page: the devices and links with their loads, a table of the
/// stages, the timeline of a step, and what would help. O(stages · microbatches).
inline std::string placement_page(device_network const& net, device_placement const& p,
                                  placement_page_options const& options = {}) {
  return detail::placement_page_writer(net, detail::picture_of(net, p), options).write();
}

}  // namespace cleave
