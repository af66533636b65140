// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
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
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2 {

/// The texts of a page about a placement, and the gains that it lists.
struct placement_page_options {
  std::string title = "placement";
  std::string time_unit = {};              ///< of all times, as in `s`; may be empty
  std::vector<std::string> stages = {};    ///< what each stage has, as in `layers 0 to 7`; may be empty
  std::vector<placement_gain> gains = {};  ///< what would help; may be empty
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes the page of a placement. Helper of `placement_page`.
class placement_page_writer {
 public:
  placement_page_writer(device_network const& net, device_placement const& p, placement_page_options const& o)
      : net_(net),
        p_(p),
        options_(o),
        order_(schedule_of(p)),
        times_(simulate(order_, simulate_options_of(p, net))) {}

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
    return {.name = options_.title, .order = order_, .times = times_, .time_unit = options_.time_unit};
  }
  std::string time(double t) const { return amount_text(t, options_.time_unit); }
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

  std::string lead() const {
    auto const used = p_.stages.size(), all = net_.devices.size();
    return count_text(used) + " of " + count_text(all) + " devices run a stage. The " +
           bottleneck_text(p_.bottleneck, net_) + " limits the throughput.";
  }
  void totals() {
    to_.open("dl", {{"class", "totals"}});
    auto const fact = [&](std::string_view what, std::string const& value) {
      to_.open("div").element("dt", what).element("dd", value).close("div");
    };
    fact("A microbatch every", time(p_.period));
    fact("A forward pass", time(p_.latency));
    fact(
        "A step of " + count_text(p_.microbatches) + (p_.microbatches == 1 ? " microbatch" : " microbatches"),
        time(p_.step));
    fact("Schedule", std::string(name_of_family()));
    fact("Proved", p_.is_optimal() ? "optimal" : "within " + share_text(p_.gap(), 1));
    to_.close("dl");
  }
  std::string_view name_of_family() const { return cleave::name_of(p_.schedule); }

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
    auto const load = stage.time.forward + stage.time.backward;
    bool const limits =
        p_.bottleneck.what == placement_bottleneck::kind::device && p_.bottleneck.from == stage.device;
    to_.empty("rect",
              {{"class", "device"}, {"x", x}, {"y", y}, {"width", width}, {"height", height}, {"rx", 8.0}});
    write_svg_text(to_, "device-name", x + 10, y + 22, "start", name_of(stage.device));
    auto const what = s < options_.stages.size()
                          ? printable(options_.stages[s], 22)
                          : "units " + std::to_string(stage.begin) + " to " + std::to_string(stage.end - 1);
    write_svg_text(to_, "device-text", x + 10, y + 40, "start", what);
    write_svg_text(to_, "device-text", x + 10, y + 57, "start",
                   time(load) + " each, " + bytes_text(stage.memory));
    auto const share = p_.period > 0 ? (std::min)(1.0, load / p_.period) : 0;
    to_.empty("rect", {{"class", limits ? "device-limit" : "device-busy"},
                       {"x", x + 10},
                       {"y", y + height - 26},
                       {"width", (width - 20) * share},
                       {"height", 8.0}});
    write_svg_text(to_, "device-text", x + 10, y + height - 5, "start",
                   share_text(load, p_.period) + " busy");
  }

  /// Draws the link from a stage to the next, with the share of the period for which it is busy.
  void link(std::size_t s) {
    auto const& from = p_.stages[s];
    auto const a = from.device, b = p_.stages[s + 1].device;
    auto const there = net_.link(a, b), back = net_.link(b, a);
    auto const load = occupied_time(from.sent, there, back);
    bool const limits = p_.bottleneck.what == placement_bottleneck::kind::link && p_.bottleneck.from == a &&
                        p_.bottleneck.to == b;
    std::string_view const kind = limits ? "link-limit" : "link";
    bool const is_in_line = (s + 1) % per_line != 0;
    auto const x1 = is_in_line ? x_of(s) + width : x_of(s) + width / 2,
               y1 = is_in_line ? y_of(s) + height / 2 : y_of(s) + height;
    auto const x2 = is_in_line ? x_of(s + 1) : x_of(s + 1) + width / 2, y2 = is_in_line ? y1 : y_of(s + 1);
    to_.empty("line", {{"class", kind}, {"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}});
    auto const x = (x1 + x2) / 2, y = (y1 + y2) / 2;
    write_svg_text(to_, "device-text", x, y - 7, "middle", bytes_text(from.sent.activation));
    write_svg_text(to_, "device-text", x, y + 16, "middle", share_text(load, p_.period) + " busy");
  }

  void table() {
    to_.open("table").open("thead").open("tr");
    for (std::string_view const name : {"Stage", "Device", "Units", "Forward", "Backward", "Memory", "Sends"})
      to_.element("th", {{"scope", "col"}}, name);
    to_.close("tr").close("thead").open("tbody");
    for (std::size_t s = 0; s < p_.stages.size(); ++s) {
      auto const& stage = p_.stages[s];
      to_.open("tr")
          .element("th", {{"scope", "row"}}, std::to_string(s))
          .element("td", name_of(stage.device));
      to_.element("td", s < options_.stages.size()
                            ? printable(options_.stages[s], 60)
                            : std::to_string(stage.begin) + " to " + std::to_string(stage.end - 1));
      to_.element("td", time(stage.time.forward)).element("td", time(stage.time.backward));
      auto const limit = net_.devices[stage.device].memory;
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
  device_placement const& p_;
  placement_page_options const& options_;
  schedule order_;
  schedule_times times_;
  markup_writer to_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a placement as a self-contained HTML page: the devices and links with their loads, a table of the
/// stages, the timeline of a step, and what would help. O(stages · microbatches).
inline std::string placement_page(device_network const& net, device_placement const& p,
                                  placement_page_options const& options = {}) {
  return detail::placement_page_writer(net, p, options).write();
}

}  // namespace cleave
