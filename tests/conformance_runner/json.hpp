// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace cleave::conformance {

/// Thrown for a file whose layout differs from its area's README. Names the file, the case and the key.
class layout_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown for a case with a valid layout that the runner cannot judge, with the reason.
class unjudged_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void refuse_access() { throw layout_error("a field that is asked for is missing"); }

}  // namespace cleave::conformance

// A case that lacks a field must not end the run of all others.
#undef JSON_ASSERT
#define JSON_ASSERT(condition) ((condition) ? void() : cleave::conformance::refuse_access())
#include <nlohmann/json.hpp>

namespace cleave::conformance {

/// JSON whose objects keep the order in which their keys were written.
using json = nlohmann::ordered_json;

/// Nesting limit. No recording nests deeper; deeper input is rejected before any recursion.
inline constexpr int deepest = 100;

/// Parses `text`. Rejects invalid JSON, duplicate keys in an object, and nesting beyond `deepest`.
inline json parse_json(std::string const& text, std::string const& where) {
  std::vector<std::vector<std::string>> keys;  // of the open objects
  auto const watch = [&](int depth, json::parse_event_t event, json& parsed) {
    using enum json::parse_event_t;
    if (depth > deepest) throw layout_error(where + ": nested deeper than " + std::to_string(deepest));
    if (event == object_start) keys.emplace_back();
    if (event == object_end) keys.pop_back();
    if (event == key) {
      auto const& name = parsed.get_ref<std::string const&>();
      if (std::ranges::find(keys.back(), name) != keys.back().end())
        throw layout_error(where + ": key '" + name + "' twice in one object");
      keys.back().push_back(name);
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (nlohmann::json::exception const& e) {
    throw layout_error(where + ": " + e.what());
  }
}

inline json read_json(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw layout_error(file.string() + ": cannot be read");
  return parse_json(text.str(), file.string());
}

}  // namespace cleave::conformance
