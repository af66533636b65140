// SPDX-License-Identifier: MIT
#include "cleave/formats/json/json_writer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

using namespace cleave;

namespace {

void write(cleave::json::writer& to, nlohmann::json const& j) {
  switch (j.type()) {
    case nlohmann::json::value_t::object:
      to.open_object();
      for (auto const& [name, v] : j.items()) write(to.key(name), v);
      to.close_object();
      break;
    case nlohmann::json::value_t::array:
      to.open_array();
      for (auto const& v : j) write(to, v);
      to.close_array();
      break;
    case nlohmann::json::value_t::string:
      to.value(j.get<std::string>());
      break;
    case nlohmann::json::value_t::boolean:
      to.value(j.get<bool>());
      break;
    case nlohmann::json::value_t::number_integer:
      to.value(j.get<std::int64_t>());
      break;
    case nlohmann::json::value_t::number_unsigned:
      to.value(j.get<std::uint64_t>());
      break;
    case nlohmann::json::value_t::number_float:
      to.value(j.get<double>());
      break;
    default:
      to.null();
  }
}

nlohmann::json random_document(std::uint64_t& state, int depth) {
  auto const draw = [&](std::uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  switch (draw(depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return draw(2) == 1;
    case 2:
      return static_cast<std::int64_t>(state);
    case 3:
      return state;
    case 4:
      return static_cast<double>(static_cast<std::int64_t>(state)) * 1e-25 + 0.1;
    case 5:
      return std::string(draw(6), static_cast<char>(draw(128)));
    case 6: {
      auto j = nlohmann::json::array();
      for (auto n = draw(5); n > 0; --n) j.push_back(random_document(state, depth - 1));
      return j;
    }
    default: {
      auto j = nlohmann::json::object();
      for (auto n = draw(5); n > 0; --n) j["k\"" + std::to_string(n)] = random_document(state, depth - 1);
      return j;
    }
  }
}

}  // namespace

TEST_CASE("json::writer: another parser reads back every random document, in both layouts") {
  std::uint64_t state = 7;
  for (int i = 0; i < 300; ++i) {
    auto const document = random_document(state, 5);
    for (auto layout : {cleave::json::writer::layout::compact, cleave::json::writer::layout::indented}) {
      cleave::json::writer to(layout);
      write(to, document);
      CHECK(nlohmann::json::parse(to.text()) == document);
    }
  }
}

TEST_CASE("json::writer: writes the expected text in the compact and the indented layout") {
  cleave::json::writer to;
  to.open_object().member("a", 1).key("b").open_array().value(0.1).null().close_array().member("c", "d");
  to.member("e", false).key("f").open_object().close_object().close_object();
  CHECK(to.text() == R"({"a":1,"b":[0.1,null],"c":"d","e":false,"f":{}})");

  cleave::json::writer lines(cleave::json::writer::layout::indented);
  lines.open_object().member("a", 1).key("b").open_array().close_array().close_object();
  CHECK(lines.text() == "{\n  \"a\": 1,\n  \"b\": []\n}");
}

TEST_CASE("json::writer: the parts that are taken are the document") {
  cleave::json::writer to(cleave::json::writer::layout::indented);
  std::string parts;
  to.open_object().member("a", 1);
  CHECK(to.size() == 10);
  parts += to.take();
  CHECK(to.size() == 0);
  to.key("b").open_array();
  parts += to.take();
  to.value(2).close_array().close_object();
  parts += to.take();
  CHECK(parts == "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}");
}

TEST_CASE("json::writer: numbers keep their bits, and NaN and infinity become null") {
  auto const written = [](auto x) {
    cleave::json::writer to;
    to.value(x);
    return to.text();
  };
  CHECK(written(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
  CHECK(written(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  for (double const x : {0.1, 1e300, 5e-324, -0.0, 123456789.0, 1.0 / 3})
    CHECK(std::strtod(written(x).c_str(), nullptr) == x);
  CHECK(written(std::numeric_limits<double>::quiet_NaN()) == "null");
  CHECK(written(-std::numeric_limits<double>::infinity()) == "null");
}
