// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/partition/classic/chain_rules.hpp"
#include "cleave/partition/model/chain_bounds.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

struct recorded_case {
  std::string rule, text;
  std::uint32_t parts;
  std::vector<double> numbers, answer;
};

std::vector<double> numbers_of(std::string const& text) {
  std::vector<double> numbers;
  std::istringstream words(text);
  for (std::string word; words >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
  return numbers;
}

/// The cases of one rule that record_chain_rules.py wrote.
std::vector<recorded_case> recorded(std::string const& rule) {
  std::vector<recorded_case> cases;
  std::ifstream file(std::string(CLEAVE_TEST_DATA) + "/partition/classic/chain_rules.csv");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(rule)) continue;
    std::istringstream fields(line);
    recorded_case c;
    std::string parts, numbers;
    std::getline(fields, c.rule, ';');
    std::getline(fields, parts, ';');
    std::getline(fields, numbers, ';');
    std::getline(fields, c.text, ';');
    c.parts = static_cast<std::uint32_t>(std::strtoul(parts.c_str(), nullptr, 10));
    c.numbers = numbers_of(numbers);
    c.answer = numbers_of(c.text);
    cases.push_back(c);
  }
  return cases;
}

std::vector<double> as_numbers(chain_bounds const& bounds) { return {bounds.begin(), bounds.end()}; }

double option(std::string const& rule, std::string const& name, double otherwise) {
  auto const at = rule.find(name + "=");
  return at == rule.npos ? otherwise : std::strtod(rule.c_str() + at + name.size() + 1, nullptr);
}

std::vector<double> random_weights(testing::rng& r, std::size_t layers) {
  std::vector<double> weights;
  while (weights.size() < layers) weights.push_back(static_cast<double>(r.below(9)));
  return weights;
}

}  // namespace

TEST_CASE("torchgpipe_blocks: returns the recorded bounds of torchgpipe, or throws where it fails") {
  auto const cases = recorded("torchgpipe");
  REQUIRE(cases.size() > 150);
  for (auto const& c : cases) {
    CAPTURE(c.text);
    if (c.text == "forever" || c.text == "overlap")
      CHECK(testing::error_text<torchgpipe_error>([&] {
              torchgpipe_blocks(c.numbers, c.parts);
            }).find("torchgpipe's rule") == 0);
    else
      CHECK(as_numbers(torchgpipe_blocks(c.numbers, c.parts)) == c.answer);
  }
}

TEST_CASE("deepspeed_balanced, deepspeed_uniform: return the recorded bounds of DeepSpeed") {
  auto const cases = recorded("deepspeed");
  REQUIRE(cases.size() > 150);
  for (auto const& c : cases)
    CHECK(as_numbers(c.rule == "deepspeed uniform" ? deepspeed_uniform(c.numbers.size(), c.parts)
                                                   : deepspeed_balanced(c.numbers, c.parts)) == c.answer);
}

TEST_CASE("accelerate_fill: returns the recorded devices of Accelerate, or throws where it refuses") {
  auto const cases = recorded("accelerate");
  REQUIRE(cases.size() > 100);
  for (auto const& c : cases) {
    std::vector<std::int64_t> const bytes(c.numbers.begin(), c.numbers.end());
    if (c.text == "refused") {
      CHECK(testing::error_text([&] { accelerate_fill(bytes, c.parts); }).find("KB") != std::string::npos);
      continue;
    }
    std::vector<double> devices;
    for (auto const p : accelerate_fill(bytes, c.parts).of)
      devices.push_back(p == no_part ? -1 : static_cast<double>(index(p)));
    CHECK(devices == c.answer);
  }
}

TEST_CASE("find_pipedream_plan: returns the recorded stages and time of PipeDream's optimizer") {
  auto const cases = recorded("pipedream");
  REQUIRE(cases.size() > 150);
  for (auto const& c : cases) {
    pipedream_options o{.bandwidth = option(c.rule, "bandwidth", 0)};
    if (c.rule.find("straight") != c.rule.npos) o.replication = pipedream_replication::none;
    if (c.rule.find("fewer") != c.rule.npos) o.machines = pipedream_machines::fewer_allowed;
    if (auto const memory = option(c.rule, "memory", -1); memory >= 0) o.memory = memory;
    if (auto const ratio = option(c.rule, "compression", -1); ratio >= 0) o.compression = ratio;
    std::vector<pipedream_layer> layers;
    for (std::size_t i = 0; i < c.numbers.size(); i += 3)
      layers.push_back({c.numbers[i], c.numbers[i + 1], c.numbers[i + 2]});
    auto const found = find_pipedream_plan(layers, c.parts, o);
    REQUIRE(found.has_value() == (c.text != "refused"));
    if (!found) continue;
    std::vector<double> answer{found->time};
    for (std::size_t end = 0; auto const& s : found->stages) {
      CHECK(s.begin == end);
      end = s.end;
      answer.insert(answer.end(), {static_cast<double>(s.begin), static_cast<double>(s.machines)});
    }
    CHECK(found->stages.back().end == layers.size());
    CHECK(answer == c.answer);
  }
}

TEST_CASE("chain_rules.hpp: no rule gives a smaller largest part than balance") {
  testing::rng r(7);
  std::size_t worse = 0;
  for (int i = 0; i < 200; ++i) {
    auto const weights = random_weights(r, 2 + r.below(12));
    auto const k = static_cast<std::uint32_t>(1 + r.below(weights.size()));
    testing::snapshot_builder chain;
    for (std::uint32_t made = chain.input(); auto const weight : weights) made = chain.node(weight, {made});
    auto const best =
        balance(chain.build(), k, {.cost_per_byte = 0, .empty = empty_parts::allowed}).bottleneck;
    std::vector<chain_bounds> answers{deepspeed_uniform(weights.size(), k), deepspeed_balanced(weights, k)};
    try {
      answers.push_back(torchgpipe_blocks(weights, k));
    } catch (torchgpipe_error const&) {
      ++worse;
    }
    for (auto const& bounds : answers) {
      CHECK(largest_sum(weights, bounds) >= best);
      worse += largest_sum(weights, bounds) > best;
    }
  }
  CHECK(worse > 100);
}

TEST_CASE("partition_of, largest_sum: convert chain bounds to a partition and to its largest part") {
  CHECK(partition_of(chain_bounds{0, 2, 2, 3}) == partition{{part_id{0}, part_id{0}, part_id{2}}, 3});
  CHECK(partition_of(deepspeed_uniform(0, 2)) == partition{{}, 2});
  CHECK(largest_sum(std::vector<double>{1, 2, 4}, {0, 2, 3}) == 4);
}

TEST_CASE("chain_rules.hpp: every rule rejects invalid weights, counts and options") {
  std::vector<double> const weights{1, -1, 2};
  auto const infinity = std::numeric_limits<double>::infinity();
  CHECK(find_bad_weight(std::vector<double>{1, 1e308, 1e308}) == 2u);
  CHECK(find_bad_weight(std::vector<double>{1, infinity - infinity}) == 1u);
  CHECK(find_bad_weight(std::vector<double>{1, 0}) == std::nullopt);
  CHECK(testing::error_text([&] { deepspeed_balanced(weights, 2); }).find("layer #1") == 0);
  CHECK_THROWS_AS(torchgpipe_blocks(weights, 2), chain_weight_error);
  CHECK_THROWS_AS(deepspeed_uniform(3, 0), error);
  CHECK(testing::error_text([] { torchgpipe_blocks(std::vector<double>{1}, 2); }) ==
        "1 layers cannot be cut into 2 parts");
  CHECK_THROWS_AS(accelerate_fill(std::vector<std::int64_t>{1 << 20, -1}, 2), error);
  CHECK_THROWS_AS(accelerate_fill(std::vector<std::int64_t>{1 << 20}, 0), error);
  CHECK_THROWS_AS(accelerate_fill(std::vector<std::int64_t>(2, std::int64_t{1} << 52), 2), error);
  CHECK(accelerate_fill(std::vector<std::int64_t>{1, 1}, 1).of == std::vector(2, part_id{0}));
  std::vector<pipedream_layer> const layers{{1, 1, 1}, {1, infinity, 1}};
  CHECK(testing::error_text([&] { find_pipedream_plan(layers, 2); }).find("layer #1") != std::string::npos);
  CHECK_THROWS_AS(find_pipedream_plan({}, 2), error);
  CHECK_THROWS_AS(find_pipedream_plan(std::vector<pipedream_layer>(2), 2, {.bandwidth = 0}), error);
}
