// SPDX-License-Identifier: MIT
#pragma once
#include <cctype>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance_runner/json.hpp"

namespace cleave::conformance {

using namespace detail;

/// A schema for JSON, written as definitions `name = type;`. A type is one of `text int number bool null
/// any`, a literal `"a"`, a list `[type]`, or a list of fixed length `(type, type)`. It can also be an object
/// `{key: type, optional?: type}`, a map `{*: type}`, the name of another definition, or alternatives `type |
/// type`.
class schema {
 public:
  explicit schema(std::string_view text) : text_(text) {
    while (skip(), at_ < text_.size()) {
      auto const name = word();
      expect('=');
      definitions_[name] = alternatives();
      expect(';');
    }
  }

  bool defines(std::string const& name) const { return definitions_.contains(name); }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (auto const& [name, of] : definitions_) all.push_back(name);
    return all;
  }

  /// Returns true if an object `name` may have `key`.
  bool knows(std::string const& name, std::string const& key) const {
    auto const d = definitions_.find(name);
    return d != definitions_.end() &&
           std::ranges::find(d->second->fields, key, &type::field::key) != d->second->fields.end();
  }

  /// Returns the first violation of `name` by `j`, with its place and what was expected there, or nullopt.
  std::optional<std::string> find_fault(json const& j, std::string const& name) const {
    return fault(j, *definitions_.at(name), "");
  }

 private:
  struct type {
    enum class kind { simple, literal, list, fixed, object, map, named, either } what;
    std::string name;  // of a simple or named type, or the literal
    struct field {
      std::string key;
      bool optional;
      std::shared_ptr<type> of;
    };
    std::vector<field> fields;  // of an object; elements of other types have no keys
  };
  using type_ptr = std::shared_ptr<type>;
  using enum type::kind;

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      throw std::logic_error("schema: expected '" + std::string(1, c) + "' at " +
                             std::string(text_.substr(at_, 40)));
  }
  std::string word() {
    skip();
    if (accept('"')) {
      auto const end = text_.find('"', at_);
      auto const quoted = text_.substr(at_, end - at_);
      at_ = end + 1;
      return std::string(quoted);
    }
    auto const begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '*'))
      ++at_;
    if (begin == at_)
      throw std::logic_error("schema: expected a name at " + std::string(text_.substr(at_, 40)));
    return std::string(text_.substr(begin, at_ - begin));
  }

  type_ptr alternatives() {
    auto t = one();
    if (!accept('|')) return t;
    type both{either, "", {{"", false, t}}};
    do both.fields.push_back({"", false, one()});
    while (accept('|'));
    return std::make_shared<type>(both);
  }
  type_ptr one() {
    type t{named, "", {}};
    if (accept('[')) {
      t.what = list;
      t.fields.push_back({"", false, alternatives()});
      expect(']');
    } else if (accept('(')) {
      t.what = fixed;
      do t.fields.push_back({"", false, alternatives()});
      while (accept(','));
      expect(')');
    } else if (accept('{')) {
      t.what = object;
      while (!accept('}')) {
        type::field f{word(), accept('?'), nullptr};
        expect(':');
        f.of = alternatives();
        if (f.key == "*") t.what = map;
        t.fields.push_back(std::move(f));
        accept(',');
      }
    } else if (skip(), at_ < text_.size() && text_[at_] == '"') {
      t.what = literal;
      t.name = word();
    } else {
      t.name = word();
      for (auto const* simple_name : {"text", "int", "number", "bool", "null", "any"})
        if (t.name == simple_name) t.what = simple;
    }
    return std::make_shared<type>(std::move(t));
  }

  static bool is(json const& j, std::string const& name) {
    if (name == "text") return j.is_string();
    if (name == "int") return j.is_number_integer();
    if (name == "number") return j.is_number();
    if (name == "bool") return j.is_boolean();
    if (name == "null") return j.is_null();
    return true;
  }

  static std::string describe(type const& t) {
    switch (t.what) {
      case list:
      case fixed:
        return "a list";
      case object:
      case map: {
        std::string keys = "an object {";
        for (auto const& f : t.fields) keys += (keys.back() == '{' ? "" : ", ") + f.key;
        return keys + "}";
      }
      case literal:
        return "\"" + t.name + "\"";
      case either: {
        std::string all;
        for (auto const& f : t.fields) all += (all.empty() ? "" : " or ") + describe(*f.of);
        return all;
      }
      default:
        return t.name;
    }
  }

  type const& resolve(type const& t) const {
    type const* r = &t;
    while (r->what == named) {
      auto const d = definitions_.find(r->name);
      if (d == definitions_.end()) throw std::logic_error("schema: no definition of " + r->name);
      r = d->second.get();
    }
    return *r;
  }

  std::optional<std::string> fault(json const& j, type const& unresolved, std::string const& at) const {
    type const& t = resolve(unresolved);
    auto const wrong = [&] { return at + ": expected " + describe(t) + ", got " + j.dump().substr(0, 60); };
    switch (t.what) {
      case simple:
        return is(j, t.name) ? std::nullopt : std::optional(wrong());
      case literal:
        return j == t.name ? std::nullopt : std::optional(wrong());
      case list:
      case fixed: {
        if (!j.is_array() || (t.what == fixed && j.size() != t.fields.size())) return wrong();
        for (std::size_t i = 0; i < j.size(); ++i)
          if (auto f = fault(j[i], *t.fields[t.what == fixed ? i : 0].of, at + "[" + std::to_string(i) + "]"))
            return f;
        return std::nullopt;
      }
      case map:
        if (!j.is_object()) return wrong();
        for (auto const& [key, value] : j.items())
          if (auto f = fault(value, *t.fields[0].of, at + "." + key)) return f;
        return std::nullopt;
      case object:
        return object_fault(j, t, at);
      default:
        return choice_fault(j, t, at);
    }
  }

  std::optional<std::string> object_fault(json const& j, type const& t, std::string const& at) const {
    if (!j.is_object()) return at + ": expected " + describe(t) + ", got " + j.dump().substr(0, 60);
    for (auto const& [key, value] : j.items()) {
      auto const known = std::ranges::find(t.fields, key, &type::field::key);
      if (known == t.fields.end()) return at + ": unknown key '" + key + "'";
      if (auto f = fault(value, *known->of, at + "." + key)) return f;
    }
    for (auto const& f : t.fields)
      if (!f.optional && !j.contains(f.key)) return at + ": no key '" + f.key + "'";
    return std::nullopt;
  }

  /// Returns the fault in the intended alternative. Among objects this is the one that has the first key.
  std::optional<std::string> choice_fault(json const& j, type const& t, std::string const& at) const {
    std::optional<std::string> meant;
    for (auto const& f : t.fields) {
      auto const found = fault(j, *f.of, at);
      if (!found) return std::nullopt;
      type const& option = resolve(*f.of);
      bool const knows =
          option.what == object && j.is_object() && !j.empty() &&
          std::ranges::find(option.fields, j.begin().key(), &type::field::key) != option.fields.end();
      if (knows || (j.is_array() && (option.what == list || option.what == fixed)) ||
          (j.is_object() && option.what == map))
        meant = found;
    }
    return meant ? meant : at + ": expected " + describe(t) + ", got " + j.dump().substr(0, 60);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::map<std::string, type_ptr> definitions_;
};

}  // namespace cleave::conformance
