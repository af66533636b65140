// SPDX-License-Identifier: MIT
#include "cleave/graph/module_names.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE(
    "name_candidate: converts to lower-case words, and strips magic underscores except from functions") {
  using enum node_kind;
  CHECK(name_candidate(call_function, "CamelCase") == "camel_case");
  CHECK(name_candidate(call_function, "HTTPServer") == "httpserver");
  CHECK(name_candidate(call_method, "__add__") == "add");
  CHECK(name_candidate(call_function, "__add__") == "__add__");
  CHECK(name_candidate(call_module, "layer1.0.Conv") == "layer1.0.conv");
  CHECK(name_candidate(placeholder, "____") == "____");
}

TEST_CASE("module_names: returns a Python identifier and never the same one twice") {
  module_names names;
  CHECK(names.take("aten.max.dim") == "aten_max_dim");
  CHECK(names.take("**kwargs") == "_kwargs");
  CHECK(names.take("a..b") == "a_b");
  CHECK(names.take("0") == "_0");
  CHECK(names.take("") == "_unnamed");
  CHECK(names.take("層") == "_");
  CHECK(names.take("f") == "f");
  CHECK(names.take("f") == "f_1");
  CHECK(names.take("f") == "f_2");
}

TEST_CASE("module_names: keeps a number in the name while it is free, and counts on from it") {
  module_names names;
  CHECK(names.take("f_3") == "f_3");
  CHECK(names.take("f") == "f");
  CHECK(names.take("f_3") == "f_4");
  CHECK(names.take("f") == "f_5");
  CHECK(names.take("linear_1") == "linear_1");
  CHECK(names.take("linear") == "linear");
  CHECK(names.take("linear") == "linear_2");
  CHECK(names.take("x_99999999999999999999999") == "x_99999999999999999999999");
  CHECK(names.take("x_99999999999999999999999") == "x_99999999999999999999999_1");
}

TEST_CASE("module_names: adds a number to names that Python reserves") {
  module_names names;
  for (auto const* word : {"sum", "for", "None", "torch", "device", "inf", "ArithmeticError", "zip"})
    CHECK(reserved_in_python(word));
  for (auto const* word : {"summ", "relu", "", "zzz"}) CHECK_FALSE(reserved_in_python(word));
  CHECK(names.take("sum") == "sum_1");
  CHECK(names.take("sum") == "sum_2");
  CHECK(names.take("input_4") == "input_4");
  CHECK(names.take("input") == "input_5");
}

TEST_CASE("module_names: numbers 100,000 equal names consecutively") {
  module_names names;
  std::string last;
  for (int i = 0; i < 100'000; ++i) last = names.take("f");
  CHECK(last == "f_99999");
}

TEST_CASE("module_names: returns the names that a plain set of used names gives") {
  testing::rng random(8);
  for (int round = 0; round < 300; ++round) {
    module_names names;
    std::set<std::string> used;
    std::map<std::string, unsigned long long> counter;
    for (int i = 0; i < 40; ++i) {
      std::string name = std::vector<std::string>{"f", "g", "sum", "f_g"}[random.below(4)];
      auto const numbers =
          std::vector<std::string>{"", "_0", "_1", "_01", "_2", "_4294967295", "_4294967296", "_"};
      name += numbers[random.below(numbers.size())];
      auto digits = name.size();
      while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
      bool const numbered = digits < name.size() && name[digits - 1] == '_';
      auto const stem = numbered ? name.substr(0, digits - 1) : name;
      std::string expected = name;
      bool taken = name == "sum" || used.contains(name);
      if (!taken && numbered) counter[stem] = std::stoull(name.substr(digits));
      for (; taken; taken = used.contains(expected)) expected = stem + "_" + std::to_string(++counter[stem]);
      used.insert(expected);
      CHECK((random.one_in(2) ? names.take(name) : names.take(node_kind::call_function, name)) == expected);
    }
  }
}
