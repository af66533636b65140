// SPDX-License-Identifier: MIT
#include "cleave/draw/report.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/markup.hpp"
#include "support/nasty_names.hpp"
#include "support/rng.hpp"

using namespace cleave;
using testing::element;

namespace {

report example(std::uint32_t stages, std::uint32_t microbatches) {
  testing::rng random(stages);
  report r{"model.onnx", {{"Nodes", "199"}, {"Operator set", "17"}}, {}, "FLOP", {}, {}, {}, {}};
  report_balance balance{"cost plus transfer", {}, 1};
  report_run run{{}, microbatches, 1'000'000'000, 0.0, "an engine", "a machine"};
  for (std::uint32_t s = 0; s < stages; ++s) {
    r.cut.stages.push_back({1 + random.below(99),
                            1 + 1e9 * random.unit(),
                            {random.below(1u << 30), 0},
                            {random.below(1u << 20), 0},
                            {random.below(1u << 20), random.below(2)}});
    r.files.push_back("stage_" + std::to_string(s) + ".onnx");
    r.memory.push_back({random.below(1u << 30), 0});
    balance.load.push_back(2e9 * random.unit());
    if (s > 0) r.cut.links.push_back({stage_id{s - 1}, stage_id{s}, 1, {random.below(1u << 20), 0}});
    for (std::uint32_t m = 0; m < microbatches; ++m)
      run.timeline.push_back(
          {stage_id{s}, microbatch_id{m}, activity::forward, (s + m) * 10'000'000, (s + m + 1) * 10'000'000});
  }
  r.balance = balance;
  r.run = run;
  return r;
}

/// The rows of the stage table: a map from the class of a number to its exact value.
std::vector<std::map<std::string, double>> cells(std::vector<element> const& page) {
  std::vector<std::map<std::string, double>> rows;
  for (auto const& e : page) {
    if (e.tag == "tr" && e.attributes.contains("data-stage")) rows.emplace_back();
    if (e.tag == "data") rows.back()[e.at("class")] = e.number("value");
  }
  return rows;
}

std::size_t count(std::vector<element> const& page, std::string const& tag, std::string const& kind = {}) {
  std::size_t n = 0;
  for (auto const& e : page) n += e.tag == tag && (kind.empty() || e.is(kind));
  return n;
}

std::string all_text(std::vector<element> const& page) {
  std::string out;
  for (auto const& e : page)
    if (e.tag != "style") out += e.text + '\n';
  return out;
}

}  // namespace

TEST_CASE("write_report: the cells of the stage table hold the exact numbers") {
  for (std::uint32_t const k : {1u, 4u, 32u}) {
    auto const r = example(k, 8);
    auto const rows = cells(testing::read_markup(write_report(r)));
    REQUIRE(rows.size() == k);
    double total = 0;
    for (auto const& s : r.cut.stages) total += s.cost;
    for (std::size_t s = 0; s < k; ++s) {
      auto const& box = r.cut.stages[s];
      CHECK(rows[s].at("nodes") == static_cast<double>(box.nodes));
      CHECK(rows[s].at("cost") == box.cost);
      CHECK(rows[s].at("share-of-even") == doctest::Approx(box.cost * k / total));
      CHECK(rows[s].at("load") == r.balance->load[s]);
      CHECK(rows[s].at("state") == static_cast<double>(box.state.known));
      CHECK(rows[s].at("in") == static_cast<double>(box.in.known));
      CHECK(rows[s].at("out") == static_cast<double>(box.out.known));
      CHECK(rows[s].at("memory") == static_cast<double>(r.memory[s].known));
    }
  }
}

TEST_CASE("write_report: draws each stage once, a bar per stage and microbatch, and prints the totals") {
  auto const page = testing::read_markup(write_report(example(4, 8)));
  CHECK(count(page, "rect", "frame") == 4);
  CHECK(count(page, "g", "link") == 3);
  CHECK(count(page, "rect", "bar") == 4 * 8);
  auto const text = all_text(page);
  // 4 stages and 8 microbatches of 10 ms take 11 steps; 12 of 44 are idle.
  for (auto const* total : {"110\u00a0ms", "1000\u00a0ms", "×\u202f9.09", "27.3\u00a0%", "an engine",
                            "a machine", "stage_3.onnx"}) {
    CAPTURE(total);
    CHECK(text.find(total) != std::string::npos);
  }
}

TEST_CASE("write_report: states the largest possible distance of the cut from the optimum") {
  auto r = example(3, 1);
  r.balance = report_balance{"cost", {100, 120, 80}, 96};
  auto text = all_text(testing::read_markup(write_report(r)));
  CHECK(text.find("carries 120\u00a0FLOP (cost); no cut into 3 stages can stay below 96\u00a0FLOP, so this "
                  "one is at most "
                  "25.0\u00a0% above the optimum.") != std::string::npos);
  r.balance->bound = 120;
  text = all_text(testing::read_markup(write_report(r)));
  CHECK(text.find("below 120\u00a0FLOP: this one is optimal.") != std::string::npos);
}

TEST_CASE("write_report: the bound covers only priced parts and is left out if too much has no price") {
  auto r = example(3, 1);
  r.balance = report_balance{"cost", {100, 120, 80}, 96};
  r.balance->lacking = {.nodes = 1, .of_nodes = 100, .values = 0, .of_values = 100};
  r.balance->advice = "--dim batch=N would price most";
  auto text = all_text(testing::read_markup(write_report(r)));
  CHECK(text.find("25.0\u00a0% above the optimum of the priced part (1.0\u00a0% of nodes have no price).") !=
        std::string::npos);
  CHECK(text.find("--dim") == std::string::npos);
  r.balance->lacking.values = 30;
  text = all_text(testing::read_markup(write_report(r)));
  CHECK(text.find("carries 120\u00a0FLOP (cost) of the priced part. No bound is given because 1.0\u00a0% of "
                  "nodes and 30.0\u00a0% of values have no price. --dim batch=N would price most.") !=
        std::string::npos);
  CHECK(text.find("optim") == std::string::npos);
}

TEST_CASE("write_report: leaves out sections without data") {
  auto r = example(4, 8);
  r.run.reset();
  r.balance.reset();
  r.memory.clear();
  r.files.clear();
  auto const page = testing::read_markup(write_report(r));
  CHECK(count(page, "svg", "timeline") == 0);
  CHECK(count(page, "svg", "graph") == 1);
  CHECK(count(page, "th") == 7 + 4 + 1);
  auto const text = all_text(page);
  for (auto const* heading : {"The run", "Memory", "File", "optim"})
    CHECK(text.find(heading) == std::string::npos);
  CHECK(count(testing::read_markup(write_report({})), "svg") == 0);
}

TEST_CASE("write_report: every row of the table has a cell for each column") {
  for (auto const with : {0, 1, 2, 3}) {
    auto r = example(3, 2);
    if (!(with & 1)) r.balance.reset();
    if (!(with & 2)) r.memory.clear();
    auto const page = testing::read_markup(write_report(r));
    std::map<std::size_t, std::size_t> cells_of;
    for (auto const& e : page)
      if (e.tag == "td" || e.tag == "th") ++cells_of[e.parent];
    std::set<std::size_t> lengths;
    for (auto const& [row, cells] : cells_of) lengths.insert(cells);
    CHECK(lengths.size() == 1);
  }
}

TEST_CASE("write_report: is well-formed for any names and numbers and loads nothing external") {
  double const odd[] = {0, -1, 1e308, 5e-324, std::nan(""), std::numeric_limits<double>::infinity()};
  std::size_t i = 0;
  for (auto const& name : testing::nasty_names()) {
    auto r = example(2, 3);
    r.title = r.facts[0].what = r.facts[1].value = r.cost_unit = r.files[1] = r.run->engine = r.run->machine =
        name;
    r.cut.stages[0].cost = r.balance->load[1] = odd[i++ % 6];
    r.balance->bound = odd[(i * 5) % 6];
    r.run->largest_difference = odd[(i * 7) % 6];
    auto const text = write_report(r);
    auto const page = testing::read_markup(text);
    CHECK(count(page, "script") == 0);
    CHECK(count(page, "link") == 0);
    CHECK(count(page, "img") == 0);
    for (auto const& e : page)
      if (e.tag == "h1") CHECK(e.text == printable(name, 120));
    for (auto const* outside : {"http:", "https:", "url(", "@import", "src="})
      CHECK(text.find(outside) == std::string::npos);
  }
}

TEST_CASE("write_report: pictures and tables are labelled for screen readers") {
  auto const page = testing::read_markup(write_report(example(4, 8)));
  std::set<std::string> ids;
  for (auto const& e : page)
    if (e.attributes.contains("id")) CHECK(ids.insert(e.at("id")).second);
  for (auto const& e : page) {
    if (e.tag == "svg") CHECK(e.at("role") == "img");
    if (e.tag == "th") CHECK((e.at("scope") == "col" || e.at("scope") == "row"));
    if (!e.attributes.contains("aria-labelledby")) continue;
    std::istringstream list(e.at("aria-labelledby"));
    for (std::string id; list >> id;) CHECK(ids.contains(id));
  }
}
