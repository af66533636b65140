// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/toy_operators.hpp"

namespace cleave::testing {

/// Thrown for a text that is not a formula, with the text and the position.
class formula_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Evaluates formulas like `y = relu(x @ w1 + b1) @ w2` on a tape; the recordings of gradients use them.
/// Statements end at `;`. A statement is `name = sum`, which names the value from then on, or `outputs sum,
/// sum and sum`. Other text is a remark. `@` and `*` have the same precedence, above `+` and `-`; `v[0]` is a
/// row.
class formula {
 public:
  formula(tape& t, std::map<std::string, tape_value> named) : tape_(t), named_(std::move(named)) {}

  /// Returns the value of the last statement, or of the last `outputs` statement.
  tape_values evaluate(std::string_view text) {
    while (!text.empty()) {
      auto const end = std::min(text.find(';'), text.size());
      statement(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return outputs_;
  }

 private:
  void statement(std::string_view text) {
    text_ = text;
    at_ = 0;
    auto const first = word();
    if (first == "outputs") {
      outputs_.clear();
      do outputs_.push_back(sum());
      while (take(',') || take_word("and"));
    } else if (!first.empty() && take('=')) {
      outputs_ = {named_[first] = sum()};
    }
  }

  tape_value sum() {
    auto left = product();
    for (;;) {
      if (take('+'))
        left = apply("add", {left, product()});
      else if (take('-'))
        left = apply("sub", {left, product()});
      else
        return left;
    }
  }

  tape_value product() {
    auto left = factor();
    for (;;) {
      if (take('@'))
        left = apply("matmul", {left, factor()});
      else if (take('*'))
        left = apply("mul", {left, factor()});
      else
        return left;
    }
  }

  tape_value factor() {
    auto v = atom();
    while (take('[')) {
      v = apply("getitem", {v, atom()});
      require(']');
    }
    return v;
  }

  tape_value atom() {
    if (take('(')) {
      auto v = sum();
      require(')');
      return v;
    }
    auto const name = word();
    if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])))
      return {tape_value::kind::constant, std::int64_t{std::stoll(name)}};
    if (auto const known = named_.find(name); known != named_.end()) return known->second;
    if (name.empty() || !toy_operators().contains(name) || !take('('))
      throw formula_error("'" + std::string(text_) + "': nothing is called '" + name + "' before character " +
                          std::to_string(at_));
    tape_values operands;
    do operands.push_back(sum());
    while (take(','));
    require(')');
    return apply(name, operands);
  }

  tape_value apply(std::string const& name, tape_values const& operands) {
    return toy_operators().find(name)->second(tape_, operands);
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string word() {
    skip_spaces();
    std::string name;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_]))) name += text_[at_++];
    return name;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string const& wanted) {
    auto const before = at_;
    if (word() == wanted) return true;
    at_ = before;
    return false;
  }
  void require(char c) {
    if (!take(c))
      throw formula_error("'" + std::string(text_) + "': '" + c + "' is missing at character " +
                          std::to_string(at_));
  }

  tape& tape_;
  std::map<std::string, tape_value> named_;
  std::string_view text_;
  std::size_t at_ = 0;
  tape_values outputs_;
};

/// Returns the names that a remark `, w2 fixed` excludes from training.
inline std::set<std::string> fixed_names(std::string const& text) {
  std::set<std::string> names;
  for (auto end = text.find(" fixed"); end != text.npos; end = text.find(" fixed", end + 1))
    names.insert(text.substr(text.rfind(' ', end - 1) + 1, end - text.rfind(' ', end - 1) - 1));
  return names;
}

}  // namespace cleave::testing
