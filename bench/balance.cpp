// SPDX-License-Identifier: MIT
// Measures quality and time of balanced stages on real workloads, on the cost graphs of real models and on
// generated graphs.
//   bench_balance [--csv | --json] [--flops-per-byte F] [FOLDER ...]
// A folder is searched for workloads (*.json with nodes and maxFPGAs) and cost graphs (*.costs.gz); without
// one, it uses the project's, and generated graphs of up to a million nodes.
#include "cleave/partition/slices/balance.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "cost_graph.hpp"
#include "generated_dags.hpp"
#include "measure.hpp"
#include "workloads.hpp"

namespace {

namespace fs = std::filesystem;

/// A known result of another program on an instance.
struct reference {
  double value = 0;
  std::string what;
  double seconds = 0;  ///< time taken, if recorded
};

struct row {
  std::string name;
  std::size_t nodes;
  std::uint32_t k;
  double bottleneck, ideal, bound, gap, seconds;
  std::string order;
  std::vector<reference> others;
  double verified;  ///< the largest load, recounted by the metrics
};

enum class style { markdown, csv, json };

char const* name_of(cleave::unit_order how) {
  switch (how) {
    case cleave::unit_order::given:
      return "given";
    case cleave::unit_order::breadth_first:
      return "breadth";
    case cleave::unit_order::depth_first:
      return "depth";
    case cleave::unit_order::on_demand:
      return "on demand";
    case cleave::unit_order::on_demand_last:
      return "on demand, last";
    default:
      return "random";
  }
}

row measured(bench::instance const& x, std::uint32_t k, std::vector<reference> others) {
  cleave::balanced_partition p;
  double const seconds = bench::seconds([&] { p = cleave::balance(x.graph, k, x.options); });
  double sum = 0;
  for (double const w : x.graph.weight) sum += w;
  auto const verified = cleave::bottleneck(x.graph, p, {.cost_per_byte = x.options.cost_per_byte});
  if (auto const over = cleave::find_overfull_part(x.graph, p, x.options.memory, x.options.node_memory))
    std::fprintf(stderr, "%s: part %u is over its memory\n", x.name.c_str(), index(over->part));
  if (x.options.backward.empty() && cleave::detail::find_backward_edge(x.graph, p))
    std::fprintf(stderr, "%s: an edge leads backward\n", x.name.c_str());
  return {x.name,           x.graph.nodes(),   k,       p.bottleneck, sum / k, p.bound, p.gap(), seconds,
          name_of(p.order), std::move(others), verified};
}

class table {
 public:
  explicit table(style s) : style_(s) {}

  void title(char const* text) {
    if (style_ != style::markdown) return;
    std::printf(
        "\n### %s\n\n| instance | nodes | k | bottleneck | / ideal | bound | gap | CPU s | order | others "
        "|\n",
        text);
    std::printf("|---|--:|--:|--:|--:|--:|--:|--:|---|---|\n");
  }
  void print(row const& r) {
    std::string others;
    for (auto const& o : r.others) {
      char text[160];
      bool const lower = r.bottleneck > o.value * (1 + 6e-4);  // recorded figures are rounded
      std::snprintf(text, sizeof text, "%s%s %.6g%s", others.empty() ? "" : ", ", o.what.c_str(), o.value,
                    lower                ? " (lower)"
                    : o.what == "ideals" ? " **reached**"
                                         : "");
      others += text;
      if (o.seconds > 0) std::snprintf(text, sizeof text, " at 1/%.0f of its time", o.seconds / r.seconds);
      if (o.seconds > 0 && !lower) others += text;
    }
    if (style_ == style::markdown)
      std::printf("| %s | %zu | %u | %.6g | %.3f | %.6g | %.1f %% | %.3g | %s | %s |\n", r.name.c_str(),
                  r.nodes, r.k, r.bottleneck, r.bottleneck / r.ideal, r.bound, 100 * r.gap, r.seconds,
                  r.order.c_str(), others.c_str());
    else if (style_ == style::csv)
      std::printf("%s%s,%zu,%u,%.17g,%.17g,%.17g,%.6g,%s,%s\n",
                  rows_ == 0 ? "instance,nodes,k,bottleneck,ideal,bound,seconds,order,others\n" : "",
                  r.name.c_str(), r.nodes, r.k, r.bottleneck, r.ideal, r.bound, r.seconds, r.order.c_str(),
                  quoted(others).c_str());
    else
      std::printf(
          "%s{\"instance\": %s, \"nodes\": %zu, \"k\": %u, \"bottleneck\": %.17g, \"ideal\": %.17g, "
          "\"bound\": %.17g, \"seconds\": %.6g, "
          "\"order\": \"%s\", \"others\": %s}",
          rows_ == 0 ? "[\n" : ",\n", nlohmann::json(r.name).dump().c_str(), r.nodes, r.k, r.bottleneck,
          r.ideal, r.bound, r.seconds, r.order.c_str(), as_json(r.others).c_str());
    ++rows_;
    if (std::abs(r.verified - r.bottleneck) > 1e-9 * r.bottleneck)
      std::fprintf(stderr, "%s: the metrics say %.17g\n", r.name.c_str(), r.verified);
    std::fflush(stdout);
  }
  void end() const {
    if (style_ == style::json) std::printf("%s]\n", rows_ == 0 ? "[" : "\n");
  }

 private:
  static std::string quoted(std::string const& text) { return '"' + text + '"'; }
  static std::string as_json(std::vector<reference> const& others) {
    auto object = nlohmann::json::object();
    for (auto const& o : others) object[o.what] = o.value;
    return object.dump();
  }

  style style_;
  std::size_t rows_ = 0;
};

/// Recorded results for a workload with k devices: slices with transfers, the best of 4 and of 44 orders; the
/// exact search over ideals and its seconds. If k is that of the file, the search had a CPU as an additional
/// device.
struct record {
  std::uint32_t k;
  double four, forty_four, ideals, ideals_seconds;
};
std::multimap<std::string, record, std::less<>> const workload_records{
    {"bert24_inference", {6, 17.79, 17.79, 17.790, 0}},
    {"bert24_inference", {8, 14.204, 0, 14.204, 0}},
    {"bert24_training", {6, 41.75, 41.75, 41.746, 0}},
    {"inceptionv3_inference", {6, 52.69, 52.45, 0, 0}},
    {"inceptionv3_inference", {8, 39.76, 39.60, 0, 0}},
    {"resnet50_inference", {6, 34.22, 34.22, 33.775, 0.30}},
    {"resnet50_inference", {8, 26.761, 0, 26.761, 0}},
    {"resnet50_training", {6, 80.45, 80.45, 78.632, 0.33}},
    {"op bert_L-12_training", {6, 438.00, 438.00, 437.998, 64.0}},
    {"op bert_l-12_inference", {6, 147.48, 147.48, 147.478, 25.8}},
    {"op bert_l-12_inference", {8, 108.04, 0, 108.04, 0}},
    {"op bert_l-3_inference", {3, 27.92, 27.92, 27.919, 2.0}},
    {"op bert_l-3_inference", {8, 28.651, 0, 28.651, 0}},
    {"op bert_l-3_training", {3, 65.30, 65.30, 65.303, 12.0}},
    {"op resnet50_inference", {6, 129.16, 128.07, 124.349, 0.26}},
    {"op resnet50_inference", {7, 0, 0, 124.349, 0}},
    {"op resnet50_inference", {8, 124.35, 0, 124.35, 0}},
    {"op resnet50_training", {6, 264.81, 263.04, 255.194, 0.50}},
    {"op resnet50_training", {7, 0, 0, 255.194, 0}}};

void run_workload(table& t, fs::path const& path) {
  bool const layers = path.parent_path().filename() != "OperatorGraphs";
  auto const name = (layers ? "" : "op ") + path.stem().string();
  auto const w = bench::read_workload(path.string(), name);
  auto const expert = path.parent_path().parent_path().parent_path() / "human-experts" /
                      (path.stem().string() + "_expert.json");
  auto const run = [&](record const& r) {
    std::vector<reference> others;
    if (r.four != 0) others.push_back({r.four, "4 orders"});
    if (r.forty_four != 0) others.push_back({r.forty_four, "44 orders"});
    if (r.ideals != 0) others.push_back({r.ideals, "ideals", r.ideals_seconds});
    if (layers && r.k == w.devices && fs::exists(expert))
      if (auto const p = bench::read_expert(expert.string(), w))
        others.push_back(
            {cleave::bottleneck(w.graph, *p, {.cost_per_byte = w.options.cost_per_byte}), "experts"});
    t.print(measured(w, r.k, std::move(others)));
  };
  auto const [first, last] = workload_records.equal_range(name);
  if (first == last) run({w.devices, 0, 0, 0, 0});
  for (auto r = first; r != last; ++r) run(r->second);
}

void run_cost_graph(table& t, fs::path const& path, double flops_per_byte) {
  auto c = bench::read_cost_graph(path.string(), path.stem().stem().string());
  c.options.cost_per_byte = flops_per_byte;
  for (std::uint32_t const k : {2u, 4u, 8u})
    t.print(measured(
        c, k,
        {{cleave::bottleneck(c.graph, c.layer_split(k), {.cost_per_byte = flops_per_byte}), "layer split"}}));
}

void run_folder(table& t, fs::path const& folder, double flops_per_byte) {
  std::vector<fs::path> files;
  for (auto const& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  auto const each = [&](char const* title, auto wanted, auto run) {
    bool any = false;
    for (auto const& file : files) {
      if (!wanted(file)) continue;
      if (!std::exchange(any, true)) t.title(title);
      try {
        run(file);
      } catch (std::exception const& e) {
        std::fprintf(stderr, "%s: %s\n", file.c_str(), e.what());
      }
    }
  };
  each(
      "dnn-partitioning workloads: ms, 16 GiB a device",
      [](fs::path const& f) {
        if (f.extension() != ".json" || f.parent_path().filename() == "human-experts") return false;
        auto const file = nlohmann::json::parse(std::ifstream(f), nullptr, false);
        return file.is_object() && file.contains("nodes") && file.contains("maxFPGAs");
      },
      [&](fs::path const& f) { run_workload(t, f); });
  std::string const title =
      "Cost graphs of training steps: FLOPs, a byte sent costs " + nlohmann::json(flops_per_byte).dump();
  each(
      title.c_str(), [](fs::path const& f) { return f.string().ends_with(".costs.gz"); },
      [&](fs::path const& f) { run_cost_graph(t, f, flops_per_byte); });
}

void run_generated(table& t) {
  t.title("Generated graphs");
  auto const run = [&](char const* name, std::uint32_t k, std::vector<reference> others) {
    t.print(measured(bench::instance_called(name), k, std::move(others)));
  };
  auto const slices = [](double value) { return std::vector<reference>{{value, "3 orders"}}; };
  run("tfm_L24_H1", 8, {{502.09, "3 orders"}, {500.4, "ideals", 10.7}});
  run("tfm_L64_H16", 8, slices(1308.5));
  run("tfm_L64_H16", 32, slices(331.8));
  run("tfm_train_L32_H16", 8, slices(2439.9));
  run("resnet_b50", 8, {{130.42, "ideals"}});
  run("resnet_10k", 8, slices(2904.4));
  run("inception_3k", 8, slices(984.96));
  run("inception_30k", 8, slices(10120));
  run("unet_6x4", 8, slices(153.59));
  run("unet_6x200", 8, slices(7032));
  run("unet_6x200", 32, slices(1766.9));
  run("moe_32x64", 8, slices(775.7));
  run("layered_10k", 8, slices(2110.1));
  run("layered_100k", 8, {{20635, "without transfers"}});
  run("layered_1M", 8, {{210450, "dagP"}});
  run("tfm_L512_H64", 8, {{10359, "without transfers"}});
  run("tfm_1M", 8, {{51845, "dagP"}});
  run("tfm_1M", 64, {});
  run("unet_1M", 8, {});
  run("chain_1M", 8, {});
}

}  // namespace

int main(int count, char** arguments) {
  auto output = style::markdown;
  double flops_per_byte = 1000;
  std::vector<fs::path> folders;
  for (int i = 1; i < count; ++i) {
    std::string_view const a = arguments[i];
    if (a == "--csv")
      output = style::csv;
    else if (a == "--json")
      output = style::json;
    else if (a == "--flops-per-byte" && i + 1 < count)
      flops_per_byte = std::strtod(arguments[++i], nullptr);
    else if (!a.starts_with("-") && fs::is_directory(a))
      folders.emplace_back(a);
    else
      return std::fprintf(stderr,
                          "usage: bench_balance [--csv | --json] [--flops-per-byte F] [FOLDER ...]\n"),
             2;
  }
  table t(output);
  bool const own = folders.empty();
  if (own)
    folders = {fs::path(CLEAVE_SOURCE_DIR) / "bench/data",
               fs::path(CLEAVE_SOURCE_DIR) / "tests/models/costs"};
  for (auto const& folder : folders) run_folder(t, folder, flops_per_byte);
  if (own) run_generated(t);
  t.end();
}
