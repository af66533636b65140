// SPDX-License-Identifier: MIT
// Measures the time to prove parts optimal, and the quality of bounds that need no search.
//   bench_exact [--csv] [--seconds S] [FOLDER ...]
// A folder is searched for workloads (*.json with nodes and maxFPGAs); without one, it uses the project's
// workloads and cost graphs, and generated graphs.
#include "cleave/partition/exact/exact.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cost_graph.hpp"
#include "generated_dags.hpp"
#include "measure.hpp"
#include "workloads.hpp"

namespace {

namespace fs = std::filesystem;

/// Result and CPU seconds of the published search over ideals for a workload with its k accelerators and one
/// CPU. 0 if it did not finish, took less than 0.01 s, or is not recorded.
struct record {
  double value, seconds;
};
std::map<std::string, record, std::less<>> const workload_records{
    {"bert24_inference", {17.790, 0}},           {"bert24_training", {41.746, 0}},
    {"gnmt_inference", {32.911, 35.3}},          {"gnmt_training", {0, 60}},
    {"inceptionv3_inference", {0, 60}},          {"inceptionv3_training", {0, 60}},
    {"resnet50_inference", {33.775, 0.30}},      {"resnet50_training", {78.632, 0.33}},
    {"op bert_l-3_inference", {27.919, 2.0}},    {"op bert_l-3_training", {65.303, 12.0}},
    {"op bert_l-6_inference", {29.580, 6.8}},    {"op bert_l-6_training", {72.865, 37.3}},
    {"op bert_l-12_inference", {147.478, 25.8}}, {"op bert_L-12_training", {437.998, 64.0}},
    {"op resnet50_inference", {124.349, 0.26}},  {"op resnet50_training", {255.194, 0.50}}};

char const* name_of(cleave::bound_proof by) {
  switch (by) {
    case cleave::bound_proof::even_share:
      return "even share";
    case cleave::bound_proof::pigeonhole:
      return "pigeonhole";
    case cleave::bound_proof::least_with:
      return "least with";
    case cleave::bound_proof::dominator_chain:
      return "backbone";
    case cleave::bound_proof::branches:
      return "branches";
    default:
      return "ideals";
  }
}

class table {
 public:
  table(bool csv, double seconds) : csv_(csv), seconds_(seconds) {}

  void title(char const* text) const {
    if (csv_) return;
    std::printf(
        "\n### %s\n\n| instance | nodes | k | balance | its bound / best | quick bound / best | CPU s "
        "| best | bound / best | by | ideals | CPU s | recorded |\n",
        text);
    std::printf("|---|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|---|\n");
  }

  void print(bench::instance const& x, std::uint32_t k, cleave::exact_balance_options o,
             std::string const& with, record const* known) {
    o.balance.empty = cleave::empty_parts::allowed;
    o.seconds = seconds_;
    auto const slices = cleave::balance(x.graph, k, o.balance);
    cleave::certificate quick;
    double quick_seconds = 0;
    if (o.spare.empty())
      quick_seconds =
          bench::seconds([&] { quick = cleave::certify(x.graph, k, o.balance, slices.bottleneck); });
    cleave::exact_partition p;
    double const seconds = bench::seconds([&] { p = cleave::partition_exact(x.graph, k, o); });
    std::string others;
    if (known) {
      char text[160];
      if (known->value > 0)
        std::snprintf(text, sizeof text, "%.6g%s", known->value,
                      p.bottleneck > known->value * (1 + 6e-5)   ? " (lower)"
                      : p.bottleneck < known->value * (1 - 6e-5) ? " (higher)"
                                                                 : " **the same**");
      others = known->value > 0 ? text : "not finished";
      std::snprintf(text, sizeof text, " in %.2g s", known->seconds);
      if (known->seconds > 0) others += text;
    }
    std::printf(
        csv_ ? "%s%s,%zu,%u,%.17g,%.6g,%.6g,%.6g,%.17g,%.6g,%s,%zu,%.6g,\"%s\"\n"
             : "| %s%s | %zu | %u | %.6g | %.3f | %.3f | %.3g | %.6g | %.3f | %s | %zu | %.3g | %s |\n",
        x.name.c_str(), with.c_str(), x.graph.nodes(), k, slices.bottleneck, slices.bound / p.bottleneck,
        quick.bound / p.bottleneck, quick_seconds, p.bottleneck, p.bound / p.bottleneck, name_of(p.bound_by),
        p.ideals, seconds, others.c_str());
    if (!p.unproved.empty())
      std::fprintf(stderr, "%s%s: %s\n", x.name.c_str(), with.c_str(), p.unproved.c_str());
    std::fflush(stdout);
  }

 private:
  bool csv_;
  double seconds_;
};

void run_workload(table& t, fs::path const& path) {
  bool const layers = path.parent_path().filename() != "OperatorGraphs";
  auto const name = (layers ? "" : "op ") + path.stem().string();
  auto const w = bench::read_workload(path.string(), name);
  cleave::exact_balance_options o{.balance = w.options};
  t.print(w, w.devices, o, "", nullptr);
  o.spare.emplace_back().weight = w.host_weight;
  o.devices = cleave::device_order::any;
  o.loose = cleave::unrestricted_nodes::mirrored;  // like the published search
  auto const known = workload_records.find(name);
  t.print(w, w.devices, o, " + CPU", known == workload_records.end() ? nullptr : &known->second);
}

void run_folder(table& t, fs::path const& folder) {
  std::vector<fs::path> workloads, cost_graphs;
  for (auto const& entry : fs::recursive_directory_iterator(folder)) {
    auto const& f = entry.path();
    if (f.string().ends_with(".costs.gz")) cost_graphs.push_back(f);
    if (f.extension() != ".json" || f.parent_path().filename() == "human-experts") continue;
    auto const file = nlohmann::json::parse(std::ifstream(f), nullptr, false);
    if (file.is_object() && file.contains("nodes") && file.contains("maxFPGAs")) workloads.push_back(f);
  }
  std::ranges::sort(workloads);
  std::ranges::sort(cost_graphs);
  if (!workloads.empty()) t.title("dnn-partitioning workloads: ms, 16 GiB a device");
  for (auto const& f : workloads) run_workload(t, f);
  if (!cost_graphs.empty()) t.title("Cost graphs of training steps: FLOPs, a byte sent costs 1000");
  for (auto const& f : cost_graphs) {
    auto c = bench::read_cost_graph(f.string(), f.stem().stem().string());
    c.options.cost_per_byte = 1000;
    for (std::uint32_t const k : {2u, 8u}) t.print(c, k, {.balance = c.options}, "", nullptr);
  }
}

void run_generated(table& t) {
  t.title("Generated graphs");
  auto const run = [&](char const* name, std::uint32_t k, record const& known) {
    auto const x = bench::instance_called(name);
    t.print(x, k, {.balance = x.options}, "", known.value + known.seconds > 0 ? &known : nullptr);
  };
  run("tfm_L24_H1", 8, {500.4, 10.7});
  run("resnet_b50", 8, {130.42, 0});
  run("unet_6x4", 8, {0, 60});
  run("tfm_L64_H16", 8, {});
  run("tfm_L64_H16", 32, {});
  run("tfm_train_L32_H16", 8, {});
  run("resnet_10k", 8, {});
  run("inception_3k", 8, {});
  run("inception_30k", 8, {});
  run("unet_6x200", 8, {});
  run("unet_6x200", 32, {});
  run("moe_32x64", 8, {});
  run("layered_10k", 8, {});
  run("layered_10k", 32, {});
}

}  // namespace

int main(int count, char** arguments) {
  bool csv = false;
  double seconds = 60;
  std::vector<fs::path> folders;
  for (int i = 1; i < count; ++i) {
    std::string_view const a = arguments[i];
    if (a == "--csv")
      csv = true;
    else if (a == "--seconds" && i + 1 < count)
      seconds = std::strtod(arguments[++i], nullptr);
    else if (!a.starts_with("-") && fs::is_directory(a))
      folders.emplace_back(a);
    else
      return std::fprintf(stderr, "usage: bench_exact [--csv] [--seconds S] [FOLDER ...]\n"), 2;
  }
  table t(csv, seconds);
  bool const own = folders.empty();
  if (own)
    folders = {fs::path(CLEAVE_SOURCE_DIR) / "bench/data",
               fs::path(CLEAVE_SOURCE_DIR) / "tests/models/costs"};
  for (auto const& folder : folders) run_folder(t, folder);
  if (own) run_generated(t);
}
