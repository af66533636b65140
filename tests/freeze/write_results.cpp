// SPDX-License-Identifier: MIT
// Writes results of the library that its tool does not print, for `./dev freeze`: schedules as they are made
// and lowered, memory plans, stages and pipes as bytes, checkpoints, plans, acyclic and exact partitions of
// random graphs.
//   freeze_results FOLDER
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "cleave/formats/pipe_buffer.hpp"
#include "cleave/formats/plan_json.hpp"
#include "cleave/formats/stage_buffer.hpp"
#include "cleave/partition/acyclic/acyclic.hpp"
#include "cleave/partition/exact/exact.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/memory/plan_memory.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/split/plan.hpp"
#include "support/random_graph.hpp"
#include "support/random_module_graph.hpp"
#include "support/random_schedule.hpp"
#include "support/rich_module_graph.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;

/// A folder of results, one file each.
class result_folder {
 public:
  explicit result_folder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path path(std::string const& name) const {
    auto const file = folder_ / name;
    create_directories(file.parent_path());
    return file;
  }

  void write(std::string const& name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  void write(std::string const& name, std::span<std::byte const> bytes) const {
    write(name, std::string_view(reinterpret_cast<char const*>(bytes.data()), bytes.size()));
  }

 private:
  std::filesystem::path folder_;
};

/// Returns the result of `make`, or the message of the exception that it throws.
template <class Make>
std::string text_or_error(Make make) {
  try {
    return make();
  } catch (std::exception const& e) {
    return std::string(e.what()) + '\n';
  }
}

std::string slots_text(memory_plan const& plan) {
  std::ostringstream out;
  for (auto const& rank : plan.ranks) {
    out << rank.bytes << " of at least " << rank.least_bytes << '\n';
    for (auto const& v : rank.values)
      out << slot_text(v) << ": " << v.alive.first << '-' << v.alive.last << " at " << v.offset << '\n';
  }
  return out.str();
}

schedule_bytes uneven_bytes(std::size_t stages, std::size_t edges) {
  schedule_bytes b;
  for (std::size_t s = 0; s < stages; ++s)
    b.stages.push_back({.stash = 100 + 7 * s, .saved_for_weights = 30 + s});
  for (std::size_t e = 0; e < edges; ++e) b.edges.push_back({.activation = 16 + e, .gradient = 24 + 3 * e});
  return b;
}

void write_schedule(result_folder const& to, std::string const& name, schedule const& s) {
  to.write(name + ".csv", schedule_csv(s));
  to.write(name + ".lowered.csv", text_or_error([&] { return schedule_csv(lower(s)); }));
  to.write(name + ".deferred.csv", text_or_error([&] {
             return schedule_csv(
                 lower(s, {.messages = message_order::rounds, .receives = receive_time::deferred}));
           }));
  auto const bytes = uneven_bytes(s.place.stages(), s.place.edges.size());
  to.write(name + ".slots.txt", text_or_error([&] { return slots_text(plan_memory(lower(s), bytes)); }));
}

void write_schedules(result_folder const& to) {
  for (std::size_t f = 0; f < schedule_names.size(); ++f)
    for (std::uint32_t ranks : {1u, 2u, 4u, 7u})
      for (std::uint32_t microbatches : {ranks, 2 * ranks, 3 * ranks + 1}) {
        auto const family = static_cast<schedule_family>(f);
        auto const name = "schedules/" + std::string(name_of(family)) + "-" + std::to_string(ranks) + "x" +
                          std::to_string(microbatches);
        try {
          write_schedule(to, name, testing::family_schedule(family, ranks, microbatches));
        } catch (std::exception const& e) {
          to.write(name + ".refused.txt", e.what());
        }
      }
  testing::rng random(1);
  for (std::size_t i = 0; i < 50; ++i)
    write_schedule(to, "schedules/random-" + std::to_string(i), testing::random_list_schedule(random));
}

std::string parts_text(partition const& p) {
  std::string text;
  for (auto const part : p.of) text += std::to_string(index(part)) + '\n';
  return text;
}

void write_partitions(result_folder const& to) {
  testing::rng random(2);
  for (std::size_t i = 0; i < 60; ++i) {
    auto const g = testing::random_graph(random, {.nodes = 20 + 5 * i});
    auto const name = "partitions/" + std::to_string(i) + "-";
    for (std::uint32_t const k : {2u, 5u}) {
      auto const parts = std::to_string(k);
      to.write(name + "balance-" + parts, text_or_error([&] {
                 auto const p = balance(g, k);
                 return parts_text(p) + write_plan_json(make_plan(g, p));
               }));
      if (i <= 2)  // larger ones may end by a time limit
        to.write(name + "exact-" + parts, text_or_error([&] { return parts_text(partition_exact(g, k)); }));
      for (auto const goal : {acyclic_goal::bottleneck, acyclic_goal::cut})
        to.write(name + "acyclic-" + parts + (goal == acyclic_goal::cut ? "-cut" : ""),
                 text_or_error([&] { return parts_text(partition_acyclic(g, k, {.goal = goal})); }));
    }
  }
}

void write_bytes(result_folder const& to) {
  testing::rng random(3);
  for (std::size_t i = 0; i < 60; ++i)
    to.write("bytes/stage-" + std::to_string(i),
             write_stage_bytes(testing::rich_module_graph(random, random.below(40), 3)));
  for (std::size_t i = 0; i < 20; ++i)
    to.write("bytes/pipe-" + std::to_string(i), text_or_error([&] {
               auto const g = testing::random_module_graph(random, 5 + i);
               auto const bytes = write_pipe_bytes(make_module_pipe(g));
               return std::string(reinterpret_cast<char const*>(bytes.data()), bytes.size());
             }));
}

void write_checkpoints(result_folder const& to) {
  testing::rng random(4);
  for (std::size_t i = 0; i < 5; ++i) {
    auto const folder = to.path("checkpoints/" + std::to_string(i));
    create_directories(folder);
    std::vector<checkpoint_part> parts;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::vector<double> values(1 + random.below(1000));
      for (auto& x : values) x = static_cast<double>(random.below(1u << 20)) / 1024;
      tensor_shape const shape{std::ssize(values)};
      std::vector<named_tensor> const state{{{"w" + std::to_string(rank), "alias" + std::to_string(rank)},
                                             {values.data(), element_type::f64, shape}}};
      parts.push_back(write_checkpoint_part(folder, i, rank_id{rank}, state));
    }
    complete_checkpoint(folder, {.step = i, .notes = {{"model", "frozen"}}}, parts);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fputs("usage: freeze_results FOLDER\n", stderr);
    return 2;
  }
  result_folder const to(words[1]);
  write_schedules(to);
  write_partitions(to);
  write_bytes(to);
  write_checkpoints(to);
}
