// SPDX-License-Identifier: MIT
#include "cleave/formats/json/json_reader.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "cleave/formats/json/json_writer.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refusal(std::string const& text, std::size_t deepest = 1000) {
  return testing::error_text<cleave::json::error>([&] { json_document(text, deepest); });
}

nlohmann::ordered_json as_oracle(json_value const& v) {
  using enum json_kind;
  if (v.what() == null) return nullptr;
  if (v.what() == boolean) return v.boolean();
  if (v.what() == text) return v.text();
  if (v.is_integer()) return v.integer();
  if (v.what() == number) return v.real();
  auto out = v.what() == array ? nlohmann::ordered_json::array() : nlohmann::ordered_json::object();
  if (v.what() == array) v.each_element([&](json_value const& e) { out.push_back(as_oracle(e)); });
  if (v.what() == object)
    v.each_member([&](std::string const& key, json_value const& e) { out[key] = as_oracle(e); });
  return out;
}

}  // namespace

TEST_CASE("json_document: reports the first mistake with its line and column") {
  CHECK(refusal("") == "line 1, column 1: expected a value, got the end of the text");
  CHECK(refusal("[1,\n 2,]") == "line 2, column 4: expected a value");
  CHECK(refusal("{\"a\":1,}") == "line 1, column 8: expected a key in quotes");
  CHECK(refusal("{\"a\" 1}") == "line 1, column 6: expected ':'");
  CHECK(refusal("{\"a\":1 \"b\":2}") == "line 1, column 8: expected ',' or '}'");
  CHECK(refusal("[1 2]") == "line 1, column 4: expected ',' or ']'");
  CHECK(refusal("[1") == "line 1, column 3: expected ',' or ']'");
  CHECK(refusal("1 2") == "line 1, column 3: unexpected characters after the end of the value");
  CHECK(refusal("01") == "line 1, column 2: unexpected characters after the end of the value");
  CHECK(refusal("-") == "line 1, column 2: expected a digit");
  CHECK(refusal("1.e5") == "line 1, column 3: expected a digit");
  CHECK(refusal("+1") == "line 1, column 1: expected a value");
  CHECK(refusal("[NaN]") == "line 1, column 2: expected a value; JSON has no NaN and no Infinity");
  CHECK(refusal("nul") == "line 1, column 1: expected a value");
  CHECK(refusal("\"a") == "line 1, column 3: a text without a closing quote");
  CHECK(refusal("\"\\") == "line 1, column 2: unknown escape sequence");
  CHECK(refusal("\"\\x\"") == "line 1, column 2: unknown escape sequence");
  CHECK(refusal("\"\\u12g4\"") == "line 1, column 6: expected four hexadecimal digits");
  CHECK(refusal("\"\\ud800\"") == "line 1, column 2: half of a surrogate pair");
  CHECK(refusal("\"\\ude00\\ud83d\"") == "line 1, column 2: half of a surrogate pair");
  CHECK(refusal("\"\n\"") == "line 1, column 2: a control character within a text; write it as \\u00XX");
  CHECK(refusal("\"\xff\"") == "line 1, column 2: a byte that is not valid UTF-8");
  CHECK(refusal("{\"a\":1,\n\"\\u0061\":2}") == "line 2, column 1: key 'a' is repeated in its object");
  CHECK(refusal("[[[]]]", 2) == "line 1, column 3: nested deeper than 2");
  CHECK(refusal("[[[]]]", 3) == "accepted");
  CHECK(refusal(std::string(1'000'000, '[')) == "line 1, column 1001: nested deeper than 1000");
}

TEST_CASE("json_value: a missing key or a wrong type is reported with its place") {
  json_document const d("{\"nodes\": [{\"name\": \"a\"},\n {\"name\": -7}], \"x\": 1.5}");
  json_value const root(d);
  auto const said = [](auto f) { return testing::error_text<cleave::json::error>(f); };
  root["nodes"].each_element([&](json_value const& n) {
    if (n["name"].what() == json_kind::text) return;
    CHECK(said([&] { n["name"].text(); }) == "line 2, column 11, $.nodes[1].name: expected a text, got -7");
    CHECK(said([&] { n["name"].integer<std::uint32_t>(); }) ==
          "line 2, column 11, $.nodes[1].name: expected an integer of 32 bits, not negative, got -7");
    CHECK(said([&] { n["cost"]; }) == "line 2, column 2, $.nodes[1]: is missing the key 'cost'");
    CHECK(said([&] { n.allow({"cost"}); }) == "line 2, column 11, $.nodes[1].name: unknown key 'name'");
  });
  CHECK(said([&] { root["x"].integer(); }) ==
        "line 2, column 22, $.x: expected an integer of 64 bits, got 1.5");
  CHECK(said([&] { root["x"].boolean(); }) == "line 2, column 22, $.x: expected true or false, got 1.5");
  CHECK(said([&] {
          root.each_element([](auto const&) {});
        }).starts_with("line 1, column 1, $: expected a list"));
  CHECK(said([&] { root["x"].find("y"); }) == "line 2, column 22, $.x: expected an object, got 1.5");
  CHECK(root["x"].real() == 1.5);
  CHECK(root.size() == 2);
  CHECK_FALSE(root.find("y"));
  json_document const large("[1e999, 9223372036854775807, 9223372036854775808, 18446744073709551615]");
  std::vector<json_value> list;
  json_value(large).each_element([&](json_value const& v) { list.push_back(v); });
  CHECK(said([&] { list[0].real(); }) ==
        "line 1, column 2, $[0]: the number is out of range for a double: 1e999");
  CHECK(list[1].integer() == INT64_MAX);
  CHECK(
      said([&] { list[2].integer(); }).ends_with("expected an integer of 64 bits, got 9223372036854775808"));
  CHECK(list[3].integer<std::uint64_t>() == UINT64_MAX);
}

TEST_CASE("json_document: compares keys without their escapes and rejects repeated keys") {
  json_document const d(R"({"a\u0062c": 1, "\ud83d\ude00": 2, "a\\b": 3, "": 4})");
  json_value const v(d);
  CHECK(v["abc"].integer() == 1);
  CHECK(v["\xf0\x9f\x98\x80"].integer() == 2);
  CHECK(v["a\\b"].integer() == 3);
  CHECK(v[""].integer() == 4);
  for (auto const* other : {"a", "ab", "abcd", "a\\\\b", "a\\u0062c", "\\"}) CHECK(!v.find(other));
  CHECK(refusal(R"({"b": 1, "\u0062": 2})") == "line 1, column 10: key 'b' is repeated in its object");
  std::string many = "{\"k0\": 0";
  for (int i = 1; i < 40; ++i) {
    many += ", \"k" + std::to_string(i) + "\": 0";
    auto const last = many.size() + 3;
    CHECK(refusal(many + "}") == "accepted");
    CHECK(refusal(many + ", \"k" + std::to_string(i / 2) + "\": 1}") ==
          "line 1, column " + std::to_string(last) + ": key 'k" + std::to_string(i / 2) +
              "' is repeated in its object");
  }
}

TEST_CASE("json_document: source returns the whole text of a value, with brackets and quotes in strings") {
  for (std::string const inside : {"[]", "{}", "[[], {}]", R"(["]", "\"]", "\\"])",
                                   R"({"}": {"\\\"": [1, "{"]}, "b": [[2]]})", "-1.5e3"}) {
    json_document const d("[ 0 ," + inside + " , \"]\" ] ");
    CHECK(d.source(2) == inside);
    CHECK(d.source(0) == "[ 0 ," + inside + " , \"]\" ]");
  }
}

TEST_CASE("json_document: reads back what json::writer writes, with any characters") {
  for (std::string const text : {"", "a\"b\\c/d", "line\nbreak\ttab\x01", "\u00e9\u20ac\U0001f600", "\x7f"}) {
    cleave::json::writer w;
    w.open_array().value(text).close_array();
    json_document const d(w.text());
    json_value(d).each_element([&](json_value const& v) { CHECK(v.text() == text); });
  }
  json_document const d("\"\\ud83d\\ude00\\u20ac\\u00e9\\u0041\\b\\f\\n\\r\\t\\/\\\"\\\\\"");
  CHECK(json_value(d).text() == "\U0001f600\u20ac\u00e9A\b\f\n\r\t/\"\\");
}

TEST_CASE("json_document: agrees with nlohmann::json on values and rejections, except for repeated keys") {
  std::ifstream in(CLEAVE_TEST_DATA "/conformance/split_by_tags/random.json", std::ios::binary);
  std::ostringstream whole;
  whole << in.rdbuf();
  REQUIRE(whole.str().size() > 1000);
  json_document const d(whole.str());
  CHECK(as_oracle(json_value(d)) == nlohmann::ordered_json::parse(whole.str()));

  testing::rng random(51);
  std::string const seeds[] = {
      R"({"a": [1, -2.5e3, "x\u00e9\ud83d\ude00\n"], "b": {"c": null, "d": [true, false]}})",
      R"([[], {}, "", 0, -0, 1E+2, {"k": [{"k": {}}]}])"};
  std::string const pieces = "{}[]\",:\\ue0123.-+tfn \n\x01\xff\xc3";
  std::size_t accepted = 0, refused = 0;
  auto const rounds = testing::cases(1'700, 20'000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto text = seeds[random.below(2)];
    for (auto edits = 1 + random.below(2); edits-- > 0;) {
      auto const at = random.below(text.size());
      if (random.one_in(2))
        text[at] = pieces[random.below(pieces.size())];
      else
        text.erase(at, 1 + random.below(3));
      if (text.empty()) text = "0";
    }
    auto const oracle = nlohmann::ordered_json::parse(text, nullptr, false);
    auto const said = refusal(text);
    if (said != "accepted") {
      ++refused;  // nlohmann::json keeps one of two equal keys
      CHECK_MESSAGE((oracle.is_discarded() || said.find("second time") != said.npos), text);
    } else {
      ++accepted;
      json_document const mine(text);
      CHECK_MESSAGE(as_oracle(json_value(mine)) == oracle, text);
    }
  }
  CHECK(accepted > rounds / 20);
  CHECK(refused > rounds / 20);
}

namespace {

/// Checks a document with a list of `many` zeros and a text of `size` characters.
void check_extents(std::size_t many, std::size_t size) {
  std::string text = R"({"list": [0)", zeros = ",0";
  while (zeros.size() < 2 * (many - 1)) zeros += zeros;
  text.append(zeros, 0, 2 * (many - 1));
  text += R"(], "text": ")" + std::string(size, 'x') + R"(", "last": [1, [2]]})";
  json_document const document(std::move(text));
  json_value const whole(document);
  CHECK(whole["list"].size() == many);
  CHECK(whole["text"].text().size() == size);
  CHECK(whole["last"].size() == 2);
  CHECK(whole.size() == 3);
  CHECK(document.size() == many + 1 + 3 + 2 + 4);
}

}  // namespace

TEST_CASE("json_document: keeps the extents of texts of 16 MiB") { check_extents(1000, (1 << 24) + 7); }

TEST_CASE("json_document: keeps the extents of lists of 2^24 values and of texts of 16 MiB" *
          doctest::skip(!testing::all_cases())) {
  check_extents((1 << 24) + 5, (1 << 24) + 7);
}
