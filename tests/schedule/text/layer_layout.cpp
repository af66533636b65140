// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/layer_layout.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/random.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

layer_layout_fault fault_of(std::string_view text) {
  try {
    read_layer_layout(text);
  } catch (layer_layout_error const& e) {
    return e.witness;
  }
  FAIL("no error for " << text);
  return {};
}

}  // namespace

TEST_CASE("read_layer_layout: expands the published layout of 61 layers on 16 ranks with two stages each") {
  auto const layout = read_layer_layout("Et*3|(tt|)*29,m|L");
  CHECK(layout.size() == 32);
  CHECK(layer_layout_text(layout).starts_with("Ettt|tt|tt|"));
  CHECK(layer_layout_text(layout).ends_with("|tt|m|L"));
  CHECK(!find_layer_layout_fault(layout, 16, 61));
}

TEST_CASE("read_layer_layout: repeats a group with its bars, and a group may hold repetitions") {
  auto const expanded = [](std::string_view text) { return layer_layout_text(read_layer_layout(text)); };
  CHECK(expanded("Et(tm|tL|mE)*2,tt") == "Ettm|tL|mEtm|tL|mEtt");
  CHECK(expanded("(|tt)*2,mm") == "|tt|ttmm");
  CHECK(expanded("(t*2|)*2") == "tt|tt|");
  CHECK(expanded("t|*3t") == "t|||t");
  CHECK(expanded("t*0") == "");
  CHECK(layers_of_stages(read_layer_layout("Ett||tL")) == std::vector<std::uint32_t>{2, 0, 1});
}

TEST_CASE("read_layer_layout: layer_layout_text writes random letters and bars back as they were read") {
  splitmix rng(5);
  for (int round = 0; round < 100; ++round) {
    std::string text;
    for (std::size_t n = rng.below(20); n > 0; --n) text += "EtmL|"[rng.below(5)];
    CHECK(layer_layout_text(read_layer_layout(text)) == text);
  }
}

TEST_CASE("read_layer_layout: names each fault with its place") {
  using enum layer_layout_fault::kind;
  CHECK(fault_of("Et|x") == layer_layout_fault{unknown_letter, 3});
  CHECK(fault_of("E(tt|") == layer_layout_fault{not_closed, 1});
  CHECK(fault_of("Et)") == layer_layout_fault{not_closed, 2});
  CHECK(fault_of("((t)*2)*2") == layer_layout_fault{not_closed, 1});
  CHECK(fault_of("Et*|") == layer_layout_fault{count_missing, 2});
  CHECK(fault_of("*2") == layer_layout_fault{count_missing, 0});
  CHECK(fault_of("Et(*0)*2") == layer_layout_fault{count_missing, 3});
  CHECK(fault_of("t*2*2") == layer_layout_fault{count_missing, 3});
  CHECK(fault_of("t*99999999999999999999") == layer_layout_fault{too_many, 1});
  CHECK(fault_of("t*1000000,(tttttttttttttttt)*1000000") == layer_layout_fault{too_many, 28});
}

TEST_CASE("find_layer_layout_fault: finds each mismatch of a layout and a model") {
  using enum layer_layout_fault::kind;
  auto const fault = [](std::string_view text, std::uint32_t ranks = 1, std::uint32_t decoders = 1) {
    return find_layer_layout_fault(read_layer_layout(text), ranks, decoders);
  };
  CHECK(!fault("E|t|L", 3));
  CHECK(fault("E|t|L", 2) == layer_layout_fault{uneven_stages, 0, 3, 2});
  CHECK(fault("tE|L") == layer_layout_fault{embedding, 0, 1, 1});
  CHECK(fault("EtE|L") == layer_layout_fault{embedding, 0, 2, 1});
  CHECK(fault("") == layer_layout_fault{embedding, 0, 0, 1});
  CHECK(fault("ELt") == layer_layout_fault{loss, 0, 1, 1});
  CHECK(fault("Et") == layer_layout_fault{loss, 0, 0, 1});
  CHECK(fault("EttL") == layer_layout_fault{decoders, 0, 2, 1});
}
