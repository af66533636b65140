// SPDX-License-Identifier: MIT
#include "cleave/graph/module_names.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

TEST_CASE("module names: a target in lower case, words apart, magic underscores gone except from functions") {
  using enum node_kind;
  CHECK(name_candidate(call_function, "CamelCase") == "camel_case");
  CHECK(name_candidate(call_function, "HTTPServer") == "httpserver");
  CHECK(name_candidate(call_method, "__add__") == "add");
  CHECK(name_candidate(call_function, "__add__") == "__add__");
  CHECK(name_candidate(call_module, "layer1.0.Conv") == "layer1.0.conv");
  CHECK(name_candidate(placeholder, "____") == "____");
}

TEST_CASE("module names: an identifier, each once") {
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

TEST_CASE("module names: a number in the name is kept while it is free, and counted from") {
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

TEST_CASE("module names: what Python reserves gets a number at once") {
  module_names names;
  for (auto const* word : {"sum", "for", "None", "torch", "device", "inf", "ArithmeticError", "zip"})
    CHECK(reserved_in_python(word));
  for (auto const* word : {"summ", "relu", "", "zzz"}) CHECK_FALSE(reserved_in_python(word));
  CHECK(names.take("sum") == "sum_1");
  CHECK(names.take("sum") == "sum_2");
  CHECK(names.take("input_4") == "input_4");
  CHECK(names.take("input") == "input_5");
}

TEST_CASE("module names: a hundred thousand equal targets take no quadratic time") {
  module_names names;
  std::string last;
  for (int i = 0; i < 100'000; ++i) last = names.take("f");
  CHECK(last == "f_99999");
}
