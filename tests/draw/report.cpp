// SPDX-License-Identifier: MIT
#include "cleave/draw/report.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/markup.hpp"
#include "support/nasty_names.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

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
    if (e.tag != "style" && e.tag != "script") out += e.text + '\n';
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

TEST_CASE("write_report: puts the measured time of each stage next to its predicted cost") {
  auto r = example(4, 1);
  r.run->stage_ns = {1'000'000, 2'000'000, 3'000'000, 2'000'000};
  auto const page = testing::read_markup(write_report(r));
  auto const rows = cells(page);
  REQUIRE(rows.size() == 4);
  for (std::size_t s = 0; s < 4; ++s) {
    auto const ns = static_cast<double>(r.run->stage_ns[s]);
    CHECK(rows[s].at("measured-ns") == ns);
    CHECK(rows[s].at("measured-share") == ns / 2'000'000);
  }
  std::vector<std::string> heads, foot;
  for (auto const& e : page) {
    if (e.tag == "th" && page[e.parent].tag == "tr" && e.attributes.contains("scope") &&
        e.at("scope") == "col")
      heads.push_back(e.text);
    if (page[e.parent].tag == "tr" && page[page[e.parent].parent].tag == "tfoot") foot.push_back(e.text);
  }
  auto const at = std::ranges::find(heads, "Predicted cost");
  REQUIRE(heads.end() - at >= 3);
  CHECK(at[2] == "Measured time");
  REQUIRE(foot.size() == heads.size());
  CHECK(foot[static_cast<std::size_t>(at - heads.begin()) + 2] == milliseconds_text(8e6));

  r.run->stage_ns.pop_back();  // a time is missing
  auto const without = testing::read_markup(write_report(r));
  CHECK(!cells(without).front().contains("measured-ns"));
  CHECK(all_text(without).find("Predicted cost") == std::string::npos);
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
    r.cost_origin = name;
    r.nodes = {{{name, name, odd[i % 6]}}, {{"plain", name, 1}}};
    r.transfers = {{name, stage_id{0}, stage_id{1}, {7, 0}}};
    auto const text = write_report(r);
    auto const page = testing::read_markup(text);
    CHECK(count(page, "script") == 1);
    CHECK(count(page, "link") == 0);
    CHECK(count(page, "img") == 0);
    for (auto const& e : page)
      if (e.tag == "h1") CHECK(e.text == printable(name, 120));
    for (auto const& e : page)
      if (e.attributes.contains("href")) CHECK(e.at("href").starts_with("#stage-"));
    for (auto const* outside : {"http:", "https:", "url(", "@import", "src="})
      CHECK(text.find(outside) == std::string::npos);
  }
}

TEST_CASE("write_report: lists the operators, the nodes and the transfers of each stage") {
  testing::rng random(5);
  auto r = example(3, 1);
  r.cost_unit = "s";
  r.cost_origin = "measured";
  std::vector<std::map<std::string, std::size_t>> expected(3);
  r.nodes.resize(3);
  for (std::size_t s = 0; s < 3; ++s)
    for (std::uint32_t i = 0; i < 1 + random.below(20); ++i) {
      std::string const operation = random.below(2) == 0 ? "Conv" : "Relu";
      r.nodes[s].push_back({"node " + std::to_string(i), operation, 1e-6 * random.unit()});
      ++expected[s][operation];
    }
  r.transfers = {{"x", stage_id{0}, stage_id{2}, {4096, 0}}, {"y", stage_id{0}, stage_id{1}, {0, 1}}};
  auto const page = testing::read_markup(write_report(r));
  std::vector<std::string> lists, operators;
  for (auto const& e : page) {
    if (e.tag == "pre") lists.push_back(e.text);
    if (e.tag == "li" && page[e.parent].is("operators")) operators.push_back(e.text);
  }
  REQUIRE(lists.size() == 3);
  std::size_t next = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(static_cast<std::size_t>(std::ranges::count(lists[s], '\n')) == r.nodes[s].size());
    std::istringstream lines(lists[s]);
    std::string line;
    for (auto const& n : r.nodes[s]) {
      std::getline(lines, line);
      CHECK(line.ends_with("  " + n.operation + "  " + n.name));
      CHECK(line.find(amount_text(n.cost, "s")) != std::string::npos);
    }
    for (std::size_t i = 0; i < expected[s].size(); ++i, ++next) {
      auto const gap = operators[next].find("\u00a0");
      auto const name = operators[next].substr(gap + 2, 4);
      CHECK(operators[next].substr(0, gap) == std::to_string(expected[s].at(name)));
    }
  }
  CHECK(next == operators.size());
  auto const text = all_text(page);
  for (auto const* part :
       {"Sends 2 values, ≥4\u00a0KiB: x to stage\u00a02 (4\u00a0KiB), y to stage\u00a01 (?\u00a0B).",
        "Receives 1 value, 4\u00a0KiB: x from stage\u00a00 (4\u00a0KiB).",
        "Costs are in s. Origin: measured."}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("report_of: lists the nodes, transfers and loads of random cuts as the plan has them") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    testing::rng random(seed);
    auto const p = testing::random_program(random, 3 + random.below(30));
    auto const s = snapshot_of(toy::graph(p));
    auto const cut = balance(s, 3);
    auto const plan = make_plan(s, cut);
    auto const r = report_of(s, plan, cut);
    CHECK(r.cut == quotient_of(s, plan));
    CHECK(r.balance->load == cut.loads);
    CHECK(r.balance->bound == cut.bound);
    REQUIRE(r.nodes.size() == plan.stages.size());
    for (std::size_t i = 0; i < r.nodes.size(); ++i) {
      REQUIRE(r.nodes[i].size() == plan.stages[i].nodes.size());
      for (std::size_t j = 0; j < r.nodes[i].size(); ++j) {
        auto const n = plan.stages[i].nodes[j];
        CHECK(s.label(n).starts_with(r.nodes[i][j].name));
        CHECK(r.nodes[i][j].cost == s.weight[n]);
      }
    }
    REQUIRE(r.transfers.size() == plan.transfers.size());
    for (std::size_t i = 0; i < r.transfers.size(); ++i) {
      auto const& t = plan.transfers[i];
      CHECK(r.transfers[i].from == t.from);
      CHECK(r.transfers[i].to == t.to);
      CHECK(s.label(s.producer[t.value])
                .starts_with(r.transfers[i].value.substr(0, r.transfers[i].value.find(" #"))));
      CHECK(r.transfers[i].bytes == byte_sum{s.bytes[t.value], s.bytes[t.value] == 0});
    }
    CHECK(!write_report(r).empty());
  }
}

TEST_CASE(
    "report_of: numbers the results of a node that has several, and gives no bound where sizes are unknown") {
  struct fork {  // node 0 makes two values, and node 1 reads the second one
    static std::vector<int> nodes() { return {0, 1}; }
    static std::vector<int> operands(int n) { return n == 0 ? std::vector<int>{} : std::vector{11}; }
    static std::vector<int> results(int n) { return n == 0 ? std::vector{10, 11} : std::vector{12}; }
    static double weight(int) { return 1; }
    static std::size_t bytes(int) { return 0; }
  };
  auto const s = snapshot_of(fork());
  auto const cut = balance(s, 2);
  auto const r = report_of(s, make_plan(s, cut), cut);
  REQUIRE(r.transfers.size() == 1);
  CHECK(r.transfers[0].value == "#0 #1");
  CHECK(r.nodes[1][0].name == "#1");
  CHECK(r.balance->lacking == unpriced{.values = 1, .of_values = 1});
  CHECK(write_report(r).find("No bound is given") != std::string::npos);
}

TEST_CASE("write_report: leaves out the operators of a stage whose nodes have none") {
  auto r = example(2, 1);
  r.cost_unit = "s";
  r.nodes = {{{"a", "", 1}, {"b", "", 2}}, {{"c", "Conv", 1}, {"d", "", 1}}};
  auto const page = testing::read_markup(write_report(r));
  std::vector<std::string> lists, summaries;
  for (auto const& e : page) {
    if (e.tag == "pre") lists.push_back(e.text);
    if (e.tag == "span" && page[e.parent].tag == "summary") summaries.push_back(e.text);
  }
  CHECK(count(page, "ul", "operators") == 1);
  CHECK(lists == std::vector<std::string>{"       1\u00a0s  a\n       2\u00a0s  b\n",
                                          "       1\u00a0s  Conv" + std::string(15, ' ') +
                                              "  c\n       1\u00a0s  without an operator  d\n"});
  CHECK(summaries == std::vector<std::string>{"2 nodes", "2 nodes: 1\u00a0without an operator, 1\u00a0Conv"});
}

TEST_CASE("write_report: a link to a stage leads to its contents; without nodes there are neither") {
  for (std::uint32_t const k : {4u, 13u}) {
    auto r = example(k, 1);
    r.nodes.assign(k, {{"a", "Conv", 1}});
    auto page = testing::read_markup(write_report(r));
    std::set<std::string> targets;
    std::size_t links = 0;
    for (auto const& e : page)
      if (e.attributes.contains("id")) targets.insert('#' + e.at("id"));
    for (auto const& e : page)
      if (e.tag == "a") {
        ++links;
        CHECK(targets.contains(e.at("href")));
      }
    CHECK(links == k + (k <= 12 ? k : r.cut.links.size()));
    r.nodes.pop_back();  // a list is missing
    page = testing::read_markup(write_report(r));
    CHECK(count(page, "a") == 0);
    CHECK(count(page, "script") == 0);
    CHECK(count(page, "details") == 0);
  }
}

TEST_CASE("write_report: draws lines up to 12 stages, then a matrix with a cell for each pair that sends") {
  for (std::uint32_t const k : {12u, 13u, 24u, 64u}) {
    auto r = example(k, 1);
    r.cut.links.push_back({stage_id{0}, stage_id{k - 1}, 3, {5u << 20, 0}});
    auto const page = testing::read_markup(write_report(r));
    std::map<std::pair<double, double>, std::string> cells;  // column and row
    for (std::size_t i = 0; i < page.size(); ++i)
      if (page[i].is("cell"))
        for (auto const& e : page)
          if (e.tag == "title" && e.parent == page[i].parent)
            cells[{page[i].number("x"), page[i].number("y")}] = e.text;
    CHECK(count(page, "rect", "frame") == (k > 12 ? 0 : k));
    REQUIRE(cells.size() == (k > 12 ? r.cut.links.size() : 0));
    if (k == 12) continue;
    // The last column of the first row.
    auto const corner = std::ranges::max_element(
        cells, {}, [](auto const& c) { return c.first.first - 1000 * c.first.second; });
    CHECK(corner->second == "stage 0 to stage " + std::to_string(k - 1) + ": 3 values, 5\u00a0MiB");
    std::size_t listed = 0;
    for (auto const& e : page)
      listed += e.tag == "h3" && e.text.starts_with(k > 10 ? "The 10 largest of " : "All");
    CHECK(listed == 1);
  }
}

TEST_CASE("write_report: no cost is without its unit") {
  auto r = example(12, 1);
  r.cost_unit = "s";
  for (auto& box : r.cut.stages) box.cost = 8.01e-6;
  std::size_t boxes = 0;
  for (auto const& e : testing::read_markup(write_report(r)))
    if (e.tag == "text" && e.is("detail") && e.text.find("8.01") != std::string::npos) {
      CHECK(e.text == "8.01\u00a0µs");
      ++boxes;
    }
  CHECK(boxes == 12);
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
