// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "conformance_runner/json.hpp"

namespace cleave::conformance {

/// The fields of a case. They alone select the runner that judges it; its name, category and file do not.
class fields {
 public:
  explicit fields(json const& body) : body_(body) {}

  bool has(char const* key) const { return body_.contains(key); }
  json const& operator[](char const* key) const { return body_.at(key); }
  json const& input() const { return body_.at("input"); }

  /// Returns true if the input has all of `keys`.
  template <class... Keys>
  bool in(Keys... keys) const {
    return (input().contains(keys) && ...);
  }
  /// Returns true if the expected result is an object with `key`.
  bool expects(char const* key) const {
    return has("expect") && body_.at("expect").is_object() && body_.at("expect").contains(key);
  }

  /// Returns the fields for messages.
  std::string text() const {
    std::string keys = "a case with the input";
    for (auto const& [key, value] : input().items()) keys += " " + key;
    return keys + (input().empty() ? " of no fields" : "");
  }

 private:
  json const& body_;
};

}  // namespace cleave::conformance
