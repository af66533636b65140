// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/layer_plans.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/text/layer_layout.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using counts = std::vector<std::uint32_t>;
using lists = std::vector<std::vector<std::string>>;

/// Returns the fault for which `read` refuses the text.
template <class Read>
layer_plan_fault fault_in(Read read, std::string_view text) {
  try {
    read(text);
  } catch (layer_plan_error const& e) {
    CHECK(std::string_view(e.what()).find(describe(e.witness)) != std::string_view::npos);
    return e.witness;
  }
  FAIL("no error for " << text);
  return {};
}

/// The rule of llama.cpp, device by device: a layer goes to the first device that ends behind it.
counts by_scan(std::vector<float> const& shares, std::uint32_t layers) {
  counts found(shares.size());
  float all = 0;
  for (float const x : shares) all += x;
  for (std::uint32_t i = 0; i < layers; ++i) {
    float sum = 0;
    for (std::size_t d = 0; d < shares.size(); ++d) {
      sum += shares[d];
      if (sum / all <= static_cast<float>(i) / static_cast<float>(layers)) continue;
      ++found[d];
      break;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("read_layer_counts: reads the layers of each stage, and they can be written back") {
  CHECK(read_layer_counts("8,9,9,6") == counts{8, 9, 9, 6});
  CHECK(read_layer_counts(" 0, 32 \n") == counts{0, 32});
  splitmix rng(1);
  for (int round = 0; round < 200; ++round) {
    counts some(1 + rng.below(9));
    for (auto& n : some) n = static_cast<std::uint32_t>(rng.below(1'000'000));
    CHECK(read_layer_counts(layer_counts_text(some)) == some);
  }
}

TEST_CASE("read_layer_counts: names the item that is no number of layers") {
  using enum layer_plan_fault::kind;
  auto const fault = [](std::string_view text) { return fault_in(read_layer_counts, text); };
  CHECK(fault("") == layer_plan_fault{not_a_count, 0});
  CHECK(fault("8,,9") == layer_plan_fault{not_a_count, 1});
  CHECK(fault("8,9,") == layer_plan_fault{not_a_count, 2});
  CHECK(fault("8,-1") == layer_plan_fault{not_a_count, 1});
  CHECK(fault("8,1 2") == layer_plan_fault{not_a_count, 1});
  CHECK(fault("1000000") == layer_plan_fault{not_a_count, 0});
}

TEST_CASE("layers_by_tensor_split: puts each layer on the device that a scan of the devices finds") {
  CHECK(layers_by_tensor_split(read_tensor_split("3,1"), 33) == counts{25, 8});
  CHECK(layers_by_tensor_split(read_tensor_split("1/0/1"), 4) == counts{2, 0, 2});
  splitmix rng(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> shares(1 + rng.below(8));
    for (float& x : shares)
      x = rng.below(4) == 0 ? 0.0F
                            : static_cast<float>(rng.below(1000)) / static_cast<float>(1 + rng.below(50));
    shares[rng.below(shares.size())] = 0.3F;
    auto const layers = static_cast<std::uint32_t>(1 + rng.below(200));
    auto const found = layers_by_tensor_split(shares, layers);
    CHECK(found == by_scan(shares, layers));
    CHECK(std::accumulate(found.begin(), found.end(), std::uint32_t{0}) == layers);
  }
}

TEST_CASE("layers_by_tensor_split: numbers of layers as shares give each device that number") {
  splitmix rng(3);
  for (int round = 0; round < 200; ++round) {
    counts wanted(1 + rng.below(12));
    for (auto& n : wanted) n = static_cast<std::uint32_t>(rng.below(round % 2 == 0 ? 20 : 5000));
    wanted[rng.below(wanted.size())] += 1;
    auto const layers = std::accumulate(wanted.begin(), wanted.end(), std::uint32_t{0});
    CHECK(layers_by_tensor_split(read_tensor_split(layer_counts_text(wanted)), layers) == wanted);
  }
}

TEST_CASE("read_tensor_split: names the item that is no share") {
  using enum layer_plan_fault::kind;
  auto const fault = [](std::string_view text) { return fault_in(read_tensor_split, text); };
  CHECK(fault("3,") == layer_plan_fault{not_a_share, 1});
  CHECK(fault("3,x") == layer_plan_fault{not_a_share, 1});
  CHECK(fault("-1,2") == layer_plan_fault{not_a_share, 0});
  CHECK(fault("inf") == layer_plan_fault{not_a_share, 0});
  CHECK(fault("nan,1") == layer_plan_fault{not_a_share, 0});
  CHECK(fault("1e30") == layer_plan_fault{not_a_share, 0});
  CHECK(fault("0,0.0") == layer_plan_fault{all_zero, 0});
}

TEST_CASE(
    "read_module_lists: reads lists as Python, TOML and JSON write them, and they can be written back") {
  lists const plan{{"embed", "layers.0"}, {"layers.1", "head"}};
  CHECK(read_module_lists(R"([["embed", "layers.0"], ["layers.1", "head"]])") == plan);
  CHECK(read_module_lists("[ ['embed','layers.0',],\n['layers.1' , 'head'] , ]\n") == plan);
  CHECK(read_module_lists("[[]]") == lists{{}});
  splitmix rng(4);
  for (int round = 0; round < 200; ++round) {
    lists some(1 + rng.below(5));
    int number = 0;
    for (auto& names : some)
      for (auto n = rng.below(4); n > 0; --n) names.push_back("a.[,] \u00e9" + std::to_string(number++));
    CHECK(read_module_lists(module_lists_text(some)) == some);
  }
}

TEST_CASE("read_module_lists: names each fault with its place") {
  using enum layer_plan_fault::kind;
  auto const fault = [](std::string_view text) { return fault_in(read_module_lists, text); };
  CHECK(fault("") == layer_plan_fault{not_a_list, 0});
  CHECK(fault("[]") == layer_plan_fault{not_a_list, 1});
  CHECK(fault("['a']") == layer_plan_fault{not_a_list, 1});
  CHECK(fault("[[a]]") == layer_plan_fault{not_a_name, 2});
  CHECK(fault("[['']]") == layer_plan_fault{not_a_name, 2});
  CHECK(fault("[['a' 'b']]") == layer_plan_fault{not_a_name, 6});
  CHECK(fault("[['a\\n']]") == layer_plan_fault{not_a_name, 2});
  CHECK(fault("[['a]]") == layer_plan_fault{not_closed, 2});
  CHECK(fault("[['a'") == layer_plan_fault{not_closed, 1});
  CHECK(fault("[['a']") == layer_plan_fault{not_closed, 0});
  CHECK(fault("[['a']] x") == layer_plan_fault{not_ended, 8});
  CHECK(fault("[['a'], ['a']]") == layer_plan_fault{repeated, 9});
}

TEST_CASE("layer plans: altered texts are read or refused with a place inside them") {
  splitmix rng(5);
  std::vector<std::string> const texts{"8,9,9,6", "0.5/3,1e2", R"([["a", 'b.0'], ["c"]])",
                                       "Et*3|(tt|)*4,m|L"};
  for (int round = 0; round < 1500; ++round) {
    auto text = texts[rng.below(texts.size())];
    for (auto n = 1 + rng.below(3); n > 0; --n) {
      auto const at = rng.below(text.size() + 1);
      if (rng.below(2) == 0 && at < text.size())
        text.erase(at, 1);
      else
        text.insert(at, 1, "[]'\",.*|()tE019- \n/\xff"[rng.below(20)]);
    }
    auto const try_it = [&](auto read) {
      try {
        read(text);
      } catch (layer_plan_error const& e) {
        CHECK(e.witness.at <= text.size());
      } catch (layer_layout_error const& e) {
        CHECK(e.witness.position <= text.size());
      }
    };
    try_it([](std::string_view t) { return read_layer_counts(t); });
    try_it([](std::string_view t) { return read_tensor_split(t); });
    try_it([](std::string_view t) { return read_module_lists(t); });
    try_it([](std::string_view t) { return read_layer_layout(t); });
  }
}

TEST_CASE("short_layer_layout_text: is read as the layout that was written") {
  CHECK(short_layer_layout_text(read_layer_layout("Ettt|tttt|t|L")) == "Et*3|t*4|t|L");
  splitmix rng(6);
  for (int round = 0; round < 200; ++round) {
    layer_layout some(1 + rng.below(6));
    for (auto& stage : some)
      for (std::size_t n = rng.below(20); n > 0; --n)
        stage.push_back(static_cast<layer_kind>("EttttmL"[rng.below(7)]));
    CHECK(read_layer_layout(short_layer_layout_text(some)) == some);
  }
}
