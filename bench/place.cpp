// SPDX-License-Identifier: MIT
// Compares `place` with the ways in which others give layers to unlike devices, on the same cost model: equal
// layers, layers in proportion to memory (exo's ring), and blocks of equal cost (torchgpipe's balance).
//   bench_place [--csv] [--seed N] [--effort N] [FOLDER ...]     seed and effort of the search; folders with cost
//   graphs (*.costs.gz), without one those of the project
#include "cleave/place.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/classic/chain_rules.hpp"
#include "cost_graph.hpp"
#include "measure.hpp"

namespace {

namespace fs = std::filesystem;

/// Returns the forward nodes of a training step and the values between them.
cleave::snapshot_arrays forward_of(bench::cost_graph const& c) {
  auto const& g = c.graph;
  cleave::snapshot_arrays made;
  std::vector<std::uint32_t> value_of(g.values(), cleave::none<std::uint32_t>);
  std::vector<std::vector<std::uint32_t>> users;
  auto const add_value = [&](std::uint32_t v, std::uint32_t producer) {
    value_of[v] = static_cast<std::uint32_t>(made.producer.size());
    made.producer.push_back(producer);
    made.from.push_back(g.from[v]);
    made.bytes.push_back(g.bytes[v]);
    users.emplace_back();
  };
  std::uint32_t nodes = 0;
  for (std::uint32_t n = 0; n < g.nodes(); ++n) {
    if (c.options.backward[n]) continue;
    for (auto const v : g.operands[n]) {
      if (value_of[v] == cleave::none<std::uint32_t>) add_value(v, cleave::none<std::uint32_t>);
      made.operands.add(value_of[v]);
      auto& list = users[value_of[v]];
      if (list.empty() || list.back() != nodes) list.push_back(nodes);
    }
    made.operands.close();
    for (auto const v : g.results[n]) add_value(v, nodes);
    made.weight.push_back(g.weight[n]);
    ++nodes;
  }
  for (auto const& list : users) {
    for (auto const u : list) made.users.add(u);
    made.users.close();
  }
  return made;
}

struct named_network {
  std::string name;
  cleave::device_network net;
};

/// Speeds are in operations a second, links in seconds and bytes a second.
std::vector<named_network> networks() {
  using cleave::device_spec;
  std::uint64_t const gib = std::uint64_t{1} << 30;
  std::vector<named_network> all;
  all.push_back({"4 computers at home",
                 {.devices = {{"desktop", 8e12, {}, 64 * gib},
                              {"laptop", 4e12, {}, 32 * gib},
                              {"mini", 2e12, {}, 32 * gib},
                              {"old", 3e11, {}, 16 * gib}},
                  .links = {{5e-4, 1.2e8}}}});
  named_network hosts{"2 hosts, 4 fast and 4 slower GPUs", {}};
  for (int d = 0; d < 8; ++d)
    hosts.net.devices.push_back(
        {"gpu" + std::to_string(d), d < 4 ? 2e14 : 8e13, {}, (d < 4 ? 80 : 40) * gib});
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b)
      hosts.net.links.push_back(a / 4 == b / 4 ? cleave::rank_link{1e-5, 2e11}
                                               : cleave::rank_link{5e-5, 1.2e10});
  hosts.net.uplinks = {{"host 0", {0, 1, 2, 3}, 1.2e10}};
  all.push_back(std::move(hosts));
  cleave::splitmix random(1);
  auto const unlike = [&](std::string const& name, std::size_t count) {
    named_network made{name, {}};
    for (std::size_t d = 0; d < count; ++d)
      made.net.devices.push_back(
          {{}, 1e12 * static_cast<double>(1 + random.below(40)), {}, (16 + random.below(64)) * gib});
    for (std::size_t i = 0; i < count * count; ++i)
      made.net.links.push_back({1e-5 * static_cast<double>(1 + random.below(50)),
                                1e8 * static_cast<double>(1 + random.below(100))});
    all.push_back(std::move(made));
  };
  unlike("16 devices, all unlike", 16);
  unlike("64 devices, all unlike", 64);
  return all;
}

/// Returns slices that end at these shares of a list of sums, one for each device of `order`; fewer if some
/// are empty.
std::vector<cleave::stage_on_device> slices_at(std::vector<double> const& sums,
                                               std::vector<std::uint32_t> const& order,
                                               std::vector<double> const& shares) {
  std::vector<cleave::stage_on_device> stages;
  double before = 0;
  auto const all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::uint32_t from = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    before += shares[i];
    auto const wanted = sums.back() * before / all;
    auto const at = std::lower_bound(sums.begin(), sums.end(), wanted * (1 - 1e-12)) - sums.begin();
    auto const to =
        i + 1 == order.size() ? static_cast<std::uint32_t>(sums.size() - 1) : static_cast<std::uint32_t>(at);
    if (to <= from) continue;
    stages.push_back({order[i], from, to});
    from = to;
  }
  return stages;
}

struct peers {
  std::vector<std::pair<std::string, std::vector<cleave::stage_on_device>>> all;

  peers(cleave::placement_row const& row, cleave::device_network const& net) {
    auto const k = std::min(net.devices.size(), row.units.units());
    std::vector<std::uint32_t> listed(k), by_memory(net.devices.size());
    std::iota(listed.begin(), listed.end(), 0u);
    std::iota(by_memory.begin(), by_memory.end(), 0u);
    std::ranges::sort(by_memory, [&](auto a, auto b) {
      auto const x = net.devices[a].memory, y = net.devices[b].memory;
      return x != y ? x > y : a < b;
    });
    by_memory.resize(k);
    std::vector<double> counts, memory, weights;
    for (std::size_t i = 0; i <= row.units.units(); ++i) counts.push_back(static_cast<double>(i));
    for (auto const d : by_memory) memory.push_back(static_cast<double>(net.devices[d].memory));
    for (std::size_t i = 0; i < row.units.units(); ++i)
      weights.push_back(row.units.cost[i + 1].forward - row.units.cost[i].forward);
    all.emplace_back("equal layers", slices_at(counts, listed, std::vector<double>(k, 1.0)));
    all.emplace_back("by memory (exo)", slices_at(counts, by_memory, memory));
    std::vector<cleave::stage_on_device> blocks;
    try {
      auto const bounds = cleave::torchgpipe_blocks(weights, static_cast<std::uint32_t>(k));
      for (std::uint32_t d = 0; d < k; ++d)
        if (bounds[d + 1] > bounds[d])
          blocks.push_back(
              {d, static_cast<std::uint32_t>(bounds[d]), static_cast<std::uint32_t>(bounds[d + 1])});
    } catch (cleave::error const&) {
      blocks.clear();  // its rule does not end on some rows
    }
    all.emplace_back("equal cost (torchgpipe)", blocks);
  }
};

bool fits(cleave::device_placement const& p, cleave::device_network const& net) {
  return std::ranges::all_of(p.stages,
                             [&](auto const& s) { return s.memory <= net.devices[s.device].memory; });
}

/// Compares inference for throughput and latency, and training for a step.
void compare(std::string const& model, cleave::snapshot_arrays const& graph, named_network const& n,
             cleave::placement_options o, bool as_csv) {
  o.microbatches = 32;
  for (auto const goal :
       {cleave::placement_goal::throughput, cleave::placement_goal::latency, cleave::placement_goal::step}) {
    bool const trains = goal == cleave::placement_goal::step;
    auto const row = cleave::detail::row_of_arrays(
        graph, {.backward = trains ? 2.0 : 0.0, .state_copies = trains ? 4.0 : 1.0});
    o.goal = goal;
    static char const* const names[] = {"throughput", "latency", "step"};
    std::optional<cleave::device_placement> ours;
    double const took = bench::seconds([&] {
      try {
        ours = cleave::place(row, n.net, o);
      } catch (cleave::infeasible_error const&) {
      }
    });
    std::printf(as_csv ? "%s,%s,%zu,%s" : "| %s | %s | %zu | %s", model.c_str(), n.name.c_str(),
                row.units.units(), names[static_cast<int>(goal)]);
    auto const cell = [&](std::string const& text) { std::printf(as_csv ? ",%s" : " | %s", text.c_str()); };
    auto const number = [&](char const* form, double x) {
      char text[32];
      std::snprintf(text, sizeof text, form, x);
      cell(text);
    };
    if (!ours) {
      cell("–"), cell("does not fit"), cell("–");
    } else {
      cell(std::to_string(ours->stages.size()));
      number("%.3g", ours->value());
      ours->is_optimal() ? cell("optimal") : number("%.1f %%", 100 * ours->gap());
    }
    for (auto const& [name, stages] : peers(row, n.net).all) {
      if (stages.empty() || !ours) {
        cell("–");
        continue;
      }
      auto const theirs = cleave::time_placement(row, n.net, stages, o);
      fits(theirs, n.net) ? number("%.2f", theirs.value() / ours->value()) : cell("does not fit");
    }
    number("%.2f", took);
    std::printf(as_csv ? "\n" : " |\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool as_csv = false;
  cleave::placement_options o;
  std::vector<std::string> folders;
  for (int i = 1; i < argc; ++i) {
    std::string_view const word = argv[i];
    auto* const number = word == "--seed" ? &o.seed : word == "--effort" ? &o.effort : nullptr;
    if (word == "--csv") {
      as_csv = true;
    } else if (number) {
      std::string_view const text = i + 1 < argc ? argv[++i] : "";
      auto const [end, status] = std::from_chars(text.data(), text.data() + text.size(), *number);
      if (status != std::errc() || end != text.data() + text.size())
        return std::fprintf(stderr, "%s takes a whole number, not '%s'\n", std::string(word).c_str(),
                            std::string(text).c_str()),
               2;
    } else {
      folders.emplace_back(word);
    }
  }
  if (folders.empty()) folders.push_back(CLEAVE_TEST_DATA "/models/costs");
  std::puts(as_csv ? "model,devices,units,goal,stages,value,gap,equal layers,by memory,equal cost,seconds"
                   : "| model | devices | units | goal | stages | s | gap | equal layers | by memory (exo) | "
                     "equal cost (torchgpipe) | CPU s |\n"
                     "|---|---|---|---|---|---|---|---|---|---|---|");
  for (auto const& folder : folders) {
    std::map<std::string, fs::path> files;
    for (auto const& entry : fs::directory_iterator(folder))
      if (entry.path().string().ends_with(".costs.gz"))
        files[entry.path().filename().string()] = entry.path();
    for (auto const& [name, path] : files) {
      auto const model = name.substr(0, name.find('.'));
      auto const graph = forward_of(bench::read_cost_graph(path.string(), model));
      for (auto const& n : networks()) compare(model, graph, n, o, as_csv);
    }
  }
}
