// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "conformance_runner/json.hpp"

namespace cleave::conformance {

/// What a case says about itself by the fields that it has: they decide who judges it, never its name, its
/// category or its file.
class fields {
 public:
  explicit fields(json const& body) : body_(body) {}

  bool has(char const* key) const { return body_.contains(key); }
  json const& operator[](char const* key) const { return body_.at(key); }
  json const& input() const { return body_.at("input"); }

  /// Whether the input has all of `keys`.
  template <class... Keys>
  bool in(Keys... keys) const {
    return (input().contains(keys) && ...);
  }
  /// Whether the expected result is an object that has `key`.
  bool expects(char const* key) const {
    return has("expect") && body_.at("expect").is_object() && body_.at("expect").contains(key);
  }

  /// The fields, for messages.
  std::string text() const {
    std::string keys = "a case with the input";
    for (auto const& [key, value] : input().items()) keys += " " + key;
    return keys + (input().empty() ? " of no fields" : "");
  }

 private:
  json const& body_;
};

}  // namespace cleave::conformance
